"""The highest open-loop rate that keeps an objective, from cells that ran at several rates.

Each cell brackets it: the highest rate that held, with no lower one that broke, and the lowest that broke. Cells
are independent repeats, so the median capacity lies between the lowest rate held and the highest broken of n cells
with a confidence of 1 - 2^(1-n), whatever the distribution (Conover, Practical Nonparametric Statistics, 3.2).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from volbench.analysis.validity import shortfall_by_chance
from volbench.records.capacity import CapacityRow, Objective
from volbench.records.report import CellRow, FindingRow, Report

ACHIEVED_MIN = 0.95
"""A rate of which less was finished was not held, whatever the latency of what was."""


@dataclass(frozen=True, kw_only=True)
class Bracket:
    """One cell: the rate that held and the one that broke, each with its row; None where there was none."""

    held: CellRow | None
    broke: CellRow | None


def capacities(reports: Sequence[Report], objective: Objective) -> tuple[CapacityRow, ...]:
    """One row for each volume and load; of several runs of the same load, the one that brackets it best."""
    found: defaultdict[tuple[str, str], list[CapacityRow]] = defaultdict(list)
    for report in reports:
        for (volume, load), cells in _loads(report).items():
            found[volume, load].append(_row(report, volume, load, cells, objective))
    return tuple(min(rows, key=_width) for rows in found.values())


def keeps(row: CellRow, objective: Objective) -> bool | None:
    """Whether a cell kept the objective at its rate; None where it cannot be told."""
    latency, achieved = row.metrics.get(objective.metric), row.metrics.get("rate_achieved_ratio")
    if not row.valid or achieved is None:
        return None
    due = rate_of(row) * (row.window_s[1] - row.window_s[0]) if row.window_s else None
    if achieved.value < ACHIEVED_MIN - shortfall_by_chance(due):
        return False
    if latency is None:
        return None
    tps, errors = row.metrics.get("tps"), row.metrics.get("errors_per_s")
    if errors is not None and tps is not None:
        asked = tps.value + errors.value
        if asked > 0 and errors.value / asked > objective.errors_max:
            return False
    return latency.value <= objective.limit_s * 1000


def bracket(rows: Sequence[CellRow], objective: Objective) -> Bracket:
    """Of one cell's rates, in any order."""
    held: CellRow | None = None
    for row in sorted(rows, key=rate_of):
        kept = keeps(row, objective)
        if kept is False:
            return Bracket(held=held, broke=row)
        held = row if kept else held
    return Bracket(held=held, broke=None)


def ladder(low: float, high: float, rungs: int) -> tuple[int, ...]:
    """Rates from low to high with equal ratios; whole ones, since sysbench offers no others."""
    return tuple(sorted({max(1, round(low * (high / low) ** (rung / (rungs - 1)))) for rung in range(rungs)}))


def rate_of(row: CellRow) -> float:
    """Transactions per second that were offered."""
    return float(row.parameters["rate"])


def _loads(report: Report) -> dict[tuple[str, str], dict[int, list[CellRow]]]:
    """Rows with a rate, by volume and load, then by repeat."""
    found: defaultdict[tuple[str, str], defaultdict[int, list[CellRow]]] = defaultdict(lambda: defaultdict(list))
    for row in report.cells:
        # Parts of a step, such as NAME/during, repeat its time.
        if row.kind == "oltp" and "rate" in row.parameters and "/" not in row.step:
            found[row.volume, _load(row)][row.repeat].append(row)
    return {key: dict(repeats) for key, repeats in found.items()}


def _load(row: CellRow) -> str:
    shown = {name: value for name, value in row.parameters.items() if name != "rate" and not name.endswith(".rate")}
    return ", ".join(f"{name}={value}" for name, value in sorted(shown.items()))


def _row(
    report: Report, volume: str, load: str, repeats: dict[int, list[CellRow]], objective: Objective
) -> CapacityRow:
    brackets = [bracket(rows, objective) for rows in repeats.values()]
    brackets = [one for one in brackets if one.held or one.broke]
    held = [rate_of(one.held) for one in brackets if one.held]
    broke = [rate_of(one.broke) for one in brackets if one.broke]
    bounded = bool(brackets) and len(broke) == len(brackets)
    return CapacityRow(
        volume=volume,
        load=load,
        run_id=report.run_id,
        cells=len(brackets),
        held_per_s=median(held) if held else None,
        low_per_s=min(held) if brackets and len(held) == len(brackets) else 0.0,
        high_per_s=max(broke) if bounded else None,
        confidence=1 - 2.0 ** (1 - len(brackets)) if bounded and len(brackets) > 1 else None,
        queries_each=_queries_each(brackets),
        limited_by=tuple(_limits(report, volume, [one.broke for one in brackets if one.broke])),
        emulated=any(one.emulated for one in report.volumes if one.name == volume),
    )


def _queries_each(brackets: Sequence[Bracket]) -> float | None:
    shares = [
        one.held.metrics["qps"].value / one.held.metrics["tps"].value
        for one in brackets
        if one.held and {"qps", "tps"} <= one.held.metrics.keys() and one.held.metrics["tps"].value > 0
    ]
    return median(shares) if shares else None


def _limits(report: Report, volume: str, broke: Sequence[CellRow]) -> Iterator[str]:
    """Causes that were named where the objective broke, the surest first."""
    places = {(row.step, row.cell_id) for row in broke}
    named: dict[str, FindingRow] = {}
    for one in report.findings:
        there = one.volume == volume and any((one.step, cell) in places for cell in one.cell_ids)
        if there and one.cause != "none" and (one.confidence or 0) > (_confidence(named.get(one.cause))):
            named[one.cause] = one
    for cause, one in sorted(named.items(), key=lambda item: -_confidence(item[1])):
        evidence = f": {one.evidence[0].text}" if one.evidence else ""
        yield f"{cause}, confidence {_confidence(one):.0%}{evidence}"


def _confidence(one: FindingRow | None) -> float:
    return (one.confidence or 0.0) if one else 0.0


def _width(row: CapacityRow) -> tuple[bool, float]:
    """Rows with both ends first, then the narrowest."""
    if row.high_per_s is None or row.low_per_s == 0:
        return True, 0.0
    return False, math.log(row.high_per_s / row.low_per_s)
