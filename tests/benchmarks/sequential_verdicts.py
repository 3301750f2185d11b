"""How often a run until it is decided names a difference that is not there, and how many cells it takes.

Simulated cells with tps and two latencies, looked at after each block from 3 against 3 to 20 against 20 by the code
of a report (`compare`, `summarise`). The simulation is our own construction.

    python tests/benchmarks/sequential_verdicts.py [--families 1000] [--seed 1] [--json FILE]

Exit code 1 when equal volumes are told apart in more than 5 %, allowing for three standard errors.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volbench.results.compare.comparison import compare
from volbench.results.compare.comparison_summary import PairSummary, summarise
from volbench.results.compare.row import Row
from volbench.results.stats.sequential import CELLS_MAX, CELLS_MIN

Noise = Callable[[np.random.Generator, int], NDArray[np.float64]]
"""Log deviations of `count` cells, shape (count,), with standard deviation about 1."""
METRICS = (("tps", "higher"), ("latency_ms_p95", "lower"), ("latency_ms_p99", "lower"))
FALSE_MAX = 0.05


def normal(draw: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Normal."""
    return draw.normal(0, 1, count)


def outliers(draw: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Normal; one cell in ten scatters five times as far."""
    return draw.normal(0, 1, count) * np.where(draw.random(count) < 0.1, 5, 1)


def skewed(draw: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Exponential, with median 0: some cells are much slower, none much faster."""
    return math.log(2) - draw.exponential(1, count)


def trending(draw: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Normal; the machine slows down by one standard deviation in three blocks."""
    return draw.normal(0, 1, count) - np.arange(count) / 3


@dataclass(frozen=True, kw_only=True)
class Condition:
    """What is simulated: spreads of both volumes, as standard deviations of the log, and the true ratio of tps."""

    name: str
    noise: Noise
    spreads: tuple[float, float]
    ratio: float = 1.0
    steps: int = 1


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Shares of families, and the mean number of cells of both volumes together."""

    condition: str
    families: int
    named: float
    right: float
    cells: float
    undecided: float


CONDITIONS = (
    Condition(name="equal, 5 %", noise=normal, spreads=(0.05, 0.05)),
    Condition(name="equal, 5 %, one cell in ten far out", noise=outliers, spreads=(0.05, 0.05)),
    Condition(name="equal, 5 %, skewed", noise=skewed, spreads=(0.05, 0.05)),
    Condition(name="equal, 5 %, the machine slows down", noise=trending, spreads=(0.05, 0.05)),
    Condition(name="equal, 5 and 15 %", noise=normal, spreads=(0.05, 0.15)),
    Condition(name="equal, 1 and 30 %", noise=normal, spreads=(0.01, 0.3)),
    Condition(name="equal, 1 and 30 %, skewed", noise=skewed, spreads=(0.01, 0.3)),
    Condition(name="equal, 5 %, ten steps", noise=normal, spreads=(0.05, 0.05), steps=10),
    Condition(name="10 % slower, 5 %", noise=normal, spreads=(0.05, 0.05), ratio=1 / 1.1),
    Condition(name="20 % slower, 5 %", noise=normal, spreads=(0.05, 0.05), ratio=1 / 1.2),
    Condition(name="five times slower, 1 and 15 %", noise=normal, spreads=(0.15, 0.01), ratio=0.2),
)


def simulated_rows(condition: Condition, draw: np.random.Generator) -> list[list[Row]]:
    """The rows of each block, CELLS_MAX of them."""
    blocks: list[list[Row]] = [[] for _ in range(CELLS_MAX)]
    for step in range(condition.steps):
        for volume, spread, level in zip("ab", condition.spreads, (1.0, condition.ratio), strict=True):
            tps = np.log(1000 * level) + spread * condition.noise(draw, CELLS_MAX)
            own = [np.zeros(CELLS_MAX), *(0.7 * spread * draw.normal(0, 1, (2, CELLS_MAX)))]
            for rank, (name, better) in enumerate(METRICS):
                values = np.exp(tps if rank == 0 else math.log(8000 * rank) - tps + own[rank])
                for block, value in enumerate(values):
                    blocks[block].append(
                        Row(
                            step=f"step-{step}",
                            parameters={},
                            metric=name,
                            unit="",
                            better=better,  # type: ignore[arg-type]
                            volume=volume,
                            cell=f"{volume}-{block}",
                            value=float(value),
                            rank=rank,
                            block=block,
                        )
                    )
    return blocks


def stopped(blocks: list[list[Row]]) -> tuple[int, PairSummary]:
    """The number of blocks after which the run stops, and what it then says."""
    for count in range(CELLS_MIN, CELLS_MAX + 1):
        rows = [row for block in blocks[:count] for row in block]
        (pair,) = summarise(compare(rows, ["a", "b"], sequential=True))
        if pair.verdict != "inconclusive":
            break
    return count, pair


def simulate(condition: Condition, *, families: int, seed: int) -> Outcome:
    """Runs of a condition, each from a draw of its own; fewer where each has several steps."""
    families = max(200, families // condition.steps)
    named = right = undecided = cells = 0
    for family in range(families):
        count, pair = stopped(simulated_rows(condition, np.random.default_rng([seed, family])))
        cells += 2 * count
        named += pair.verdict in ("candidate_better", "candidate_worse", "mixed")
        right += pair.verdict == ("candidate_worse" if condition.ratio < 1 else "equivalent")
        undecided += pair.verdict == "inconclusive"
    return Outcome(
        condition=condition.name,
        families=families,
        named=named / families,
        right=right / families,
        cells=cells / families,
        undecided=undecided / families,
    )


def faults(outcome: Outcome, condition: Condition) -> Iterator[str]:
    """What exceeds its limit."""
    error = 3 * math.sqrt(FALSE_MAX * (1 - FALSE_MAX) / outcome.families)
    if condition.ratio == 1 and outcome.named > FALSE_MAX + error:
        yield f"{condition.name}: {outcome.named:.1%} of equal volumes are told apart, limit {FALSE_MAX:.0%}"
    if condition.ratio <= 1 / 1.2 and outcome.right < 0.95:
        yield f"{condition.name}: {outcome.right:.1%} are decided, at least 95 % should be"
    if condition.ratio <= 1 / 1.2 and outcome.cells > 10:
        yield f"{condition.name}: {outcome.cells:.1f} cells on average, limit 10"


def main() -> int:
    """Print a table; return 1 when a limit is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--families", type=int, default=1000, help="simulated runs for each row")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="also write the table there")
    options = parser.parse_args()
    sys.stdout.write(f"{'condition':40} {'named':>7} {'right':>7} {'open':>7} {'cells':>6}\n")
    outcomes: list[Any] = []
    failed: list[Any] = []
    with ProcessPoolExecutor() as pool:
        simulated = pool.map(partial(simulate, families=options.families, seed=options.seed), CONDITIONS)
        for condition, outcome in zip(CONDITIONS, simulated, strict=True):
            outcomes.append(outcome)
            failed += faults(outcome, condition)
            sys.stdout.write(
                f"{condition.name:40} {outcome.named:7.1%} {outcome.right:7.1%} {outcome.undecided:7.1%}"
                f" {outcome.cells:6.1f}\n"
            )
            sys.stdout.flush()
    if options.json:
        options.json.write_text(json.dumps([asdict(outcome) for outcome in outcomes], indent=1) + "\n")
    for text in failed:
        sys.stdout.write(f"FAILED {text}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
