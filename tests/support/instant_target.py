"""A target and volumes without machines, for tests of the orchestrator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from volbench.errors import VolbenchError
from volbench.placement.interface import Job, Placement
from volbench.records.cell import CellPlaces, CellResult, PreparedTemplate
from volbench.store.files import write_record
from volbench.store.run_directory import RESULT_FILE, TEMPLATE_FILE
from volbench.volume.interface import OpenVolume, VolumeBase


class FakeVolume(VolumeBase):
    def open(self) -> OpenVolume:
        return OpenVolume(name=self.spec.name, spec=self.spec)


class FakePlacement:
    """An agent that has ended already."""

    def running(self) -> bool:
        return False

    def interrupt(self) -> None: ...

    def kill(self) -> None: ...

    def evidence(self) -> str:
        return ""

    def termination_cause(self) -> VolbenchError | None:
        return None

    def remove(self) -> None: ...


@dataclass
class FakeTarget:
    """Writes each cell's result at once: that of the template run, changed by `change(cell_id, attempt)`."""

    results: Mapping[str, CellResult]
    change: Callable[[str, int, CellResult], CellResult]
    placed: list[str] = field(default_factory=list)
    name: str = "local"
    template_on_volume: bool = False
    parallel: int = 1

    def check(self) -> None: ...

    def cell_paths(self, cell_id: str, volume: OpenVolume | None) -> CellPlaces | None:  # noqa: ARG002
        return CellPlaces(data_dir="/d", volume_dir="/v", control_dir="/c", template_dir="/t", scratch_dir="/s")

    def launch(self, job: Job) -> Placement:
        if job.kind == "prepare":
            write_record(job.out / TEMPLATE_FILE, PreparedTemplate(key="k", bytes=1, reused=True))
            result = next(iter(self.results.values())).model_copy(update={"cell_id": job.cell.cell_id, "steps": ()})
        else:
            self.placed.append(job.cell.cell_id)
            result = self.results[job.cell.cell_id].model_copy(update={"attempt": job.cell.attempt})
            result = self.change(job.cell.cell_id, job.cell.attempt, result)
        write_record(job.out / RESULT_FILE, result)
        return FakePlacement()

    def find(self, job: Job) -> Placement:  # noqa: ARG002
        return FakePlacement()

    def close_volume(self, volume: OpenVolume) -> None: ...

    def clean_up(self) -> None: ...
