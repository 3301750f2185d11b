"""The dataset templates that a run needs: one for each dataset and server configuration of its cells."""

from __future__ import annotations

from dataclasses import dataclass

from volbench.records.run import PlannedCell, RunRecord
from volbench.suite.sweep import with_parameters

_VOLUME = "-"


@dataclass(frozen=True, kw_only=True)
class TemplateCell:
    """The cell that prepares the template of one shape; `volume` names the volume to use, if that matters."""

    shape: str
    planned: PlannedCell
    volume: str = ""


def template_cells(run: RunRecord, *, on_volumes: bool = False) -> list[TemplateCell]:
    """Return one for each shape, only a sweep has several; `on_volumes`: one for each shape on each volume."""
    cells: dict[tuple[str, str], TemplateCell] = {}
    shapes: list[str] = []
    for cell in run.cells:
        shape, volume = shape_of(run, cell), cell.volume if on_volumes else ""
        if shape not in shapes:
            shapes.append(shape)
        if (shape, volume) in cells:
            continue
        number = f"-{shapes.index(shape) + 1}" if shapes.index(shape) else ""
        name = f"template{number}-{volume}" if volume else f"template{number}"
        planned = PlannedCell(cell_id=name, volume=_VOLUME, block=0, repeat=1, parameters=cell.parameters, seed=1)
        cells[shape, volume] = TemplateCell(shape=shape, planned=planned, volume=volume)
    return list(cells.values())


def shape_of(run: RunRecord, cell: PlannedCell) -> str:
    """Return what determines a cell's template; the cache knows whether two shapes have the same bytes."""
    suite = with_parameters(run.suite, cell.parameters)
    return suite.dataset.model_dump_json() + suite.server.model_dump_json()


def is_template(cell: PlannedCell) -> bool:
    """Return whether the cell only prepares a template."""
    return cell.volume == _VOLUME
