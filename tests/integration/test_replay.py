"""A log of 50,000 statements on a real server: all sent when due, faults of the candidate named, none invented."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from featured_schema import ACCOUNTS, SCHEMA, STATEMENTS
from scratch_server import ScratchServer, scratch_server
from slow_log_writer import Shop, slow_log

from volbench.core.records.validation.plan import ReplayPlan
from volbench.core.records.validation.result import CheckRow, Replayed
from volbench.machine.engine.connection import Account, connection
from volbench.validation.replay.evaluation import replay, replay_check
from volbench.validation.source.file_sizes import binlog_bytes, resolution_bytes, tablespace_bytes
from volbench.validation.source.server import read_only

pytestmark = pytest.mark.mysqld
ATTEMPTS = 3
"""A replay that other work on the machine left undecided is made again."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScratchServer]:
    with scratch_server(tmp_path_factory.mktemp("candidate")) as candidate:
        run(candidate, *ACCOUNTS, *STATEMENTS)
        yield candidate


def account(server: ScratchServer) -> Account:
    return Account(user="root", socket=str(server.socket))


def run(server: ScratchServer, *statements: str) -> None:
    with connection(account(server), timeout_s=60) as opened, opened.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def replayed(
    tmp_path: Path, directory: Account, shop: Shop, *, writes: bool = False, **plan: object
) -> tuple[Replayed, CheckRow]:
    """The shop's log on the server. Other work on the machine makes starts late, so that is allowed here."""
    path = tmp_path / "slow.log"
    with path.open("w") as log:
        log.writelines(slow_log(shop))
    checked = ReplayPlan.model_validate({"slow_log": str(path), "late_max": "50%", **plan})
    result = replay(checked, directory, schemas=[SCHEMA], writes=writes, progress=lambda *_: None)
    return result, replay_check(result, checked)


def too_busy(check: CheckRow) -> bool:
    """Whether the replay is undecided, and says that the machine was too busy; any other doubt is a failure."""
    if check.decision != "undecided":
        return False
    assert any(reason in check.text for reason in ("too busy to judge", "by the client's own fault")), check
    return True


def test_fifty_thousand_statements_are_sent_when_they_are_due(tmp_path: Path, server: ScratchServer) -> None:
    result, check = replayed(tmp_path, account(server), Shop(statements=54_000), speed=2.0)
    assert result.statements >= 49_500  # without those that call stored functions, which may write
    assert (result.sent, result.errors) == (result.statements, {})
    assert result.excluded["that do more than read"] > 2000
    assert result.duration_s >= 0.9 * result.planned_s
    assert too_busy(check) or result.duration_s == pytest.approx(result.planned_s, rel=0.1)
    assert too_busy(check) or check.decision == "go", check
    assert server.query("SELECT COUNT(*) FROM shop.audit") == [(0,)]


def test_writes_are_sent_to_a_disposable_candidate_only(tmp_path: Path, server: ScratchServer) -> None:
    """MariaDB's log, which knows the second only, and says so."""
    result, check = replayed(
        tmp_path, account(server), Shop(statements=3000, flavor="mariadb"), writes=True, connections=8
    )
    written = server.query("SELECT COUNT(*) FROM shop.audit")[0][0]
    assert isinstance(written, int)
    assert 100 < written < 220
    assert (result.errors, result.second_resolution, result.connections) == ({}, True, 8)
    text = "\n".join(check.details)
    assert "has whole seconds" in text
    assert "restore its data" in text
    assert "shared a connection" in text


@contextmanager
def settings_as(server: ScratchServer, view: str) -> Iterator[None]:
    run(server, "RENAME TABLE shop.settings TO shop.settings_", f"CREATE VIEW shop.settings AS {view}")
    try:
        yield
    finally:
        run(server, "DROP VIEW shop.settings", "RENAME TABLE shop.settings_ TO shop.settings")


def test_a_class_that_became_slower_is_named_and_no_other(tmp_path: Path, server: ScratchServer) -> None:
    """A busy machine may leave it open; another class is never named."""
    expected = "select v from settings where k = ?"
    with settings_as(server, "SELECT k, v FROM shop.settings_ WHERE SLEEP(0.05) = 0"):
        for _ in range(ATTEMPTS):
            result, check = replayed(tmp_path, account(server), Shop(statements=4000, writes=False))
            assert {query_class.fingerprint for query_class in result.classes if query_class.slower} <= {expected}
            if not too_busy(check):
                break
        else:
            return
    assert check.decision == "no-go", check
    assert [query_class.fingerprint for query_class in result.classes if query_class.slower] == [expected]
    assert expected.partition(" where")[0] in check.details[0]


def test_errors_are_counted_by_code(tmp_path: Path, server: ScratchServer) -> None:
    with settings_as(server, "SELECT k FROM shop.settings_"):
        result, check = replayed(tmp_path, account(server), Shop(statements=2000, writes=False))
    assert check.decision == "no-go"
    ((text, count),) = result.errors.items()
    assert text.startswith("1054 Unknown column 'v'")
    assert (
        count
        == next(query_class.errors for query_class in result.classes if "settings" in query_class.fingerprint)
        > 50
    )


def test_what_fills_the_files_is_told_by_this_flavor_too(server: ScratchServer) -> None:
    """12 MiB in rows of which three fill a page of 16 KiB."""
    with read_only(account(server)) as source:
        before, logs = tablespace_bytes(source), binlog_bytes(source)
    many = "FROM (SELECT 1 FROM shop.customers LIMIT 800) a JOIN (SELECT 1 n UNION SELECT 2 UNION SELECT 3) b"
    run(
        server,
        "CREATE TABLE shop.filled (id INT AUTO_INCREMENT PRIMARY KEY, what VARBINARY(4100))",
        f"INSERT INTO shop.filled (what) SELECT REPEAT('x', 4096) {many}",
    )
    with read_only(account(server)) as source:
        after = tablespace_bytes(source)
    run(server, "DROP TABLE shop.filled")
    assert before is not None
    assert after is not None
    assert set(after) - set(before) == {"shop/filled"}
    added = after["shop/filled"]
    assert added == pytest.approx(800 * 16384, abs=resolution_bytes(added))
    assert before["shop/orders"] == after["shop/orders"]
    assert logs == 0


def test_a_server_that_is_gone_ends_the_replay(tmp_path: Path) -> None:
    """Each connection gives up after a few attempts; what was not sent is no-go, and never counts as fast."""
    gone = Account(user="root", socket=str(tmp_path / "nobody"))
    result, check = replayed(tmp_path, gone, Shop(statements=500, writes=False))
    assert check.decision == "no-go"
    (not_sent,) = (int(detail.split()[0]) for detail in check.details if "were not sent" in detail)
    assert result.sent + not_sent >= result.statements
    assert all(query_class.service_ms_p95 is None for query_class in result.classes)
