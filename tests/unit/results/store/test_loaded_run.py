"""A run is read once, however much is made of it."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from synthetic_run import OLTP, build_run, two_volumes

from volbench.core.base import safe_files
from volbench.errors import RunUnreadable
from volbench.results.report.cross_run import compare_runs
from volbench.results.report.render import write_reports
from volbench.results.store import loaded_run
from volbench.results.store.loaded_run import load_run
from volbench.results.store.run_directory import RunDirectory

COUNTED = ("run.json", "result.json", "journal.jsonl", "series.parquet", "histograms.parquet")
_counters: list[Counter[str]] = []


@pytest.fixture(scope="module", autouse=True)
def _audit() -> None:
    """Count opens from here on; an audit hook stays for the life of the process."""

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" and _counters and isinstance(arguments[0], str):
            _counters[-1][Path(arguments[0]).name] += 1

    sys.addaudithook(hook)


@pytest.fixture(autouse=True)
def _without_openat2(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are opened by os.open, which the hook sees, and not by a system call of our own."""
    monkeypatch.setattr(safe_files, "has_openat2", lambda: False)


@contextmanager
def opens() -> Iterator[Counter[str]]:
    """Count the files that are opened in the block by their names."""
    _counters.append(Counter())
    try:
        yield _counters[-1]
    finally:
        _counters.pop()


@pytest.fixture(scope="module")
def ten_cells(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    return build_run(tmp_path_factory.mktemp("results"), two_volumes(steps=(OLTP,)))


def test_a_report_opens_each_file_of_the_run_once(ten_cells: RunDirectory) -> None:
    """Ten cells: one run.json, ten results, twenty tables for report.json, report.md and report.html together."""
    with opens() as counted:
        write_reports(RunDirectory.open(ten_cells.path))
    assert {name: counted[name] for name in COUNTED} == {
        "run.json": 1,
        "result.json": 10,
        "journal.jsonl": 1,
        "series.parquet": 10,
        "histograms.parquet": 10,
    }


def test_a_comparison_reads_no_table(ten_cells: RunDirectory) -> None:
    """It is made of the results alone."""
    with opens() as counted:
        compare_runs([ten_cells])
    assert [counted[name] for name in COUNTED] == [1, 10, 1, 0, 0]


def test_tables_beyond_the_limit_are_read_again(ten_cells: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory stays bounded; what is read is the same."""
    cell_id = ten_cells.run.cells[0].cell_id
    run = load_run(ten_cells)
    monkeypatch.setattr(loaded_run, "TABLES_BYTES_MAX", 1_000)
    not_kept = load_run(ten_cells)
    with opens() as counted:
        assert run.series(cell_id).keys() == not_kept.series(cell_id).keys()
        not_kept.series(cell_id)
    assert counted["series.parquet"] == 3


@pytest.mark.parametrize("read", ["series", "histograms"])
def test_a_damaged_table_is_told_to_everybody_who_asks(tmp_path: Path, read: str) -> None:
    """It is opened once, and its fault is raised each time."""
    directory = build_run(tmp_path, two_volumes(steps=(OLTP,), repeats=1))
    cell_id = directory.run.cells[0].cell_id
    (directory.cell_dir(cell_id) / f"{read}.parquet").write_bytes(b"PAR1")
    ask: Callable[[str], object] = getattr(load_run(directory), read)
    with opens() as counted:
        for _ in range(2):
            with pytest.raises(RunUnreadable, match=rf"{read}\.parquet"):
                ask(cell_id)
    assert counted[f"{read}.parquet"] == 1
