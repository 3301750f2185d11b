"""Pieces of a headline: its clauses, figures, metrics and cells in words, and the headline without two figures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from volbench.core.base.text import change_words, interval_words, percent, quantity, than_or_as, upper_first
from volbench.core.records.report import CellRow, ComparisonRow, EffectRow, FindingRow, HeadlineFigure
from volbench.results.compare.comparison import Comparison
from volbench.results.compare.comparison_summary import PairSummary
from volbench.results.compare.figures import figure_of
from volbench.results.report.rows.verdict.reason import CauseClause, cause_of
from volbench.results.report.rows.verdict.subject import Subject, leading_rows, setting_of, subject_at
from volbench.results.report.wording import (
    ADJUSTED,
    UNADJUSTED,
    is_turned,
    joined,
    label,
    load_text,
    measured_text,
    setting_text,
)
from volbench.results.stats.sequential import confidence_of_all

LISTED_MAX = 3
"""Names that a headline lists; of more, their number."""
REPEAT, RESUME = "repeat to decide", "resume the run to decide"
LIMITS_RAISED = "validity limits were raised"


@dataclass(frozen=True, kw_only=True)
class Headline:
    """At most three clauses, and the sentences below them that say the rest.

    Args:
        size: which volume, by how much, with the interval.
        cause: why, and how sure; empty: nothing says so.
        next_step: what an open verdict needs, or what stands against a decided one; empty: nothing.
        decided: by how many cells it is decided: the last clause where nothing else is, since the sentence has it.
        counts: of many candidates, how many are better and worse: the last clause, or a note where another is.
        notes: clauses without a full stop that belong to the headline, and are too many for it.
        figure: what the figure is of; None: it has none.
        praised: the volume or setting that is called best or better; empty: none is, or it is one of two.
    """

    size: str
    cause: str = ""
    next_step: str = ""
    decided: str = ""
    counts: str = ""
    notes: tuple[str, ...] = ()
    figure: HeadlineFigure | None = None
    praised: str = ""

    @property
    def text(self) -> str:
        """The headline without a full stop."""
        return "; ".join(filter(None, (self.size, self.cause, self.next_step or self.decided or self.counts)))

    @property
    def sentences(self) -> tuple[str, ...]:
        """The notes as sentences."""
        return tuple(dict.fromkeys(f"{upper_first(note)}." for note in self.notes if note))


def closed(headline: Headline, doubts: Sequence[str]) -> Headline:
    """Return the headline with its gravest doubt as the last clause, and the rest in its notes.

    Args:
        doubts: what takes a conclusion away, the gravest first: what cuts cost, volumes on one disk, raised limits.
            The last counts less than what a verdict needs.
    """
    grave = [text for text in doubts if text != LIMITS_RAISED]
    light = [text for text in doubts if text == LIMITS_RAISED]
    clauses = [text for text in (*grave[:1], headline.next_step, *light) if text]
    further = [f"volumes {text}" for text in grave[1:]]
    notes = (*headline.notes, *further, *clauses[1:], headline.counts if clauses else "")
    return replace(headline, next_step=clauses[0] if clauses else "", notes=notes)


def cause_between(row: ComparisonRow, cells: Sequence[CellRow], findings: Sequence[FindingRow]) -> CauseClause:
    """Return why the slower one of a row's volumes is slower; empty where nothing says so."""
    loser, winner = (row.candidate, row.baseline) if goodness(row) < 0 else (row.baseline, row.candidate)
    return cause_of(row.step, loser, winner, findings, cells)


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


def times_measured(row: ComparisonRow) -> str:
    """Return `measured 3 times each`, `measured 5 times on a and 4 times on b, 2 of them disturbed`."""
    disturbed = sum(row.within_bounds)
    text = measured_text(row.runs, (f"on {row.baseline}", f"on {row.candidate}"), "each")
    return f"{text}, {disturbed} of them disturbed" if disturbed else text


def without_verdict(
    candidates: str, volumes: Sequence[str], rows: Sequence[ComparisonRow], cells: Sequence[CellRow]
) -> Headline:
    """Return the headline without two valid figures: it has what was measured all the same."""
    first = next(leading_rows(rows), None)
    size = f"No verdict on {candidates} against {volumes[0]}: {_why_none(rows)}"
    if first is None:
        return Headline(size=size)
    step, load, metric = subject = subject_at(first)
    setting = setting_of(first.parameters)
    of_step = [
        cell
        for cell in cells
        if (cell.step, load_text(cell.parameters)) == (step, load) and setting_of(cell.parameters) == setting
    ]
    figures = {name: figure_of([cell for cell in of_step if cell.volume == name], metric) for name in volumes}
    measured = sorted((value, name) for name, value in figures.items() if value is not None)
    if len(measured) > LISTED_MAX + 1:
        measured = [measured[0], measured[-1]]
    listed = joined([f"{quantity(value, _unit(first))} on {name}" for value, name in measured])
    as_measured = f"as measured, {metric_words(first)} is {listed}" if listed else ""
    return Headline(size=size, cause=as_measured, figure=figure_record(subject))


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


def goodness(row: ComparisonRow | EffectRow) -> float:
    """Return the logarithm of how many times better than the baseline the candidate is."""
    size = math.log(row.ratio) if row.ratio else 0.0
    return size if row.better == "higher" else -size


def figure_words(row: ComparisonRow) -> str:
    """Return metric, step and change of a row in words, with its interval."""
    return f"{metric_words(row)} {size_words(row)}"


def is_alike(row: ComparisonRow | EffectRow) -> bool:
    """Return whether a row takes no side: its interval reaches both, or nothing changed."""
    crosses = row.ci is not None and row.ci[0] < 1 < row.ci[1]
    return crosses or ratio_words(row) == "unchanged"


def metric_words(row: ComparisonRow | EffectRow) -> str:
    """Return `transactions/s in STEP`; of fio's operations, also the load; of a sweep, the setting."""
    load = f" at {load_text(row.parameters)}" if row.metric == "fio_iops" and load_text(row.parameters) else ""
    return f"{label(row.metric)} in {row.step}{load}{_with_setting(row)}"


def _with_setting(row: ComparisonRow | EffectRow) -> str:
    """Return ` with mode=sync`: which of several settings two volumes are compared with; an effect is of two."""
    if isinstance(row, EffectRow):
        return ""
    texts = [setting_text(name, value) for name, value in setting_of(row.parameters).items()]
    return f" with {joined(texts)}" if texts else ""


def size_words(row: ComparisonRow | EffectRow, than: str = "") -> str:
    """Return `1/6.03 as high as on gp3 (95 %: 1/4.92 to 1/7.40)`: the change and its interval.

    The confidence is that of all looks at a pair together; the table's notes have that of one.

    Args:
        than: what it is compared with, such as `on gp3`, where the sentence does not say so before.
    """
    is_of_equal_shares = isinstance(row, ComparisonRow) and is_turned(row)
    plain_ci = row.plain_ci if isinstance(row, ComparisonRow) else None
    ci, standing = (row.ci, "") if row.ci is not None else (plain_ci, f", {UNADJUSTED}")
    level = percent(confidence_of_all(row.confidence))
    bounds = f"{level}{standing}: {interval_words(ci, row.ratio)}" if ci and row.ratio else ""
    texts = filter(None, (bounds, ADJUSTED.removeprefix(", ") if is_of_equal_shares else ""))
    in_brackets = ", ".join(texts)
    return f"{ratio_words(row, than)}{f' ({in_brackets})' if in_brackets else ''}"


def ratio_words(row: ComparisonRow | EffectRow, than: str = "") -> str:
    """Return how much a figure changed, in words, and against what."""
    return change_words(row.ratio, than) if row.ratio else "without a ratio"


def than_words(row: ComparisonRow | EffectRow) -> str:
    """Return `than`, or `as` behind a factor."""
    return than_or_as(row.ratio) if row.ratio else "than"
