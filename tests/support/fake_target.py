"""A target without servers: each agent does what a script says, and every call is recorded in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from synthetic_run import build_run, two_volumes

from volbench.core.records.cell import (
    CellPlaces,
    CellResult,
    CellSpec,
    Disturbance,
    Failure,
    PreparedTemplate,
    StepResult,
)
from volbench.core.records.run import PlannedCell
from volbench.errors import VolbenchError
from volbench.machine.placement.interface import Job, Placement, TemplateScope
from volbench.machine.volume.interface import OpenVolume, VolumeBase
from volbench.measure.execute.run import Orchestrator
from volbench.results.store.files import write_record
from volbench.results.store.run_directory import RESULT_FILE, TEMPLATE_FILE, RunDirectory

PATHS = CellPlaces(data_dir="/d", volume_dir="/v", control_dir="/c", template_dir="/t", scratch_dir="/s")
Script = Callable[[str, int, CellResult], CellResult | None]
"""Cell, attempt and a good result -> the result that the agent writes; None: it ends without one."""


BUSY = "other work on the machine used 70% of its CPUs (1.4 of 2; limit 10%)"


def good(_cell_id: str, _attempt: int, result: CellResult) -> CellResult:
    """An agent that succeeds."""
    return result


def failed(result: CellResult, *, cause: str = "step_failed", exit_code: int = 5) -> CellResult:
    """The result with a failure instead of steps."""
    failure = Failure(cause=cause, message="sysbench failed", where="step rw", evidence="E", exit_code=exit_code)
    return result.model_copy(update={"status": "failed", "failure": failure, "steps": ()})


def disturbed(result: CellResult, *, delayed_share: float) -> CellResult:
    """The result, with every step disturbed for so much of its time."""
    disturbance = Disturbance(kind="foreign_cpu", size=0.7, limit=0.1, delayed_share_max=delayed_share, text=BUSY)
    changes = {
        "valid": False,
        "invalid_reasons": (BUSY,),
        "outside_reasons": (BUSY,),
        "disturbances": (disturbance,),
    }
    steps = tuple(step.model_copy(update=changes) for step in result.steps)
    return result.model_copy(update={"steps": steps})


def scaled(result: CellResult, factor: float) -> CellResult:
    """The result with each figure of its steps times a factor."""

    def of_step(step: StepResult) -> StepResult:
        metrics = {
            name: value.model_copy(update={"value": value.value * factor}) for name, value in step.metrics.items()
        }
        return step.model_copy(update={"metrics": metrics})

    return result.model_copy(update={"steps": tuple(map(of_step, result.steps))})


class FakeVolume(VolumeBase):
    """A volume that needs nothing."""

    def open(self) -> OpenVolume:
        return OpenVolume(name=self.spec.name, spec=self.spec)


@dataclass
class FakePlacement:
    """An agent that runs for so many polls; `on_poll` is called at each one."""

    target: FakeTarget
    cell_id: str
    polls: int = 0
    on_poll: Callable[[], None] = lambda: None

    def running(self) -> bool:
        if self.polls <= 0:
            return False
        self.polls -= 1
        self.on_poll()
        return True

    def wait_for_end(self, seconds: float) -> None:
        assert seconds >= 0

    def interrupt(self) -> None:
        self.target.calls.append(f"interrupt {self.cell_id}")
        self.polls = 0

    def kill(self) -> None:
        self.target.calls.append(f"kill {self.cell_id}")
        self.polls = 0

    def evidence(self) -> str:
        return "last line of the agent's log"

    def termination_cause(self) -> VolbenchError | None:
        return self.target.termination_cause

    def remove(self) -> None:
        self.target.calls.append(f"remove {self.cell_id}")


@dataclass
class FakeTarget:
    """Launches agents that write the result of `script` at once.

    Args:
        results: a good result for each cell.
        polls: how often an agent is seen running, by cell.
        left_running: cells whose agent an earlier orchestrator launched.
    """

    results: Mapping[str, CellResult]
    script: Script = good
    polls: dict[str, int] = field(default_factory=dict)
    on_poll: Callable[[], None] = lambda: None
    termination_cause: VolbenchError | None = None
    calls: list[str] = field(default_factory=list)
    name: str = "local"
    templates: TemplateScope = "machine"
    parallel: int = 1

    @property
    def launched(self) -> list[str]:
        """Cells in the order of their launches, without templates."""
        return [
            call.removeprefix("launch ")
            for call in self.calls
            if call.startswith("launch ") and "template" not in call
        ]

    def lane_of(self, cell: PlannedCell) -> str:  # noqa: ARG002
        return ""

    def check(self) -> None:
        self.calls.append("check")

    def with_server(self, cell: CellSpec, volume: OpenVolume | None) -> CellSpec:  # noqa: ARG002
        return cell.model_copy(update={"places": PATHS})

    def launch(self, job: Job) -> Placement:
        cell = job.cell
        self.calls.append(f"launch {cell.cell_id}")
        self.write_result(job)
        return self.find(job)

    def write_result(self, job: Job) -> None:
        """What the agent leaves."""
        cell = job.cell
        if job.kind == "prepare":
            write_record(job.out / TEMPLATE_FILE, PreparedTemplate(key="k", bytes=1, reused=True))
            some = next(iter(self.results.values()))
            write_record(job.out / RESULT_FILE, some.model_copy(update={"cell_id": cell.cell_id, "steps": ()}))
            return
        result = self.script(
            cell.cell_id, cell.attempt, self.results[cell.cell_id].model_copy(update={"attempt": cell.attempt})
        )
        if result is not None:
            write_record(job.out / RESULT_FILE, result)

    def find(self, job: Job) -> Placement:
        cell_id = job.cell.cell_id
        return FakePlacement(target=self, cell_id=cell_id, polls=self.polls.pop(cell_id, 0), on_poll=self.on_poll)

    def close_volume(self, volume: OpenVolume) -> None:
        self.calls.append(f"close {volume.name}")

    def clean_up(self) -> None:
        self.calls.append("clean up")


@dataclass
class Bench:
    """A planned run and good results for its cells."""

    directory: RunDirectory
    results: Mapping[str, CellResult]
    messages: list[str] = field(default_factory=list)

    @classmethod
    def create(
        cls, path: Path, *, until: Literal["all_cells", "decided"] = "all_cells", **changes: object
    ) -> Bench:
        """Plan a run of two volumes below a directory; `changes` are those of the synthetic run."""
        complete = build_run(path / "complete", two_volumes(**changes))
        results = {result.cell_id: result for result in complete.results()}
        comparison = complete.run.suite.comparison.model_copy(update={"until": until})
        suite = complete.run.suite.model_copy(update={"comparison": comparison})
        planned = complete.run.model_copy(update={"suite": suite})
        return cls(directory=RunDirectory.create(path, planned), results=results)

    @property
    def cell_ids(self) -> list[str]:
        """The planned cells in order."""
        return [cell.cell_id for cell in self.directory.run.cells]

    def target(self, script: Script = good) -> FakeTarget:
        """A new target for this run."""
        return FakeTarget(results=self.results, script=script)

    def orchestrator(self, target: FakeTarget, **options: object) -> Orchestrator:
        """An orchestrator of this run."""
        volumes = {spec.name: FakeVolume(spec) for spec in self.directory.run.volumes}
        return Orchestrator(self.directory, target, volumes, on_message=self.messages.append, **options)  # type: ignore[arg-type]

    def events(self, *names: str) -> list[tuple[str, str, int]]:
        """Event, cell and attempt of the journal, of these events only."""
        return [(e.event, e.cell_id, e.attempt) for e in self.directory.events() if e.event in names]
