"""After the steps of a cell: the storage's metrics of each, and whether its numbers are valid."""

from __future__ import annotations

import logging
import os

from volbench.measure.execute.cell.cell_run import CellRun
from volbench.results.compare.cell_metrics import storage_metrics
from volbench.results.compare.validity.observation import CellObservation, observe
from volbench.results.compare.validity.reasons import (
    covariates_of,
    delayable_share_of,
    disturbances_of,
    invalid_reasons,
    notes_of,
    outside_reasons,
)
from volbench.results.store.run_directory import SERIES_FILE

_log = logging.getLogger(__name__)


def judge(run: CellRun) -> None:
    """Add the storage's metrics to each step, and judge whether its numbers are valid."""
    cell, builder = run.cell, run.builder
    series = run.out / SERIES_FILE
    quiet_s = builder.window_of("quiet")
    for number, step in enumerate(builder.steps):
        observation: CellObservation = observe(
            series,
            step,
            quiet_s=quiet_s,
            interval_s=cell.sampling.interval_s,
            clock_step_s=builder.clock_step_s(),
            cpus=os.cpu_count(),
        )
        reasons = (*step.invalid_reasons, *invalid_reasons(observation, cell.limits))
        _log.info("step %s is %s", step.step, f"invalid: {'; '.join(map(str, reasons))}" if reasons else "valid")
        builder.steps[number] = step.model_copy(
            update={
                "metrics": {**storage_metrics(series, step.window_s, step.spans_s), **step.metrics},
                "valid": not reasons,
                "invalid_reasons": reasons,
                "notes": (*step.notes, *notes_of(observation)),
                "outside_reasons": outside_reasons(observation, cell.limits),
                "disturbances": disturbances_of(observation, cell.limits),
                "delayable_share": delayable_share_of(observation),
                "covariates": covariates_of(observation, cell.limits),
            }
        )
