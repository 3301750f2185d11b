"""Conditions on numbers: a limit that the median keeps, a volume that is not worse than another."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median

from volbench.core.base.text import change, interval
from volbench.core.records.cell import is_beyond
from volbench.core.records.goals.gate import Decision, GroupRow
from volbench.core.records.metrics import CATALOGUE
from volbench.core.records.report import CellRow, ComparisonRow
from volbench.results.compare.comparison import CHANGED_TOGETHER, Comparison
from volbench.results.gate.language import MetricLimit, NotWorse
from volbench.results.stats.sequential import CELLS_MIN
from volbench.results.stats.sign_test import CELLS_NEEDED_MAX, more_cells, sign_test

_DECISIONS: dict[bool | None, Decision] = {True: "go", False: "no-go", None: "undecided"}


def limit_kept(condition: MetricLimit, cells: Sequence[CellRow], *, alpha: float) -> GroupRow:
    """Return whether the median over valid cells keeps the limit, by the sign test; undecided without any."""
    beyond, higher = _beyond(cells, condition.metric), CATALOGUE[condition.metric].better == "higher"
    values_known = _values(cells, condition.metric)
    values = [*values_known, *[0.0 if higher else math.inf] * beyond]
    keeping = sum(condition.holds(value) for value in values)
    side = sign_test(len(values), keeping, alpha=alpha)
    spread = f", {_spread(values_known, condition.metric)}" if values_known else ""
    spread += f", {beyond} have none: worse than was measured" if beyond else ""
    return GroupRow(
        volume=cells[0].volume,
        step=cells[0].step,
        parameters=cells[0].parameters,
        decision=_DECISIONS[side],
        text=f"{keeping} of {len(values)} valid cells keep it{spread}",
        cells=len(values),
        more_cells=more_cells(len(values), keeping, alpha=alpha) if side is None else None,
    )


def not_worse(
    condition: NotWorse, name: str, compared: Mapping[str, Comparison | ComparisonRow], after: Sequence[CellRow]
) -> GroupRow:
    """Return whether one metric is not worse by more than the share: by the interval of the report's comparison.

    Args:
        compared: by metric, this volume against that of the condition; empty where that has no cell.
        after: this volume's cells.
    """
    comparison = compared.get(name)
    if comparison is None:
        decision, text, more, cells = _DECISIONS[None], f"{condition.than} has no cell here", None, 0
    else:
        decision, text, more = _ratio_decision(condition, comparison)
        cells = comparison.runs[1]
    return GroupRow(
        volume=after[0].volume,
        step=after[0].step,
        parameters=after[0].parameters,
        decision=decision,
        text=f"{name}: {text}",
        cells=cells,
        more_cells=more,
    )


def _ratio_decision(
    condition: NotWorse, comparison: Comparison | ComparisonRow
) -> tuple[Decision, str, int | None]:
    fewest = min(comparison.runs)
    if comparison.reason.startswith(CHANGED_TOGETHER) or (comparison.ratio is None and fewest):
        return "undecided", comparison.reason, None
    if fewest < CELLS_MIN or comparison.ratio is None:
        first, second = comparison.runs
        return "undecided", f"{first} and {second} valid cells, {CELLS_MIN} are the fewest", CELLS_MIN - fewest
    higher = comparison.better == "higher"
    ends = comparison.ci or (None, None)
    figures = f"{change(comparison.ratio)} {interval(ends, comparison.ratio)}"
    text = f"{figures} against {condition.than}, {_cells_text(comparison)}"
    # Turned so that a ratio above 1 is worse, whatever the metric's direction.
    ratio = 1 / comparison.ratio if higher else comparison.ratio
    low, high = (None if end is None else 1 / end for end in reversed(ends)) if higher else ends
    limit = 1 / (1 - condition.by) if higher else 1 + condition.by
    if high is not None and high <= limit:
        return "go", text, None
    if low is not None and low > limit:
        return "no-go", text, None
    return "undecided", text, _more_pairs(ratio, low, high, limit, fewest)


def _cells_text(comparison: Comparison | ComparisonRow) -> str:
    disturbed = sum(comparison.within_bounds)
    of_them = f", {disturbed} of them disturbed" if disturbed else ""
    return f"{comparison.runs[0]} and {comparison.runs[1]} cells{of_them}"


def _more_pairs(ratio: float, low: float | None, high: float | None, limit: float, cells: int) -> int | None:
    """Estimate the cells needed: an interval's half-width shrinks with their root until it clears the limit."""
    distance = math.log(limit / ratio)
    end = high if distance > 0 else low
    if end is None:
        return 1
    if distance == 0:
        return None
    needed = math.ceil(cells * (math.log(end / ratio) / distance) ** 2)
    return max(1, needed - cells) if needed <= CELLS_NEEDED_MAX else None


def _values(cells: Sequence[CellRow], name: str) -> list[float]:
    return [cell.metrics[name].value for cell in cells if cell.valid and name in cell.metrics]


def _beyond(cells: Sequence[CellRow], name: str) -> int:
    """Return how many valid cells have no value because it is worse than was measured."""
    return sum(cell.valid and is_beyond(name, cell.metrics, cell.notes) for cell in cells)


_WHOLE_MIN = 999.95
"""Four digits of it have none behind the point."""


def _spread(values: Sequence[float], metric: str) -> str:
    """Return `11.47 ms` or `16.22 to 16.51 ms, median 16.51 ms`: four digits, since a limit may be near."""
    unit = {"1": "", "1/s": "/s"}.get(CATALOGUE[metric].unit, f" {CATALOGUE[metric].unit}")
    if len(values) == 1:
        return f"{_four_digits(values[0])}{unit}"
    low, high, middle = map(_four_digits, (min(values), max(values), median(values)))
    return f"{low} to {high}{unit}, median {middle}{unit}"


def _four_digits(value: float) -> str:
    """Return 579.3 or 12,345: all digits before the point, since a power of ten cannot be held against a limit."""
    return f"{value:,.0f}" if abs(value) >= _WHOLE_MIN else f"{value:.4g}"
