"""What a step's transactions would do on another volume: throughput and p95, each with an interval.

Operational analysis (Denning and Buzen 1978): a transaction's demand is measured, the other volume is a latency and
capacities, and the clients are a closed loop over CPU and those capacities. How many pages a load that mostly
writes needs there goes with its rate (`page_writes`). The interval goes from MODEL_ERROR below what random service
gives to as much above the asymptotic bound. tests/benchmarks/what_if.py measures how far off the answer is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from statistics import median
from typing import Literal

import numpy as np

from volbench.core.profile.limits import VolumeLimit, latency_s, limits_of
from volbench.core.profile.resolve import ResolvedVolume, resolve_spec
from volbench.core.records.run import VolumeSpec
from volbench.errors import UsageError, VolbenchError
from volbench.results.explain.accounts.closed_network import Station, ThroughputBounds, solve
from volbench.results.explain.accounts.demand import POOL_FREE_MIN, Demand, PredictionUnavailable
from volbench.results.explain.accounts.page_writes import (
    DISTINCT,
    DISTINCT_MAX,
    DISTINCT_MIN,
    PageWrites,
    Served,
    page_writes,
    solve_beside_pages,
)
from volbench.results.explain.accounts.purge import PURGE_LAG_MIN

MODEL_ERROR = 0.20
"""Beyond both bounds: purge and flushing put work off under load; hits differ between runs."""
WRITES_BY_SPEED, WRITES_BY_SPEED_MOST, WRITES_APART_MAX = 0.2, 0.4, 2.5
"""A slow volume writes more for a transaction: pages are written by time as well, and fewer commits share a sync.
The operations written went by a power of the transactions a second, on volumes 4 to 12 times slower, of 0.12, 0.15,
0.16, 0.16, 0.22 and 0.35 in six loads, most where a load only updates (tests/benchmarks/what_if.py). Another load
may have none: the interval goes from none to 0.4, and at most so many times."""
TAILS = (1.2, 2.2)
"""p95 against the mean: many like waits in a long queue even out, a few of random length do not."""
CPU, LATENCY = "CPU", "latency"
_WHOSE_CPU = "the host's CPUs were busy, and how much of that was this load is not known: they may limit first"
_PURGE_LAG = (
    "the history list grew while this was measured: what purge reads and writes later is not in it, so a volume"
    " that limits first may do less"
)
MOSTLY_WRITES = 0.6
"""Of a transaction's operations: from here on its writes follow from counts of pages (`page_writes`), and it has an
interval, but no figure. Loads that only write were off by up to 39 % where constants were fitted to them, and by up
to 111 % where purge fell behind on one of two volumes. Loads that read as well had 0.35 to 0.53 on volumes that a
seed drew (results/examples/what-if)."""
WRITES_MIN = 0.05
"""Of a transaction's operations: from here on p95 has no figure. How long its tail is on another volume goes with
commits and with pages that are flushed in bursts, which no count of one run tells: 18 pairs of loads that read and
write were off by 32 % at the median, 18 of loads that only read by 10 %."""
_MOSTLY_WRITES = (
    "most of its operations are writes, and how many more a slower volume needs for a transaction is estimated from"
    " one run only: such figures were off by a factor of two and more in volbench's own trials, so only the"
    " interval is given"
)
_P95_OF_WRITES = (
    "the load writes, and how long its tail is on another volume cannot be seen in one run: such figures of p95"
    " were off by 32 % at the median in volbench's own trials, so only the interval is given"
)
_DISTINCT_RANGE = (DISTINCT, DISTINCT_MIN, DISTINCT_MAX)
Regime = Literal["steady", "burst", "baseline"]
Method = Literal["demand", "response"]


@dataclass(frozen=True, kw_only=True)
class OtherVolume:
    """Another volume as the model knows it: its times without a queue, and its capacities."""

    name: str
    read_s: float
    write_s: float
    caps: tuple[VolumeLimit, ...]
    buckets: tuple[VolumeLimit, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """Transactions per second and p95 in one regime: `steady`, `burst` (for `lasts_s`) or `baseline` after it.

    Where `states_tps` or `states_p95` is false, the interval may be shown and the figure may not: such figures were
    measured to be far off. `bound` names what limits first: CPU, latency, or a limit of the volume with
    `bound_per_s` of its unit. `method` says whether it follows from the load's demand or from its measured response
    (`what_if_response`), which has the mean latency, too; `method_text` says why, in words.
    """

    regime: Regime
    tps: float
    tps_interval: tuple[float, float]
    p95_ms: float | None
    p95_interval: tuple[float, float] | None
    bound: str
    bound_per_s: float | None = None
    bound_unit: str = ""
    lasts_s: float | None = None
    states_tps: bool = True
    states_p95: bool = True
    method: Method = "demand"
    method_text: str = ""
    latency_ms: float | None = None
    latency_interval: tuple[float, float] | None = None


@dataclass(frozen=True, kw_only=True)
class VolumeOutlooks:
    """Outlooks on one volume, or why there are none; `caveat` says what they leave out."""

    spec: str
    outlooks: tuple[Outlook, ...] = ()
    cannot: str = ""
    caveat: str = ""


def other_volume(spec: str) -> OtherVolume:
    """The volume of a SPEC such as ebs-gp3?iops=6000, with or without `emulated:`. Raises UsageError."""
    resolved = resolve_spec(spec, name="what-if")
    if resolved.mode != "block":
        raise UsageError(
            "only block volumes can be predicted: round trips of a network file system are not known from here",
            where=f"--what-if {spec}",
            next_step=f"measure it: volbench run suites/quick.yaml --volume v=emulated:{resolved.profile}",
        )
    limits = limits_of(resolved)
    return OtherVolume(
        name=spec,
        read_s=latency_s(resolved, "read", _PAGE),
        write_s=latency_s(resolved, "write", _PAGE) + _flush_s(resolved),
        caps=limits.caps,
        buckets=limits.buckets,
    )


def known_volumes(volumes: Iterable[VolumeSpec]) -> dict[str, OtherVolume]:
    """Return by name those of a run's volumes whose latencies are known: emulated block volumes."""
    volumes_by_name = {}
    for volume in volumes:
        if volume.kind == "emulated" and not volume.layout:
            with suppress(VolbenchError):  # of a file system, or of a profile that is no longer there
                volumes_by_name[volume.name] = other_volume(volume.text)
    return volumes_by_name


_PAGE, _DOUBLEWRITE = 16_384.0, 262_144.0
"""Bytes of a page, and of a request that doublewrite is split into at most (usual devices, max_sectors_kb)."""


def _flush_s(resolved: ResolvedVolume) -> float:
    """Of a sync's flush; a volume that writes through has nothing to flush."""
    return 0.0 if resolved.durability == "write_through" else latency_s(resolved, "flush", 0.0)


def predict(outlooks: Sequence[Demand | PredictionUnavailable], volume: OtherVolume) -> VolumeOutlooks:
    """One step on another volume; of several repeats the medians, and the outermost ends of the intervals."""
    demands = [limit for limit in outlooks if isinstance(limit, Demand)]
    reasons = [limit.reason for limit in outlooks if isinstance(limit, PredictionUnavailable)]
    if not demands:
        return VolumeOutlooks(spec=volume.name, cannot=reasons[0] if reasons else "no cell to predict from")
    by_regime: dict[str, list[Outlook]] = {}
    for demand in demands:
        for outlook in outlooks_of(demand, volume):
            if outlook.bound != CPU or demand.cpu_known:
                by_regime.setdefault(outlook.regime, []).append(outlook)
    if not by_regime:
        return VolumeOutlooks(spec=volume.name, cannot=_WHOSE_CPU)
    outlooks_of_regimes = tuple(_with_stated(_together(same), demands) for same in by_regime.values())
    return VolumeOutlooks(
        spec=volume.name, outlooks=outlooks_of_regimes, caveat="; ".join(caveats_of(demands, outlooks_of_regimes))
    )


def _with_stated(outlook: Outlook, demands: Sequence[Demand]) -> Outlook:
    stated = all(states_tps(demand) for demand in demands)
    return replace(outlook, states_tps=stated, states_p95=_write_share(demands) < WRITES_MIN)


def states_tps(demand: Demand) -> bool:
    """Whether a predicted rate may be shown as a figure: not of a load that mostly writes."""
    return not _mostly_writes(demand)


def _mostly_writes(demand: Demand) -> bool:
    return _write_share([demand]) >= MOSTLY_WRITES


def _write_share(demands: Sequence[Demand]) -> float:
    """Writes of all operations of a transaction, median."""
    return median(demand.writes / max(demand.reads + demand.writes, 1e-9) for demand in demands)


def caveats_of(demands: Sequence[Demand], outlooks: Sequence[Outlook]) -> Iterator[str]:
    """What the outlooks leave out."""
    if median(outlook.undo_left for outlook in demands) >= PURGE_LAG_MIN:
        yield _PURGE_LAG
    if not all(outlook.states_tps for outlook in outlooks):
        yield _MOSTLY_WRITES
    elif not all(outlook.states_p95 or outlook.p95_ms is None for outlook in outlooks):
        yield _P95_OF_WRITES
    free = median(outlook.pool_free for outlook in demands)
    if free >= POOL_FREE_MIN:
        yield (
            f"InnoDB kept {100 * free:.0f} % of its buffer pool free for pages to come (innodb_lru_scan_depth); how"
            " much of it is free goes with the volume's speed, and hits with that"
        )


def outlooks_of(demand: Demand, volume: OtherVolume) -> tuple[Outlook, ...]:
    """Steady, or the burst and what follows it."""
    with_credits = _outlook("steady", demand, volume, volume.caps)
    lasts = [
        outlooks
        for bucket in volume.buckets
        if (outlooks := _lasts_s(bucket, demand, with_credits.tps)) is not None
    ]
    if not lasts:
        return (with_credits,)
    after = _outlook("baseline", demand, volume, (*volume.caps, *volume.buckets))
    if min(lasts) <= 0:
        return (after,)
    return (_outlook("burst", demand, volume, volume.caps, lasts_s=min(lasts)), after)


def _lasts_s(bucket: VolumeLimit, demand: Demand, tps: float) -> float | None:
    """Seconds until a bucket is empty at this load; None: it never is."""
    spent_per_s = (
        tps * (units_of(bucket, demand) + more_pages(demand, tps) * page_units(bucket)) - bucket.rate_per_s
    )
    return bucket.start / spent_per_s if spent_per_s > 0 else None


def units_of(limit: VolumeLimit, demand: Demand) -> float:
    """What one transaction costs a limit, in its units."""
    sizes = np.array([demand.read_bytes, demand.write_bytes])
    read, write = limit.charge.per_request(sizes, sequential=False).tolist()
    weights = limit.charge.read_weight * demand.reads * read, limit.charge.write_weight * demand.writes * write
    return float(sum(weights))


def _outlook(
    regime: Regime,
    demand: Demand,
    volume: OtherVolume,
    limits: Iterable[VolumeLimit],
    *,
    lasts_s: float | None = None,
) -> Outlook:
    limits = tuple(limits)
    capacities = {limit.name: limit for limit in limits}
    delay_s = demand.reads_waited * volume.read_s + demand.writes_waited * volume.write_s
    delay_s += demand.locks_s + demand.outside_s
    usual, least, most = _by_pages(demand, limits, delay_s) or _by_speed(demand, limits, delay_s)
    low = (1 - MODEL_ERROR) * least.rate_min
    high = (1 + MODEL_ERROR) * most.rate_max
    bound = usual.bound or LATENCY
    limit = capacities.get(bound)
    p95_ms, p95_interval = p95_of(demand, usual.rate, (low, high))
    return Outlook(
        regime=regime,
        tps=usual.rate,
        tps_interval=(low, high),
        p95_ms=p95_ms,
        p95_interval=p95_interval,
        bound=bound,
        bound_per_s=None if limit is None else limit.rate_per_s,
        bound_unit="" if limit is None else limit.charge.unit,
        lasts_s=lasts_s,
    )


def _stations(demand: Demand, limits: Iterable[VolumeLimit], writes_times: float) -> list[Station]:
    """The limits as stations, of a demand with so many times its writes."""
    changed = replace(demand, writes=demand.writes * writes_times)
    return [
        Station(name=outlook.name, demand_s=units_of(outlook, changed) / outlook.rate_per_s) for outlook in limits
    ]


def _by_speed(
    demand: Demand, limits: Sequence[VolumeLimit], delay_s: float
) -> tuple[ThroughputBounds, ThroughputBounds, ThroughputBounds]:
    """The rate there, the least and the most, where writes go by a power of the speed.

    Without a limit no write queues, and how many there are does not matter.
    """
    if not limits:
        by_cpu = (demand.cpu_s, demand.cpu_s_max, demand.cpu_s_min)
        usual, least, most = (_solved(demand, delay_s, cpu_s, ()) for cpu_s in by_cpu)
        return usual, least, most
    slower = demand.tps / _solved(demand, delay_s, demand.cpu_s, _stations(demand, limits, 1.0)).rate
    likely, apart = (_writes_apart(slower, power) for power in (WRITES_BY_SPEED, WRITES_BY_SPEED_MOST))
    return (
        _solved(demand, delay_s, demand.cpu_s, _stations(demand, limits, likely)),
        _solved(demand, delay_s, demand.cpu_s_max, _stations(demand, limits, max(1.0, apart))),
        _solved(demand, delay_s, demand.cpu_s_min, _stations(demand, limits, min(1.0, apart))),
    )


def _by_pages(
    demand: Demand, limits: Sequence[VolumeLimit], delay_s: float
) -> tuple[ThroughputBounds, ThroughputBounds, ThroughputBounds] | None:
    """The rate there, the least and the most, where writes follow from counts of pages; None: they do not."""
    counts = demand.pages
    if counts is None or not _mostly_writes(demand):
        return None
    volume = [
        Served(limit.name, units_of(limit, demand) / limit.rate_per_s, page_units(limit) / limit.rate_per_s)
        for limit in limits
    ]
    likely, *less_likely = (page_writes(counts, demand.tps, distinct=distinct) for distinct in _DISTINCT_RANGE)

    def solved(pages: PageWrites, cpu_s: float) -> ThroughputBounds:
        cpu = Station(name=CPU, demand_s=cpu_s, servers=demand.cpus)
        return solve_beside_pages(
            pages, volume, clients=demand.clients, delay_s=delay_s, cpu=cpu, written=counts.written
        )

    usual = solved(likely, demand.cpu_s)
    few, *_, many = sorted((likely, *less_likely), key=lambda pages: pages.per_transaction(usual.rate))
    if usual.rate * many.per_transaction(usual.rate) > counts.cleaner_per_s:
        return None  # the page cleaner would write fewer than all of them in a second
    return usual, solved(many, demand.cpu_s_max), solved(few, demand.cpu_s_min)


def more_pages(demand: Demand, tps: float) -> float:
    """Pages that a transaction writes at another rate, less those that were measured."""
    if demand.pages is None or not _mostly_writes(demand):
        return 0.0
    return page_writes(demand.pages, demand.tps).per_transaction(tps) - demand.pages.written


def page_units(limit: VolumeLimit) -> float:
    """What a page costs a limit: written in place, and once more in doublewrite, many at a time."""
    in_place, doublewrite = limit.charge.per_request(np.array([_PAGE, _DOUBLEWRITE]), sequential=False).tolist()
    return float(limit.charge.write_weight * (in_place + doublewrite * _PAGE / _DOUBLEWRITE))


def _writes_apart(times_slower: float, power: float) -> float:
    """Times the writes for a transaction on a volume that is so many times slower."""
    return min(WRITES_APART_MAX, max(1 / WRITES_APART_MAX, math.pow(times_slower, power)))


def _solved(demand: Demand, delay_s: float, cpu_s: float, stations: Sequence[Station]) -> ThroughputBounds:
    cpu = Station(name=CPU, demand_s=cpu_s, servers=demand.cpus)
    return solve(clients=demand.clients, delay_s=delay_s, stations=[cpu, *stations])


def p95_of(
    demand: Demand, tps: float, interval: tuple[float, float]
) -> tuple[float, tuple[float, float]] | tuple[None, None]:
    """The mean response times the measured tail; the interval takes any tail that is usual."""
    tail = demand.tail
    if tail is None:
        return None, None
    usual, low, high = (1000 * demand.clients / outlook for outlook in (tps, interval[1], interval[0]))
    return usual * tail, (low * min(tail, TAILS[0]), high * max(tail, TAILS[1]))


def _together(outlooks: Sequence[Outlook]) -> Outlook:
    """Several repeats as one."""
    middle = sorted(outlooks, key=lambda outlook: outlook.tps)[len(outlooks) // 2]
    p95 = [outlook.p95_ms for outlook in outlooks if outlook.p95_ms is not None]
    spans = [outlook.p95_interval for outlook in outlooks if outlook.p95_interval is not None]
    lasts = [outlook.lasts_s for outlook in outlooks if outlook.lasts_s is not None]
    return Outlook(
        regime=middle.regime,
        tps=median(outlook.tps for outlook in outlooks),
        tps_interval=(
            min(outlook.tps_interval[0] for outlook in outlooks),
            max(outlook.tps_interval[1] for outlook in outlooks),
        ),
        p95_ms=median(p95) if p95 else None,
        p95_interval=(min(low for low, _ in spans), max(high for _, high in spans)) if spans else None,
        bound=middle.bound,
        bound_per_s=middle.bound_per_s,
        bound_unit=middle.bound_unit,
        lasts_s=median(lasts) if lasts else None,
    )
