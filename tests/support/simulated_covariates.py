"""Many runs at once whose cells other work slows down: the adjusted tests of a look, written a second time."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from simulated_looks import FREEDOM, critical_values, told_apart

from volbench.results.stats.covariates import FREEDOM_MIN, SLOPE_MAX, VARIES_MIN
from volbench.results.stats.means import LEAST_DEVIATION
from volbench.results.stats.sequential import CELLS_MAX, CELLS_MIN, look_level
from volbench.results.stats.statistics import SPREAD_RATIO_MAX, WELCH_FACTOR
from volbench.results.stats.student_t import t_quantile

Floats = NDArray[np.float64]
Pair = tuple[Floats, Floats]


@dataclass(frozen=True, kw_only=True)
class OtherWork:
    """Shares of the CPUs that other work takes in the cells of two volumes, and what they do to them.

    Attributes:
        shares: `cells`: half of the cells, 5 to 40 %; `blocks`: both cells of half of the blocks; `volume`: little
            beside the first volume, much beside the second; `busy`: 10 to 50 % in all cells; `wanted`: all CPUs are
            in use, and 2 to 15 threads of others want each of them, which come and go from block to block.
        slopes: of both volumes' logs on the log of what is left.
        step: instead of that, a loss of this much where the share is above 20 %.
        error: standard deviation of the error with which a share is measured; of `wanted`, of the number of threads
            as a share of it.
    """

    name: str
    shares: str
    slopes: tuple[float, float] = (1.0, 1.0)
    step: float = 0.0
    error: float = 0.0
    spread: float = 0.05


def drawn_with_work(work: OtherWork, *, runs: int, seed: int) -> tuple[Pair, Pair]:
    """Logs and measured shares of both volumes, shape (runs, CELLS_MAX) each."""
    draw, shape = np.random.default_rng(seed), (runs, CELLS_MAX)
    logs, measured = [], []
    threads = np.exp(np.log(5) + 0.5 * _wandering(draw, shape))
    together = np.where(draw.random(shape) < 0.5, draw.uniform(0.05, 0.4, shape), 0.0)
    for side in (0, 1):
        if work.shares == "volume":
            shares = draw.uniform(0.0, 0.08, shape) if side == 0 else draw.uniform(0.02, 0.4, shape)
        elif work.shares == "busy":
            shares = draw.uniform(0.1, 0.5, shape)
        elif work.shares == "wanted":
            demand = np.clip(threads * np.exp(0.2 * draw.normal(0, 1, shape)), 2, 15)
            counted = np.clip(demand * (1 + work.error * draw.normal(0, 1, shape)), 0.1, 40)
            logs.append(work.spread * draw.normal(0, 1, shape) - work.slopes[side] * np.log1p(demand))
            measured.append(counted / (1 + counted))
            continue
        elif work.shares == "blocks":
            shares = np.clip(together + draw.normal(0, 0.02, shape), 0, 0.9)
        else:
            shares = np.where(draw.random(shape) < 0.5, draw.uniform(0.05, 0.4, shape), 0.0)
        effect = -work.step * (shares > 0.2) if work.step else work.slopes[side] * np.log(1 - shares)
        logs.append(work.spread * draw.normal(0, 1, shape) + effect)
        measured.append(np.clip(shares + work.error * draw.normal(0, 1, shape), 0, 0.95))
    return (logs[0], logs[1]), (measured[0], measured[1])


def _wandering(draw: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """A series of deviation 1 whose neighbours correlate by 0.7, in each row."""
    steps = draw.normal(0, 1, shape)
    series = np.empty(shape)
    series[:, 0] = steps[:, 0]
    for block in range(1, shape[1]):
        series[:, block] = 0.7 * series[:, block - 1] + math.sqrt(1 - 0.7**2) * steps[:, block]
    return series


def decided_with_work(logs: Pair, shares: Pair, *, margin: float = 0.0, at_mean: bool = False) -> NDArray[np.int64]:
    """Cells of each volume at the look that tells the volumes apart, shape (runs,); 0 where none does."""
    result = np.zeros(len(logs[0]), dtype=np.int64)
    for n in range(CELLS_MIN, CELLS_MAX + 1):
        so_far, used = ((side[0][:, :n], side[1][:, :n]) for side in (logs, shares))
        named = apart_with_work(so_far, used, level=look_level(n), margin=margin, at_mean=at_mean)
        result[named & (result == 0)] = n
    return result


def apart_with_work(
    logs: Pair, shares: Pair, *, level: float, margin: float = 0.0, at_mean: bool = False
) -> NDArray[np.bool_]:
    """Whether one comparison, adjusted where shares vary, has its smaller p below `level`, shape (runs,).

    At the least share, or at the mean of what is left.
    """
    n = logs[0].shape[1]
    plain = told_apart(logs[0], logs[1], level=level, margin=margin)
    logs_left = [np.log(1 - side) for side in shares]
    varying = np.ptp(np.concatenate(logs_left, axis=1), axis=1) >= VARIES_MIN
    if n - 1 - FREEDOM_MIN < 1:
        few: NDArray[np.bool_] = plain & ~varying
        return few
    most = np.maximum(logs_left[0].max(axis=1), logs_left[1].max(axis=1))
    left = [most[:, None] - side for side in logs_left]
    if at_mean:
        middle = np.concatenate(left, axis=1).mean(axis=1)
        left = [side - middle[:, None] for side in left]
    fits, usable = [], varying
    for log, u, log_left in zip(logs, left, logs_left, strict=True):
        steady = np.ptp(u, axis=1) < VARIES_MIN
        usable = usable & ~(steady & ((most - log_left.min(axis=1)) > VARIES_MIN))
        fits.append(_fitted(log, u, steady))
    (level_a, error_a, freedom_a, sd_a), (level_b, error_b, freedom_b, sd_b) = fits
    change, variance = level_b - level_a, error_a**2 + error_b**2
    freedom = variance**2 / (error_a**4 / freedom_a + error_b**4 / freedom_b)
    unequal = np.maximum(sd_a, sd_b) / np.minimum(sd_a, sd_b) > SPREAD_RATIO_MAX
    paired_t, paired_change, pairs_freedom = _paired(logs, left)
    differences, room = (logs[1] - logs[0]).mean(axis=1), [SLOPE_MAX * np.abs(u).mean(axis=1) for u in left]
    welch_holds, paired_holds = (
        (differences - room[0] - LEAST_DEVIATION <= each) & (each <= differences + room[1] + LEAST_DEVIATION)
        for each in (change, paired_change)
    )
    usable = usable & (welch_holds | (paired_holds & (pairs_freedom >= FREEDOM_MIN)))
    named = np.zeros(len(plain), dtype=np.bool_)
    for factor, rows in ((1, ~unequal), (WELCH_FACTOR, unequal)):
        welch = np.abs(change) / np.sqrt(variance)
        result = welch_holds & (welch > np.interp(freedom, FREEDOM, critical_values(level / factor)))
        if pairs_freedom >= FREEDOM_MIN:
            result |= paired_holds & (paired_t > t_quantile(1 - level / factor / 2, pairs_freedom))
        named |= rows & result
    decided: NDArray[np.bool_] = np.where(usable, named & (np.abs(change) > math.log1p(margin)), plain)
    return decided


def _fitted(log: Floats, u: Floats, steady: NDArray[np.bool_]) -> tuple[Floats, Floats, Floats, Floats]:
    """Level at u = 0, its standard error, the degrees of freedom, and the residual deviation."""
    n = log.shape[1]
    middle, centred = u.mean(axis=1), u - u.mean(axis=1)[:, None]
    squares = np.maximum((centred**2).sum(axis=1), 1e-12)
    slope = np.where(steady, 0.0, (centred * log).sum(axis=1) / squares)
    residuals = log - log.mean(axis=1)[:, None] - slope[:, None] * centred
    freedom = np.where(steady, n - 1.0, n - 2.0)
    deviation = np.sqrt((residuals**2).sum(axis=1) / freedom)
    error = deviation * np.sqrt(1 / n + np.where(steady, 0.0, middle**2 / squares))
    return log.mean(axis=1) - slope * middle, error, freedom, deviation


def _paired(logs: Pair, left: list[Floats]) -> tuple[Floats, Floats, int]:
    """|t| and change of the paired test, of differences fitted on both cells' shares; 0 with too few pairs."""
    runs, n = logs[0].shape
    if n < 3 + FREEDOM_MIN:
        return np.zeros(runs), np.zeros(runs), 0
    design = np.stack([np.ones((runs, n)), left[0], left[1]], axis=2)
    differences = logs[1] - logs[0]
    inverse = np.linalg.pinv(np.einsum("rni,rnj->rij", design, design), hermitian=True)
    coefficients = np.einsum("rij,rnj,rn->ri", inverse, design, differences)
    residuals = differences - np.einsum("rni,ri->rn", design, coefficients)
    error = np.sqrt((residuals**2).sum(axis=1) / (n - 3) * inverse[:, 0, 0])
    return np.abs(coefficients[:, 0]) / error, coefficients[:, 0], n - 3
