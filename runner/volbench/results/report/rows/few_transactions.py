"""Percentiles of the part of a load during a short backup: of three transactions there is no p95.

Of fewer values than NEEDED, a percentile is the slowest one, or a point between the two slowest. The median stays.
"""

from __future__ import annotations

from volbench.core.base.text import counted, number
from volbench.core.records.cell import COUNTED_AS_SLOWEST, StepResult
from volbench.core.records.metrics import MetricValue
from volbench.results.report.wording import joined

NEEDED = {"latency_ms_p95": 20, "latency_ms_p99": 100, "latency_ms_p999": 1000}
"""Transactions of which at least one lies above the percentile."""
P95, SLOWEST = "latency_ms_p95", "latency_ms_max"
PHASES = ("during", "alone")


def transactions(step: StepResult) -> int | None:
    """Return how many transactions a part of a load had; None of all other steps.

    None also where some had no answer: a percentile counts those as the slowest, and says so by itself.
    """
    if step.parameters.get("phase") not in PHASES or "tps" not in step.metrics:
        return None
    if any(COUNTED_AS_SLOWEST in note for note in step.notes):
        return None
    seconds = step.details.get("seconds")
    spans_s = step.spans_s or (step.window_s,)
    length_s = seconds if isinstance(seconds, int | float) else sum(end - start for start, end in spans_s)
    return round(step.metrics["tps"].value * length_s)


def stated_metrics(step: StepResult) -> dict[str, MetricValue]:
    """Return a step's metrics without percentiles of fewer transactions than they need."""
    count = transactions(step)
    return {name: value for name, value in step.metrics.items() if count is None or count >= NEEDED.get(name, 0)}


def few_notes(step: StepResult) -> tuple[str, ...]:
    """Return how many transactions there were and the slowest of them, where a percentile is left out for it."""
    stated = stated_metrics(step)
    left_out = [name.rpartition("_")[2] for name in step.metrics if name not in stated]
    slowest = step.metrics.get(SLOWEST)
    count = transactions(step)
    if not left_out or slowest is None or count is None:
        return ()
    total = counted(count, "transaction")
    return (f"{total}, the slowest {number(slowest.value)} ms: too few for {joined(left_out)}",)
