"""The response of a load's latency to the waiting times of its volume: `latency = a + sum of b x await`.

Why a slope is a number of waits: a transaction's time is the sum of what it does one after the other. Of these, `n`
are reads of await `w` each, so one more millisecond of `w` adds `n` milliseconds, whatever else it does. b is
therefore in ms per ms, that is in waits, and the server's own count of reads per transaction is the same number,
found in another way. Where they differ, the sum does not hold: reads in parallel or ahead make b smaller than the
count, locks that are held while others wait for the volume make it larger.

What would make b lie, and what is done about it:

- *Clocks.* Client and samplers cut time at different moments. What one interval of the client did is in two of a
  sampler, so least squares finds a wrong slope. A known signal is known on both clocks (`lock_in`); without one,
  windows of three intervals are compared, and the mean over five is the instrument (`samples`).
- *A busy machine.* CPU that is missing makes awaits and everything else longer. Only a known signal (modulation)
  averages it out: the method is `signal`. Without one, the interval also holds what the slope would be if all time
  that the cell's tasks ran or waited for a CPU were the transaction's and had nothing to do with the await: the
  truth has a part of it, so it lies between both (partial identification), and so does the interval.
- *Volumes that differ in more than await.* The methods `within` and `between` are estimated apart: within, every
  cell has an intercept of its own; between, cells of as many threads share one. Between, the intercepts of volumes
  may differ for reasons that nobody measures, so its interval also holds such differences (`between`). Where
  `within` and `between` are apart beyond their errors (Hausman 1978), `within` is given, or both are covered.
- *Awaits that stand.* Inside steady cells an await moves by chance alone, as a mean over some operations does, and
  a regressor that is noise gives a slope near 0 (errors in variables): such cells have no `within`.
- *Counts that differ.* Cells count other numbers of waits. The count beside a slope is what their waits alone would
  give by the same weighing.
- *Awaits that move together.* Syncs of both logs become one term; of reads and syncs that move together the one
  with less effect is held at its counted waits, and the result says so. Where nobody counts them, as for a class of
  statements or a quantile, there is no result.
- *Closed loops.* Slow intervals finish fewer transactions: rows are weighted by what ended, and neither side of the
  equation is divided by the rate.
- *Intervals that are alike.* Neighbouring intervals count as one cluster (`least_squares`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from volbench.core.base.text import number
from volbench.core.records.steps.oltp import MODULATION_S_MIN
from volbench.results.response.left_out import Floats
from volbench.results.response.methods import by_method
from volbench.results.response.model import NoResponse, Response
from volbench.results.response.samples import SAMPLES_MIN, CellSamples, WaitCount

MOVED_MIN = 0.1
"""Of an await's mean, from its 10th to its 90th percentile: what a steady emulated volume moves by chance."""
MOVED_INSIDE_MIN = 0.15
"""Relative deviation of an await inside cells, from which on cells of several volumes tell a slope of their own.
One that stands steady deviates by what a mean over some operations does, and no latency follows that."""
NOISE_TIMES = 4.0
"""Times the variance of such a mean, of operations with an exponential time, that an await must also deviate by."""
KNOWN_MIN = 0.8
"""Share of a cell's intervals in which an await must be known; in the others nothing was done."""
SLOTS_MIN = 8
"""Of a signal: two cycles of four states, less the slopes and the cycles' intercepts, leave some freedom."""
LOG_TERMS = ("redo_sync", "binlog_sync")
LOG_SYNC = "log_sync"


_MODULATE = (
    "modulate an emulated volume (`volbench run SUITE --modulate 4`), which takes a load without `rate` of"
    f" {MODULATION_S_MIN:g} s or more"
)
ADVICE_BETWEEN = f"{_MODULATE}, or measure a further volume (`--volume NAME=SPEC`)"
"""For a wide slope between volumes: more cells or seconds hardly narrow it."""
TOO_SHORT = NoResponse(
    reason=f"no cell has {SAMPLES_MIN} intervals in which both latency and a waiting time are known",
    advice="measure at least 30 s a cell",
    duration="30s",
)
IDLE = NoResponse(
    reason="the load did nothing on the volume in most of its intervals, so its latency does not come from there",
    advice="use more data than the buffer pool holds (`--set dataset.rows=...`), or a load that commits",
)
UNMOVED = NoResponse(
    reason="no waiting time of the volume moved, so nothing can be told about what it costs",
    advice=f"{_MODULATE}, or measure a second volume (`--volume NAME=SPEC`)",
)
UNFOLLOWED = NoResponse(
    reason="the volume was modulated, and its waiting times did not follow: something else limits it",
    advice="modulate it by a larger factor (`--modulate 8`), or for longer; a queue at a limit hides the volume's"
    " own latency",
)
TOGETHER = NoResponse(
    reason="its waits moved together, and nobody counts them: no slope is of one of them alone",
    advice=f"{_MODULATE}: reads and writes then follow signals of their own",
)
UNDETERMINED = NoResponse(
    reason="too few independent stretches of time, or cells, for an interval that holds",
    advice="measure longer cells (`--set steps.NAME.duration=...`), more cells (`--set repeats=...`), or"
    f" {_MODULATE}",
)


def advice_for_load(advice: str, *, has_rate: bool) -> str:
    """Return an advice whose commands fit the load: one at a given rate cannot be modulated, another suite's can.

    Args:
        has_rate: whether the step's transactions arrive at a rate of their own.
    """
    return advice.replace("run SUITE --modulate", "run suites/response.yaml --modulate") if has_rate else advice


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
    return replace(
        cell, latency_ms=cell.latency_quantiles_ms.get(level, unknown), counted={}, cpu_ms=None, cpu_wait_ms=None
    )


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
    if modulated:
        moved_on_purpose = [term for term in moved if all(np.ptp(_signal(cell, term)) > 0 for cell in modulated)]
        tried = [moved_on_purpose, *([term] for term in moved_on_purpose)] if moved_on_purpose else []
        responses = (by_method(modulated, terms, "signal") for terms in tried)
        first_response = next((response for response in responses if response is not None), None)
        return first_response or (UNFOLLOWED if _slots(modulated) >= SLOTS_MIN else UNDETERMINED)
    inside = moved if len({cell.volume for cell in cells}) == 1 else [t for t in moved if _moves_inside(cells, t)]
    within = by_method(cells, inside, "within") if inside else None
    sharpest = sharper(within, by_method(cells, moved, "between"))
    return sharpest or (TOGETHER if len(moved) > 1 and _lacks_counts(cells, moved) else UNDETERMINED)


def _lacks_counts(cells: Sequence[CellSamples], terms: Sequence[str]) -> bool:
    return any(term not in cell.counted for cell in cells for term in terms)


def _slots(cells: Sequence[CellSamples]) -> int:
    return sum(len(np.unique(cell.slots)) for cell in cells if cell.slots is not None)


def _signal(cell: CellSamples, term: str) -> Floats:
    return cell.signals.get(term, np.zeros(len(cell)))


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
    is_counted = len(counted) == len(LOG_TERMS)
    total = sum(count.low for count in counted)
    shares = [count.low / total for count in counted] if is_counted and total else [0.5, 0.5]
    term_waits = [share * cell.awaits_ms[term] for share, term in zip(shares, LOG_TERMS, strict=True)]
    together = {LOG_SYNC: WaitCount(low=total, high=sum(count.high for count in counted))} if is_counted else {}
    signals, signals_seen = (
        [by_term[term] for term in LOG_TERMS if term in by_term] for by_term in (cell.signals, cell.seen_signals)
    )
    return replace(
        cell,
        awaits_ms={**cell.awaits_ms, LOG_SYNC: np.sum(term_waits, axis=0)},
        counted={**cell.counted, **together},
        signals={**cell.signals, **({LOG_SYNC: signals[0]} if signals else {})},
        seen_signals={**cell.seen_signals, **({LOG_SYNC: signals_seen[0]} if signals_seen else {})},
    )


def _has_moved(cells: Sequence[CellSamples], term: str) -> bool:
    values = np.concatenate([cell.awaits_ms[term] for cell in cells])
    values = values[np.isfinite(values)]
    low, high = np.quantile(values, (0.1, 0.9))
    return bool(high - low > MOVED_MIN * values.mean())


def _moves_inside(cells: Sequence[CellSamples], term: str) -> bool:
    """Return whether an await moves inside cells by more than a mean over its operations does by chance."""
    squares, chances = [], []
    for cell in cells:
        await_ms, count = cell.awaits_ms[term], cell.counted.get(term)
        operations = cell.finished * (max(1.0, count.low) if count else 1.0)
        is_known = np.isfinite(await_ms) & (operations > 0)
        if is_known.any() and await_ms[is_known].mean() > 0:
            squares.append(np.square(await_ms[is_known] / await_ms[is_known].mean() - 1))
            chances.append(1 / operations[is_known])
    if not squares:
        return False
    variance = float(np.concatenate(squares).mean())
    return variance >= MOVED_INSIDE_MIN**2 + NOISE_TIMES * float(np.concatenate(chances).mean())


def sharper(within: Response | None, between: Response | None) -> Response | None:
    """Return the one whose first slope has the narrower interval.

    Where both are apart beyond their errors, volumes differ in more than they are known to: `within` stands, with a
    note. A `within` that is not sharp does not stand alone, so the interval of `between` covers both.
    """
    if within is None or between is None:
        return within or between
    first, second = within.slopes[0], between.slope(within.slopes[0].term)
    if second is None or second.is_held:
        return within if first.is_sharp else between
    apart = abs(first.value - second.value)
    is_apart = apart > math.hypot(first.high - first.low, second.high - second.low) / 2
    if is_apart and first.is_sharp:
        text = (
            f"between volumes and thread levels the slope is {number(second.value)}: they differ in more than the"
            " volume's waiting time"
        )
        return replace(within, notes=(*within.notes, text))
    if is_apart:
        covering = replace(second, low=min(first.low, second.low), high=max(first.high, second.high))
        return replace(
            between, slopes=tuple(covering if response is second else response for response in between.slopes)
        )
    return within if first.high - first.low <= second.high - second.low else between
