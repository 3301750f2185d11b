"""Which dataset templates a run needs: one for each dataset and server configuration that its cells have."""

from __future__ import annotations

from dataclasses import dataclass

from volbench.records.run import PlannedCell, RunRecord
from volbench.suite.sweep import with_parameters

_VOLUME = "-"


@dataclass(frozen=True, kw_only=True)
class TemplateCell:
    """What prepares the template of one shape; `volume` names the volume that it is prepared on, if it matters."""

    shape: str
    planned: PlannedCell
    volume: str = ""


def template_cells(run: RunRecord, *, on_volumes: bool = False) -> list[TemplateCell]:
    """One for each shape, only a sweep has several; `on_volumes`: one for each shape on each volume."""
    found: dict[tuple[str, str], TemplateCell] = {}
    shapes: list[str] = []
    for cell in run.cells:
        shape, volume = shape_of(run, cell), cell.volume if on_volumes else ""
        if shape not in shapes:
            shapes.append(shape)
        if (shape, volume) in found:
            continue
        number = f"-{shapes.index(shape) + 1}" if shapes.index(shape) else ""
        name = f"template{number}-{volume}" if volume else f"template{number}"
        planned = PlannedCell(cell_id=name, volume=_VOLUME, block=0, repeat=1, parameters=cell.parameters, seed=1)
        found[shape, volume] = TemplateCell(shape=shape, planned=planned, volume=volume)
    return list(found.values())


def shape_of(run: RunRecord, cell: PlannedCell) -> str:
    """What a cell's template follows from; whether two of them have the same bytes, the cache knows."""
    suite = with_parameters(run.suite, cell.parameters)
    return suite.dataset.model_dump_json() + suite.server.model_dump_json()


def is_template(cell: PlannedCell) -> bool:
    """Whether the cell only prepares a template."""
    return cell.volume == _VOLUME
