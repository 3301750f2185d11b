"""The dataset templates that a run needs: one for each dataset and server configuration of its cells."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from volbench.core.records.run import PlannedCell, RunRecord
from volbench.core.suite.sweep import with_parameters
from volbench.machine.placement.interface import TemplateScope

_VOLUME = "-"


@dataclass(frozen=True, kw_only=True)
class TemplateCell:
    """The cell that prepares the template of one shape; `volume` is the key of the volume to use, if any."""

    shape: str
    planned: PlannedCell
    volume: str = ""


def volume_of(cell: PlannedCell) -> str:
    """Return the name of the cell's volume, which is its key in a run without lanes."""
    return cell.volume


def template_cells(
    run: RunRecord, *, scope: TemplateScope = "machine", key_of: Callable[[PlannedCell], str] = volume_of
) -> list[TemplateCell]:
    """Return one for each shape, of which only a sweep has several.

    Args:
        scope: `volume`: one for each shape on each volume; `none`: no server is started on a template.
        key_of: returns the key of a cell's volume, `NAME` or `NAME@LANE`.
    """
    cells: dict[tuple[str, str], TemplateCell] = {}
    shapes: list[str] = []
    for cell in run.cells if scope != "none" else ():
        shape, key = shape_of(run, cell), key_of(cell) if scope == "volume" else ""
        if shape not in shapes:
            shapes.append(shape)
        if (shape, key) in cells:
            continue
        number = f"-{shapes.index(shape) + 1}" if shapes.index(shape) else ""
        name, _, lane = key.partition("@")
        cell_id = f"template{number}" + (f".{lane}" if lane else "") + (f"-{name}" if name else "")
        planned = PlannedCell(
            cell_id=cell_id,
            volume=_VOLUME,
            block=cell.block if lane else 0,
            repeat=1,
            parameters=cell.parameters,
            seed=1,
        )
        cells[shape, key] = TemplateCell(shape=shape, planned=planned, volume=key)
    return list(cells.values())


def shape_of(run: RunRecord, cell: PlannedCell) -> str:
    """Return what determines a cell's template; the cache knows whether two shapes have the same bytes."""
    suite = with_parameters(run.suite, cell.parameters)
    return suite.dataset.model_dump_json() + suite.server.model_dump_json()


def is_template(cell: PlannedCell) -> bool:
    """Return whether the cell only prepares a template."""
    return cell.volume == _VOLUME
