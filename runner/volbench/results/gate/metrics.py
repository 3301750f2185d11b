"""Conditions on numbers: a limit that the median keeps, a volume that is not worse than another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from volbench.core.base.text import change, interval
from volbench.core.records.cell import is_beyond
from volbench.core.records.goals.gate import Decision, GroupRow
from volbench.core.records.metrics import CATALOGUE
from volbench.core.records.report import CellRow
from volbench.results.gate.language import MetricLimit, NotWorse
from volbench.results.stats.sign_test import CELLS_NEEDED_MAX, more_cells, side_of
from volbench.results.stats.statistics import RUNS_MIN, shift_of

_WORDS: dict[bool | None, Decision] = {True: "go", False: "no-go", None: "undecided"}


def limit_kept(condition: MetricLimit, cells: Sequence[CellRow], *, alpha: float) -> GroupRow:
    """Whether the median over valid cells keeps the limit, by the sign test; undecided without any."""
    beyond, higher = _beyond(cells, condition.metric), CATALOGUE[condition.metric].better == "higher"
    known = _values(cells, condition.metric)
    values = [*known, *[0.0 if higher else math.inf] * beyond]
    keeping = sum(condition.holds(value) for value in values)
    side = side_of(len(values), keeping, alpha=alpha)
    spread = f", {_spread(known, condition.metric)}" if known else ""
    spread += f", {beyond} have none: worse than was measured" if beyond else ""
    return GroupRow(
        volume=cells[0].volume,
        step=cells[0].step,
        parameters=cells[0].parameters,
        decision=_WORDS[side],
        text=f"{keeping} of {len(values)} valid cells keep it{spread}",
        cells=len(values),
        more_cells=more_cells(len(values), keeping, alpha=alpha) if side is None else None,
    )


def not_worse(
    condition: NotWorse, name: str, before: Sequence[CellRow], after: Sequence[CellRow], *, alpha: float
) -> GroupRow:
    """Whether one metric is not worse by more than the share: by the interval."""
    values = _values(after, name)
    decision, text, more = _ratio_decision(condition, name, _values(before, name), values, alpha)
    if beyond := _beyond((*before, *after), name):
        decision, text, more = "undecided", f"{beyond} cells have no value: worse than was measured", None
    return GroupRow(
        volume=after[0].volume,
        step=after[0].step,
        parameters=after[0].parameters,
        decision=decision,
        text=f"{name}: {text}",
        cells=len(values),
        more_cells=more,
    )


def _ratio_decision(
    condition: NotWorse, name: str, before: Sequence[float], after: Sequence[float], alpha: float
) -> tuple[Decision, str, int | None]:
    fewest = min(len(before), len(after))
    if fewest < RUNS_MIN:
        return (
            "undecided",
            f"{len(before)} and {len(after)} valid cells, {RUNS_MIN} are the fewest",
            RUNS_MIN - fewest,
        )
    if min(*before, *after) <= 0:
        return "undecided", "values that are zero or negative have no ratio", None
    higher = CATALOGUE[name].better == "higher"
    # "Worse" turned so that a ratio above 1 is worse, whatever the metric's direction.
    shift = shift_of(after, before, alpha=alpha) if higher else shift_of(before, after, alpha=alpha)
    limit = 1 / (1 - condition.by) if higher else 1 + condition.by
    bounds = _as_seen(shift.low, shift.high, higher)
    estimate = 1 / shift.ratio if higher else shift.ratio
    cells = f"{len(before)} and {len(after)} cells"
    text = f"{change(estimate)} {interval(bounds, estimate)} against {condition.than}, {cells}"
    if shift.high is not None and shift.high <= limit:
        return "go", text, None
    if shift.low is not None and shift.low > limit:
        return "no-go", text, None
    return "undecided", text, _more_pairs(shift.ratio, shift.low, shift.high, limit, fewest)


def _as_seen(low: float | None, high: float | None, inverted: bool) -> tuple[float | None, float | None]:
    """The interval of after / before, as reports show it."""
    if not inverted:
        return low, high
    return (None if high is None else 1 / high), (None if low is None else 1 / low)


def _more_pairs(ratio: float, low: float | None, high: float | None, limit: float, cells: int) -> int | None:
    """An estimate: an interval's half-width shrinks with the root of the cells until it clears the limit."""
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


def _spread(values: Sequence[float], metric: str) -> str:
    """Return `11.47 ms` or `16.22 to 16.51 ms, median 16.51 ms`: four digits, since a limit may be near."""
    unit = {"1": "", "1/s": "/s"}.get(CATALOGUE[metric].unit, f" {CATALOGUE[metric].unit}")
    if len(values) == 1:
        return f"{values[0]:.4g}{unit}"
    return f"{min(values):.4g} to {max(values):.4g}{unit}, median {median(values):.4g}{unit}"
