"""A contrast of sizes: a short load with operations of another size, outside of all that is measured.

Operations of one size meet a limit of operations per second and a limit of bytes per second alike. With another
size only one of the two rates stays as it was: that one is limited.
"""

from __future__ import annotations

from pydantic import Field

from volbench.core.records.base import Record

FACTOR = 4
"""By which sizes differ from those of the step: a rate that is not limited is then as many times as high or low."""
SAME_RATE = 1.05
"""What counts as one rate in a step and in a contrast, which lasts for a few seconds: a meter hands out slices of
0.1 s, so that an end of three seconds moves by 3 %."""
BLOCK_BYTES_MIN, BLOCK_BYTES_MAX = 4 << 10, 256 << 10
"""Sizes of a contrast: no smaller than a sector of 4 KiB, which O_DIRECT may ask for, and no larger than what EBS
counts as one operation of an SSD volume (256 KiB). Larger ones the kernel may divide as well."""
RAMP_S = 1.0
"""Before the time of a contrast: what a meter saved up before it passes first."""
END_S = 0.5
"""At the end of a contrast, which is not counted: fio waits for the operations under way, and ends."""
READ_BLOCKS_BYTES = (4 << 10, 64 << 10)
"""Sizes of reads after a cell's last step: both sides of the pages of 16 KiB that InnoDB reads."""
READ_DEPTH = 32
"""Reads under way at a time after a cell's last step."""
READ_LOAD_S, READ_LOAD_INTERVALS = 5.0, 5
"""Seconds of each load of these reads, and sampling intervals: one of them may lie half in it, and three have to
agree."""
STEPS_FACTOR = 10.0
"""How many times as long the steps took, from which these reads are short against the cell."""


def read_load_s(set_to_s: float | None, *, interval_s: float, steps_s: float) -> float:
    """Return the seconds of each load of reads after a cell's last step; 0: there is none.

    Args:
        set_to_s: what the suite says; None: nothing.
        interval_s: of the sampling grid.
        steps_s: from the begin of the first step to the end of the last one.
    """
    if set_to_s is not None:
        return set_to_s
    load_s = max(READ_LOAD_S, READ_LOAD_INTERVALS * interval_s)
    return load_s if steps_s >= STEPS_FACTOR * reads_s(load_s) else 0.0


def reads_s(load_s: float) -> float:
    """Return the time of all loads of reads, of which each takes `load_s`; 0 of none."""
    return len(READ_BLOCKS_BYTES) * (RAMP_S + load_s + END_S) if load_s else 0.0


class SizeContrast(Record):
    """One load of a contrast, with fio's figures. The volume's own are in the cell's series."""

    step: str = Field(default="", description="The step that it follows; empty: the cell's last one.")
    rw: str = Field(description="The pattern, as fio calls it.")
    block_size_bytes: int = Field(gt=0)
    in_flight: int = Field(gt=0, description="Operations under way at a time.")
    window_s: tuple[float, float]
    iops: float
    mib_per_s: float


def contrast_blocks(block_bytes: int) -> tuple[int, ...]:
    """Return the sizes of a contrast with operations of one size, the more telling one first.

    A volume has both limits: larger operations may meet that of bytes where the step met that of operations, and
    smaller ones the reverse. Then neither rate stays as it was, and the second size decides.
    """
    sizes = (block_bytes * FACTOR, block_bytes // FACTOR)
    return tuple(size for size in sizes if BLOCK_BYTES_MIN <= size <= BLOCK_BYTES_MAX)
