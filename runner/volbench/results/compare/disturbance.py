"""What a disturbance can have done to a figure, at most.

**The bound.** See a step as a network of activities, each of which begins when those it waits for have ended: CPU
time of a statement, an operation of the volume, a lock that is handed on. The step's work takes T seconds, the
length of the longest path. Let H be the time, within T, in which at least one activity of the step was *held
back* by the disturbance: runnable and without a CPU, or an emulated operation that was overdue. Moments are
counted once, however many activities were held back at that moment. Take the disturbance away: each activity
keeps its own length, so the path that was the longest is at least T - H long, and so is the longest path of the
undisturbed network. With h = H / T the same work takes between (1 - h) T and T. So, undisturbed,

    a throughput of the whole step lies in   [x, x / (1 - h)]
    the time that the whole step takes       [(1 - h) x, x]

Several disturbances: H of all together is at most the sum of theirs. Nothing is taken from the direction: h = 0.2
is a bound on the bias of a cell, not an estimate of it, so figures are widened and never corrected.

**Latencies** of a closed loop of N clients over n transactions: at most N are delayed at any moment, so all
delays together are at most N H, and by Little's law (N T = n m, with m the mean latency) at most h m for a
transaction on average. So the mean lies in [(1 - h) m, m], and by Markov's inequality no more than a share h m /
y of the transactions was delayed by y or more. If the quantile of level q' < q is Q(q'), then at least 1 - q of
the undisturbed latencies exceed Q(q') - y with y = h m / (q - q'); hence the undisturbed quantile of level q is
at least Q(q') - h m / (q - q'), for each q' that is known. In an open loop (a fixed rate) the number of clients
is not bounded, and nothing but [0, x] is known of a latency.

**How h is measured.** Work of others (`foreign_cpu`; not that of the kernel's I/O workers, which carry out the
cell's I/O): H is at most the time in which others ran on any CPU, at most f seconds a second with f the CPUs that
they used; and at most the run-queue delay of the cell's own tasks (schedstat), to which their waiting for each
other adds, so that it is too large rather than too small. Others also slow down what runs: they share cores, caches
and memory. That is no waiting, and taken as `STRETCH` of the CPU time of the cell's own tasks, since two threads of
one core get at least half of it each. Stolen CPU: at most
s seconds a second over all CPUs. Late emulated operations: at most the sum of their lateness.

**A ceiling on h.** In a closed loop of N clients, let F of them on average wait for reads of the volume (Little's
law: reads a second times their time; emulated ones without their lateness). A transaction has the same reads
without the disturbance, and they take as long, so it needs at least F / N of its time: h is at most 1 - F / N for
throughput and mean latency, whatever the disturbance was. On a slow volume this is the better bound.

I/O of others on the volume's device, and swapping, slow the step down and nothing bounds by how much: h = 1, and
the ceiling does not hold, since reads took longer too. A figure is then known from one side only, which is enough
where the volume is the better one all the same.

**What it rests on.** That taking delays away never makes work slower (there are scheduling anomalies, Graham
1969, and convoys on locks, that break this), and that the work is the same. Kernel threads are not among the
cell's own tasks: their delay is not in the run-queue delay. Neighbours on the same host that the hypervisor does
not report as steal cannot be seen at all.

Source: the longest-path argument is that of project networks (Kelley, Operations Research 9, 1961).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from volbench.core.base.text import percent
from volbench.core.records.cell import Disturbance, ValidityLimits
from volbench.core.records.metric import LATENCIES, LATENCY_MEAN, LATENCY_NAMES
from volbench.core.records.metrics import CATALOGUE, MetricValue

_SLOWS_THE_VOLUME = ("foreign_io", "swapping")
STRETCH = 0.5
"""At most this share of a running task's time is lost to what runs beside it on the same core."""
_PER_SECOND = {"s": 1.0, "ms": 1e3}
_LEVELS = {latency.name: latency.level for latency in LATENCIES if latency.level is not None}
Interval = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class CpuUse:
    """Of a step, CPU seconds a second, means over its window.

    Args:
        cpus: of the machine.
        foreign: used by others, without what was stolen.
        own: used by the cell.
        run_delay: of the cell's tasks, all added up; None: not known.
        runnable: threads of the whole machine that ran or were ready, the reading one among them; None: not known.
    """

    cpus: int
    foreign: float
    own: float
    run_delay: float | None = None
    runnable: float | None = None

    @property
    def foreign_ratio(self) -> float:
        """The foreign use as a share of all CPUs."""
        return self.foreign / self.cpus

    @property
    def wanted_ratio(self) -> float | None:
        """Of the CPUs, what a task misses beside the runnable threads of others: F of them leave it C / (C + F).

        The cell's own runnable threads are its CPU use and its run-queue delay, by Little's law. What others *want*
        depends little on the load, where what they *get* of busy CPUs is what the load leaves.

        The count of runnable threads is read when samplers and waiting threads wake, so that it is too high: on an
        idle machine it has been 5 to 7. A second bound knows nothing of it: the scheduler serves all threads in the
        same part of their runnable time, so that others want at most `foreign / (own / (own + run_delay))`.
        """
        if self.runnable is None or self.run_delay is None:
            return None
        waiting_others = max(0.0, self.runnable - 1 - self.own - self.run_delay)
        if self.own > 0:
            waiting_others = min(waiting_others, self.foreign * (self.own + self.run_delay) / self.own)
        return waiting_others / (waiting_others + self.cpus)

    @property
    def held_share(self) -> float:
        """At most this share of the time was the cell held back by others' CPU use."""
        delay = math.inf if self.run_delay is None else self.run_delay + STRETCH * self.own
        return min(1.0, self.foreign, delay)


def disturbances(
    limits: ValidityLimits,
    *,
    cpu: CpuUse | None,
    cpus: int | None,
    steal_ratio: float | None,
    late_ratio: float | None,
    lateness_s_per_s: float | None,
    lateness_changes: Mapping[str, float] | None = None,
    unbounded: Sequence[Disturbance] = (),
) -> tuple[Disturbance, ...]:
    """Return what delayed a step from outside, each with its bound; none when no limit is exceeded.

    Args:
        cpus: of the machine, None where not known: then stolen time has no bound.
        steal_ratio: of all CPU time. late_ratio: of emulated operations. lateness_s_per_s: theirs, added up.
        lateness_changes: by which share it can have changed each figure (`validity/lateness.py`).
        unbounded: others that were seen, beyond their limits.
    """
    recorded = list(unbounded)
    if cpu is not None:
        recorded.append(_foreign(cpu, limits))
    if steal_ratio is not None:
        text = f"the hypervisor took {percent(steal_ratio)} of the CPU (limit {percent(limits.cpu_steal)})"
        share = steal_ratio * cpus if cpus is not None else 1.0
        recorded.append(disturbance("cpu_steal", steal_ratio, limits.cpu_steal, share, text))
    if lateness_changes:
        figure = max(lateness_changes, key=lambda name: lateness_changes[name])
        evidence = "" if late_ratio is None else f"; {percent(late_ratio)} of them were"
        text = (
            f"the emulated volume fell behind its model: operations that came late can have changed {figure} by"
            f" {percent(lateness_changes[figure])} (limit {percent(limits.emulator_late)}{evidence});"
            " leave the emulator more of the CPUs"
        )
        share = 1.0 if lateness_s_per_s is None else lateness_s_per_s
        size = lateness_changes[figure]
        recorded.append(disturbance("emulator_late", size, limits.emulator_late, share, text))
    return tuple(recorded) if any(record.beyond for record in recorded) else ()


def held_share(records: Sequence[Disturbance], *, ceiling: float) -> float:
    """At most this share of the step's time was it held back by all of them together.

    Args:
        ceiling: the share of its time in which it could be held back at all, see `delayable_share`.
    """
    if any(record.kind in _SLOWS_THE_VOLUME and record.beyond for record in records):
        return 1.0
    return min(1.0, ceiling, sum(record.delayed_share_max for record in records))


def delayable_share(*, clients: int | None, reading: float | None, lateness_s_per_s: float | None) -> float:
    """Return the share of the clients' time that was not spent on reads of the volume: the module's ceiling.

    Args:
        clients: of a closed loop; None: not one, or not known.
        reading: how many of them waited for reads on average; None: not known.
        lateness_s_per_s: of emulated operations, which is no time of the volume's.
    """
    if not clients or reading is None:
        return 1.0
    return min(1.0, max(0.0, 1 - (reading - (lateness_s_per_s or 0.0)) / clients))


def bounds(
    metrics: Mapping[str, MetricValue], name: str, *, delayed: float, open_loop: bool, window_s: float
) -> Interval:
    """Return the interval in which a figure lies without the disturbance; it contains the figure. See the module.

    Args:
        metrics: of the step; name: one with a direction.
        delayed: as `held_share` gives it. open_loop: whether the load comes at a fixed rate.
        window_s: length of the step.
    """
    metric = metrics[name]
    value, span = metric.value, CATALOGUE[name].span if name in CATALOGUE else ""
    if metric.better == "higher":
        is_rate = span == "window" and delayed < 1 and not open_loop
        return (value, value / (1 - delayed) if is_rate else math.inf)
    if delayed == 0:
        return (value, value)
    if span == "window":
        return ((1 - delayed) * value, value)
    if name in LATENCY_NAMES:
        return (0.0 if open_loop else _latency_low(metrics, name, delayed), value)
    # An uninterrupted part of the window: at most all of the held time lies in it.
    scale = _PER_SECOND.get(metric.unit, math.inf) if span == "part" else math.inf
    return (max(0.0, value - delayed * window_s * scale), value)


def _latency_low(metrics: Mapping[str, MetricValue], name: str, share: float) -> float:
    mean = metrics.get(LATENCY_MEAN.name)
    if mean is None or share >= 1:
        return 0.0
    if name == LATENCY_MEAN.name:
        return (1 - share) * mean.value
    level = _LEVELS.get(name)
    lower_bounds = [
        metrics[lower].value - share * mean.value / (level - q)
        for lower, q in _LEVELS.items()
        if level is not None and q < level and lower in metrics
    ]
    return max([0.0, *lower_bounds])


def _foreign(cpu: CpuUse, limits: ValidityLimits) -> Disturbance:
    text = (
        f"other work on the machine used {percent(cpu.foreign_ratio)} of its CPUs ({cpu.foreign:.1f} of {cpu.cpus};"
        f" limit {percent(limits.foreign_cpu)})"
    )
    return disturbance("foreign_cpu", cpu.foreign_ratio, limits.foreign_cpu, cpu.held_share, text)


def disturbance(kind: str, size: float, limit: float, share: float, text: str) -> Disturbance:
    """Return the record; `held` above 1 is 1."""
    fields = {"kind": kind, "size": size, "limit": limit, "delayed_share_max": min(1.0, share), "text": text}
    return Disturbance.model_validate(fields)
