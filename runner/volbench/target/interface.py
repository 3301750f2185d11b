"""What a target is: it places a cell's agent beside a server, and can find it again after a restart."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from volbench.errors import VolbenchError
from volbench.records.cell import CellPlaces, CellSpec
from volbench.volume.interface import OpenVolume

JobKind = Literal["run", "prepare"]


@dataclass(frozen=True, kw_only=True)
class Job:
    """One agent to place: `cell run` on a volume, or `cell prepare` of the dataset's template.

    `out` is the cell's directory in the run's; its cell.json is there, with `places` filled in.
    `supervisor_script` goes into the control directory of a server in a container.
    """

    kind: JobKind
    cell: CellSpec
    out: Path
    supervisor_script: bytes
    volume: OpenVolume | None = None

    @property
    def places(self) -> CellPlaces | None:
        """Where things are for the agent; None for a server that runs already (attach)."""
        return self.cell.places


class Placement(Protocol):
    """An agent that was placed, by this process or an earlier one."""

    def running(self) -> bool:
        """Whether the agent still works."""

    def interrupt(self) -> None:
        """Ask the agent to stop early, keeping what it has; returns at once."""

    def kill(self) -> None:
        """End agent and server at once, whatever state they are in."""

    def evidence(self) -> str:
        """Exit code and last log lines, for a message."""

    def why_ended(self) -> VolbenchError | None:
        """Who ended the agent, where the target knows: an eviction, a node that was lost. None: nobody else."""

    def remove(self) -> None:
        """Take away what the placement left: processes, containers, control and scratch directories, data.

        Safe to call twice, and after the agent has cleaned up by itself.
        """


class Target(Protocol):
    """Where cells run."""

    name: str
    template_on_volume: bool
    """Each volume holds a template of its own; otherwise the machine's cache holds one for all."""

    parallel: int
    """Cells that may run at once, each on a volume of its own."""

    def check(self) -> None:
        """Raise EnvironmentLacks, with the command that mends it, when cells cannot run here."""

    def places(self, cell_id: str, volume: OpenVolume | None) -> CellPlaces | None:
        """Where the agent of that cell will find things."""

    def place(self, job: Job) -> Placement:
        """Make the job's directories and start its agent."""

    def find(self, job: Job) -> Placement:
        """The placement that the job has or had; `running()` tells which."""

    def close_volume(self, volume: OpenVolume) -> None:
        """Remove the run's directory from a volume."""

    def clean_up(self) -> None:
        """Remove what else is left of this run on the machine."""
