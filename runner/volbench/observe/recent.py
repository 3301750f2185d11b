"""What the readings of an observation come to: rows of series, latencies, and the metrics that triggers ask for."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from volbench.core.records.latency_bins import LatencyBins
from volbench.core.records.named_metrics import Client
from volbench.core.records.series import HistogramRow, SeriesRow
from volbench.core.records.sources import device_sources
from volbench.measure.sample.interface import Reading
from volbench.measure.sample.raw import RawTick
from volbench.measure.sample.rows import histogram_of
from volbench.measure.sample.server.performance_schema import PerformanceSchemaSampler
from volbench.measure.sample.sources import OBSERVED
from volbench.results.explain.evidence.stands import LONG_MS, client_stands
from volbench.results.stats.grid import align
from volbench.results.store.series import Series, SeriesKey

LATENCY_SOURCE = "client"
"""Latencies of statements are put where the analysis looks for what users waited for."""
SLOWEST = "latency_ms_max"
QUANTILES = {"latency_ms_p50": 0.5, "latency_ms_p95": 0.95, "latency_ms_p99": 0.99}
_OF_CLIENT = {
    ("innodb", "commits_per_s"): "tps",
    ("performance_schema", "statement_ms"): "latency_ms_avg",
    ("progress", "standstill_ms_max"): SLOWEST,  # who stood so long took so long, at least
}
_RATE = ("performance_schema", "statements_per_s")
_OF_STANDS = frozenset({_RATE, (LATENCY_SOURCE, SLOWEST)})
STANDS_WITHIN_S = 60.0
_VOLUME_SOURCES = device_sources("block", "files", "volume", "exporter")
_TRIGGERED = {
    ("client", "latency_ms_p50"): ("p50", 1.0),
    ("client", "latency_ms_p95"): ("p95", 1.0),
    ("client", "latency_ms_p99"): ("p99", 1.0),
    ("performance_schema", "statement_ms"): ("statement_time", 1.0),
    ("performance_schema", "statements_per_s"): ("statements", 1.0),
    ("performance_schema", "statement_errors_per_s"): ("errors", 1.0),
    ("progress", "standstill_ms_max"): ("standstill", 1.0),
    ("innodb", "row_lock_current_waits"): ("row_lock_waits", 1.0),
    ("innodb", "history_list_length"): ("history_list", 1.0),
    ("innodb", "checkpoint_age_ratio"): ("checkpoint_age", 100.0),
    ("innodb", "buffer_pool_dirty_ratio"): ("dirty", 100.0),
    ("cpu", "iowait_ratio"): ("iowait", 100.0),
}
_OF_VOLUME = {
    "reads_per_s": ("reads", 1.0),
    "writes_per_s": ("writes", 1.0),
    "r_await_ms": ("r_await", 1.0),
    "w_await_ms": ("w_await", 1.0),
    "aqu_sz": ("queue", 1.0),
    "queue_length": ("in_flight", 1.0),
    "util_ratio": ("util", 100.0),
    "in_flight": ("in_flight", 1.0),
}


class Readings:
    """Turns ticks into rows, two readings of a source at a time. `latest` has the last one of each source."""

    def __init__(self) -> None:
        self.latest: dict[str, Reading] = {}

    def rows_of(self, tick: RawTick) -> Iterator[tuple[str, float, list[SeriesRow]]]:
        """By source: its name, the begin of the interval, and its rows, latencies of statements with them."""
        for source, reading in tick.read.items():
            before = self.latest.get(source)
            self.latest[source] = reading
            if before is None or source not in OBSERVED or reading.t_s <= before.t_s:
                continue
            rows = list(OBSERVED[source].rates(before, reading))
            if source == PerformanceSchemaSampler.source:
                rows += latency_rows(histogram_of(before, reading))
            rows += [_as_of_client(row) for row in rows if (row.source, row.metric) in _OF_CLIENT]
            yield source, before.t_s, rows


def latency_rows(histogram: HistogramRow | None) -> list[SeriesRow]:
    """Quantiles of an interval's statements; none without histograms, and none where no statement ended."""
    if histogram is None or histogram.events <= 0:
        return []
    bins = LatencyBins(
        edge_mult=histogram.edge_mult,
        edge_deduct=histogram.edge_deduct,
        counts=dict(zip(histogram.bin, histogram.count, strict=True)),
        below=histogram.below,
        above=histogram.above,
    )
    quantiles = {name: bins.quantile_ms(level) for name, level in QUANTILES.items()} | {SLOWEST: bins.max_ms()}
    return [
        SeriesRow(t_s=histogram.t_s, source=LATENCY_SOURCE, metric=name, value=value)
        for name, value in quantiles.items()
        if value is not None
    ]


def _as_of_client(row: SeriesRow) -> SeriesRow:
    """What users see of the server, under the name by which the analysis knows it."""
    metric = _OF_CLIENT[row.source, row.metric]
    return SeriesRow(t_s=row.t_s, source=LATENCY_SOURCE, metric=metric, value=row.value)


@dataclass(kw_only=True)
class RecentSeries:
    """The series of the last `length_s` seconds; None: of all time."""

    length_s: float | None = None
    _rows: dict[SeriesKey, deque[tuple[float, float]]] = field(default_factory=dict)
    end_s: float = 0.0

    def add(self, rows: Iterable[SeriesRow]) -> None:
        """Take rows in order of time."""
        for row in rows:
            key = SeriesKey(source=row.source, metric=row.metric, entity=row.entity)
            values = self._rows.setdefault(key, deque())
            values.append((row.t_s, row.value))
            self.end_s = max(self.end_s, row.t_s)
            while self.length_s is not None and values[0][0] < self.end_s - self.length_s:
                values.popleft()

    def series(self) -> dict[SeriesKey, Series]:
        """All of them; those without a value in the window are left out."""
        oldest = -np.inf if self.length_s is None else self.end_s - self.length_s
        series_by_key = {}
        for key, rows in list(self._rows.items()):
            while rows and rows[0][0] < oldest:
                rows.popleft()
            if not rows:
                del self._rows[key]
                continue
            values = np.array(rows, dtype=np.float64)
            series_by_key[key] = Series(t_s=values[:, 0], value=values[:, 1])
        return series_by_key


@dataclass(kw_only=True)
class StallClock:
    """How long the volume has completed nothing while a request was in flight."""

    stalled_ms: float = 0.0

    def see(self, values: Mapping[str, float], length_s: float) -> float | None:
        """Take an interval of the volume; None where it is not known what is in flight."""
        if "iops" not in values or "in_flight" not in values:
            return None
        still = values["iops"] == 0 and values["in_flight"] > 0
        self.stalled_ms = self.stalled_ms + 1000 * length_s if still else 0.0
        return self.stalled_ms


@dataclass(kw_only=True)
class StandClock:
    """How long all sessions have stood still, by `client_stands` over the last minute of the histogram's slowest.

    A server without a histogram tells its standstills itself, see the source `progress`.

    Args:
        width_s: of an interval.
    """

    width_s: float
    _window: RecentSeries = field(default_factory=lambda: RecentSeries(length_s=STANDS_WITHIN_S))

    def see(self, rows: Iterable[SeriesRow]) -> float | None:
        """Take an interval's rows of one source; the length of the stand that it is a part of, ms, 0 for none.

        None where the rows do not tell both the slowest statement and how many ended.
        """
        of_stands = [row for row in rows if not row.entity and (row.source, row.metric) in _OF_STANDS]
        self._window.add(of_stands)
        values = {row.metric: row.value for row in of_stands}
        if len(values) < len(_OF_STANDS):
            return None
        if values[SLOWEST] < LONG_MS:
            return 0.0
        grid = align(self._window.series(), width_s=self.width_s)
        stands = client_stands(grid.column(*_RATE), grid.column(*Client.latency_ms_max), self.width_s)
        return 1000 * stands[-1].length_s if stands and stands[-1].last >= len(grid) - 2 else 0.0


def trigger_values(rows: Iterable[SeriesRow], disk: str | None) -> dict[str, float]:
    """Values of the metrics that triggers know, from the rows of one source's interval.

    Args:
        rows: of one source.
        disk: kernel name of the volume's disk; None: every device of the source is taken for the volume.
    """
    metrics: dict[str, float] = {}
    volume: dict[str, float] = {}
    cpu: dict[str, float] = {}
    for row in rows:
        trigger_metric = _TRIGGERED.get((row.source, row.metric)) if not row.entity else None
        if trigger_metric is not None:
            metrics[trigger_metric[0]] = row.value * trigger_metric[1]
        elif row.source == "innodb" and row.metric == "threads_running":
            metrics["threads_running"] = max(0.0, row.value - 1)  # ours, which asks
        elif row.source == "cpu" and row.metric in ("user_ratio", "system_ratio"):
            cpu[row.metric] = row.value
        elif row.metric == "balance_percent":
            metrics["credits"] = min(metrics.get("credits", row.value), row.value)
        elif row.source in _VOLUME_SOURCES and (row.source != "diskstats" or disk is None or row.entity == disk):
            volume[row.metric] = row.value
    if len(cpu) == 2:
        metrics["cpu"] = 100 * sum(cpu.values())
    return metrics | _volume_values(volume)


def _volume_values(volume: Mapping[str, float]) -> dict[str, float]:
    device_metrics = {
        name: volume[metric] * scale for metric, (name, scale) in _OF_VOLUME.items() if metric in volume
    }
    if "reads" in device_metrics and "writes" in device_metrics:
        device_metrics["iops"] = device_metrics["reads"] + device_metrics["writes"]
        waited = [
            (device_metrics[name], device_metrics[wait])
            for name, wait in (("reads", "r_await"), ("writes", "w_await"))
            if wait in device_metrics
        ]
        operations = sum(rate for rate, _ in waited)
        if operations > 0:
            device_metrics["await"] = sum(rate * wait for rate, wait in waited) / operations
    if "read_mib_per_s" in volume and "write_mib_per_s" in volume:
        device_metrics["throughput"] = volume["read_mib_per_s"] + volume["write_mib_per_s"]
    return device_metrics
