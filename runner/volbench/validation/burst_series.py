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
from volbench.records.gate import Decision
from volbench.records.validation import BurstOutlook, BurstPlan, CheckRow
from volbench.validation.burst import Need, candidate_limits
from volbench.validation.move import spoken_s

DAY_S = 86_400.0
HELD_BACK_BELOW = 0.05
"""A volume with fewer credits than this may have been held back, which a series of what it served does not show."""


def by_series(plan: BurstPlan, need: Need | None = None) -> tuple[BurstOutlook, CheckRow]:
    """The plan's series on its volume. Raises UsageError for what is no series.

    Args:
        need: what a replay asked the candidate's volume for, where there was one.
    """
    found = walk(plan)
    outlook = outlook_of_series(found, plan)
    return outlook, series_check(found, outlook, need, plan)


@dataclass(frozen=True, kw_only=True)
class Walk:
    """What a volume makes of a series: at best, earning credits in gaps, and at worst, earning none there."""

    history: History
    work: Work
    limits: Limits
    light: Replay
    heavy: Replay

    @property
    def seconds(self) -> float:
        """How long was walked."""
        return float(self.work.interval_s.sum())

    @property
    def peak_iops(self) -> float:
        """Most requests a second in one interval."""
        return float(self.work.iops.max())


def walk(plan: BurstPlan) -> Walk:
    """The series of a plan on its volume, over and over until `lasts`. Raises UsageError for what is no series."""
    history = read_history(Path(plan.series), Assumed(), device=plan.device)
    work, limits = _repeated(history.work, plan), candidate_limits(plan)
    return Walk(
        history=history, work=work, limits=limits,
        light=replay(limits, work, gaps="idle"), heavy=replay(limits, work, gaps="baseline"),
    )  # fmt: skip


def outlook_of_series(found: Walk, plan: BurstPlan) -> BurstOutlook:
    """The walk in figures."""
    mean = found.work.mean()
    iops = float(mean.iops[0])
    main = main_bucket(found.limits, found.heavy.exhausted_after_s)
    lowest = None
    if main is not None:
        bucket = found.limits.buckets[main]
        lowest = float(min(bucket.start, found.heavy.balances[:, main].min())) / (bucket.capacity or 1.0)
    return BurstOutlook(
        volume=plan.volume, counted_by=found.history.text, iops=iops, iops_low=iops, iops_high=iops,
        peak_iops=found.peak_iops, read_share=float(mean.reads_per_s[0]) / iops if iops else 0.0,
        bucket=found.limits.buckets[main].name if main is not None else "", runway_s=_runway_s(found.heavy),
        runway_s_low=_runway_s(found.heavy), runway_s_high=_runway_s(found.light),
        served_share=_served(found.work, found.heavy), served_share_low=_served(found.work, found.heavy),
        served_share_high=_served(found.work, found.light), served_share_after=None,
        walked_s=found.seconds, held_s=float(found.heavy.throttled_s.sum()),
        capped_s=float(found.work.interval_s[found.heavy.capped].sum()), credits_share_lowest=lowest,
    )  # fmt: skip


def series_check(found: Walk, outlook: BurstOutlook, need: Need | None, plan: BurstPlan) -> CheckRow:
    """no-go when credits run out or a limit is too low even at best; go when neither is so at worst."""
    doubts = list(_doubts(found, need))
    decision: Decision = "undecided"
    if not _held(found.light):
        decision = "no-go"
    elif _held(found.heavy) and not doubts:
        decision = "go"
    details = (*_details(found, outlook, need, plan), *doubts)
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


def _held(found: Replay) -> bool:
    return not found.capped.any() and not found.throttled_s.any()


def _runway_s(found: Replay) -> float | None:
    return min((at_s for at_s in found.exhausted_after_s if at_s is not None), default=None)


def _served(work: Work, found: Replay) -> float:
    asked = work.iops * work.interval_s
    return float((asked * found.served).sum() / asked.sum()) if asked.sum() else 1.0


def _text(found: BurstOutlook) -> str:
    over = f"over {spoken_s(found.walked_s or 0.0)} of the series"
    parts = []
    if found.runway_s is not None:
        parts.append(
            f"{found.bucket} run out after {spoken_s(found.runway_s)} and hold the load back for "
            f"{spoken_s(found.held_s or 0.0)} {over}"
        )
    if found.capped_s:
        parts.append(f"a limit is too low for {spoken_s(found.capped_s)} {over}")
    if not parts:
        never = (
            f"{found.bucket} never fall below {found.credits_share_lowest:.0%}" if found.bucket else "no credits"
        )
        parts.append(f"{never} {over}")
    return f"{found.volume}: {'; '.join(parts)}"


def _details(found: Walk, outlook: BurstOutlook, need: Need | None, plan: BurstPlan) -> Iterator[str]:
    once_s = float(found.history.work.interval_s.sum())
    yield (
        f"{found.history.text}: {outlook.iops:.4g} requests/s on average, {found.peak_iops:.4g} at most, "
        f"{outlook.read_share:.0%} of them reads" + (f", taken {plan.times:g} times" if plan.times != 1 else "")
    )
    if found.seconds > once_s:
        yield f"{spoken_s(once_s)} of it, {round(found.seconds / once_s)} times one after the other"
    if once_s < DAY_S:
        yield "it is shorter than a day, so it may have left out the nights or the busy hours"
    if found.history.work.gap_s:
        gaps = spoken_s(found.history.work.gap_s)
        yield f"nothing is known of {gaps} of it: idle at best, just at the baseline at worst"
    if need is not None:
        yield (
            f"the replay asked the candidate for {need.iops:.4g} requests/s [{need.iops_low:.4g}, "
            f"{need.iops_high:.4g}]"
        )
    yield from found.history.warnings


def _doubts(found: Walk, need: Need | None) -> Iterator[str]:
    balances = [share for _, share in found.history.observed]
    if balances and min(balances) < HELD_BACK_BELOW:
        yield f"the source's own credits fell to {min(balances):.0%}: it may have asked for more than it was given"
    elif found.history.slow:
        yield "requests of the source waited 50 ms and more: it may have asked for more than it was given"
    if need is not None and need.iops_low > found.peak_iops:
        yield "that is more than the series has at any time, so the candidate needs more than the source did"
