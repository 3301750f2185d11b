"""How often equal volumes are told apart when invalid cells are repeated at the end: alone, or with neighbours.

    PYTHONPATH=runner:tests/support python tests/benchmarks/repeated_cells.py [--runs 20000] [--seed 5]

Simulated runs of eight blocks on a machine whose speed changes with time, looked at after each block. What is not
decided then has up to eight invalid cells repeated, and is looked at again. To repeat cells alone is what volbench
did before. The simulation is our own construction. Exit code 1 when runs whose blocks are repeated tell equal
volumes apart in more than 5 %, allowing for three standard errors.
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from simulated_looks import decided_at, told_apart

from volbench.results.stats.sequential import look_level

BLOCKS = 8
REPEATS_MAX = BLOCKS
SPREAD = 0.05
Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A machine: `trend` is what it loses from cell to cell, `walk` the deviation of its steps at random."""

    name: str
    trend: float = 0.0
    walk: float = 0.0

    def speeds(self, draw: np.random.Generator, runs: int) -> Floats:
        """Its speed, in logs, at each cell of a run in the order of time, shape (runs, cells)."""
        cells = 2 * BLOCKS + REPEATS_MAX
        steps = -self.trend + self.walk * draw.normal(0, 1, (runs, cells))
        return np.cumsum(steps, axis=1)


MACHINES = (
    Machine(name="steady"),
    Machine(name="slows down by 1 % a cell", trend=0.01),
    Machine(name="slows down by 2.5 % a cell", trend=0.025),
    Machine(name="wanders by 3 % a cell", walk=0.03),
)
INVALID = (("three in ten of both", (0.3, 0.3)), ("half of one volume's", (0.0, 0.5)), ("all of one", (0.0, 1.0)))


def main() -> int:
    """Print the table, and return 1 where the limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=5)
    args = parser.parse_args()
    limit = 0.05 + 3 * math.sqrt(0.05 * 0.95 / args.runs)
    missed = 0
    print("| machine | invalid cells | cells repeated alone: named | with their neighbours |")
    print("|---|---|--:|--:|")
    for machine in MACHINES:
        for name, shares in INVALID:
            alone, together = (
                named(machine, shares, together=kind, runs=args.runs, seed=args.seed) for kind in (False, True)
            )
            missed += together > limit
            print(f"| {machine.name} | {name} | {alone:.1%} | {together:.1%} |")
    return 1 if missed else 0


def named(machine: Machine, shares: tuple[float, float], *, together: bool, runs: int, seed: int) -> float:
    """Return the share of runs of equal volumes in which a look or the repeats name a difference.

    Args:
        shares: of each volume's cells that are invalid at first.
        together: repeat whole blocks; else cells alone.
    """
    draw = np.random.default_rng(seed)
    speeds = machine.speeds(draw, runs)
    first = (draw.random((runs, 1)) < 0.5) ^ (np.arange(BLOCKS) % 2 == 1)
    """Whether volume a comes first in a block; each block mirrors the one before."""
    places = 2 * np.arange(BLOCKS) + np.stack([~first, first])
    """Of each volume's cells in the order of time, shape (2, runs, blocks)."""
    cells = np.stack([np.take_along_axis(speeds, place, axis=1) for place in places])
    cells += SPREAD * draw.normal(0, 1, cells.shape)
    invalid = draw.random(cells.shape) < np.array(shares)[:, None, None]
    at_looks = decided_at(cells[0], cells[1], looks=BLOCKS) > 0
    if together:
        invalid[:] = invalid.any(axis=0)
    by_time = np.zeros((runs, 2 * BLOCKS), dtype=np.bool_)
    for place, of_volume in zip(places, invalid, strict=True):
        np.put_along_axis(by_time, place, of_volume, axis=1)
    nth = np.cumsum(by_time, axis=1)
    repeated = by_time & (nth <= REPEATS_MAX)
    later = np.take_along_axis(speeds, np.minimum(2 * BLOCKS + nth - 1, speeds.shape[1] - 1).clip(0), axis=1)
    for side, place in enumerate(places):
        is_repeated = np.take_along_axis(repeated, place, axis=1)
        new = np.take_along_axis(later, place, axis=1) + SPREAD * draw.normal(0, 1, (runs, BLOCKS))
        cells[side] = np.where(is_repeated, new, cells[side])
    at_end = told_apart(cells[0], cells[1], level=look_level(BLOCKS))
    return float((at_looks | at_end).mean())


if __name__ == "__main__":
    sys.exit(main())
