"""What a load of one volume would take with the waiting times of another, from a response that counts confirm.

A level is what was measured on one volume: the mean latency L, and the mean await w of each wait. With other awaits

    latency = L + sum of b x (await - w)

where b is in ms of latency per ms of await. A slope stands for b where the server's count agrees with it; any other
wait stands at its count, whose range is its interval.

A slope holds what a millisecond saves before CPUs (`lock_in`). Beyond the longest wait that was measured nothing
says that this goes on, and it ends where no session waits for a CPU: from there on a millisecond costs the slope
without it, and the wait for CPUs stays as it is. Between, and for shorter waits, the slope stands.

The interval of the latency is the root of the sum of squares of what each interval makes of its change, since
slopes of awaits that move apart have errors that hardly depend on each other, and of the error of L over its cells.
A single cell also differs from its volume's mean.

What it leaves out: limits of the other volume, and CPUs that become the bottleneck when reads no longer are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from volbench.results.response.estimate import with_one_log
from volbench.results.response.methods import CONFIDENCE
from volbench.results.response.model import Interval, NoResponse, Response, Slope
from volbench.results.response.samples import MIXED_MAX, CellSamples
from volbench.results.stats.student_t import t_quantile

CELLS_MIN = 2
"""Cells of a volume from which on they tell the error of their mean."""
OTHER_RUN_SD = 0.1
"""Standard deviation of predicted over measured latency, beside the slopes' errors, as a share of the latency.

Of 60 forecasts for emulated volumes that nobody had measured (MySQL 9.7, a machine that did little else;
results/examples/lab/forecasts.md), the slopes' own intervals held 17 rates and 21 medians; with this 56 and 52 of
59. It was chosen on these; 0.08, chosen on the first 24, holds 30 rates of the other 36.
"""
_NORMAL_95 = 1.96
BEYOND = 2.0
"""Times the largest await that was measured, or the smallest divided by it: from here on the line is a guess."""


@dataclass(frozen=True, kw_only=True)
class LatencySlope:
    """Milliseconds of latency for each millisecond of one await: `value`, and its interval from `low` to `high`.

    Args:
        is_measured: it is a slope that the server's count confirms; else it is the count.
        moved_ms: 10th and 90th percentile of the await in what the slope was estimated from.
        less_cpu_wait: the slope of the latency less the wait for CPUs; None: not known.
    """

    term: str
    value: float
    low: float
    high: float
    is_measured: bool
    moved_ms: tuple[float, float]
    less_cpu_wait: Interval | None = None

    def change(self, here_ms: float, there_ms: float) -> Interval:
        """Return what another await changes of a latency, in ms: beyond the longest one, without waits for CPUs.

        Args:
            here_ms: mean await that the latency was measured at.
            there_ms: wanted await.
        """
        longest_ms = max(here_ms, self.moved_ms[1])
        beyond_ms = 0.0 if self.less_cpu_wait is None else max(0.0, there_ms - longest_ms)
        within_ms = there_ms - here_ms - beyond_ms
        less = self.less_cpu_wait or Interval(value=0.0, low=0.0, high=0.0)
        ends = (self.low * within_ms + less.low * beyond_ms, self.high * within_ms + less.high * beyond_ms)
        return Interval(value=self.value * within_ms + less.value * beyond_ms, low=min(ends), high=max(ends))

    def is_beyond(self, await_ms: float) -> bool:
        """Return whether a waiting time is far from all that were measured."""
        low, high = self.moved_ms
        return not low / BEYOND <= await_ms <= high * BEYOND


@dataclass(frozen=True, kw_only=True)
class VolumeLoad:
    """One volume's load: mean latency of a transaction, and the mean await of each wait, in ms.

    Args:
        error_ms: half the 95 % interval of the mean latency over cells, by Student's t; None of a single cell.
        base_awaits_ms: mean await of each wait while no signal kept the volume slow.
    """

    volume: str
    threads: int | None
    latency_ms: float
    awaits_ms: Mapping[str, float]
    quantiles_ms: Mapping[float, float]
    error_ms: float | None = None
    base_awaits_ms: Mapping[str, float] = field(default_factory=dict)

    @property
    def error_text(self) -> str:
        """Return what an interval lacks that is made of one cell; else nothing."""
        return " of one cell, whose own error the interval lacks" if self.error_ms is None else ""


@dataclass(frozen=True, kw_only=True)
class LatencyEstimate:
    """A latency in ms, with its interval of 95 %."""

    value_ms: float
    low_ms: float
    high_ms: float

    def on_another_run(self) -> LatencyEstimate:
        """Return it with what another run on another volume is off by (OTHER_RUN_SD) in its interval."""
        other_ms = _NORMAL_95 * OTHER_RUN_SD * self.value_ms
        return LatencyEstimate(
            value_ms=self.value_ms,
            low_ms=self.value_ms - math.hypot(self.value_ms - self.low_ms, other_ms),
            high_ms=self.value_ms + math.hypot(self.high_ms - self.value_ms, other_ms),
        )


def confirmed_costs(response: Response | NoResponse | None) -> tuple[LatencySlope, ...]:
    """Return what each wait costs; nothing without a slope that the server's count confirms.

    Nothing, too, where a wait has neither such a slope nor a count.
    """
    if not isinstance(response, Response) or all(slope.agreement != "agrees" for slope in response.slopes):
        return ()
    costs = [_cost(slope) for slope in response.slopes]
    complete = tuple(cost for cost in costs if cost is not None)
    return complete if len(complete) == len(costs) else ()


def _cost(slope: Slope) -> LatencySlope | None:
    if slope.agreement == "agrees":
        value, low, high = slope.value, slope.low, slope.high
    elif slope.counted is not None:
        low, high = slope.counted.low, slope.counted.high
        value = (low + high) / 2
    else:
        return None
    return LatencySlope(
        term=slope.term,
        value=value,
        low=low,
        high=high,
        is_measured=slope.agreement == "agrees",
        moved_ms=slope.moved_ms,
        less_cpu_wait=slope.less_cpu_wait if slope.agreement == "agrees" else None,
    )


def levels_of(cells: Sequence[CellSamples], terms: Iterable[str]) -> tuple[VolumeLoad, ...]:
    """Return the level of each volume and number of threads; not of one on which an await is not known.

    Args:
        cells: of one load.
        terms: of the awaits that are wanted.
    """
    names = tuple(terms)
    groups: dict[tuple[str, int | None], list[CellSamples]] = {}
    for cell in cells:
        merged = cell if set(names) <= set(cell.awaits_ms) else with_one_log(cell)
        groups.setdefault((cell.volume, cell.threads), []).append(merged)
    levels = (_level(volume, threads, of_level, names) for (volume, threads), of_level in groups.items())
    return tuple(level for level in levels if level is not None)


def _level(
    volume: str, threads: int | None, cells: Sequence[CellSamples], terms: Sequence[str]
) -> VolumeLoad | None:
    """Return means over the transactions of all cells."""
    latency_ms = np.concatenate([cell.latency_ms for cell in cells])
    finished = np.concatenate([cell.finished for cell in cells])
    used = np.isfinite(latency_ms) & (finished > 0)
    awaits_ms = mean_awaits_ms(cells, terms)
    if not used.any() or set(awaits_ms) != set(terms):
        return None
    return VolumeLoad(
        volume=volume,
        threads=threads,
        latency_ms=float(np.average(latency_ms[used], weights=finished[used])),
        awaits_ms=awaits_ms,
        quantiles_ms=_mean_quantiles(cells),
        error_ms=_error_ms(cells),
        base_awaits_ms=awaits_ms | mean_awaits_ms(cells, terms, is_base=True),
    )


def mean_awaits_ms(
    cells: Sequence[CellSamples], terms: Iterable[str], *, is_base: bool = False
) -> dict[str, float]:
    """Return by term the mean await over transactions, in ms; nothing of one that is not known.

    Args:
        cells: of one load on one volume.
        terms: that are wanted.
        is_base: only of intervals in which no signal kept the volume slow.
    """
    means = {}
    for term in terms:
        pieces = []
        for cell in cells:
            await_ms = cell.awaits_ms.get(term, np.full(len(cell), np.nan))
            usable = np.isfinite(await_ms) & np.isfinite(cell.latency_ms) & (cell.finished > 0)
            for signal in cell.seen_signals.values() if is_base else ():
                usable = usable & (signal < MIXED_MAX)
            pieces.append(np.column_stack([await_ms, cell.finished])[usable])
        values = np.concatenate(pieces)
        if len(values):
            means[term] = float(np.average(values[:, 0], weights=values[:, 1]))
    return means


def _error_ms(cells: Sequence[CellSamples]) -> float | None:
    """Return half the 95 % interval of the mean latency over cells, the independent repeats; None of one cell."""
    means_ms = []
    for cell in cells:
        usable = np.isfinite(cell.latency_ms) & (cell.finished > 0)
        if usable.any():
            means_ms.append(float(np.average(cell.latency_ms[usable], weights=cell.finished[usable])))
    if len(means_ms) < CELLS_MIN:
        return None
    error_ms = float(np.std(means_ms, ddof=1)) / math.sqrt(len(means_ms))
    return t_quantile((1 + CONFIDENCE) / 2, len(means_ms) - 1) * error_ms


def _mean_quantiles(cells: Sequence[CellSamples]) -> dict[float, float]:
    """Return the mean over cells of each quantile that all of them have."""
    levels = [
        level for level in cells[0].step_quantiles_ms if all(level in cell.step_quantiles_ms for cell in cells)
    ]
    return {level: float(np.mean([cell.step_quantiles_ms[level] for cell in cells])) for level in levels}


def latency_at(level: VolumeLoad, costs: Sequence[LatencySlope], awaits_ms: Mapping[str, float]) -> LatencyEstimate:
    """Return the mean latency of a transaction with other waiting times; waits that are not named stay.

    Of a single cell, whose mean has an error that nothing tells, the interval is that of the costs alone.

    Args:
        level: what was measured.
        costs: ms of latency per ms of each await.
        awaits_ms: by term, the wanted waiting time in ms.
    """
    error_ms = level.error_ms or 0.0
    value_ms, below, above = level.latency_ms, error_ms**2, error_ms**2
    for cost in costs:
        here_ms = level.awaits_ms[cost.term]
        change = cost.change(here_ms, awaits_ms.get(cost.term, here_ms))
        value_ms += change.value
        below, above = below + (change.value - change.low) ** 2, above + (change.high - change.value) ** 2
    return LatencyEstimate(
        value_ms=value_ms, low_ms=value_ms - math.sqrt(below), high_ms=value_ms + math.sqrt(above)
    )
