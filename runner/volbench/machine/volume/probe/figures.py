"""What a probe measures, and what a profile would give for the same: medians and sustained rates.

The expected figures are the model's own arithmetic: a latency is the sum of its legs' medians (of the slowest of
`max_of` draws where there are several), a rate is that of the tightest limit, and no more than the probe's queue
depth completes in one latency (Little's law).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Literal

from volbench.core.base.units import MIB
from volbench.core.profile.resolve import ResolvedVolume

RANDOM_DEPTH = 64
STREAM_DEPTH = 8
SMALL_BYTES = 4 << 10
PAGE_BYTES = 16 << 10
LARGE_BYTES = 1 << 20

Operation = Literal["read", "write"]


@dataclass(frozen=True, kw_only=True)
class FigureKind:
    """How a figure is shown, and whether it tells volumes apart."""

    title: str
    unit: str
    compared: bool = True


FIGURES: Mapping[str, FigureKind] = {
    "read_4k_ms": FigureKind(title="read 4 KiB at random, p50", unit="ms"),
    "read_4k_ms_p99": FigureKind(title="read 4 KiB at random, p99", unit="ms", compared=False),
    "write_4k_ms": FigureKind(title="write 4 KiB at random, p50", unit="ms"),
    "write_4k_ms_p99": FigureKind(title="write 4 KiB at random, p99", unit="ms", compared=False),
    "read_16k_ms": FigureKind(title="read 16 KiB at random, p50", unit="ms"),
    "write_16k_ms": FigureKind(title="write 16 KiB at random, p50", unit="ms"),
    "fdatasync_ms": FigureKind(title="fdatasync after a write, p50", unit="ms", compared=False),
    "fdatasync_ms_p99": FigureKind(title="fdatasync after a write, p99", unit="ms", compared=False),
    "read_iops": FigureKind(title=f"read 4 KiB, {RANDOM_DEPTH} at a time", unit="IOPS"),
    "write_iops": FigureKind(title=f"write 4 KiB, {RANDOM_DEPTH} at a time", unit="IOPS"),
    "read_mib_per_s": FigureKind(title=f"read 1 MiB in order, {STREAM_DEPTH} at a time", unit="MiB/s"),
    "write_mib_per_s": FigureKind(title=f"write 1 MiB in order, {STREAM_DEPTH} at a time", unit="MiB/s"),
    "create_ms": FigureKind(title="create a file of 4 KiB, p50", unit="ms", compared=False),
    "create_per_s": FigureKind(title="create a file of 4 KiB", unit="1/s", compared=False),
    "stat_per_s": FigureKind(title="stat", unit="1/s", compared=False),
    "open_ms": FigureKind(title="open and close, p50", unit="ms"),
    "open_per_s": FigureKind(title="open and close", unit="1/s", compared=False),
    "unlink_ms": FigureKind(title="unlink, p50", unit="ms", compared=False),
    "unlink_per_s": FigureKind(title="unlink", unit="1/s", compared=False),
}
"""Every figure of a probe, in the order in which they are shown."""


def expected_figures(resolved: ResolvedVolume) -> dict[str, float]:
    """Return what a probe of this volume measures, where its model says it.

    Credit buckets are taken as not empty.
    """
    figures = {
        "read_4k_ms": latency_ms(resolved, "read", SMALL_BYTES),
        "write_4k_ms": latency_ms(resolved, "write", SMALL_BYTES),
        "read_16k_ms": latency_ms(resolved, "read", PAGE_BYTES),
        "write_16k_ms": latency_ms(resolved, "write", PAGE_BYTES),
        "read_iops": rate_per_s(resolved, "read", SMALL_BYTES, depth=RANDOM_DEPTH),
        "write_iops": rate_per_s(resolved, "write", SMALL_BYTES, depth=RANDOM_DEPTH),
        "read_mib_per_s": rate_per_s(resolved, "read", LARGE_BYTES, depth=STREAM_DEPTH) * LARGE_BYTES / MIB,
        "write_mib_per_s": rate_per_s(resolved, "write", LARGE_BYTES, depth=STREAM_DEPTH) * LARGE_BYTES / MIB,
    }
    if resolved.mode == "files":
        figures["open_ms"] = latency_ms(resolved, "open", 0) + latency_ms(resolved, "close", 0)
    return {name: value for name, value in figures.items() if math.isfinite(value) and value > 0}


def latency_ms(resolved: ResolvedVolume, operation: str, size_bytes: int, *, random: bool = True) -> float:
    """Return median of one operation on an idle volume; 0 where the model has none."""
    latency = resolved.model["latency"].get(operation)
    if latency is None:
        return 0.0
    legs = [leg for leg in latency["parts"] if random or not leg["random_only"]]
    stream = latency.get("stream_bytes_per_s")
    return float(sum(_leg_us(leg) for leg in legs)) / 1e3 + (size_bytes / stream * 1e3 if stream else 0.0)


def rate_per_s(
    resolved: ResolvedVolume, operation: Operation, size_bytes: int, *, depth: int, credit: bool = True
) -> float:
    """Return operations per second that a volume sustains.

    Args:
        depth: operations under way at a time.
        credit: while credits last; False: when they are gone.
    """
    return tightest(resolved, operation, size_bytes, depth=depth, credit=credit)[0]


def tightest(
    resolved: ResolvedVolume, operation: Operation, size_bytes: int, *, depth: int, credit: bool = True
) -> tuple[float, str]:
    """Return what `rate_per_s` does, and the name of the limit that decides; an empty name for the latency."""
    latency_s = latency_ms(resolved, operation, size_bytes, random=size_bytes < LARGE_BYTES) / 1e3
    rates = [(depth / latency_s if latency_s > 0 else math.inf, "")]
    rates += [
        (_rate_of(limit, operation, size_bytes), str(limit["name"]))
        for limit in resolved.model["limits"]
        if not (credit and limit["credits"])
    ]
    return min(rates)


def credit_limits(resolved: ResolvedVolume) -> list[Mapping[str, Any]]:
    """Return the limits that are credit buckets."""
    return [limit for limit in resolved.model["limits"] if limit["credits"]]


def _rate_of(limit: Mapping[str, Any], operation: Operation, size_bytes: int) -> float:
    if limit["unit"] == "io":
        cost = float(math.ceil(size_bytes / limit.get("max_io_bytes", size_bytes)))
    else:
        cost = float(max(size_bytes, limit["min_bytes"]))
    cost *= limit.get("weights", {}).get(operation, 0.0 if "weights" in limit else 1.0)
    spread = limit.get("spread")
    disks = spread["over"] / spread[f"{operation}_copies"] if spread else 1.0
    return limit["rate_per_s"] * disks / cost if cost > 0 else math.inf


def _leg_us(leg: Mapping[str, Any]) -> float:
    """Return the median of the largest of `max_of` lognormal draws: the quantile 0.5 ** (1 / max_of) of one."""
    quantile = NormalDist().inv_cdf(0.5 ** (1 / max(1, leg["max_of"])))
    return float(leg["median_us"] * math.exp(leg["sigma"] * quantile))
