"""Series of one step from stated physics: a volume with a latency and perhaps a limit, and a load that wants it.

Operations in flight follow the load; the volume answers each in its latency until a limit makes them wait
(Little's law in every interval). The server's waits follow from that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from volbench.results.store.series import Series, SeriesKey

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Load:
    """What the step does. `queue` is the mean number of operations that want to be in flight, by second."""

    seconds: int = 60
    seed: int = 1
    queue: float = 16.0
    threads: int = 16
    read_part: float = 0.65
    size_kib: float = 16.0
    cpu_busy: float = 0.3
    cpu_s_per_s: float = 1.0
    """CPU seconds of foreground threads a second at full speed, which bound the share of storage."""
    row_lock_s_per_s: float = 0.0
    background_io: float = 0.0
    """Share of the operations that no statement waits for."""


@dataclass(frozen=True, kw_only=True)
class Storage:
    """The volume. Limits and latencies may be functions of the second."""

    latency_ms: float | Callable[[Floats], Floats] = 0.8
    iops: float | Callable[[Floats], Floats] | None = None
    mib_per_s: float | None = None
    stall_s: tuple[int, int] | None = None
    extra: Mapping[tuple[str, str, str], Floats] = field(default_factory=dict)


def columns(load: Load, storage: Storage, *, counters: bool = False) -> dict[SeriesKey, Series]:
    """All sources of a cell at 1 s, t_s = 1 .. seconds."""
    random = np.random.default_rng(load.seed)
    t_s = np.arange(1.0, load.seconds + 1)
    expected = load.queue * np.exp(random.normal(0, 0.25, load.seconds))
    latency = _at(storage.latency_ms, t_s) * np.exp(random.normal(0, 0.04, load.seconds))
    cap = np.full(load.seconds, np.inf) if storage.iops is None else _at(storage.iops, t_s)
    if storage.mib_per_s is not None:
        cap = np.minimum(cap, storage.mib_per_s * 1024 / load.size_kib)
    free = expected / latency * 1000
    iops = np.minimum(free, cap * (1 + random.normal(0, 0.004, load.seconds)))
    waited = expected / iops * 1000
    piece = np.clip(load.read_part + random.normal(0, 0.08, load.seconds), 0.05, 0.95)
    values: dict[tuple[str, str, str], Floats] = {
        ("diskstats", "reads_per_s", "sda"): iops * piece,
        ("diskstats", "writes_per_s", "sda"): iops * (1 - piece),
        ("diskstats", "read_mib_per_s", "sda"): iops * piece * load.size_kib / 1024,
        ("diskstats", "write_mib_per_s", "sda"): iops * (1 - piece) * load.size_kib / 1024,
        ("diskstats", "r_await_ms", "sda"): waited,
        ("diskstats", "w_await_ms", "sda"): waited,
        ("diskstats", "aqu_sz", "sda"): expected,
        ("diskstats", "in_flight", "sda"): np.round(expected),
        ("diskstats", "util_ratio", "sda"): np.minimum(1.0, expected),
        ("cpu", "user_ratio", ""): np.full(load.seconds, load.cpu_busy * 0.8),
        ("cpu", "system_ratio", ""): np.full(load.seconds, load.cpu_busy * 0.2),
        ("psi", "cpu_some_ratio", ""): np.full(load.seconds, max(0.0, 2 * load.cpu_busy - 1)),
    }
    values |= _server(load, iops * piece, iops * (1 - piece), waited)
    if counters:
        over = np.where(free > cap, 1.0, 0.0)
        kind = "throughput" if storage.mib_per_s is not None else "iops"
        for owner in ("volume", "instance"):
            for name in ("iops", "throughput"):
                exceeded = over if owner == "volume" and name == kind else np.zeros(load.seconds)
                values["ebs_nvme", f"{owner}_exceeded_{name}_ratio", "nvme1n1"] = exceeded
    if storage.stall_s is not None:
        _stall(values, *storage.stall_s)
    values |= dict(storage.extra)
    return {
        SeriesKey(source=source, metric=metric, entity=entity): Series(t_s=t_s[finite], value=value[finite])
        for (source, metric, entity), value in values.items()
        for finite in (np.isfinite(value),)
    }


def _server(load: Load, reads: Floats, writes: Floats, waited: Floats) -> dict[tuple[str, str, str], Floats]:
    """Statement time is what the threads have; waits are operations times their time, at most that."""
    foreground = 1 - load.background_io
    total = np.full(load.seconds, float(load.threads))
    read_s = np.minimum(reads * foreground * waited / 1000, total * 0.98)
    sync_s = np.minimum(writes * foreground * waited / 1000 * 0.5, np.maximum(0, total * 0.98 - read_s))
    busy = load.cpu_s_per_s + load.row_lock_s_per_s
    scale = np.minimum(1.0, np.maximum(0.0, total - busy) / np.maximum(read_s + sync_s, 1e-9))
    read_s, sync_s = read_s * scale, sync_s * scale
    tps = np.minimum(reads / 6.0, load.threads * 1000 / np.maximum(1.0, waited * 8))
    latency = load.threads / np.maximum(tps, 1e-9) * 1000
    return {
        ("client", "tps", ""): tps,
        ("client", "latency_ms_p50", ""): latency,
        ("client", "latency_ms_p95", ""): latency * 2,
        ("performance_schema", "statement_s_per_s", ""): np.maximum(total, 0.0),
        ("performance_schema", "wait_s_per_s", "file_data"): read_s,
        ("performance_schema", "wait_s_per_s", "file_binlog"): sync_s / 2,
        ("performance_schema", "wait_s_per_s", "file_redo"): sync_s / 2,
        ("performance_schema", "file_read_s_per_s", "data"): read_s * 1.05,
        ("performance_schema", "file_read_ms", "data"): waited,
        ("performance_schema", "file_sync_ms", "redo"): waited * 1.5,
        ("performance_schema", "file_sync_ms", "binlog"): waited * 1.5,
        ("innodb", "row_lock_wait_s_per_s", ""): np.full(load.seconds, load.row_lock_s_per_s),
        ("innodb", "row_lock_waits_per_s", ""): np.full(load.seconds, 50.0 if load.row_lock_s_per_s else 0.0),
        ("innodb", "buffer_pool_miss_ratio", ""): np.full(load.seconds, 0.1),
        ("innodb", "pages_read_per_s", ""): reads,
        ("innodb", "checkpoint_age_ratio", ""): np.full(load.seconds, 0.2),
    }


def _stall(values: dict[tuple[str, str, str], Floats], first: int, last: int) -> None:
    """Nothing completes in seconds first .. last - 1; what waits is still there, and waiting times are unknown."""
    piece = slice(first, last)
    for (source, metric, entity), value in values.items():
        if metric.endswith("_ms") or metric.startswith("latency_ms"):
            value[piece] = np.nan
        elif metric in ("tps", "statement_s_per_s", "wait_s_per_s", "file_read_s_per_s") or (
            source == "diskstats" and metric.endswith("_per_s")
        ):
            value[piece] = 0.0
        elif entity == "sda" and metric in ("aqu_sz", "in_flight"):
            value[piece] = np.maximum(value[piece], 1.0)


def _at(description: float | Callable[[Floats], Floats], t_s: Floats) -> Floats:
    return description(t_s) if callable(description) else np.full(len(t_s), description)
