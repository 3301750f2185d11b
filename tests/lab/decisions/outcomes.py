"""The table of decisions against what was measured afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from volbench.core.base.text import counted

HEADER = """# Decisions of `recommend` that nobody had measured
`python -m decisions` in tests/lab writes this table. A seed draws a load of MySQL, an emulated io2 that it is
measured on for 20 s, the sizes on offer (up to 6,400 operations a second; neighbours 1.25, 1.6 or 2 times apart)
and six objectives between 0.3 and 4 times the measured p95. Each decision was on the disk before any of its volumes
was made; then the load ran on the recommended volume and on the likeliest cheaper one. Volumes and loads are this
project's own construction: no cloud volume is among them."""
COLUMNS = (
    "load",
    "measured on",
    "p95, ms",
    "objective",
    "recommended",
    "p95 there",
    "keeps",
    "likeliest cheaper",
    "stated",
    "p95 there",
    "breaks",
)
CALLED_CHEAPEST = "cheapest"
DISTURBED = "disturbed"
"""Of a load without a valid cell on its first volume, by which nothing is decided."""
Row = Mapping[str, Any]


def table(decisions: Sequence[Row], outcomes: Sequence[Row]) -> Iterator[str]:
    """Yield what the table is, how many decisions came true, and a row for each."""
    yield from HEADER.splitlines()
    figures = {line["number"]: line for line in outcomes}
    rows = [line for line in decisions if line["number"] in figures and line["answer"] != DISTURBED]
    disturbed = sum(line["answer"] == DISTURBED for line in decisions)
    loads = [line["loadavg"] for line in outcomes if line["loadavg"] is not None]
    if loads:
        yield f"The machine's load average was {min(loads):.0f} to {max(loads):.0f} when these runs began."
    yield ""
    yield from summary("all", rows, figures)
    yield from summary("valid cells alone", rows, figures, valid_only=True)
    yield from controls(rows, figures)
    yield f"- {counted(disturbed, 'load')} had no valid cell on the first volume, and decided nothing."
    yield ""
    yield f"| {' | '.join(COLUMNS)} |"
    yield "|---|---|--:|--:|---|--:|---|---|--:|--:|---|"
    for row in rows:
        yield line_of(row, figures[row["number"]]["measured"])


def summary(
    name: str, rows: Sequence[Row], figures: Mapping[int, Row], *, valid_only: bool = False
) -> Iterator[str]:
    """Yield how many recommended volumes kept their objective, and how many cheaper ones broke it."""
    chosen = list(measured(rows, figures, "chosen", valid_only=valid_only))
    cheaper = list(measured(rows, figures, "cheaper", valid_only=valid_only))
    called = [(row, keeps) for row, keeps in cheaper if row["answer"] == CALLED_CHEAPEST]
    refused = sum(row["answer"] == "refused" for row in rows)
    expected = sum(1 - row["cheaper"]["keeps"] for row, _ in cheaper)
    yield (
        f"- {name}: {len(rows)} decisions, {refused} refused. The recommended volume kept the objective in"
        f" {share(sum(keeps for _, keeps in chosen), len(chosen))}. Where it was called the cheapest, the likeliest"
        f" cheaper one broke it in {share(sum(not keeps for _, keeps in called), len(called))}; of all cheaper ones"
        f" it did in {share(sum(not keeps for _, keeps in cheaper), len(cheaper))}, and {expected:.1f} were"
        " expected to."
    )


def measured(
    rows: Sequence[Row], figures: Mapping[int, Row], role: str, *, valid_only: bool
) -> Iterator[tuple[Row, bool]]:
    """Yield each decision whose volume of a role was measured, and whether that kept the objective."""
    for row in rows:
        figure = figure_of(row, figures[row["number"]]["measured"], role)
        if figure is not None and (figure["valid"] or not valid_only):
            yield row, figure["p95_ms"] <= row["objective_ms"]


def figure_of(row: Row, figures: Mapping[str, Row], role: str) -> Row | None:
    """Return what the volume of a role in a decision did; None where there is none or no p95."""
    figure = figures.get(row[role]["volume"]) if row.get(role) else None
    return figure if figure is not None and figure["p95_ms"] is not None else None


def controls(rows: Sequence[Row], figures: Mapping[int, Row]) -> Iterator[str]:
    """Yield how far p95 of each source was off in its second run."""
    first = {row["number"]: row["source_p95_ms"] for row in rows}
    again = {number: line["measured"].get("control", {}).get("p95_ms") for number, line in figures.items()}
    ratios = [again[number] / first[number] for number in first if first[number] and again.get(number)]
    if ratios:
        yield (
            f"- the source's volume again: p95 {min(ratios):.2f} to {max(ratios):.2f} times that of its first run"
            f" (median {median(ratios):.2f}, {len(ratios)} loads)."
        )


def share(count: int, total: int) -> str:
    """Return a share as a count and a percentage."""
    return f"{count} of {total} ({count / total:.0%})" if total else "none of none"


def line_of(row: Row, figures: Mapping[str, Row]) -> str:
    """Return one decision as a row."""
    test, threads, *_ = (setting.rpartition("=")[2] for setting in row["settings"])
    begin = f"| {row['number']}: {test}, {threads} | {short(row['source'])} | {ms(row['source_p95_ms'])} |"
    if row.get("chosen") is None:
        return f"{begin} {ms(row.get('objective_ms'))} | refused | | | | | | |"
    cells = [ms(row["objective_ms"])]
    for role, claim in (("chosen", "keeps"), ("cheaper", "breaks")):
        figure = figure_of(row, figures, role)
        cells += [short(row[role]["volume"]) if row.get(role) else "none"]
        cells += [f"{row[role]['keeps']:.0%}" if row.get(role) else ""] if role == "cheaper" else []
        cells += verdict(figure, row["objective_ms"], claim, strict=row["answer"] == CALLED_CHEAPEST)
    return f"{begin} {' | '.join(cells)} |"


def verdict(figure: Row | None, objective_ms: float, claim: str, *, strict: bool) -> list[str]:
    """Return p95 and whether the volume did as it was said to; bold where that is wrong."""
    if figure is None:
        return ["", ""]
    keeps = figure["p95_ms"] <= objective_ms
    right = keeps if claim == "keeps" else not keeps
    text = "yes" if right else "**no**" if claim == "keeps" or strict else "no"
    return [ms(figure["p95_ms"]), text if figure["valid"] else f"{text}, not valid"]


def short(spec: str) -> str:
    """Return a volume as its type and operations."""
    return f"io2, {spec.rpartition('iops=')[2]}"


def ms(value: float | None) -> str:
    """Return a time of three digits."""
    return "" if value is None else f"{value:.3g}"
