"""How often verdicts are wrong, and how often they are found: simulated cells of simulated seconds.

A cell has an offset of its own (standard deviation 3 .. 8 %), which all of its seconds share, and seconds that
hang together (first-order autoregressive, 0.9). Of each cell come three metrics as a run gives them: tps, and two
latencies that go against it and have offsets of their own.

    python tests/benchmarks/verdict_rates.py [--families 2000] [--seed 1]

Exit code 1 when equal volumes are told apart in more than 5 %, a difference on the margin is called equivalent in
more than 2.5 % (each allowing for three standard errors), or a difference of 20 % at 5 % of offset is found in less
than 90 %.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from volbench.results.compare.comparison import Comparison, compare
from volbench.results.compare.comparison_summary import summarise
from volbench.results.compare.row import Row
from volbench.results.stats.sample_size import runs_needed
from volbench.results.stats.statistics import Better

SECONDS = 300
AUTOCORRELATION = 0.9
SECOND_SPREAD = 0.05  # standard deviation of one second, as a fraction
FALSE_MAX, FALSE_EQUIVALENCE_MAX = 0.05, 0.025
POWER_MIN = 0.9
"""Of 5 against 5 cells or more at 5 % of offset or less, where the true difference is 20 %."""
OWN_OFFSET = 0.7  # share of a latency's offset that tps does not explain
METRICS: tuple[tuple[str, str, Better], ...] = (
    ("tps", "1/s", "higher"),
    ("latency_ms_p95", "ms", "lower"),
    ("latency_ms_p99", "ms", "lower"),
)


@dataclass(frozen=True, kw_only=True)
class Rates:
    """Shares of simulated families."""

    families: int
    raw: float
    """some metric has p < 5 % without correction"""
    adjusted: float
    """some metric has p < 5 % after Holm's correction"""
    verdict: float
    """some metric is better or worse"""
    better: float
    """the candidate is better (as the summary of the pair says)"""
    equivalent: float
    """comparisons, not families, that are equivalent"""
    runs_needed: float
    """median proposal of the comparisons that are open; NaN without any"""


def simulated_seconds(generator: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Log deviations of each second from the cell's own level, shape (*shape, SECONDS)."""
    shocks = generator.normal(0, SECOND_SPREAD, (*shape, SECONDS))
    seconds = np.empty_like(shocks)
    seconds[..., 0] = shocks[..., 0]
    for t in range(1, SECONDS):
        seconds[..., t] = AUTOCORRELATION * seconds[..., t - 1] + math.sqrt(1 - AUTOCORRELATION**2) * shocks[..., t]
    return seconds


def simulated_cells(
    generator: np.random.Generator, families: int, runs: int, *, offset: float, ratio: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Metrics of cells, shape (families, 2 volumes, runs, 3 metrics), and log tps of their seconds.

    `ratio` is how many times the candidate's tps is the baseline's; its latencies are divided by it.
    """
    effect = np.array([0.0, math.log(ratio)])[None, :, None]
    level = generator.normal(0, offset, (families, 2, runs)) + effect
    own = generator.normal(0, offset * OWN_OFFSET, (families, 2, runs, 2))
    seconds = level[..., None] + simulated_seconds(generator, (families, 2, runs))
    tps = 1000 * np.exp(seconds).mean(axis=-1)
    # Two latencies that move against tps, each with an offset of its own, p99 the noisier one.
    latencies = np.array([8.0, 20.0]) * (1000 / tps[..., None]) * np.exp(own * np.array([1.0, 1.5]))
    return np.concatenate([tps[..., None], latencies], axis=-1), seconds


def compared(cells: NDArray[np.float64], metrics: int) -> list[Comparison]:
    """The comparisons of one family; `cells` has shape (2, runs, 3)."""
    rows = [
        Row(
            step="oltp",
            parameters={},
            metric=name,
            unit=unit,
            better=better,
            volume="ab"[volume],
            cell=f"{volume}-{run:02}",
            block=run,
            value=float(cells[volume, run, column]),
        )
        for column, (name, unit, better) in enumerate(METRICS[:metrics])
        for volume in (0, 1)
        for run in range(cells.shape[1])
    ]
    return compare(rows, ["a", "b"])


def rates(*, families: int, runs: int, offset: float, ratio: float, metrics: int = 3, seed: int = 1) -> Rates:
    """Simulates families of `metrics` comparisons, `runs` against `runs` cells."""
    cells, _ = simulated_cells(np.random.default_rng(seed), families, runs, offset=offset, ratio=ratio)
    results = [compared(family, metrics) for family in cells]
    proposals = [c.runs_needed for family in results for c in family if c.runs_needed is not None]

    def share(of: list[bool]) -> float:
        return sum(of) / len(of)

    return Rates(
        families=families,
        raw=share([any(_known_process(c.p_value) < 0.05 for c in family) for family in results]),
        adjusted=share([any(_known_process(c.p_adjusted) < 0.05 for c in family) for family in results]),
        verdict=share([any(c.verdict in ("better", "worse") for c in family) for family in results]),
        better=share([summarise(family)[0].verdict == "candidate_better" for family in results]),
        equivalent=share([c.verdict == "equivalent" for family in results for c in family]),
        runs_needed=float(np.median(proposals)) if proposals else math.nan,
    )


def alarms_of_tests_on_seconds(*, families: int, runs: int, offset: float, seed: int = 1) -> float:
    """The share of A/A pairs that Mann-Whitney calls different when seconds are taken for replicates."""
    _, seconds = simulated_cells(np.random.default_rng(seed), families, runs, offset=offset, ratio=1.0)
    pooled = seconds.reshape(families, -1)
    half = pooled.shape[1] // 2
    ranks = pooled.argsort(axis=1).argsort(axis=1) + 1.0
    sums = ranks[:, :half].sum(axis=1)
    mean, variance = half * (2 * half + 1) / 2, half * half * (2 * half + 1) / 12
    limit = NormalDist().inv_cdf(0.975)
    return float(np.mean(np.abs(sums - mean) / math.sqrt(variance) > limit))


def proposal(*, runs: int, offset: float, ratio: float, pilots: int = 300, seed: int = 1) -> int | None:
    """The median of `runs_needed` over simulated pilot comparisons of tps; None when most have no proposal."""
    cells, _ = simulated_cells(np.random.default_rng(seed), pilots, runs, offset=offset, ratio=ratio)
    proposals = [runs_needed(*family[..., 0].tolist()) for family in cells]
    median = float(np.median([math.inf if n is None else n for n in proposals]))
    return None if math.isinf(median) else math.ceil(median)


def faults(result: Rates, *, ratio: float, offset: float, runs: int) -> Iterator[str]:
    """What is beyond its limit."""
    name = f"{ratio - 1:.0%}, offset {offset:.1%}, {runs} v {runs}"

    def most(limit: float) -> float:
        return limit + 3 * math.sqrt(limit * (1 - limit) / result.families)

    if ratio == 1 and result.verdict > most(FALSE_MAX):
        yield f"{name}: {result.verdict:.1%} of equal volumes are told apart, limit {FALSE_MAX:.0%}"
    if ratio == 1.05 and result.equivalent > most(FALSE_EQUIVALENCE_MAX):
        yield f"{name}: {result.equivalent:.1%} are called equivalent, limit {FALSE_EQUIVALENCE_MAX:.1%}"
    if ratio == 1.2 and offset <= 0.05 and runs >= 5 and result.better < POWER_MIN:
        yield f"{name}: {result.better:.1%} are found, at least {POWER_MIN:.0%} should be"


_Case = tuple[float, float, int, int]
"""Ratio, offset, runs, metrics."""


def _rates_of(families: int, seed: int, case: _Case) -> Rates:
    ratio, offset, runs, metrics = case
    return rates(families=families, runs=runs, offset=offset, ratio=ratio, metrics=metrics, seed=seed)


def print_rates(pool: ProcessPoolExecutor, families: int, seed: int) -> list[str]:
    """Prints error rates and power; returns what is beyond its limit."""
    failed: list[str] = []
    head = "  true offset  runs metrics |  p raw p Holm verdict better equiv. needed"
    offsets, small = (0.03, 0.05, 0.08), (0.005, 0.02)
    sides = ((4, 1), (4, 3), (5, 3), (8, 3))
    for title, cases in (
        ("A/A: false alarms", [(1.0, o, n, k) for o in offsets for n, k in sides]),
        ("A/B: power", [(r, o, n, k) for r in (1.1, 1.2) for o in offsets for n, k in sides]),
        ("On the margin: false equivalence", [(1.05, o, n, 1) for o in small for n in (4, 5, 8, 12)]),
        ("Equal: equivalence found", [(1.0, o, n, 1) for o in small for n in (4, 5, 8, 12)]),
    ):
        sys.stdout.write(f"\n{title}\n{head}\n")
        simulated = pool.map(partial(_rates_of, families, seed), cases)
        for (ratio, offset, runs, metrics), r in zip(cases, simulated, strict=True):
            sys.stdout.write(
                f"{ratio - 1:6.0%} {offset:6.1%} {runs:2}v{runs:<2} {metrics:7} | {r.raw:6.1%} {r.adjusted:6.1%} "
                f"{r.verdict:7.1%} {r.better:6.1%} {r.equivalent:6.1%} {r.runs_needed:6.0f}\n"
            )
            sys.stdout.flush()
            failed += faults(r, ratio=ratio, offset=offset, runs=runs)
    return failed


def print_proposals(families: int, seed: int) -> None:
    """Prints how often the proposed number of runs does decide."""
    sys.stdout.write("\nRuns proposed after 5 against 5, and how often that many decide (one metric)\n")
    for ratio, offset in ((1.1, 0.03), (1.1, 0.05), (1.2, 0.05), (1.2, 0.08), (1.0, 0.01), (1.0, 0.03)):
        runs = proposal(runs=5, offset=offset, ratio=ratio, seed=seed)
        sys.stdout.write(f"{ratio - 1:6.0%} {offset:6.1%} ")
        if runs is None:
            sys.stdout.write("no proposal\n")
            continue
        r = rates(families=families, runs=runs, offset=offset, ratio=ratio, metrics=1, seed=seed + 1)
        sys.stdout.write(f"{runs:3} runs: {r.verdict + r.equivalent:.1%}\n")
        sys.stdout.flush()


def main() -> int:
    """Prints all tables; returns 1 when a limit is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--families", type=int, default=2000, help="simulated families for each row")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with ProcessPoolExecutor() as pool:
        failed = print_rates(pool, options.families, options.seed)
    print_proposals(min(options.families, 500), options.seed)
    sys.stdout.write("\nMann-Whitney on seconds, A/A: false alarms\n")
    for offset in (0.0, 0.03, 0.08):
        share = alarms_of_tests_on_seconds(families=options.families, runs=5, offset=offset, seed=options.seed)
        sys.stdout.write(f"offset {offset:.0%}: {share:.1%}\n")
    for text in failed:
        sys.stdout.write(f"FAILED {text}\n")
    return 1 if failed else 0


def _known_process(p_value: float | None) -> float:
    if p_value is None:
        raise AssertionError("simulated runs always have a p-value")
    return p_value


if __name__ == "__main__":
    sys.exit(main())
