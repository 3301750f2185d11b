"""What a faster volume would give, by what a millisecond was measured to cost: a sentence of advice."""

from __future__ import annotations

from volbench.results.explain.wording import number, percent
from volbench.results.response.levels import VolumeLoad, latency_at
from volbench.results.response.measured import MeasuredResponse

FAST_READ_MS = 0.3
"""A read of a fast volume: what a local NVMe disk, or the highest class of network volumes, takes or comes near."""
SHORTER_MIN = 1.5
"""Times a read must be shorter for a sentence to be worth it."""
_READ, _P95 = "read", 0.95
_LIMITS = frozenset({"storage.iops_limit", "storage.throughput_limit"})
_OF_READS = _LIMITS | {"storage.read_latency"}


def measured_advice(
    cause: str,
    measured: MeasuredResponse | None,
    level: VolumeLoad | None,
    base_await_ms: float | None,
    *,
    estimates_p95: bool = False,
) -> str:
    """Return what shorter reads would give, with the interval of the slopes; empty where that was not measured.

    Args:
        cause: its name.
        measured: of the load; None: the server's counts confirm no response.
        level: what the load takes on the volume of the finding.
        base_await_ms: of the volume without a queue; None: it was never without one.
        estimates_p95: the advice before it estimates what half of p95 takes, which is from the load's demand.
    """
    await_ms = base_await_ms if cause in _LIMITS and base_await_ms is not None else FAST_READ_MS
    cost = None if measured is None else next((item for item in measured.costs if item.term == _READ), None)
    if cause not in _OF_READS or measured is None or level is None or cost is None or not cost.is_measured:
        return ""
    if level.awaits_ms[_READ] < SHORTER_MIN * await_ms or cost.is_beyond(await_ms):
        return ""
    latency = latency_at(level, measured.costs, {_READ: await_ms}).on_another_run()
    if latency.low_ms <= 0:
        return ""
    which = "a faster volume" if await_ms == FAST_READ_MS else "this volume without its queue"
    return (
        f" By the measured response, {which} (reads of {number(await_ms)} in place of"
        f" {number(level.awaits_ms[_READ])} ms) gives {number(latency.value_ms)} ms a transaction"
        f" [{number(latency.low_ms)}, {number(latency.high_ms)}] in place of {number(level.latency_ms)} ms"
        f"{level.error_text}, by its reads alone and as long as nothing else limits."
        f"{_of_p95(measured) if estimates_p95 else ''}"
    )


def _of_p95(measured: MeasuredResponse) -> str:
    """Why the estimate of p95 is not by the response: a slope is of the mean, and percentiles are checked apart."""
    check = measured.tails.get(_P95)
    if check is None:
        return ""
    reason = check.reason or (
        f"by the response it would follow the mean, off by at most {percent(check.error_max)} on this run"
    )
    return f" The estimate for half of p95 is from the load's demand, since the response is of the mean: {reason}."
