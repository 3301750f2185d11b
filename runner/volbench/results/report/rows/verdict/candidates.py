"""The headline of several candidates: the best one, the figures of all, and what is decided of each."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from volbench.core.base.text import counted, upper_first
from volbench.core.records.report import CellRow, ComparisonRow, FindingRow
from volbench.results.compare.comparison_summary import PairSummary, certain_among
from volbench.results.report.rows.verdict.clauses import (
    LISTED_MAX,
    REPEAT,
    Headline,
    adjusted_text,
    cause_text,
    cells_of,
    comparisons_of,
    figure_record,
    goodness,
    metric_words,
    ratio_words,
    without_verdict,
)
from volbench.results.report.rows.verdict.comparisons import comparison_rows
from volbench.results.report.rows.verdict.subject import Subject, rows_of, subject_at, subject_of
from volbench.results.report.wording import joined


def headline_of_many(
    pairs: Sequence[PairSummary],
    cells: Sequence[CellRow],
    volumes: Sequence[str],
    findings: Sequence[FindingRow],
    about: Sequence[str],
) -> Headline:
    """Return the headline of several candidates."""
    baseline = pairs[0].baseline
    rows = [row for pair in pairs for row in comparison_rows(comparisons_of(pair))]
    subject = _decided_subject(rows, about)
    if subject is None:
        return without_verdict(counted(len(pairs), "volume"), volumes, rows, cells)
    of_subject = sorted(rows_of(rows, subject), key=goodness, reverse=True)
    best, worst = of_subject[0], of_subject[-1]
    certain = certain_among(pairs)
    is_baseline_best = goodness(best) < 0
    named, reason = of_subject, worst if goodness(worst) < 0 else best
    if len(of_subject) > LISTED_MAX:
        named, reason = ([best, worst], worst) if is_baseline_best else ([best], best)
    figures = joined(
        [
            f"{row.candidate if len(named) > 1 or is_baseline_best else ''} {ratio_words(row)}".strip()
            for row in named
        ]
    )
    is_unnamed = worst not in named and goodness(worst) < 0
    worst_text = f" (worst: {worst.candidate} {ratio_words(worst)})" if is_unnamed else ""
    text = (
        f"{_best_text(best, of_subject, baseline, len(volumes), certain)} by {metric_words(best)}, {figures} than"
        f" {baseline}{worst_text}{adjusted_text([*named, *([worst] if is_unnamed else [])])}"
        f"{cause_text(reason, cells, findings)}"
    )
    if all(pair.verdict == "inconclusive" for pair in pairs):
        text = f"{upper_first(cells_of(of_subject))}, not decided: {text}; {REPEAT}"
    else:
        text += f"; {_decision_of_many(pairs, of_subject, certain)}"
    return Headline(text=text, figure=figure_record(subject))


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
    if goodness(best) < 0:
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
