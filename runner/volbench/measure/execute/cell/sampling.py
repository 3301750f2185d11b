"""Samples every source while a cell runs, and writes the rows to the cell's tables afterwards."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from subprocess import Popen

from volbench.core.base import safe_files
from volbench.core.records.cell import CellSpec, StepResult
from volbench.core.records.series import HistogramRow
from volbench.machine.engine.supervisor import STATE_FILE, SUPERVISOR_PID_FILE
from volbench.machine.placement.processes import KnownProcess
from volbench.machine.volume.facts.ebs_csi import driver_url, ebs_volume_id, nvme_devices
from volbench.machine.volume.node_helper import helper_socket
from volbench.measure.execute.cell.cell_server import CellServer
from volbench.measure.execute.cell.recorder import CellRecorder
from volbench.measure.execute.cell.result_builder import CellResultBuilder
from volbench.measure.sample.cgroup.cgroup_cpu import find_cpu_files
from volbench.measure.sample.cgroup.cgroup_io import find_directory
from volbench.measure.sample.cgroup.cgroup_pod import CGROUPS, cgroup_root_of, own_cpu_files, own_io_directory
from volbench.measure.sample.config import RAW_FILE, ComponentConfig, SamplingConfig
from volbench.measure.sample.controller import SamplingProcess

SERVER_CGROUP_FILE = "cgroup"
CONTROL_BYTES_MAX = 1 << 16
"""In the control directory: /proc/PID/cgroup of a server in a container, written by the target."""
SERVER_PID_FILE = "container.pid"
"""In the control directory: first process of the server's container, where the agent shares its process ids."""
TASK_FILE = "tasks.json"
"""In the control directory: the target's figures of the cell's processes, which the agent cannot see."""
CGROUP_ROOTS = (Path("/volbench/cgroup"), Path("/sys/fs/cgroup"))


@contextmanager
def sampling(
    cell: CellSpec,
    out: Path,
    builder: CellResultBuilder,
    server: CellServer,
    record: CellRecorder,
    launched: Popen[bytes] | None = None,
) -> Iterator[None]:
    """Run the sampling process during the block, and record its rows however the block ends."""
    raw_file = out / RAW_FILE
    process = SamplingProcess(_config(cell, raw_file, builder, server), launched=launched)
    process.start()
    try:
        yield
    finally:
        from volbench.measure.sample.rows import series_rows, server_histogram_rows  # noqa: PLC0415 - imports all sources

        builder.sources.extend(process.stop())
        record.series(series_rows(raw_file))
        record.histograms(label_with_step(server_histogram_rows(raw_file), builder.steps))


def label_with_step(rows: Iterator[HistogramRow], steps: Sequence[StepResult]) -> Iterator[HistogramRow]:
    """Yield rows with the name of the step that ran; an interval inside the step's window counts as measured."""
    for row in rows:
        for step in steps:
            t0_s, t1_s = step.window_s
            if "/" not in step.step and t0_s < row.t_s and row.t_s - row.interval_s < t1_s:
                inside = t0_s <= row.t_s - row.interval_s and row.t_s <= t1_s
                yield replace(row, step=step.step, measured=inside)
                break


def _config(cell: CellSpec, raw_file: Path, builder: CellResultBuilder, server: CellServer) -> SamplingConfig:
    facts = builder.volume_facts
    physical = facts.physical_disks
    accounts = _accounts(cell)
    task_file = str(Path(cell.places.control_dir) / TASK_FILE) if cell.places else ""
    return SamplingConfig(
        raw_file=str(raw_file),
        zero_monotonic_ns=builder.clock.zero_monotonic_ns,
        interval_s=cell.sampling.interval_s,
        sources=cell.sampling.sources,
        disks=facts.counted_disks,
        nvme_devices=nvme_devices(physical),
        node_helper=str(helper_socket() or ""),
        ebs_csi_url=driver_url(),
        ebs_volume_id=ebs_volume_id(physical[0] if len(physical) == 1 else None),
        mount_point=facts.mount_point or "" if facts.nfs_server else "",
        cgroup_dir=accounts.server_io,
        server_state=_state_file(cell),
        server_cpu_files=accounts.server_cpu,
        client_cpu_files=accounts.client_cpu,
        over_tcp=cell.attach is not None and server.socket is None,
        option_file=str(server.option_file),
        emulator_socket=cell.places.emulator_socket if cell.places else "",
        components=_components(cell, builder),
        server_pids=_server_pids(cell),
        client_pids=(os.getpid(),),
        task_file=task_file,
    )


def _components(cell: CellSpec, builder: CellResultBuilder) -> tuple[ComponentConfig, ...]:
    """Return the devices of each component of the cell's layout."""
    components = cell.places.layout if cell.places else ()
    facts = [component.volume_facts for component in builder.components]
    return tuple(
        ComponentConfig(
            component=component.name,
            disks=volume.counted_disks,
            nvme_devices=nvme_devices(volume.physical_disks),
            mount_point=volume.mount_point or "" if volume.nfs_server else "",
            emulator_socket=component.emulator_socket,
        )
        for component, volume in zip(components, facts, strict=True)
    )


def _server_pids(cell: CellSpec) -> tuple[int, ...]:
    """Return the pid of the server's starter; empty if the server is not visible.

    Without it, the server's use of the machine cannot be separated from that of other processes.
    """
    if cell.places is None:
        return ()
    control = Path(cell.places.control_dir)
    if cell.places.supervisor == "launch":
        supervisor = KnownProcess.from_file(control / SUPERVISOR_PID_FILE)
        return (supervisor.pid,) if supervisor else ()
    try:
        return (int(_control_file(cell, SERVER_PID_FILE)),)
    except (OSError, ValueError):
        return ()


@dataclass(frozen=True, kw_only=True)
class _Accounts:
    """The kernel's accounts of what server and client use; empty if not visible."""

    server_io: str = ""
    server_cpu: tuple[str, ...] = ()
    client_cpu: tuple[str, ...] = ()


def _accounts(cell: CellSpec) -> _Accounts:
    if cell.places is not None:
        try:
            server = cgroup_root_of(int(_control_file(cell, SERVER_PID_FILE)))
        except (OSError, ValueError):
            pass  # not in a pod
        else:
            return _Accounts(
                server_io=str(own_io_directory(server) or ""),
                server_cpu=own_cpu_files(server),
                client_cpu=own_cpu_files(CGROUPS),
            )
    group = _server_group(cell)
    return _Accounts(
        server_io=_cgroup_dir(group),
        server_cpu=_cpu_files(group),
        client_cpu=_cpu_files(Path("/proc/self/cgroup").read_text()) if group else (),
    )


def _state_file(cell: CellSpec) -> str:
    """Where the supervisor says which process its server is; empty when that is no process of this machine."""
    if cell.places is None or cell.places.supervisor != "launch":
        return ""
    return str(Path(cell.places.control_dir) / STATE_FILE)


def _server_group(cell: CellSpec) -> str:
    """Return what the target wrote of the server's control group; empty if the server has none of its own.

    A server that is started here is followed by its process, see `_state_file`.
    """
    if cell.places is None:
        return ""
    try:
        return _control_file(cell, SERVER_CGROUP_FILE)
    except (OSError, ValueError):
        return ""


def _control_file(cell: CellSpec, name: str) -> str:
    """Return what a target wrote into the control directory, where the server's container may write too.

    Raises OSError, ValueError.
    """
    control = cell.places.control_dir if cell.places is not None else ""
    return safe_files.read_beside(Path(control) / name, bytes_max=CONTROL_BYTES_MAX).decode()


def _cpu_files(group: str) -> tuple[str, ...]:
    """Return the files of a group's CPU time; none if not visible."""
    candidates = (find_cpu_files(group, root) for root in CGROUP_ROOTS) if group else iter(())
    return next((files for files in candidates if files), ())


def _cgroup_dir(group: str) -> str:
    """Return the directory of a group's I/O account; empty if not visible."""
    candidates = (find_directory(group, root) for root in CGROUP_ROOTS) if group else iter(())
    return str(next((directory for directory in candidates if directory is not None), ""))
