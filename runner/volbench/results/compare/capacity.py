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

from volbench.core.base.text import percent
from volbench.core.records.cell import is_beyond
from volbench.core.records.goals.capacity import CapacityRow, Objective
from volbench.core.records.report import CellRow, FindingRow, Report
from volbench.core.records.steps import step_kind
from volbench.results.compare.validity.reasons import shortfall_by_chance

ACHIEVED_MIN = 0.95
"""A rate of which less was finished was not held, whatever the latency of what was."""


@dataclass(frozen=True, kw_only=True)
class Bracket:
    """One cell: the rate that held and the one that broke, each with its row; None where there was none."""

    sustained: CellRow | None
    broke: CellRow | None


def capacities(reports: Sequence[Report], objective: Objective) -> tuple[CapacityRow, ...]:
    """Return one row for each volume and load; of several runs of the same load, the one that brackets it best."""
    candidates: defaultdict[tuple[str, str], list[CapacityRow]] = defaultdict(list)
    for report in reports:
        for (volume, load), cells in _loads(report).items():
            candidates[volume, load].append(_row(report, volume, load, cells, objective))
    return tuple(min(rows, key=_width) for rows in candidates.values())


def keeps(row: CellRow, objective: Objective) -> bool | None:
    """Return whether a cell kept the objective at its rate; None where it cannot be told."""
    latency, achieved = row.metrics.get(objective.metric), row.metrics.get("rate_achieved_ratio")
    if not row.valid or achieved is None:
        return None
    due = rate_of(row) * (row.window_s[1] - row.window_s[0]) if row.window_s else None
    if achieved.value < ACHIEVED_MIN - shortfall_by_chance(due):
        return False
    if latency is None:
        return False if is_beyond(objective.metric, row.metrics, row.notes) else None
    tps, errors = row.metrics.get("tps"), row.metrics.get("errors_per_s")
    if errors is not None and tps is not None:
        finished_per_s = tps.value + errors.value
        if finished_per_s > 0 and errors.value / finished_per_s > objective.errors_max:
            return False
    return latency.value <= objective.limit_s * 1000


def bracket(rows: Sequence[CellRow], objective: Objective) -> Bracket:
    """Return the bracket of one cell's rates, which may have any order."""
    sustained: CellRow | None = None
    for row in sorted(rows, key=rate_of):
        is_kept = keeps(row, objective)
        if is_kept is False:
            return Bracket(sustained=sustained, broke=row)
        sustained = row if is_kept else sustained
    return Bracket(sustained=sustained, broke=None)


def ladder(low: float, high: float, rungs: int) -> tuple[int, ...]:
    """Return rates from low to high with equal ratios; whole ones, since sysbench offers no others."""
    return tuple(sorted({max(1, round(low * (high / low) ** (rung / (rungs - 1)))) for rung in range(rungs)}))


def rate_of(row: CellRow) -> float:
    """Return transactions per second that were offered."""
    return float(row.parameters["rate"])


def _loads(report: Report) -> dict[tuple[str, str], dict[int, list[CellRow]]]:
    """Return rows with a rate, by volume and load, then by repeat."""
    loads: defaultdict[tuple[str, str], defaultdict[int, list[CellRow]]] = defaultdict(lambda: defaultdict(list))
    for row in report.cells:
        # Parts of a step, such as NAME/during, repeat its time.
        if step_kind(row.kind).transactions and "rate" in row.parameters and "/" not in row.step:
            loads[row.volume, _load(row)][row.repeat].append(row)
    return {key: dict(repeats) for key, repeats in loads.items()}


def _load(row: CellRow) -> str:
    other_parameters = {
        name: value for name, value in row.parameters.items() if name != "rate" and not name.endswith(".rate")
    }
    return ", ".join(f"{name}={value}" for name, value in sorted(other_parameters.items()))


def _row(
    report: Report, volume: str, load: str, repeats: dict[int, list[CellRow]], objective: Objective
) -> CapacityRow:
    brackets = [bracket(rows, objective) for rows in repeats.values()]
    brackets = [candidate for candidate in brackets if candidate.sustained or candidate.broke]
    sustained = [rate_of(candidate.sustained) for candidate in brackets if candidate.sustained]
    broke = [rate_of(candidate.broke) for candidate in brackets if candidate.broke]
    bounded = bool(brackets) and len(broke) == len(brackets)
    return CapacityRow(
        volume=volume,
        load=load,
        run_id=report.run_id,
        cells=len(brackets),
        sustained_per_s=median(sustained) if sustained else None,
        low_per_s=min(sustained) if brackets and len(sustained) == len(brackets) else 0.0,
        high_per_s=max(broke) if bounded else None,
        confidence=1 - 2.0 ** (1 - len(brackets)) if bounded and len(brackets) > 1 else None,
        queries_per_transaction=_queries_each(brackets),
        limited_by=tuple(_limits(report, volume, [candidate.broke for candidate in brackets if candidate.broke])),
        emulated=any(declared.emulated for declared in report.volumes if declared.name == volume),
    )


def _queries_each(brackets: Sequence[Bracket]) -> float | None:
    shares = [
        candidate.sustained.metrics["qps"].value / candidate.sustained.metrics["tps"].value
        for candidate in brackets
        if candidate.sustained
        and {"qps", "tps"} <= candidate.sustained.metrics.keys()
        and candidate.sustained.metrics["tps"].value > 0
    ]
    return median(shares) if shares else None


def _limits(report: Report, volume: str, broke: Sequence[CellRow]) -> Iterator[str]:
    """Yield causes that were named where the objective broke, the surest first."""
    broken_cells = {(row.step, row.cell_id) for row in broke}
    named: dict[str, FindingRow] = {}
    for finding in report.findings:
        is_here = finding.volume == volume and any(
            (finding.step, cell) in broken_cells for cell in finding.cell_ids
        )
        if (
            is_here
            and finding.cause != "none"
            and (finding.confidence or 0) > (_confidence(named.get(finding.cause)))
        ):
            named[finding.cause] = finding
    for cause, finding in sorted(named.items(), key=lambda item: -_confidence(item[1])):
        evidence = f": {finding.evidence[0].text}" if finding.evidence else ""
        yield f"{cause}, confidence {percent(_confidence(finding))}{evidence}"


def _confidence(finding: FindingRow | None) -> float:
    return (finding.confidence or 0.0) if finding else 0.0


def _width(row: CapacityRow) -> tuple[bool, float]:
    """Return rows with both ends first, then the narrowest."""
    if row.high_per_s is None or row.low_per_s == 0:
        return True, 0.0
    return False, math.log(row.high_per_s / row.low_per_s)
