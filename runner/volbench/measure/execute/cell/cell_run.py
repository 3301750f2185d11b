"""A cell under way: what its parts share, and the questions whose answers depend on who started its server."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from volbench.core.records.cell import CellSpec
from volbench.core.records.dataset import DatasetSpec
from volbench.core.records.facts import VolumeFacts
from volbench.core.records.layout import ComponentFacts
from volbench.core.records.own_files import dump_folder
from volbench.core.records.steps import Step
from volbench.machine.engine.server import AttachedServer, Server
from volbench.machine.host.blockstats import device_read_bytes
from volbench.machine.host.host import host_facts
from volbench.machine.volume.facts.ebs_csi import driver_url, ebs_volume_id, nvme_devices
from volbench.machine.volume.node_helper import helper_socket
from volbench.measure.execute.cell.progress import ProgressFile
from volbench.measure.execute.cell.recorder import CellRecorder
from volbench.measure.execute.cell.result_builder import CellResultBuilder
from volbench.measure.sample.config import RAW_FILE, SamplingConfig
from volbench.measure.workload.interface import StepContext


class CellRun(ABC):
    """One cell, on a server that volbench starts (`OwnedCell`) or on one that runs already (`AttachedCell`).

    Attributes:
        cell, out: the instructions, and the directory of the results.
        builder: collects what becomes result.json.
        record: writes what steps and samplers measure.
        progress: says how far the cell is.
        cancelled: is set when a volume stays in trouble, so that a step ends early.
        server: set by `serving`.
    """

    server: Server | AttachedServer

    def __init__(
        self,
        cell: CellSpec,
        out: Path,
        record: CellRecorder,
        *,
        volume_facts: VolumeFacts,
        components: tuple[ComponentFacts, ...] = (),
    ) -> None:
        self.cell = cell
        self.out = out
        self.record = record
        self.builder = CellResultBuilder(cell, volume_facts=volume_facts, components=components, host=host_facts())
        self.progress = ProgressFile(out)
        self.cancelled = threading.Event()

    @property
    def dataset(self) -> DatasetSpec:
        """The tables that the steps work on."""
        return self.cell.dataset

    @abstractmethod
    def serving(self) -> AbstractContextManager[None]:
        """Have a server and its volumes at hand for the block, and remove afterwards what the cell made there."""

    @abstractmethod
    def start(self) -> None:
        """Bring the dataset to a server that answers, while the samplers run. Raise StepFailed."""

    @abstractmethod
    def context(self) -> StepContext:
        """Return what steps may use."""

    @abstractmethod
    def is_discarded_after(self, step: Step) -> bool:
        """Return whether server and data are discarded after a step, so that its load need not end in order."""

    def is_before_load(self, step: Step) -> bool:  # noqa: ARG002
        """Return whether a load follows a step on volbench's own server, so that this one need not end in order."""
        return False

    @abstractmethod
    def end(self) -> None:
        """Do what follows the last step."""

    def sampling_config(self) -> SamplingConfig:
        """Return where the sources are."""
        facts = self.builder.volume_facts
        physical = facts.physical_disks
        return SamplingConfig(
            raw_file=str(self.out / RAW_FILE),
            zero_monotonic_ns=self.builder.clock.zero_monotonic_ns,
            interval_s=self.cell.sampling.interval_s,
            sources=self.cell.sampling.sources,
            disks=facts.counted_disks,
            nvme_devices=nvme_devices(physical),
            node_helper=str(helper_socket() or ""),
            ebs_csi_url=driver_url(),
            ebs_volume_id=ebs_volume_id(physical[0] if len(physical) == 1 else None),
            mount_point=facts.mount_point or "" if facts.nfs_server else "",
            option_file=str(self.server.option_file),
            client_pids=(os.getpid(),),
        )

    def _context(self, *, volume_dir: Path, scratch_dir: Path) -> StepContext:
        """Return what steps may use on either kind of server."""
        return StepContext(
            server=self.server,
            dataset=self.dataset,
            volume_facts=self.builder.volume_facts,
            volume_dir=volume_dir,
            scratch_dir=scratch_dir,
            seed=self.cell.seed,
            clock=self.builder.clock,
            record=self.record,
            progress=self.progress.report,
            cancelled=self.cancelled,
            device_read_bytes=partial(device_read_bytes, self.builder.volume_facts),
            dump_folder=dump_folder(self.cell),
        )
