"""The verdict in one sentence for a DBA, no stronger than the statistics behind it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from volbench.core.base.text import number, percent, quantity
from volbench.core.records.metrics import PRIMARY_METRICS
from volbench.core.records.report import CellRow, ComparisonRow, FindingRow, HeadlineFigure, Summary
from volbench.results.compare.comparison_summary import PairSummary, overall
from volbench.results.report.rows.reproduce import decided_names
from volbench.results.report.rows.verdict.clauses import cells_of
from volbench.results.report.rows.verdict.comparisons import comparison_rows
from volbench.results.report.rows.verdict.lead import lead
from volbench.results.report.rows.verdict.order import leading_first
from volbench.results.report.wording import ADJUSTED, comparison_text, is_turned, joined, label, load_text

SHOWN_MAX = 4
"""More comparisons than this in one sentence are not read; the rest are counted."""
MANY = 4
"""Candidates from which on a headline counts them by its own figure: so the sentence says that it is of all."""


@dataclass(frozen=True, kw_only=True)
class Accounts:
    """Where the time goes and what a millisecond of the volume costs, in sentences.

    Args:
        figure: what the headline's figure is of.
        box: sentences on the headline's step, which stand below it.
        time_difference: where the extra time of the slower volume goes, of all steps.
        response: what a millisecond of the volume costs, of all steps.
    """

    figure: HeadlineFigure | None = None
    box: tuple[str, ...] = ()
    time_difference: tuple[str, ...] = ()
    response: tuple[str, ...] = ()


def summarise_run(
    pairs: Sequence[PairSummary],
    cells: Sequence[CellRow],
    volumes: Sequence[str],
    caveats: tuple[str, ...],
    *,
    low_power: bool,
    conclusions: Sequence[str] = (),
    accounts: Accounts,
    findings: Sequence[FindingRow] = (),
) -> Summary:
    """Return the summary of all candidates against the first volume.

    Args:
        pairs: each candidate with the baseline.
        cells: of the run.
        volumes: names, the baseline first.
        caveats: sentences.
        low_power: whether the run has too few cells for a verdict on small differences.
        conclusions: of a sweep, or of several servers on a volume; the first is the summary of a run without
            candidates.
        accounts: in sentences, and what the headline's figure is of: the sentence begins with it.
        findings: of the run; the first is the lead of a run with one volume.
    """
    compared = (
        ranked_sentence(pairs)
        if len(pairs) > 1
        else " ".join(pair_sentence(pair, accounts.figure) for pair in pairs)
    )
    return Summary(
        verdict=overall(pairs) if pairs or len(volumes) < 2 else "inconclusive",
        sentence=compared
        or next(iter(conclusions), "")
        or without_pairs(cells, volumes, lead(leading_first(findings)), accounts.figure),
        box=accounts.box,
        underpowered=low_power,
        caveats=caveats,
        time_difference=accounts.time_difference,
        response=accounts.response,
    )


def ranked_sentence(pairs: Sequence[PairSummary]) -> str:
    """Several candidates against the baseline in a few words; the ranking has the figures."""
    baseline = pairs[0].baseline
    rows = [row for pair in pairs for row in comparison_rows((*pair.inconclusive, *pair.alone)) if row.ratio]
    if all(pair.verdict == "inconclusive" for pair in pairs):
        if not rows:
            return f"No difference from {baseline} is decided."
        lacking = [pair.candidate for pair in pairs if pair.candidate not in {row.candidate for row in rows}]
        without = f"; no valid figure of {joined(lacking)}" if lacking else ""
        return f"No difference from {baseline} is decided: {cells_of(rows)}{without}."
    verdicts = {
        "better": [pair.candidate for pair in pairs if pair.verdict == "candidate_better" and not _opposed(pair)],
        "better in some metrics, and in others perhaps worse": [
            pair.candidate for pair in pairs if pair.verdict == "candidate_better" and _opposed(pair)
        ],
        "worse": [pair.candidate for pair in pairs if pair.verdict == "candidate_worse" and not _opposed(pair)],
        "worse in some metrics, and in others perhaps better": [
            pair.candidate for pair in pairs if pair.verdict == "candidate_worse" and _opposed(pair)
        ],
        "equivalent": [pair.candidate for pair in pairs if pair.verdict == "equivalent"],
        "better in some metrics and worse in others": [pair.candidate for pair in pairs if pair.verdict == "mixed"],
        "not decided yet": [pair.candidate for pair in pairs if pair.verdict == "inconclusive"],
    }
    groups = [
        f"{joined(names)} {'is' if len(names) == 1 else 'are'} {verdict}"
        for verdict, names in verdicts.items()
        if names
    ]
    by = ", by all steps and metrics:" if len(pairs) >= MANY else ","
    return f"Against {baseline}{by} {'; '.join(groups)}."


def _opposed(pair: PairSummary) -> bool:
    """Return whether a step alone says the opposite, which does not hold over all steps together."""
    opposite = "worse" if pair.verdict == "candidate_better" else "better"
    return any(row.verdict == opposite for row in pair.alone)


def pair_sentence(pair: PairSummary, figure: HeadlineFigure | None = None) -> str:
    """Return the sentence on one candidate against the baseline; each list begins with the headline's figure."""
    rows = {
        name: _headline_first(comparison_rows(getattr(pair, name)), figure)
        for name in ("better", "worse", "equivalent", "inconclusive", "alone")
    }
    steps = len({row.step for group in rows.values() for row in group}) > 1
    baseline, candidate = pair.baseline, pair.candidate
    decided = rows["better"] + rows["worse"]
    if pair.verdict == "mixed":
        text = (
            f"Volume {candidate} is better than {baseline} in {_listed(rows['better'], steps=steps)}, and worse in "
            f"{_listed(rows['worse'], steps=steps)}"
        )
    elif pair.winner is not None:
        verdict_text = "better" if pair.winner == candidate else "worse"
        text = f"Volume {candidate} is {verdict_text} for MySQL than {baseline}: {_listed(decided, steps=steps)}"
        text += _also_open(rows, steps=steps)
    elif pair.verdict == "equivalent":
        text = (
            f"Volumes {baseline} and {candidate} are equivalent for MySQL, within {_margin(rows['equivalent'])}: "
        )
        text += _listed(rows["equivalent"], steps=steps)
    else:
        measured = [row for row in rows["inconclusive"] if row.ratio is not None]
        clauses = [_listed(measured, steps=steps)] if measured else []
        clauses += [f"equivalent: {_names(rows['equivalent'], steps=steps)}"] if rows["equivalent"] else []
        clauses += [text] if (text := _what_would_decide(pair, rows["inconclusive"])) else []
        clauses = clauses or [f"{pair.families} steps do not agree"]
        text = f"No verdict on {candidate} against {baseline} yet: {'; '.join(clauses)}"
    if rows["alone"]:
        listed = _listed(rows["alone"], steps=steps)
        text += f"; not certain, since one of {pair.families} steps may differ by chance: {listed}"
    every = [row for group in rows.values() for row in group]
    return f"{text}; {_compared_cells(every)}." if any(max(row.runs) for row in every) else f"{text}."


def _headline_first(rows: Sequence[ComparisonRow], figure: HeadlineFigure | None) -> tuple[ComparisonRow, ...]:
    about = None if figure is None else (figure.step, figure.load, figure.metric)
    return tuple(sorted(rows, key=lambda row: (row.step, load_text(row.parameters), row.metric) != about))


def _listed(rows: Sequence[ComparisonRow], *, steps: bool) -> str:
    """Return at most SHOWN_MAX comparisons: the first metric of each step before the second of any."""
    rank: dict[str, int] = {}
    ranked = []
    for row in rows:
        rank[row.step] = rank.get(row.step, -1) + 1
        ranked.append((rank[row.step], row))
    selected = [row for _, row in sorted(ranked, key=lambda pair: pair[0])][:SHOWN_MAX]
    text = ", ".join(comparison_text(row, steps=steps) for row in selected)
    return text + (f" and {len(rows) - len(selected)} more" if len(rows) > len(selected) else "")


def _also_open(rows: dict[str, tuple[ComparisonRow, ...]], *, steps: bool) -> str:
    text = f"; equivalent: {_names(rows['equivalent'], steps=steps)}" if rows["equivalent"] else ""
    return text + (f"; open: {_names(rows['inconclusive'], steps=steps)}" if rows["inconclusive"] else "")


def _names(rows: Iterable[ComparisonRow], *, steps: bool) -> str:
    """Return the metrics, with their steps where there are several."""
    of_step: dict[str, list[str]] = {}
    for row in rows:
        of_step.setdefault(row.step if steps else "", []).append(label(row.metric))
    listed = [(step, ", ".join(dict.fromkeys(names))) for step, names in of_step.items()]
    return ", ".join(f"{names} ({step})" if step else names for step, names in listed)


def _margin(rows: Sequence[ComparisonRow]) -> str:
    return f"{percent(rows[0].margin)}"


def _what_would_decide(pair: PairSummary, rows: Sequence[ComparisonRow]) -> str:
    if pair.runs_needed is not None:
        if all(min(row.runs) < 2 for row in rows):
            return f"at least {pair.runs_needed} cells a volume are needed"
        return f"about {pair.runs_needed} cells a volume would decide{decided_names(rows).removeprefix(' decide')}"
    reasons = list(dict.fromkeys(row.reason for row in rows if row.reason))
    return reasons[0] if len(reasons) == 1 else ""


def _compared_cells(rows: Sequence[ComparisonRow]) -> str:
    """Return how many cells were compared, and how many of them are disturbed and used within their bounds."""
    disturbed = max((sum(row.within_bounds) for row in rows), default=0)
    cells = f"cells, {disturbed} of them disturbed" if disturbed else "valid cells"
    cells += ADJUSTED if any(map(is_turned, rows)) else ""
    counts = sorted({row.runs for row in rows})
    if len(counts) == 1:
        return f"{counts[0][0]} against {counts[0][1]} {cells}"
    return f"{_span([n for n, _ in counts])} against {_span([m for _, m in counts])} {cells}"


def _span(counts: Sequence[int]) -> str:
    """Return `4 to 5`, or `5` where all counts are equal."""
    return f"{min(counts)} to {max(counts)}" if min(counts) < max(counts) else f"{counts[0]}"


def without_pairs(
    cells: Sequence[CellRow], volumes: Sequence[str], cause: str, figure: HeadlineFigure | None = None
) -> str:
    """Return the sentence for a run without a comparison: of one volume, its first cause and its medians.

    Medians of the headline's step come first.
    """
    if len(volumes) > 1:
        return "No verdict: no cell gave a metric that can be compared."
    values: dict[tuple[str, str, str], list[float]] = {}
    about = "" if figure is None else figure.step
    for cell in sorted(cells, key=lambda cell: cell.step != about):
        for name in PRIMARY_METRICS.get(cell.kind, ()):
            if cell.valid and name in cell.metrics:
                metric = cell.metrics[name]
                values.setdefault((cell.step, name, metric.unit), []).append(metric.value)
    medians = [
        f"{label(name)} {number(median(measured)) if unit == '1/s' else quantity(median(measured), unit)} ({step})"
        for (step, name, unit), measured in list(values.items())[:SHOWN_MAX]
    ]
    text = ", ".join(medians) or "no valid cell"
    volume_text = f"One volume, {volumes[0] if volumes else 'none'}; medians: {text}."
    return f"{cause} {volume_text}" if cause else volume_text
