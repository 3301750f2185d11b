"""Whether a volume holds production's load for long: limits that are too low, and credits that run out.

The replay tells what the volume is asked for; the volume's limits are those of its profile. The log's mean load is
taken to go on without end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, stdev

from volbench.analysis.credits.forecast import Forecast, forecast
from volbench.analysis.credits.limits import Limits, limits_of
from volbench.analysis.credits.work import DEFAULT_IO_BYTES, constant
from volbench.analysis.linear import t_quantile
from volbench.base.text import duration, percent
from volbench.records.gate import Decision
from volbench.records.validation import BurstOutlook, BurstPlan, CheckRow, Replayed
from volbench.validation.volume_load import Count
from volbench.volume.profiles import resolve_spec

ALPHA = 0.05
BLOCKS = 10
"""Means of so many stretches of the replay are nearly independent, which those of seconds are not."""
INTERVALS_MIN = 2 * BLOCKS
_FULLY_SERVED = 1 - 1e-9
WRITES_SKIPPED = "that do more than read"
"""How a replay calls statements that it did not send since the candidate is not disposable."""


@dataclass(frozen=True, kw_only=True)
class IoDemand:
    """Requests a second at production's rate, with an interval for their sum, and their mean sizes in bytes."""

    reads_per_s: float
    writes_per_s: float
    read_bytes: float
    write_bytes: float
    iops_low: float
    iops_high: float

    @property
    def iops(self) -> float:
        """Requests a second."""
        return self.reads_per_s + self.writes_per_s


def candidate_limits(plan: BurstPlan) -> Limits:
    """Those of the plan's volume. Raises UsageError for a SPEC that is none."""
    return limits_of(resolve_spec(plan.volume, name="burst.volume"))


def measure_demand(counts: Sequence[Count], replay: Replayed) -> IoDemand | None:
    """What the log asks the volume for, at its own speed; None where too little was counted.

    A replay that fell behind stretches the same requests over more time, so they are counted for the log's time.
    """
    if len(counts) <= INTERVALS_MIN or replay.log_s <= 0 or not replay.sent or _counters_reset(counts):
        return None
    first, last = counts[0], counts[-1]
    scale = replay.took_s / replay.log_s * replay.statements / replay.sent
    block_rates = [scale * rate for rate in _block_rates(counts)]
    seconds = last.t_s - first.t_s
    reads, writes = last.reads - first.reads, last.writes - first.writes
    mean = scale * (reads + writes) / seconds
    half_width = _half_width(block_rates)
    # What the replay left dirty is written later: at most by a request each, and one more for the doublewrite.
    deferred_per_s = 2 * scale * max(0.0, last.dirty_pages - first.dirty_pages) / seconds
    return IoDemand(
        reads_per_s=scale * reads / seconds,
        writes_per_s=scale * writes / seconds,
        read_bytes=_size(last.read_bytes - first.read_bytes, reads),
        write_bytes=_size(last.written_bytes - first.written_bytes, writes),
        iops_low=max(0.0, min(mean, fmean(block_rates)) - half_width),
        iops_high=max(mean, fmean(block_rates)) + half_width + deferred_per_s,
    )


def burst_outlook(demand: IoDemand, limits: Limits, plan: BurstPlan, *, counted_by: str) -> BurstOutlook:
    """What the volume makes of the need, and of both ends of its interval."""
    likely, best_case, worst_case = (
        _forecast(demand, limits, iops) for iops in (demand.iops, demand.iops_low, demand.iops_high)
    )
    return BurstOutlook(
        volume=plan.volume,
        counted_by=counted_by,
        iops=demand.iops,
        iops_low=demand.iops_low,
        iops_high=demand.iops_high,
        read_share=demand.reads_per_s / demand.iops if demand.iops else 0.0,
        bucket=likely.bucket.name if likely.bucket else "",
        runway_s=likely.exhausted_after_s,
        runway_s_low=worst_case.exhausted_after_s,
        runway_s_high=best_case.exhausted_after_s,
        served_share=likely.before.share,
        served_share_high=best_case.before.share,
        served_share_low=worst_case.before.share,
        served_share_after=likely.after.share if likely.after else None,
    )


def burst_check(outlook: BurstOutlook | None, replay: Replayed, plan: BurstPlan) -> CheckRow:
    """go when even the heavy end of the need is served as long as asked, no-go when the light end is not."""
    if outlook is None:
        text = f"too little was counted: the replay has to take more than {INTERVALS_MIN} s"
        return CheckRow(check="burst", decision="undecided", text=text)
    skipped_writes = replay.left_out.get(WRITES_SKIPPED, 0)
    decision = _decision(outlook, plan, complete=not skipped_writes)
    details = [
        f"the log asks for {outlook.iops:.4g} requests/s [{outlook.iops_low:.4g}, {outlook.iops_high:.4g}], "
        f"{percent(outlook.read_share)} of them reads, counted by {outlook.counted_by}"
    ]
    if skipped_writes:
        details.append(
            f"{skipped_writes} statements that write were not replayed, so the load is heavier than counted"
        )
    return CheckRow(check="burst", decision=decision, text=_text(outlook, plan), details=tuple(details))


def _half_width(rates: Sequence[float]) -> float:
    return t_quantile(1 - ALPHA / 2, BLOCKS - 1) * stdev(rates) / math.sqrt(BLOCKS)


def _block_rates(counts: Sequence[Count]) -> list[float]:
    """Return requests a second of blocks of equally many readings."""
    edges = [counts[round(number * (len(counts) - 1) / BLOCKS)] for number in range(BLOCKS + 1)]
    return [
        (after.reads + after.writes - before.reads - before.writes) / (after.t_s - before.t_s)
        for before, after in pairwise(edges)
    ]


def _counters_reset(counts: Sequence[Count]) -> bool:
    """Whether counters went back: another server or device."""
    return any(after.reads < before.reads or after.writes < before.writes for before, after in pairwise(counts))


def _size(amount: float, requests: float) -> float:
    return amount / requests if amount > 0 and requests > 0 else float(DEFAULT_IO_BYTES)


def _forecast(demand: IoDemand, limits: Limits, iops: float) -> Forecast:
    scale = iops / demand.iops if demand.iops else 0.0
    return forecast(
        limits,
        constant(
            reads_per_s=demand.reads_per_s * scale, writes_per_s=demand.writes_per_s * scale,
            read_bytes=demand.read_bytes, write_bytes=demand.write_bytes,
        ),
    )  # fmt: skip


def _decision(outlook: BurstOutlook, plan: BurstPlan, *, complete: bool) -> Decision:
    if not _lasts(outlook.runway_s_high, outlook.served_share_high, plan):
        return "no-go"
    return "go" if complete and _lasts(outlook.runway_s_low, outlook.served_share_low, plan) else "undecided"


def _lasts(runway_s: float | None, served_share: float, plan: BurstPlan) -> bool:
    return served_share >= _FULLY_SERVED and (runway_s is None or runway_s >= plan.lasts_s)


def _text(outlook: BurstOutlook, plan: BurstPlan) -> str:
    if outlook.served_share < _FULLY_SERVED:
        return f"{outlook.volume} serves {percent(outlook.served_share)} of the load at most"
    if outlook.runway_s_low is None:
        credit = f"{outlook.bucket} never run out" if outlook.bucket else "no credits to run out"
        return f"{outlook.volume}: {credit} under the log's mean load"
    likely, low, high = (
        "never" if seconds is None else duration(seconds)
        for seconds in (outlook.runway_s, outlook.runway_s_low, outlook.runway_s_high)
    )
    after = (
        f"; then it serves {percent(outlook.served_share_after)} of it"
        if outlook.served_share_after is not None
        else ""
    )
    return (
        f"{outlook.volume}: {outlook.bucket} run out after {likely} [{low}, {high}] of the log's mean load, "
        f"{duration(plan.lasts_s)} are asked for{after}"
    )
