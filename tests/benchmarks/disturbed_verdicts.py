"""How often verdicts are wrong when cells are disturbed, and how often a difference is still seen: simulated cells.

Each cell has an undisturbed tps and p95 with a spread of its own, 3 to 8 %. A disturbance that held the cell back
for a share g of its time lowers tps by 1 - g and raises p95; what is *measured* of it is a bound h of g up to
`loose` times as large, as run-queue delays are. Volumes are alike (ratio 1) or not. The families are those of a
real suite: two metrics under Holm's correction. Counted are families with a verdict on any metric (at ratio 1
each is wrong), for three ways to judge: disturbed cells taken as if nothing was (*as measured*), left out (*left
out*), and both looks within bounds (*within bounds*), which is what volbench does.

    python tests/benchmarks/disturbed_verdicts.py [--families 20000] [--seed 1]

This is our own construction: it shows that the judging keeps what the bounds promise, not that real disturbances
keep within the bounds. Real busy loops are in tests/integration/test_busy_machine.py.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from volbench.results.compare.comparison import compare
from volbench.results.compare.row import Row
from volbench.results.stats.statistics import RUNS_MIN

ALPHA = 0.05


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """Which cells are disturbed: a chance for each cell of a and b, the range of g, and how loose h is."""

    name: str
    chance: tuple[float, float]
    share: tuple[float, float] = (0.0, 0.0)
    loose: float = 3.0
    cells: int = 5


SCENARIOS = (
    Scenario(name="none", chance=(0.0, 0.0)),
    Scenario(name="some cells, up to 20 %", chance=(0.4, 0.4), share=(0.02, 0.2)),
    Scenario(name="some of 8, up to 20 %", chance=(0.3, 0.3), share=(0.02, 0.2), cells=8),
    Scenario(name="only b, some of 8", chance=(0.0, 0.4), share=(0.02, 0.2), cells=8),
    Scenario(name="all cells, up to 30 %", chance=(1.0, 1.0), share=(0.05, 0.3)),
    Scenario(name="only b, up to 30 %", chance=(0.0, 1.0), share=(0.05, 0.3)),
    Scenario(name="only b, exact bounds", chance=(0.0, 1.0), share=(0.05, 0.3), loose=1.0),
)
RATIOS = (1.0, 0.9, 0.6, 0.2)


def simulated(draw: np.random.Generator, scenario: Scenario, ratio: float) -> Iterator[Row]:
    """The rows of one family."""
    spread = draw.uniform(0.03, 0.08)
    for volume, level, chance in (("a", 1.0, scenario.chance[0]), ("b", ratio, scenario.chance[1])):
        for number in range(scenario.cells):
            tps = 1000 * level * np.exp(draw.normal(0, spread))
            p95 = 20 / level * np.exp(draw.normal(0, 1.5 * spread))
            disturbed = draw.random() < chance
            retained = draw.uniform(*scenario.share) if disturbed else 0.0
            bound = min(1.0, retained * draw.uniform(1.0, scenario.loose)) if disturbed else 0.0
            tps, p95 = tps * (1 - retained), p95 * (1 + 2 * retained)
            high = tps / (1 - bound) if bound < 1 else np.inf
            for metric, unit, value, ends in (
                ("tps", "1/s", tps, (tps, high)),
                ("latency_ms_p95", "ms", p95, (p95 / (1 + 2 * bound), p95)),
            ):
                yield Row(
                    step="s",
                    parameters={},
                    metric=metric,
                    unit=unit,
                    better="higher" if metric == "tps" else "lower",
                    volume=volume,
                    cell=f"{volume}{number}",
                    value=float(value),
                    valid=not disturbed,
                    bounds=(float(ends[0]), float(ends[1])) if disturbed else None,
                )


JUDGES: dict[str, Callable[[list[Row]], list[Row]]] = {
    "as measured": lambda rows: [replace(row, valid=True, bounds=None) for row in rows],
    "left out": lambda rows: [replace(row, bounds=None) for row in rows],
    "within bounds": lambda rows: rows,
}


def decided(rows: list[Row]) -> bool:
    """Whether any metric is better or worse. Families that cannot be are not compared, which saves time.

    A verdict needs p < 5 % of one metric, in one look: of the values of all cells (a p within bounds is no smaller,
    since the values are inside them), or of those of the undisturbed ones.
    """
    looks = ([row for row in rows if row.valid or row.bounds is not None], [row for row in rows if row.valid])
    if not any(smallest_p(look) < ALPHA for look in looks):
        return False
    return any(item.verdict in ("better", "worse") for item in compare(rows, ["a", "b"]))


def smallest_p(rows: list[Row]) -> float:
    """The smallest p of the metrics; 1 with too few cells for a verdict."""
    values: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        values.setdefault(row.metric, {"a": [], "b": []})[row.volume].append(row.value or 0.0)
    sides = [(value["a"], value["b"]) for value in values.values() if min(map(len, value.values())) >= RUNS_MIN]
    return min((rank_sum_p(a, b) for a, b in sides), default=1.0)


def rank_sum_p(a: list[float], b: list[float]) -> float:
    """Twice the smaller tail of the exact rank-sum test; simulated values have no ties."""
    above = sum(y > x for x in a for y in b)
    n, m = len(a), len(b)
    counts = [splits(u, n, m) for u in range(n * m + 1)]
    return min(1.0, 2 * min(sum(counts[above:]), sum(counts[: above + 1])) / sum(counts))


@cache
def splits(u: int, n: int, m: int) -> int:
    """How many orders of n and m values have exactly u pairs the one way (Mann and Whitney 1947)."""
    if u < 0:
        return 0
    if not n or not m:
        return int(u == 0)
    return splits(u - m, n - 1, m) + splits(u, n, m - 1)


def rates(scenario: Scenario, ratio: float, *, families: int, seed: int) -> dict[str, float]:
    """Share of families with a verdict on any metric, by way to judge."""
    draw = np.random.default_rng(seed)
    counts = dict.fromkeys(JUDGES, 0)
    for _ in range(families):
        rows = list(simulated(draw, scenario, ratio))
        for name, judged in JUDGES.items():
            counts[name] += decided(judged(rows))
    return {name: count / families for name, count in counts.items()}


def main() -> int:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--families", type=int, default=20_000, help="at ratio 1; a tenth of it at others")
    parser.add_argument("--ratios", type=float, nargs="+", default=RATIOS)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    print(f"{'disturbed':26}{'ratio':>6}{'families':>10}", *(f"{name:>15}" for name in JUDGES))
    for scenario in SCENARIOS:
        for ratio in args.ratios:
            families = args.families if ratio == 1 else max(1, args.families // 10)
            result = rates(scenario, ratio, families=families, seed=args.seed)
            print(
                f"{scenario.name:26}{ratio:6.1f}{families:10d}",
                *(f"{result[name]:15.2%}" for name in JUDGES),
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
