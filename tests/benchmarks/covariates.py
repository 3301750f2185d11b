"""How often equal volumes are told apart with other work, and how many cells a real difference takes.

    PYTHONPATH=runner:tests/support python tests/benchmarks/covariates.py [--runs 20000] [--seed 3]

Simulated logs of one metric and shares of the CPUs that other work took, compared with the adjustment and without
it. The simulation is our own construction. Exit code 1 when adjusted comparisons tell equal volumes apart in more
than 5 %, allowing for three standard errors, or name a difference of 20 % in less than 95 %.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from simulated_covariates import OtherWork, apart_with_work, decided_with_work, drawn_with_work
from simulated_looks import decided_at

from volbench.results.stats.means import TWO_TESTS
from volbench.results.stats.sequential import CELLS_MAX

CONDITIONS = (
    OtherWork(name="in half of the cells", shares="cells"),
    OtherWork(name="in both cells of half of the blocks", shares="blocks"),
    OtherWork(name="in all cells", shares="busy"),
    OtherWork(name="mostly in one volume's cells", shares="volume"),
    OtherWork(name="mostly in one volume's cells, without effect", shares="volume", slopes=(0.0, 0.0)),
    OtherWork(name="mostly in one volume's cells, measured with an error of 3 %", shares="volume", error=0.03),
    OtherWork(name="in half of the cells, one volume untouched", shares="cells", slopes=(1.5, 0.0)),
    OtherWork(name="all CPUs in use, threads counted", shares="wanted", slopes=(0.6, 0.6)),
    OtherWork(name="all CPUs in use, counted with an error of 10 %", shares="wanted", slopes=(0.6, 0.6), error=0.1),
    OtherWork(name="in half of the cells, a step", shares="cells", step=0.3),
    OtherWork(name="mostly in one volume's cells, a step", shares="volume", step=0.3),
    OtherWork(name="all CPUs in use, one volume untouched", shares="wanted", slopes=(0.9, 0.0), error=0.1),
)
UNLIMITED = CONDITIONS[-2:]
"""A step is outside what the adjustment assumes; volumes of which one is untouched do differ on a busy machine."""
FIXED = 5
NAMED_MIN = 0.95


def main() -> int:
    """Print the table, and return 1 where a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=3)
    args = parser.parse_args()
    limit = 0.05 + 3 * math.sqrt(0.05 * 0.95 / args.runs)
    missed = 0
    print(
        "| other work | equal, 5 v 5: named | equal, until decided: named | plain, until decided |"
        " 20 % slower: named | cells | plain: named | cells |"
    )
    print(f"|---|{'--:|' * 7}")
    for work in CONDITIONS:
        logs, shares = drawn_with_work(work, runs=args.runs, seed=args.seed)
        slower = logs[0], logs[1] + math.log(0.8)
        piece = ((side[0][:, :FIXED], side[1][:, :FIXED]) for side in (logs, shares))
        at_mean = work.shares == "wanted"
        fixed = float(apart_with_work(*piece, level=0.05 / TWO_TESTS, at_mean=at_mean).mean())
        equal = float((decided_with_work(logs, shares, at_mean=at_mean) > 0).mean())
        plain = float((decided_at(*logs) > 0).mean())
        adjusted = decided_with_work(slower, shares, margin=0.05, at_mean=at_mean)
        result = [adjusted, decided_at(*slower, margin=0.05)]
        named = [float((cells > 0).mean()) for cells in result]
        means = [2 * float(np.where(cells > 0, cells, CELLS_MAX).mean()) for cells in result]
        if work not in UNLIMITED:
            missed += max(fixed, equal) > limit or named[0] < NAMED_MIN
        print(
            f"| {work.name} | {fixed:.1%} | {equal:.1%} | {plain:.1%} | {named[0]:.1%} | {means[0]:.1f} |"
            f" {named[1]:.1%} | {means[1]:.1f} |"
        )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
