"""Samples every source while a cell runs, and writes the rows to the cell's tables afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from volbench.core.base.programs import Popen
from volbench.core.records.cell import StepResult
from volbench.core.records.series import HistogramRow
from volbench.measure.execute.cell.cell_run import CellRun
from volbench.measure.sample.controller import SamplingProcess


@contextmanager
def sampling(run: CellRun, launched: Popen | None = None) -> Iterator[None]:
    """Run the sampling process during the block, and record its rows however the block ends."""
    process = SamplingProcess(run.sampling_config(), launched=launched)
    process.start()
    try:
        yield
    finally:
        from volbench.measure.sample.rows import histogram_rows, series_rows  # noqa: PLC0415 - imports all sources

        run.builder.sources.extend(process.stop())
        run.record.series(series_rows(process.raw_file))
        run.record.histograms(label_with_step(histogram_rows(process.raw_file), run.builder.steps))


def label_with_step(rows: Iterator[HistogramRow], steps: Sequence[StepResult]) -> Iterator[HistogramRow]:
    """Yield rows with the name of the step that ran; an interval inside the step's window counts as measured."""
    for row in rows:
        for step in steps:
            t0_s, t1_s = step.window_s
            if "/" not in step.step and t0_s < row.t_s and row.t_s - row.interval_s < t1_s:
                inside = t0_s <= row.t_s - row.interval_s and row.t_s <= t1_s
                yield replace(row, step=step.step, measured=inside)
                break
