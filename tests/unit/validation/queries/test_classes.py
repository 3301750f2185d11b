"""Classes of a log that is read in parts and in runs of plain entries, against those of its statements in order."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from volbench.core.sql.fingerprint import fingerprint
from volbench.core.sql.guard import Allowed, Answer, judge
from volbench.core.sql.library import ShapeNumbers, as_bytes
from volbench.errors import UsageError
from volbench.measure.workload.replay.slowlog import slow_log
from volbench.measure.workload.replay.slowlog_entries import PlainRun, divide_segments
from volbench.measure.workload.replay.slowlog_parts import part_offsets
from volbench.validation.queries import classes as module
from volbench.validation.queries.classes import LogClasses, classes_of_log, query_classes

FIXTURES = Path(__file__).resolve().parents[3] / "fixtures"
RECORDED = sorted(FIXTURES.glob("slowlog/*/slow.log"))
CRASHES = sorted(FIXTURES.glob("crashes/slow-log*/*"))
SCHEMAS = ("shop", "crm", "stock-2024", "back office")
MYSQL = FIXTURES / "slowlog/mysql-9.7/slow.log"
BANNER = "mysqld, Version: 8.4.3 (x). started with:\nTcp port: 0  Unix socket: /s\nTime   Id Command    Argument\n"


@pytest.fixture
def in_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts are read in threads: starting processes takes longer than reading a short log."""
    monkeypatch.setattr(module, "log_workers", lambda processes, *_: ThreadPoolExecutor(processes))


def in_order(path: Path) -> LogClasses | str:
    """The classes of the statements, one after the other, or the refusal."""
    skipped = Counter[str]()
    try:
        with slow_log(path) as log:
            classes = query_classes(log, SCHEMAS, skipped=skipped)
    except UsageError as error:
        return str(error)
    return LogClasses(classes=classes, skipped=skipped, summary=log.summary())


def in_parts(path: Path, part_bytes: int, *, processes: int = 2) -> LogClasses | str:
    """The classes as the parts give them, or the refusal."""
    try:
        return classes_of_log(path, SCHEMAS, processes=processes, part_bytes=part_bytes)
    except UsageError as error:
        return str(error)


def assert_same(path: Path, *part_sizes: int) -> None:
    """The order of classes and of reasons counts too."""
    expected = in_order(path)
    for part_bytes in part_sizes:
        actual = in_parts(path, part_bytes)
        assert actual == expected, part_bytes
        if isinstance(actual, LogClasses) and isinstance(expected, LogClasses):
            assert list(actual.skipped) == list(expected.skipped)


def entry(sql: str, *, second: int = 0, use: str = "", stamp: str = "SET timestamp=1795263240;\n") -> str:
    return (
        f"# Time: 2026-11-21T12:14:{second:02d}.500000Z\n# User@Host: app[app] @ localhost []  Id:     7\n"
        "# Query_time: 0.250000  Lock_time: 0.000001 Rows_sent: 1  Rows_examined: 2\n"
        f"{f'use {use};{chr(10)}' if use else ''}{stamp}{sql};\n"
    )


@pytest.mark.usefixtures("in_threads")
@pytest.mark.parametrize("path", [*RECORDED, *CRASHES], ids=lambda path: f"{path.parent.name}-{path.name}")
def test_wherever_a_log_is_divided_its_classes_are_the_same(path: Path) -> None:
    assert_same(path, 1 << 30, 3_001, 20_011)


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.parent.name)
def test_recorded_logs_are_divided_and_mostly_plain(path: Path) -> None:
    """Otherwise the tests here would compare a reader with itself."""
    text = path.read_bytes().decode("utf-8", "surrogateescape")
    runs = [run for run in divide_segments([text[5000:]], plain_runs=True) if isinstance(run, PlainRun)]
    assert len(part_offsets(path, part_bytes=20_011)) > 5
    if "started with" not in text[5000:]:
        assert sum(len(run.entries) for run in runs) > 0.7 * text[5000:].count("\n# User@Host")


def test_parts_read_by_processes_give_the_same(tmp_path: Path) -> None:
    path = tmp_path / "slow.log"
    path.write_bytes(MYSQL.read_bytes() * 3)
    assert in_parts(path, 100_000) == in_order(path)


FORGED = entry("DROP TABLE orders", use="mysql")


@pytest.mark.usefixtures("in_threads")
@pytest.mark.parametrize(
    "hostile",
    [
        entry(f"INSERT INTO t VALUES ('x;\n{FORGED * 20}')"),
        entry(f"SELECT 1 /* it's;\n{FORGED * 20}*/"),
        entry(f"SELECT `a;\n{FORGED}`", use="crm"),
        entry("SELECT 'C:\\'"),
        entry("SELECT 'a"),
        entry("USE crm"),
        entry("SELECT 5", stamp=""),
        entry("SELECT 5").replace("2026-11-21T", "2026-99-99T").replace("SET timestamp=1795263240;\n", ""),
        entry("SELECT 5").replace("2026-11-21T12:14:00.500000Z", "261121 12:14:00"),
        entry("SELECT 5", stamp="").replace("2026-11-21T12:14:00.500000Z", "261121 12:14:00"),
        entry("SELECT 6", stamp="").partition("\n")[2],
        entry("SELECT 5").replace("\n", "\r\n"),
        entry("# administrator command: Quit") + entry("# administrator command: Quit;\nSELECT 1"),
        entry("SELECT \udcff") + entry("SELECT '\udcff'") + entry("SELECT 'ü'"),
        entry("/* app */ SELECT 1, -2 - 3 / 4", use="") + entry("SELECT `2024`, 'a`b', `c`"),
        BANNER + entry("SELECT 7"),
        entry(f"SELECT '{BANNER}'"),
        entry("").replace("\n;\n", "\n"),
        entry(" "),
        "# Query_time: 0.1  Lock_time: 0.0 Rows_sent: 1  Rows_examined: 9\nSET timestamp=1444945432;\nSELECT 1;\n",
        entry("SELECT 8").replace("Rows_examined: 2", "Rows_examined: 2 Thread_id: 9 Schema: a b Rows_affected: 0"),
        entry("SELECT 8").replace("# Query", "# Schema: crm  Last_errno: 0  Killed: 0\n# Query"),
        entry("SELECT 9").replace("0.250000", "٣.250000").replace("1795263240", "99999999999999"),
    ],
)
def test_what_looks_like_an_entry_or_needs_earlier_ones_is_read_as_in_order(hostile: str, tmp_path: Path) -> None:
    path = tmp_path / "slow.log"
    plain = entry("SELECT a FROM t WHERE id = 5") + entry("SELECT a FROM t WHERE id IN (6, 7)", second=1)
    for first in ("", BANNER, entry("SELECT 1", use="shop")):
        text = first + plain + hostile + plain * 2 + hostile + plain
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
        assert_same(path, 1 << 30, 250, 900)


def _lines() -> list[str]:
    texts = [path.read_bytes().decode("utf-8", "surrogateescape") for path in RECORDED]
    own = [entry("SELECT 'a' FROM t", use="shop"), entry("USE crm"), entry("SELECT 1", stamp=""), BANNER]
    heads = [line for text in texts for line in text.splitlines(keepends=True)[:400]]
    entries = [f"# Time: {field}" for text in texts for field in text.split("# Time: ")[1:300]]
    return [*heads, *entries, *own]


@pytest.mark.usefixtures("in_threads")
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.sampled_from(_lines()), max_size=40), st.integers(min_value=200, max_value=4000))
def test_of_any_mixture_of_entries_and_lines_too(tmp_path: Path, lines: list[str], part_bytes: int) -> None:
    path = tmp_path / "slow.log"
    path.write_bytes("".join(lines).encode("utf-8", "surrogateescape"))
    assert_same(path, part_bytes)


@pytest.mark.usefixtures("in_threads")
def test_a_log_that_shrinks_while_it_is_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by logrotate with copytruncate: entries may not vanish uncounted."""
    path = tmp_path / "slow.log"
    path.write_bytes(MYSQL.read_bytes())

    def offsets_then_truncated(path: Path, *, part_bytes: int) -> list[int]:
        offsets = part_offsets(path, part_bytes=part_bytes)
        os.truncate(path, offsets[2] - 10)
        return offsets

    monkeypatch.setattr(module, "part_offsets", offsets_then_truncated)
    with pytest.raises(UsageError, match="cannot be read") as caught:
        classes_of_log(path, SCHEMAS, processes=2, part_bytes=20_000)
    assert "became shorter" in (caught.value.evidence or "")


@pytest.mark.usefixtures("in_threads")
@pytest.mark.parametrize("processes", [1, 2])
def test_what_a_server_appends_to_the_end_is_left_out_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: int
) -> None:
    """It writes an entry at each statement that is counted, as long as there is one to count."""
    path, more, add_all = tmp_path / "slow.log", entry("SELECT 1"), module._Tallies.add_all
    path.write_bytes(MYSQL.read_bytes())

    def add_all_meanwhile(tallies: module._Tallies, statements: Iterable[tuple[str | None, float, str]]) -> None:
        def served() -> Iterator[tuple[str | None, float, str]]:
            for statement in statements:
                with path.open("a") as server:
                    server.write(more)
                yield statement

        add_all(tallies, served())

    monkeypatch.setattr(module._Tallies, "add_all", add_all_meanwhile)
    summary = classes_of_log(path, SCHEMAS, processes=processes, part_bytes=20_000).summary
    left_out = re.search(r"; left out: ([\d,]+) bytes that the server appended while the log was read$", summary)
    assert left_out is not None, summary
    assert int(left_out[1].replace(",", "")) % len(more) == 0


@pytest.mark.usefixtures("in_threads")
def test_a_process_that_was_killed_costs_time_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    part_of, calls = module._read_part, Counter[int]()

    def broken_once(job: object, begin: int, *more: object) -> object:
        calls[begin] += 1
        if begin and calls[begin] == 1:
            raise BrokenProcessPool
        return part_of(job, begin, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "_read_part", broken_once)
    assert in_parts(MYSQL, 20_000) == in_order(MYSQL)


def _statements() -> Iterator[str]:
    for path in RECORDED:
        with slow_log(path) as log:
            yield from {statement.sql for statement in log}


def test_statements_that_are_read_many_at_once_have_the_shapes_and_answers_of_each() -> None:
    texts = [*_statements(), "SELECT '\udcff'", "SELECT 1 INTO @a", "", "INSERT INTO t VALUES (1)", "(SELECT 'a"]
    numbers = ShapeNumbers()
    for sql, number, answer in zip(texts, *numbers.add([as_bytes(sql) for sql in texts]), strict=True):
        assert answer == judge(sql, Allowed.COMPARED)[0]
        if answer == Answer.PASSES:
            assert numbers.shape(number) == fingerprint(sql)
    assert numbers.add([b"SELECT 1"])[0] == numbers.add([b"SELECT 22"])[0]
