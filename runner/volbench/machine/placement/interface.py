"""The interface of targets: a target launches a cell's agent and server, and finds both again after a restart."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from volbench.core.records.cell import CellSpec
from volbench.core.records.run import PlannedCell
from volbench.errors import VolbenchError
from volbench.machine.volume.interface import OpenVolume

JobKind = Literal["run", "prepare"]
TemplateScope = Literal["machine", "volume", "none"]
"""What has a template of the dataset: the machine's cache, each volume, or nothing, since servers run already."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """One agent to place: `cell run` on a volume, or `cell prepare` of the dataset's template.

    `out` is the cell's directory in the run's, with a cell.json that says where its server is.
    `supervisor_script` goes into the control directory of a server in a container.
    """

    kind: JobKind
    cell: CellSpec
    out: Path
    supervisor_script: bytes
    volume: OpenVolume | None = None


class Placement(Protocol):
    """An agent that this process or an earlier one launched."""

    def running(self) -> bool:
        """Return whether the agent still runs."""

    def wait_for_end(self, seconds: float) -> None:
        """Wait until the agent may have ended, at most so long."""

    def interrupt(self) -> None:
        """Ask the agent to stop early with its results so far; return at once."""

    def kill(self) -> None:
        """Kill agent and server, whatever their state."""

    def evidence(self) -> str:
        """Return exit code and last log lines, for a message."""

    def termination_cause(self) -> VolbenchError | None:
        """Return why the agent ended, if the target knows: an eviction, a lost node. None: unknown."""

    def remove(self) -> None:
        """Remove what the placement left: processes, containers, control and scratch directories, data.

        Safe to call twice, and after the agent's own cleanup.
        """


@runtime_checkable
class StandsBy(Protocol):
    """A target that can start an agent before its turn, so that its imports pass while the cell before ends."""

    def stand_by(self, cell_id: str) -> None:
        """Start the agent of the cell that is next; it waits for its `launch`. Called where nothing is measured."""


class Target(Protocol):
    """An environment in which cells run."""

    name: str
    templates: TemplateScope

    parallel: int
    """Cells that may run at once, each on a volume of its own; with lanes, lanes."""

    def lane_of(self, cell: PlannedCell) -> str:
        """Return the lane of a planned cell, empty for none: volumes that the run makes are one lane's alone."""

    def check(self) -> None:
        """Raise MissingPrerequisite, with the command for a fix, if cells cannot run here."""

    def with_server(self, cell: CellSpec, volume: OpenVolume | None) -> CellSpec:
        """Return the cell with the places of its server, or with the address of one that runs already."""

    def launch(self, job: Job) -> Placement:
        """Create the job's directories and start its agent."""

    def find(self, job: Job) -> Placement:
        """Return the job's placement, of a running or ended agent."""

    def close_volume(self, volume: OpenVolume) -> None:
        """Remove the run's directory from a volume."""

    def clean_up(self) -> None:
        """Remove everything else of this run on the machine."""
