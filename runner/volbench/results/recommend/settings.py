"""Server options for a volume: what follows from its limits, and from what the load writes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from volbench.core.profile.limits import VolumeLimit
from volbench.results.recommend.catalogue import Candidate
from volbench.results.recommend.evidence import Setting

IO_CAPACITY_MIN = 100
"""The least that MySQL takes (Reference Manual, innodb_io_capacity)."""
BACKGROUND_SHARE = 0.5
"""Of the operations that reads leave: flushing at more than half of them delays reads and log syncs."""
_HDD = ("ebs-st1", "ebs-sc1")
"""Types that are served by disks with heads: neighbours on them cost less than two writes."""
_PAGE_BYTES = 16_384.0
_ALL_LEFT = "all of what reads leave: flushing faster than that waits in the volume's queue"
_NO_MORE = "no more than innodb_io_capacity, since reads leave less: flushing waits in the volume's queue with them"
_NO_SEEKS = "a page's neighbours cost an SSD volume operations and save no seek"


def volume_settings(candidate: Candidate, *, reads_per_s: float) -> tuple[Setting, ...]:
    """Return innodb_io_capacity, its maximum and innodb_flush_neighbors.

    Args:
        candidate: the volume.
        reads_per_s: operations that the load reads at its busiest; what is left is for flushing.
    """
    sustained = sustained_iops(candidate.limits.all)
    left = max(0.0, sustained - reads_per_s)
    capacity = max(IO_CAPACITY_MIN, _round(BACKGROUND_SHARE * left))
    most = max(capacity, _round(left))
    is_hdd = candidate.profile in _HDD
    return (
        Setting(
            name="innodb_io_capacity",
            value=str(capacity),
            reason=_why_capacity(capacity, left, sustained=sustained, reads_per_s=reads_per_s),
        ),
        Setting(
            name="innodb_io_capacity_max",
            value=str(most),
            reason=_ALL_LEFT if most == _round(left) else _NO_MORE,
        ),
        Setting(
            name="innodb_flush_neighbors",
            value="1" if is_hdd else "0",
            reason="the volume's disks have heads" if is_hdd else _NO_SEEKS,
        ),
    )


def _why_capacity(capacity: int, left: float, *, sustained: float, reads_per_s: float) -> str:
    """Return what a capacity follows from: half of what reads leave, or the least that there is."""
    credits_text = "(burst credits are not counted)"
    if capacity > BACKGROUND_SHARE * left and capacity == IO_CAPACITY_MIN:
        remainder = f"{_round(left):,}" if _round(left) else "nothing"
        return (
            f"the least that MySQL takes: {_round(reads_per_s):,} reads/s leave {remainder} of the"
            f" {_round(sustained):,} operations/s that the volume sustains {credits_text}"
        )
    return (
        f"half of the {_round(left):,} operations/s that the volume sustains with"
        f" {_round(reads_per_s):,} reads/s {credits_text}"
    )


def sustained_iops(limits: Sequence[VolumeLimit]) -> float:
    """Return the pages a second that limits serve for ever: of buckets their baseline."""
    rates = [limit.rate_per_s / (_PAGE_BYTES if limit.charge.unit == "byte" else 1.0) for limit in limits]
    return min(rates, default=math.inf)


def _round(value: float) -> int:
    """Return a number of two digits: none of these is known better."""
    if not math.isfinite(value) or value <= 0:
        return 0
    step = math.pow(10, max(0, math.floor(math.log10(value)) - 1))
    return round(round(value / step) * step)
