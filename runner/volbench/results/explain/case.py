"""One step of one cell as the rules see it: what was given (`given`), and what the detectors find in it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from volbench.core.records.named_metrics import (
    Client,
    Diskstats,
    EbsNvme,
    Emulator,
    Mountstats,
    NamedMetric,
    Progress,
)
from volbench.core.records.sources import sources_with
from volbench.core.records.steps import step_kind
from volbench.results.explain import thresholds as limit
from volbench.results.explain.cpu_case import CpuCase
from volbench.results.explain.evidence.burst import Burst, credits_spent, fit_burst
from volbench.results.explain.evidence.device import VIEWS, Device, Direction, Resource, device_of, flushing_share
from volbench.results.explain.evidence.disk_limits import DiskLimit, disk_limits
from volbench.results.explain.evidence.disks_below import foreign_io
from volbench.results.explain.evidence.foreign import ForeignFlow, written_copies
from volbench.results.explain.evidence.journal import JournalDevice, journal_device
from volbench.results.explain.evidence.levels_elsewhere import LevelElsewhere, level_elsewhere
from volbench.results.explain.evidence.limited_levels import LimitedLevels, StepLevels, limited_levels
from volbench.results.explain.evidence.limits import (
    Plateau,
    base_await_ms,
    limits_of,
    one_way_limits,
    one_way_plateaus,
    overlap,
    plateaus,
)
from volbench.results.explain.evidence.plateau_checks import Exceeded
from volbench.results.explain.evidence.size_contrasts import ContrastOutcome, levels_of
from volbench.results.explain.evidence.stalls import Stall, client_stalls, storage_stalls, without_stalls
from volbench.results.explain.evidence.stands import Stand, client_stands, counted_stands
from volbench.results.explain.evidence.waited_direction import waited_direction
from volbench.results.stats.grid import Floats, Mask, mean

STAND_ARRIVALS_MIN = 5.0
"""Arrivals that are expected in a time in which none ended: fewer are missing by chance (e**-5 is 0.7 %)."""


@dataclass(frozen=True, kw_only=True)
class Case(CpuCase):
    """A step with its evidence, which is computed when a rule asks for it and kept."""

    @cached_property
    def device(self) -> Device | None:
        """The volume in the window."""
        return device_of(self.grid, self.disk)

    @cached_property
    def waited_direction(self) -> Direction | None:
        """The direction of the operations that sessions wait for; None: both, or it is not known."""
        return waited_direction(self.grid, self.budget)

    @cached_property
    def waited_device(self) -> Device | None:
        """The volume with nothing but the operations that sessions wait for; with all where they are not known."""
        device, direction = self.device, self.waited_direction
        view = None if device is None or direction is None else device.only(direction)
        return device if view is None else view

    @cached_property
    def device_of_cell(self) -> Device | None:
        """The volume over all of the cell."""
        return device_of(self.cell_grid, self.disk)

    @cached_property
    def waited_device_of_cell(self) -> Device | None:
        """The volume over all of the cell with the operations that sessions of the step wait for."""
        device, direction = self.device_of_cell, self.waited_direction
        view = None if device is None or direction is None else device.only(direction)
        return device if view is None else view

    @cached_property
    def base_await_ms(self) -> float | None:
        """The time of what sessions of the step wait for without a queue, at any time of the cell."""
        device = self.device_of_cell
        return None if device is None else base_await_ms(device, self.waited_device_of_cell)

    @cached_property
    def base_await_of_all_ms(self) -> float | None:
        """The same of all operations, which a level of both directions is compared with."""
        return None if self.device_of_cell is None else base_await_ms(self.device_of_cell)

    @cached_property
    def active_device(self) -> Device | None:
        """The volume while it moved: a stall is no level of what it gives, so its intervals are gaps.

        So are those beside it, which may lie partly in it.
        """
        device, still = self.device, self.stalled
        if device is None or not self.storage_stalls:
            return device
        bytes_ = None if device.mib_per_s is None else np.where(still, np.nan, device.mib_per_s)
        return replace(device, iops=np.where(still, np.nan, device.iops), mib_per_s=bytes_)

    @cached_property
    def stalled(self) -> Mask:
        """Intervals in which the volume stood still, and those beside them, shape (buckets,)."""
        ends, width_s = self.grid.t_s, self.grid.width_s * 1.001
        still = np.zeros(len(self.grid), dtype=np.bool_)
        for stall in self.storage_stalls:
            still |= (ends > stall.t0_s - width_s) & (ends <= stall.t1_s + width_s)
        return still

    @cached_property
    def plateaus(self) -> tuple[Plateau, ...]:
        """Levels with a queue."""
        if self.active_device is None:
            return ()
        return plateaus(
            self.grid.t_s,
            self.active_device,
            exceeded=self.exceeded,
            base_await_ms=self.base_await_of_all_ms,
            cpu_bound=self.cpu_bound,
        )

    @cached_property
    def one_way_plateaus(self) -> tuple[Plateau, ...]:
        """Levels with a queue of reads alone and of writes alone."""
        if self.active_device is None:
            return ()
        return one_way_plateaus(self.grid.t_s, self.active_device, self.device_of_cell, cpu_bound=self.cpu_bound)

    @property
    def limits(self) -> tuple[Plateau, ...]:
        """Those that are limits, of reads and writes together or of one direction."""
        return self.limited.limits

    @cached_property
    def limited(self) -> LimitedLevels:
        """Levels that are limits, with what other loads of the cell say of operations and bytes."""
        device = self.active_device
        if device is None:
            return LimitedLevels()
        together = limits_of(self.plateaus, device.size_kib)
        one_way = one_way_limits(self.one_way_plateaus, together)
        limits = (
            *one_way,
            *(plateau for plateau in together if not any(overlap(plateau, second) > 0 for second in one_way)),
        )
        step = StepLevels(
            limits=self._unflushed(limits),
            flat=self._unflushed((*self.plateaus, *self.one_way_plateaus)),
            t_s=self.grid.t_s,
            device=device,
            base_await_ms=self.base_await_of_all_ms,
            cpu_bound=self.cpu_bound,
        )
        return limited_levels(step, [*levels_of(self.size_contrasts)], self._level_elsewhere)

    def _unflushed(self, levels: Sequence[Plateau]) -> tuple[Plateau, ...]:
        """Those of reads, and the others where no flush is under way all along."""
        return tuple(plateau for plateau in levels if plateau.direction == "read" or not self.flushes_all_along)

    def _level_elsewhere(self, now: Mapping[Resource, Plateau]) -> LevelElsewhere | None:
        """The level at another time of the cell that decides between operations and bytes, which are both flat."""
        if self.device_of_cell is None or any(level.direction is not None for level in now.values()):
            return None
        return level_elsewhere(now, self.cell_grid.t_s, self.device_of_cell)

    @property
    def level_elsewhere(self) -> LevelElsewhere | None:
        """What decides between operations and bytes at another time than the step's."""
        return self.limited.elsewhere

    @property
    def size_contrast(self) -> ContrastOutcome | None:
        """What loads with operations of other sizes say of operations and bytes."""
        return self.limited.contrast

    @property
    def levels(self) -> tuple[Plateau, ...]:
        """Plateaus that are limits by what the step shows, and what a contrast puts in their place."""
        return self.limited.levels

    @cached_property
    def disk_limits(self) -> tuple[DiskLimit, ...]:
        """Limits of the disks below the volume's device, or of the several that a file system lies on."""
        if not self.disks:
            return ()
        return disk_limits(
            self.grid,
            self.cell_grid,
            self.disks,
            still=self.stalled,
            cpu_bound=self.cpu_bound,
            contrasts=self.size_contrasts,
        )

    @property
    def flushes_all_along(self) -> bool:
        """Whether a flush of the device was under way nearly all the time, see `flushing_share`."""
        share = None if self.device is None else flushing_share(self.grid, self.device)
        return share is not None and share >= limit.FLUSHING_MIN

    @cached_property
    def likely_limits(self) -> tuple[Plateau, ...]:
        """Levels that are a limit or a slow volume, and nothing decides; of one direction where both are there."""
        if self.active_device is None or self.limits:
            return ()
        levels = [plateau for plateau in self.one_way_plateaus if plateau.may_be_limit]
        return tuple(levels or [plateau for plateau in self.plateaus if plateau.may_be_limit])

    @cached_property
    def foreign(self) -> ForeignFlow | None:
        """I/O of the device that this server never sent; None where it is not known, or no server works."""
        if self.device is None or not step_kind(self.kind).has_statements:
            return None
        copies, direct = written_copies(self.mount_options), self.reads_directly
        return foreign_io(
            self.grid, self.device, self.below, direct=direct, copies=copies, cell_grid=self.cell_grid
        )

    @cached_property
    def journal_device(self) -> JournalDevice | None:
        """The device of the file system's journal, where it is another one and is counted."""
        return journal_device(self.grid, self.journal)

    @cached_property
    def burst(self) -> Burst | None:
        """A burst that ended in the window; what was spent is counted from the cell's start."""
        if self.active_device is None:
            return None
        levels = (*(plateau for plateau in self.limits if plateau.direction is None), *self.plateaus)
        fitted = fit_burst(self.grid.t_s, self.active_device, levels, balance_percent=self.balance_percent)
        before = (
            device_of(self.cell_grid.within(float("-inf"), fitted.exhausted_at_s), self.disk) if fitted else None
        )
        if fitted is None or before is None:
            return fitted
        return replace(fitted, spent=credits_spent(before, fitted.resource, fitted.baseline) * self.grid.width_s)

    @cached_property
    def exceeded(self) -> Exceeded:
        """The volume's own counters of its limits."""
        return Exceeded(
            volume_iops=self._counted(EbsNvme.volume_exceeded_iops_ratio),
            volume_throughput=self._counted(EbsNvme.volume_exceeded_throughput_ratio),
            instance_iops=self._counted(EbsNvme.instance_exceeded_iops_ratio),
            instance_throughput=self._counted(EbsNvme.instance_exceeded_throughput_ratio),
        )

    @cached_property
    def balance_percent(self) -> Floats | None:
        """The emptiest bucket of credits, as the volume or its vendor says."""
        levels = [
            column
            for source in sources_with(Emulator.balance_percent.name, *VIEWS)
            for entity in self.grid.entities(*Emulator.balance_percent.of(source))
            if (column := self.grid.column(*Emulator.balance_percent.of(source), entity)) is not None
        ]
        return min(levels, key=lambda column: mean(column) or 0.0) if levels else None

    @cached_property
    def client_stalls(self) -> tuple[Stall, ...]:
        """When no transaction finished."""
        tps = self.at(Client.tps)
        return () if tps is None else client_stalls(self.grid.t_s, self.grid.width_s, tps)

    @cached_property
    def client_stands(self) -> tuple[Stand, ...]:
        """Times in which all clients stood still, parts of an interval as well, in order of time.

        The server's own count of its standstills where there is one, else by the slowest transactions.
        """
        counted, width_s = self.at(Progress.standstill_ms_max), self.grid.width_s
        if counted is not None:
            return counted_stands(counted, width_s)
        stands = client_stands(self.at(Client.tps), self.at(Client.latency_ms_max), width_s)
        # Of a load with a rate of its own fewer may come by chance in so short a time: nothing is missing then.
        expected = math.inf if self.rate is None else self.rate
        return tuple(stand for stand in stands if stand.length_s * expected >= STAND_ARRIVALS_MIN)

    @cached_property
    def storage_stalls(self) -> tuple[Stall, ...]:
        """When the volume stood still with a queue."""
        if self.device is None:
            return ()
        queue = self.grid.column(*Diskstats.in_flight.of(self.device.source), self.device.entity)
        if queue is None:
            queue = self.grid.column(*EbsNvme.queue_length.of(self.device.source), self.device.entity)
        return storage_stalls(self.grid.t_s, self.grid.width_s, self.device, queue)

    @cached_property
    def tps(self) -> float | None:
        """Transactions per second over the window."""
        return mean(self.at(Client.tps))

    @property
    def is_served(self) -> bool:
        """Whether a load at a rate of its own gets it, with clients that mostly have nothing to wait for.

        Arrivals are by chance (Poisson): of n that are expected, sqrt(n) more or fewer come within one deviation.
        A stand of its clients, which is too long for chance, is a finding of its own: the rest of the step counts.
        """
        if self.rate is None or self.tps is None or not self.threads or self.budget is None:
            return False
        waiting = (mean(self.budget.statement_s) or 0.0) / self.threads
        stands = tuple(stall for stall in self.client_stalls if stall.length_s * self.rate >= STAND_ARRIVALS_MIN)
        moving = without_stalls(self.grid, stands)
        length_s, tps = len(moving) * moving.width_s, mean(moving.column(*Client.tps)) or 0.0
        least = limit.SERVED_MIN * self.rate * length_s - limit.SERVED_DEVIATIONS * math.sqrt(self.rate * length_s)
        return tps * length_s >= least and waiting < limit.SERVED_WAIT_MAX

    @property
    def storage_share(self) -> float | None:
        """Of statement time in files; None when it is not known, or known only as a lower bound that is low."""
        if self.budget is None:
            return None
        share = self.budget.storage_share
        return share if share >= limit.SHARE_MIN or not self.budget.notes else None

    def time_share(self, window_s: tuple[float, float]) -> float:
        """Share of all statement time that was spent in a part of the window; 1 without statement times."""
        return self.time_share_of((self.grid.t_s > window_s[0]) & (self.grid.t_s <= window_s[1]))

    def time_share_of(self, intervals: Mask) -> float:
        """The same of some intervals."""
        if self.budget is None:
            return 1.0
        seconds = np.nan_to_num(self.budget.statement_s)
        return float(seconds[intervals].sum() / seconds.sum())

    def clients_share_of(self, intervals: Mask) -> float:
        """Share of the clients' time that lies in some intervals: in a closed loop they are always at something.

        At a rate of its own it is that of statement time.
        """
        is_closed = self.rate is None and self.threads and len(intervals)
        return float(intervals.mean()) if is_closed else self.time_share_of(intervals)

    @cached_property
    def waiting_share(self) -> float | None:
        """Of a step that works on files itself: the time that its streams wait for the volume, by Little's law.

        None for other steps, and without the volume's waiting times.
        """
        device = self.device
        if step_kind(self.kind).has_statements or device is None or device.await_ms is None:
            return None
        under_way = np.nan_to_num(device.iops * device.await_ms / 1000)
        for source in sources_with(Mountstats.metadata_await_ms.name, *VIEWS):
            rate = self.grid.column(*Mountstats.metadata_ops_per_s.of(source))
            waited = self.grid.column(*Mountstats.metadata_await_ms.of(source))
            if rate is not None and waited is not None:
                under_way = under_way + np.nan_to_num(rate * waited / 1000)
        return min(1.0, (mean(under_way) or 0.0) / (self.threads or 1))

    @cached_property
    def unseen_share(self) -> float | None:
        """Share of statement time that no wait shows and that all of the host's CPU time cannot be: at least that.

        None without a budget or CPU times. Threads also wait for a CPU: less what that can be at most, and None
        where CPUs are saturated and that is not known.
        """
        budget = self.budget
        if budget is not None and self.cpu_share_max is not None:
            return max(0.0, budget.no_wait - self.cpu_share_max)
        if budget is None or budget.cpu_max_s is None or self.cpu_bound:
            return None
        both = np.isfinite(budget.statement_s) & np.isfinite(budget.cpu_max_s)
        total = float(budget.statement_s[both].sum())
        return max(0.0, budget.no_wait - float(budget.cpu_max_s[both].sum()) / total) if total > 0 else None

    def _counted(self, metric: NamedMetric) -> Floats | None:
        for source in sources_with(metric.name, *VIEWS):
            entities = self.grid.entities(*metric.of(source))
            columns = [self.grid.column(*metric.of(source), entity) for entity in entities]
            if counted := [column for column in columns if column is not None]:
                return np.asarray(np.max(counted, axis=0))
        return None
