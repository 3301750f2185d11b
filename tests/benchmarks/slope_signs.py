"""What to do where other work seems to speed a volume up: errors, cells and figures of four rules.

    PYTHONPATH=runner:tests/support python tests/benchmarks/slope_signs.py [--runs 4000] [--seed 3] [--all]

An adjustment for other work has a slope of each volume's own, and by chance it may have the sign of no such work.
`free`: it is used as it is. `clipped`, which is what volbench does: it is none, and the error is that of the fit
with it, or of the one without it where that is larger. `narrowed`: it is none, with the error of the fit without
it. `refused`: the plain test is made. Simulated logs of one metric, our own construction. `--all` prints a line for
each kind of other work. Exit code 1 when `clipped` tells equal volumes apart in more than 5 %, allowing for three
standard errors, or names a difference of 20 % in less than 95 %, where the cells' noise is normal.
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from simulated_covariates import (
    OtherWork,
    SlopeRule,
    apart_with_work,
    decided_with_work,
    drawn_with_work,
    estimated_with_work,
)
from simulated_looks import bursts, normal, outliers, skewed

from volbench.results.stats.means import TWO_TESTS
from volbench.results.stats.sequential import CELLS_MAX

NONE, SMALL = (0.0, 0.0), (0.3, 0.3)
CONDITIONS = (
    OtherWork(name="in half of the cells", shares="cells"),
    OtherWork(name="in half of the cells, a small effect", shares="cells", slopes=SMALL),
    OtherWork(name="in half of the cells, no effect", shares="cells", slopes=NONE),
    OtherWork(name="in both cells of half of the blocks, no effect", shares="blocks", slopes=NONE),
    OtherWork(name="in all cells, a small effect", shares="busy", slopes=SMALL),
    OtherWork(name="mostly in one volume's cells", shares="volume"),
    OtherWork(name="mostly in one volume's cells, a small effect", shares="volume", slopes=SMALL),
    OtherWork(name="mostly in one volume's cells, no effect", shares="volume", slopes=NONE),
    OtherWork(name="mostly in one volume's cells, small, skewed", shares="volume", slopes=SMALL, noise=skewed),
    OtherWork(name="mostly in one volume's cells, small, bursts", shares="volume", slopes=SMALL, noise=bursts),
    OtherWork(name="mostly in one volume's cells, small, far out", shares="volume", slopes=SMALL, noise=outliers),
    OtherWork(name="mostly in one volume's cells, small, 15 % shared", shares="volume", slopes=SMALL, shared=0.15),
    OtherWork(name="in half of the cells, 15 % shared", shares="cells", shared=0.15),
    OtherWork(name="all CPUs in use, threads counted", shares="wanted", slopes=(0.6, 0.6), error=0.1),
)
FIXED = 5
NAMED_MIN = 0.95


@dataclass(frozen=True, kw_only=True)
class Line:
    """Shares of families in which a difference is named, cells of both volumes, and the figure's error in logs."""

    equal_at_once: float
    equal: float
    slower: float
    cells: float
    figure_error: float


def main() -> int:
    """Print the tables, and return 1 where a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--all", action="store_true")
    args = parser.parse_args()
    lines = {
        rule: {work.name: line_of(work, rule, args.runs, args.seed) for work in CONDITIONS}
        for rule in get_args(SlopeRule)
    }
    header = (
        "equal, 5 v 5: named | equal, until decided: named | 20 % slower: named | cells | error of the figure |"
    )
    if args.all:
        print(f"| other work | slope | {header}\n|---|---|{'--:|' * 5}")
        for work in CONDITIONS:
            for rule, by_work in lines.items():
                print(f"| {work.name} | {rule} | {text(by_work[work.name])}")
        print()
    header = "equal, 5 v 5: named at most | equal, until decided: at most | 20 % slower: at least | cells | error |"
    print(f"| a slope of the wrong sign | {header}\n|---|{'--:|' * 5}")
    for rule, by_work in lines.items():
        print(f"| {rule} | {text(worst(list(by_work.values())))}")
    limit = 0.05 + 3 * math.sqrt(0.05 * 0.95 / args.runs)
    used = [(work, lines["clipped"][work.name]) for work in CONDITIONS]
    too_many = any(max(line.equal_at_once, line.equal) > limit for _, line in used)
    too_few = any(line.slower < NAMED_MIN for work, line in used if work.noise is normal)
    return int(too_many or too_few)


def line_of(work: OtherWork, rule: SlopeRule, runs: int, seed: int) -> Line:
    """Return what a rule makes of one kind of other work."""
    logs, shares = drawn_with_work(work, runs=runs, seed=seed)
    at_mean = work.shares == "wanted"
    few_logs, few_shares = ((side[0][:, :FIXED], side[1][:, :FIXED]) for side in (logs, shares))
    level = 0.05 / TWO_TESTS
    at_once = apart_with_work(few_logs, few_shares, level=level, at_mean=at_mean, rule=rule)
    equal = decided_with_work(logs, shares, at_mean=at_mean, rule=rule)
    slower = logs[0], logs[1] + math.log(0.8)
    cells = decided_with_work(slower, shares, margin=0.05, at_mean=at_mean, rule=rule)
    changes = estimated_with_work(few_logs, few_shares, at_mean=at_mean, rule=rule)
    return Line(
        equal_at_once=float(at_once.mean()),
        equal=float((equal > 0).mean()),
        slower=float((cells > 0).mean()),
        cells=2 * float(np.where(cells > 0, cells, CELLS_MAX).mean()),
        figure_error=math.sqrt(float((changes**2).mean())),
    )


def worst(lines: list[Line]) -> Line:
    """Return the most errors, the least power, and the means of cells and of the figure's error."""
    return Line(
        equal_at_once=max(line.equal_at_once for line in lines),
        equal=max(line.equal for line in lines),
        slower=min(line.slower for line in lines),
        cells=sum(line.cells for line in lines) / len(lines),
        figure_error=sum(line.figure_error for line in lines) / len(lines),
    )


def text(line: Line) -> str:
    """Return the columns of a line."""
    return (
        f"{line.equal_at_once:.1%} | {line.equal:.1%} | {line.slower:.1%} | {line.cells:.1f} |"
        f" {line.figure_error:.1%} |"
    )


if __name__ == "__main__":
    sys.exit(main())
