"""/proc/stat and /proc/vmstat: where the CPUs' time went, and what the memory did."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

CPU_TIMES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")


@dataclass(frozen=True, kw_only=True, slots=True)
class CpuCounters:
    """All CPUs together since boot: times in clock ticks. `user` contains guests' time, as the kernel counts."""

    user: int
    nice: int
    system: int
    idle: int
    iowait: int
    irq: int
    softirq: int
    steal: int
    context_switches: int
    processes_started: int
    procs_running: int
    procs_blocked: int


def parse_stat(text: str) -> CpuCounters:
    """The counters of /proc/stat. Raises ValueError when its line of all CPUs, or another one, is missing.

    Source: Documentation/filesystems/proc.rst.
    """
    lines = {name: values for name, _, values in (line.partition(" ") for line in text.splitlines())}
    try:
        times = dict(zip(CPU_TIMES, map(int, lines["cpu"].split()), strict=False))
        return CpuCounters(
            **times,
            context_switches=int(lines["ctxt"]),
            processes_started=int(lines["processes"]),
            procs_running=int(lines["procs_running"]),
            procs_blocked=int(lines["procs_blocked"]),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"/proc/stat lacks {error}") from error


def parse_vmstat(text: str, names: Collection[str]) -> dict[str, int]:
    """The wanted lines of /proc/vmstat that this kernel has."""
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[0] in names}
