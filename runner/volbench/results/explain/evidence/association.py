"""Which metrics move with latency: lagged rank correlation of differences, pooled over the cells of a step.

It supports a finding and never makes one.

Differences take out trends and levels that any two series of a run share; ranks take out scales and spikes; the
effective sample size takes out that neighbouring seconds are alike (Bayley and Hammersley 1946); Bonferroni over
the lags and Benjamini and Hochberg (1995) over the metrics take out that many were tried.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from volbench.core.records.named_metrics import Client, PerformanceSchema
from volbench.core.records.sources import harm_of, is_rate
from volbench.results.stats.centred_series import CentredSeries, effective_size
from volbench.results.stats.grid import Floats, Grid
from volbench.results.stats.segmentation import midranks
from volbench.results.store.series import SeriesKey

LAGS = range(4)
"""Intervals by which a metric may lead the latency; one that follows it is no cause."""
SAMPLES_MIN = 20
"""Pairs of all cells together."""
CELL_SAMPLES_MIN = 6
"""Pairs of one cell; fewer have no ranks worth the name."""
INTERVALS_MAX = 3600
"""Of a longer cell the first intervals are used: more pairs would not change what holds."""
FALSE_DISCOVERIES = 0.05
VARIANCE_MIN = 0.05
"""Share of the latency's variance (of ranks of changes) that a metric must explain; less is true and of no use."""
SLOWEST = 0.05
"""Share of transactions that are as slow as p95, or slower."""
THROUGHPUT = SeriesKey.of(Client.tps)
_SECONDS = "_s_per_s"
PARTIAL_LEFT_MIN = 1e-4
"""Product of both variances that the throughput leaves; a metric with less is the throughput under another name."""
_OF_STATEMENTS: frozenset[str] = frozenset(
    metric.name
    for metric in (
        PerformanceSchema.statement_s_per_s,
        PerformanceSchema.statement_lock_s_per_s,
        PerformanceSchema.statement_errors_per_s,
        PerformanceSchema.statement_ms,
        PerformanceSchema.query_per_s,
        PerformanceSchema.query_s_per_s,
        PerformanceSchema.query_lock_s_per_s,
        PerformanceSchema.query_cpu_s_per_s,
        PerformanceSchema.query_rows_examined_per_s,
        PerformanceSchema.query_rows_sent_per_s,
        PerformanceSchema.query_rows_affected_per_s,
        PerformanceSchema.query_tmp_disk_tables_per_s,
    )
)
"""What statements took and did: latency and throughput by other names."""
_SPEARMAN_VARIANCE = 1.06  # of Fisher's z for rank correlations (Fieller, Hartley and Pearson 1957)


@dataclass(frozen=True, kw_only=True, slots=True)
class Along:
    """Rank correlations of a cause's own metric: with another metric, and with the latency."""

    rho: float
    rho_of_latency: float


@dataclass(frozen=True, kw_only=True)
class Association:
    """One metric against latency. `lag` is how many intervals it leads; `q_value` is corrected over all metrics.

    `samples` and `effective_samples` are pairs of all cells together; `cells` is how many gave any. `reach` is the
    share of p95's variance that a time explains at most (`_reach`); None of what is no time. `along` is, by cause,
    how it moves with that cause's own metric; causes without such a metric are absent.
    """

    key: SeriesKey
    rho: float
    lag: int
    samples: int
    effective_samples: float
    p_value: float
    q_value: float
    cells: int = 1
    reach: float | None = None
    along: Mapping[str, Along] = field(default_factory=dict)

    def moves_along(self, cause: str) -> bool | None:
        """Return whether it moves with a cause's own metric as closely as both move with p95; None: not known.

        Two series show one wait, each with an error of its own, and p95 shows it with a third error: then their
        correlation is no less than the product of those with p95. Of two that move p95 apart from each other it is
        less (one factor, Spearman 1904). What is left of a partial correlation would not tell them apart.
        """
        along = self.along.get(cause)
        if along is None:
            return None
        both = self.rho * along.rho_of_latency
        is_known = along.rho**2 >= VARIANCE_MIN and _p_value(along.rho, self.effective_samples) <= FALSE_DISCOVERIES
        return is_known and along.rho * both > 0 and abs(along.rho) >= abs(both)

    @property
    def holds(self) -> bool:
        """Return whether it is beyond the allowed rate of false discoveries, and worth telling."""
        is_material = self.rho**2 >= VARIANCE_MIN and (self.reach is None or self.reach >= VARIANCE_MIN)
        return self.q_value <= FALSE_DISCOVERIES and is_material

    @property
    def implausible_reason(self) -> str:
        """Return why its sign makes it no candidate for a cause; empty where it may be one."""
        return implausible_reason(self.key.source, self.key.metric, self.rho)


def implausible_reason(source: str, metric: str, rho: float) -> str:
    """Return why a metric that moves so with a latency cannot have raised it; empty where it can.

    A burst balance that rises with p95 stands where clients that wait longer spend less of it.
    """
    harm = harm_of(source, metric)
    if harm == "either" or rho == 0 or (rho > 0) == (harm == "more"):
        return ""
    if rho < 0 and is_rate(metric):
        return "a load that waits longer does less"
    return f"{'more' if rho > 0 else 'less'} of it makes nothing slower"


@dataclass(frozen=True, kw_only=True, slots=True)
class Correlation:
    """Rank correlation of one cell's pairs: `effective` is how many independent pairs they are worth.

    `reach` is the share of the latency's variance that a time explains at most; None of what is no time. `along`
    is, by cause, how it moves with that cause's own metric.
    """

    rho: float
    samples: int
    effective: float
    reach: float | None = None
    along: Mapping[str, Along] = field(default_factory=dict)


CellCorrelations = Mapping[SeriesKey, Mapping[int, Correlation]]
"""Of one cell: metric -> lag in intervals -> correlation. Lags with too few pairs are absent."""


def no_counterparts(_: SeriesKey) -> dict[str, Floats]:
    """Return no column of any cause."""
    return {}


def cell_correlations(
    grid: Grid,
    latency: SeriesKey,
    *,
    is_closed: bool = False,
    counterparts: Callable[[SeriesKey], Mapping[str, Floats]] = no_counterparts,
) -> CellCorrelations:
    """Return the correlations of one cell with its latency; empty without that series.

    Args:
        grid: the cell's aligned series.
        latency: the series to explain.
        is_closed: whether a fixed number of clients sends the load: its latency then is their number over its
            throughput, and all that follows the throughput follows the latency. Rates, and what else rises with the
            throughput (CPU use, for one), are correlated as far as they do not follow it (partial correlation).
        counterparts: gives for a metric by cause the cause's own column, with which it is correlated, too.
    """
    target = grid.columns.get(latency)
    if target is None:
        return {}
    companions: _Companions = {}
    throughput = grid.columns.get(THROUGHPUT) if is_closed else None
    return {
        key: by_lag
        for key, column in grid.columns.items()
        if key.source != latency.source
        and key.metric not in _OF_STATEMENTS
        and (
            by_lag := _by_lag(
                column[:INTERVALS_MAX],
                target[:INTERVALS_MAX],
                companions,
                None if throughput is None else throughput[:INTERVALS_MAX],
                is_rate=is_rate(key.metric),
                reach=_reach(grid, key, target),
                counterparts=counterparts(key),
            )
        )
    }


def _reach(grid: Grid, key: SeriesKey, latency_ms: Floats) -> float | None:
    """Return the share of p95's variance that a time explains at most; None where that is not known.

    Of the time t that a transaction spends on average with one thing, the slowest 5 % spend at most t / 0.05 on
    average, all of it (Markov's inequality). So of the changes of p95 it explains cov(20 t, p95) / var(p95) at
    most, and that is at most the ratio of their standard deviations.

    Args:
        grid: of one cell; seconds of the thing per second over transactions per second are its time t.
        key: the metric.
        latency_ms: p95.
    """
    metric = key.metric if key.metric.endswith(_SECONDS) else f"{key.metric.removesuffix('_ms')}{_SECONDS}"
    seconds = grid.columns.get(SeriesKey(source=key.source, metric=metric, entity=key.entity))
    tps = grid.columns.get(THROUGHPUT)
    if seconds is None or tps is None or not key.metric.endswith((_SECONDS, "_ms")):
        return None
    with np.errstate(invalid="ignore", divide="ignore"):
        each_ms = np.where(tps > 0, 1000 * seconds / tps, np.nan)
    changes = np.diff(np.stack([each_ms, latency_ms])[:, :INTERVALS_MAX], axis=1)
    changes = changes[:, np.isfinite(changes).all(axis=0)]
    if changes.shape[1] < CELL_SAMPLES_MIN:
        return None
    deviation, of_latency = changes.std(axis=1)
    return float(deviation / SLOWEST / of_latency) if of_latency > 0 else None


def pooled(cells: Sequence[CellCorrelations]) -> tuple[Association, ...]:
    """Correlations of several cells together, the strongest first.

    The cell is the block: ranks are taken within each cell, so that cells of different levels do not correlate by
    their levels. The pooled correlation is the mean of the cells' weighted by their effective samples; each cell
    after the first costs one of these, since each has a mean of its own.
    """
    strongest = {}
    for key in dict.fromkeys(key for cell in cells for key in cell):
        by_lag = [cell[key] for cell in cells if key in cell]
        best = _strongest(by_lag)
        if best is not None:
            reaches = [
                correlation.reach
                for cell in by_lag
                for correlation in cell.values()
                if correlation.reach is not None
            ]
            strongest[key] = (*best, len(by_lag), max(reaches, default=None), _along_of(by_lag, best[0]))
    q_values = benjamini_hochberg({key: p_value for key, (_, _, p_value, *_) in strongest.items()})
    rows = [
        Association(
            key=key,
            rho=total.rho,
            lag=lag,
            samples=total.samples,
            effective_samples=total.effective,
            p_value=p_value,
            q_value=q_values[key],
            cells=count,
            reach=reach,
            along=along,
        )
        for key, (lag, total, p_value, count, reach, along) in strongest.items()
    ]
    return tuple(sorted(rows, key=lambda row: (row.q_value, -abs(row.rho), row.key)))


def _along_of(cells: Sequence[Mapping[int, Correlation]], lag: int) -> dict[str, Along]:
    """Return by cause the means of the cells that know it, weighted as the correlation itself."""
    lagged = [cell[lag] for cell in cells if lag in cell]
    pooled_by_cause = {}
    for cause in dict.fromkeys(cause for cell in lagged for cause in cell.along):
        such = [cell for cell in lagged if cause in cell.along]
        weight = sum(cell.effective for cell in such)
        pooled_by_cause[cause] = Along(
            rho=sum(cell.along[cause].rho * cell.effective for cell in such) / weight,
            rho_of_latency=sum(cell.along[cause].rho_of_latency * cell.effective for cell in such) / weight,
        )
    return pooled_by_cause


_Companions = dict[tuple[int, bytes], "_Companion | None"]
"""What is correlated with each metric, by lag and by the pairs that are used: most metrics use the same ones."""


@dataclass(frozen=True, kw_only=True)
class _Companion:
    """Ranks of the latency's differences over some pairs, and of a third series'; None: it is not taken out."""

    target: CentredSeries
    third: CentredSeries | None

    @cached_property
    def with_third(self) -> float:
        """The correlation of the two."""
        return 0.0 if self.third is None else self.third.correlation(self.target)


def _companion(y: Floats, z: Floats | None) -> _Companion | None:
    """Return the ranks of the latency and of a third series; None where the latency does not vary."""
    if np.ptp(y) == 0:
        return None
    has_third = z is not None and np.isfinite(z).all() and np.ptp(z) > 0
    third = CentredSeries(midranks(z)) if z is not None and has_third else None
    return _Companion(target=CentredSeries(midranks(y)), third=third)


def _by_lag(
    metric: Floats,
    target: Floats,
    companions: _Companions,
    third: Floats | None,
    *,
    is_rate: bool,
    reach: float | None,
    counterparts: Mapping[str, Floats],
) -> dict[int, Correlation]:
    """Return the rank correlation of differences at each lag; empty for a metric that does not vary.

    Args:
        metric, target: of shape (intervals,).
        companions: the ranks of target and third series so far.
        third: a third series, the throughput, whose part in both is taken out of what rises with it; None: none.
        is_rate: whether it is taken out in any case.
        reach: of the metric, for its correlations.
        counterparts: columns of causes, by cause; they act at the time of the latency, whatever the lag.
    """
    dx, dy = np.diff(metric), np.diff(target)
    dz = None if third is None else np.diff(third)
    by_lag = {}
    for lag in LAGS:
        end = max(0, len(dx) - lag)
        both = np.isfinite(dx[:end]) & np.isfinite(dy[lag:])
        if int(both.sum()) < CELL_SAMPLES_MIN:
            continue
        used = (lag, both.tobytes())
        if used not in companions:
            companions[used] = _companion(dy[lag:][both], None if dz is None else dz[:end][both])
        companion, x = companions[used], dx[:end][both]
        if companion is None or np.ptp(x) == 0:
            continue
        rx, ry = CentredSeries(midranks(x)), companion.target
        rho = _without(companion, rx.correlation(ry), rx, is_rate=is_rate)
        along = {
            cause: moved
            for cause, column in counterparts.items()
            if rho**2 >= VARIANCE_MIN and (moved := _along(np.diff(column[: len(metric)])[lag:][both], rx, ry))
        }
        effective = effective_size(rx, ry)
        by_lag[lag] = Correlation(rho=rho, samples=rx.size, effective=effective, reach=reach, along=along)
    return by_lag


def _along(of_cause: Floats, metric: CentredSeries, target: CentredSeries) -> Along | None:
    """Return how the changes of a cause's column move with a metric's and the latency's; None: it does not vary."""
    if not np.isfinite(of_cause).all() or np.ptp(of_cause) == 0:
        return None
    ranked = CentredSeries(midranks(of_cause))
    return Along(rho=ranked.correlation(metric), rho_of_latency=ranked.correlation(target))


def moves_with(column: Floats, target: Floats) -> float | None:
    """Return the rank correlation of two series' changes; None where too few are known, or one is constant."""
    x, y = np.diff(column[:INTERVALS_MAX]), np.diff(target[:INTERVALS_MAX])
    both = np.isfinite(x) & np.isfinite(y)
    if int(both.sum()) < CELL_SAMPLES_MIN or np.ptp(x[both]) == 0 or np.ptp(y[both]) == 0:
        return None
    return CentredSeries(midranks(x[both])).correlation(CentredSeries(midranks(y[both])))


def _without(companion: _Companion, rho: float, metric: CentredSeries, *, is_rate: bool) -> float:
    """Return the partial correlation of two ranked series, without what a third one explains of both.

    What is no rate and does not rise with the third one, or not as the target does, does not follow it: its
    correlation stays. So nothing but a rate gets a larger one.

    Source: Kendall and Stuart, The Advanced Theory of Statistics, volume 2, chapter 27.
    """
    if companion.third is None:
        return rho
    with_metric, with_target = companion.third.correlation(metric), companion.with_third
    if not is_rate and (with_metric <= 0 or rho * with_target <= 0):
        return rho
    left = (1 - with_metric**2) * (1 - with_target**2)
    if left < PARTIAL_LEFT_MIN:
        return 0.0
    partial = min(1.0, max(-1.0, (rho - with_metric * with_target) / math.sqrt(left)))
    return partial if is_rate else min(rho, partial, key=abs)


def _strongest(cells: Sequence[Mapping[int, Correlation]]) -> tuple[int, Correlation, float] | None:
    """The lag with the strongest pooled correlation, that correlation, and its p-value over all lags tried."""
    best: tuple[int, Correlation, int] | None = None
    tried = 0
    for lag in LAGS:
        lagged = [cell[lag] for cell in cells if lag in cell]
        samples = sum(cell.samples for cell in lagged)
        if samples < SAMPLES_MIN:
            continue
        tried += 1
        weight = sum(cell.effective for cell in lagged)
        rho = sum(cell.rho * cell.effective for cell in lagged) / weight
        effective = weight - (len(lagged) - 1)
        if best is None or abs(rho) > abs(best[1].rho):
            best = (lag, Correlation(rho=rho, samples=samples, effective=effective), len(lagged))
    if best is None:
        return None
    lag, total, _ = best
    return lag, total, min(1.0, _p_value(total.rho, total.effective) * tried)


def benjamini_hochberg(p_values: Mapping[SeriesKey, float]) -> dict[SeriesKey, float]:
    """q-values: the least rate of false discoveries at which each would be kept."""
    ordered = sorted(p_values, key=lambda key: p_values[key], reverse=True)
    q, least = {}, 1.0
    for rank, key in zip(range(len(ordered), 0, -1), ordered, strict=True):
        least = min(least, p_values[key] * len(ordered) / rank)
        q[key] = least
    return q


def _p_value(rho: float, size: float) -> float:
    """Two-sided, by Fisher's z."""
    if size <= 4 or abs(rho) >= 1:
        return 1.0 if size <= 4 else 0.0
    z = math.atanh(rho) * math.sqrt((size - 3) / _SPEARMAN_VARIANCE)
    return math.erfc(abs(z) / math.sqrt(2))
