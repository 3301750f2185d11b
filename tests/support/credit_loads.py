"""Limits of profiles, and constant and varying loads, for tests of burst credits."""

from __future__ import annotations

import numpy as np

from volbench.core.profile.limits import Limits, limits_of
from volbench.core.profile.resolve import resolve
from volbench.results.credits.work import Work, constant, from_points

PAGE = 16 * 2**10


def profile_limits(profile: str, **options: str) -> Limits:
    return limits_of(resolve(profile, options))


def load(iops: float, *, io_bytes: float = PAGE, reads: float = 1.0) -> Work:
    return constant(
        reads_per_s=iops * reads, writes_per_s=iops * (1 - reads), read_bytes=io_bytes, write_bytes=io_bytes
    )


def points(iops: list[float], *, interval_s: float = 60.0) -> Work:
    rates = np.array(iops)
    return from_points(
        t_s=np.arange(1, len(iops) + 1, dtype=np.float64) * interval_s,
        reads_per_s=rates,
        writes_per_s=np.zeros(len(iops)),
        interval_s=interval_s,
    )
