"""Estimates of a plan's time and space."""

from __future__ import annotations

from dataclasses import dataclass

from volbench.core.records.base import parse_server_size_bytes
from volbench.core.records.cell import ServerSpec
from volbench.core.records.dataset import DatasetSpec
from volbench.core.records.run import ResolvedSuite, RunRecord
from volbench.core.records.size_contrast import read_load_s, reads_s
from volbench.core.records.steps import Step, step_kind
from volbench.core.records.steps.base import SERVER_RESTART_S

ROW_BYTES = 235
"""A sysbench row in InnoDB with its secondary index: 1,000,000 rows are about 235 MB (measured on MySQL 9.7)."""
SERVER_FILES_BYTES = 400 * 2**20
"""System tablespaces, doublewrite, a redo log of DEFAULT_REDO_BYTES and the binary log of a start; no tables."""
DEFAULT_POOL_BYTES = 128 * 2**20
"""innodb_buffer_pool_size of MySQL and MariaDB, without innodb_dedicated_server."""
DEFAULT_REDO_BYTES = 100 * 2**20
"""innodb_redo_log_capacity of MySQL 8.0.30 and later; MariaDB's innodb_log_file_size is 96 MiB."""
CELL_OVERHEAD_S = 5.0
"""Imports of the agent, a second at rest, start and end of server and load, judgement (`cell_overhead`)."""
POD_OVERHEAD_S = SERVER_RESTART_S
"""The same where a pod has to be scheduled and started for each cell."""


@dataclass(frozen=True, kw_only=True)
class PlanCost:
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
    """Return about how large the tables are on disk."""
    if dataset.is_own:
        return dataset.size_bytes
    return dataset.tables * (dataset.rows * ROW_BYTES + 2**17)


def server_bytes(server: ServerSpec) -> int:
    """Return about how large the server's own files are.

    A value that is no size is left to the server to refuse.
    """
    return SERVER_FILES_BYTES + max(0, _redo_bytes(server) - DEFAULT_REDO_BYTES)


def buffer_pool_bytes(server: ServerSpec) -> int:
    """Return size of the server's buffer pool.

    The servers' default where the suite sets none, or what is no size.
    """
    try:
        set_to = server.option("innodb_buffer_pool_size")
        return DEFAULT_POOL_BYTES if set_to is None else parse_server_size_bytes(set_to)
    except ValueError:
        return DEFAULT_POOL_BYTES


def _redo_bytes(server: ServerSpec) -> int:
    """Return redo log.

    One file of MariaDB (since 10.5), two of MySQL before 8.0.30, which later ones still understand.
    """
    try:
        if (capacity := server.option("innodb_redo_log_capacity")) is not None:
            return parse_server_size_bytes(capacity)
        if (one_file := server.option("innodb_log_file_size")) is None:
            return DEFAULT_REDO_BYTES
        files = 1 if server.flavor == "mariadb" else int(server.option("innodb_log_files_in_group") or 2)
        return parse_server_size_bytes(one_file) * files
    except ValueError:
        return DEFAULT_REDO_BYTES


def _has_binlog(server: ServerSpec) -> bool:
    """Return whether the suite leaves the binary log on. Any text of `log_bin` is a name for its files."""
    switched_off = (server.option(name) in (True, 1, "1", "ON") for name in ("skip_log_bin", "disable_log_bin"))
    return server.option("log_bin") is not False and not any(switched_off)


def estimate(
    suite: ResolvedSuite, *, volumes: int, volume: str = "", overhead_s: float = CELL_OVERHEAD_S
) -> PlanCost:
    """Return the cost of running a suite on that many volumes, each cell after the other.

    Args:
        volume: name of the volume, or of a sweep's variant, whose speeds the suite's forecast may have.
        overhead_s: what a cell costs beside its data and its steps.
    """
    data = dataset_bytes(suite.dataset)
    costs = [step.cost_at(data, _predicted_speeds(suite, step, volume)) for step in suite.steps]
    measured_s = sum(cost.measured_s for cost in costs)
    unmeasured_s = sum(cost.unmeasured_s for cost in costs)
    kept_bytes = sum(cost.kept_bytes + (cost.binlog_bytes if _has_binlog(suite.server) else 0) for cost in costs)
    cells = volumes * suite.repeats
    sampling = suite.sampling
    load_s = read_load_s(
        sampling.size_contrast_s, interval_s=sampling.interval_s, steps_s=measured_s + unmeasured_s
    )
    seeded_bytes = data + server_bytes(suite.server)
    return PlanCost(
        cells=cells,
        wall_s=cells * (measured_s + unmeasured_s + overhead_s + data / 2**20 / 400) + volumes * reads_s(load_s),
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
