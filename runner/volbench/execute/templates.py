"""Which dataset templates a run needs: one for each dataset and server configuration that its cells have."""

from __future__ import annotations

from volbench.records.run import PlannedCell, RunRecord
from volbench.suite.sweep import with_parameters

_VOLUME = "-"


def template_cells(run: RunRecord) -> dict[str, PlannedCell]:
    """Shape -> the cell that prepares its template; only a sweep has more than one."""
    found: dict[str, PlannedCell] = {}
    for cell in run.cells:
        shape = shape_of(run, cell)
        if shape not in found:
            number = f"-{len(found) + 1}" if found else ""
            found[shape] = PlannedCell(
                cell_id=f"template{number}", volume=_VOLUME, block=0, repeat=1, parameters=cell.parameters, seed=1
            )
    return found


def shape_of(run: RunRecord, cell: PlannedCell) -> str:
    """What a cell's template follows from; whether two of them have the same bytes, the cache knows."""
    suite = with_parameters(run.suite, cell.parameters)
    return suite.dataset.model_dump_json() + suite.server.model_dump_json()


def is_template(cell: PlannedCell) -> bool:
    """Whether the cell only prepares a template."""
    return cell.volume == _VOLUME
