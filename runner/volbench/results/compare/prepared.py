"""A comparison of two volumes' values of one metric before it is judged: which cells, and the test on them.

Where other work took more of the CPUs or of the device in some cells than in others, and its share is known in all,
the comparison is adjusted for it (`results/stats/covariates.py`): of the valid cells and of those that such work
alone disturbed; where it took alike in all cells, they are compared as they ran. The bounds of the disturbed ones
check the adjustment, and where emulated operations came late, the difference has to be larger than that can make.
With too few cells to adjust, a change that other work could explain decides nothing; where a share is not known in
some cells, or nothing tells it from the volumes, the plain test is made, and the comparison says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from volbench.core.records.report import Standing
from volbench.results.compare.figures import population, standing_of
from volbench.results.compare.row import Row
from volbench.results.stats.covariates import Adjusted, Adjustment, Covaried, adjusted_shift
from volbench.results.stats.means import TWO_TESTS, block_pairs, mean_shift, resolved_by
from volbench.results.stats.ranks.blocks import shared_nodes
from volbench.results.stats.sequential import ErrorLevel
from volbench.results.stats.statistics import Names, Shift, bounded_shift_of, shift_of

LATE_MAX = 0.5
"""A cell whose emulated operations delayed it for more of its time is not one of its volume."""
LATE_MAY_EXPLAIN = "late operations of the emulated volume could explain it"


@dataclass(frozen=True, kw_only=True)
class Side:
    """One volume's values of one metric, and how many rows gave none."""

    values: tuple[float, ...]
    excluded_runs: int
    bounds: tuple[tuple[float, float], ...] = ()
    disturbed: int = 0
    nodes: tuple[str, ...] = ()
    blocks: tuple[int | None, ...] = ()
    standing: Standing | None = None
    figure: float | None = None


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A comparison before the correction over its family; `shift` is None when values have no ratio."""

    row: Row
    candidate: str
    sides: tuple[Side, Side]
    shift: Shift | None
    why_no_shift: str = ""
    names: Names | None = None
    """The node of each value of both sides, where nodes are blocks."""
    adjustments: tuple[Adjustment, ...] = ()
    not_adjusted: str = ""
    """Why the comparison is not adjusted for other work that varied; empty where none did."""
    open_reason: str = ""
    """Why the shift decides nothing, whatever it is."""
    plain_ci: tuple[float, float] | None = None
    """Where bounds leave the shift an end short: the interval of the cells as they ran."""

    @property
    def nodes(self) -> int:
        """Within how many the cells are compared."""
        return len(set(self.names[0])) if self.names is not None else 1


def prepare(
    by_volume: Mapping[str, list[Row]], baseline: str, candidate: str, level: ErrorLevel, *, disturbed: bool
) -> Prepared:
    """Return the comparison of two volumes' values of one metric.

    Args:
        by_volume: rows of each volume; of one volume at least.
        disturbed: compare disturbed rows within their bounds; else valid rows, or adjusted ones.
    """
    first = next(rows[0] for rows in by_volume.values())
    rows = by_volume.get(baseline, []), by_volume.get(candidate, [])
    adjusted = Adjusted() if disturbed else _adjusted(rows, level)
    if adjusted.shift is not None:
        used = [_adjustable(side) for side in rows]
        late = max(math.fsum(-math.log(1 - row.late) for row in side) / len(side) for side in used)
        return Prepared(
            row=first,
            candidate=candidate,
            sides=(_side(rows[0], used[0], ()), _side(rows[1], used[1], ())),
            shift=adjusted.shift,
            adjustments=adjusted.adjustments,
            open_reason=LATE_MAY_EXPLAIN if late and _within(adjusted.shift, late) else "",
        )
    used = [_used(side, disturbed=disturbed) for side in rows]
    shared = shared_nodes(*([row.node for row in side] for side in used))
    sides = (_side(rows[0], used[0], shared), _side(rows[1], used[1], shared))
    without = [name for name, side in zip((baseline, candidate), sides, strict=True) if not side.values]
    why_no_shift = ""
    for name, side, side_rows in zip((baseline, candidate), sides, rows, strict=True):
        if beyond := sum(row.valid and row.is_beyond for row in side_rows):
            why_no_shift = why_no_shift or f"{beyond} cells of {name} have no value: worse than was measured"
        elif not side.values:
            why_no_shift = why_no_shift or f"no valid value of {' and '.join(without)}"
        elif min(side.values) <= 0:
            why_no_shift = why_no_shift or f"{name} has values that are zero or negative: there is no ratio"
    names = (sides[0].nodes, sides[1].nodes) if shared else None
    alpha = level.at(min(len(side.values) for side in sides), nodes=max(1, len(shared)))
    shift = None if why_no_shift else _shift(*sides, alpha, names, level.sequential, resolved_by(first.metric))
    plain_ci = _plain_ci(shift, sides, level, resolved_by(first.metric)) if disturbed and names is None else None
    explained = shift is not None and abs(math.log(shift.ratio)) <= adjusted.explains
    return Prepared(
        row=first,
        candidate=candidate,
        sides=sides,
        shift=shift,
        why_no_shift=why_no_shift,
        names=names,
        not_adjusted=adjusted.why_not,
        open_reason=adjusted.why_not if adjusted.too_few and explained else "",
        plain_ci=plain_ci,
    )


def _plain_ci(
    shift: Shift | None, sides: tuple[Side, Side], level: ErrorLevel, least: float
) -> tuple[float, float] | None:
    """Return the interval of disturbed cells as they ran, where the bounds leave one end or both open.

    It holds the shift's ratio, and no verdict rests on it.
    """
    if shift is None or (shift.low is not None and shift.high is not None) or min(shift.runs) < 2:
        return None
    (x, y), pairs = sides, block_pairs(sides[0].blocks, sides[1].blocks)
    factor = 1.0 if level.sequential else TWO_TESTS
    plain = mean_shift(x.values, y.values, pairs, alpha=shift.alpha, factor=factor, least=least)
    if plain.low is None or plain.high is None:
        return None
    return min(plain.low, shift.ratio), max(plain.high, shift.ratio)


def _within(shift: Shift, room: float) -> bool:
    """Return whether a change of the mean log by so much, either way, could make the difference."""
    low, high = (0.0 if end is None or end <= 0 else math.log(end) for end in (shift.low, shift.high))
    return shift.low is None or shift.high is None or (low <= room and high >= -room)


def _adjusted(rows: tuple[Sequence[Row], Sequence[Row]], level: ErrorLevel) -> Adjusted:
    """Adjust for other work; nothing where a value has no log, none varied, or cells ran on several nodes."""
    used = [_adjustable(side) for side in rows]
    missing = any(row.valid and row.is_beyond for side in rows for row in side)
    positive = all(row.value is not None and row.value > 0 for side in used for row in side)
    if missing or not positive or not all(used) or len({row.node for side in used for row in side}) > 1:
        return Adjusted()
    sides = [
        Covaried(
            values=[row.value for row in side if row.value is not None],
            shares=[row.shares for row in side],
            bounds=[None if row.valid else row.bounds for row in side],
        )
        for side in used
    ]
    pairs = block_pairs([row.block for row in used[0]], [row.block for row in used[1]])
    alpha = level.at(min(map(len, used)))
    factor = 1.0 if level.sequential else TWO_TESTS
    better = used[0][0].better
    return adjusted_shift(sides[0], sides[1], pairs, better=better, alpha=alpha, factor=factor)


def _adjustable(rows: Sequence[Row]) -> list[Row]:
    """Return valid rows, and those that only other work with a known share disturbed, ordered by their cells."""
    usable = [
        row
        for row in rows
        if row.value is not None
        and math.isfinite(row.value)
        and (row.valid or (row.adjustable and row.bounds and row.late <= LATE_MAX))
    ]
    return sorted(usable, key=lambda row: row.cell)


def _shift(
    baseline: Side, candidate: Side, alpha: float, nodes: Names | None, sequential: bool, least: float
) -> Shift:
    is_known = not (baseline.disturbed or candidate.disturbed)
    if nodes is None and is_known and min(len(side.values) for side in (baseline, candidate)) > 1:
        factor = 1.0 if sequential else TWO_TESTS
        pairs = block_pairs(baseline.blocks, candidate.blocks)
        return mean_shift(baseline.values, candidate.values, pairs, alpha=alpha, factor=factor, least=least)
    if is_known:
        return shift_of(baseline.values, candidate.values, alpha=alpha, nodes=nodes)
    triples = ([(v, *b) for v, b in zip(side.values, side.bounds, strict=True)] for side in (baseline, candidate))
    return bounded_shift_of(*triples, alpha=alpha, nodes=nodes)


def _used(rows: Sequence[Row], *, disturbed: bool) -> list[Row]:
    """Return the rows whose values are compared."""
    return [
        row
        for row in rows
        if row.value is not None
        and math.isfinite(row.value)
        and (row.valid or (disturbed and row.bounds is not None))
    ]


def _side(rows: Sequence[Row], used: Sequence[Row], shared: Sequence[str]) -> Side:
    """Return one volume's values, of those rows that are used and, where nodes are blocks, on shared ones."""
    usable = [(row.value, row) for row in used if row.value is not None and (not shared or row.node in shared)]
    usable.sort(key=lambda entry: entry[1].cell)  # sums depend on the order
    standing, figure = figure_of_rows(rows)
    return Side(
        values=tuple(value for value, _ in usable),
        excluded_runs=len(rows) - len(usable),
        bounds=tuple((value, value) if row.valid or row.bounds is None else row.bounds for value, row in usable),
        disturbed=sum(not row.valid for _, row in usable),
        nodes=tuple(row.node for _, row in usable),
        blocks=tuple(row.block for _, row in usable),
        standing=standing,
        figure=figure,
    )


def figure_of_rows(rows: Sequence[Row]) -> tuple[Standing | None, float | None]:
    """Return a volume's figure of one metric, and of cells of which standing it is; None where no cell has one."""
    standing, values = population(
        (standing_of(valid=row.valid, bounded=row.bounds is not None), row.value)
        for row in rows
        if row.value is not None and math.isfinite(row.value)
    )
    return standing, median(values) if values else None
