"""Burst credits simulated over a series of production's load, including the nights in which they recover."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from volbench.core.base.text import duration, number, percent
from volbench.core.profile.limits import Limits
from volbench.core.records.validation.plan import BurstPlan
from volbench.core.records.validation.result import BurstOutlook, CheckRow
from volbench.results.credits.balance import BalanceSimulation, replay
from volbench.results.credits.forecast import main_bucket
from volbench.results.credits.history import Defaults, History
from volbench.results.credits.sources import read_history
from volbench.results.credits.work import Work
from volbench.validation.forecast.burst import IoDemand, candidate_limits
from volbench.validation.verdict import decide_check

DAY_S = 86_400.0
THROTTLED_BELOW = 0.05
"""A source volume with fewer credits may have been throttled, which a series of the served load does not show."""


def forecast_series(plan: BurstPlan, demand: IoDemand | None = None) -> tuple[BurstOutlook, CheckRow]:
    """Return the forecast of the plan's series on its volume, and the check.

    Args:
        plan: with the series.
        demand: I/O demand of a replay on the candidate; None without a replay.

    Raises UsageError for a series that cannot be read.
    """
    simulation = simulate_series(plan)
    outlook = series_outlook(simulation, plan)
    return outlook, series_check(simulation, outlook, demand, plan)


@dataclass(frozen=True, kw_only=True)
class CreditSimulation:
    """A series on a volume: at best, earning credits in gaps of the series, and at worst, earning none there."""

    history: History
    work: Work
    limits: Limits
    best_case: BalanceSimulation
    worst_case: BalanceSimulation

    @property
    def seconds(self) -> float:
        """Return the simulated time."""
        return float(self.work.interval_s.sum())

    @property
    def peak_iops(self) -> float:
        """Return the most requests a second of any interval."""
        return float(self.work.iops.max())


def simulate_series(plan: BurstPlan) -> CreditSimulation:
    """Simulate the plan's series on its volume, repeated until `lasts`.

    Raises UsageError for a series that cannot be read.
    """
    history = read_history(Path(plan.series), Defaults(), device=plan.device)
    work, limits = _repeated(history.work, plan), candidate_limits(plan)
    return CreditSimulation(
        history=history,
        work=work,
        limits=limits,
        best_case=replay(limits, work, gaps="idle"),
        worst_case=replay(limits, work, gaps="baseline"),
    )


def series_outlook(simulation: CreditSimulation, plan: BurstPlan) -> BurstOutlook:
    """Return the figures of a simulation."""
    mean = simulation.work.mean()
    iops = float(mean.iops[0])
    bucket_index = main_bucket(simulation.limits, simulation.worst_case.exhausted_after_s)
    lowest = None
    if bucket_index is not None:
        bucket = simulation.limits.buckets[bucket_index]
        lowest = float(min(bucket.start, simulation.worst_case.balances[:, bucket_index].min())) / (
            bucket.capacity or 1.0
        )
    return BurstOutlook(
        volume=plan.volume,
        counted_by=simulation.history.text,
        iops=iops,
        iops_low=iops,
        iops_high=iops,
        peak_iops=simulation.peak_iops,
        read_share=float(mean.reads_per_s[0]) / iops if iops else 0.0,
        bucket=simulation.limits.buckets[bucket_index].name if bucket_index is not None else "",
        runway_s=_runway_s(simulation.worst_case),
        runway_s_low=_runway_s(simulation.worst_case),
        runway_s_high=_runway_s(simulation.best_case),
        served_share=_served(simulation.work, simulation.worst_case),
        served_share_low=_served(simulation.work, simulation.worst_case),
        served_share_high=_served(simulation.work, simulation.best_case),
        served_share_after=None,
        simulated_s=simulation.seconds,
        throttled_s=float(simulation.worst_case.throttled_s.sum()),
        capped_s=float(simulation.work.interval_s[simulation.worst_case.capped].sum()),
        credits_share_lowest=lowest,
    )


def series_check(
    simulation: CreditSimulation, outlook: BurstOutlook, demand: IoDemand | None, plan: BurstPlan
) -> CheckRow:
    """Return no-go when the volume throttles the load even at best, go when it does not even at worst."""
    text, doubts = _text(outlook), list(_doubts(simulation, demand))
    is_short = not _is_sustained(simulation.best_case)
    if not is_short and not _is_sustained(simulation.worst_case):
        doubts.append("only the gaps of the series decide, in which the volume may earn credits or not")
    return decide_check(
        "burst",
        compared=1 if simulation.peak_iops > 0 else 0,
        text=text,
        faults=[text] if is_short else [],
        doubts=doubts,
        notes=list(_details(simulation, outlook, demand, plan)),
        nothing="the series has no request at any time",
    )


def _repeated(work: Work, plan: BurstPlan) -> Work:
    """Return whole series, one after the other."""
    count = max(1, math.ceil(plan.duration_s / float(work.interval_s.sum())))
    return replace(
        work,
        interval_s=np.tile(work.interval_s, count),
        is_known=np.tile(work.is_known, count),
        reads_per_s=np.tile(work.reads_per_s, count) * plan.times,
        read_bytes=np.tile(work.read_bytes, count),
        writes_per_s=np.tile(work.writes_per_s, count) * plan.times,
        write_bytes=np.tile(work.write_bytes, count),
        _demands={},
    )


def _is_sustained(simulated: BalanceSimulation) -> bool:
    return not simulated.capped.any() and not simulated.throttled_s.any()


def _runway_s(simulated: BalanceSimulation) -> float | None:
    return min((at_s for at_s in simulated.exhausted_after_s if at_s is not None), default=None)


def _served(work: Work, simulated: BalanceSimulation) -> float:
    requests = work.iops * work.interval_s
    return float((requests * simulated.served).sum() / requests.sum()) if requests.sum() else 1.0


def _text(outlook: BurstOutlook) -> str:
    over = f"over {duration(outlook.simulated_s or 0.0)} of the series"
    clauses = []
    if outlook.runway_s is not None:
        clauses.append(
            f"{outlook.bucket} run out after {duration(outlook.runway_s)} and throttle the load for "
            f"{duration(outlook.throttled_s or 0.0)} {over}"
        )
    if outlook.capped_s:
        clauses.append(f"a limit is too low for {duration(outlook.capped_s)} {over}")
    if not clauses:
        never = (
            f"{outlook.bucket} never fall below {percent(outlook.credits_share_lowest)}"
            if outlook.bucket
            else "no credits"
        )
        clauses.append(f"{never} {over}")
    return f"{outlook.volume}: {'; '.join(clauses)}"


def _details(
    simulation: CreditSimulation, outlook: BurstOutlook, demand: IoDemand | None, plan: BurstPlan
) -> Iterator[str]:
    once_s = float(simulation.history.work.interval_s.sum())
    yield (
        f"{simulation.history.text}: {number(outlook.iops)} requests/s on average, "
        f"{number(simulation.peak_iops)} at most, "
        f"{percent(outlook.read_share)} of them reads"
        + (f", taken {plan.times:g} times" if plan.times != 1 else "")
    )
    if simulation.seconds > once_s:
        yield f"the series takes {duration(once_s)} and was repeated {round(simulation.seconds / once_s)} times"
    if once_s < DAY_S:
        yield "the series is shorter than a day, so nights or busy hours may be missing"
    if simulation.history.work.gap_s:
        gaps = duration(simulation.history.work.gap_s)
        yield f"the series has gaps of {gaps}: idle at best, at the baseline rate at worst"
    if demand is not None:
        yield (
            f"the replay needed {number(demand.iops)} requests/s on the candidate [{number(demand.iops_low)}, "
            f"{number(demand.iops_high)}]"
        )
    yield from simulation.history.warnings


def _doubts(simulation: CreditSimulation, demand: IoDemand | None) -> Iterator[str]:
    balances = [share for _, share in simulation.history.observed]
    if balances and min(balances) < THROTTLED_BELOW:
        yield f"the source's own credits fell to {percent(min(balances))}: the series may show a throttled load"
    elif simulation.history.slow:
        yield "requests of the source waited 50 ms and more: the series may show a throttled load"
    if demand is not None and demand.iops_low > simulation.peak_iops:
        yield "the replay needed more than the series at any time, so the candidate needs more I/O than the source"
