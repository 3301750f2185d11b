"""Many small operations of several jobs, each timed, as rates, latencies and histogram rows."""

from __future__ import annotations

import math
import threading
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from volbench.core.records.metrics import MetricValue, metric
from volbench.core.records.series import HistogramRow
from volbench.errors import StepFailed
from volbench.measure.workload.interface import Clock

EDGE_MULT = 50 / math.log(10)
EDGE_DEDUCT = math.log(0.001)
"""Bins from 1 us on, each 4.7 % wide: as fine as the server's own histograms."""
BINS = 500
_INTERVAL_S = 1.0
_REPORT_INTERVAL_S = 0.2
_QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999}

Item = TypeVar("Item")
Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Timed:
    """Timed operations.

    Args:
        window_ns: CLOCK_MONOTONIC before the first and after the last of them.
        ends_s: when each ended, seconds of CLOCK_MONOTONIC, shape (operations,), ascending.
        latencies_ms: how long each took, same shape and order.
    """

    window_ns: tuple[int, int]
    ends_s: Floats
    latencies_ms: Floats

    @property
    def seconds(self) -> float:
        """Time from the first operation's start to the last one's end."""
        return (self.window_ns[1] - self.window_ns[0]) / 1e9

    def latency_metrics(self) -> dict[str, MetricValue]:
        """Return quantiles, mean and maximum of the latencies; empty without operations."""
        if not len(self.latencies_ms):
            return {}
        levels = np.quantile(self.latencies_ms, list(_QUANTILES.values()))
        values = {f"latency_ms_{name}": float(value) for name, value in zip(_QUANTILES, levels, strict=True)}
        values |= {
            "latency_ms_max": float(self.latencies_ms.max()),
            "latency_ms_mean": float(self.latencies_ms.mean()),
        }
        return {name: metric(name, value) for name, value in values.items()}

    def histogram_rows(self, clock: Clock, *, step: str) -> Iterator[HistogramRow]:
        """Yield a row of histograms.parquet for each second; a second in which no operation ended has 0 events."""
        start_s, end_s = clock.at_s(self.window_ns[0]), clock.at_s(self.window_ns[1])
        ends_s = self.ends_s + clock.at_s(0)
        edges = np.append(np.arange(start_s, end_s, _INTERVAL_S), end_s)
        numbers = np.floor((np.log(np.maximum(self.latencies_ms, 1e-9)) - EDGE_DEDUCT) * EDGE_MULT).astype(np.int64)
        cuts = np.searchsorted(ends_s, edges[1:-1], side="right")
        for bin_numbers, t0_s, t1_s in zip(np.split(numbers, cuts), edges[:-1], edges[1:], strict=True):
            counts = np.bincount(bin_numbers[(bin_numbers >= 0) & (bin_numbers < BINS)])
            filled = np.flatnonzero(counts)
            yield HistogramRow(
                t_s=float(t1_s),
                interval_s=float(t1_s - t0_s),
                step=step,
                source="client",
                events=len(bin_numbers),
                errors=0,
                edge_mult=EDGE_MULT,
                edge_deduct=EDGE_DEDUCT,
                bin=tuple(filled.tolist()),
                count=tuple(counts[filled].tolist()),
                below=int((bin_numbers < 0).sum()),
                above=int((bin_numbers >= BINS).sum()),
            )


def timed_operations(
    items: Sequence[Item],
    jobs: Sequence[Callable[[Item], object]],
    *,
    label: str,
    timeout_s: float,
    cancelled: threading.Event,
    on_progress: Callable[[float], None],
    begin: Callable[[], object] = lambda: None,
    finish: Callable[[], object] = lambda: None,
) -> Timed:
    """Process each item once, several at a time, and time each.

    Args:
        jobs: functions that process an item; all run at the same time.
        label: the operations' name in messages.
        on_progress: called with the fraction done, about five times a second.
        begin, finish: called before and after; their time counts for the whole, not for an operation.

    Raises StepFailed at the timeout and if cancelled, and what an operation raises.
    """
    todo = iter(items)  # a list's iterator gives each item to one job only
    until_s = time.monotonic() + timeout_s
    stop = threading.Event()
    done = [array("d") for _ in jobs]

    def work(job: Callable[[Item], object], into: array[float]) -> None:
        monotonic, note, next_report_s = time.monotonic, into.append, 0.0
        before = monotonic()
        for item in todo:
            job(item)
            after = monotonic()
            note(after)
            note(after - before)
            before = after
            if after > next_report_s:
                if after > until_s:
                    raise StepFailed(f"{label} took longer than the step's timeout of {timeout_s:.0f} s")
                if cancelled.is_set():
                    raise StepFailed(f"{label}: the step was cancelled")
                if stop.is_set():
                    return
                next_report_s = after + _REPORT_INTERVAL_S
                on_progress(sum(map(len, done)) / 2 / max(1, len(items)))
                before = monotonic()

    begun_ns = time.monotonic_ns()
    begin()
    with ThreadPoolExecutor(max_workers=len(jobs), thread_name_prefix="job") as pool:
        futures = [pool.submit(work, job, into) for job, into in zip(jobs, done, strict=True)]
        try:
            for future in futures:
                future.result()
        finally:
            stop.set()
    finish()
    return _timed(done, (begun_ns, time.monotonic_ns()))


def _timed(done: Iterable[array[float]], window_ns: tuple[int, int]) -> Timed:
    pairs = np.concatenate(
        [np.frombuffer(numbers, dtype=np.float64).reshape(-1, 2) for numbers in done if len(numbers)]
        or [np.empty((0, 2))]
    )
    order = np.argsort(pairs[:, 0], kind="stable")
    return Timed(window_ns=window_ns, ends_s=pairs[order, 0], latencies_ms=pairs[order, 1] * 1e3)
