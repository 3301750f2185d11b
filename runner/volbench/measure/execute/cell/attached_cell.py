"""A cell on a server that runs already: volbench makes tables in it, and neither starts nor ends it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from typing_extensions import override

from volbench.core.records.cell import AttachSpec, CellSpec
from volbench.core.records.dataset import DatasetSpec
from volbench.core.records.facts import VolumeFacts
from volbench.core.records.steps import Step
from volbench.errors import MissingPrerequisite
from volbench.machine.engine.attached import AttachedServer
from volbench.machine.engine.attached_dataset import MARK_TABLE, attached_dataset
from volbench.machine.volume.facts.discovery import discover
from volbench.measure.execute.cell.cell_run import CellRun
from volbench.measure.execute.cell.recorder import CellRecorder
from volbench.measure.sample.config import SamplingConfig
from volbench.measure.workload.interface import StepContext


class AttachedCell(CellRun):
    """Runs a cell on fresh tables of a server that somebody else runs.

    Args:
        attach: the server's address and account.
    """

    server: AttachedServer

    def __init__(self, cell: CellSpec, attach: AttachSpec, out: Path, record: CellRecorder) -> None:
        super().__init__(cell, out, record, volume_facts=VolumeFacts(path=""))
        self._attach = attach

    @property
    def dataset(self) -> DatasetSpec:
        """The tables, in the schema that the DSN names."""
        return self.cell.dataset.model_copy(update={"schema_name": self._attach.schema_name})

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Connect, have fresh tables for the block, and find what backs them if that is on this machine."""
        with AttachedServer(self._attach) as self.server:
            begun_s = self.builder.clock.now_s()
            progress = self.progress.report
            with attached_dataset(self.server, self.dataset, run_id=self.cell.run_id, progress=progress):
                self.builder.add_phase("seed", begun_s)
                self.builder.volume_facts = _volume_of(self.server, self.dataset.schema_name)
                self.builder.notes.append("volbench did not start this server: its other load is in the numbers")
                yield

    def start(self) -> None:
        """Do nothing: the server runs, and its tables are made before the samplers begin."""

    def context(self) -> StepContext:
        """Return what steps may use: no file on the server's volume."""
        return self._context(volume_dir=self.out, scratch_dir=self.server.scratch_dir)

    @override
    def is_discarded_after(self, step: Step) -> bool:
        """Return False: the server goes on."""
        return False

    def end(self) -> None:
        """Do nothing: the server goes on."""

    def sampling_config(self) -> SamplingConfig:
        """Return where the sources are: of the server only what it says itself."""
        return replace(super().sampling_config(), over_tcp=self.server.socket is None)


def _volume_of(server: AttachedServer, schema: str) -> VolumeFacts:
    """Return what backs the server's data directory, if the tables just made are visible in it from here."""
    try:
        directory = server.data_dir
    except MissingPrerequisite as error:
        return VolumeFacts(path=error.evidence, notes=("the server's data is not on this machine",))
    if not (directory / schema / f"{MARK_TABLE}.ibd").exists():
        return VolumeFacts(path=str(directory), notes=("the server's data directory cannot be seen from here",))
    return discover(directory)
