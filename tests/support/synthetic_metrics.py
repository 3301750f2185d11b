"""What a synthetic step other than a load measured, and what other work delayed it by."""

from __future__ import annotations

from typing import Any

from volbench.core.records.cell import Disturbance
from volbench.core.records.metrics import MetricValue, metric
from volbench.core.records.steps import Step

CRASH_DETAILS: dict[str, Any] = {
    "fault": "power_cut",
    "volume_durability": "async",
    "settings": {"sync_binlog": "1"},
    "cuts": [{}, {}],
    "damaged_tables": [],
}
"""Of a crash step with two cuts."""


def delays(share_max: float | None) -> tuple[Disturbance, ...]:
    """The CPU use of others beyond its limit that delayed a step for at most this share of its time; None: none."""
    if share_max is None:
        return ()
    text = "other work used 30 % of the CPUs (limit 10 %)"
    return (Disturbance(kind="foreign_cpu", size=0.3, limit=0.1, delayed_share_max=share_max, text=text),)


def other_metrics(step: Step, length_s: float, *, speed: float, repeat: int) -> dict[str, MetricValue]:
    """Metrics of a step that is no load and took this long."""
    values: dict[str, float]
    if step.kind == "dump":
        values = {"dump_s": length_s, "dump_mib_per_s": 95 / length_s}
    elif step.kind == "restore":
        values = {"restore_s": length_s * 2, "restore_mib_per_s": 95 / length_s / 2}
    elif step.kind == "cold_read":
        values = {
            "cold_read_mib_per_s": 210 * speed,
            "table_scan_s": 4 / speed,
            "first_query_ms": 38 / speed,
            "warm_read_mib_per_s": 2900.0,
        }
    elif step.kind == "crash":
        values = {
            "commits_per_s": 250 * speed,
            "acknowledged_commits": float(round(4000 * speed)),
            "lost_commits": float(repeat),
            "lost_s": repeat / 100,
            "torn_commits": 0.0,
            "damaged_rows": 0.0,
            "damaged_tables": 0.0,
            "failed_recoveries": 0.0,
            "recovery_s": 2.4 / speed,
            "first_query_ms": 38 / speed,
        }
    else:
        values = {"iops_read": 3.0, "iops_write": 12.0}
    return {name: metric(name, value) for name, value in values.items()}
