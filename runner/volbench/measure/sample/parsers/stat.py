"""/proc/stat and /proc/vmstat: where the CPUs' time went, and what the memory did."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

CPUS_MAX = 8192
"""NR_CPUS of the kernel's largest configuration."""
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
    """Return the counters of /proc/stat. Raises ValueError when its line of all CPUs, or another one, is missing.

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


@dataclass(frozen=True, kw_only=True, slots=True)
class CpuTicks:
    """One CPU since boot, in clock ticks: all its time, and the part in which it was not idle (stolen time too)."""

    total: int
    busy: int


def parse_cpus(text: str) -> dict[str, CpuTicks]:
    """Return each CPU of /proc/stat by its name (`cpu0`); those that are offline have no line. Raises ValueError.

    Source: Documentation/filesystems/proc.rst. `user` and `nice` contain guests' time, so it is not added again.
    """
    cpus = {}
    for line in text.splitlines():
        name, _, values = line.partition(" ")
        if name.startswith("cpu") and name != "cpu":
            times = dict(zip(CPU_TIMES, map(int, values.split()), strict=False))
            total = sum(times.values())
            cpus[name] = CpuTicks(total=total, busy=total - times.get("idle", 0) - times.get("iowait", 0))
    return cpus


def parse_cpu_list(text: str) -> frozenset[str]:
    """Return the CPUs of a list such as `1-3,5`, by their names (`cpu1`). Raises ValueError.

    Source: Documentation/admin-guide/cputopology.rst, of /sys/devices/system/cpu/isolated and its neighbours.
    """
    names: set[str] = set()
    for cpu_range in filter(None, text.strip().split(",")):
        first, _, last = cpu_range.partition("-")
        if int(last or first) >= CPUS_MAX:
            raise ValueError(f"more than {CPUS_MAX} CPUs: {cpu_range}")
        names.update(f"cpu{number}" for number in range(int(first), int(last or first) + 1))
    return frozenset(names)


def parse_vmstat(text: str, names: Collection[str]) -> dict[str, int]:
    """Return the wanted lines of /proc/vmstat that this kernel has."""
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[0] in names}
