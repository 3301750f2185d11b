"""The device of a file system's journal that is not the one of its data: what a commit of the journal takes there.

ext4 with an external journal and xfs with `logdev` write each commit to a device of its own, and a sync waits for
it as well as for the data (Documentation/filesystems/journalling.rst).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from volbench.core.records.named_metrics import Diskstats
from volbench.results.explain.evidence.device import device_of
from volbench.results.explain.evidence.layers import device_flow, flush_ms
from volbench.results.stats.grid import Grid, mean


@dataclass(frozen=True, kw_only=True)
class JournalDevice:
    """Mean milliseconds of a write and of a flush on the slowest device of a journal, and the time it is busy.

    `write_ms`: None without a write in that time. `busy`: None: not known.
    """

    name: str
    write_ms: float | None
    flush_ms: float
    busy: float | None

    @property
    def commit_ms(self) -> float:
        """One write and one flush, one after the other."""
        return (self.write_ms or 0.0) + self.flush_ms


def journal_device(grid: Grid, names: Sequence[str]) -> JournalDevice | None:
    """Return the device of the journal, of a stack the layer whose writes take longest; None where none is counted.

    Args:
        grid: the aligned series.
        names: the journal's device and the disks below it.
    """
    layers = [layer for name in names if (layer := _layer(grid, name)) is not None]
    return max(layers, key=lambda layer: layer.commit_ms, default=None)


def _layer(grid: Grid, name: str) -> JournalDevice | None:
    if grid.column(*Diskstats.writes_per_s, name) is None:
        return None
    device = device_of(grid, name)
    flow = None if device is None else device_flow(device, "write")
    if device is None or flow is None:
        return None
    return JournalDevice(name=name, write_ms=flow.each_ms, flush_ms=flush_ms(grid, device), busy=mean(device.util))
