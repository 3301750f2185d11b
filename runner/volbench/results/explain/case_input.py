"""What is given of one step of one cell: its series, and facts of the load, the host and the server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from volbench.core.records.layout import Role
from volbench.core.records.named_metrics import NamedMetric
from volbench.results.explain.evidence.disks_below import DisksBelow
from volbench.results.explain.evidence.foreign import reads_directly
from volbench.results.explain.evidence.size_contrasts import SampledContrast
from volbench.results.stats.grid import Floats, Grid


@dataclass(frozen=True, kw_only=True)
class ConcurrentActivity:
    """Something that ran beside the load, by name, and when."""

    name: str
    t0_s: float
    t1_s: float


@dataclass(frozen=True, kw_only=True)
class CaseInput:
    """What was given of one step, or of what others recorded. Everything but the grids may be missing.

    `grid` is the measured window, `cell_grid` all of the cell on the same grid. `clock_zero_s` is the time of day
    at t_s 0 where evidence shall show times of day. `client_cpus` is how many CPUs the client used on average.
    `latency_ms`: the client's metrics of the step by name (`latency_ms_p95`), of one histogram over all of it.
    `recorded`: other tools wrote it, so that confidences are those of recordings. `volume_grid` has what the volume
    itself counted, where its clock is not the host's (CloudWatch's). `below`: disks of a stacked device.
    `disks`: those that carry a volume of several devices, see `disks_of_stack`.
    `journal`: devices of the file system's journal outside its own, and the disks below them. `instance`: the
    vendor's type of the virtual machine; empty: not known. `elsewhere`: the server's files that
    are on other volumes than the data. `profile`: the kind of volume, as a profile's name; empty: not known.
    `changes_load`: its parts are loads of different kinds or sizes, so that their rates are not compared.
    `size_contrasts`: short loads with operations of other sizes, after the step or after a cell's last one.
    """

    name: str
    grid: Grid
    cell_grid: Grid
    kind: str = "oltp"
    disk: str | None = None
    below: DisksBelow | None = None
    disks: tuple[str, ...] = ()
    threads: int | None = None
    rate: float | None = None
    read_ahead_kib: int | None = None
    mount_options: tuple[str, ...] = ()
    journal: tuple[str, ...] = ()
    cpus: int | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    client_cpu_ratio: float | None = None
    client_cpus: float | None = None
    concurrent: tuple[ConcurrentActivity, ...] = ()
    latency_ms: Mapping[str, float] = field(default_factory=dict)
    clock_zero_s: float = 0.0
    recorded: bool = False
    volume_grid: Grid | None = None
    instance: str = ""
    elsewhere: tuple[Role, ...] = ()
    profile: str = ""
    changes_load: bool = False
    size_contrasts: tuple[SampledContrast, ...] = ()

    @property
    def of_volume(self) -> Self:
        """The same time as the volume's own counters show it, on their clock; this case where they share one."""
        if self.volume_grid is None:
            return self
        return replace(
            self, grid=self.volume_grid.within(*self.window_s), cell_grid=self.volume_grid, volume_grid=None
        )

    @property
    def reads_directly(self) -> bool:
        """Whether the server's reads of data files go past the page cache."""
        return reads_directly(self.variables, self.mount_options)

    @property
    def length_s(self) -> float:
        """Of the window."""
        return len(self.grid) * self.grid.width_s

    @property
    def window_s(self) -> tuple[float, float]:
        """Start and end of the grid."""
        if not len(self.grid):
            return 0.0, 0.0
        return float(self.grid.t_s[0]) - self.grid.width_s, float(self.grid.t_s[-1])

    def at(self, metric: NamedMetric, entity: str = "") -> Floats | None:
        """A column of the window."""
        return self.grid.column(metric.source, metric.name, entity)
