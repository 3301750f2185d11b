"""The response of a load's latency to the waiting times of its volume: `latency = a + sum of b x await`.

Why a slope is a number of waits: a transaction's time is the sum of what it does one after the other. Of these, `n`
are reads of await `w` each, so one more millisecond of `w` adds `n` milliseconds, whatever else it does. b is
therefore in ms per ms, that is in waits, and the server's own count of reads per transaction is the same number,
found in another way. Where they differ, the sum does not hold: reads in parallel or ahead make b smaller than the
count, locks that are held while others wait for the volume make it larger.

What would make b lie, and what is done about it:

- *Clocks.* Client and samplers cut time at different moments. What one interval of the client did is in two of a
  sampler, so least squares finds a wrong slope. Of a known signal only windows count that lie in one state of it;
  else windows of three intervals are compared, and the mean over five is the instrument (`samples`).
- *A busy machine.* CPU that is missing makes awaits and everything else longer. Only a known signal (modulation)
  averages it out: it is then the instrument, and the method is `signal`.
- *Volumes that differ in more than await.* The methods `within` and `between` are estimated apart: within, every
  cell has an intercept of its own; between, cells of as many threads share one. Where both are sharp and differ,
  `within` is given and the difference is a note.
- *Awaits that move together.* Syncs of both logs become one term; of reads and syncs that move together the one
  with less effect is held at its counted waits, and the result says so.
- *Closed loops.* Slow intervals finish fewer transactions: rows are weighted by what ended, and neither side of the
  equation is divided by the rate.
- *Intervals that are alike.* Neighbouring intervals count as one cluster (`least_squares`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from volbench.core.records.steps.oltp import MODULATION_SLOT_S, MODULATION_SLOTS_MIN
from volbench.results.response.least_squares import Fit, Floats, Ints, fit
from volbench.results.response.samples import SAMPLES_MIN, WINDOW_INTERVALS, CellSamples, Counted, Rows, rows_of

Method = Literal["signal", "within", "between"]
Agreement = Literal["agrees", "below", "above", "open"]
CONFIDENCE = 0.95
BLOCK_S = 6.0
"""Two stretches of smoothed intervals of a second; a load's own swings (a checkpoint) are as long."""
MOVED_MIN = 0.1
"""Of an await's mean, from its 10th to its 90th percentile: what a steady emulated volume moves by chance."""
KNOWN_MIN = 0.8
"""Share of a cell's intervals in which an await must be known; in the others nothing was done."""
OUTLIER_MADS = 6.0
"""Median absolute deviations (as a normal's deviation) beyond which a residual is another event's: a pause of the
whole machine. Of normal residuals it takes two in a thousand million."""
OUTLIERS_MAX = 0.05
"""Share of intervals that may be left out so; what is more frequent belongs to the load."""
TOGETHER_MIN = 0.9
"""Correlation of two awaits beyond which the data hardly tell them apart: intervals are 2.3 times as wide."""
SHARP_MAX = 0.5
"""Half an interval over the larger of slope and count; beyond, a slope says little about the count."""
CONTRADICTION = 1.5
"""Times half an interval that a count must lie off to contradict a slope: 2.9 deviations, one in 300 by chance. A
report has a dozen slopes, and of a dozen 95 % intervals one misses in every second report."""
LOG_TERMS = ("redo_sync", "binlog_sync")
LOG_SYNC = "log_sync"


@dataclass(frozen=True, kw_only=True)
class Slope:
    """Milliseconds of latency for each millisecond of one await, with its 95 % interval.

    Args:
        counted: waits by the server's count; None: it counts none.
        await_ms: mean; `moved_ms`: its 10th and 90th percentile.
        is_held: the data do not tell it from another term; it stands at its count and has no interval of its own.
        variance_share: of the latency's variance from interval to interval, that this await explains.
    """

    term: str
    value: float
    low: float
    high: float
    counted: Counted | None
    await_ms: float
    moved_ms: tuple[float, float]
    is_held: bool = False
    variance_share: float = 0.0

    @property
    def is_sharp(self) -> bool:
        """Whether the interval is narrow enough to say something about the count."""
        scale = max(abs(self.value), self.counted.low if self.counted else 0.0)
        return not self.is_held and (self.high - self.low) / 2 <= SHARP_MAX * scale

    @property
    def agreement(self) -> Agreement:
        """How the slope stands to the counted waits."""
        if self.counted is None or self.is_held:
            return "open"
        reach = CONTRADICTION * (self.high - self.low) / 2
        if self.value + reach < self.counted.low:
            return "below"
        if self.value - reach > self.counted.high:
            return "above"
        meets = self.low <= self.counted.high and self.counted.low <= self.high
        return "agrees" if meets and self.is_sharp else "open"


@dataclass(frozen=True, kw_only=True)
class Response:
    """Latency over awaits of one load. `intercept_ms` is what no await of a term explains."""

    slopes: tuple[Slope, ...]
    intercept_ms: float
    latency_ms: float
    method: Method
    intervals: int
    cells: int
    volumes: int
    explained: float
    notes: tuple[str, ...] = ()

    def slope(self, term: str) -> Slope | None:
        """Return the slope of one term; None where it has none."""
        return next((slope for slope in self.slopes if slope.term == term), None)


@dataclass(frozen=True, kw_only=True)
class NoResponse:
    """Why there is no response, and what would give one."""

    reason: str
    advice: str


STEP = "NAME"
"""Stands for the step in an advice."""
_MODULATED_S = MODULATION_SLOTS_MIN * MODULATION_SLOT_S
_MODULATE = (
    f"modulate an emulated volume, which takes a load without `rate` of {_MODULATED_S:g} s or more"
    f" (--set steps.{STEP}.modulate=4 --set steps.{STEP}.duration={_MODULATED_S:g}s)"
)
TOO_SHORT = NoResponse(
    reason=f"no cell has {SAMPLES_MIN} intervals in which both latency and a waiting time are known",
    advice="measure at least 30 s a cell",
)
IDLE = NoResponse(
    reason="the load did nothing on the volume in most of its intervals, so its latency does not come from there",
    advice="use more data than the buffer pool holds, or a load that commits",
)
UNMOVED = NoResponse(
    reason="no waiting time of the volume moved, so nothing can be told about what it costs",
    advice=f"{_MODULATE}, or measure a second volume",
)
UNDETERMINED = NoResponse(
    reason="too few independent stretches of time, or cells, for an interval that holds",
    advice=f"measure longer cells, more cells, or {_MODULATE}",
)


def estimate(cells: Sequence[CellSamples], *, latency_level: float | None = None) -> Response | NoResponse:
    """Return the response of one load over all of its cells.

    Syncs of the two logs are one term unless the data tell both slopes: they go to the same volume one after the
    other, so their awaits move together.

    Args:
        cells: of one step, of any volumes and numbers of threads.
        latency_level: quantile of the latency in each interval, such as 0.95; None: the mean.
    """
    usable = [cell if latency_level is None else _at_level(cell, latency_level) for cell in cells]
    usable = [cell for cell in usable if _known_intervals(cell) >= SAMPLES_MIN]
    terms = _known_terms(usable)
    if not usable:
        return TOO_SHORT
    if not terms:
        return IDLE
    response = _estimate(usable, terms)
    if not all(term in terms for term in LOG_TERMS) or _tells_all(response, LOG_TERMS):
        return response
    one_log = [*(term for term in terms if term not in LOG_TERMS), LOG_SYNC]
    return _estimate([with_one_log(cell) for cell in usable], one_log)


def _at_level(cell: CellSamples, level: float) -> CellSamples:
    """Return the cell with a quantile in place of its mean latency; without it, nothing of it is known.

    No count belongs to it: slow transactions are those with more or longer waits than others.
    """
    unknown = np.full(len(cell), np.nan)
    return replace(cell, latency_ms=cell.latency_quantiles_ms.get(level, unknown), counted={})


def _tells_all(response: Response | NoResponse, terms: Sequence[str]) -> bool:
    if isinstance(response, NoResponse):
        return False
    slopes = [response.slope(term) for term in terms]
    return all(slope is not None and slope.is_sharp for slope in slopes)


def _estimate(cells: list[CellSamples], terms: Sequence[str]) -> Response | NoResponse:
    moved = [term for term in terms if _has_moved(cells, term)]
    if not moved:
        return UNMOVED
    modulated = [cell for cell in cells if any(signal.any() for signal in cell.signals.values())]
    if modulated and (response := _by_method(modulated, moved, "signal")) is not None:
        return response
    return _sharper(_by_method(cells, moved, "within"), _by_method(cells, moved, "between")) or UNDETERMINED


def _known_intervals(cell: CellSamples) -> int:
    return int((np.isfinite(cell.latency_ms) & (cell.finished > 0)).sum())


def _known_terms(cells: Sequence[CellSamples]) -> list[str]:
    """Return the terms that are known in nearly every interval of every cell."""

    def is_known(cell: CellSamples, term: str) -> bool:
        await_ms = cell.awaits_ms.get(term)
        return await_ms is not None and float(np.isfinite(await_ms).mean()) >= KNOWN_MIN

    names = dict.fromkeys(term for cell in cells for term in cell.awaits_ms)
    return [term for term in names if all(is_known(cell, term) for cell in cells)]


def with_one_log(cell: CellSamples) -> CellSamples:
    """Return the cell with syncs of both logs as one wait, weighted by their counts; unchanged without both."""
    if not all(term in cell.awaits_ms for term in LOG_TERMS):
        return cell
    counted = [cell.counted[term] for term in LOG_TERMS if term in cell.counted]
    total = sum(count.low for count in counted) if len(counted) == len(LOG_TERMS) else 0.0
    shares = [count.low / total for count in counted] if total else [0.5, 0.5]
    parts = [share * cell.awaits_ms[term] for share, term in zip(shares, LOG_TERMS, strict=True)]
    together = {LOG_SYNC: Counted(low=total, high=sum(count.high for count in counted))} if total else {}
    signals = [cell.signals[term] for term in LOG_TERMS if term in cell.signals]
    return replace(
        cell,
        awaits_ms={**cell.awaits_ms, LOG_SYNC: np.sum(parts, axis=0)},
        counted={**cell.counted, **together},
        signals={**cell.signals, **({LOG_SYNC: signals[0]} if signals else {})},
    )


def _has_moved(cells: Sequence[CellSamples], term: str) -> bool:
    values = np.concatenate([cell.awaits_ms[term] for cell in cells])
    values = values[np.isfinite(values)]
    low, high = np.quantile(values, (0.1, 0.9))
    return bool(high - low > MOVED_MIN * values.mean())


def _by_method(cells: Sequence[CellSamples], terms: Sequence[str], method: Method) -> Response | None:
    """Return the response by one method; None where it has too little to go by."""
    width_s = max(cell.interval_s for cell in cells)
    block = max(2 * WINDOW_INTERVALS, math.ceil(BLOCK_S / width_s))
    rows = rows_of(cells, terms, block_intervals=block, is_modulated=method == "signal")
    counted = {term: _counted(cells, term) for term in terms}
    response = _fitted(rows, method, counted)
    if response is None:
        return None
    usual = _usual(rows, response, method)
    if usual.all() or (~usual).mean() > OUTLIERS_MAX:
        return response
    again = _fitted(rows.where(usual), method, counted)
    if again is None:
        return response
    left_out = int((~usual).sum())
    return replace(again, notes=(*again.notes, f"{left_out} of {len(rows)} intervals lie far off and are left out"))


def _usual(rows: Rows, response: Response, method: Method) -> NDArray[np.bool_]:
    """Return which rows lie as near to the line as most do, by their residuals times the root of their weights."""
    groups = rows.threads if method == "between" else rows.cell
    line = sum(slope.value * rows.awaits_ms[:, rows.terms.index(slope.term)] for slope in response.slopes)
    residuals = np.asarray(rows.latency_ms - line, dtype=np.float64)
    for group in np.unique(groups):
        residuals[groups == group] -= np.median(residuals[groups == group])
    residuals = residuals * np.sqrt(rows.weights)
    deviation = 1.4826 * float(np.median(np.abs(residuals)))
    return (
        np.asarray(np.abs(residuals) <= OUTLIER_MADS * deviation) if deviation > 0 else np.ones(len(rows), np.bool_)
    )


def _fitted(rows: Rows, method: Method, counted: Mapping[str, Counted | None]) -> Response | None:
    """Return the response of rows; None where they do not determine it."""
    if not len(rows):
        return None
    groups, clusters = (rows.threads, rows.cell) if method == "between" else (rows.cell, rows.block)
    free, held = _told_apart(rows, groups, counted)
    offset = np.zeros(len(rows))
    for term in held:
        offset += _middle(counted[term]) * rows.awaits_ms[:, rows.terms.index(term)]
    numbers = [rows.terms.index(term) for term in free]
    fitted = fit(
        rows.latency_ms - offset,
        rows.awaits_ms[:, numbers],
        weights=rows.weights,
        groups=groups,
        clusters=clusters,
        instruments=_instruments(rows, numbers, method),
    )
    return None if fitted is None else _response(rows, fitted, free, held, counted, method, groups)


def _instruments(rows: Rows, numbers: Sequence[int], method: Method) -> Floats:
    """Return the signal of each term that was modulated, the smoothed await of each other."""
    columns = []
    for number in numbers:
        signal = rows.signal[:, number]
        columns.append(signal if method == "signal" and np.ptp(signal) > 0 else rows.smoothed_ms[:, number])
    return np.column_stack(columns)


def _counted(cells: Sequence[CellSamples], term: str) -> Counted | None:
    """Return the mean of the cells' counts, weighted by their transactions."""
    known = [(cell.counted[term], float(np.nansum(cell.finished))) for cell in cells if term in cell.counted]
    total = sum(weight for _, weight in known)
    if not total:
        return None
    return Counted(
        low=sum(count.low * weight for count, weight in known) / total,
        high=sum(count.high * weight for count, weight in known) / total,
    )


def _middle(counted: Counted | None) -> float:
    return 0.0 if counted is None else (counted.low + counted.high) / 2


def _told_apart(rows: Rows, groups: Ints, counted: Mapping[str, Counted | None]) -> tuple[list[str], list[str]]:
    """Return terms whose slopes the data tell, and those that move with one of more effect."""
    columns = {
        term: _less_group_mean(rows.smoothed_ms[:, number], groups) for number, term in enumerate(rows.terms)
    }
    by_effect = sorted(rows.terms, key=lambda term: -_middle(counted[term]) * float(columns[term].std()))
    free: list[str] = []
    held: list[str] = []
    for term in by_effect:
        moves_along = any(abs(_correlation(columns[term], columns[other])) >= TOGETHER_MIN for other in free)
        (held if moves_along else free).append(term)
    return free, held


def _response(
    rows: Rows,
    fitted: Fit,
    free: Sequence[str],
    held: Sequence[str],
    counted: Mapping[str, Counted | None],
    method: Method,
    groups: Ints,
) -> Response:
    weights = rows.weights / rows.weights.sum()
    latency_ms = float(weights @ rows.latency_ms)
    slopes = []
    for number, term in enumerate(free):
        reach, value = fitted.reach(number, CONFIDENCE), float(fitted.slopes[number])
        slopes.append(_slope(rows, term, (value, value - reach, value + reach), counted[term], groups))
    for term in held:
        count = counted[term]
        low, high = (count.low, count.high) if count else (0.0, 0.0)
        slopes.append(_slope(rows, term, (_middle(count), low, high), count, groups, is_held=True))
    explained = min(1.0, max(0.0, sum(slope.variance_share for slope in slopes)))
    notes = (f"{', '.join(held)} moved together with {free[0]} and stands at its counted waits",) if held else ()
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
    value: tuple[float, float, float],
    counted: Counted | None,
    groups: Ints,
    *,
    is_held: bool = False,
) -> Slope:
    await_ms = rows.awaits_ms[:, rows.terms.index(term)]
    smooth = _less_group_mean(rows.smoothed_ms[:, rows.terms.index(term)], groups)
    latency = _less_group_mean(rows.latency_ms, groups)
    power = float(latency @ latency)
    share = value[0] * float(smooth @ latency) / power if power > 0 else 0.0
    low, high = np.quantile(await_ms, (0.1, 0.9))
    return Slope(
        term=term,
        value=value[0],
        low=value[1],
        high=value[2],
        counted=counted,
        await_ms=float(np.average(await_ms, weights=rows.weights)),
        moved_ms=(float(low), float(high)),
        is_held=is_held,
        variance_share=share,
    )


def _sharper(within: Response | None, between: Response | None) -> Response | None:
    """Return the one whose first slope has the narrower interval; within cells where both are sharp and differ."""
    if within is None or between is None:
        return within or between
    first, second = within.slopes[0], between.slope(within.slopes[0].term)
    if second is None or second.is_held:
        return within if first.is_sharp else between
    reaches = math.hypot(first.high - first.low, second.high - second.low) / 2
    if first.is_sharp and second.is_sharp and abs(first.value - second.value) > reaches:
        note = (
            f"between volumes and thread levels the slope is {second.value:.3g}: they differ in more than the"
            " volume's waiting time"
        )
        return replace(within, notes=(*within.notes, note))
    return within if first.high - first.low <= second.high - second.low else between


def _less_group_mean(values: Floats, groups: Ints) -> Floats:
    _, group = np.unique(groups, return_inverse=True)
    return np.asarray(values - (np.bincount(group, values) / np.bincount(group))[group], dtype=np.float64)


def _correlation(x: Floats, y: Floats) -> float:
    x, y = x - x.mean(), y - y.mean()
    power = float(x @ x) * float(y @ y)
    return float(x @ y) / math.sqrt(power) if power > 0 else 0.0
