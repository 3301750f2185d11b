"""Estimates of a plan's time and space."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from volbench.records.base import Scalar, parse_size_bytes
from volbench.records.cell import DatasetSpec
from volbench.records.run import ResolvedSuite, RunRecord
from volbench.records.steps import Step, step_kind
from volbench.records.steps.base import SERVER_RESTART_S

ROW_BYTES = 235
"""A sysbench row in InnoDB with its secondary index: 1,000,000 rows are about 235 MB (measured on MySQL 9.7)."""
SERVER_FILES_BYTES = 400 * 2**20
"""System tablespaces, doublewrite, a redo log of DEFAULT_REDO_BYTES and the binary log of a start; no tables."""
DEFAULT_REDO_BYTES = 100 * 2**20
"""innodb_redo_log_capacity of MySQL 8.0.30 and later; MariaDB's innodb_log_file_size is 96 MiB."""
CELL_OVERHEAD_S = SERVER_RESTART_S
"""Copying a small template, starting and stopping the server."""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Estimates. `measured_s` is time inside steps' windows; spaces are for one cell, freed after it."""

    cells: int
    wall_s: float
    measured_s: float
    template_bytes: int
    volume_bytes: int


def replacements_max(run: RunRecord) -> int:
    """Return how many cells may be repeated because other work made them invalid."""
    return int(run.suite.replacements * len(run.cells))


def dataset_bytes(dataset: DatasetSpec) -> int:
    """About how large the tables are on disk."""
    if dataset.is_own:
        return dataset.size_bytes
    return dataset.tables * (dataset.rows * ROW_BYTES + 2**17)


def server_bytes(config: Mapping[str, Scalar]) -> int:
    """About how large the server's own files are. Before MySQL 8.0.30 there are two redo files."""
    capacity = config.get("innodb_redo_log_capacity")
    one_file, files = config.get("innodb_log_file_size"), config.get("innodb_log_files_in_group", 2)
    if capacity is None and one_file is not None:
        capacity = parse_size_bytes(one_file) * int(files)
    redo_bytes = DEFAULT_REDO_BYTES if capacity is None else parse_size_bytes(capacity)
    return SERVER_FILES_BYTES + max(0, redo_bytes - DEFAULT_REDO_BYTES)


def estimate(suite: ResolvedSuite, *, volumes: int, volume: str = "") -> Cost:
    """The cost of running a suite on that many volumes, each cell after the other.

    Args:
        volume: name of the volume, or of a sweep's variant, whose speeds the suite's forecast may have.
    """
    data = dataset_bytes(suite.dataset)
    costs = [step.cost_at(data, _predicted_speeds(suite, step, volume)) for step in suite.steps]
    measured_s = sum(cost.measured_s for cost in costs)
    unmeasured_s = sum(cost.unmeasured_s for cost in costs)
    kept_bytes = sum(cost.kept_bytes for cost in costs)
    cells = volumes * suite.repeats
    seeded_bytes = data + server_bytes(suite.server.config)
    return Cost(
        cells=cells,
        wall_s=cells * (measured_s + unmeasured_s + CELL_OVERHEAD_S + data / 2**20 / 400),
        measured_s=cells * measured_s,
        template_bytes=seeded_bytes,
        volume_bytes=seeded_bytes + kept_bytes + max((step.temporary_bytes() for step in suite.steps), default=0),
    )


def _predicted_speeds(suite: ResolvedSuite, step: Step, volume: str) -> dict[str, float]:
    """Return the forecast's figures of the step's speed on the volume, by the suffix of their row."""
    return {
        prediction.step.removeprefix(f"{step.name}/"): prediction.value
        for prediction in (suite.forecast.predictions if suite.forecast else ())
        if prediction.volume == volume
        and not prediction.against
        and prediction.metric == step_kind(step.kind).speed
        and prediction.step.startswith(f"{step.name}/")
    }
