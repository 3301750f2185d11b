"""Pieces of a headline: its figures, metrics and cells in words, and the headline without two valid figures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from volbench.core.base.text import change_words, quantity
from volbench.core.records.report import CellRow, ComparisonRow, EffectRow, FindingRow, HeadlineFigure
from volbench.results.compare.comparison import Comparison
from volbench.results.compare.comparison_summary import PairSummary
from volbench.results.compare.figures import figure_of
from volbench.results.report.rows.verdict.reason import cause_clause
from volbench.results.report.rows.verdict.subject import Subject, leading_rows, subject_at
from volbench.results.report.wording import ADJUSTED, is_adjusted, joined, label, load_text

LISTED_MAX = 3
"""Candidates whose figures a headline lists; of more, the best, and the worst if it is worse than the baseline."""
REPEAT, RESUME = "repeat to decide", "resume the run to decide"


@dataclass(frozen=True, kw_only=True)
class Headline:
    """The clause, and what its figure is of; without a figure None."""

    text: str
    figure: HeadlineFigure | None = None


def cause_text(row: ComparisonRow, cells: Sequence[CellRow], findings: Sequence[FindingRow]) -> str:
    """Return the clause on why the slower one of a row's volumes is slower; empty where nothing says so."""
    loser, winner = (row.candidate, row.baseline) if goodness(row) < 0 else (row.baseline, row.candidate)
    return cause_clause(row.step, loser, winner, findings, cells)


def cells_of(rows: Iterable[ComparisonRow]) -> str:
    """Return `one cell each`, `5 against 4 cells`; of unlike rows `too few cells`."""
    cells = {cells_each(row) for row in rows}
    return cells.pop() if len(cells) == 1 else "too few cells"


def cells_each(row: ComparisonRow) -> str:
    """Return `one cell each`, `3 cells each` or `5 against 4 cells`."""
    baseline, candidate = row.runs
    if baseline == candidate:
        return "one cell each" if baseline == 1 else f"{baseline} cells each"
    return f"{baseline} against {candidate} cells"


def without_verdict(
    candidates: str, volumes: Sequence[str], rows: Sequence[ComparisonRow], cells: Sequence[CellRow]
) -> Headline:
    """Return the headline without two valid figures: it has what was measured all the same."""
    first = next(leading_rows(rows), None)
    text = f"No verdict on {candidates} against {volumes[0]}: {_why_none(rows)}"
    if first is None:
        return Headline(text=text)
    step, load, metric = subject = subject_at(first)
    of_step = [cell for cell in cells if (cell.step, load_text(cell.parameters)) == (step, load)]
    figures = {name: figure_of([cell for cell in of_step if cell.volume == name], metric) for name in volumes}
    measured = sorted((value, name) for name, value in figures.items() if value is not None)
    if len(measured) > LISTED_MAX + 1:
        measured = [measured[0], measured[-1]]
    listed = joined([f"{quantity(value, _unit(first))} on {name}" for value, name in measured])
    text += f"; as measured, {metric_words(first)} is {listed}" if listed else ""
    return Headline(text=text, figure=figure_record(subject))


def _unit(row: ComparisonRow) -> str:
    """Return the unit within a sentence, where `transactions/s` says it already."""
    return "1" if row.unit == "1/s" else row.unit


def _why_none(rows: Sequence[ComparisonRow]) -> str:
    return next((row.reason for row in rows if row.reason), "no cell gave a figure of both")


def comparisons_of(pair: PairSummary) -> Iterator[Comparison]:
    """Yield all comparisons of a pair: decided ones, then those that are alone, equivalent and open."""
    yield from (*pair.better, *pair.worse, *pair.alone, *pair.equivalent, *pair.inconclusive)


def figure_record(subject: Subject) -> HeadlineFigure:
    """Return a subject as report.json has it."""
    step, load, metric = subject
    return HeadlineFigure(step=step, load=load, metric=metric)


def goodness(row: ComparisonRow) -> float:
    """Return the logarithm of how many times better than the baseline the candidate is."""
    size = math.log(row.ratio) if row.ratio else 0.0
    return size if row.better == "higher" else -size


def adjusted_text(rows: Sequence[ComparisonRow]) -> str:
    """Return that figures are adjusted for other work; of which volumes, where it is not all that are printed."""
    names = [row.candidate for row in rows if is_adjusted(row)]
    if len(names) < len(rows):
        return f", that of {joined(names)} adjusted for other work" if names else ""
    return ADJUSTED if names else ""


def figure_words(row: ComparisonRow) -> str:
    """Return metric, step and change of a row in words."""
    return f"{metric_words(row)} {ratio_words(row)}{ADJUSTED if is_adjusted(row) else ''}"


def metric_words(row: ComparisonRow) -> str:
    """Return `transactions/s in STEP`; of fio's operations, also at which load."""
    load = f" at {load_text(row.parameters)}" if row.metric == "fio_iops" and load_text(row.parameters) else ""
    return f"{label(row.metric)} in {row.step}{load}"


def ratio_words(row: ComparisonRow | EffectRow) -> str:
    """Return how much a figure changed, in words."""
    return change_words(row.ratio) if row.ratio else "without a ratio"
