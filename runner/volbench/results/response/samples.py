"""What the estimate is made of: one step of one cell, interval by interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volbench.results.response.left_out import Floats, Ints

WINDOW_INTERVALS = 3
"""The client's interval and a sampler's begin at different moments, so what the volume did in one of the client's
intervals is told in two of the sampler's. An interval and both its neighbours hold all of it."""
INSTRUMENT_INTERVALS = 5
"""A window and one more interval on each side, for what two neighbouring windows of the sampler's share."""
MIXED_MAX = 0.1
"""Share of an interval that may lie in the other state of a signal: what ends there is of both."""
LEVEL_MAX = 0.3
"""Range of an await over an interval and its neighbours, over the smallest of them: no change lies between. A mean
over a hundred reads of an ordinary volume (deviation half of the mean) moves by 5 %."""
LEVEL_SHARE_MIN = 0.3
"""Share of a cell's intervals that must be level for them alone to be used: a volume that changes every three
seconds leaves a third."""
CYCLE_SLOTS = 4
"""Slots of a modulation in which each state comes once: nothing slow, reads, writes, both."""
CPU_KNOWN_MIN = 0.5
"""Share of a cell's intervals whose CPU time must be known; the others have their mean."""
OPERATIONS_MIN = 1.0
"""Of an interval; fewer are a share of one that completed in a neighbouring interval."""
SAMPLES_MIN = 6
"""Intervals of a cell; fewer hold no two windows that share none."""


@dataclass(frozen=True, kw_only=True)
class WaitCount:
    """How often a transaction waits for an operation, as the server counts: from `low` to `high` times.

    They differ for log syncs: a commit waits for its own sync, and at most for all of one that was under way; and
    for reads, where nothing tells how many of them background threads did: then `low` is 0.
    """

    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class CellSamples:
    """One step of one cell. Arrays have shape (intervals,), NaN where nothing is known.

    Args:
        threads: of the load.
        latency_ms: mean of the transactions that ended in an interval; or of one class of statements.
        finished: how many ended.
        awaits_ms: by term, mean time of the operations that completed in an interval.
        signals: by term, the share of each interval in which a modulation kept the volume slow; empty: none.
        seen_signals: by term, the same share over the sampler's intervals that an await was put together from.
        slots: number of the modulation's slot that each interval began in.
        cpu_ms: by how long the cell's tasks ran or waited for a CPU, for each transaction that ended.
        cpu_wait_ms: by how long the tasks of server and client waited for one, on the client's clock.
        counted: by term, over the whole step.
        operations: by term, completed over the whole step; for weighing.
        latency_quantiles_ms: by level (0.95), the quantile of the transactions that ended in an interval.
        step_quantiles_ms: by level, the quantile of all transactions of the step.
    """

    cell: str
    volume: str
    threads: int | None
    interval_s: float
    latency_ms: Floats
    finished: Floats
    awaits_ms: Mapping[str, Floats]
    counted: Mapping[str, WaitCount]
    signals: Mapping[str, Floats] = field(default_factory=dict)
    seen_signals: Mapping[str, Floats] = field(default_factory=dict)
    slots: Ints | None = None
    cpu_ms: Floats | None = None
    cpu_wait_ms: Floats | None = None
    operations: Mapping[str, float] = field(default_factory=dict)
    latency_quantiles_ms: Mapping[float, Floats] = field(default_factory=dict)
    step_quantiles_ms: Mapping[float, float] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.latency_ms)


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Samples of several cells one below the other. Shapes (n,) and (n, terms).

    `smoothed_ms` is each await as the mean over more neighbouring intervals; `signal` the modulation, `seen_signal`
    what the samplers saw of it, `cycle` the group of slots; `cpu_ms` time on or before a CPU, `cpu_wait_ms`
    before one, NaN where they are not known; `counted_low` and `counted_high` the counts of the row's cell, NaN
    where there are none.
    """

    terms: tuple[str, ...]
    latency_ms: Floats
    weights: Floats
    awaits_ms: Floats
    smoothed_ms: Floats
    signal: Floats
    seen_signal: Floats
    cpu_ms: Floats
    cpu_wait_ms: Floats
    counted_low: Floats
    counted_high: Floats
    cycle: Ints
    cell: Ints
    threads: Ints
    block: Ints
    volume: Ints

    def __len__(self) -> int:
        return len(self.latency_ms)

    def where(self, mask: NDArray[np.bool_]) -> Rows:
        """Return the rows of a mask of shape (n,)."""
        arrays = {name: values[mask] for name, values in vars(self).items() if name != "terms"}
        return Rows(terms=self.terms, **arrays)


def retimed(t_s: Floats, operations: Floats, await_ms: Floats, ends_s: Floats) -> Floats:
    """Return a sampler's mean times on intervals that begin and end at other moments.

    Operations and their total time are cumulated and read off at the ends of the wanted intervals, as if both grew
    evenly between two samples. Their ratio is the mean of what completed meanwhile.

    Args:
        t_s: when the samples were taken, ascending, shape (m + 1,); the first is the begin of the first interval.
        operations, await_ms: completed in each of the sampler's intervals, and their mean time, shape (m,).
        ends_s: of the wanted intervals, the first one's begin before them: shape (n + 1,).

    The result has shape (n,), NaN where fewer than OPERATIONS_MIN completed.
    """
    done, spent_ms = (amounts_within(t_s, amount, ends_s) for amount in (operations, operations * await_ms))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(done >= OPERATIONS_MIN, spent_ms / done, np.nan), dtype=np.float64)


def amounts_within(t_s: Floats, amounts: Floats, ends_s: Floats) -> Floats:
    """Return what a sampler counted, on intervals that begin and end at other moments: `retimed` says how."""
    return np.asarray(np.diff(np.interp(ends_s, t_s, np.concatenate([[0.0], np.cumsum(amounts)]))))


def by_transaction(t_s: Floats, amounts: Floats, ends_s: Floats, finished: Floats) -> Floats:
    """Return what a sampler counted for each transaction, on the client's intervals, as `retimed` has mean times.

    Transactions are read off at the sampler's moments first, and then both at the client's: what a change of the
    load smears is the same in both, and in what the sampler saw of a signal.

    Args:
        t_s, amounts, ends_s: as `retimed` has them.
        finished: transactions of the wanted intervals, shape (n,); before and after, as many as beside it.

    The result has shape (n,), NaN where fewer than OPERATIONS_MIN ended or no sample is.
    """
    widths_s = np.diff(ends_s)
    wide_s = np.concatenate([[ends_s[0] - 2 * widths_s[0]], ends_s, [ends_s[-1] + 2 * widths_s[-1]]])
    counts = np.concatenate([[2 * finished[0]], finished, [2 * finished[-1]]])
    ended = amounts_within(t_s, amounts_within(wide_s, counts, t_s), ends_s)
    is_known = (ended >= OPERATIONS_MIN) & (ends_s[:-1] >= t_s[0]) & (ends_s[1:] <= t_s[-1])
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(is_known, amounts_within(t_s, amounts, ends_s) / ended, np.nan))


def smoothed(values: Floats, weights: Floats, intervals: int) -> Floats:
    """Return the weighted mean of each interval and its neighbours, of those that are known; shape (n,), n > 0."""
    is_known = np.isfinite(values) & (weights > 0)
    kernel = np.ones(min(intervals, len(values)))
    weight = np.convolve(np.where(is_known, weights, 0.0), kernel, "same")[: len(values)]
    total = np.convolve(np.where(is_known, weights * np.nan_to_num(values), 0.0), kernel, "same")[: len(values)]
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(weight > 0, total / weight, np.nan), dtype=np.float64)


def rows_of(
    cells: Sequence[CellSamples], terms: Sequence[str], *, block_intervals: int, is_modulated: bool
) -> Rows:
    """Return the intervals of all cells in which latency and every term are known.

    Where the time of the modulation is known, intervals count that lie in one state of every signal on the client's
    clock. Without it, only intervals count that lie on a level; where there are few, latency and awaits are means
    over a window.

    Args:
        cells: each with every term.
        terms: of the awaits.
        block_intervals: neighbouring intervals that make one block.
        is_modulated: whether the cells have signals.
    """
    volumes = {name: number for number, name in enumerate(dict.fromkeys(cell.volume for cell in cells))}
    pieces, first_block = [], 0
    for number, cell in enumerate(cells):
        piece = _rows_of_cell(cell, terms, block_intervals, is_modulated)
        row = {"cell": number, "volume": volumes[cell.volume], "threads": cell.threads or 0}
        size = len(piece["latency_ms"])
        piece |= {name: np.full(size, value, dtype=np.int64) for name, value in row.items()}
        for name in ("block", "cycle"):
            piece[name] = piece[name] + first_block
        first_block += len(cell) + 1
        pieces.append(piece)
    return Rows(
        terms=tuple(terms), **{name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}
    )


def _rows_of_cell(
    cell: CellSamples, terms: Sequence[str], block_intervals: int, is_modulated: bool
) -> dict[str, NDArray[Any]]:
    """Return the columns of one cell's rows but those that all its rows share."""
    evenly, nothing = np.ones(len(cell)), np.zeros(len(cell))
    awaits = {term: cell.awaits_ms[term] for term in terms}
    signals = {term: cell.signals.get(term, nothing) for term in terms}
    signals_seen = {term: cell.seen_signals.get(term, signals[term]) for term in terms}
    is_known = np.isfinite(cell.latency_ms) & (cell.finished > 0)
    for values in (*awaits.values(), *signals_seen.values()):
        is_known &= np.isfinite(values)
    if is_modulated:
        apart = np.all([np.minimum(signal, 1 - signal) < MIXED_MAX for signal in signals.values()], axis=0)
    else:
        apart = np.all([_is_level(values) for values in awaits.values()], axis=0)
    used, latency = is_known & apart, cell.latency_ms
    cpu = _filled(cell, cell.cpu_ms)
    if not is_modulated and used.sum() < LEVEL_SHARE_MIN * is_known.sum():
        used, weights = is_known, np.where(is_known, cell.finished, 0.0)
        latency, cpu = (smoothed(values, weights, WINDOW_INTERVALS) for values in (latency, cpu))
        awaits = {term: smoothed(values, weights, WINDOW_INTERVALS) for term, values in awaits.items()}
    instruments = {term: smoothed(cell.awaits_ms[term], evenly, INSTRUMENT_INTERVALS) for term in terms}
    blocks = np.arange(len(cell)) // block_intervals
    slots = cell.slots if is_modulated and cell.slots is not None else blocks

    def columns(by_term: Mapping[str, Floats]) -> Floats:
        return np.asarray(np.column_stack([by_term[term] for term in terms])[used], dtype=np.float64)

    def counts(side: str) -> Floats:
        counts = {term: getattr(cell.counted[term], side) if term in cell.counted else np.nan for term in terms}
        return columns({term: np.full(len(cell), value) for term, value in counts.items()})

    return {
        "latency_ms": latency[used],
        "weights": cell.finished[used].astype(np.float64),
        "awaits_ms": columns(awaits),
        "smoothed_ms": columns(instruments),
        "signal": columns(signals),
        "seen_signal": columns(signals_seen),
        "cpu_ms": cpu[used],
        "cpu_wait_ms": _filled(cell, cell.cpu_wait_ms)[used],
        "counted_low": counts("low"),
        "counted_high": counts("high"),
        "block": slots[used],
        "cycle": slots[used] // CYCLE_SLOTS,
    }


def _filled(cell: CellSamples, cpu_ms: Floats | None) -> Floats:
    """Return tasks' time by transaction, shape (n,), with the mean where an interval lacks it.

    NaN throughout where fewer intervals than CPU_KNOWN_MIN have it.
    """
    unknown = np.full(len(cell), np.nan)
    if cpu_ms is None:
        return unknown
    ended = cell.finished > 0
    is_known = ended & np.isfinite(cpu_ms)
    if not is_known.any() or is_known.sum() < CPU_KNOWN_MIN * ended.sum():
        return unknown
    mean_ms = np.average(cpu_ms[is_known], weights=cell.finished[is_known])
    return np.asarray(np.where(is_known, cpu_ms, mean_ms), dtype=np.float64)


def _is_level(values: Floats) -> NDArray[np.bool_]:
    """Return which intervals have an await like their neighbours', shape (n,); unknown neighbours are like it."""
    is_known = np.isfinite(values)
    padded = np.pad(values, 1, mode="edge") if len(values) else np.full(2, np.nan)
    windows = np.stack([padded[:-2], values, padded[2:]])
    lowest = np.where(np.isfinite(windows), windows, np.inf).min(axis=0)
    highest = np.where(np.isfinite(windows), windows, -np.inf).max(axis=0)
    return np.asarray(is_known & (highest - lowest <= LEVEL_MAX * lowest), dtype=np.bool_)
