"""Which steps of which cells may feed a figure: one answer for every section of a report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from volbench.core.records.cell import CellResult
from volbench.core.records.run import RunRecord
from volbench.results.compare.settings import odd_settings

Reasons = tuple[str, ...]
"""Why a step is invalid; empty for a valid one."""


def invalid_reasons(run: RunRecord, results: Iterable[CellResult]) -> Mapping[str, tuple[Reasons, ...]]:
    """Return by cell why each of its steps, in their order, must not feed a figure.

    Several steps of a cell may have one name (the points of a sweep), so the order tells them apart.

    A step is invalid when its agent said so, when its cell is not done, and when its cell's server had other
    settings than the cells of the same my.cnf.

    Args:
        run: the plan, with the cells of `results`.
        results: of cells of the plan.
    """
    planned = tuple(results)
    odd = _odd_settings(run, planned)
    return {result.cell_id: _of_cell(result, odd.get(result.cell_id, ())) for result in planned}


def _of_cell(result: CellResult, odd: Reasons) -> tuple[Reasons, ...]:
    of_cell = odd if result.status == "done" else (*odd, f"the cell is {result.status}, not done")
    return tuple(
        (*(step.invalid_reasons or (() if step.valid else ("no reason was recorded",))), *of_cell)
        for step in result.steps
    )


def _odd_settings(run: RunRecord, results: Iterable[CellResult]) -> Mapping[str, tuple[str, ...]]:
    """Return by cell in what its server was set otherwise than those of the same my.cnf.

    Servers that ran already are compared as they are: there, it is the cells of the same server.
    """
    planned = {cell.cell_id: cell for cell in run.cells}
    groups: dict[str, list[CellResult]] = {}
    for result in results:
        cell = planned[result.cell_id]
        group = str({key: value for key, value in cell.parameters.items() if key.startswith("engine.")})
        group += cell.volume if run.target == "attach" else ""
        groups.setdefault(group, []).append(result)
    return {cell_id: reasons for group in groups.values() for cell_id, reasons in odd_settings(group).items()}
