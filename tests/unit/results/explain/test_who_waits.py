"""A volume that is slow at what no client waits for is no cause, however slow it is.

Steps are constructed: a volume that is slow at reads or at writes for the last third, and a server that waits for
one of both. And a step of a real kernel: others' writes are delayed by 80 ms, and every client reads.
"""

from __future__ import annotations

import numpy as np
import pytest
from kernel_throttle import with_columns
from recorded_step import recorded_step

from volbench.core.records.named_metrics import CPU, PSI, Diskstats, NamedMetric, PerformanceSchema
from volbench.results.explain.case import Case
from volbench.results.explain.causes import findings_of_rules
from volbench.results.explain.findings import explain_case
from volbench.results.stats.grid import Grid
from volbench.results.store.series import SeriesKey

SECONDS = 30
LATE = np.arange(SECONDS) >= 20
UNEVEN = 32 * np.array([1.0, 0.8, 0.9, 0.7])[np.arange(SECONDS) % 4]
STEP = "calm-reads-slow-writes"


def step(slow: str, waits: str) -> Case:
    """A volume that is slow at one direction late in a step, and a server whose sessions wait for one."""
    slow_ms = np.where(LATE, 200.0, 1.0)
    figures = {
        (Diskstats.reads_per_s, "sda"): UNEVEN,
        (Diskstats.writes_per_s, "sda"): UNEVEN,
        (NamedMetric("diskstats", "r_await_ms"), "sda"): slow_ms if slow == "reads" else 1.0,
        (NamedMetric("diskstats", "w_await_ms"), "sda"): slow_ms if slow == "writes" else 1.0,
        (Diskstats.util_ratio, "sda"): np.where(LATE, 0.9, 0.1),
        (PerformanceSchema.statement_s_per_s, ""): 4.0,
        (PerformanceSchema.wait_s_per_s, "file_data"): 3.0 if waits == "reads" else 0.0,
        (PerformanceSchema.wait_s_per_s, "file_redo"): 3.0 if waits == "writes" else 0.0,
        (PerformanceSchema.file_reads_per_s, "data"): 40.0 if waits == "reads" else 0.0,
        (PerformanceSchema.file_read_s_per_s, "data"): 3.0 if waits == "reads" else 0.0,
        (PerformanceSchema.file_syncs_per_s, "redo"): 40.0 if waits == "writes" else 0.0,
        (CPU.user_ratio, ""): 0.2,
        (CPU.system_ratio, ""): 0.1,
    }
    columns = {
        SeriesKey(source=metric.source, metric=metric.name, entity=entity): np.broadcast_to(
            np.asarray(value, dtype=np.float64), (SECONDS,)
        ).copy()
        for (metric, entity), value in figures.items()
    }
    grid = Grid(t_s=np.arange(1.0, SECONDS + 1), width_s=1.0, columns=columns)
    return Case(name="step", grid=grid, cell_grid=grid, threads=8, cpus=2)


@pytest.mark.parametrize(
    ("slow", "waits", "named"),
    [("writes", "writes", True), ("writes", "reads", False), ("reads", "reads", True), ("reads", "writes", False)],
)
def test_a_volume_is_slow_for_those_who_wait_for_what_it_is_slow_at(slow: str, waits: str, named: bool) -> None:
    case = step(slow, waits)
    causes = {finding.cause for finding in findings_of_rules({"volume": case, "step": case})}
    assert ("storage.degraded" in causes) is named


def test_writes_of_others_that_are_slow_accuse_no_volume_that_clients_only_read() -> None:
    """A write takes 100 ms for the last half of the step; a read takes 8 all along, of which CPUs have the most."""
    assert explain_case(recorded_step(STEP)).findings == ()


def test_a_read_of_eight_ms_is_slow_on_idle_cpus() -> None:
    case = recorded_step(STEP)
    idle = {
        (metric.source, metric.name, ""): 0.1 for metric in (CPU.user_ratio, CPU.system_ratio, PSI.cpu_some_ratio)
    }
    assert "storage.read_latency" in [finding.cause for finding in explain_case(with_columns(case, idle)).findings]
