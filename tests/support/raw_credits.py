"""What a gp2 volume does to a constant load, counted second by second with nothing of volbench.

The figures are those of the EBS User Guide: 3 IOPS a GiB (at least 100, at most 16,000), bursts of 3,000 IOPS from
a bucket of 5.4 million credits, 128 MiB/s up to 170 GiB and 250 MiB/s beyond.
"""

from __future__ import annotations

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
