"""Source `psi`: the share of time in which tasks of machine or server waited for I/O, memory or CPU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from typing_extensions import override

from volbench.core.records.series import SeriesRow
from volbench.measure.sample.change import Change, ratio
from volbench.measure.sample.config import SamplingConfig
from volbench.measure.sample.files import KernelFile
from volbench.measure.sample.interface import Presence, Reading, Sampler, Values
from volbench.measure.sample.parsers.psi import parse_pressure
from volbench.measure.sample.shared import Shared

RESOURCES = ("cpu", "io", "memory")
KINDS = ("some", "full")


MACHINE, SERVER = "", "server"
"""Entities: the server's own is there where its control group is of version 2."""


class Pressure(Sampler):
    """Reads the totals of /proc/pressure, which are exact; its averages are not used.

    Args:
        group: directory of the server's control group, which keeps an account of its own in version 2.
    """

    source: ClassVar[str] = "psi"

    def __init__(self, directory: Path = Path("/proc/pressure"), group: Path | None = None) -> None:
        self._files = {(resource, MACHINE): KernelFile(directory / resource) for resource in RESOURCES}
        if group is not None and (group / "io.pressure").exists():
            own = {(resource, SERVER): KernelFile(group / f"{resource}.pressure") for resource in RESOURCES}
            self._files |= own

    @classmethod
    @override
    def from_config(cls, config: SamplingConfig, shared: Shared) -> Sampler:
        """Return the sampler."""
        return cls(group=Path(config.cgroup_dir) if config.cgroup_dir else None)

    def probe(self) -> Presence:
        """Present when the kernel keeps it (it may be built in and switched off)."""
        presence = super().probe()
        return (
            presence
            if presence.present
            else replace(presence, reason=f"no pressure stall information: {presence.reason}")
        )

    def read(self) -> Values:
        """Return microseconds of each kind since boot."""
        return {
            (f"{resource}_{kind}_us", entity): total
            for (resource, entity), file in self._files.items()
            for kind, total in parse_pressure(file.read()).items()
        }

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()

    @staticmethod
    def rates(before: Reading, after: Reading) -> Iterator[SeriesRow]:
        """Yield shares of the interval. `full` of the CPU is kept for completeness; the kernel reports 0."""
        change = Change(source=Pressure.source, before=before, after=after)
        if not change.usable:
            return
        for entity in change.entities("io_some_us"):
            for resource in RESOURCES:
                for kind in KINDS:
                    share = ratio(change.grown(f"{resource}_{kind}_us", entity), change.dt_s * 1e6)
                    if share is not None:
                        yield change.row(f"{resource}_{kind}_ratio", min(share, 1.0), entity)
