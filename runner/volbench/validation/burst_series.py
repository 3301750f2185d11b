"""Burst credits walked through a series of production's load, with its nights in which they recover."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from volbench.analysis.credits.balance import Replay, replay
from volbench.analysis.credits.forecast import main_bucket
from volbench.analysis.credits.history import Assumed, History
from volbench.analysis.credits.limits import Limits
from volbench.analysis.credits.sources import read_history
from volbench.analysis.credits.work import Work
from volbench.base.text import duration, percent
from volbench.records.gate import Decision
from volbench.records.validation import BurstOutlook, BurstPlan, CheckRow
from volbench.validation.burst import IoDemand, candidate_limits

DAY_S = 86_400.0
THROTTLED_BELOW = 0.05
"""A volume with fewer credits than this may have been held back, which a series of what it served does not show."""


def forecast_series(plan: BurstPlan, demand: IoDemand | None = None) -> tuple[BurstOutlook, CheckRow]:
    """The plan's series on its volume. Raises UsageError for what is no series.

    Args:
        demand: what a replay asked the candidate's volume for, where there was one.
    """
    simulation = simulate_series(plan)
    outlook = series_outlook(simulation, plan)
    return outlook, series_check(simulation, outlook, demand, plan)


@dataclass(frozen=True, kw_only=True)
class CreditSimulation:
    """What a volume makes of a series: at best, earning credits in gaps, and at worst, earning none there."""

    history: History
    work: Work
    limits: Limits
    best_case: Replay
    worst_case: Replay

    @property
    def seconds(self) -> float:
        """How long was walked."""
        return float(self.work.interval_s.sum())

    @property
    def peak_iops(self) -> float:
        """Most requests a second in one interval."""
        return float(self.work.iops.max())


def simulate_series(plan: BurstPlan) -> CreditSimulation:
    """The series of a plan on its volume, over and over until `lasts`. Raises UsageError for what is no series."""
    history = read_history(Path(plan.series), Assumed(), device=plan.device)
    work, limits = _repeated(history.work, plan), candidate_limits(plan)
    return CreditSimulation(
        history=history, work=work, limits=limits,
        best_case=replay(limits, work, gaps="idle"), worst_case=replay(limits, work, gaps="baseline"),
    )  # fmt: skip


def series_outlook(simulation: CreditSimulation, plan: BurstPlan) -> BurstOutlook:
    """The walk in figures."""
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
        walked_s=simulation.seconds,
        held_s=float(simulation.worst_case.throttled_s.sum()),
        capped_s=float(simulation.work.interval_s[simulation.worst_case.capped].sum()),
        credits_share_lowest=lowest,
    )


def series_check(
    simulation: CreditSimulation, outlook: BurstOutlook, demand: IoDemand | None, plan: BurstPlan
) -> CheckRow:
    """no-go when credits run out or a limit is too low even at best; go when neither is so at worst."""
    doubts = list(_doubts(simulation, demand))
    decision: Decision = "undecided"
    if not _is_sustained(simulation.best_case):
        decision = "no-go"
    elif _is_sustained(simulation.worst_case) and not doubts:
        decision = "go"
    details = (*_details(simulation, outlook, demand, plan), *doubts)
    return CheckRow(check="burst", decision=decision, text=_text(outlook), details=details)


def _repeated(work: Work, plan: BurstPlan) -> Work:
    """Whole series, one after the other."""
    count = max(1, math.ceil(plan.lasts_s / float(work.interval_s.sum())))
    return replace(
        work, interval_s=np.tile(work.interval_s, count), known=np.tile(work.known, count),
        reads_per_s=np.tile(work.reads_per_s, count) * plan.times, read_bytes=np.tile(work.read_bytes, count),
        writes_per_s=np.tile(work.writes_per_s, count) * plan.times, write_bytes=np.tile(work.write_bytes, count),
        _demands={},
    )  # fmt: skip


def _is_sustained(simulated: Replay) -> bool:
    return not simulated.capped.any() and not simulated.throttled_s.any()


def _runway_s(simulated: Replay) -> float | None:
    return min((at_s for at_s in simulated.exhausted_after_s if at_s is not None), default=None)


def _served(work: Work, simulated: Replay) -> float:
    requests = work.iops * work.interval_s
    return float((requests * simulated.served).sum() / requests.sum()) if requests.sum() else 1.0


def _text(outlook: BurstOutlook) -> str:
    over = f"over {duration(outlook.walked_s or 0.0)} of the series"
    clauses = []
    if outlook.runway_s is not None:
        clauses.append(
            f"{outlook.bucket} run out after {duration(outlook.runway_s)} and hold the load back for "
            f"{duration(outlook.held_s or 0.0)} {over}"
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
        f"{simulation.history.text}: {outlook.iops:.4g} requests/s on average, {simulation.peak_iops:.4g} at most, "
        f"{percent(outlook.read_share)} of them reads"
        + (f", taken {plan.times:g} times" if plan.times != 1 else "")
    )
    if simulation.seconds > once_s:
        yield f"{duration(once_s)} of it, {round(simulation.seconds / once_s)} times one after the other"
    if once_s < DAY_S:
        yield "it is shorter than a day, so it may have left out the nights or the busy hours"
    if simulation.history.work.gap_s:
        gaps = duration(simulation.history.work.gap_s)
        yield f"nothing is known of {gaps} of it: idle at best, just at the baseline at worst"
    if demand is not None:
        yield (
            f"the replay asked the candidate for {demand.iops:.4g} requests/s [{demand.iops_low:.4g}, "
            f"{demand.iops_high:.4g}]"
        )
    yield from simulation.history.warnings


def _doubts(simulation: CreditSimulation, demand: IoDemand | None) -> Iterator[str]:
    balances = [share for _, share in simulation.history.observed]
    if balances and min(balances) < THROTTLED_BELOW:
        yield f"the source's own credits fell to {percent(min(balances))}: it may have asked for more than it was given"
    elif simulation.history.slow:
        yield "requests of the source waited 50 ms and more: it may have asked for more than it was given"
    if demand is not None and demand.iops_low > simulation.peak_iops:
        yield "that is more than the series has at any time, so the candidate needs more than the source did"
