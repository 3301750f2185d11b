"""The order of cells: randomised blocks, each mirrored by the next (ABBA), so that a drift affects all alike."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from volbench.core.records.base import Scalar
from volbench.core.records.run import PlannedCell


@dataclass(frozen=True, kw_only=True)
class Treatment:
    """A compared treatment: a volume with a combination of a sweep's factors. `label` is unique in a run."""

    volume: str
    label: str
    parameters: Mapping[str, Scalar] = field(default_factory=dict)


def interleave(treatments: Sequence[str | Treatment], *, repeats: int, seed: int) -> list[PlannedCell]:
    """Return one cell per treatment (a volume's name means that volume without variation) and repeat.

    Each block has every treatment once. Odd blocks are in random order, each followed by its mirror image:
    over a pair of blocks a linear drift of the machine adds the same to every treatment.
    """
    generator = random.Random(seed)
    all_treatments = [t if isinstance(t, Treatment) else Treatment(volume=t, label=t) for t in treatments]
    blocks: list[list[Treatment]] = []
    while len(blocks) < repeats:
        order = list(all_treatments)
        generator.shuffle(order)
        blocks += [order, order[::-1]]
    return [
        PlannedCell(
            cell_id=f"{number:02d}-{treatment.label}",
            volume=treatment.volume,
            block=number - 1,
            repeat=number,
            parameters=dict(treatment.parameters),
            seed=_cell_seed(seed, number),
        )
        for number, block in enumerate(islice(blocks, repeats), start=1)
        for treatment in block
    ]


def _cell_seed(seed: int, repeat: int) -> int:
    """Return a seed for all cells of a block, so that they get the same rows in the same order."""
    return random.Random(f"{seed}/{repeat}").randrange(1, 2**31)
