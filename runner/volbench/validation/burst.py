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
from volbench.records.gate import Decision
from volbench.records.validation import BurstOutlook, BurstPlan, CheckRow, Replayed
from volbench.validation.move import spoken_s
from volbench.validation.volume_load import Count
from volbench.volume.profiles import resolve_spec

ALPHA = 0.05
BLOCKS = 10
"""Means of so many stretches of the replay are nearly independent, which those of seconds are not."""
INTERVALS_MIN = 2 * BLOCKS
_SERVED = 1 - 1e-9
LEFT_OUT = "that do more than read"
"""How a replay calls statements that it did not send since the candidate is not disposable."""


@dataclass(frozen=True, kw_only=True)
class Need:
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


def need_of(counts: Sequence[Count], found: Replayed) -> Need | None:
    """What the log asks the volume for, at its own speed; None where too little was counted.

    A replay that fell behind stretches the same requests over more time, so they are counted for the log's time.
    """
    if len(counts) <= INTERVALS_MIN or found.log_s <= 0 or not found.sent or _began_anew(counts):
        return None
    first, last = counts[0], counts[-1]
    pace = found.took_s / found.log_s * found.statements / found.sent
    per_s = [pace * rate for rate in _block_rates(counts)]
    seconds = last.t_s - first.t_s
    reads, writes = last.reads - first.reads, last.writes - first.writes
    mean = pace * (reads + writes) / seconds
    reach = _reach(per_s)
    # What the replay left dirty is written later: at most by a request each, and one more for the doublewrite.
    owed = 2 * pace * max(0.0, last.dirty_pages - first.dirty_pages) / seconds
    return Need(
        reads_per_s=pace * reads / seconds, writes_per_s=pace * writes / seconds,
        read_bytes=_size(last.read_bytes - first.read_bytes, reads),
        write_bytes=_size(last.written_bytes - first.written_bytes, writes),
        iops_low=max(0.0, min(mean, fmean(per_s)) - reach), iops_high=max(mean, fmean(per_s)) + reach + owed,
    )  # fmt: skip


def outlook_of(need: Need, limits: Limits, plan: BurstPlan, *, counted_by: str) -> BurstOutlook:
    """What the volume makes of the need, and of both ends of its interval."""
    likely, light, heavy = (_ahead(need, limits, iops) for iops in (need.iops, need.iops_low, need.iops_high))
    return BurstOutlook(
        volume=plan.volume, counted_by=counted_by, iops=need.iops, iops_low=need.iops_low,
        iops_high=need.iops_high, read_share=need.reads_per_s / need.iops if need.iops else 0.0,
        bucket=likely.bucket.name if likely.bucket else "", runway_s=likely.exhausted_after_s,
        runway_s_low=heavy.exhausted_after_s, runway_s_high=light.exhausted_after_s,
        served_share=likely.before.share, served_share_high=light.before.share, served_share_low=heavy.before.share,
        served_share_after=likely.after.share if likely.after else None,
    )  # fmt: skip


def burst_check(found: BurstOutlook | None, replay: Replayed, plan: BurstPlan) -> CheckRow:
    """go when even the heavy end of the need is served as long as asked, no-go when the light end is not."""
    if found is None:
        text = f"too little was counted: the replay has to take more than {INTERVALS_MIN} s"
        return CheckRow(check="burst", decision="undecided", text=text)
    unseen = replay.left_out.get(LEFT_OUT, 0)
    decision = _decision(found, plan, complete=not unseen)
    details = [
        f"the log asks for {found.iops:.4g} requests/s [{found.iops_low:.4g}, {found.iops_high:.4g}], "
        f"{found.read_share:.0%} of them reads, counted by {found.counted_by}"
    ]
    if unseen:
        details.append(f"{unseen} statements that write were not replayed, so the load is heavier than counted")
    return CheckRow(check="burst", decision=decision, text=_text(found, plan), details=tuple(details))


def _reach(rates: Sequence[float]) -> float:
    return t_quantile(1 - ALPHA / 2, BLOCKS - 1) * stdev(rates) / math.sqrt(BLOCKS)


def _block_rates(counts: Sequence[Count]) -> list[float]:
    """Return requests a second of blocks of equally many readings."""
    edges = [counts[round(number * (len(counts) - 1) / BLOCKS)] for number in range(BLOCKS + 1)]
    return [
        (after.reads + after.writes - before.reads - before.writes) / (after.t_s - before.t_s)
        for before, after in pairwise(edges)
    ]


def _began_anew(counts: Sequence[Count]) -> bool:
    """Whether counters went back: another server or device."""
    return any(after.reads < before.reads or after.writes < before.writes for before, after in pairwise(counts))


def _size(amount: float, requests: float) -> float:
    return amount / requests if amount > 0 and requests > 0 else float(DEFAULT_IO_BYTES)


def _ahead(need: Need, limits: Limits, iops: float) -> Forecast:
    scale = iops / need.iops if need.iops else 0.0
    return forecast(
        limits,
        constant(
            reads_per_s=need.reads_per_s * scale, writes_per_s=need.writes_per_s * scale,
            read_bytes=need.read_bytes, write_bytes=need.write_bytes,
        ),
    )  # fmt: skip


def _decision(found: BurstOutlook, plan: BurstPlan, *, complete: bool) -> Decision:
    if not _lasts(found.runway_s_high, found.served_share_high, plan):
        return "no-go"
    return "go" if complete and _lasts(found.runway_s_low, found.served_share_low, plan) else "undecided"


def _lasts(runway_s: float | None, served: float, plan: BurstPlan) -> bool:
    return served >= _SERVED and (runway_s is None or runway_s >= plan.lasts_s)


def _text(found: BurstOutlook, plan: BurstPlan) -> str:
    if found.served_share < _SERVED:
        return f"{found.volume} serves {found.served_share:.0%} of the load at most"
    if found.runway_s_low is None:
        credit = f"{found.bucket} never run out" if found.bucket else "no credits to run out"
        return f"{found.volume}: {credit} under the log's mean load"
    likely, low, high = (
        "never" if one is None else spoken_s(one)
        for one in (found.runway_s, found.runway_s_low, found.runway_s_high)
    )
    after = f"; then it serves {found.served_share_after:.0%} of it" if found.served_share_after is not None else ""
    return (
        f"{found.volume}: {found.bucket} run out after {likely} [{low}, {high}] of the log's mean load, "
        f"{spoken_s(plan.lasts_s)} are asked for{after}"
    )
