"""The lines of the timelines in their order: the client on top, storage below, the host last."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from volbench.core.records.sources import device_sources, sources_with
from volbench.core.records.sources.info import View
from volbench.results.store.series import SeriesKey

Dash = Literal["solid", "dashed", "dotted", "dotdash"]


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line of a panel: the first metric that one of the panel's sources has."""

    key: str
    label: str
    metrics: tuple[str, ...]
    dash: Dash = "solid"


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One chart. `sources` in order of preference; the first that has any of the metrics gives all lines."""

    key: str
    title: str
    unit: str
    sources: tuple[str, ...]
    lines: tuple[Line, ...]
    log: bool = False
    height_px: int = 130


_VIEWS: tuple[View, ...] = ("block", "files", "volume", "exporter", "group", "vendor")
_DEVICE = device_sources(*_VIEWS)
_QUANTILES = (
    Line(key="p50", label="p50", metrics=("p50",), dash="dotted"),
    Line(key="p95", label="p95", metrics=("p95",)),
    Line(key="p99", label="p99", metrics=("p99",), dash="dashed"),
)
LATENCY_LEVELS = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
LATENCY_PANELS = {"latency": "client", "statement": "server"}
"""Panels whose lines are quantiles of merged histograms, and the histograms' source."""

PANELS = (
    Panel(
        key="latency",
        title="Transaction latency, as the client saw it",
        unit="ms",
        sources=("client",),
        lines=_QUANTILES,
        log=True,
        height_px=190,
    ),
    Panel(
        key="throughput",
        title="Transactions finished",
        unit="1/s",
        sources=("client",),
        lines=(Line(key="tps", label="transactions", metrics=("tps",)),),
    ),
    Panel(
        key="lag",
        title="Replica lag",
        unit="ms",
        sources=("replica",),
        lines=(
            Line(key="p50", label="median", metrics=("lag_ms_p50",), dash="dotted"),
            Line(key="max", label="highest", metrics=("lag_ms_max",)),
        ),
        log=True,
    ),
    Panel(
        key="source_tps",
        title="Transactions of the replica's source",
        unit="1/s",
        sources=("replica",),
        lines=(Line(key="tps", label="transactions", metrics=("source_tps",)),),
    ),
    Panel(
        key="statement",
        title="Statement latency, as the server saw it",
        unit="ms",
        sources=("server",),
        lines=_QUANTILES,
        log=True,
    ),
    Panel(
        key="iops",
        title="Device operations",
        unit="1/s",
        sources=_DEVICE,
        lines=(
            Line(key="reads", label="reads", metrics=("reads_per_s",)),
            Line(key="writes", label="writes", metrics=("writes_per_s",), dash="dashed"),
            Line(key="flushes", label="flushes", metrics=("flushes_per_s", "commits_per_s"), dash="dotted"),
        ),
    ),
    Panel(
        key="throughput_mib",
        title="Device throughput",
        unit="MiB/s",
        sources=_DEVICE,
        lines=(
            Line(key="read_mib", label="read", metrics=("read_mib_per_s",)),
            Line(key="write_mib", label="written", metrics=("write_mib_per_s",), dash="dashed"),
        ),
    ),
    Panel(
        key="await",
        title="Device latency (await)",
        unit="ms",
        sources=_DEVICE,
        lines=(
            Line(key="r_await", label="read", metrics=("r_await_ms",)),
            Line(key="w_await", label="write", metrics=("w_await_ms",), dash="dashed"),
            Line(key="f_await", label="flush", metrics=("f_await_ms", "commit_await_ms"), dash="dotted"),
            Line(key="metadata", label="metadata", metrics=("metadata_await_ms",), dash="dotdash"),
        ),
    ),
    Panel(
        key="queue",
        title="Device queue",
        unit="requests",
        sources=_DEVICE,
        lines=(Line(key="aqu", label="in flight, mean", metrics=("aqu_sz", "queue_length")),),
    ),
    Panel(
        key="util",
        title="Device busy (any request in flight; not saturation)",
        unit="ratio",
        sources=_DEVICE,
        lines=(Line(key="util", label="busy", metrics=("util_ratio",)),),
    ),
    Panel(
        key="exceeded",
        title="Limits exceeded (share of time)",
        unit="ratio",
        sources=sources_with("volume_exceeded_iops_ratio", *_VIEWS),
        lines=(
            Line(key="volume_iops", label="volume IOPS", metrics=("volume_exceeded_iops_ratio",)),
            Line(
                key="volume_mib", label="volume MiB/s", metrics=("volume_exceeded_throughput_ratio",), dash="dashed"
            ),
            Line(key="host_iops", label="instance IOPS", metrics=("instance_exceeded_iops_ratio",), dash="dotted"),
            Line(
                key="host_mib",
                label="instance MiB/s",
                metrics=("instance_exceeded_throughput_ratio",),
                dash="dotdash",
            ),
        ),
    ),
    Panel(
        key="balance",
        title="Burst balance",
        unit="%",
        sources=sources_with("balance_percent", *_VIEWS),
        lines=(Line(key="balance", label="left", metrics=("balance_percent",)),),
    ),
    Panel(
        key="fsync",
        title="InnoDB syncs",
        unit="1/s",
        sources=("innodb",),
        lines=(
            Line(key="log", label="redo log", metrics=("os_log_fsyncs_per_s",)),
            Line(key="data", label="data files", metrics=("data_fsyncs_per_s",), dash="dashed"),
        ),
    ),
    Panel(
        key="innodb",
        title="Buffer pool and redo log",
        unit="ratio",
        sources=("innodb",),
        lines=(
            Line(key="dirty", label="dirty pages", metrics=("buffer_pool_dirty_ratio",)),
            Line(key="age", label="checkpoint age", metrics=("checkpoint_age_ratio",), dash="dashed"),
            Line(key="miss", label="pool misses", metrics=("buffer_pool_miss_ratio",), dash="dotted"),
        ),
    ),
    Panel(
        key="cpu",
        title="Host CPU",
        unit="ratio",
        sources=("cpu",),
        lines=(
            Line(key="user", label="user", metrics=("user_ratio",)),
            Line(key="system", label="system", metrics=("system_ratio",), dash="dashed"),
            Line(key="iowait", label="iowait", metrics=("iowait_ratio",), dash="dotted"),
            Line(key="steal", label="steal", metrics=("steal_ratio",), dash="dotdash"),
        ),
    ),
    Panel(
        key="pressure",
        title="Pressure stall (share of time something waited)",
        unit="ratio",
        sources=("psi",),
        lines=(
            Line(key="io_some", label="I/O", metrics=("io_some_ratio",)),
            Line(key="cpu_some", label="CPU", metrics=("cpu_some_ratio",), dash="dashed"),
            Line(key="memory_some", label="memory", metrics=("memory_some_ratio",), dash="dotted"),
        ),
    ),
)


def chosen_series(keys: Iterable[SeriesKey], disk: str | None) -> Iterator[tuple[str, SeriesKey]]:
    """Yield each line `panel.line` that has a series, with that series.

    Args:
        keys: the series of a cell.
        disk: the volume's disk; of several entities its series is chosen, else the first by name.
    """
    ordered = sorted(keys)
    for panel in PANELS:
        if panel.key in LATENCY_PANELS:
            continue
        for source in panel.sources:
            lines = [
                (f"{panel.key}.{line.key}", key)
                for line in panel.lines
                if (key := _series_of(line, source, ordered, disk)) is not None
            ]
            if lines:
                yield from lines
                break


def _series_of(line: Line, source: str, ordered: list[SeriesKey], disk: str | None) -> SeriesKey | None:
    for metric in line.metrics:
        matching = [key for key in ordered if (key.source, key.metric) == (source, metric)]
        if matching:
            return next((key for key in matching if key.entity == disk), matching[0])
    return None
