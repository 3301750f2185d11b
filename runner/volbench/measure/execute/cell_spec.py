"""From a planned cell to cell.json, the instructions for its agent."""

from __future__ import annotations

from volbench import __version__
from volbench.core.records.cell import CellSpec
from volbench.core.records.facts import VolumeFacts
from volbench.core.records.layout import EmulatedSpec
from volbench.core.records.run import PlannedCell, RunRecord
from volbench.core.suite.sweep import with_parameters


def cell_spec(
    run: RunRecord,
    planned: PlannedCell,
    *,
    attempt: int = 1,
    template_key: str = "",
    emulated: EmulatedSpec | None = None,
    host_volume: VolumeFacts | None = None,
) -> CellSpec:
    """Return the cell with the suite's values and its own values of a sweep; a target adds its server."""
    suite = with_parameters(run.suite, planned.parameters)
    return CellSpec(
        volbench_version=__version__,
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
        emulated=emulated,
        host_volume=host_volume,
    )
