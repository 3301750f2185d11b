"""One step as the rules see its time and its CPUs: who used them, who waited for them, what a quota withheld."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from volbench.core.records.named_metrics import CPU, PSI, CgroupCpu, Client, NamedMetric
from volbench.core.records.steps import step_kind
from volbench.results.explain import thresholds as limit
from volbench.results.explain.case_input import CaseInput
from volbench.results.explain.evidence.best_seconds import best_seconds_share
from volbench.results.explain.evidence.budget import Budget, budget_of, statement_cpu
from volbench.results.explain.evidence.processors import (
    CELL,
    CLIENT,
    SAMPLER,
    SERVER,
    CpuAccount,
    cpu_account,
    task_use,
)
from volbench.results.stats.grid import Floats, mean, median


@dataclass(frozen=True, kw_only=True)
class CpuCase(CaseInput):
    """The part of a case that asks no device."""

    @cached_property
    def budget(self) -> Budget | None:
        """Where statement time went; None in a step that has no statements, whatever else the server did."""
        if not step_kind(self.kind).has_statements:
            return None
        return budget_of(self.grid, variables=self.variables, cpus=self.cpus)

    @cached_property
    def cpu_busy(self) -> float | None:
        """Share of the host's CPU time that was used, median over the window."""
        user, system = self.at(CPU.user_ratio), self.at(CPU.system_ratio)
        return None if user is None or system is None else median(user + system)

    @property
    def cpu_s_per_s(self) -> Floats | None:
        """CPU seconds of the whole host in each second."""
        user, system = self.at(CPU.user_ratio), self.at(CPU.system_ratio)
        return None if user is None or system is None or not self.cpus else (user + system) * self.cpus

    @cached_property
    def statement_cpu_s_per_s(self) -> Floats | None:
        """CPU seconds of statements in each second; None where the server does not keep them."""
        return statement_cpu(self.grid)

    @property
    def cpu_bound(self) -> bool:
        """Whether the host's CPUs were saturated: busy, and waited for where that is known."""
        pressure = median(self.at(PSI.cpu_some_ratio))
        waited = pressure is None or pressure >= limit.CPU_PRESSURE_MIN
        niced = median(self.at(CPU.nice_ratio)) or 0.0  # of recordings: programs that give way
        return self.cpu_busy is not None and self.cpu_busy - niced >= limit.CPU_BUSY_MIN and waited

    @cached_property
    def cpu_account(self) -> CpuAccount | None:
        """Who used the CPUs in the window."""
        return cpu_account(self.grid, self.cpus)

    @cached_property
    def best_seconds_share(self) -> float | None:
        """Share of the clients' time that CPUs can be at most, by a closed loop's best seconds; None: not known."""
        tps = self.at(Client.tps) if self.threads and self.rate is None else None
        return best_seconds_share(tps, self.cpu_account, self.cpu_s_per_s, self.grid.width_s)

    @cached_property
    def cpu_share_max(self) -> float | None:
        """Share of statement time that computing and waiting for a CPU can be at most; None where it is not known.

        All processes of the server, or else of the cell, used and waited for CPUs for so long (the kernel's
        schedstat): its statements did so for no longer. And a thread that is ready waits while others run before
        it: its time on a CPU, times the threads for each CPU. And see `best_seconds_share`.
        """
        runnable, budget = mean(self.at(CPU.runnable_threads)), self.budget
        if budget is None:
            return None
        bounds = []
        use = task_use(self.grid, SERVER) or task_use(self.grid, CELL)
        statements = mean(budget.statement_s)
        if use is not None and statements:
            bounds.append(min(1.0, (mean(use.used + use.delay) or 0.0) / statements))
        if runnable is not None and self.cpus and self.statement_cpu_s_per_s is not None:
            bounds.append(budget.share("cpu") * max(1.0, runnable / self.cpus))
        if self.best_seconds_share is not None and statements and self.threads:
            bounds.append(min(1.0, self.best_seconds_share * self.threads / statements))
        return min(bounds, default=None)

    @cached_property
    def cpu_cycle_share(self) -> float | None:
        """Share of the clients' time in which the cell's processes ran or waited for a CPU; None: not known.

        By Little's law for the loop: each client is at one thing at a time, itself or its session in the server, so
        seconds on CPUs and in their queue (the kernel's schedstat) over the number of clients is that share. It
        counts waits for a CPU that the server takes for file waits, since a read that is done waits for one.
        """
        use, sampler = task_use(self.grid, CELL), task_use(self.grid, SAMPLER)
        if use is None or not self.threads or self.budget is None:
            return None
        runnable = use.used + use.delay
        if sampler is not None:  # no client waits for it
            runnable = np.maximum(0.0, runnable - sampler.used - sampler.delay)
        return min(1.0, (mean(runnable) or 0.0) / self.threads)

    @cached_property
    def shared_throttled(self) -> float | None:
        """Share of periods in which the CPU quota of a group with server and load held both back, median."""
        return median(self._of_quota(CgroupCpu.throttled_ratio, CELL))

    @cached_property
    def server_throttled(self) -> float | None:
        """Share of periods in which a CPU quota held the server back, median; None without a quota."""
        own = median(self._of_quota(CgroupCpu.throttled_ratio, SERVER))
        return max((share for share in (own, self.shared_throttled) if share is not None), default=None)

    @cached_property
    def withheld_s(self) -> float | None:
        """CPU seconds a second that a quota withheld from the server, all CPUs together; None: not known."""
        withheld = (mean(self._of_quota(CgroupCpu.throttled_s_per_s, who)) for who in (SERVER, CELL))
        return max((seconds for seconds in withheld if seconds is not None), default=None)

    @property
    def is_throttled(self) -> bool:
        """Whether a CPU quota holds the server back: an operation that is done waits for a CPU then, too.

        In most of its periods, and for as much of the time as a cause must explain, where that is counted.
        """
        if self.server_throttled is None or self.server_throttled < limit.THROTTLED_MIN:
            return False
        return self.withheld_s is None or self.withheld_s >= limit.SHARE_MIN

    @cached_property
    def client_throttled(self) -> float | None:
        """The same of the client's."""
        return median(self._of_quota(CgroupCpu.throttled_ratio, CLIENT))

    def _of_quota(self, metric: NamedMetric, who: str) -> Floats | None:
        """A figure of a quota; 0 in intervals in which the group was read, and no quota had a period."""
        values, used = self.at(metric, who), self.at(CgroupCpu.cpus_used, who)
        if values is None or used is None:
            return values
        return np.where(np.isnan(values) & np.isfinite(used), 0.0, values)
