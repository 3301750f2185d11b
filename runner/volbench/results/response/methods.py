"""Slopes by one method: rows of all cells, without those that lie far off, and what each term costs in them.

`estimate` says which terms and methods there are, and why a slope is a number of waits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from volbench.core.base.text import part_of
from volbench.results.response.between import between_intervals
from volbench.results.response.least_squares import Fit, fit
from volbench.results.response.left_out import Floats, Ints
from volbench.results.response.lock_in import locked_fit
from volbench.results.response.model import Interval, Method, Response, Slope
from volbench.results.response.samples import WINDOW_INTERVALS, CellSamples, Rows, WaitCount, rows_of

CONFIDENCE = 0.95
BLOCK_S = 6.0
"""Two stretches of smoothed intervals of a second; a load's own swings (a checkpoint) are as long."""
OUTLIER_MADS = 6.0
"""Median absolute deviations (as a normal's deviation) beyond which a residual is another event's: a pause of the
whole machine. Of normal residuals it takes two in a thousand million."""
OUTLIERS_MAX = 0.05
"""Share of intervals that may be left out so; what is more frequent belongs to the load."""
COUNTS_APART_MAX = 2.0
"""Times the cells' mean count; beyond, the sum hangs on a few cells of nearly the same await."""
TOGETHER_MIN = 0.9
"""Correlation of two awaits beyond which the data hardly tell them apart: intervals are 2.3 times as wide."""


def by_method(cells: Sequence[CellSamples], terms: Sequence[str], method: Method) -> Response | None:
    """Return the response by one method; None where it has too little to go by."""
    width_s = max(cell.interval_s for cell in cells)
    block = max(2 * WINDOW_INTERVALS, math.ceil(BLOCK_S / width_s))
    rows = rows_of(cells, terms, block_intervals=block, is_modulated=method == "signal")
    response = _fitted(rows, method)
    if response is None:
        return None
    usual = _usual(rows, response, method)
    if usual.all() or (~usual).mean() > OUTLIERS_MAX:
        return response
    again = _fitted(rows.where(usual), method)
    if again is None:
        return response
    verbs = ("lies far off and is", "lie far off and are")
    left_out = part_of(int((~usual).sum()), len(rows), ("interval", "intervals"), verbs)
    return replace(again, notes=(*again.notes, f"{left_out} left out"))


def _usual(rows: Rows, response: Response, method: Method) -> NDArray[np.bool_]:
    """Return which rows lie as near to the line as most do, by their residuals times the root of their weights.

    A signal does not know of pauses, so they fall out of its slopes by themselves, and stalls of the load stay in.
    """
    if method == "signal":
        return np.ones(len(rows), np.bool_)
    groups = rows.threads if method == "between" else rows.cell
    residuals = rows.latency_ms.copy()
    for slope in response.slopes:
        residuals -= slope.value * rows.awaits_ms[:, rows.terms.index(slope.term)]
    for group in np.unique(groups):
        residuals[groups == group] -= np.median(residuals[groups == group])
    residuals *= np.sqrt(rows.weights)
    deviation = 1.4826 * float(np.median(np.abs(residuals)))
    return (
        np.asarray(np.abs(residuals) <= OUTLIER_MADS * deviation) if deviation > 0 else np.ones(len(rows), np.bool_)
    )


def _fitted(rows: Rows, method: Method) -> Response | None:
    """Return the response of rows; None where they do not determine it."""
    if not len(rows):
        return None
    groups = rows.threads if method == "between" else rows.cell
    counted = {term: _counted(rows, term, groups, method) for term in rows.terms}
    free, counted_terms = _told_apart(rows, groups, counted, method)
    if any(counted[term] is None for term in counted_terms):
        return None  # what it costs would be taken for the cost of the wait that it moves with
    known_counts = {term: count for term in counted_terms if (count := counted[term]) is not None}
    if method == "between":
        intervals = between_intervals(rows, free, known_counts, groups, CONFIDENCE)
    else:
        intervals = _hulls(rows, free, known_counts, groups, method)
    if intervals is None:
        return None
    response = _response(rows, intervals, free, counted_terms, counted, method, groups)
    if method != "signal" or not np.isfinite(rows.cpu_wait_ms).all():
        return response
    hulls = _hulls(rows, free, known_counts, groups, method, less_cpu_wait=True)
    less_cpu_wait = dict(zip(free, hulls or [], strict=False))
    slopes = (replace(slope, less_cpu_wait=less_cpu_wait.get(slope.term)) for slope in response.slopes)
    return replace(response, slopes=tuple(slopes))


def _hulls(
    rows: Rows,
    free: Sequence[str],
    counted_terms: Mapping[str, WaitCount],
    groups: Ints,
    method: Method,
    *,
    less_cpu_wait: bool = False,
) -> list[Interval] | None:
    """Return each free slope, from the lowest to the highest end that is possible: it may be anything between.

    Held waits may be as many as the least or the most of their counts, and of the tasks' CPU time none or all may
    be the transactions'. None where the rows do not determine the slopes.

    Args:
        less_cpu_wait: by a signal, the slopes of the latency less the wait for CPUs.
    """
    ends = [[_middle(count) for count in counted_terms.values()]]
    if counted_terms:
        ends += [[count.low for count in counted_terms.values()], [count.high for count in counted_terms.values()]]
    fits = []
    for waits in map(np.asarray, ends):
        if method == "signal":
            fits.append(locked_fit(rows, free, list(counted_terms), waits, less_cpu_wait=less_cpu_wait))
            continue
        latency_ms = rows.latency_ms - rows.awaits_ms[:, [rows.terms.index(term) for term in counted_terms]] @ waits
        fits.append(_fit(rows, latency_ms, free, groups))
        if fits[0] is not None and np.isfinite(rows.cpu_ms).all():
            fits.append(_fit(rows, latency_ms - rows.cpu_ms, free, groups))
    fits_known = [fitted for fitted in fits if fitted is not None]
    if fits[0] is None:
        return None
    intervals = []
    for index in range(len(free)):
        reached = [
            fitted.slopes[index] + side * fitted.reach(index, CONFIDENCE)
            for fitted in fits_known
            for side in (-1, 1)
        ]
        intervals.append(
            Interval(value=float(fits[0].slopes[index]), low=float(min(reached)), high=float(max(reached)))
        )
    return intervals


def _fit(rows: Rows, latency_ms: Floats, free: Sequence[str], groups: Ints) -> Fit | None:
    numbers = [rows.terms.index(term) for term in free]
    return fit(
        latency_ms,
        rows.awaits_ms[:, numbers],
        weights=rows.weights,
        groups=groups,
        clusters=rows.block,
        instruments=rows.smoothed_ms[:, numbers],
    )


def _counted(rows: Rows, term: str, groups: Ints, method: Method) -> WaitCount | None:
    """Return the slope that the cells' counted waits alone would give; where they differ much, their mean."""
    number = rows.terms.index(term)
    low, high = rows.counted_low[:, number], rows.counted_high[:, number]
    is_known = np.isfinite(low)
    if not is_known.any():
        return None
    moving = rows.signal if method == "signal" else rows.smoothed_ms
    level = _less_group_mean(moving[:, number], groups, rows.weights)
    pull = rows.weights * level * rows.awaits_ms[:, number]

    def as_slope(counts: Floats) -> float:
        mean = float(np.average(counts[is_known], weights=rows.weights[is_known]))
        total = float(pull[is_known].sum())
        slope = float(pull[is_known] @ counts[is_known]) / total if total > 0 else mean
        return slope if COUNTS_APART_MAX * slope >= mean and slope <= COUNTS_APART_MAX * mean else mean

    return WaitCount(low=as_slope(low), high=as_slope(high))


def _middle(counted: WaitCount | None) -> float:
    return 0.0 if counted is None else (counted.low + counted.high) / 2


def _told_apart(
    rows: Rows, groups: Ints, counted: Mapping[str, WaitCount | None], method: Method
) -> tuple[list[str], list[str]]:
    """Return terms whose slopes the data tell, and those that move with one of more effect, or of no count."""

    def effect(term: str) -> float:
        return math.inf if counted[term] is None else _middle(counted[term]) * float(moves[term].std())

    moves = {term: _less_group_mean(rows.smoothed_ms[:, number], groups) for number, term in enumerate(rows.terms)}
    by_effect = sorted(rows.terms, key=effect, reverse=True)
    columns = {term: rows.signal[:, rows.terms.index(term)] for term in rows.terms} if method == "signal" else moves
    free: list[str] = []
    together: list[str] = []
    for term in by_effect:
        moves_along = any(
            abs(_correlation(columns[term], columns[other_term])) >= TOGETHER_MIN for other_term in free
        )
        (together if moves_along else free).append(term)
    return free, together


def _response(
    rows: Rows,
    intervals: Sequence[Interval],
    free: Sequence[str],
    counted_terms: Sequence[str],
    counted: Mapping[str, WaitCount | None],
    method: Method,
    groups: Ints,
) -> Response:
    weights = rows.weights / rows.weights.sum()
    latency_ms = float(weights @ rows.latency_ms)
    slopes = []
    for interval, term in zip(intervals, free, strict=True):
        slopes.append(_slope(rows, term, interval, counted[term], groups))
    for term in counted_terms:
        count = counted[term]
        low, high = (count.low, count.high) if count else (0.0, 0.0)
        held_at = Interval(value=_middle(count), low=low, high=high)
        slopes.append(_slope(rows, term, held_at, count, groups, is_held=True))
    explained = min(1.0, max(0.0, sum(slope.variance_share for slope in slopes)))
    notes = (
        (f"{', '.join(counted_terms)} moved together with {free[0]} and stands at its counted waits",)
        if counted_terms
        else ()
    )
    return Response(
        slopes=tuple(slopes),
        intercept_ms=latency_ms - sum(slope.value * slope.await_ms for slope in slopes),
        latency_ms=latency_ms,
        method=method,
        intervals=len(rows),
        cells=len(np.unique(rows.cell)),
        volumes=len(np.unique(rows.volume)),
        explained=explained,
        notes=notes,
    )


def _slope(
    rows: Rows,
    term: str,
    interval: Interval,
    counted: WaitCount | None,
    groups: Ints,
    *,
    is_held: bool = False,
) -> Slope:
    await_ms = rows.awaits_ms[:, rows.terms.index(term)]
    smooth = _less_group_mean(rows.smoothed_ms[:, rows.terms.index(term)], groups)
    latency = _less_group_mean(rows.latency_ms, groups)
    power = float(latency @ latency)
    share = interval.value * float(smooth @ latency) / power if power > 0 else 0.0
    low, high = np.quantile(await_ms, (0.1, 0.9))
    return Slope(
        term=term,
        value=interval.value,
        low=interval.low,
        high=interval.high,
        counted=counted,
        await_ms=float(np.average(await_ms, weights=rows.weights)),
        moved_ms=(float(low), float(high)),
        is_held=is_held,
        variance_share=share,
    )


def _less_group_mean(values: Floats, groups: Ints, weights: Floats | None = None) -> Floats:
    _, group = np.unique(groups, return_inverse=True)
    weights = np.ones(len(values)) if weights is None else weights
    means = np.bincount(group, weights * values) / np.bincount(group, weights)
    return np.asarray(values - means[group], dtype=np.float64)


def _correlation(x: Floats, y: Floats) -> float:
    x, y = x - x.mean(), y - y.mean()
    power = float(x @ x) * float(y @ y)
    return float(x @ y) / math.sqrt(power) if power > 0 else 0.0
