"""The headline: which volume, by how much, why and how sure, in at most three clauses; notes say the rest."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from volbench.core.base.text import counted, lower_first, percent, quantity, upper_first
from volbench.core.records.metrics import PRIMARY_METRICS
from volbench.core.records.report import CellRow, ComparisonRow, DurabilityRow, EffectRow, FindingRow
from volbench.results.compare.comparison_summary import PairSummary
from volbench.results.compare.losses import losing_volumes, without_loss
from volbench.results.report.rows.verdict.candidates import headline_of_many
from volbench.results.report.rows.verdict.clauses import (
    REPEAT,
    RESUME,
    Headline,
    cause_between,
    cells_each,
    closed,
    figure_record,
    figure_words,
    goodness,
    is_alike,
    times_measured,
    without_verdict,
)
from volbench.results.report.rows.verdict.comparisons import comparison_rows
from volbench.results.report.rows.verdict.lead import INVALID_ONLY, NONE, cause_title, likelihood
from volbench.results.report.rows.verdict.order import leading, least_sure, order_note, titles_of
from volbench.results.report.rows.verdict.reason import is_step, sureness
from volbench.results.report.rows.verdict.settings import variant_names, with_names
from volbench.results.report.rows.verdict.subject import (
    Subject,
    largest_of,
    leading_rows,
    rows_of,
    subject_at,
    subject_of,
)
from volbench.results.report.rows.verdict.sweep import headline_of_sweep, setting_notes
from volbench.results.report.wording import label, load_text

_IN_BRACKETS = re.compile(r" \([^()]*\)")


def headline_of(
    pairs: Sequence[PairSummary],
    cells: Sequence[CellRow],
    volumes: Sequence[str],
    findings: Sequence[FindingRow],
    *,
    effects: Sequence[EffectRow] = (),
    about: Sequence[str] = (),
    durability: Sequence[DurabilityRow] = (),
    doubts: Sequence[str] = (),
    complete: bool = True,
) -> Headline:
    """Return size, cause and decision in at most three clauses, without a full stop.

    Args:
        pairs: each candidate with the baseline.
        cells: of the run.
        volumes: names, the baseline first.
        findings: of the run, the first of a step first.
        effects: of a sweep.
        about: steps that the suite is about, the first that has a figure counts; empty: all.
        durability: what cuts cost each volume; a loss is never left out.
        doubts: clauses on what takes the conclusion away.
        complete: whether no planned cell is missing; those that are may decide.
    """
    headline = _of_figures(pairs, cells, volumes, findings, effects=effects, about=about)
    if not complete:
        headline = replace(headline, next_step=headline.next_step.replace(REPEAT, RESUME))
    if pairs:
        headline = replace(headline, notes=(*headline.notes, *setting_notes(effects, about, cells, findings)))
    rows = with_names(durability, variant_names(effects, cells))
    losses = losing_volumes(rows, praised=headline.praised)
    lossless = without_loss(rows) if losses else ""
    note = f"in the same crash tests, {lossless}" if lossless else ""
    headline = replace(headline, notes=(*headline.notes, note))
    return closed(headline, [*([f"not safe: {losses}"] if losses else []), *doubts])


def _of_figures(
    pairs: Sequence[PairSummary],
    cells: Sequence[CellRow],
    volumes: Sequence[str],
    findings: Sequence[FindingRow],
    *,
    effects: Sequence[EffectRow],
    about: Sequence[str],
) -> Headline:
    if len(pairs) > 1:
        return headline_of_many(pairs, cells, volumes, findings, about)
    if pairs:
        return _of_two(pairs[0], cells, findings, about)
    if effects:
        return headline_of_sweep(effects, about, cells, findings)
    if len(volumes) > 1:
        return Headline(size="No verdict: no cell gave a metric that can be compared")
    return _of_one(cells, volumes, findings)


def _of_two(
    pair: PairSummary, cells: Sequence[CellRow], findings: Sequence[FindingRow], about: Sequence[str]
) -> Headline:
    baseline, candidate = pair.baseline, pair.candidate
    decided = comparison_rows((*pair.better, *pair.worse))
    rows = decided or comparison_rows((*pair.alone, *pair.inconclusive, *pair.equivalent))
    subject = subject_of(rows, about)
    if subject is None:
        return without_verdict(candidate, (baseline, candidate), rows, cells)
    headline = _of_pair(pair, rows_of(rows, subject)[0], cells, findings)
    return replace(headline, figure=figure_record(subject))


def _of_pair(
    pair: PairSummary, row: ComparisonRow, cells: Sequence[CellRow], findings: Sequence[FindingRow]
) -> Headline:
    baseline, candidate = pair.baseline, pair.candidate
    decided = times_measured(row)
    if pair.verdict == "mixed":
        better, worse = (_of_side(comparison_rows(side), row) for side in (pair.better, pair.worse))
        figures = (figure_words(better), figure_words(worse))
        return Headline(
            size=f"{candidate} is better than {baseline} by {figures[0]}, and worse by {figures[1]}",
            decided="choose by the metric that counts",
        )
    if pair.verdict == "equivalent":
        return Headline(
            size=f"{candidate} is equivalent to {baseline}: {figure_words(row)}",
            cause=f"no metric beyond {percent(row.margin)}",
            decided=decided,
        )
    cause = cause_between(row, cells, findings)
    if pair.winner is not None:
        verdict_text = "better" if pair.winner == candidate else "worse"
        return Headline(
            size=f"{candidate} is {verdict_text} than {baseline}: {figure_words(row)}",
            cause=cause.clause,
            decided=decided,
            notes=cause.notes,
        )
    is_named = not is_alike(row)
    leaning = f"{candidate} {_leaning(row)} {baseline}"
    return Headline(
        size=f"{upper_first(cells_each(row))}, not decided: {leaning}, {figure_words(row)}",
        cause=cause.clause if is_named else "",
        next_step=_what_decides(pair, row),
        notes=cause.notes if is_named else (),
    )


def _of_side(rows: Sequence[ComparisonRow], subject: ComparisonRow) -> ComparisonRow:
    """Return the row that the headline's figure is of where it is on this side, else the largest leading one."""
    largest = largest_of(list(leading_rows(rows)) or rows)
    return next((row for row in rows if subject_at(row) == subject_at(subject)), largest)


def _of_one(cells: Sequence[CellRow], volumes: Sequence[str], findings: Sequence[FindingRow]) -> Headline:
    volume = volumes[0] if volumes else "the volume"
    valid = [cell for cell in cells if cell.valid]
    order = leading(findings)
    named = None if order is None else order.first.finding
    steps = dict.fromkeys(cell.step for cell in valid or cells)
    if named is not None and valid:
        steps = {name: None for name in (named.step, *steps) if is_step(name, named.step)}
    text, subject = next(
        (found_figure for step in steps for found_figure in _figures_of(valid or cells, step)), ("", None)
    )
    figure = figure_record(subject) if subject else None
    if not cells:
        return Headline(size=f"No figure of {volume}: no step has a result")
    if not valid:
        all_invalid = f"{text}, all invalid" if text else ""
        return Headline(size=_without_valid(volume, cells), cause=all_invalid, figure=figure)
    if order is None or named is None:
        title = lower_first(cause_title(NONE)) if findings else "no cause named"
        return Headline(size=f"{volume}: {text or title}", cause=title if text else "", figure=figure)
    if not text:
        return Headline(
            size=f"{volume}, step {named.step}: {titles_of(order)}",
            cause=f"{likelihood(least_sure(order)) or 'how likely is not known'}{sureness(order)}",
            notes=(order_note(order), *_of_invalid_cells(named)),
            figure=figure,
        )
    return Headline(
        size=f"{volume}: {text}",
        cause=f"{_likely_cause(least_sure(order))}{sureness(order)}: {titles_of(order)}",
        notes=(order_note(order), *_of_invalid_cells(named)),
        figure=figure,
    )


def _without_valid(volume: str, cells: Sequence[CellRow]) -> str:
    reasons = dict.fromkeys(reason for cell in cells for reason in cell.invalid_reasons)
    reason_text = f": {_IN_BRACKETS.sub('', next(iter(reasons)))}" if reasons else ""
    return f"No valid figure of {volume}, {counted(len(cells), 'step result')} and none valid{reason_text}"


def _likely_cause(finding: FindingRow) -> str:
    """Return `likely cause`, `possible cause`; of one whose confidence is not known that it is so."""
    likelihood_text = likelihood(finding)
    return f"{likelihood_text} cause" if likelihood_text else "cause whose confidence is not known"


def _of_invalid_cells(finding: FindingRow) -> tuple[str, ...]:
    return () if finding.valid else (INVALID_ONLY,)


def _figures_of(cells: Iterable[CellRow], step: str) -> Iterator[tuple[str, Subject]]:
    """Yield the primary figures of a step, a range over its cells; at a given rate no throughput."""
    of_step = [cell for cell in cells if cell.step == step]
    for name in PRIMARY_METRICS.get(of_step[0].kind, ()) if of_step else ():
        with_figure = [cell for cell in of_step if name in cell.metrics]
        if with_figure and not (name == "tps" and of_step[0].parameters.get("rate")):
            values = sorted(cell.metrics[name].value for cell in with_figure)
            unit = with_figure[0].metrics[name].unit
            ends = dict.fromkeys(
                quantity(value, "1" if unit == "1/s" else unit) for value in (values[0], values[-1])
            )
            subject = (step, load_text(with_figure[0].parameters), name)
            yield f"{label(name)} {' to '.join(ends)} in step {step}", subject


def _what_decides(pair: PairSummary, row: ComparisonRow) -> str:
    if pair.alone:
        return f"one of {pair.families} steps may differ by chance: {REPEAT}"
    if max(row.runs) == 1:
        return REPEAT
    return f"about {row.runs_needed} each would decide" if row.runs_needed is not None else ""


def _leaning(row: ComparisonRow) -> str:
    """Return how an undecided pair is put: no side is taken where the interval reaches both."""
    if is_alike(row):
        return "is not told apart from"
    return f"looks {'better' if goodness(row) > 0 else 'worse'} than"
