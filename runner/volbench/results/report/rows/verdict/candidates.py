"""The headline of several candidates: the best one, its figure, and what is decided of all."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from volbench.core.base.text import counted, upper_first
from volbench.core.records.report import CellRow, ComparisonRow, FindingRow
from volbench.results.compare.comparison_summary import PairSummary, certain_among
from volbench.results.report.rows.verdict.clauses import (
    LISTED_MAX,
    REPEAT,
    Headline,
    cause_between,
    cells_of,
    comparisons_of,
    figure_record,
    goodness,
    metric_words,
    ratio_words,
    size_words,
    without_verdict,
)
from volbench.results.report.rows.verdict.comparisons import comparison_rows
from volbench.results.report.rows.verdict.subject import FIO, Subject, largest_of, rows_of, subject_at, subject_of
from volbench.results.report.wording import joined

FIGURES_MAX = 2
"""Candidates whose figures a headline has where the first volume is best."""


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
    certain = certain_among(pairs)
    named = _named(of_subject)
    best_text = _best_text(of_subject[0], of_subject, baseline, len(volumes), certain)
    reason = named[-1]
    cause = cause_between(reason, cells, findings)
    headline = Headline(
        size=f"{best_text}: {metric_words(reason)} {_sizes(named, baseline)}",
        cause=cause.clause,
        notes=(*cause.notes, _others_text(of_subject, named, baseline)),
        figure=figure_record(subject),
        praised=of_subject[0].candidate if goodness(of_subject[0]) > 0 else baseline,
    )
    if all(pair.verdict == "inconclusive" for pair in pairs):
        size = f"{upper_first(cells_of(of_subject))}, not decided: {headline.size}"
        return replace(headline, size=size, next_step=REPEAT)
    return _decided(headline, pairs, of_subject, certain)


def _named(rows: Sequence[ComparisonRow]) -> Sequence[ComparisonRow]:
    """Return whose figures a headline has: the best one's; where that is the baseline, of two both, else the next.

    The cause is that of the last one.
    """
    if goodness(rows[0]) < 0 and len(rows) <= FIGURES_MAX:
        return rows
    return rows[:1]


def _sizes(rows: Sequence[ComparisonRow], baseline: str) -> str:
    """Return `4.23 times as high as on gp3 (...)`; where the baseline is best, on which volumes: the best first."""
    if goodness(rows[0]) >= 0:
        return size_words(rows[0], f"on {baseline}")
    return joined([f"{size_words(row)} on {row.candidate}" for row in rows])


def _others_text(rows: Sequence[ComparisonRow], named: Sequence[ComparisonRow], baseline: str) -> str:
    """Return the figures of the candidates that a headline does not name; of many, that of one that is worse."""
    unnamed = [row for row in rows if row not in named]
    if not unnamed:
        return ""
    if len(rows) > LISTED_MAX:
        worst = rows[-1]
        if goodness(worst) >= 0:
            return ""
        return f"by the same figure, {worst.candidate} is the last: {size_words(worst, f'on {baseline}')}"
    texts = [f"{row.candidate} {size_words(row, f'on {baseline}')}" for row in unnamed]
    return f"by the same figure: {joined(texts)}"


def _decided(
    headline: Headline, pairs: Sequence[PairSummary], rows: Sequence[ComparisonRow], certain: Collection[str]
) -> Headline:
    """Return the headline with what is decided of all candidates, and what speaks against the best one."""
    doubtful = _doubtful(pairs, certain)
    of_one = ""
    if doubtful:
        of_one = (
            f"the interval of {_few(doubtful)} is of that pair alone: of {len(pairs)} such tests one may err, and"
            " among all it is not certain"
        )
    return replace(
        headline,
        next_step=_objection(pairs, rows[0]),
        decided="" if len(pairs) > LISTED_MAX else _decision_of_few(pairs),
        counts=_counts(rows) if len(pairs) > LISTED_MAX else "",
        notes=(*headline.notes, of_one),
    )


def _doubtful(pairs: Sequence[PairSummary], certain: Collection[str]) -> list[str]:
    """Return the candidates that their own test names and that chance may have; none where all are worse."""
    if {pair.verdict for pair in pairs} == {"candidate_worse"}:
        return []
    return [pair.candidate for pair in pairs if pair.winner is not None and pair.candidate not in certain]


def _objection(pairs: Sequence[PairSummary], best: ComparisonRow) -> str:
    """Return by which metric the best candidate is worse than the baseline, most of several; empty: by none.

    A metric of the server comes before those of fio.
    """
    of_best = next(pair for pair in pairs if pair.candidate == best.candidate)
    worse = [row for row in comparison_rows(of_best.worse) if row.ratio]
    if goodness(best) < 0 or not worse:
        return ""
    row = largest_of([row for row in worse if not row.metric.startswith(FIO)] or worse)
    return f"but worse by {metric_words(row)}, {ratio_words(row)}"


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


def _decision_of_few(pairs: Sequence[PairSummary]) -> str:
    """Return what is decided of each candidate: `against gp2: both candidates better`."""
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
    everyone = f"{'both' if len(pairs) == 2 else f'all {len(pairs)}'} candidates"
    texts = (
        f"{everyone if len(names) == len(pairs) else _few(names)} {verdict_text}"
        for verdict_text, names in groups.items()
        if names
    )
    return f"against {pairs[0].baseline}: {', '.join(texts)}"


def _counts(rows: Sequence[ComparisonRow]) -> str:
    """Return how many candidates are what by the headline's figure: by another one it may be others."""
    return f"by this figure, of {counted(len(rows), 'candidate')} {_numbers_of(rows)}"


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
