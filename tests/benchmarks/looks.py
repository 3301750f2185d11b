"""How often equal volumes are told apart, and how many cells a real difference takes: one metric, many runs.

    PYTHONPATH=runner:tests/support python tests/benchmarks/looks.py [--runs 20000] [--seed 5]

Simulated logs of one metric, looked at from 3 against 3 to 20 against 20 cells, and once with a fixed number of
cells. The simulation is our own construction. Exit code 1 when equal volumes are told apart in more than 5 %,
allowing for three standard errors, or when a difference that the documentation promises is named less often or
later.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from simulated_looks import Noise, bursts, decided_at, drawn, normal, outliers, skewed, told_apart

from volbench.results.stats.means import TWO_TESTS
from volbench.results.stats.sequential import CELLS_MAX

EQUAL: tuple[tuple[str, Noise, tuple[float, float], dict[str, float]], ...] = (
    ("5 %", normal, (0.05, 0.05), {}),
    ("5 %, and 15 % that both share", normal, (0.05, 0.05), {"shared": 0.15}),
    ("5 %, the machine slows down", normal, (0.05, 0.05), {"trend": 0.05 / 3}),
    ("5 %, one cell in ten far out", outliers, (0.05, 0.05), {}),
    ("5 %, skewed", skewed, (0.05, 0.05), {}),
    ("5 %, bursts", bursts, (0.05, 0.05), {}),
    ("5 and 15 %", normal, (0.05, 0.15), {}),
    ("5 and 15 %, skewed", skewed, (0.05, 0.15), {}),
    ("1 and 30 %", normal, (0.01, 0.30), {}),
    ("1 and 30 %, skewed", skewed, (0.01, 0.30), {}),
)
DIFFERENT = (
    ("10 % slower, 5 %", (0.05, 0.05), 0.0, 0.9, 0.05, 0.95, 24.0),
    ("20 % slower, 5 %", (0.05, 0.05), 0.0, 0.8, 0.05, 0.95, 11.0),
    ("20 % slower, 5 %, and 15 % that both share", (0.05, 0.05), 0.15, 0.8, 0.05, 0.95, 11.0),
    ("50 % slower, 5 %, and 30 % that both share", (0.05, 0.05), 0.30, 0.5, 0.05, 0.95, 10.0),
    ("5 % slower, 3 %, where 2 % matter", (0.03, 0.03), 0.0, 0.95, 0.02, 0.95, 21.0),
    ("five times slower, 1 and 15 %", (0.15, 0.01), 0.0, 0.2, 0.05, 0.95, 10.0),
)

FIXED = (3, 4, 5, 8, 12, 20)
"""Cells of each volume in runs with a fixed number of them."""
POWER = ((0.03, 0.9), (0.03, 0.8), (0.05, 0.9), (0.05, 0.8), (0.08, 0.9), (0.08, 0.8))
"""Spread of both volumes, and how fast the second one is."""


def fixed_table(runs: int, seed: int) -> int:
    """Print how often one comparison names a difference, and return how many limits are missed."""
    limit, level, missed = 0.05 + 3 * math.sqrt(0.05 * 0.95 / runs), 0.05 / TWO_TESTS, 0
    print(f"\n| volumes and spread | {' | '.join(f'{n} v {n}' for n in FIXED)} |\n|---|{'--:|' * len(FIXED)}")
    for name, noise, spreads, options in EQUAL:
        x, y = drawn(noise, spreads, runs=runs, seed=seed, **options)
        shares = [float(told_apart(x[:, :n], y[:, :n], level=level).mean()) for n in FIXED]
        missed += max(shares) > limit
        print(f"| equal, {name} | {' | '.join(f'{share:.1%}' for share in shares)} |")
    for spread, ratio in POWER:
        x, y = drawn(normal, (spread, spread), runs=runs, seed=seed)
        y = y + math.log(ratio)
        shares = [float(told_apart(x[:, :n], y[:, :n], level=level, margin=0.05).mean()) for n in FIXED]
        print(f"| {1 - ratio:.0%} slower, {spread:.0%} | {' | '.join(f'{share:.1%}' for share in shares)} |")
    return missed


def main() -> int:
    """Print both tables, and return 1 where a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=5)
    args = parser.parse_args()
    limit = 0.05 + 3 * math.sqrt(0.05 * 0.95 / args.runs)
    missed = 0
    print("| volumes and spread | a difference is named | cells on average, both volumes |")
    print("|---|--:|--:|")
    for name, noise, spreads, options in EQUAL:
        cells = decided_at(*drawn(noise, spreads, runs=args.runs, seed=args.seed, **options))
        share = float((cells > 0).mean())
        missed += share > limit
        print(f"| equal, {name} | {share:.1%} | |")
    for name, spreads, shared, ratio, margin, share_min, cells_max in DIFFERENT:
        x, y = drawn(normal, spreads, shared=shared, runs=args.runs, seed=args.seed)
        cells = decided_at(x, y + math.log(ratio), margin=margin)
        share, mean = float((cells > 0).mean()), 2 * float(np.where(cells > 0, cells, CELLS_MAX).mean())
        missed += share < share_min or mean > cells_max
        print(f"| {name} | {share:.1%} | {mean:.1f} |")
    missed += fixed_table(args.runs, args.seed)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
