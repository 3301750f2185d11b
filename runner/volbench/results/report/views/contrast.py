"""Figures that mislead when shown alone, side by side: large and small files, page cache and volume."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from volbench.core.base.text import FAST, LONG, change_with_interval, change_words, counted, number, quantity
from volbench.core.records.report import ComparisonRow, Report
from volbench.core.records.steps import STEP_KINDS, step_kind
from volbench.core.records.steps.kind import FileGroup, WarmReads
from volbench.results.compare.figures import figure_of
from volbench.results.report.wording import label

FILE_GROUPS = get_args(FileGroup)
LARGE, SMALL, TABLES = FILE_GROUPS
PAIRS_NOTE = "Cold against cold is the change that the comparison states; the rest are ratios of these medians."


@dataclass(frozen=True, kw_only=True)
class ContrastRow:
    """One figure on all volumes.

    Args:
        values: medians of valid cells, by volume.
        slowdown: time on a candidate / time on the baseline, by candidate; below 1 the candidate is faster.
        slowdown_ci: its confidence interval, where the cells bound it.
        undecided: candidates whose comparison has no verdict.
    """

    group: str
    step: str
    metric: str
    unit: str
    values: Mapping[str, float]
    slowdown: Mapping[str, float]
    slowdown_ci: Mapping[str, tuple[float, float]]
    undecided: Collection[str] = ()


@dataclass(frozen=True, kw_only=True)
class ReadPairs:
    """Cold and warm reads of one step on the baseline and on one candidate: speeds as (baseline, candidate).

    `cold_ratio` is baseline / candidate as the comparison of the cold reads has it; None: there is none.
    """

    step: str
    baseline: str
    candidate: str
    unit: str
    cold: tuple[float, float]
    warm: tuple[float, float]
    cold_ratio: float | None = None

    @property
    def pairs(self) -> tuple[tuple[str, float], ...]:
        """Return text and baseline / candidate of cold reads, warm reads, and a warm against a cold read.

        The last pair compares memory with storage; of the two such pairs it is the one that flatters the faster
        volume.
        """
        unfair_pair = (f"unfair: {self.baseline} warm against {self.candidate} cold", self.warm[0] / self.cold[1])
        if self.cold[0] < self.cold[1]:
            unfair_pair = (
                f"unfair: {self.baseline} cold against {self.candidate} warm",
                self.cold[0] / self.warm[1],
            )
        return (
            ("cold against cold", self.cold_ratio or self.cold[0] / self.cold[1]),
            ("warm against warm", self.warm[0] / self.warm[1]),
            unfair_pair,
        )


def contrast_rows(report: Report) -> tuple[ContrastRow, ...]:
    """Return the rows of large and of small files; none unless the run has both."""
    kinds = {cell.step: cell.kind for cell in report.cells}
    by_step: dict[tuple[str, str], list[ComparisonRow]] = {}
    for row in report.comparisons:
        kind = step_kind(kinds.get(row.step, ""))
        if kind.file_group is not None and row.metric == kind.speed:
            by_step.setdefault((kind.file_group, row.step), []).append(row)
    rows = [_row(group, step, comparisons) for (group, step), comparisons in by_step.items()]
    groups = {row.group for row in rows}
    if LARGE not in groups or len(groups) < 2:
        return ()
    return tuple(sorted(rows, key=lambda row: FILE_GROUPS.index(row.group)))


def contrast_sentences(rows: Sequence[ContrastRow]) -> tuple[str, ...]:
    """Return the table's content in a sentence for each candidate."""
    candidates = list(dict.fromkeys(name for row in rows for name in row.slowdown))
    return tuple(_sentence(name, rows) for name in candidates)


def read_pairs(report: Report) -> tuple[ReadPairs, ...]:
    """Return the steps with cold and warm reads on the baseline and on a candidate, one item a candidate."""
    names = [volume.name for volume in report.volumes]
    return tuple(
        pairs
        for kind in STEP_KINDS.values()
        if kind.warm_reads is not None
        for step in dict.fromkeys(
            cell.step for cell in report.cells if cell.kind == kind.name and "/" not in cell.step
        )
        for candidate in names[1:]
        if (pairs := _pairs(report, step, kind.warm_reads, (names[0], candidate))) is not None
    )


def _row(group: str, step: str, comparisons: Iterable[ComparisonRow]) -> ContrastRow:
    rows = list(comparisons)
    values = {row.baseline: row.baseline_value for row in rows} | {
        row.candidate: row.candidate_value for row in rows
    }
    return ContrastRow(
        group=group,
        step=step,
        metric=rows[0].metric,
        unit=rows[0].unit,
        values={name: value for name, value in values.items() if value is not None},
        slowdown={row.candidate: 1 / row.ratio for row in rows if row.ratio},
        slowdown_ci={row.candidate: (1 / row.ci[1], 1 / row.ci[0]) for row in rows if row.ci and min(row.ci) > 0},
        undecided=frozenset(row.candidate for row in rows if row.verdict == "inconclusive"),
    )


def _sentence(name: str, rows: Sequence[ContrastRow]) -> str:
    clauses = []
    for group in FILE_GROUPS:
        of_group = [row for row in rows if row.group == group]
        compared = [row for row in of_group if name in row.slowdown]
        if compared:
            spread = _spread(sorted(row.slowdown[name] for row in compared))
            clauses.append(f"for {group} {spread}{_of_steps(compared, of_group)}{_undecided(compared, name)}")
    return f"Against the baseline, {name} takes {', '.join(clauses)}. None of these figures predicts another."


def _spread(slowdowns: Sequence[float]) -> str:
    """Return `1.04 to 1.89 times as long`; what takes less time is said to be shorter, never 0.46 times as long."""
    low, high = slowdowns[0], slowdowns[-1]
    if low >= 1:
        return f"{number(low) if low == high else f'{number(low)} to {number(high)}'} times as long"
    ends = [
        f"{number(end)} times as long" if end >= 1 else change_words(end, adjectives=LONG)
        for end in ((low,) if low == high else (low, high))
    ]
    return ends[0] if len(ends) == 1 else f"from {ends[0]} to {ends[1]}"


def _of_steps(compared: Sequence[ContrastRow], of_group: Sequence[ContrastRow]) -> str:
    """Return which steps a figure is of where some of its group have none that can be compared."""
    if len(compared) == len(of_group):
        return ""
    of = (
        f"{compared[0].step} alone"
        if len(compared) == 1
        else f"{len(compared)} of {counted(len(of_group), 'step')}"
    )
    return f" ({of}: no more can be compared)"


def _undecided(compared: Sequence[ContrastRow], name: str) -> str:
    """Return of how many of the figures no verdict says that they are more than chance."""
    count = sum(name in row.undecided for row in compared)
    if not count:
        return ""
    return " (not decided)" if count == len(compared) else f" ({count} of {len(compared)} not decided)"


def _pairs(report: Report, step: str, reads: WarmReads, volumes: tuple[str, str]) -> ReadPairs | None:
    names = (f"{step}{reads.suffix}_cold", f"{step}{reads.suffix}_warm") if reads.suffix else (step, step)
    medians: list[float] = []
    unit = ""
    for name, metric in zip(names, (reads.cold, reads.warm), strict=True):
        for volume in volumes:
            of_volume = [
                cell
                for cell in report.cells
                if (cell.step, cell.volume) == (name, volume) and metric in cell.metrics
            ]
            middle = figure_of(of_volume, metric)
            if middle is None or middle <= 0:
                return None
            unit = of_volume[0].metrics[metric].unit
            medians.append(middle)
    return ReadPairs(
        step=step,
        baseline=volumes[0],
        candidate=volumes[1],
        unit=unit,
        cold=(medians[0], medians[1]),
        warm=(medians[2], medians[3]),
        cold_ratio=next(
            (
                1 / row.ratio
                for row in report.comparisons
                if (row.step, row.metric, row.baseline, row.candidate) == (names[0], reads.cold, *volumes)
                and row.ratio
            ),
            None,
        ),
    )


def markdown_lines(report: Report, escaped: Callable[[str], str]) -> Iterator[str]:
    """Yield both tables as Markdown, with names through `escaped`; nothing without rows."""
    rows = contrast_rows(report)
    names = [volume.name for volume in report.volumes]
    escaped_names = [escaped(name) for name in names]
    if rows:
        yield ""
        yield "**Large files and small files**"
        yield ""
        yield from (f"{escaped(text)}  " for text in contrast_sentences(rows))
        yield ""
        heads = ["files", "step", "metric", *escaped_names, *(f"{name} takes" for name in escaped_names[1:])]
        yield f"| {' | '.join(heads)} |"
        yield f"|---|---|---|{'--:|' * (2 * len(names) - 1)}"
        for row in rows:
            values = " | ".join(quantity(row.values.get(name), row.unit) for name in names)
            slowdowns = " | ".join(slowdown_text(row, name) for name in names[1:])
            yield f"| {row.group} | {escaped(row.step)} | {label(row.metric)} | {values} | {slowdowns} |"
    all_pairs = read_pairs(report)
    for pairs in all_pairs:
        yield ""
        about = f"{escaped(pairs.step)}, {escaped(pairs.candidate)} against {escaped(pairs.baseline)}"
        yield f"**Cold and warm reads: {about}** ({pairs.unit})"
        yield ""
        yield f"| | {escaped(pairs.baseline)} | {escaped(pairs.candidate)} |"
        yield "|---|--:|--:|"
        yield f"| cold | {number(pairs.cold[0])} | {number(pairs.cold[1])} |"
        yield f"| warm (page cache: memory) | {number(pairs.warm[0])} | {number(pairs.warm[1])} |"
        yield ""
        looks = f"{escaped(pairs.baseline)} looks"
        yield from (f"- {escaped(text)}: {looks} {_pace(ratio)}" for text, ratio in pairs.pairs)
        yield ""
    if any(pairs.cold_ratio for pairs in all_pairs):
        yield PAIRS_NOTE
        yield ""


def _pace(ratio: float) -> str:
    """Return `96 % faster`, `1/13.7 as fast`, `as fast`; never 0.0732 times as fast."""
    return change_words(ratio, adjectives=FAST).replace("unchanged", "as fast")


def slowdown_text(row: ContrastRow, name: str) -> str:
    """Return `× 6.54 [× 6.30, × 6.80]`, the slowdown of a candidate; no brackets where cells do not bound it."""
    return change_with_interval(row.slowdown.get(name), row.slowdown_ci.get(name))
