"""Steps whose series are constants or columns of our own: 30 seconds; what a step does not mention is absent."""

from __future__ import annotations

from typing import Any

import numpy as np

from volbench.core.records.named_metrics import NamedMetric, PerformanceSchema
from volbench.results.explain.case import Case
from volbench.results.stats.grid import Floats, Grid
from volbench.results.store.series import SeriesKey

SECONDS = 30
MIB = 2**20
Value = float | Floats
Series = dict[NamedMetric | tuple[NamedMetric, str], Value]
PS = PerformanceSchema


def case_of(series: Series, **facts: Any) -> Case:
    columns = {}
    for key, value in series.items():
        metric, entity = key if isinstance(key[0], NamedMetric) else (key, "")
        assert isinstance(metric, NamedMetric)
        columns[SeriesKey(source=metric.source, metric=metric.name, entity=str(entity))] = np.broadcast_to(
            np.asarray(value, dtype=np.float64), (SECONDS,)
        ).copy()
    grid = Grid(t_s=np.arange(1.0, SECONDS + 1), width_s=1.0, columns=columns)
    return Case(name="step", grid=grid, cell_grid=grid, **{"threads": 8, "cpus": 2, **facts})


def disk(*, reads: Value = 100.0, r_await: Value = 1.0, writes: Value = 0.0, **more: Value) -> Series:
    """A volume as the kernel counts it."""
    figures = {"reads_per_s": reads, "r_await_ms": r_await, "writes_per_s": writes, "w_await_ms": 1.0, **more}
    return {(NamedMetric("diskstats", name), "sda"): value for name, value in figures.items()}


def statements(seconds: float = 8.0, **waits: Value) -> Series:
    """Statement time a second and shares of it that are waits, by performance_schema's names."""
    return {
        PS.statement_s_per_s: seconds,
        **{(PS.wait_s_per_s, name): np.asarray(share) * seconds for name, share in waits.items()},
    }


def reads_of(share: float, each_ms: float, seconds: float = 8.0) -> Series:
    """The server's reads of data files: their share of statement time, and how long each takes."""
    return {
        **statements(seconds, file_data=share),
        (PS.file_read_s_per_s, "data"): share * seconds,
        (PS.file_reads_per_s, "data"): share * seconds / each_ms * 1000,
        **disk(reads=share * seconds / each_ms * 1000, r_await=each_ms),
    }


def syncs_of(share: float, each_ms: float, seconds: float = 8.0) -> Series:
    """The same of syncs of the redo log."""
    rate = share * seconds / each_ms * 1000
    return {
        **statements(seconds, file_redo=share),
        (PS.file_sync_s_per_s, "redo"): share * seconds,
        (PS.file_syncs_per_s, "redo"): rate,
        **disk(reads=0.0, writes=rate),
    }
