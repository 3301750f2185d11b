"""From a planned cell to cell.json: what its agent is told."""

from __future__ import annotations

from volbench.records.cell import AttachSpec, CellPlaces, CellSpec, EmulatedSpec
from volbench.records.facts import VolumeFacts
from volbench.records.run import PlannedCell, RunRecord
from volbench.suite.sweep import with_parameters


def cell_spec(
    run: RunRecord,
    planned: PlannedCell,
    *,
    places: CellPlaces | None,
    attempt: int = 1,
    template_key: str = "",
    attach: AttachSpec | None = None,
    emulated: EmulatedSpec | None = None,
    host_volume: VolumeFacts | None = None,
) -> CellSpec:
    """The cell with the suite's values, and those of a sweep that are its own."""
    suite = with_parameters(run.suite, planned.parameters)
    return CellSpec(
        run_id=run.run_id,
        cell_id=planned.cell_id,
        attempt=attempt,
        suite=suite.name,
        volume=planned.volume,
        block=planned.block,
        repeat=planned.repeat,
        parameters=planned.parameters,
        seed=planned.seed,
        server=suite.server,
        dataset=suite.dataset,
        steps=suite.steps,
        sampling=suite.sampling,
        limits=suite.limits,
        template_key=template_key,
        places=places,
        attach=attach,
        emulated=emulated,
        host_volume=host_volume,
    )
