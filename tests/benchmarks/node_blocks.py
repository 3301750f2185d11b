"""How often cells on nodes of different speed name a difference that is not there, within nodes and all together.

Simulated cells with tps and p95 on nodes whose speeds are drawn for each family. The simulation is our own
construction. The verdicts are those of a report (`compare`, `summarise`), which is asked only about families in
which a rank test has a small p: without one it names nothing. Rows that need it for nearly all families use a
twentieth.

    python tests/benchmarks/node_blocks.py [--families 20000] [--seed 1] [--json FILE]

Exit code 1 when equal volumes are told apart in more than 5 % within nodes (allowing for three standard errors),
when fewer than 95 % of differences of 20 % are named, or when the test without nodes is neither wrong nor weaker
where it should be: then the blocks are not needed.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from volbench.results.compare.comparison import compare
from volbench.results.compare.comparison_summary import summarise
from volbench.results.compare.row import Row
from volbench.results.stats.ranks.null import block_weights, null_tails
from volbench.results.stats.sequential import CELLS_MIN, look_level

Noise = Callable[[np.random.Generator, int], NDArray[np.float64]]
"""Log deviations of `count` cells, shape (count,), with standard deviation about 1."""
FALSE_MAX = 0.05
FOUND_MIN = 0.95
NODE_SPREAD = 0.4
"""Standard deviation of the logarithm of a node's speed: of two nodes, one is mostly 1.3 to 2 times as fast."""
Layout = tuple[tuple[int, ...], tuple[int, ...]]
"""Cells of the volumes a and b on each node."""


def normal(draw: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Normal."""
    return draw.normal(0, 1, count)


def skewed(draw: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Exponential, with median 0: some cells are much slower, none much faster."""
    return math.log(2) - draw.exponential(1, count)


@dataclass(frozen=True, kw_only=True)
class Condition:
    """What is simulated; `without`: what the test that ignores nodes must be here, since blocks are needed."""

    name: str
    layout: Layout
    spreads: tuple[float, float] = (0.05, 0.05)
    noise: Noise = normal
    ratio: float = 1.0
    until_decided: bool = False
    without: Literal["wrong", "weaker", ""] = ""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Shares of families in which a difference is named: within nodes, and in a part without them."""

    condition: str
    families: int
    within: float
    without: float


TWO: Layout = ((4, 4), (4, 4))
THREE: Layout = ((3, 3, 3), (3, 3, 3))
CONDITIONS = (
    Condition(name="equal, 2 nodes of 4 v 4", layout=TWO),
    Condition(name="equal, 3 nodes of 3 v 3", layout=THREE),
    Condition(name="equal, nodes of 4 v 4, 2 v 2, 2 v 2", layout=((4, 2, 2), (4, 2, 2))),
    Condition(name="equal, 7 nodes of 1 v 1", layout=((1,) * 7, (1,) * 7)),
    Condition(name="equal, nodes of 20 v 10 and 10 v 20", layout=((20, 10), (10, 20)), without="wrong"),
    Condition(name="equal, 2 nodes of 4 v 4, skewed", layout=TWO, noise=skewed),
    Condition(name="equal, 2 nodes of 4 v 4, 1 and 30 %", layout=TWO, spreads=(0.01, 0.3)),
    Condition(name="equal, 3 nodes of 3 v 3, 1 and 30 %, skewed", layout=THREE, spreads=(0.01, 0.3), noise=skewed),
    Condition(name="equal, 2 nodes of 4 v 4, until decided", layout=TWO, until_decided=True),
    Condition(name="20 % slower, 2 nodes of 4 v 4", layout=TWO, ratio=1 / 1.2, without="weaker"),
    Condition(name="20 % slower, 3 nodes of 3 v 3", layout=THREE, ratio=1 / 1.2, without="weaker"),
)
ASKED_SHARE = 20
"""Of conditions in which the report is asked about each family, one family in so many is used."""


Values = NDArray[np.float64]
"""Logarithms, shape (volumes, metrics, cells)."""


def simulated_values(condition: Condition, draw: np.random.Generator) -> tuple[Values, list[list[int]]]:
    """The values, and the node of each cell of either volume: a node is measured before the next."""
    speeds = draw.normal(0, NODE_SPREAD, len(condition.layout[0]))
    nodes = [[node for node, count in enumerate(cells) for _ in range(count)] for cells in condition.layout]
    values = []
    for of_volume, spread, level in zip(nodes, condition.spreads, (1.0, condition.ratio), strict=True):
        tps = math.log(1000 * level) + speeds[of_volume] + spread * condition.noise(draw, len(of_volume))
        values.append([tps, math.log(8000) - tps + 0.7 * spread * draw.normal(0, 1, len(of_volume))])
    return np.array(values), nodes


def named(values: Values, nodes: list[list[int]], *, within: bool, sequential: bool) -> bool:
    """Whether the report names a difference."""
    rows = [
        Row(
            step="step",
            parameters={},
            metric=metric,
            unit="",
            better=better,  # type: ignore[arg-type]
            volume=volume,
            cell=f"{volume}-{number}",
            value=float(math.exp(value)),
            rank=rank,
            node=f"n{node}" if within else "",
        )
        for volume, of_volume, of_cells in zip("ab", values, nodes, strict=True)
        for rank, (metric, better) in enumerate((("tps", "higher"), ("latency_ms_p95", "lower")))
        for number, (node, value) in enumerate(zip(of_cells, of_volume[rank], strict=True))
    ]
    (pair,) = summarise(compare(rows, ["a", "b"], sequential=sequential))
    return pair.verdict in ("candidate_better", "candidate_worse", "mixed")


def rank_p_values(values: Values, nodes: list[list[int]]) -> NDArray[np.float64]:
    """Two-sided p of the rank test within nodes: values of shape (families, volumes, metrics, cells), no ties."""
    families, _, metrics, _ = values.shape
    of = [np.array(side) for side in nodes]
    blocks = [(values[0, 0, 0, of[0] == node], values[0, 1, 0, of[1] == node]) for node in dict.fromkeys(nodes[0])]
    weights = block_weights(blocks)
    sums, null = np.zeros((families, metrics), dtype=np.int64), []
    for node, weight in zip(dict.fromkeys(nodes[0]), weights, strict=True):
        x, y = (values[:, side][:, :, of[side] == node] for side in (0, 1))
        ranks = np.concatenate([x, y], axis=2).argsort(axis=2).argsort(axis=2) + 1
        sums += weight * 2 * ranks[:, :, x.shape[2] :].sum(axis=2)
        null.append((tuple(range(2, 2 * ranks.shape[2] + 1, 2)), y.shape[2], weight))
    upper, lower = null_tails(tuple(null))
    return np.minimum(1.0, 2 * np.minimum(upper[sums], lower[sums]))


def named_share(condition: Condition, values: Values, nodes: list[list[int]], *, within: bool) -> float:
    """The share of families in which the report names a difference, at any look of a run until it is decided."""
    cells = values.shape[3]
    looks = range(CELLS_MIN, cells + 1) if condition.until_decided else (cells,)
    ended = np.zeros(len(values), dtype=bool)
    for count in looks:
        used = [side[:count] for side in nodes]
        blocks = used if within else [[0] * count, [0] * count]
        level = FALSE_MAX
        if condition.until_decided:
            level = look_level(count, nodes=len(set(blocks[0])))
        small = (rank_p_values(values[..., :count], blocks) < level).any(axis=1) & ~ended
        for family in np.flatnonzero(small):
            ended[family] = named(
                values[family, ..., :count], used, within=within, sequential=condition.until_decided
            )
    return float(ended.mean())


def simulate(condition: Condition, *, families: int, seed: int) -> Outcome:
    """Runs of a condition, each from a draw of its own."""
    piece = max(50, families // ASKED_SHARE)
    count = families if condition.ratio == 1 else piece
    drawn = [simulated_values(condition, np.random.default_rng([seed, family])) for family in range(count)]
    values, nodes = np.array([item for item, _ in drawn]), drawn[0][1]
    return Outcome(
        condition=condition.name,
        families=count,
        within=named_share(condition, values, nodes, within=True),
        without=named_share(condition, values[:piece], nodes, within=False),
    )


def faults(outcome: Outcome, condition: Condition) -> Iterator[str]:
    """What exceeds its limit."""
    error = 3 * math.sqrt(FALSE_MAX * (1 - FALSE_MAX) / outcome.families)
    if condition.ratio == 1 and outcome.within > FALSE_MAX + error:
        yield f"{condition.name}: {outcome.within:.1%} of equal volumes are told apart, limit {FALSE_MAX:.0%}"
    if condition.ratio < 1 and outcome.within < FOUND_MIN:
        yield f"{condition.name}: {outcome.within:.1%} are named, at least {FOUND_MIN:.0%} should be"
    if condition.without == "wrong" and outcome.without <= FALSE_MAX + error:
        yield f"{condition.name}: without nodes {outcome.without:.1%} are named, which is no error"
    if condition.without == "weaker" and outcome.without > outcome.within - 0.2:
        yield f"{condition.name}: without nodes {outcome.without:.1%} are named, which is no less"


def main() -> int:
    """Print a table; return 1 when a limit is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--families", type=int, default=2000, help="simulated runs for each row")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="also write the table there")
    options = parser.parse_args()
    sys.stdout.write(f"{'a difference is named':48} {'families':>8} {'within':>7} {'without':>8}\n")
    outcomes: list[Any] = []
    failed: list[Any] = []
    for condition in CONDITIONS:
        outcome = simulate(condition, families=options.families, seed=options.seed)
        outcomes.append(outcome)
        failed += faults(outcome, condition)
        sys.stdout.write(f"{condition.name:48} {outcome.families:8} {outcome.within:7.1%} {outcome.without:8.1%}\n")
        sys.stdout.flush()
    if options.json:
        options.json.write_text(json.dumps([asdict(outcome) for outcome in outcomes], indent=1) + "\n")
    for text in failed:
        sys.stdout.write(f"FAILED {text}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
