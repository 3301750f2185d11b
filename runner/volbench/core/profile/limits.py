"""The limits of a volume as the credit model sees them: caps, credit buckets, and what a request costs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Literal

from volbench.core.base.text import percent
from volbench.core.profile.resolve import ResolvedVolume

if TYPE_CHECKING:
    from volbench.core.profile.arrays import Floats

_SIZE_SLACK = 1e-6  # of an I/O: a mean size computed by division is not cut in two by its last bit


@dataclass(frozen=True, kw_only=True)
class Charge:
    """What a request costs a limit, as the emulator's daemon counts it (`Limit::cost`).

    Args:
        unit: operations or bytes.
        max_io_bytes: an operation above this counts as several; None: it counts as one.
        merge_from_bytes: sequential requests of at least this size are counted by their bytes; None: never.
        min_bytes: least bytes of a request, for a byte limit.
        read_weight, write_weight: units of a read and of a write; of a cluster, for each of its copies.
    """

    unit: Literal["io", "byte"]
    max_io_bytes: int | None = None
    merge_from_bytes: int | None = None
    min_bytes: int = 0
    read_weight: float = 1.0
    write_weight: float = 1.0

    def per_request(self, io_bytes: Floats, *, sequential: bool) -> Floats:
        """Return units of one request of each size, before its weight. Shape as `io_bytes`."""
        import numpy as np  # noqa: PLC0415 - a plan reads limits without it

        merges = io_bytes >= (
            math.inf if self.merge_from_bytes is None or not sequential else self.merge_from_bytes
        )
        if self.unit == "byte":
            return np.where(merges, io_bytes, np.maximum(io_bytes, self.min_bytes))
        if self.max_io_bytes is None:
            return np.ones(io_bytes.shape)
        requests = io_bytes / self.max_io_bytes
        return np.where(merges, requests, np.maximum(np.ceil(requests - _SIZE_SLACK), 1.0))


@dataclass(frozen=True, kw_only=True)
class VolumeLimit:
    """One limit: a cap, or a credit bucket (`capacity` is not None).

    Args:
        name: such as volume.credits.
        scope: volume, cluster or instance.
        resource: iops or throughput.
        rate_per_s: of a cap the most (of a cluster, of all its disks), of a bucket the baseline: what it earns and
            what is left when it is empty.
        capacity: of a bucket, in units of its charge.
        start: what is in the bucket at first, in the same units.
        charge: what requests cost.
        metric: the vendor's name of the balance, where there is one.
        percent: whether that metric is a share of the bucket.
    """

    name: str
    scope: str
    resource: Literal["iops", "throughput"]
    rate_per_s: float
    charge: Charge
    capacity: float | None = None
    start: float = 0.0
    metric: str = ""
    percent: bool = False

    @property
    def refill_s(self) -> float | None:
        """Seconds from empty to full without load. Source: Amazon EBS User Guide, bucket / baseline."""
        return None if self.capacity is None or self.rate_per_s <= 0 else self.capacity / self.rate_per_s


@dataclass(frozen=True, kw_only=True)
class Limits:
    """All limits of a volume, caps and buckets apart."""

    caps: tuple[VolumeLimit, ...]
    buckets: tuple[VolumeLimit, ...]

    @property
    def all(self) -> tuple[VolumeLimit, ...]:
        """Caps, then buckets."""
        return (*self.caps, *self.buckets)

    def starting_at(self, share: float) -> Limits:
        """Return the same with every bucket filled to `share` (0..1). Raises ValueError outside."""
        if not 0.0 <= share <= 1.0:
            raise ValueError(f"a bucket is filled to 0 .. 100 %, not {percent(share)}")
        buckets = tuple(replace(bucket, start=(bucket.capacity or 0.0) * share) for bucket in self.buckets)
        return Limits(caps=self.caps, buckets=buckets)

    def with_balances(self, balances: Sequence[float]) -> Limits:
        """Return the same with these balances, of every bucket in its units."""
        pairs = zip(self.buckets, balances, strict=True)
        return Limits(caps=self.caps, buckets=tuple(replace(bucket, start=balance) for bucket, balance in pairs))


def limits_of(volume: ResolvedVolume) -> Limits:
    """Return the limits of a resolved profile.

    Buckets are `time_scale` times smaller, as on the emulated volume.
    """
    limits = [_limit(limit, float(volume.model["time_scale"])) for limit in volume.model["limits"]]
    return Limits(
        caps=tuple(limit for limit in limits if limit.capacity is None),
        buckets=tuple(limit for limit in limits if limit.capacity is not None),
    )


def _limit(data: Mapping[str, Any], time_scale: float) -> VolumeLimit:
    disks = data["spread"]["over"] if data.get("spread") else 1
    capacity = data["burst"] * disks / time_scale if data["credits"] else None
    published = data.get("published") or {}
    return VolumeLimit(
        name=data["name"],
        scope=data["scope"],
        resource=data["resource"],
        rate_per_s=data["rate_per_s"] * disks,
        charge=_charge(data),
        capacity=capacity,
        start=0.0 if capacity is None else capacity * data["fill"],
        metric=published.get("metric", ""),
        percent=published.get("percent", False),
    )


def _charge(data: Mapping[str, Any]) -> Charge:
    weights = data.get("weights") or {}
    spread = data.get("spread")
    read_copies, write_copies = (spread["read_copies"], spread["write_copies"]) if spread else (1, 1)
    return Charge(
        unit=data["unit"],
        max_io_bytes=data.get("max_io_bytes"),
        merge_from_bytes=data.get("merge_from_bytes"),
        min_bytes=data["min_bytes"],
        read_weight=weights.get("read", 1.0) * read_copies,
        write_weight=weights.get("write", 1.0) * write_copies,
    )


def read_latency_s(volume: ResolvedVolume, io_bytes: float) -> float:
    """Return mean service time of one random read, see `latency_s`."""
    return latency_s(volume, "read", io_bytes)


def latency_s(volume: ResolvedVolume, operation: str, io_bytes: float) -> float:
    """Return mean service time of one operation: means of the lognormal legs, then the bytes at one stream's speed.

    The mean of a lognormal is median x exp(sigma^2 / 2); of the slowest of several draws (`max_of`) it is taken
    around their median. An assumption wherever the profile's latency is one.
    """
    latency = volume.model["latency"].get(operation)
    if latency is None:
        return 0.0
    legs_us = sum(
        leg["median_us"] * math.exp(leg["sigma"] * _slowest(leg["max_of"]) + leg["sigma"] ** 2 / 2)
        for leg in latency["parts"]
    )
    stream = latency.get("stream_bytes_per_s")
    return float(legs_us / 1e6 + (io_bytes / stream if stream else 0.0))


def _slowest(draws: int) -> float:
    """Return the median of the largest of some normal draws; 0 of one."""
    return NormalDist().inv_cdf(0.5 ** (1 / max(1, draws)))
