"""All sources: which class is which, and which of them are read by one thread.

A server that hangs on a stalled volume must not stop the clock of the device's own counters: sources that wait for
somebody else (`remote`) are read by threads of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from volbench.sample.cgroup_io import CgroupIoAccount
from volbench.sample.config import SamplingConfig
from volbench.sample.cpu import Cpu
from volbench.sample.diskstats import DiskStats
from volbench.sample.innodb import InnoDb
from volbench.sample.interface import Sampler
from volbench.sample.performance_schema import PerformanceSchema
from volbench.sample.psi import Pressure
from volbench.sample.server import ServerConnection
from volbench.sample.vm import VirtualMemory

SAMPLERS: dict[str, type[Sampler]] = {
    sampler.source: sampler
    for sampler in (
        DiskStats,
        CgroupIoAccount,
        Pressure,
        Cpu,
        VirtualMemory,
        PerformanceSchema,
        InnoDb,
    )
}


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
    """The lanes with the sources that are wanted; those that need a server or a socket only where one is named."""
    kernel: list[Sampler] = [
        DiskStats(config.disks),
        CgroupIoAccount(Path(config.cgroup_dir) if config.cgroup_dir else None),
        Pressure(),
        Cpu(),
        VirtualMemory(),
    ]
    server = ServerConnection(Path(config.option_file), config.socket)
    server_side: list[Sampler] = [PerformanceSchema(server), InnoDb(server)] if config.option_file else []
    lanes = [
        Lane(samplers=tuple(kernel), remote=False),
        Lane(samplers=tuple(server_side), remote=True, close=server.close),
    ]
    wanted = [_only(lane, config.sources) for lane in lanes]
    return [lane for lane in wanted if lane.samplers]


def _only(lane: Lane, sources: tuple[str, ...] | None) -> Lane:
    kept = tuple(sampler for sampler in lane.samplers if sources is None or sampler.source in sources)
    return Lane(samplers=kept, remote=lane.remote, close=lane.close)


def absences_of(config: SamplingConfig) -> dict[str, str]:
    """Why a source will not even be looked for, by source."""
    reasons = {}
    made = {sampler.source for lane in lanes_of(config) for sampler in lane.samplers}
    for source in SAMPLERS:
        if source in made:
            continue
        asked = config.sources is None or source in config.sources
        reasons[source] = "there is no server or emulated volume to ask" if asked else "not asked for"
    return reasons
