"""The headline: which volume, by how much, why and how sure, in one clause for one, two and many volumes."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from volbench.core.base.text import change_words, counted, percent, quantity
from volbench.core.records.metrics import PRIMARY_METRICS
from volbench.core.records.report import (
    CellRow,
    ComparisonRow,
    DurabilityRow,
    EffectRow,
    FindingRow,
    HeadlineFigure,
)
from volbench.results.compare.comparison import Comparison
from volbench.results.compare.comparison_summary import PairSummary, certain_among
from volbench.results.compare.figures import figure_of
from volbench.results.compare.losses import with_losses
from volbench.results.report.rows.verdict.comparisons import comparison_rows
from volbench.results.report.rows.verdict.lead import INVALID_ONLY, NONE, cause_title, likelihood
from volbench.results.report.rows.verdict.order import leading, order_text
from volbench.results.report.rows.verdict.reason import cause_clause, is_step
from volbench.results.report.rows.verdict.subject import (
    Subject,
    largest_of,
    leading_rows,
    rows_of,
    size_of,
    subject_at,
    subject_of,
)
from volbench.results.report.wording import ADJUSTED, is_adjusted, joined, label, level_cells, load_text

LISTED_MAX = 3
"""Candidates whose figures a headline lists; of more, the best, and the worst if it is worse than the baseline."""
_REPEAT, _RESUME = "repeat to decide", "resume the run to decide"


@dataclass(frozen=True, kw_only=True)
class Headline:
    """The clause, and what its figure is of; without a figure None."""

    text: str
    figure: HeadlineFigure | None = None


def headline_of(
    pairs: Sequence[PairSummary],
    cells: Sequence[CellRow],
    volumes: Sequence[str],
    findings: Sequence[FindingRow],
    *,
    effects: Sequence[EffectRow] = (),
    about: Sequence[str] = (),
    durability: Sequence[DurabilityRow] = (),
    complete: bool = True,
) -> Headline:
    """Return size, cause, decision and what cuts cost in one clause, without a full stop.

    Args:
        pairs: each candidate with the baseline.
        cells: of the run.
        volumes: names, the baseline first.
        findings: of the run, the first of a step first.
        effects: of a sweep.
        about: steps that the suite is about, the first that has a figure counts; empty: all.
        durability: what cuts cost each volume; a loss is never left out.
        complete: whether no planned cell is missing; those that are may decide.
    """
    headline = _of_figures(pairs, cells, volumes, findings, effects=effects, about=about)
    text = headline.text if complete else headline.text.replace(_REPEAT, _RESUME)
    return replace(headline, text=with_losses(text, durability))


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
        return _of_many(pairs, cells, volumes, findings, about)
    if pairs:
        return _of_two(pairs[0], cells, findings, about)
    if effects:
        return _of_sweep(effects, about, cells, findings)
    if len(volumes) > 1:
        return Headline(text="No verdict: no cell gave a metric that can be compared")
    return _of_one(cells, volumes, findings)


def _of_two(
    pair: PairSummary, cells: Sequence[CellRow], findings: Sequence[FindingRow], about: Sequence[str]
) -> Headline:
    baseline, candidate = pair.baseline, pair.candidate
    decided = comparison_rows((*pair.better, *pair.worse))
    rows = decided or comparison_rows((*pair.alone, *pair.inconclusive, *pair.equivalent))
    subject = subject_of(rows, about)
    if subject is None:
        return _without_verdict(candidate, (baseline, candidate), rows, cells)
    return Headline(text=_pair_text(pair, rows_of(rows, subject)[0], cells, findings), figure=_as_record(subject))


def _pair_text(
    pair: PairSummary, row: ComparisonRow, cells: Sequence[CellRow], findings: Sequence[FindingRow]
) -> str:
    baseline, candidate = pair.baseline, pair.candidate
    if pair.verdict == "mixed":
        better, worse = (_of_side(comparison_rows(side), row) for side in (pair.better, pair.worse))
        figures = (_figure(better), _figure(worse))
        return f"{candidate} is better than {baseline} by {figures[0]}, and worse by {figures[1]}"
    if pair.verdict == "equivalent":
        return f"{candidate} is equivalent to {baseline}: {_figure(row)}, no metric beyond {percent(row.margin)}"
    cause = _cause_text(row, cells, findings)
    if pair.winner is not None:
        verdict_text = "better" if pair.winner == candidate else "worse"
        return f"{candidate} is {verdict_text} than {baseline}: {_figure(row)}{cause}"
    decides = _what_decides(pair, row)
    undecided = f"{_upper(_cells(row))}, not decided"
    cause = "" if _is_alike(row) else cause
    return f"{undecided}: {candidate} {_leaning(row)} {baseline}, {_figure(row)}{cause}{decides}"


def _of_side(rows: Sequence[ComparisonRow], subject: ComparisonRow) -> ComparisonRow:
    """Return the row that the headline's figure is of where it is on this side, else the largest leading one."""
    largest = largest_of(list(leading_rows(rows)) or rows)
    return next((row for row in rows if subject_at(row) == subject_at(subject)), largest)


def _of_many(
    pairs: Sequence[PairSummary],
    cells: Sequence[CellRow],
    volumes: Sequence[str],
    findings: Sequence[FindingRow],
    about: Sequence[str],
) -> Headline:
    baseline = pairs[0].baseline
    rows = [row for pair in pairs for row in comparison_rows(_all_of(pair))]
    subject = _decided_subject(rows, about)
    if subject is None:
        return _without_verdict(counted(len(pairs), "volume"), volumes, rows, cells)
    of_subject = sorted(rows_of(rows, subject), key=_goodness, reverse=True)
    best, worst = of_subject[0], of_subject[-1]
    certain = certain_among(pairs)
    is_baseline_best = _goodness(best) < 0
    named, reason = of_subject, worst if _goodness(worst) < 0 else best
    if len(of_subject) > LISTED_MAX:
        named, reason = ([best, worst], worst) if is_baseline_best else ([best], best)
    figures = joined(
        [
            f"{row.candidate if len(named) > 1 or is_baseline_best else ''} {_change_text(row)}".strip()
            for row in named
        ]
    )
    is_unnamed = worst not in named and _goodness(worst) < 0
    worst_text = f" (worst: {worst.candidate} {_change_text(worst)})" if is_unnamed else ""
    text = (
        f"{_best_text(best, of_subject, baseline, len(volumes), certain)} by {_name(best)}, {figures} than"
        f" {baseline}{worst_text}{_adjusted_text([*named, *([worst] if is_unnamed else [])])}"
        f"{_cause_text(reason, cells, findings)}"
    )
    if all(pair.verdict == "inconclusive" for pair in pairs):
        text = f"{_upper(cells_of(of_subject))}, not decided: {text}; {_REPEAT}"
    else:
        text += f"; {_decision_of_many(pairs, of_subject, certain)}"
    return Headline(text=text, figure=_as_record(subject))


def _decided_subject(rows: Sequence[ComparisonRow], about: Sequence[str]) -> Subject | None:
    """Return what the headline of many volumes is of: of decided rows where none of the suite's step is decided.

    Otherwise it would call one volume the best by an open figure and end with the decision of other metrics.
    """
    subject = subject_of(rows, about)
    decided = [row for row in rows if row.verdict in ("better", "worse")]
    if subject is None or any(subject_at(row) == subject for row in decided):
        return subject
    return subject_of(decided, about) or subject


def _best_text(
    best: ComparisonRow, rows: Sequence[ComparisonRow], baseline: str, volumes: int, certain: Collection[str]
) -> str:
    """Say which volume is best; candidates are compared with the baseline only, never with each other.

    That all are worse errs no more often than one of them does; that a chosen one is better has to be certain
    among all.
    """
    compared = len(rows) + 1
    of = (
        f"{volumes} volumes" if compared == volumes else f"the {compared} of {volumes} volumes that can be compared"
    )
    if _goodness(best) < 0:
        verb = "is" if all(row.verdict == "worse" for row in rows) and compared == volumes else "looks"
        return f"{baseline} {verb} best of {of}"
    if best.verdict == "better" and best.candidate in certain:
        return f"{best.candidate} is better than {baseline} and looks best of {of}"
    return f"{best.candidate} looks best of {of}"


def _decision_of_many(
    pairs: Sequence[PairSummary], of_subject: Sequence[ComparisonRow], certain: Collection[str]
) -> str:
    """Return what is decided of each candidate; of many, how many are, by the figure that the headline is of."""
    verdict_texts = {
        "candidate_better": "better",
        "candidate_worse": "worse",
        "equivalent": "equivalent",
        "mixed": "better in one metric and worse in another",
        "inconclusive": "not decided",
    }
    groups = {
        verdict_texts[verdict]: [pair.candidate for pair in pairs if pair.verdict == verdict]
        for verdict in verdict_texts
    }
    everyone = "both" if len(pairs) == 2 else f"all {len(pairs)}"
    decision = "; ".join(
        f"{everyone if len(names) == len(pairs) else _few(names)} {verdict_text}"
        for verdict_text, names in groups.items()
        if names
    )
    if len(pairs) > LISTED_MAX:
        decision = f"of {counted(len(pairs), 'candidate')} {_numbers_of(of_subject)}"
    doubtful = [pair.candidate for pair in pairs if pair.winner is not None and pair.candidate not in certain]
    if not doubtful or {pair.verdict for pair in pairs} == {"candidate_worse"}:
        return decision
    of = "" if len(pairs) > LISTED_MAX else f"of {counted(len(pairs), 'candidate')}, "
    return f"{decision}; {of}chance alone may have decided {_few(doubtful)}"


def _numbers_of(rows: Sequence[ComparisonRow]) -> str:
    """Return `3 are better, 4 worse and 4 not decided`: the sentence below has their names."""
    labels = {"better": "better", "worse": "worse", "equivalent": "equivalent", "inconclusive": "not decided"}
    numbers = {verdict: sum(row.verdict == verdict for row in rows) for verdict in labels}
    clauses = [f"{number} {labels[verdict]}" for verdict, number in numbers.items() if number]
    number, _, label_text = clauses[0].partition(" ")
    first = f"{number} {'is' if number == '1' else 'are'} {label_text}"
    return joined([first, *clauses[1:]])


def _few(names: Sequence[str]) -> str:
    """Return the names, of many their number: the sentence below a headline has them."""
    return joined(names) if len(names) <= LISTED_MAX else counted(len(names), "volume")


def leading_effect(effects: Sequence[EffectRow], about: Sequence[str] = ()) -> EffectRow | None:
    """Return the effect that a sweep's headline is of: the largest one of a primary metric, a decided one first."""
    effects = [effect for effect in effects if any(is_step(effect.step, step) for step in about)] or effects
    measured = [effect for effect in effects if effect.primary and effect.ratio]
    measured = measured or [effect for effect in effects if effect.ratio]
    decided = [effect for effect in measured if effect.verdict in ("better", "worse")]
    return max(decided or measured, key=size_of, default=None)


def _of_sweep(
    effects: Sequence[EffectRow], about: Sequence[str], cells: Sequence[CellRow], findings: Sequence[FindingRow]
) -> Headline:
    """Return which factor changes the leading metric most, whether that is decided, and what the base waits for."""
    largest = leading_effect(effects, about)
    if largest is None:
        first = next((effect for effect in effects if effect.primary), effects[0])
        return Headline(text=f"No factor has an effect that can be stated on {label(first.metric)}")
    subject = (largest.step, load_text(largest.parameters), largest.metric)
    return Headline(text=_effect_text(largest, cells, findings), figure=_as_record(subject))


def _effect_text(largest: EffectRow, cells: Sequence[CellRow], findings: Sequence[FindingRow]) -> str:
    factors = " and ".join(
        f"{name.rpartition('.')[2]} from {base} to {level}"
        for name, base, level in zip(largest.factors, largest.bases, largest.levels, strict=True)
    )
    figure = f"{label(largest.metric)} {_change_text(largest)}, step {largest.step} on {largest.volume}"
    is_base_slower = largest.ratio is not None and (largest.ratio > 1) == (largest.better == "higher")
    cause = cause_clause(largest.step, largest.volume, "", findings, cells) if is_base_slower else ""
    if largest.verdict in ("better", "worse"):
        return f"{factors} matters most: {figure}, {largest.verdict}{cause}"
    if largest.ci is None:
        number = _upper(level_cells(largest))
        return f"{number}, not decided: {factors} seems to matter most, {figure}{cause}; {_REPEAT}"
    return f"No factor is shown to matter; the largest difference is {factors}: {figure}, not decided"


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
    figure = _as_record(subject) if subject else None
    if not cells:
        return Headline(text=f"No figure of {volume}: no step has a result")
    if not valid:
        reasons = dict.fromkeys(reason for cell in cells for reason in cell.invalid_reasons)
        reason_text = f": {next(iter(reasons))}" if reasons else ""
        results = counted(len(cells), "step result")
        figure_text = f"; {text}, all invalid" if text else ""
        return Headline(
            text=f"No valid figure of {volume}, {results} and none valid{reason_text}{figure_text}", figure=figure
        )
    if order is None or named is None:
        title = _lower(cause_title(NONE)) if findings else "no cause named"
        return Headline(text=f"{volume}: {text}; {title}" if text else f"{volume}: {title}", figure=figure)
    where = f"{volume}, step {named.step}: {_lower(cause_title(named.cause))}, {_sureness(named)}"
    clauses = (where, order_text(order), text)
    return Headline(text="; ".join(filter(None, clauses)), figure=figure)


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


def _cause_text(row: ComparisonRow, cells: Sequence[CellRow], findings: Sequence[FindingRow]) -> str:
    loser, winner = (row.candidate, row.baseline) if _goodness(row) < 0 else (row.baseline, row.candidate)
    return cause_clause(row.step, loser, winner, findings, cells)


def _sureness(finding: FindingRow) -> str:
    likelihood_text = likelihood(finding) or "how likely is not known"
    return likelihood_text if finding.valid else f"{likelihood_text}, {INVALID_ONLY}"


def _what_decides(pair: PairSummary, row: ComparisonRow) -> str:
    if pair.alone:
        return f"; one of {pair.families} steps may differ by chance: {_REPEAT}"
    if max(row.runs) == 1:
        return f"; {_REPEAT}"
    return f"; about {row.runs_needed} each would decide" if row.runs_needed is not None else ""


def _leaning(row: ComparisonRow) -> str:
    """Return how an undecided pair is put: no side is taken where the interval reaches both."""
    if _is_alike(row):
        return "is not told apart from"
    return f"looks {'better' if _goodness(row) > 0 else 'worse'} than"


def _is_alike(row: ComparisonRow) -> bool:
    crosses = row.ci is not None and row.ci[0] < 1 < row.ci[1]
    return crosses or _change_text(row) == "unchanged"


def cells_of(rows: Iterable[ComparisonRow]) -> str:
    """Return `one cell each`, `5 against 4 cells`; of unlike rows `too few cells`."""
    cells = {_cells(row) for row in rows}
    return cells.pop() if len(cells) == 1 else "too few cells"


def _cells(row: ComparisonRow) -> str:
    baseline, candidate = row.runs
    if baseline == candidate:
        return "one cell each" if baseline == 1 else f"{baseline} cells each"
    return f"{baseline} against {candidate} cells"


def _without_verdict(
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
    text += f"; as measured, {_name(first)} is {listed}" if listed else ""
    return Headline(text=text, figure=_as_record(subject))


def _unit(row: ComparisonRow) -> str:
    """Return the unit within a sentence, where `transactions/s` says it already."""
    return "1" if row.unit == "1/s" else row.unit


def _why_none(rows: Sequence[ComparisonRow]) -> str:
    return next((row.reason for row in rows if row.reason), "no cell gave a figure of both")


def _all_of(pair: PairSummary) -> Iterator[Comparison]:
    yield from (*pair.better, *pair.worse, *pair.alone, *pair.equivalent, *pair.inconclusive)


def _as_record(subject: Subject) -> HeadlineFigure:
    step, load, metric = subject
    return HeadlineFigure(step=step, load=load, metric=metric)


def _goodness(row: ComparisonRow) -> float:
    """Return the logarithm of how many times better than the baseline the candidate is."""
    size = math.log(row.ratio) if row.ratio else 0.0
    return size if row.better == "higher" else -size


def _adjusted_text(rows: Sequence[ComparisonRow]) -> str:
    """Return that figures are adjusted for other work; of which volumes, where it is not all that are printed."""
    names = [row.candidate for row in rows if is_adjusted(row)]
    if len(names) < len(rows):
        return f", that of {joined(names)} adjusted for other work" if names else ""
    return ADJUSTED if names else ""


def _figure(row: ComparisonRow) -> str:
    return f"{_name(row)} {_change_text(row)}{ADJUSTED if is_adjusted(row) else ''}"


def _name(row: ComparisonRow) -> str:
    load = f" at {load_text(row.parameters)}" if row.metric == "fio_iops" and load_text(row.parameters) else ""
    return f"{label(row.metric)} in {row.step}{load}"


def _change_text(row: ComparisonRow | EffectRow) -> str:
    return change_words(row.ratio) if row.ratio else "without a ratio"


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]
