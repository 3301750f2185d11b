"""How many cells runs of many volumes take, when each volume stops at its verdict and when all stop together.

    PYTHONPATH=runner:tests/support python tests/benchmarks/volumes_decided.py [--runs 20000] [--seed 7]

Simulated logs of one metric: the first volume is compared with each other one, after each block from 3 to 20 of
each volume. A pair is decided when it is named different or equivalent at the level of its look. The simulation is
our own construction. Exit code 1 when a volume that equals the first one is named in more than 5 % of the pairs,
or more than 5 % of the names that hold among all volumes are wrong on average, allowing for three standard errors
over runs, or when fewer cells are saved than the documentation promises.
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

from simulated_looks import Noise, bursts, first_verdict, normal, skewed, told_apart

from volbench.results.stats.sequential import CELLS_MAX, CELLS_MIN, look_level, relative_p

VOLUMES = (10, 25, 50)
MARGIN = 0.05
PORTIONS = (1.0, 0.8, 0.6, 0.5, 0.4, 0.3, 0.2, 0.15, 0.1, 0.07, 0.05, 0.04, 0.03, 0.02)
"""Parts of a look's level below which a p-value lies: it is taken as the smallest of them."""
SHARED = 0.15
"""Standard deviation of what all cells of a block have in common."""


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """Volumes of a run: spread of a cell, and that of the volumes' logarithms around the first one."""

    name: str
    spread: float
    between: float
    equal: float = 0.0
    noise: Noise = normal
    saved_min: float = 0.0


FLEETS = (
    Fleet(name="they differ by 30 %, cells by 3 %", spread=0.03, between=0.30, saved_min=0.3),
    Fleet(name="half equal the first, half differ by 30 %, cells by 3 %", spread=0.03, between=0.30, equal=0.5),
    Fleet(name="all equal, cells differ by 5 %", spread=0.05, between=0.0, equal=1.0),
    Fleet(name="all equal, cells differ by 5 %, skewed", spread=0.05, between=0.0, equal=1.0, noise=skewed),
    Fleet(name="all equal, cells differ by 5 %, bursts", spread=0.05, between=0.0, equal=1.0, noise=bursts),
)


@dataclass(frozen=True, kw_only=True)
class Counted:
    """Cells of a run on average when it stops as one, and volume by volume; shares of equal pairs and of runs."""

    together: float
    apart: float
    false_pairs: float
    false_runs: float
    false_among: float
    """Runs with an equal volume that is named among all."""
    wrong_among: float
    """Of the volumes that a run names among all, the equal ones on average."""
    true_among: float
    """Of the named volumes that differ, those that are named among all."""


def counted(fleet: Fleet, volumes: int, *, runs: int, seed: int) -> Counted:
    """Simulate runs of so many volumes; pairs share the first volume's cells, as in a run."""
    draw = np.random.default_rng(seed)
    stopped: NDArray[np.int64] = np.zeros((runs, volumes - 1), dtype=np.int64)
    false = np.zeros((runs, volumes - 1), dtype=np.bool_)
    is_equal = np.zeros((runs, volumes - 1), dtype=np.bool_)
    differs, better = np.zeros_like(is_equal), np.zeros_like(is_equal)
    relative = np.full((runs, volumes - 1), np.inf)
    shape = (runs, CELLS_MAX)
    common = SHARED * draw.normal(0, 1, shape)
    first = common + fleet.spread * fleet.noise(draw, shape)
    for alternative in range(volumes - 1):
        equal = draw.random(runs) < fleet.equal
        shift = np.where(equal, 0.0, fleet.between * draw.normal(0, 1, runs))
        y = common + shift[:, None] + fleet.spread * fleet.noise(draw, shape)
        stopped[:, alternative], named = first_verdict(first, y, margin=MARGIN)
        false[:, alternative], is_equal[:, alternative] = named & equal, equal
        differs[:, alternative] = named & ~equal
        better[:, alternative] = (y - first).mean(axis=1) > 0
        for cells in range(CELLS_MIN, CELLS_MAX + 1):
            ended = np.flatnonzero(named & (stopped[:, alternative] == cells))
            for portion in PORTIONS:
                p_value = look_level(cells) * portion
                apart = told_apart(first[ended, :cells], y[ended, :cells], level=p_value)
                relative[ended[apart], alternative] = relative_p(p_value, cells, look_level(cells))
    among = certain(np.where(better, relative, np.inf)) | certain(np.where(better, np.inf, relative))
    until = np.where(stopped > 0, stopped, CELLS_MAX)
    longest = until.max(axis=1)
    return Counted(
        together=float(volumes * longest.mean()),
        apart=float((longest + until.sum(axis=1)).mean()),
        false_pairs=float(false.sum() / max(1, is_equal.sum())),
        false_runs=float(false.any(axis=1).mean()),
        false_among=float((false & among).any(axis=1).mean()),
        wrong_among=float(((false & among).sum(axis=1) / np.maximum(1, among.sum(axis=1))).mean()),
        true_among=float((differs & among).sum() / max(1, differs.sum())),
    )


def certain(relative: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which pairs hold among all of a run, shape (runs, pairs): Benjamini and Hochberg at p / level."""
    count = relative.shape[1]
    order = np.argsort(relative, axis=1)
    ranked = np.take_along_axis(relative, order, axis=1)
    holds = ranked <= np.arange(1, count + 1) / count
    last = np.where(holds.any(axis=1), count - np.argmax(holds[:, ::-1], axis=1), 0)
    chosen = np.zeros_like(holds)
    np.put_along_axis(chosen, order, np.arange(count) < last[:, None], axis=1)
    return chosen


def main() -> int:
    """Print the table, and return 1 where a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()
    limit = 0.05 + 3 * math.sqrt(0.05 * 0.95 / args.runs)
    missed = 0
    print(
        "| volumes | | all stop together | each stops | an equal volume is named | any is | any is, among all |"
        " wrong among these | of those that differ, among all |"
    )
    print("|--:|---|--:|--:|--:|--:|--:|--:|--:|")
    for fleet in FLEETS:
        for volumes in VOLUMES:
            result = counted(fleet, volumes, runs=args.runs, seed=args.seed)
            missed += (
                max(result.false_pairs, result.false_among) > limit
                or result.apart > (1 - fleet.saved_min) * result.together
            )
            shares = (result.false_pairs, result.false_runs, result.false_among, result.wrong_among)
            false = " | ".join(f"{share:.1%}" if fleet.equal else "" for share in shares)
            true = f"{result.true_among:.1%}" if fleet.equal < 1 else ""
            cells = f"{result.together:.0f} | {result.apart:.0f}"
            print(f"| {volumes} | {fleet.name} | {cells} | {false} | {true} |", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
