"""How often the history names a change of level where there is none, and how soon it names one that is there.

    python tests/benchmarks/change_points.py [HISTORIES]

The first table is of stable histories of 10, 30 and 100 runs under several noise models: the share with any
change point, and after 100 runs looked at one by one, the share that was ever called a regression. The second is
of histories whose level falls by 10 %, 20 % or 30 % with 5 % noise between runs: the share that is named within
3, 5 and 10 runs. Ends with 1 where a model of independent runs has more than ALPHA by more than chance (99.9 %
one-sided binomial bound), or power misses its limit. All series are our own construction; that p-values do not
depend on the distribution is what a permutation test promises.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "runner"))

from volbench.results.site.change_points import ALPHA, change_points
from volbench.results.site.history import MARGIN, RECENT_RUNS

HISTORIES = 1000
LOOKS = 100
NOISE = 0.05
POWER_MIN = {(0.7, 5): 0.9, (0.8, 10): 0.9}
_Z_999 = 3.09
Noise = Callable[[np.random.Generator, int], np.ndarray]


def autocorrelated(phi: float) -> Noise:
    """AR(1) with this coefficient, of unit variance."""

    def draw(random: np.random.Generator, size: int) -> np.ndarray:
        values = random.normal(size=size)
        for index in range(1, size):
            values[index] = phi * values[index - 1] + math.sqrt(1 - phi**2) * values[index]
        return values

    return draw


def spikes(random: np.random.Generator, size: int) -> np.ndarray:
    """One run of ten is odd by ten standard deviations."""
    return random.normal(size=size) + 10 * (random.random(size) < 0.1)


def two_levels(random: np.random.Generator, size: int) -> np.ndarray:
    """Each run is on one of two levels by chance: two kinds of hosts."""
    return random.normal(0, 0.3, size) + 3 * (random.random(size) < 0.5)


INDEPENDENT: dict[str, Noise] = {
    "normal": autocorrelated(0.0),
    "heavy tails (t, 2 degrees)": lambda random, size: random.standard_t(2, size),
    "skewed (lognormal)": lambda random, size: random.lognormal(0, 1, size),
    "one odd run of ten": spikes,
    "two kinds of hosts": two_levels,
}
DRIFTING: dict[str, Noise] = {f"autocorrelation {phi}": autocorrelated(phi) for phi in (0.2, 0.5, 0.8)}


def values(noise: Noise, random: np.random.Generator, size: int) -> list[float]:
    """A history around 100."""
    return [100 * math.exp(NOISE * value) for value in np.clip(noise(random, size), -40, 40)]


def regression_ever(history: list[float]) -> bool:
    """Whether any of the looks after each run calls the last level a worse one (lower), within the recent runs."""
    for runs in range(10, len(history) + 1):
        changes = [
            change_point
            for change_point in change_points(history[:runs])
            if abs(change_point.after / change_point.before - 1) >= MARGIN
        ]
        if changes and changes[-1].after < changes[-1].before and runs - changes[-1].index <= RECENT_RUNS:
            return True
    return False


def main() -> int:
    """Print both tables; 1 where a limit is missed."""
    histories = int(sys.argv[1]) if len(sys.argv) > 1 else HISTORIES
    sequential = max(20, histories // 20)
    limit = ALPHA + _Z_999 * math.sqrt(ALPHA * (1 - ALPHA) / histories)
    failed = False
    print(f"{histories} stable histories a figure, limit {limit:.1%}; {sequential} looked at {LOOKS} times")
    print(f"| noise | 10 runs | 30 runs | 100 runs | a regression, ever, in {LOOKS} runs |")
    print("|---|--:|--:|--:|--:|")
    names = [*INDEPENDENT, *DRIFTING]
    with ProcessPoolExecutor() as pool:
        rows = list(pool.map(_stable, names, repeat(histories), repeat(sequential)))
    for name, (shares, ever) in zip(names, rows, strict=True):
        missed = name in INDEPENDENT and max(shares) > limit
        failed |= missed
        cells = " | ".join(f"{share:.1%}" for share in (*shares, ever))
        print(f"| {name} | {cells} |{' MISSED' if missed else ''}", flush=True)
    return int(_power(max(50, histories // 5)) or failed)


def _stable(name: str, histories: int, sequential: int) -> tuple[list[float], float]:
    """Shares of stable histories of 10, 30 and 100 runs with a change, and of those ever called a regression."""
    noise = {**INDEPENDENT, **DRIFTING}[name]
    shares = []
    for size in (10, 30, 100):
        random = np.random.default_rng([size, len(name)])
        alarms = sum(bool(change_points(values(noise, random, size))) for _ in range(histories))
        shares.append(alarms / histories)
    random = np.random.default_rng([LOOKS, len(name)])
    ever = sum(regression_ever(values(noise, random, LOOKS)) for _ in range(sequential)) / sequential
    return shares, ever


def _power(histories: int) -> bool:
    print(f"\n{histories} histories of 30 stable runs, then a lower level, {NOISE:.0%} noise between runs")
    print("| new level | named within 3 runs | 5 runs | 10 runs |")
    print("|---|--:|--:|--:|")
    failed = False
    for level in (0.9, 0.8, 0.7):
        shares = {}
        for later in (3, 5, 10):
            random = np.random.default_rng([later, round(100 * level)])
            named = 0
            for _ in range(histories):
                history = values(autocorrelated(0.0), random, 30 + later)
                history[30:] = [value * level for value in history[30:]]
                named += any(abs(change.index - 30) <= 2 for change in change_points(history))
            shares[later] = named / histories
        missed = any(share < POWER_MIN.get((level, later), 0) for later, share in shares.items())
        failed |= missed
        cells = " | ".join(f"{share:.0%}" for share in shares.values())
        print(f"| {level - 1:+.0%} | {cells} |{' MISSED' if missed else ''}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
