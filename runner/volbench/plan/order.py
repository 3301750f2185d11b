"""The order of cells: randomised blocks, each mirrored by the next (ABBA), so that a drift hits volumes alike."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import islice

from volbench.records.run import PlannedCell


def interleave(volumes: Sequence[str], *, repeats: int, seed: int) -> list[PlannedCell]:
    """One cell per volume and repeat.

    Each block holds every volume once. Odd blocks are in random order, each followed by its mirror image:
    over a pair of blocks a linear drift of the machine adds the same to every volume.
    """
    generator = random.Random(seed)  # noqa: S311 - an order to be repeated, not a secret
    blocks: list[list[str]] = []
    while len(blocks) < repeats:
        order = list(volumes)
        generator.shuffle(order)
        blocks += [order, order[::-1]]
    return [
        PlannedCell(
            cell_id=f"{number:02d}-{volume}",
            volume=volume,
            block=number - 1,
            repeat=number,
            seed=_cell_seed(seed, number),
        )
        for number, block in enumerate(islice(blocks, repeats), start=1)
        for volume in block
    ]


def _cell_seed(seed: int, repeat: int) -> int:
    """The same for all volumes of a block, so that they get the same rows in the same order."""
    return random.Random(f"{seed}/{repeat}").randrange(1, 2**31)  # noqa: S311
