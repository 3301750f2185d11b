"""What a load's latency would be with other waiting times, from its slopes alone.

    latency' = latency + sum of b x (await' - await)

A closed loop of N clients makes N / latency transactions a second (Little's law), so its rate goes by
latency / latency'. The interval is the root of the sum of squares of what each slope's interval makes of its
change: slopes by a signal, or of awaits that move apart, have errors that hardly depend on each other.

What it leaves out: limits of the other volume (`explain --what-if` has them), and CPUs that become the bottleneck
when reads no longer are. So it says nothing below the part that no wait explains, and marks awaits beyond twice, or
below half, of what was measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from volbench.core.base.text import number
from volbench.core.records.report import ResponseRow
from volbench.errors import UsageError

BEYOND = 2.0
"""Times the largest await that was measured, or the smallest divided by it: from here on the line is a guess."""


@dataclass(frozen=True, kw_only=True)
class Predicted:
    """One statistic of a load's latency with other waiting times.

    Args:
        statistic: mean, p50, p95, p99.
        latency_ms: predicted, with `interval_ms` of 95 %; `measured_ms`: as it was.
        tps_factor: by how much a closed loop's rate changes, with its interval; None for percentiles.
        is_beyond: an await is far from all that were measured.
    """

    step: str
    statistic: str
    measured_ms: float
    latency_ms: float
    interval_ms: tuple[float, float]
    tps_factor: float | None
    tps_interval: tuple[float, float] | None
    is_beyond: bool


def predicted(rows: Sequence[ResponseRow], awaits_ms: Mapping[str, float]) -> tuple[Predicted, ...]:
    """Return what each load's statistics would be with other waiting times; none of loads without their slopes.

    Args:
        rows: of a report, `responses`.
        awaits_ms: by term (read, log_sync, ...) the wanted waiting time; others stay as they are.
    """
    found = []
    for step, statistic in dict.fromkeys((row.step, row.statistic) for row in rows):
        of_one = [row for row in rows if (row.step, row.statistic, row.query) == (step, statistic, "")]
        one = _predicted(of_one, awaits_ms)
        if one is not None:
            found.append(one)
    return tuple(found)


def predicted_by(rows: Sequence[ResponseRow], awaits_ms: Mapping[str, float]) -> tuple[Predicted, ...]:
    """Return `predicted`. Raise UsageError for waiting times that make no sense, or that no load has slopes of."""
    wrong = [f"{term}={await_ms:g}" for term, await_ms in awaits_ms.items() if not 0 <= await_ms < math.inf]
    if wrong or not awaits_ms:
        raise UsageError(
            "a waiting time is 0 ms or more, by its term",
            where="--await-ms",
            evidence=", ".join(wrong) or "none is given",
            next_step="give one, such as read=0.3",
        )
    found = predicted(rows, awaits_ms)
    if not found:
        known = sorted(
            {row.term for row in rows if row.ci is not None and row.statistic == "mean" and not row.query}
        )
        raise UsageError(
            f"no load of this run has a slope of latency over {' and '.join(awaits_ms)} that tells this",
            where="--await-ms",
            evidence=f"slopes with an interval are of {', '.join(known)}" if known else "no load has any slope",
            next_step="modulate an emulated volume: volbench run suites/response.yaml --volume v=emulated:PROFILE",
        )
    return found


def prediction_text(one: Predicted) -> str:
    """Return a prediction in a line, without its load's name."""
    low, high = (number(end) for end in one.interval_ms)
    text = f"{one.statistic} {number(one.measured_ms)} -> {number(one.latency_ms)} ms [{low}, {high}]"
    if one.tps_factor is not None and one.tps_interval is not None:
        low, high = (number(end) for end in one.tps_interval)
        text += f", transactions/s of a closed loop x {number(one.tps_factor)} [{low}, {high}]"
    return text + (" (far from any waiting time that was measured)" if one.is_beyond else "")


def _predicted(rows: Sequence[ResponseRow], awaits_ms: Mapping[str, float]) -> Predicted | None:
    """Return the prediction of one statistic; None without a slope, with its interval, of every wanted term."""
    slopes = {row.term: row for row in rows if row.term in awaits_ms and row.ci is not None}
    if not awaits_ms or set(slopes) != set(awaits_ms):
        return None
    first = rows[0]
    changes = {term: awaits_ms[term] - row.await_ms for term, row in slopes.items()}
    latency_ms = first.latency_ms + sum(slopes[term].slope * change for term, change in changes.items())
    ends = (_reach(slopes, changes, side) for side in (-1, 1))
    low_ms, high_ms = (latency_ms + end for end in ends)
    if low_ms <= 0:
        return None
    factor, factors = None, None
    if first.statistic == "mean":
        factor = first.latency_ms / latency_ms
        factors = (first.latency_ms / high_ms, first.latency_ms / low_ms)
    return Predicted(
        step=first.step,
        statistic=first.statistic,
        measured_ms=first.latency_ms,
        latency_ms=latency_ms,
        interval_ms=(low_ms, high_ms),
        tps_factor=factor,
        tps_interval=factors,
        is_beyond=any(_is_beyond(slopes[term], await_ms) for term, await_ms in awaits_ms.items()),
    )


def _reach(slopes: Mapping[str, ResponseRow], changes: Mapping[str, float], side: int) -> float:
    """Return how far the interval reaches on one side, with its sign."""
    squares = 0.0
    for term, change in changes.items():
        low, high = slopes[term].ci or (slopes[term].slope, slopes[term].slope)
        end = high if side * change > 0 else low
        squares += ((end - slopes[term].slope) * change) ** 2
    return side * math.sqrt(squares)


def _is_beyond(row: ResponseRow, await_ms: float) -> bool:
    low, high = row.moved_ms
    return not low / BEYOND <= await_ms <= high * BEYOND
