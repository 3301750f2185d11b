"""Two runs side by side: each figure with its interval, and the settings in which they differ.

Intervals are over the cells of either run. What differs from one time to another, and hits all cells of a run
alike, is not in them: a history of runs shows how much that is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from volbench.core.base.text import change, counted, escape_controls, interval, quantity
from volbench.results.report import wording
from volbench.results.site.history import MARGIN
from volbench.results.site.summary import MetricGroup, RunSummary
from volbench.results.stats.corrections import holm
from volbench.results.stats.means import mean_shift, resolved_by
from volbench.results.stats.sequential import CELLS_MIN
from volbench.results.stats.statistics import Better, Shift, judge, shift_of


@dataclass(frozen=True, kw_only=True)
class PairRow:
    """One metric of one step on one volume in both runs; texts as every output writes them.

    Args:
        change: of the second run against the first: that of the geometric means.
        interval: of that ratio at 95 %; empty below CELLS_MIN cells on a side.
        verdict: of a primary metric, as comparisons judge it: Holm's correction over these, and the margin. Empty
            for others.
    """

    identity: str
    metric: str
    title: str
    primary: bool
    first: str
    second: str
    change: str
    interval: str
    verdict: str


@dataclass(frozen=True, kw_only=True)
class RunPair:
    """Two runs side by side."""

    first: str
    second: str
    rows: tuple[PairRow, ...]
    settings: tuple[tuple[str, str, str], ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]


def side_by_side(names: tuple[str, str], first: RunSummary, second: RunSummary) -> RunPair:
    """Compare two runs as they are; what only one of them measured is listed by name.

    Args:
        names: of the runs' directories.
    """
    first_groups, second_groups = ({group.key: group for group in run.groups} for run in (first, second))
    return RunPair(
        first=names[0],
        second=names[1],
        rows=_rows([(first_groups[key], second_groups[key]) for key in first_groups if key in second_groups]),
        settings=differing_settings(first, second),
        only_first=_only(first_groups.keys() - second_groups.keys()),
        only_second=_only(second_groups.keys() - first_groups.keys()),
    )


def differing_settings(first: RunSummary, second: RunSummary) -> tuple[tuple[str, str, str], ...]:
    """Return (setting, its value in the first run, in the second); a dash where a run has none."""
    names = sorted(first.settings.keys() | second.settings.keys())
    rows = ((name, first.settings.get(name, "\u2013"), second.settings.get(name, "\u2013")) for name in names)
    return tuple(row for row in rows if row[1] != row[2])


def markdown(pair: RunPair) -> str:
    """Return the pair for a pull request: primary metrics, then the settings that differ."""
    lines = [
        f"### volbench: {_escaped(pair.second)} against {_escaped(pair.first)}",
        "",
        "| | metric | before | after | change | 95 % interval | |",
        "|---|---|--:|--:|--:|---|---|",
    ]
    for row in pair.rows:
        if row.primary:
            cells = (row.identity, row.title, row.first, row.second, row.change, row.interval, row.verdict)
            lines.append(f"| {' | '.join(map(_escaped, cells))} |")
    lines += [
        "",
        f"<details><summary>{counted(len(pair.settings), 'setting differs', 'settings differ')}</summary>",
        "",
    ]
    if pair.settings:
        lines += ["| setting | before | after |", "|---|---|---|"]
        lines += [f"| {' | '.join(map(_escaped, row))} |" for row in pair.settings]
    lines += ["", "</details>"]
    for name, keys in ((pair.first, pair.only_first), (pair.second, pair.only_second)):
        if keys:
            lines += ["", f"Only in {_escaped(name)}: {_escaped(', '.join(keys))}"]
    return escape_controls("\n".join(lines) + "\n")


def _rows(pairs: Sequence[tuple[MetricGroup, MetricGroup]]) -> tuple[PairRow, ...]:
    """Return a row for each metric; the verdicts of the primary ones are corrected for their number."""
    shifts = [_shift(first, second) for first, second in pairs]
    family = [number for number, pair in enumerate(pairs) if pair[0].primary and shifts[number] is not None]
    p_values = [shift.p_value for number in family if (shift := shifts[number]) is not None]
    adjusted = dict(zip(family, holm(p_values), strict=True))
    return tuple(
        _row(first, second, shifts[number], adjusted.get(number)) for number, (first, second) in enumerate(pairs)
    )


def _row(first: MetricGroup, second: MetricGroup, shift: Shift | None, p_adjusted: float | None) -> PairRow:
    bounds = None
    if shift is not None and min(shift.runs) >= CELLS_MIN and shift.low is not None and shift.high is not None:
        bounds = (shift.low, shift.high)
    return PairRow(
        identity=" ".join(filter(None, first.key[:3])),
        metric=first.metric,
        title=wording.label(first.metric),
        primary=first.primary,
        first=quantity(median(first.values), first.unit),
        second=quantity(median(second.values), second.unit),
        change=change(shift.ratio if shift else None),
        interval=interval(bounds, shift.ratio) if shift and bounds else "",
        verdict=_verdict(first.better, shift, p_adjusted),
    )


def _verdict(better: str, shift: Shift | None, p_adjusted: float | None) -> str:
    """Return `better`, `worse`, `equivalent` or `open`; empty for a metric that is not judged."""
    if shift is None or p_adjusted is None or better not in ("higher", "lower"):
        return ""
    direction: Better = "higher" if better == "higher" else "lower"
    verdict = judge(shift, better=direction, margin=MARGIN, p_adjusted=p_adjusted, cells_min=CELLS_MIN).verdict
    return "open" if verdict == "inconclusive" else verdict


def _shift(first: MetricGroup, second: MetricGroup) -> Shift | None:
    """Return the second run's shift against the first; None of values without a log."""
    if not all(value > 0 and math.isfinite(value) for value in (*first.values, *second.values)):
        return None
    if min(len(first.values), len(second.values)) < 2:
        return shift_of(first.values, second.values)
    return mean_shift(first.values, second.values, [], alpha=0.05, least=resolved_by(first.metric))


def _only(keys: set[tuple[str, str, str, str]]) -> tuple[str, ...]:
    """Return steps on volumes, each once: not every metric of them."""
    return tuple(sorted({" ".join(filter(None, key[:3])) for key in keys}))


def _escaped(text: str) -> str:
    """Text from a run cannot end a table's cell, begin HTML or mention a user."""
    for special in ("\\", "|", "<", "`", "[", "*", "_", "@"):
        text = text.replace(
            special, "\\" + special if special not in "<@" else {"<": "&lt;", "@": "&#64;"}[special]
        )
    return " ".join(text.split())
