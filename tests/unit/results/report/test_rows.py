"""Rows of the report that are computed from several files."""

from __future__ import annotations

from pathlib import Path

import pytest
import synthetic_run

from volbench.core.records.report import CellRow, ServerRow
from volbench.core.records.run import JournalEvent
from volbench.results.report.rows.cells import data_row, timing

READY = JournalEvent(at="2026-03-02T09:30:00Z", event="template_ready", details={"bytes": 2**30})


def row(cell_id: str, window_s: tuple[float, float]) -> CellRow:
    return CellRow(
        cell_id=cell_id,
        volume="a",
        step="s",
        kind="oltp",
        parameters={},
        block=0,
        repeat=1,
        valid=True,
        window_s=window_s,
    )


def test_data_is_set_against_the_buffer_pool() -> None:
    data = data_row(
        [READY], ServerRow(flavor="mysql", version="9", variables={"innodb_buffer_pool_size": str(2**28)})
    )
    assert data is not None
    assert data.data_to_pool_ratio == 4


def test_an_unknown_buffer_pool_leaves_the_ratio_out() -> None:
    data = data_row([READY], None)
    assert data is not None
    assert data.bytes == 2**30
    assert data.data_to_pool_ratio is None


def test_without_a_template_there_is_no_data_row() -> None:
    assert data_row([], None) is None


def test_steps_that_ran_at_the_same_time_are_measured_once(tmp_path: Path) -> None:
    run = synthetic_run.build_run(tmp_path, synthetic_run.two_volumes()).run
    cells = [row("01-a", (0, 60)), row("01-a", (10, 20)), row("01-a", (50, 70)), row("02-a", (5, 15))]
    assert timing(run, [], cells).measured_s == pytest.approx(80)
