"""Where a transaction's time goes on each volume, and where the extra time of the slower volume goes.

A cell's budget is the mean over its window; a volume's is the mean over its valid cells, so that the pieces still
sum to the latency. The interval of a difference is that of the tests that compare volumes, in milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from volbench.core.base.text import counted, number, percent, quantity
from volbench.core.records.report import CellRow, TimeBudgetRow, TimeDifferenceRow
from volbench.results.explain.accounts.time_budget import PIECES, QUEUE
from volbench.results.explain.run import RunExplanation, StepView, valid_views
from volbench.results.stats.means import TWO_TESTS, block_pairs, mean_difference
from volbench.results.stats.sequential import CELLS_MIN, FIXED_LEVEL, ErrorLevel

LATENCY = "latency_ms_mean"
DIFFERENCE_MIN = 0.05
"""Share of the baseline's latency below which a difference has no pieces worth a sentence."""
NAMED_MIN, NAMED_MAX = 0.1, 3
"""Share of a difference from which a piece is named in the sentence, and how many at most."""
OVER_WHOLE = 1.005
"""Above this share of the difference in its named pieces, the sentence names what shrank, too."""
UNACCOUNTED = "unaccounted"
OVERLAP_MAX = 1.15
"""Statement time over the client's latency from which other clients' statements must be in it."""

_About = tuple[str, int | None]
_CellBudget = Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class VolumeBudget:
    """The budgets of one volume's valid cells in one step: each maps a piece to its milliseconds."""

    volume: str
    step: str
    threads: int | None
    cells: tuple[_CellBudget, ...]
    valid: bool = True
    """False: no cell is valid; these are of disturbed cells, known within bounds."""
    blocks: tuple[int | None, ...] = ()
    """The block of each cell, None where not known; empty: of none."""

    @property
    def pieces(self) -> dict[str, float]:
        """Mean milliseconds of each piece, in the order of PIECES."""
        return {
            piece: fmean(cell.get(piece, 0.0) for cell in self.cells)
            for piece in PIECES
            if any(piece in cell for cell in self.cells)
        }

    @property
    def latency_ms(self) -> float:
        """Mean time of a transaction."""
        return sum(self.pieces.values())


def volume_budgets(
    explained: RunExplanation, cells: Sequence[CellRow], volumes: Sequence[str]
) -> tuple[VolumeBudget, ...]:
    """The budgets of all steps, by step and threads, then in the order of `volumes`.

    They are of valid cells; where a volume's step has none, of disturbed ones, as figures are.
    """
    disturbed = {(cell.cell_id, cell.step) for cell in cells if cell.bounds}
    block_of = {cell.cell_id: cell.block for cell in cells}
    latency = {(cell.cell_id, cell.step): cell.metrics[LATENCY].value for cell in cells if LATENCY in cell.metrics}
    collected: dict[_About, dict[str, list[tuple[_CellBudget, int | None]]]] = {}
    undisturbed = {key: bool(valid_views(views)) for key, views in explained.views.items()}
    for (volume, step), views in explained.views.items():
        usable = valid_views(views) or {cell: view for cell, view in views.items() if (cell, step) in disturbed}
        for cell_id, view in usable.items():
            budget = _with_outside(view, latency.get((cell_id, step)))
            if budget is not None:
                by_volume = collected.setdefault((step, view.threads), {})
                by_volume.setdefault(volume, []).append((budget, block_of.get(cell_id)))
    return tuple(
        VolumeBudget(
            volume=volume,
            step=step,
            threads=threads,
            cells=tuple(budget for budget, _ in by_volume[volume]),
            blocks=tuple(block for _, block in by_volume[volume]),
            valid=undisturbed[volume, step],
        )
        for (step, threads), by_volume in collected.items()
        for volume in volumes
        if volume in by_volume
    )


def time_budget_rows(budgets: Sequence[VolumeBudget]) -> tuple[TimeBudgetRow, ...]:
    """One row for each piece of each budget."""
    return tuple(
        TimeBudgetRow(
            volume=budget.volume,
            step=budget.step,
            threads=budget.threads,
            piece=piece,
            title=PIECES[piece],
            ms=ms,
            share=ms / budget.latency_ms if budget.latency_ms > 0 else 0.0,
            latency_ms=budget.latency_ms,
            cells=len(budget.cells),
            valid=budget.valid,
        )
        for budget in budgets
        for piece, ms in budget.pieces.items()
    )


def time_difference_rows(
    budgets: Sequence[VolumeBudget], baseline: str, level: ErrorLevel = FIXED_LEVEL
) -> tuple[TimeDifferenceRow, ...]:
    """Each other volume's pieces less the baseline's, the largest difference first.

    Args:
        level: that of the run's comparisons.
    """
    first = {(budget.step, budget.threads): budget for budget in budgets if budget.volume == baseline}
    rows: list[TimeDifferenceRow] = []
    for budget in budgets:
        base = first.get((budget.step, budget.threads))
        if base is not None and budget.volume != baseline:
            rows += _difference_rows(base, budget, level)
    return tuple(rows)


def difference_sentences(
    rows: Sequence[TimeDifferenceRow], *, of_step: str | None = None, first: str = ""
) -> tuple[str, ...]:
    """One sentence for each step and pair of volumes whose transactions differ in their time.

    Args:
        of_step: of this step only.
        first: the headline's step, whose sentences come first.
    """
    pairs: dict[tuple[str, int | None, str], list[TimeDifferenceRow]] = {}
    for row in sorted((row for row in rows if of_step in (None, row.step)), key=lambda row: row.step != first):
        pairs.setdefault((row.step, row.threads, row.candidate), []).append(row)
    return tuple(text for of in pairs.values() if (text := _sentence(of)) is not None)


def _with_outside(view: StepView, latency_ms: float | None) -> _CellBudget | None:
    """The pieces of a cell and what the client measured beyond them; None where others' statements are counted."""
    budget = view.time_budget
    if budget is None:
        return None
    if latency_ms is None:
        return budget.pieces
    if latency_ms <= 0 or budget.statement_ms > OVERLAP_MAX * latency_ms:
        return None
    outside = latency_ms - budget.statement_ms
    if outside > 0:
        return {**budget.pieces, **budget.outside_pieces(latency_ms)}
    # Statements that began before the window make the sum a little larger than the latency.
    return {piece: ms * latency_ms / budget.statement_ms for piece, ms in budget.pieces.items()}


def _difference_rows(base: VolumeBudget, candidate: VolumeBudget, level: ErrorLevel) -> list[TimeDifferenceRow]:
    before, after = base.pieces, candidate.pieces
    difference_ms = candidate.latency_ms - base.latency_ms
    rows = [
        TimeDifferenceRow(
            step=base.step,
            threads=base.threads,
            baseline=base.volume,
            candidate=candidate.volume,
            piece=piece,
            title=PIECES[piece],
            baseline_ms=before.get(piece, 0.0),
            candidate_ms=after.get(piece, 0.0),
            difference_ms=after.get(piece, 0.0) - before.get(piece, 0.0),
            ci=_interval_ms(base, candidate, piece, level),
            share=(after.get(piece, 0.0) - before.get(piece, 0.0)) / difference_ms
            if abs(difference_ms) >= DIFFERENCE_MIN * base.latency_ms
            else None,
            valid=base.valid and candidate.valid,
            cells=(len(base.cells), len(candidate.cells)),
        )
        for piece in PIECES
        if piece in before or piece in after
    ]
    return sorted(rows, key=lambda row: -abs(row.difference_ms))


def _interval_ms(
    base: VolumeBudget, candidate: VolumeBudget, piece: str, level: ErrorLevel
) -> tuple[float, float] | None:
    """The interval of a piece's difference, candidate - baseline; None with too few cells."""
    sides = [[cell.get(piece, 0.0) for cell in budget.cells] for budget in (base, candidate)]
    fewest = min(map(len, sides))
    if fewest < CELLS_MIN:
        return None
    factor = 1.0 if level.sequential else TWO_TESTS
    pairs = block_pairs(base.blocks, candidate.blocks)
    difference = mean_difference(sides[0], sides[1], pairs, alpha=level.at(fewest), factor=factor)
    return difference.low, difference.high


def _sentence(rows: Sequence[TimeDifferenceRow]) -> str | None:
    first = rows[0]
    before = sum(row.baseline_ms for row in rows)
    after = sum(row.candidate_ms for row in rows)
    if before <= 0 or abs(after - before) < DIFFERENCE_MIN * before:
        return None
    slower, faster = (first.candidate, first.baseline) if after > before else (first.baseline, first.candidate)
    long, short = max(before, after), min(before, after)
    threads = f", {counted(first.threads, 'thread')}" if first.threads is not None else ""
    sides = first.cells if first.cells is None or after <= before else first.cells[::-1]
    step = f" ({first.step}{threads}{_means_of(sides)})"
    mark = "" if first.valid else " (Cells were disturbed: the pieces are approximate.)"
    mark += "" if any(row.ci for row in rows) else " (Too few cells for intervals.)"
    large = [row for row in rows if abs(row.difference_ms) >= NAMED_MIN * (long - short)]
    is_any_shown = not large or any(map(_is_shown, large))
    pieces = (
        extra_pieces(rows)
        if is_any_shown
        else f"No piece of the extra {quantity(long - short, 'ms')} is shown to differ: each interval has 0 within."
    )
    return (
        f"A transaction takes {quantity(long, 'ms')} on {slower} and {quantity(short, 'ms')} on {faster}{step}."
        f" {pieces}{mark}"
    )


def _is_shown(row: TimeDifferenceRow) -> bool:
    """Return whether its interval leaves out no difference; without an interval nothing speaks against it."""
    return row.ci is None or row.ci[0] > 0 or row.ci[1] < 0


def _means_of(cells: tuple[int, int] | None) -> str:
    """Return `; means of 7 and 6 cells`, in the order of the sentence; figures elsewhere are medians of cells."""
    if cells is None or max(cells) == 1:
        return "" if cells is None else "; one cell each"
    return (
        f"; means of {cells[0]} cells each"
        if cells[0] == cells[1]
        else f"; means of {cells[0]} and {cells[1]} cells"
    )


def extra_pieces(rows: Sequence[TimeDifferenceRow]) -> str:
    """Return which pieces the extra time of the slower side is, as one or two sentences.

    At a fixed rate transactions queue once others take too long, and the queue soon takes more time than what
    caused it. So its time is stated first, and the pieces are those of the rest.

    Args:
        rows: all pieces of two sides whose times differ, the largest difference first.
    """
    total = sum(row.difference_ms for row in rows)
    queue = sum(row.difference_ms for row in rows if row.piece == QUEUE)
    sign = 1 if total > 0 else -1
    least_ms = DIFFERENCE_MIN * min(_without_queue_ms(rows))
    if sign * queue >= NAMED_MIN * abs(total) and sign * (total - queue) > least_ms:
        service = [row for row in rows if row.piece != QUEUE]
        return (
            f"Of the extra {quantity(abs(total), 'ms')}, {quantity(abs(queue), 'ms')} are {PIECES[QUEUE]}, because"
            f" transactions take longer. {_pieces('other', service, sign, abs(total - queue))}"
        )
    return _pieces("extra", rows, sign, abs(total))


def _without_queue_ms(rows: Sequence[TimeDifferenceRow]) -> tuple[float, float]:
    """The time of both sides without the wait for a client thread."""
    service = [row for row in rows if row.piece != QUEUE]
    return sum(row.baseline_ms for row in service), sum(row.candidate_ms for row in service)


def _pieces(which: str, rows: Sequence[TimeDifferenceRow], sign: int, extra: float) -> str:
    """The milliseconds that are extra on the slower side, and the pieces that they are.

    Where the pieces that grew are more than the whole, they stand with those that shrank, without shares.

    Args:
        which: `extra`, or `other`: those without the wait for a client thread.
    """
    named = [row for row in rows if sign * row.difference_ms >= NAMED_MIN * extra][:NAMED_MAX]
    shrunk = [row for row in rows if -sign * row.difference_ms >= NAMED_MIN * extra][:NAMED_MAX]
    separator = "; " if any("," in row.title for row in (*named, *shrunk)) else ", "
    over = sum(sign * row.difference_ms for row in named) - extra
    if over > (OVER_WHOLE - 1) * extra:
        more = [f"{number(sign * row.difference_ms)} ms more in {_as_noun(row)}{_doubt(row)}" for row in named]
        less = [f"{number(-sign * row.difference_ms)} ms less in {_as_noun(row)}" for row in shrunk]
        pieces = separator.join((*more, *(less or [f"{number(over)} ms less in other pieces"])))
        return f"The {which} {quantity(extra, 'ms')}: {pieces}."
    pieces = separator.join(_piece_text(row, sign * row.difference_ms, extra) for row in named)
    return f"Of the {which} {quantity(extra, 'ms')}: {pieces or 'no piece explains a tenth'}."


def _as_noun(row: TimeDifferenceRow) -> str:
    return f"what is {row.title}" if row.piece == UNACCOUNTED else row.title


def _piece_text(row: TimeDifferenceRow, ms: float, extra: float) -> str:
    """`8.4 ms (75 %) reads of data files`; no share where rounding makes it exceed the whole."""
    share = f" ({percent(ms / extra)})" if ms <= extra else ""
    return f"{number(ms)} ms{share} {row.title}{_doubt(row)}"


def _doubt(row: TimeDifferenceRow) -> str:
    """What stands behind a piece whose interval has 0 within."""
    return "" if _is_shown(row) else " (uncertain)"
