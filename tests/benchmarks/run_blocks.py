"""How often runs over copies of two equal classes tell these apart, when runs are repeats and when cells are.

    PYTHONPATH=runner:tests/support python tests/benchmarks/run_blocks.py [--runs 20000] [--seed 11]

Simulated logs of one metric: each run has copies of its own of both classes, and from 3 to 8 cells of each. The
verdict of `compare --blocks` takes a run's mean as one repeat; the other column takes all cells as repeats. The
simulation is our own construction. Exit code 1 when equal classes are told apart in more than 5 % by `--blocks`,
allowing for three standard errors.
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

from simulated_looks import Noise, normal, skewed, told_apart

from volbench.results.stats.means import TWO_TESTS

COUNTS = (3, 4, 6, 10)
CELLS = (3, 8)
MARGIN = 0.05


@dataclass(frozen=True, kw_only=True)
class Classes:
    """Two classes: spread of a cell, of what the cells of a run share, and of the copies of each class."""

    name: str
    cell: float = 0.05
    run: float = 0.15
    copies: tuple[float, float] = (0.1, 0.1)
    ratio: float = 1.0
    noise: Noise = normal


CLASSES = (
    Classes(name="equal, copies do not differ", copies=(0.0, 0.0)),
    Classes(name="equal, copies differ by 5 %", copies=(0.05, 0.05)),
    Classes(name="equal, copies differ by 10 %"),
    Classes(name="equal, copies differ by 2 and 20 %", copies=(0.02, 0.2)),
    Classes(name="equal, copies differ by 10 %, skewed", noise=skewed),
    Classes(name="equal, copies differ by 10 %, cells by 20 %", cell=0.2),
    Classes(name="20 % slower, copies differ by 5 %", copies=(0.05, 0.05), ratio=0.8),
    Classes(name="50 % slower, copies differ by 10 %", ratio=0.5),
)


def named(classes: Classes, count: int, *, runs: int, seed: int) -> tuple[float, float]:
    """Return the shares of simulated comparisons that name a difference: runs as repeats, and cells as repeats."""
    draw = np.random.default_rng(seed)
    cells = draw.integers(CELLS[0], CELLS[1] + 1, (runs, count))
    existing = np.arange(CELLS[1]) < cells[..., None]
    day = classes.run * draw.normal(0, 1, (runs, count))
    sides: list[NDArray[np.float64]] = []
    for spread in classes.copies:
        copy = spread * classes.noise(draw, (runs, count))
        noise = classes.cell * draw.normal(0, 1, (runs, count, CELLS[1]))
        sides.append((day + copy)[..., None] + noise)
    sides[1] = sides[1] + math.log(classes.ratio)
    means = [np.where(existing, side, 0).sum(axis=2) / cells for side in sides]
    margin = 0.0 if classes.ratio == 1 else MARGIN
    level = 0.05 / TWO_TESTS
    by_run = told_apart(means[0], means[1], level=level, margin=margin)
    few = [side[:, :, : CELLS[0]].reshape(runs, -1) for side in sides]
    by_cell = told_apart(few[0], few[1], level=level, margin=margin)
    return float(by_run.mean()), float(by_cell.mean())


def main() -> int:
    """Print the table, and return 1 where a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=11)
    args = parser.parse_args()
    limit, missed = 0.05 + 3 * math.sqrt(0.05 * 0.95 / args.runs), 0
    print(f"| classes | {' | '.join(f'{count} runs' for count in COUNTS)} | {COUNTS[-1]} runs, cells as repeats |")
    print(f"|---|{'--:|' * (len(COUNTS) + 1)}")
    for classes in CLASSES:
        results = [named(classes, count, runs=args.runs, seed=args.seed) for count in COUNTS]
        missed += classes.ratio == 1 and max(by_run for by_run, _ in results) > limit
        shares = [f"{by_run:.1%}" for by_run, _ in results]
        print(f"| {classes.name} | {' | '.join(shares)} | {results[-1][1]:.1%} |")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
