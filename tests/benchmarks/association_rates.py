"""How often "what moves with p95" names a metric that has nothing to do with p95.

    python tests/benchmarks/association_rates.py [FAMILIES]

Each family is one step: cells of independent series, one of them p95, twenty of them metrics, all drawn from the
same noise model. A family with any association is a false alarm. Ends with 1 where a row's rate is above the limit
by more than chance (99 % one-sided binomial bound). The series are our own construction; the models bracket what
samplers give: independent values, autocorrelated ones, random walks, spikes, periods.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat

import numpy as np

from volbench.results.explain.evidence.association import FALSE_DISCOVERIES, cell_correlations, pooled
from volbench.results.stats.grid import Grid
from volbench.results.store.series import SeriesKey

P95 = SeriesKey(source="client", metric="latency_ms_p95")
METRICS = 20
SHAPES = ((1, 30), (1, 120), (3, 15), (5, 9), (5, 15), (5, 60), (10, 15))
"""Cells, and samples of each."""
_Z_99 = 2.326
Noise = Callable[[np.random.Generator, int], np.ndarray]


def autocorrelated(phi: float) -> Noise:
    """AR(1) with this coefficient; 1 is a random walk."""

    def draw(random: np.random.Generator, size: int) -> np.ndarray:
        values = random.normal(size=size)
        for index in range(1, size):
            values[index] += phi * values[index - 1]
        return values

    return draw


def spikes(random: np.random.Generator, size: int) -> np.ndarray:
    """Rare large values over small noise."""
    return np.where(random.random(size) < 0.15, random.exponential(10, size), 0) + random.normal(0, 0.1, size)


def periodic(random: np.random.Generator, size: int) -> np.ndarray:
    """A period of its own and noise."""
    phase = np.arange(size) / random.uniform(2, 6) + random.uniform(0, 6)
    return np.sin(phase) + random.normal(0, 0.5, size)


MODELS: dict[str, Noise] = {
    "independent": autocorrelated(0.0),
    "AR(1) 0.5": autocorrelated(0.5),
    "AR(1) 0.9": autocorrelated(0.9),
    "random walk": autocorrelated(1.0),
    "spikes": spikes,
    "periodic": periodic,
}


def false_alarms(model: str, cells: int, size: int, families: int) -> int:
    """Families in which any of the metrics is associated with p95."""
    noise, count = MODELS[model], 0
    for family in range(families):
        random = np.random.default_rng([family, cells, size])
        grids = []
        for _ in range(cells):
            keys = [P95, *(SeriesKey(source="noise", metric=f"m{n}") for n in range(METRICS))]
            columns = {key: noise(random, size) for key in keys}
            grids.append(Grid(t_s=np.arange(1.0, size + 1), width_s=1.0, columns=columns))
        count += any(row.holds for row in pooled([cell_correlations(grid, P95) for grid in grids]))
    return count


def main() -> int:
    """Print a row for each model and shape."""
    families = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    limit = FALSE_DISCOVERIES + _Z_99 * math.sqrt(FALSE_DISCOVERIES * (1 - FALSE_DISCOVERIES) / families)
    failed = False
    cases = [(name, cells, size) for name in MODELS for cells, size in SHAPES]
    with ProcessPoolExecutor() as pool:
        alarms = pool.map(false_alarms, *zip(*cases, strict=True), repeat(families))
        for (name, cells, size), count in zip(cases, alarms, strict=True):
            failed |= count / families > limit
            sys.stdout.write(f"{name}, {cells} cells of {size}: {count / families:.1%} (limit {limit:.1%})\n")
            sys.stdout.flush()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
