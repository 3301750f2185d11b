"""What-if by the measured response: where waiting times decide, they are what a volume changes.

The model of `what_if` counts a transaction's waits by the server's wait times. Where a run has a response that the
server's counts confirm, the cost of a millisecond was measured, and the mean latency elsewhere follows from it
(`results/response/levels`): the rate of a closed loop is clients / latency (Little's law), and its interval is that
of the slopes. tests/benchmarks/what_if_response.py sets both beside each other on recorded runs.

It says nothing about limits. So it is used only where limits and CPUs have room, at most ROOM_MAX of each at the
predicted rate (of CPUs only where the rate is above the measured one, whose latency has its queue in it), and where
the waiting times are near those that moved while the response was estimated.

Waiting times there follow from those here (`awaits_on`), where the latencies of the run's own volume are known, as
those of an emulated one are: a sync of a log is no write and flush but several of them, one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import median

from volbench.core.base.text import number
from volbench.core.profile.limits import VolumeLimit
from volbench.results.explain.accounts.demand import Demand, PredictionUnavailable
from volbench.results.explain.accounts.what_if import (
    CPU,
    LATENCY,
    OtherVolume,
    Outlook,
    VolumeOutlooks,
    caveats_of,
    p95_of,
    predict,
    units_of,
)
from volbench.results.response.levels import LatencyEstimate, LatencySlope, VolumeLoad, latency_at
from volbench.results.response.measured import MeasuredResponse
from volbench.results.response.tails import TailCheck, tail_at

ROOM_MAX = 0.7
"""Of a limit or the CPUs: beyond, requests wait there for longer than they are served, which no slope knows (M/D/1:
1.2 service times at 0.7)."""
P95 = 0.95
_READ = "read"
_SYNCS = ("redo_sync", "binlog_sync", "log_sync")
NOT_CONFIRMED = "the server's counts confirm no response of this load"
LIMIT_DECIDES = "a limit, credits or the CPUs decide here, not waiting times alone"
FAR = "its waiting times are far from all that were measured"
TOO_WIDE = "the interval of its measured response is too wide to tell"
SYNCS_UNKNOWN = (
    "how long a sync takes there is not known: it is several writes and flushes one after the other, how many shows"
    " only on a volume whose own latencies are known and whose limits have room"
)
WAITS_TO_WRITE = "the load also waits for free pages or log space, whose waits there are not known"


def predict_by_response(
    demands: Sequence[Demand | PredictionUnavailable],
    volume: OtherVolume,
    measured: MeasuredResponse | None,
    level: VolumeLoad | None,
    own_volume: OtherVolume | None = None,
) -> VolumeOutlooks:
    """Return `predict` of a step, by the measured response where waiting times decide; each outlook says how.

    Args:
        demands: of the step's cells.
        volume: to predict for.
        measured: of the load; None: no count confirms its response.
        level: what was measured where the demands are from; None: not known.
        own_volume: the volume that the demands are from; None: its latencies are not known.
    """
    prediction = predict(demands, volume)
    served = [demand for demand in demands if isinstance(demand, Demand)]
    latencies = own_volume if own_volume is not None and _has_room(served, own_volume) else None
    outlooks = tuple(
        _outlook(outlook, served, (latencies, volume), measured, level) for outlook in prediction.outlooks
    )
    if not outlooks:
        return prediction
    return replace(prediction, outlooks=outlooks, caveat="; ".join(caveats_of(served, outlooks)))


def _outlook(
    outlook: Outlook,
    demands: Sequence[Demand],
    volumes: tuple[OtherVolume | None, OtherVolume],
    measured: MeasuredResponse | None,
    level: VolumeLoad | None,
) -> Outlook:
    """Return one outlook by the response; as it was, and why, where the response does not tell it.

    Args:
        outlook: by the load's demand.
        demands: of the step's cells.
        volumes: the one that the demands are from, None where nothing tells its latencies; and the one asked for.
        measured, level: as `predict_by_response` has them.
    """
    own_volume, volume = volumes
    if measured is None or level is None:
        return _by_demand(outlook, NOT_CONFIRMED)
    awaits_ms = awaits_on(volume, level.base_awaits_ms, own_volume)
    missing = {cost.term for cost in measured.costs} - set(awaits_ms)
    if missing:
        return _by_demand(outlook, SYNCS_UNKNOWN if missing <= set(_SYNCS) else WAITS_TO_WRITE)
    if any(cost.is_beyond(awaits_ms[cost.term]) for cost in measured.costs if cost.is_measured):
        return _by_demand(outlook, FAR)
    latency = latency_at(level, measured.costs, awaits_ms).on_another_run()
    if latency.low_ms <= 0:
        return _by_demand(outlook, TOO_WIDE)
    clients = demands[0].clients
    tps, low, high = (1000 * clients / ms for ms in (latency.value_ms, latency.high_ms, latency.low_ms))
    limits = (*volume.caps, *volume.buckets)
    decides = outlook.bound == LATENCY or (outlook.bound == CPU and not _is_faster(demands, tps))
    decides = decides and outlook.regime == "steady"  # else credits decide, and how long they last
    if not decides or max(_used(demand, limits, tps) for demand in demands) > ROOM_MAX:
        alone = f"the measured response gives {_latency_text(latency)} a transaction by waiting times alone"
        return _by_demand(outlook, f"{LIMIT_DECIDES}; {alone}")
    terms = ", ".join(_cost_text(cost) for cost in measured.costs if cost.is_measured)
    text = (
        f"by the measured response ({terms}) a transaction takes {_latency_text(latency)} there, in place of"
        f" {number(level.latency_ms)} ms{level.error_text}"
    )
    check = measured.tails[P95]
    p95_ms, p95_interval = _p95(check, level, latency, demands)
    return replace(
        outlook,
        bound=LATENCY,
        tps=tps,
        tps_interval=(low, high),
        p95_ms=p95_ms,
        p95_interval=p95_interval,
        states_p95=outlook.states_p95 if not check.errors else True,
        method="response",
        method_text=f"{text}; {check.reason}" if check.errors and check.reason else text,
        latency_ms=latency.value_ms,
        latency_interval=(latency.low_ms, latency.high_ms),
    )


def awaits_on(
    volume: OtherVolume, base_awaits_ms: Mapping[str, float], own_volume: OtherVolume | None
) -> dict[str, float]:
    """Return by term the waiting time on a volume without a queue, in ms; not of a wait that it does not tell.

    A read takes what it takes on the volume, and what the kernel and flushes add to it here. A sync of a log is
    several writes and flushes, one after the other, of the log and of the file system's journal: it takes as many
    times the volume's write and flush as it takes here. On XFS these were 2.3 to 2.9 writes and flushes; that it is
    one gave 0.28 to 0.47 of the time (results/examples/lab/forecasts.md).

    Args:
        volume: that is asked for.
        base_awaits_ms: by term, what was measured here while no signal kept the volume slow.
        own_volume: the volume that it was measured on, with room at its limits; None: its latencies are not known.
    """
    awaits_ms = {}
    for term, base_ms in base_awaits_ms.items():
        if term == _READ:
            added_ms = 0.0 if own_volume is None else max(0.0, base_ms - 1000 * own_volume.read_s)
            awaits_ms[term] = 1000 * volume.read_s + added_ms
        elif term in _SYNCS and own_volume is not None and own_volume.write_s > 0:
            awaits_ms[term] = base_ms * volume.write_s / own_volume.write_s
    return awaits_ms


def _has_room(demands: Sequence[Demand], volume: OtherVolume) -> bool:
    """Whether the volume's limits have room at the measured rates, so that waiting times have no queue in them."""
    limits = (*volume.caps, *volume.buckets)
    used = [demand.tps * units_of(limit, demand) / limit.rate_per_s for demand in demands for limit in limits]
    return max(used, default=0.0) <= ROOM_MAX


def _by_demand(outlook: Outlook, reason: str) -> Outlook:
    return replace(outlook, method_text=f"estimated from the load's demand: {reason}")


def _is_faster(demands: Sequence[Demand], tps: float) -> bool:
    """Whether a rate is above what was measured. At a lower one CPUs have more room than the latency has in it."""
    return tps > median(demand.tps for demand in demands)


def _used(demand: Demand, limits: Iterable[VolumeLimit], tps: float) -> float:
    """Return the part of the tightest limit that a rate takes, or of the CPUs if it is above the measured one."""
    cpus = tps * demand.cpu_s / demand.cpus if _is_faster([demand], tps) else 0.0
    return max(cpus, *(tps * units_of(limit, demand) / limit.rate_per_s for limit in limits), 0.0)


def _latency_text(latency: LatencyEstimate) -> str:
    """`25.0 ms [24.5, 25.6]`."""
    return f"{number(latency.value_ms)} ms [{number(latency.low_ms)}, {number(latency.high_ms)}]"


def _cost_text(cost: LatencySlope) -> str:
    """`read: 14.7 [14, 15.4] ms per ms`."""
    return f"{cost.term}: {number(cost.value)} [{number(cost.low)}, {number(cost.high)}] ms per ms"


def _p95(
    check: TailCheck, level: VolumeLoad, latency: LatencyEstimate, demands: Sequence[Demand]
) -> tuple[float | None, tuple[float, float] | None]:
    """Return p95 with its interval as far as the run checks it; where nothing checks it, as `predict` does."""
    if check.errors:
        tail = tail_at(level, check, P95, latency)
        return (None, None) if tail is None else (tail.value_ms, (tail.low_ms, tail.high_ms))
    demand = demands[0]
    tps, low, high = (1000 * demand.clients / ms for ms in (latency.value_ms, latency.high_ms, latency.low_ms))
    tails = [p95_of(each, tps, (low, high)) for each in demands]
    figures = [(p95_ms, interval) for p95_ms, interval in tails if p95_ms is not None and interval is not None]
    if not figures:
        return None, None
    ends = (min(interval[0] for _, interval in figures), max(interval[1] for _, interval in figures))
    return median(p95_ms for p95_ms, _ in figures), ends
