"""What a gp2 volume does to a constant load, counted second by second with nothing of volbench.

The figures are those of the EBS User Guide: 3 IOPS a GiB (at least 100, at most 16,000), bursts of 3,000 IOPS from
a bucket of 5.4 million credits, 128 MiB/s up to 170 GiB and 250 MiB/s beyond.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MIB = 2**20
BUCKET = 5_400_000


@dataclass(frozen=True, kw_only=True)
class Gp2:
    """A volume of this size under requests of one size."""

    gib: int
    io_bytes: int

    @property
    def earns(self) -> float:
        """Credits a second."""
        return float(min(max(3 * self.gib, 100), 16_000))

    @property
    def cap(self) -> float:
        """Requests a second while credits last: of IOPS and of throughput the lower limit."""
        return min(max(3000.0, self.earns), self.mib_per_s * MIB / self.io_bytes)

    @property
    def mib_per_s(self) -> float:
        return 128.0 if self.gib <= 170 else 250.0

    def empty_after_s(self, iops: float, start: float = 1.0) -> int | None:
        """Seconds until the bucket is empty; None: not within ten days."""
        balance = BUCKET * start
        spent = min(iops, self.cap)
        for second in range(1, 864_001):
            balance = min(float(BUCKET), balance + self.earns - spent)
            if balance <= 0:
                return second
        return None

    def smallest_that_sustains(self, iops: float) -> int:
        """GiB of the smallest gp2 whose own rate and throughput serve the load for ever."""
        return next(
            gib
            for gib in range(self.gib, 16_385)
            if (gp2 := Gp2(gib=gib, io_bytes=self.io_bytes)).earns >= iops and gp2.cap >= iops
        )


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a history does to a bucket, counted in steps of a second.

    Args:
        empty_after_s: the first second at whose end no credit is left; None: never.
        throttled: the seconds that ask for more than the volume earns while no credit is left.
        served: operations a second of these, on average, and their share of what was asked for.
        low_share: the lowest balance.
        capped_s: seconds that ask for more than the volume's cap.
        mean_iops: of the load.
    """

    empty_after_s: int | None
    throttled: tuple[int, ...]
    served: tuple[float, float]
    low_share: float
    capped_s: int
    mean_iops: float


def over_history(volume: Gp2, seconds: Sequence[float], start: float = 1.0) -> Outcome:
    """Count what a load of so many operations in each second does."""
    balance = low = BUCKET * start
    empty_after_s: int | None = None
    throttled, served, offered = [], 0.0, 0.0
    for second, demand in enumerate(seconds):
        spent = min(demand, volume.cap)
        if balance + volume.earns < spent and spent > volume.earns:
            spent = volume.earns + balance
            throttled.append(second)
            served, offered = served + spent, offered + demand
        balance = min(float(BUCKET), balance + volume.earns - spent)
        low = min(low, balance)
        if balance <= 0 and empty_after_s is None:
            empty_after_s = second + 1
    count = max(1, len(throttled))
    return Outcome(
        empty_after_s=empty_after_s,
        throttled=tuple(throttled),
        served=(served / count, served / offered if offered else 1.0),
        low_share=low / BUCKET,
        capped_s=sum(demand > volume.cap for demand in seconds),
        mean_iops=sum(seconds) / len(seconds),
    )
