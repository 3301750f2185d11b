"""The truth that recordings of a public repository are held against: sysbench's own logs of the same runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from recordings.public import Outcome, plateau_lines, throughputs, transactions, verdict

RUNS = {8: 1215.0, 16: 1610.0, 32: 1767.0, 64: 1834.0, 128: 1876.0, 256: 1618.0, 512: 1216.0}
SUMMARY = "    transactions:                        1081540 (1799.52 per sec.)\n"


@pytest.mark.parametrize(
    ("threads", "expected"),
    [
        (8, "false"),
        (16, "false"),
        (32, "confirmed"),
        (128, "confirmed"),
        (256, "false"),
        (512, "false"),
        (7, "open"),
    ],
)
def test_a_plateau_is_where_no_other_number_of_threads_does_more(threads: int, expected: str) -> None:
    assert verdict(threads, RUNS) == expected


def test_without_a_run_of_other_threads_nothing_is_confirmed() -> None:
    assert verdict(64, {64: 100.0}) == "open"
    assert verdict(64, {64: 100.0, 96: 99.0}) == "open"


@pytest.mark.parametrize("log", ["sysbench.rw.64.res", "sysbench.64.res"])
def test_the_log_beside_a_recording_tells_its_transactions(tmp_path: Path, log: str) -> None:
    (tmp_path / log).write_text(SUMMARY)
    assert transactions(str(tmp_path / "iostat.rw.64.res")) == 1799.52
    assert transactions(str(tmp_path / "iostat.rw.32.res")) is None


def test_where_a_run_has_no_log_the_device_decides_for_the_whole_sweep(tmp_path: Path) -> None:
    (tmp_path / "sysbench.rw.64.res").write_text(SUMMARY)
    outcomes = [Outcome(path=str(tmp_path / f"iostat.rw.{n}.res"), rate=10.0 * n) for n in (32, 64)]
    assert throughputs(outcomes) == {f"{tmp_path}:rw": {32: 320.0, 64: 640.0}}
    (tmp_path / "sysbench.rw.32.res").write_text(SUMMARY)
    assert throughputs(outcomes) == {f"{tmp_path}:rw": {32: 1799.52, 64: 1799.52}}


def test_the_runs_of_the_card_are_counted_by_their_place_on_the_plateau() -> None:
    directory = "/copy/sysbench-runs/series36/res04"
    named = [f"{directory}/iostat.rw.{threads}.res" for threads in (32, 64, 512)]
    _, line = plateau_lines(named, {f"{directory}:rw": RUNS})
    assert line.endswith(
        "rw, 32 threads or more: 5 runs, 3 at a plateau by their logs, of which 2 are named; of the other 2 1, of 2"
        " with fewer threads 0"
    )
