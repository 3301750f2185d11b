"""A cell whose server volbench starts on a copy of the dataset, and discards with its data."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from importlib import import_module
from itertools import pairwise
from pathlib import Path

from typing_extensions import override

from volbench.core.base.python import importing_modules
from volbench.core.base.text import counted, size
from volbench.core.records.cell import AT_REST_SHARE, CellPlaces, CellSpec
from volbench.core.records.dataset import DatasetSpec
from volbench.core.records.size_contrast import read_load_s
from volbench.core.records.steps import Step
from volbench.machine.engine.server import Server
from volbench.machine.engine.template import TemplateRecord, seed, verify_template
from volbench.measure.execute.cell.cell_run import CellRun
from volbench.measure.execute.cell.components import (
    check_components,
    component_configs,
    component_facts,
    preparing,
    reset_volumes,
    volume_facts,
)
from volbench.measure.execute.cell.recorder import CellRecorder
from volbench.measure.execute.cell.server_accounts import TASK_FILE, accounts_of, server_pids, state_file
from volbench.measure.execute.cell.snapshots import SnapshotRequests
from volbench.measure.execute.cell.summaries import write_summaries
from volbench.measure.execute.cell.supervision import running_supervisor
from volbench.measure.execute.cell.volume_access import on_volumes
from volbench.measure.sample.config import SamplingConfig
from volbench.measure.workload.interface import StepContext
from volbench.measure.workload.registry import modules_for

LATER_MODULES = (
    "volbench.results.store.series",
    "volbench.results.store.histograms",
    "volbench.measure.sample.rows",
    "volbench.measure.execute.cell.judging",
    "volbench.measure.workload.size_contrast",
)
"""What no work before the first step needs, with the modules of the cell's steps: half of the agent's imports. They
pass while the server starts, which nothing measures, and not while the device is watched at rest, since they read
files."""
QUIET_S = 1.0
"""How long the device is watched before the cell touches it, for I/O of other processes."""
QUIET_S_MAX = 5.0
"""A grid so coarse that no whole interval fits into this time cannot show the device at rest."""


class OwnedCell(CellRun):
    """Runs a cell on a server of its own.

    Args:
        paths: where the server and its files are.
    """

    server: Server

    def __init__(self, cell: CellSpec, paths: CellPlaces, out: Path, record: CellRecorder) -> None:
        super().__init__(
            cell,
            out,
            record,
            volume_facts=volume_facts(cell, paths),
            components=component_facts(cell, paths),
        )
        self._paths = paths

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Yield with empty volumes and a server that is not yet started; both are as empty after the block."""
        reset_volumes(self.cell, self._paths)
        with (
            on_volumes(self._paths, self.cancelled) as self._outage,
            running_supervisor(self._paths) as supervisor,
        ):
            self.server = Server(spec=self.cell.server, paths=self._paths, supervisor=supervisor)
            yield

    def start(self) -> None:
        """Watch the quiet device, copy the template onto the volume, start the server."""
        builder, progress = self.builder, self.progress
        with builder.phase("quiet"):
            progress.report("watching the device at rest")
            # This is a measurement: the samplers run.
            time.sleep(quiet_duration_s(self.cell.sampling.interval_s, now_s=builder.clock.now_s()))
        with preparing(self.cell, self._paths):
            with builder.phase("seed"):
                progress.report("copying the dataset")
                template_dir = Path(self._paths.template_dir) / self.cell.template_key
                seed(template_dir, Path(self._paths.data_dir), components=self._paths.layout)
            if self.dataset.is_own:
                template = verify_template(template_dir).record
                builder.notes += [_dataset_note(self.dataset, template), *template.notes]
            with builder.phase("start"), importing((*LATER_MODULES, *modules_for(self.cell.steps))):
                progress.report("starting the server")
                self.server.start()
        builder.notes += check_components(self._paths)

    def context(self) -> StepContext:
        """Return what steps may use: the volumes, too."""
        paths = self._paths
        snapshots = SnapshotRequests(self.progress, Path(paths.control_dir)) if paths.snapshots else None
        return replace(
            self._context(volume_dir=Path(paths.volume_dir), scratch_dir=Path(paths.scratch_dir)),
            emulator_socket=Path(paths.emulator_socket) if paths.emulator_socket else None,
            layout=paths.layout,
            outage=self._outage,
            take_snapshot=snapshots.take if snapshots else None,
            modify_claim=snapshots.modify if snapshots else None,
        )

    def is_discarded_after(self, step: Step) -> bool:
        """Return whether the step is the cell's last one."""
        return step is self.cell.steps[-1]

    @override
    def is_before_load(self, step: Step) -> bool:
        """Return whether the next step is a load."""
        steps = self.cell.steps
        return any(following.kind == "oltp" for before, following in pairwise(steps) if before is step)

    def end(self) -> None:
        """Ask the server what is encrypted; describe host, server and volume in the first block; end the server."""
        if self.server.alive() and (encrypted := self.server.check_encryption()):
            self.builder.notes.append(encrypted)
        if self.cell.sampling.summaries and self.cell.block == 0 and self.server.alive():
            with self.builder.phase("summaries"):
                self.progress.report("describing host and server")
                write_summaries(
                    self.out / "raw",
                    option_file=self.server.option_file,
                    scratch_dir=Path(self._paths.scratch_dir),
                )
        with self.builder.phase("kill"):
            self.server.kill()  # the data is discarded: a clean shutdown would only write the data out once more
        seconds = self._contrast_s()
        if seconds:
            with self.builder.phase("contrast"):
                self._contrast_reads(seconds)

    def _contrast_s(self) -> float:
        """Return the seconds of each load of the contrast of sizes after the last step; 0: there is none."""
        sampling, builder = self.cell.sampling, self.builder
        first = builder.window_of(f"step:{self.cell.steps[0].name}")
        if self.cell.block > 0 or first is None:
            return 0.0
        steps_s = builder.clock.now_s() - first[0]
        return read_load_s(sampling.size_contrast_s, interval_s=sampling.interval_s, steps_s=steps_s)

    def _contrast_reads(self, seconds: float) -> None:
        """Read the data with operations of two sizes; a failure is a note. The server does not run."""
        from volbench.measure.workload.size_contrast import (  # noqa: PLC0415 - see LATER_MODULES
            ContrastRunner,
            contrast_of_reads,
        )

        runner = ContrastRunner(
            clock=self.builder.clock,
            cancelled=self.cancelled,
            cwd=Path(self._paths.scratch_dir),
            progress=self.progress.report,
        )
        contrasts, failure = contrast_of_reads(Path(self._paths.data_dir), seconds=seconds, runner=runner)
        self.builder.size_contrasts += contrasts
        if failure:
            self.builder.notes.append(failure)

    def sampling_config(self) -> SamplingConfig:
        """Return where the sources are: of the server also what kernel and target say."""
        accounts = accounts_of(self._paths)
        return replace(
            super().sampling_config(),
            cgroup_dir=accounts.server_io,
            server_state=state_file(self._paths),
            server_cpu_files=accounts.server_cpu,
            client_cpu_files=accounts.client_cpu,
            emulator_socket=self._paths.emulator_socket,
            components=component_configs(self._paths, self.builder.components),
            server_pids=server_pids(self._paths),
            task_file=str(Path(self._paths.control_dir) / TASK_FILE),
        )


def _dataset_note(dataset: DatasetSpec, record: TemplateRecord) -> str:
    tables = f"{counted(len(record.tables), 'table')}, {counted(record.rows, 'row')}, {size(record.data_bytes)}"
    return f"own data ({dataset.kind}): {tables} with the server's files; hash {record.sha256[:16]}"


def quiet_duration_s(interval_s: float, *, now_s: float) -> float:
    """Return how long the watch takes from now on, right after the samplers' first reading.

    It ends with the first reading that closes (nearly) a whole interval. The limit is in I/Os per second of such an
    interval: over less, a burst that stays within the limit of a second, such as a commit of the file system's
    journal, would exceed it. The grid has a reading at each multiple of the interval, in the cell's time.
    """
    if (1.1 + AT_REST_SHARE) * interval_s > QUIET_S_MAX:
        return QUIET_S
    end_s = (math.ceil(now_s / interval_s + AT_REST_SHARE) + 0.1) * interval_s
    return max(QUIET_S, end_s - now_s)


@contextmanager
def importing(modules: Sequence[str]) -> Iterator[None]:
    """Import modules in a thread during the block. What cannot be imported fails where it is needed."""

    def import_all() -> None:
        with suppress(ImportError), importing_modules():
            for name in modules:
                import_module(name)

    thread = threading.Thread(target=import_all, name="imports", daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join()
