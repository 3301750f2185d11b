"""All sources: which class is which, and which of them are read by one thread.

A server that hangs on a stalled volume must not stop the clock of the device's own counters: sources that wait for
somebody else (`remote`) are read by threads of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from volbench.sample.config import SamplingConfig
from volbench.sample.device.cgroup_io import CgroupIoAccount
from volbench.sample.device.diskstats import DiskStats
from volbench.sample.device.ebs_csi import EbsCsi
from volbench.sample.device.ebs_nvme import EbsNvme
from volbench.sample.device.emulator import Emulator
from volbench.sample.device.mountstats import MountStats
from volbench.sample.host.cgroup_cpu import CgroupCpuAccount
from volbench.sample.host.cpu import Cpu
from volbench.sample.host.psi import Pressure
from volbench.sample.host.server_group import ServerGroup
from volbench.sample.host.tasks import Tasks
from volbench.sample.host.vm import VirtualMemory
from volbench.sample.interface import Sampler
from volbench.sample.server.connection import ServerConnection
from volbench.sample.server.digests import StatementDigests
from volbench.sample.server.innodb import InnoDb
from volbench.sample.server.own_account import OwnAccount
from volbench.sample.server.performance_schema import PerformanceSchema

SAMPLERS: dict[str, type[Sampler]] = {
    sampler.source: sampler
    for sampler in (
        DiskStats,
        MountStats,
        CgroupIoAccount,
        CgroupCpuAccount,
        Pressure,
        Cpu,
        VirtualMemory,
        EbsNvme,
        EbsCsi,
        PerformanceSchema,
        InnoDb,
        Emulator,
        Tasks,
    )
}
OBSERVED: dict[str, type[Sampler]] = {**SAMPLERS, StatementDigests.source: StatementDigests}
"""With those that are read of a server that is in use and is only read."""


@dataclass(frozen=True, kw_only=True)
class Lane:
    """Sources that one thread reads, one after the other.

    Args:
        remote: they answer from another process; one that is absent is looked for again at every tick.
        close: releases what they share.
    """

    samplers: tuple[Sampler, ...]
    remote: bool
    close: Callable[[], None] = lambda: None


def lanes_of(config: SamplingConfig) -> list[Lane]:
    """The lanes with the sources that are wanted."""
    option_file = Path(config.option_file) if config.option_file else None
    server = ServerConnection(option_file, config.socket, read_only=config.read_only)
    cgroup_dir = Path(config.cgroup_dir) if config.cgroup_dir else None
    emulator = Path(config.emulator_socket) if config.emulator_socket else None
    task_file = Path(config.task_file) if config.task_file else None
    helper = Path(config.node_helper) if config.node_helper else None
    group = ServerGroup(Path(config.server_state)) if config.server_state else None
    lanes = (
        Lane(
            samplers=(
                DiskStats(config.disks),
                MountStats(config.mount_point),
                Pressure(group=cgroup_dir),
                Cpu(),
                VirtualMemory(),
            ),
            remote=False,
        ),
        Lane(
            samplers=(
                CgroupIoAccount(cgroup_dir, config.disks, server=group),
                CgroupCpuAccount(
                    {"server": config.server_cpu_files, "client": config.client_cpu_files}, server=group
                ),
            ),
            remote=group is not None,  # its server starts later, and may be moved
        ),
        Lane(samplers=(EbsNvme(config.nvme_devices, helper),), remote=bool(config.nvme_devices)),
        Lane(samplers=(EbsCsi(config.ebs_csi_url, config.ebs_volume_id),), remote=bool(config.ebs_csi_url)),
        Lane(
            samplers=_of_server(server, read_only=config.read_only),
            remote=bool(config.option_file),
            close=server.close,
        ),
        Lane(
            samplers=(Emulator(emulator),),
            remote=bool(config.emulator_socket),
        ),
        Lane(samplers=(Tasks(config.own_pids, task_file, emulator),), remote=bool(config.task_file)),
    )
    wanted = (_only(lane, config.sources) for lane in lanes)
    return [lane for lane in wanted if lane.samplers]


def _of_server(server: ServerConnection, *, read_only: bool) -> tuple[Sampler, ...]:
    if not read_only:
        return (PerformanceSchema(server), InnoDb(server))
    own = OwnAccount()
    return (PerformanceSchema(server, own), InnoDb(server), StatementDigests(server, own))


def _only(lane: Lane, sources: tuple[str, ...] | None) -> Lane:
    kept = tuple(sampler for sampler in lane.samplers if sources is None or sampler.source in sources)
    return replace(lane, samplers=kept)


def not_asked_for(config: SamplingConfig) -> list[str]:
    """Sources that there could be, and that the suite does not want."""
    return [] if config.sources is None else [source for source in SAMPLERS if source not in config.sources]
