"""Whether a volume sustains production's load: limits that are too low, and burst credits that run out.

The replay measures the I/O demand; the volume's limits are those of its profile. The forecast assumes that the
log's mean load continues.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, stdev

from volbench.core.base.text import counted, duration, number, percent
from volbench.core.profile.limits import Limits, limits_of
from volbench.core.profile.resolve import resolve_spec
from volbench.core.records.validation.plan import BurstPlan
from volbench.core.records.validation.result import BurstOutlook, CheckRow, Replayed
from volbench.measure.workload.replay.schedule import WRITES
from volbench.results.credits.forecast import Forecast, forecast
from volbench.results.credits.work import DEFAULT_IO_BYTES, constant
from volbench.results.stats.linear import t_quantile
from volbench.validation.replay.io_meter import IoCounters
from volbench.validation.verdict import decide_check, undecided

ALPHA = 0.05
BLOCKS = 10
"""Means of this many blocks of the replay are nearly independent; means of seconds are not."""
INTERVALS_MIN = 2 * BLOCKS
FAILED_SHARE_MAX = 0.01
"""More failed statements than this, which did no I/O, make the demand of the log uncertain."""
_FULLY_SERVED = 1 - 1e-9


@dataclass(frozen=True, kw_only=True)
class IoDemand:
    """Requests a second at production's rate, with an interval of their sum, and their mean sizes in bytes."""

    reads_per_s: float
    writes_per_s: float
    read_bytes: float
    write_bytes: float
    iops_low: float
    iops_high: float

    @property
    def iops(self) -> float:
        """Return requests a second."""
        return self.reads_per_s + self.writes_per_s


def candidate_limits(plan: BurstPlan) -> Limits:
    """Return the limits of the plan's volume. Raises UsageError for a wrong SPEC."""
    return limits_of(resolve_spec(plan.volume, name="burst.volume"))


def measure_demand(counts: Sequence[IoCounters], replay: Replayed) -> IoDemand | None:
    """Return the I/O demand of the log at its own speed; None where the replay was too short.

    A replay that fell behind spreads the same requests over more time, so they are divided by the log's time.
    """
    if len(counts) <= INTERVALS_MIN or replay.log_s <= 0 or not replay.sent or _counters_reset(counts):
        return None
    first, last = counts[0], counts[-1]
    scale = replay.duration_s / replay.log_s * replay.statements / replay.sent
    block_rates = [scale * rate for rate in _block_rates(counts)]
    seconds = last.t_s - first.t_s
    reads, writes = last.reads - first.reads, last.writes - first.writes
    mean = scale * (reads + writes) / seconds
    half_width = _half_width(block_rates)
    # Pages that the replay left dirty are written later: at most a request each, and one for the doublewrite.
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
    """Return the forecast for the demand and for both ends of its interval."""
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
    """Return go when the volume sustains the high end of the demand, no-go when it does not sustain the low end."""
    if outlook is None:
        return undecided("burst", f"too few readings: the replay must take more than {INTERVALS_MIN} s")
    text = _text(outlook, plan)
    is_short = not _lasts(outlook.runway_s_high, outlook.served_share_high, plan)
    doubts = list(_missing_load(replay))
    if not is_short and not _lasts(outlook.runway_s_low, outlook.served_share_low, plan):
        doubts.append("the interval of the load spans the limit: replay a longer log")
    return decide_check(
        "burst",
        compared=1 if outlook.iops > 0 else 0,
        text=text,
        faults=[text] if is_short else [],
        doubts=doubts,
        notes=[
            f"the log needs {number(outlook.iops)} requests/s "
            f"[{number(outlook.iops_low)}, {number(outlook.iops_high)}], "
            f"{percent(outlook.read_share)} of them reads, counted by {outlook.counted_by}"
        ],
        nothing=f"no I/O was counted during the replay, by {outlook.counted_by}",
    )


def _missing_load(replay: Replayed) -> Iterator[str]:
    """Yield what the replay did not ask of the volume, while production does."""
    if skipped_writes := replay.excluded.get(WRITES, 0):
        statements = counted(skipped_writes, "statement that writes was", "statements that write were")
        yield f"{statements} not replayed, so the real load is higher"
    failed = sum(replay.errors.values())
    if failed > FAILED_SHARE_MAX * replay.sent:
        yield f"{counted(failed, 'statement')} of {replay.sent:,} failed, so the real load may be higher"


def _half_width(rates: Sequence[float]) -> float:
    return t_quantile(1 - ALPHA / 2, BLOCKS - 1) * stdev(rates) / math.sqrt(BLOCKS)


def _block_rates(counts: Sequence[IoCounters]) -> list[float]:
    """Return requests a second of blocks of equally many readings."""
    edges = [counts[round(number * (len(counts) - 1) / BLOCKS)] for number in range(BLOCKS + 1)]
    return [
        (after.reads + after.writes - before.reads - before.writes) / (after.t_s - before.t_s)
        for before, after in pairwise(edges)
    ]


def _counters_reset(counts: Sequence[IoCounters]) -> bool:
    """Return whether counters decreased: another server or device."""
    return any(after.reads < before.reads or after.writes < before.writes for before, after in pairwise(counts))


def _size(amount: float, requests: float) -> float:
    return amount / requests if amount > 0 and requests > 0 else float(DEFAULT_IO_BYTES)


def _forecast(demand: IoDemand, limits: Limits, iops: float) -> Forecast:
    scale = iops / demand.iops if demand.iops else 0.0
    return forecast(
        limits,
        constant(
            reads_per_s=demand.reads_per_s * scale,
            writes_per_s=demand.writes_per_s * scale,
            read_bytes=demand.read_bytes,
            write_bytes=demand.write_bytes,
        ),
    )


def _lasts(runway_s: float | None, served_share: float, plan: BurstPlan) -> bool:
    return served_share >= _FULLY_SERVED and (runway_s is None or runway_s >= plan.duration_s)


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
        f"; then the volume serves {percent(outlook.served_share_after)} of it"
        if outlook.served_share_after is not None
        else ""
    )
    return (
        f"{outlook.volume}: {outlook.bucket} run out after {likely} [{low}, {high}] of the log's mean load, "
        f"{duration(plan.duration_s)} are required{after}"
    )
