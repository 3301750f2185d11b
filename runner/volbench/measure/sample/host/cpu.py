"""Source `cpu`: use, steal and waiting of all CPUs of the machine together, and of the one with least to do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import ClassVar

from typing_extensions import override

from volbench.core.records.series import SeriesRow
from volbench.measure.sample.change import Change, ratio
from volbench.measure.sample.config import SamplingConfig
from volbench.measure.sample.files import KernelFile
from volbench.measure.sample.interface import Reading, Sampler, Values
from volbench.measure.sample.parsers.stat import CPU_TIMES, parse_cpu_list, parse_cpus, parse_stat
from volbench.measure.sample.shared import Shared

_BUSY, _TOTAL = "cpu_busy", "cpu_total"
"""Counters of one CPU, whose name is the entity."""
ISOLATED = Path("/sys/devices/system/cpu/isolated")
"""CPUs that the scheduler gives no task by itself (isolcpus=): they are idle while tasks wait for the others."""


class Cpu(Sampler):
    """Reads /proc/stat."""

    source: ClassVar[str] = "cpu"

    def __init__(self, path: Path = Path("/proc/stat"), isolated: Path = ISOLATED) -> None:
        self._file = KernelFile(path)
        self._left_out = _isolated(isolated)

    @classmethod
    @override
    def from_config(cls, config: SamplingConfig, shared: Shared) -> Sampler:
        """Return the sampler."""
        return cls()

    def read(self) -> Values:
        """Return clock ticks of each kind of time, context switches and processes.

        Busy and all ticks of each CPU.
        """
        text = self._file.read()
        values: dict[tuple[str, str], float] = {
            (name, ""): value for name, value in asdict(parse_stat(text)).items()
        }
        for cpu, ticks in parse_cpus(text).items():
            if cpu not in self._left_out:
                values[_BUSY, cpu], values[_TOTAL, cpu] = ticks.busy, ticks.total
        return values

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @staticmethod
    def rates(before: Reading, after: Reading) -> Iterator[SeriesRow]:
        """Yield shares of the CPU time that passed, all CPUs together: they add up to 1."""
        change = Change(source=Cpu.source, before=before, after=after)
        if not change.usable:
            return
        # The kernel's idle and iowait can go back by a tick; no time of that kind has passed then.
        grown = {name: change.grown(name) or 0.0 for name in CPU_TIMES}
        total = sum(grown.values())
        yield from change.rows(
            (
                ("user_ratio", ratio(grown["user"] + grown["nice"], total)),
                ("system_ratio", ratio(grown["system"] + grown["irq"] + grown["softirq"], total)),
                ("iowait_ratio", ratio(grown["iowait"], total)),
                ("steal_ratio", ratio(grown["steal"], total)),
                ("idle_ratio", ratio(grown["idle"], total)),
                ("least_busy_ratio", _least_busy(change)),
                ("context_switches_per_s", change.per_s("context_switches")),
                ("processes_started_per_s", change.per_s("processes_started")),
                ("runnable_threads", change.gauge("procs_running")),
                ("blocked_threads", change.gauge("procs_blocked")),
            )
        )


def _isolated(path: Path) -> frozenset[str]:
    try:
        return parse_cpu_list(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return frozenset()


def _least_busy(change: Change) -> float | None:
    """Return busy share of the CPU that had least to do; None where a CPU's time went back or nothing is known."""
    shares = [ratio(change.grown(_BUSY, cpu), change.grown(_TOTAL, cpu)) for cpu in change.entities(_TOTAL)]
    ratios = [share for share in shares if share is not None]
    return min(ratios) if ratios and len(ratios) == len(shares) else None
