"""The verdict in a sentence that a DBA can act on, and no stronger than the statistics behind it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from volbench.analysis.comparison_summary import PairSummary, overall
from volbench.records.metrics import PRIMARY_METRICS
from volbench.records.report import CellRow, ComparisonRow, FindingRow, Summary
from volbench.report.causes import lead
from volbench.report.compared import comparison_rows
from volbench.report.wording import comparison_text, label, number, quantity

SHOWN_MAX = 4
"""More comparisons than this in one sentence are not read; the rest are counted."""


def summarise_run(
    pairs: Sequence[PairSummary],
    cells: Sequence[CellRow],
    volumes: Sequence[str],
    caveats: tuple[str, ...],
    *,
    said: Sequence[str] = (),
    time_difference: tuple[str, ...] = (),
    findings: Sequence[FindingRow] = (),
) -> Summary:
    """The summary of all candidates against the first volume.

    Of a sweep on one volume it is what `said` says first; of one volume, its first cause and its medians.
    """
    compared = ranked_sentence(pairs) if len(pairs) > 1 else " ".join(map(pair_sentence, pairs))
    return Summary(
        verdict=overall(pairs) if pairs or len(volumes) < 2 else "inconclusive",
        sentence=compared or next(iter(said), "") or _without_pairs(cells, volumes, lead(findings)),
        low_power=any("low power" in caveat for caveat in caveats),
        caveats=caveats,
        time_difference=time_difference,
    )


def ranked_sentence(pairs: Sequence[PairSummary]) -> str:
    """Several candidates against the baseline in a few words; the ranking has the figures."""
    baseline = pairs[0].baseline
    verdicts = {
        "better": [pair.candidate for pair in pairs if pair.verdict == "candidate_better"],
        "worse": [pair.candidate for pair in pairs if pair.verdict == "candidate_worse"],
        "equivalent": [pair.candidate for pair in pairs if pair.verdict == "equivalent"],
        "better in some metrics and worse in others": [pair.candidate for pair in pairs if pair.verdict == "mixed"],
        "not decided yet": [pair.candidate for pair in pairs if pair.verdict == "inconclusive"],
    }
    parts = [f"{verdict}: {', '.join(names)}" for verdict, names in verdicts.items() if names]
    return f"{len(pairs)} volumes against {baseline}: {'; '.join(parts)}."


def pair_sentence(pair: PairSummary) -> str:
    """One candidate against the baseline."""
    rows = {
        name: comparison_rows(getattr(pair, name)) for name in ("better", "worse", "equivalent", "inconclusive")
    }
    a, b = pair.baseline, pair.candidate
    decided = rows["better"] + rows["worse"]
    if pair.verdict == "mixed":
        text = (
            f"Volumes {a} and {b} each win something: {b} is better in {_listed(rows['better'])}; "
            f"it is worse in {_listed(rows['worse'])}"
        )
    elif pair.winner is not None:
        against = f", {b} against {a}" if pair.winner == a else ""
        loser = a if pair.winner == b else b
        text = f"Volume {pair.winner} is better for MySQL than {loser}{against}: {_listed(decided)}"
        text += _also_open(rows)
    elif pair.verdict == "equivalent":
        text = f"Volumes {a} and {b} are equivalent for MySQL, within {_margin(rows['equivalent'])}: "
        text += _listed(rows["equivalent"])
    else:
        text = f"No verdict on {b} against {a} yet: {_listed(rows['inconclusive'])}"
        if rows["equivalent"]:
            text += f"; equivalent: {_names(rows['equivalent'])}"
        text += _what_would_decide(pair, rows["inconclusive"])
    return f"{text}; {_valid_cells([row for group in rows.values() for row in group])}."


def _listed(rows: Sequence[ComparisonRow]) -> str:
    """The first metric of each step before the second of any, at most SHOWN_MAX."""
    rank: dict[str, int] = {}
    ranked = []
    for row in rows:
        rank[row.step] = rank.get(row.step, -1) + 1
        ranked.append((rank[row.step], row))
    shown = [row for _, row in sorted(ranked, key=lambda pair: pair[0])][:SHOWN_MAX]
    steps = len({row.step for row in rows}) > 1
    text = ", ".join(comparison_text(row, steps=steps) for row in shown)
    return text + (f" and {len(rows) - len(shown)} more" if len(rows) > len(shown) else "")


def _also_open(rows: dict[str, tuple[ComparisonRow, ...]]) -> str:
    text = f"; equivalent: {_names(rows['equivalent'])}" if rows["equivalent"] else ""
    return text + (f"; open: {_names(rows['inconclusive'])}" if rows["inconclusive"] else "")


def _names(rows: Iterable[ComparisonRow]) -> str:
    return ", ".join(dict.fromkeys(label(row.metric) for row in rows))


def _margin(rows: Sequence[ComparisonRow]) -> str:
    return f"{100 * rows[0].margin:g} %"


def _what_would_decide(pair: PairSummary, rows: Sequence[ComparisonRow]) -> str:
    if pair.runs_needed is not None:
        return f"; about {pair.runs_needed} cells a volume would decide"
    reasons = list(dict.fromkeys(row.reason for row in rows if row.reason))
    return f"; {reasons[0]}" if len(reasons) == 1 else ""


def _valid_cells(rows: Sequence[ComparisonRow]) -> str:
    counts = sorted({row.runs for row in rows})
    if len(counts) == 1:
        return f"{counts[0][0]} against {counts[0][1]} valid cells"
    return (
        f"{min(n for n, _ in counts)}..{max(n for n, _ in counts)} against "
        f"{min(m for _, m in counts)}..{max(m for _, m in counts)} valid cells"
    )


def _without_pairs(cells: Sequence[CellRow], volumes: Sequence[str], cause: str) -> str:
    """Nothing was compared: one volume, whose cause in words comes first, or no metric that both sides have."""
    if len(volumes) > 1:
        return "No verdict: no cell gave a metric that can be compared."
    values: dict[tuple[str, str, str], list[float]] = {}
    for cell in cells:
        for name in PRIMARY_METRICS.get(cell.kind, ()):
            if cell.valid and name in cell.metrics:
                metric = cell.metrics[name]
                values.setdefault((cell.step, name, metric.unit), []).append(metric.value)
    shown = [
        f"{label(name)} {number(median(found)) if unit == '1/s' else quantity(median(found), unit)} ({step})"
        for (step, name, unit), found in list(values.items())[:SHOWN_MAX]
    ]
    about = ", ".join(shown) or "no valid cell"
    volume = volumes[0] if volumes else "none"
    return (
        f"{cause} One volume, {volume}; medians: {about}." if cause else f"One volume, {volume}; medians: {about}."
    )
