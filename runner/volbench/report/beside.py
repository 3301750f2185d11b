"""Figures that mislead alone, side by side: one large file beside small files, the page cache beside the volume."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from volbench.records.report import CellRow, ComparisonRow, Report
from volbench.report.wording import TIMES, label, number, quantity

LARGE, SMALL, TABLES = "one large file", "small files", "MySQL's tables"
_GROUPS: Mapping[str, tuple[str, str]] = {
    "sequential": (LARGE, "sequential_mib_per_s"),
    "cold_read": (LARGE, "cold_read_mib_per_s"),
    "small_files": (SMALL, "files_per_s"),
    "ddl": (TABLES, "ddl_per_s"),
}
"""Kind of step -> what it handles, and the metric that says how fast."""
_COLD_AND_WARM: tuple[tuple[str, str, str, str], ...] = (
    ("cold_read", "", "cold_read_mib_per_s", "warm_read_mib_per_s"),
    ("sequential", "/read", "sequential_mib_per_s", "warm_read_mib_per_s"),
    ("small_files", "/read", "files_mib_per_s", "warm_read_mib_per_s"),
)
"""Kind of step, what its two rows' names go on with, and the metrics of the cold and of the warm read."""


@dataclass(frozen=True, kw_only=True)
class BesideRow:
    """One figure on all volumes.

    `longer` and `interval` say how many times as long a candidate takes as the baseline, by name; below 1 it is
    faster. `values` are medians of valid cells.
    """

    group: str
    step: str
    metric: str
    unit: str
    values: Mapping[str, float]
    longer: Mapping[str, float]
    interval: Mapping[str, tuple[float, float]]


@dataclass(frozen=True, kw_only=True)
class ReadPairs:
    """Cold and warm reads of one step, and what the pairs of one candidate with the baseline would say.

    `pairs` are how many times as fast the baseline looks: cold against cold, warm against warm, and one volume's
    warm read against the other's cold one, which compares memory with storage.
    """

    step: str
    baseline: str
    candidate: str
    unit: str
    cold: tuple[float, float]
    warm: tuple[float, float]

    @property
    def pairs(self) -> tuple[tuple[str, float], ...]:
        """In the order in which they are shown; the unfair one is that which makes the faster volume look best."""
        unfair = (f"unfair: {self.baseline} warm against {self.candidate} cold", self.warm[0] / self.cold[1])
        if self.cold[0] < self.cold[1]:
            unfair = (f"unfair: {self.baseline} cold against {self.candidate} warm", self.cold[0] / self.warm[1])
        return (
            ("cold against cold", self.cold[0] / self.cold[1]),
            ("warm against warm", self.warm[0] / self.warm[1]),
            unfair,
        )


def beside_rows(report: Report) -> tuple[BesideRow, ...]:
    """Large files beside small ones; nothing unless the run has both."""
    kinds = {cell.step: cell.kind for cell in report.cells}
    found: dict[str, list[ComparisonRow]] = {}
    for row in report.comparisons:
        group = _GROUPS.get(kinds.get(row.step, ""))
        if group is not None and row.metric == group[1]:
            found.setdefault(row.step, []).append(row)
    rows = [_row(_GROUPS[kinds[step]][0], step, of) for step, of in found.items()]
    groups = {row.group for row in rows}
    if LARGE not in groups or len(groups) < 2:
        return ()
    return tuple(sorted(rows, key=lambda row: (LARGE, SMALL, TABLES).index(row.group)))


def beside_sentences(rows: Sequence[BesideRow]) -> tuple[str, ...]:
    """What the table says of each candidate, in a sentence."""
    candidates = list(dict.fromkeys(name for row in rows for name in row.longer))
    return tuple(_sentence(name, rows) for name in candidates)


def read_pairs(report: Report) -> tuple[ReadPairs, ...]:
    """Steps with cold and warm reads on the baseline and on another volume, each candidate by itself."""
    names = [volume.name for volume in report.volumes]
    return tuple(
        pairs
        for kind, ending, cold, warm in _COLD_AND_WARM
        for step in dict.fromkeys(cell.step for cell in report.cells if cell.kind == kind and "/" not in cell.step)
        for candidate in names[1:]
        if (pairs := _pairs(report.cells, step, ending, (cold, warm), (names[0], candidate))) is not None
    )


def _row(group: str, step: str, of: Iterable[ComparisonRow]) -> BesideRow:
    rows = list(of)
    values = {row.baseline: row.baseline_value for row in rows} | {
        row.candidate: row.candidate_value for row in rows
    }
    return BesideRow(
        group=group,
        step=step,
        metric=rows[0].metric,
        unit=rows[0].unit,
        values={name: value for name, value in values.items() if value is not None},
        longer={row.candidate: 1 / row.ratio for row in rows if row.ratio},
        interval={row.candidate: (1 / row.ci[1], 1 / row.ci[0]) for row in rows if row.ci and min(row.ci) > 0},
    )


def _sentence(name: str, rows: Sequence[BesideRow]) -> str:
    parts = []
    for group in (LARGE, SMALL, TABLES):
        of = [row.longer[name] for row in rows if row.group == group and name in row.longer]
        if of:
            spread = number(min(of)) if len(of) == 1 else f"{number(min(of))} to {number(max(of))}"
            parts.append(f"for {group} {spread} times as long")
    return f"{name} takes, against the baseline, {', '.join(parts)}. None of these says anything of the others."


def _pairs(
    cells: Sequence[CellRow], step: str, ending: str, metrics: tuple[str, str], volumes: tuple[str, str]
) -> ReadPairs | None:
    names = (f"{step}{ending}_cold", f"{step}{ending}_warm") if ending else (step, step)
    found: list[float] = []
    unit = ""
    for name, metric in zip(names, metrics, strict=True):
        for volume in volumes:
            known = [
                cell.metrics[metric]
                for cell in cells
                if cell.step == name and cell.volume == volume and cell.valid and metric in cell.metrics
            ]
            if not known or (middle := median(value.value for value in known)) <= 0:
                return None
            unit = known[0].unit
            found.append(middle)
    return ReadPairs(
        step=step,
        baseline=volumes[0],
        candidate=volumes[1],
        unit=unit,
        cold=(found[0], found[1]),
        warm=(found[2], found[3]),
    )


def markdown_lines(report: Report, escaped: Callable[[str], str]) -> Iterator[str]:
    """Both tables as Markdown, names made harmless by `escaped`. Nothing where there is nothing."""
    rows = beside_rows(report)
    names = [volume.name for volume in report.volumes]
    shown = [escaped(name) for name in names]
    if rows:
        yield ""
        yield "**Large files beside small files**"
        yield ""
        yield from (f"{escaped(text)}  " for text in beside_sentences(rows))
        yield ""
        yield f"| what | step | metric | {' | '.join(shown)} | {' | '.join(f'{n} takes' for n in shown[1:])} |"
        yield f"|---|---|---|{'--:|' * (2 * len(names) - 1)}"
        for row in rows:
            values = " | ".join(quantity(row.values.get(name), row.unit) for name in names)
            longer = " | ".join(times_text(row, name) for name in names[1:])
            yield f"| {row.group} | {escaped(row.step)} | {label(row.metric)} | {values} | {longer} |"
    for pairs in read_pairs(report):
        yield ""
        yield f"**Cold and warm reads: {escaped(pairs.step)}** ({pairs.unit})"
        yield ""
        yield f"| | {escaped(pairs.baseline)} | {escaped(pairs.candidate)} |"
        yield "|---|--:|--:|"
        yield f"| cold | {number(pairs.cold[0])} | {number(pairs.cold[1])} |"
        yield f"| warm (page cache: memory) | {number(pairs.warm[0])} | {number(pairs.warm[1])} |"
        yield ""
        yield f"How many times as fast {escaped(pairs.baseline)} looks:"
        yield ""
        yield from (f"- {escaped(text)}: {number(ratio)}" for text, ratio in pairs.pairs)
        yield ""


def times_text(row: BesideRow, name: str) -> str:
    """`× 6.54 [6.3, 6.8]`: how many times as long a candidate takes; no brackets where cells do not bound it."""
    longer, found = row.longer.get(name), row.interval.get(name)
    if longer is None:
        return number(None)
    return f"{TIMES} {number(longer)}" + (f" [{number(found[0])}, {number(found[1])}]" if found else "")
