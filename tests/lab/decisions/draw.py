"""What a seed draws: a load, the volume that it is measured on, the volumes on offer, and objectives."""

from __future__ import annotations

import random
from dataclasses import dataclass

from volbench.results.credits.prices import load_prices
from volbench.results.recommend.catalogue import Candidate, candidates

TESTS = ("oltp_read_only", "oltp_read_write", "oltp_point_select", "oltp_write_only", "oltp_update_non_index")
THREADS = (4, 6, 8, 12, 16)
POOLS_MIB = (8, 12, 16, 24)
TYPE, SIZE_BYTES = "ebs-io2", 100 << 30
"""A type whose price grows with its operations, so that every cheaper volume is a slower one."""
IOPS_MAX = 6400
"""What the emulator does on two CPUs with the server beside it."""
SOURCE_IOPS = (400, 3000)
STRIDES = (1, 2, 3)
"""Of the steps on offer: neighbours are 1.25, 1.6 or 2 times apart."""
OBJECTIVES = 6
TIMES = (0.3, 4.0)
"""Objectives, as multiples of the measured p95, evenly on a logarithmic scale."""


@dataclass(frozen=True, kw_only=True)
class Draw:
    """All that a number draws.

    Args:
        settings: of the suite.
        offered: the cheapest first.
        source: the volume that the load is measured on.
        times: objectives over the measured p95.
    """

    number: int
    settings: tuple[str, ...]
    offered: tuple[Candidate, ...]
    source: str
    times: tuple[float, ...]


def draw(number: int) -> Draw:
    """Return what a number draws; tests take turns, so that five numbers have each once."""
    numbers = random.Random(f"decision {number}")
    settings = (
        f"steps.load.test={TESTS[number % len(TESTS)]}",
        f"steps.load.threads={numbers.choice(THREADS)}",
        f"steps.load.rand_type={numbers.choice(('uniform', 'gaussian'))}",
        f"engine.config.innodb_buffer_pool_size={numbers.choice(POOLS_MIB)}M",
        f"seed={number}",
    )
    ladder = [
        volume
        for volume in candidates(load_prices(), size_bytes=SIZE_BYTES, profiles=(TYPE,))
        if int(volume.options["iops"]) <= IOPS_MAX
    ]
    low, high = SOURCE_IOPS
    stride = numbers.choice(STRIDES)
    return Draw(
        number=number,
        settings=settings,
        offered=tuple(ladder[numbers.randrange(stride) :: stride]),
        source=numbers.choice([volume.spec for volume in ladder if low <= int(volume.options["iops"]) <= high]),
        times=tuple(TIMES[0] * (TIMES[1] / TIMES[0]) ** numbers.random() for _ in range(OBJECTIVES)),
    )
