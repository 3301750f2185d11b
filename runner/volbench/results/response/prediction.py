"""What a load's latency would be with other waiting times, from its slopes alone.

    latency' = latency + sum of b x (await' - await)

A closed loop of N clients makes N / latency transactions a second (Little's law), so its rate goes by
latency / latency'. The interval is the root of the sum of squares of what each slope's interval makes of its
change (slopes by a signal, or of awaits that move apart, have errors that hardly depend on each other), and of what
another run on another volume is off by (`levels.OTHER_RUN_SD`), which no slope knows.

What one wait changes is `LatencySlope.change`, as for what-if and advice.

p50 has slopes of its own where they come from the same intervals as the mean's. Else it goes in proportion to the
mean, as p95 and p99 do, and only where that was checked (`tails`).

What it leaves out: limits of the other volume (`explain --what-if` has them), and CPUs that become the bottleneck
when reads no longer are. So it says nothing below the part that no wait explains, and marks awaits beyond twice, or
below half, of what was measured.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from volbench.core.base.text import number, percent
from volbench.core.records.report import ResponseRow
from volbench.errors import UsageError
from volbench.results.response.levels import LatencyEstimate, LatencySlope, latency_at
from volbench.results.response.measured import MeasuredResponse
from volbench.results.response.model import Interval
from volbench.results.response.tails import TAIL_LEVELS, tail_at

NEAR_AND_FAR = "of forecasts written before their run, 10 of 16 rates were within 15 % so far off, nearer 40 of 44"
"""For emulated volumes: results/examples/lab/forecasts.md."""
_BY_SLOPES = ("mean", "p50")


@dataclass(frozen=True, kw_only=True)
class Predicted:
    """One statistic of a load's latency with other waiting times.

    Args:
        statistic: mean, p50, p95, p99.
        latency_ms: predicted, with `interval_ms` of 95 %; `measured_ms`: as it was.
        tps_factor: by how much a closed loop's rate changes, with its interval; None for percentiles.
        is_beyond: an await is far from all that were measured.
        moved_ms: by term that is asked for, the 10th and 90th percentile of the awaits that were measured.
        held_out_error: of a percentile, the largest share that it was off where it was looked up.
    """

    step: str
    statistic: str
    measured_ms: float
    latency_ms: float
    interval_ms: tuple[float, float]
    tps_factor: float | None
    tps_interval: tuple[float, float] | None
    is_beyond: bool
    held_out_error: float | None = None
    moved_ms: Mapping[str, tuple[float, float]] = field(default_factory=dict)


def predicted(rows: Sequence[ResponseRow], awaits_ms: Mapping[str, float]) -> tuple[Predicted, ...]:
    """Return what each load's statistics would be with other waiting times; none of loads without their slopes.

    Args:
        rows: of a report, `responses`.
        awaits_ms: by term (read, log_sync, ...) the wanted waiting time; others stay as they are.
    """
    predictions = []
    methods = {row.step: row.method for row in rows if row.statistic == "mean" and not row.query}
    by_slopes = [row for row in rows if row.statistic in _BY_SLOPES and row.method == methods.get(row.step)]
    for step, statistic in dict.fromkeys((row.step, row.statistic) for row in by_slopes):
        of_one = [row for row in rows if (row.step, row.statistic, row.query) == (step, statistic, "")]
        prediction = _predicted(of_one, awaits_ms)
        if prediction is not None:
            predictions.append(prediction)
    return tuple(predictions)


def predicted_tails(
    measured: MeasuredResponse,
    step: str,
    awaits_ms: Mapping[str, float],
    *,
    statistics: Collection[str] = tuple(TAIL_LEVELS.values()),
) -> tuple[tuple[Predicted, ...], tuple[str, ...]]:
    """Return percentiles of a load with other waiting times, and why one of them is not predicted.

    Each is taken from the volume whose latency is nearest to the predicted one.

    Args:
        measured: of the load.
        step: its name.
        awaits_ms: by term the wanted waiting time; others stay as they are.
        statistics: that are wanted.
    """
    costs = [cost for cost in measured.costs if cost.term in awaits_ms]
    latencies = [(level, latency_at(level, costs, awaits_ms)) for level in measured.levels]
    usable = [(level, latency) for level, latency in latencies if latency.low_ms > 0]
    tails, reasons = [], []
    for quantile, check in measured.tails.items():
        if check.statistic not in statistics:
            continue
        if check.reason:
            reasons.append(check.reason)
            continue
        candidates = [(level, latency) for level, latency in usable if quantile in level.quantiles_ms]
        if not candidates:
            continue
        level, latency = min(candidates, key=lambda pair: abs(math.log(pair[1].value_ms / pair[0].latency_ms)))
        tail = tail_at(level, check, quantile, latency)
        if tail is not None:
            tails.append(
                Predicted(
                    step=step,
                    statistic=check.statistic,
                    measured_ms=level.quantiles_ms[quantile],
                    latency_ms=tail.value_ms,
                    interval_ms=(tail.low_ms, tail.high_ms),
                    tps_factor=None,
                    tps_interval=None,
                    is_beyond=any(cost.is_beyond(awaits_ms[cost.term]) for cost in costs),
                    held_out_error=check.error_max,
                    moved_ms={cost.term: cost.moved_ms for cost in costs},
                )
            )
    return tuple(tails), tuple(reasons)


def tails_by_step(
    measured: Mapping[str, MeasuredResponse], predictions: Sequence[Predicted], awaits_ms: Mapping[str, float]
) -> dict[str, tuple[tuple[Predicted, ...], tuple[str, ...]]]:
    """Return by step the percentiles that no slopes predict, and why those are not predicted that are missing.

    Args:
        measured: by step, what the server's counts confirm.
        predictions: by slopes, of the steps that are asked for.
        awaits_ms: by term the wanted waiting time.
    """
    tails = {}
    for step in dict.fromkeys(prediction.step for prediction in predictions):
        by_slopes = {prediction.statistic for prediction in predictions if prediction.step == step}
        missing = [statistic for statistic in TAIL_LEVELS.values() if statistic not in by_slopes]
        if step in measured:
            tails[step] = predicted_tails(measured[step], step, awaits_ms, statistics=missing)
        else:
            reason = f"not predicted: the server's counts confirm no response of this load ({', '.join(missing)})"
            tails[step] = ((), (reason,))
    return tails


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
    predictions = predicted(rows, awaits_ms)
    if not predictions:
        terms_known = sorted(
            {row.term for row in rows if row.ci is not None and row.statistic == "mean" and not row.query}
        )
        raise UsageError(
            f"no load of this run has a slope of latency over {' and '.join(awaits_ms)} that tells this",
            where="--await-ms",
            evidence=f"slopes with an interval are of {', '.join(terms_known)}"
            if terms_known
            else "no load has any slope",
            next_step="modulate an emulated volume: volbench run suites/response.yaml --volume v=emulated:PROFILE",
        )
    return predictions


def prediction_text(prediction: Predicted) -> str:
    """Return a prediction in a line, without its load's name."""
    low, high = (number(end) for end in prediction.interval_ms)
    change = f"{number(prediction.measured_ms)} -> {number(prediction.latency_ms)} ms"
    text = f"{prediction.statistic} {change} [{low}, {high}]"
    if prediction.tps_factor is not None and prediction.tps_interval is not None:
        low, high = (number(end) for end in prediction.tps_interval)
        text += f", transactions/s of a closed loop x {number(prediction.tps_factor)} [{low}, {high}]"
    if prediction.held_out_error is not None:
        text += f", off by up to {percent(prediction.held_out_error)} where it was looked up"
    return text + (f" ({_beyond_text(prediction)})" if prediction.is_beyond else "")


def _beyond_text(prediction: Predicted) -> str:
    """Return that a prediction leaves the range in which predictions were within 15 %, and the range."""
    ranges = ", ".join(
        f"{term} {number(low)} to {number(high)} ms" for term, (low, high) in prediction.moved_ms.items()
    )
    return f"far from any waiting time that was measured: {ranges}; {NEAR_AND_FAR}"


def _predicted(rows: Sequence[ResponseRow], awaits_ms: Mapping[str, float]) -> Predicted | None:
    """Return the prediction of one statistic; None without a slope, with its interval, of every wanted term."""
    costs = {row.term: _cost(row, row.ci) for row in rows if row.term in awaits_ms and row.ci is not None}
    if not awaits_ms or set(costs) != set(awaits_ms):
        return None
    first = rows[0]
    changes = [costs[row.term].change(row.await_ms, awaits_ms[row.term]) for row in rows if row.term in costs]
    latency_ms = first.latency_ms + sum(change.value for change in changes)
    by_slopes = LatencyEstimate(
        value_ms=latency_ms,
        low_ms=latency_ms - math.hypot(*(change.value - change.low for change in changes)),
        high_ms=latency_ms + math.hypot(*(change.high - change.value for change in changes)),
    )
    latency = by_slopes.on_another_run()
    if latency.low_ms <= 0:
        return None
    factor, factors = None, None
    if first.statistic == "mean":
        factor = first.latency_ms / latency_ms
        factors = (first.latency_ms / latency.high_ms, first.latency_ms / latency.low_ms)
    return Predicted(
        step=first.step,
        statistic=first.statistic,
        measured_ms=first.latency_ms,
        latency_ms=latency_ms,
        interval_ms=(latency.low_ms, latency.high_ms),
        tps_factor=factor,
        tps_interval=factors,
        is_beyond=any(cost.is_beyond(awaits_ms[term]) for term, cost in costs.items()),
        moved_ms={term: cost.moved_ms for term, cost in costs.items()},
    )


def _cost(row: ResponseRow, ci: tuple[float, float]) -> LatencySlope:
    less = None
    if row.less_cpu_wait is not None:
        low, high = row.less_cpu_wait_ci or (row.less_cpu_wait, row.less_cpu_wait)
        less = Interval(value=row.less_cpu_wait, low=low, high=high)
    return LatencySlope(
        term=row.term,
        value=row.slope,
        low=ci[0],
        high=ci[1],
        is_measured=True,
        moved_ms=row.moved_ms,
        less_cpu_wait=less,
    )
