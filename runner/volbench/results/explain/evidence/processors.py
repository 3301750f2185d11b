"""Who used the CPUs, and what a cell lost to others: conservation of CPU time.

On C CPUs the machine's tasks ran for B seconds a second (/proc/stat: user, nice, system, irq), the cell's own
processes (agent, server, client, sampler) for U of them, an emulated volume's daemon and the kernel's I/O workers
for E. Others ran for

    F = B - U - E

which includes the kernel's other threads. The cell's tasks were runnable and had no CPU for D seconds a second
(schedstat), so that U + D of them were runnable on average. Alone on this machine, a scheduler that leaves no CPU
idle while a task is runnable would have run min(U + D, C) of them. It ran U. What the cell *lost* to others is the
difference, and at most what others ran:

    lost = min(D, C - U, F)        (CPUs)
    share of others = lost / min(U + D, C)

The rest of D is the cell's tasks waiting for each other: no other program is to blame for it. With the same work
on the CPUs that it lost, the time that it spends running and waiting for a CPU would be shorter by that share: with
C or more runnable, a CPU phase takes (U + D) / X and X is in proportion to U; with fewer, it takes U / X alone.

What it rests on: the cell may use all CPUs (a cpuset makes C too large, so that `lost` is bounded by F alone), and
no quota holds it back (time under a quota counts as waiting; the rule asks for it first).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from volbench.core.records.named_metrics import CPU, CgroupCpu, Tasks
from volbench.core.records.sources.host.tasks import CARRIERS_OF_IO
from volbench.results.stats.grid import Floats, Grid, Mask

CELL, SERVER, CLIENT, SAMPLER = "cell", "server", "client", "sampler"
OTHER_TASKS = {CLIENT: 2, SERVER: 8, CELL: 10}
"""Tasks beside one for each client that may be runnable at a time: the load's first thread and the agent; the
server's for pages, purge, logs and its listener."""
MOST_OF_CPUS = 0.5
"""Of the CPUs that the cell wanted: from here on others had more of them than the cell."""


@dataclass(frozen=True, kw_only=True)
class TaskUse:
    """What some of the cell's processes had of the CPUs, seconds a second; arrays of shape (buckets,).

    Args:
        used: on a CPU.
        delay: runnable and waiting for one, summed over all tasks.
    """

    used: Floats
    delay: Floats


def task_use(grid: Grid, who: str) -> TaskUse | None:
    """Of the server's processes, the load's without the sampler, or the cell's; None where it was not counted.

    Args:
        grid: the aligned series.
        who: SERVER, CLIENT or CELL.
    """
    used, delay = (grid.column(*metric, who) for metric in (Tasks.cpus_used, Tasks.run_delay_s_per_s))
    if used is None or delay is None:
        return None
    if who == CLIENT and (sampler := task_use(grid, SAMPLER)) is not None:
        used, delay = np.maximum(0.0, used - sampler.used), np.maximum(0.0, delay - sampler.delay)
    return TaskUse(used=used, delay=delay)


def held_tasks(use: TaskUse, busy: Floats, tasks: float) -> float | None:
    """Tasks that wait for a CPU on average while one is idle, at least; None where it is not known.

    Args:
        use: of the processes.
        busy: share of the time in which the CPU with least to do is busy, or else of all CPUs' time that is used,
            shape (buckets,).
        tasks: of the processes that may be runnable at a time.

    A scheduler whose tasks may use all CPUs leaves none idle while one waits (work conservation): they wait only
    while all CPUs are busy. All are busy for a share f of the time, and f <= B, the share in which any of them is,
    the one with least to do among them. N tasks wait for N * f <= N * B seconds a second. What D (schedstat) has
    beyond that waits for something else: a quota of its control group, a cpuset, a CPU that it is bound to.

        held = D - N * B
    """
    both = np.isfinite(use.delay) & np.isfinite(busy)
    return float(np.mean(use.delay[both] - tasks * busy[both])) if both.any() else None


@dataclass(frozen=True, kw_only=True)
class CpuAccount:
    """CPU seconds a second by user. Arrays have shape (buckets,), NaN where nothing is known.

    Args:
        cpus: of the machine.
        own: of the cell's processes.
        foreign: of all others.
        delay: for which the cell's tasks were runnable without a CPU; None: not known.
    """

    cpus: int
    own: Floats
    foreign: Floats
    delay: Floats | None = None

    @property
    def demanded(self) -> Floats:
        """CPUs that the cell's tasks would have used alone; all of them where their waiting is not known."""
        if self.delay is None:
            return np.where(np.isfinite(self.own), float(self.cpus), np.nan)
        return np.minimum(self.own + self.delay, self.cpus)

    @property
    def lost(self) -> Floats:
        """CPUs that others used while the cell's tasks waited for one."""
        return np.minimum(np.maximum(0.0, self.demanded - self.own), self.foreign)

    @property
    def is_mostly_lost(self) -> bool:
        """Whether others had more of the CPUs that the cell wanted than the cell."""
        return self.lost_share() >= MOST_OF_CPUS

    def lost_share(self, intervals: Mask | None = None) -> float:
        """Of the CPUs that the cell wanted, the share that others had; 0 where nothing is known.

        Args:
            intervals: shape (buckets,); None: all.
        """
        finite = np.isfinite(self.lost) & np.isfinite(self.demanded)
        finite = finite if intervals is None else finite & intervals
        demanded = float(self.demanded[finite].sum())
        return float(self.lost[finite].sum()) / demanded if demanded > 0 else 0.0


def cpu_account(grid: Grid, cpus: int | None) -> CpuAccount | None:
    """The account of a grid; None where the machine's use or the cell's own is not known.

    Args:
        grid: the aligned series.
        cpus: of the machine.

    The cell's use is that of its processes, or of the control groups of server and client where that is more.
    """
    user, system = grid.column(*CPU.user_ratio), grid.column(*CPU.system_ratio)
    own = _own_use(grid)
    if user is None or system is None or own is None or not cpus:
        return None
    carriers = [grid.column(*Tasks.cpus_used, entity) for entity in CARRIERS_OF_IO]
    of_carriers = sum((np.nan_to_num(used) for used in carriers if used is not None), start=np.zeros_like(own))
    return CpuAccount(
        cpus=cpus,
        own=own,
        foreign=np.maximum(0.0, cpus * (user + system) - own - of_carriers),
        delay=grid.column(*Tasks.run_delay_s_per_s, CELL),
    )


def _own_use(grid: Grid) -> Floats | None:
    tasks = grid.column(*Tasks.cpus_used, CELL)
    groups = [grid.column(*CgroupCpu.cpus_used, who) for who in ("server", "client")]
    if any(group is None for group in groups):
        return tasks
    of_groups: Floats = np.sum([group for group in groups if group is not None], axis=0)
    return of_groups if tasks is None else np.fmax(tasks, of_groups)
