"""The attach target: agents on this machine, of servers that run already."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial

from typing_extensions import override

from volbench.core.records.cell import AttachSpec, CellSpec
from volbench.core.records.own_files import dump_directories
from volbench.machine.placement.interface import Job, TemplateScope
from volbench.machine.placement.local import CellDirectories, LocalTarget
from volbench.machine.placement.workspace import Workspace
from volbench.machine.volume.interface import OpenVolume
from volbench.measure.execute.cleanup import push_cleanup


class AttachedTarget(LocalTarget):
    """Child processes that connect to servers; nothing of a server is placed, started or configured.

    Args:
        servers: by the name of the volume that stands for each.
    """

    templates: TemplateScope = "none"

    def __init__(self, workspace: Workspace, servers: Mapping[str, AttachSpec]) -> None:
        super().__init__(workspace)
        self._servers = servers

    def check(self) -> None:
        """Connect to each server. Raise UsageError for a refused account, MissingPrerequisite without an answer."""
        # Imported here: the connector is an extra, which a run in containers or pods does without.
        from volbench.machine.engine.attached import AttachedServer  # noqa: PLC0415

        for attach in self._servers.values():
            AttachedServer(attach).close()

    @override
    def with_server(self, cell: CellSpec, volume: OpenVolume | None) -> CellSpec:
        """Return the cell with its server's address."""
        return cell.model_copy(update={"attach": self._servers[cell.volume]})

    def directories(self, job: Job) -> CellDirectories:
        """Return the agent's own directory: it has no part in the server's."""
        control_dir = self._workspace.control_dir(job.cell.cell_id)
        return CellDirectories(own=(control_dir,), dumps=tuple(dump_directories(job.cell)))

    def variables(self, job: Job) -> dict[str, str]:
        """Return where option files go."""
        return {"TMPDIR": str(self._workspace.control_dir(job.cell.cell_id))}

    @override
    def stand_by(self, cell_id: str) -> None:
        """Do nothing: an agent's directory of temporary files is there from its launch on."""

    def clean_up(self) -> None:
        """Remove the run's tables from each server, then what an agent left on this machine."""
        from volbench.machine.engine.attached_dataset import remove_from_server  # noqa: PLC0415 - as in `check`

        run_id = self._workspace.run_id
        with ExitStack() as stack:
            push_cleanup(stack, super().clean_up)
            for attach in self._servers.values():
                push_cleanup(stack, partial(remove_from_server, attach, run_id=run_id))
