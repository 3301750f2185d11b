"""Many runs at once whose cells other work slows down: the adjusted tests of a look, written a second time."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from simulated_looks import FREEDOM, Noise, critical_values, normal, told_apart

from volbench.results.stats.covariates import FREEDOM_MIN, SLOPE_MAX, VARIES_MIN
from volbench.results.stats.means import LEAST_DEVIATION
from volbench.results.stats.sequential import CELLS_MAX, CELLS_MIN, look_level
from volbench.results.stats.statistics import SPREAD_RATIO_MAX, WELCH_FACTOR

REGULAR_MIN = 1e-9
"""Below this share of its diagonal's product, a determinant is what rounding makes it; so is a deviation below this
share of its root mean square."""
Floats = NDArray[np.float64]
Pair = tuple[Floats, Floats]
SlopeRule = Literal["free", "clipped", "narrowed", "refused"]
"""What becomes of a slope by which other work speeds a volume up. It stays; it is none, with the larger error of
the fits with it and without it; it is none, with the error of the fit without it; or the plain test is made."""


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
        spread, noise: standard deviation and shape of the cells' own noise.
        shared: standard deviation of what both cells of a block have in common.
    """

    name: str
    shares: str
    slopes: tuple[float, float] = (1.0, 1.0)
    step: float = 0.0
    error: float = 0.0
    spread: float = 0.05
    noise: Noise = normal
    shared: float = 0.0


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
            logs.append(work.spread * work.noise(draw, shape) - work.slopes[side] * np.log1p(demand))
            measured.append(counted / (1 + counted))
            continue
        elif work.shares == "blocks":
            shares = np.clip(together + draw.normal(0, 0.02, shape), 0, 0.9)
        else:
            shares = np.where(draw.random(shape) < 0.5, draw.uniform(0.05, 0.4, shape), 0.0)
        effect = -work.step * (shares > 0.2) if work.step else work.slopes[side] * np.log(1 - shares)
        logs.append(work.spread * work.noise(draw, shape) + effect)
        measured.append(np.clip(shares + work.error * draw.normal(0, 1, shape), 0, 0.95))
    common = work.shared * draw.normal(0, 1, shape) if work.shared else np.zeros(shape)
    return (logs[0] + common, logs[1] + common), (measured[0], measured[1])


def _wandering(draw: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """A series of deviation 1 whose neighbours correlate by 0.7, in each row."""
    steps = draw.normal(0, 1, shape)
    series = np.empty(shape)
    series[:, 0] = steps[:, 0]
    for block in range(1, shape[1]):
        series[:, block] = 0.7 * series[:, block - 1] + math.sqrt(1 - 0.7**2) * steps[:, block]
    return series


def decided_with_work(
    logs: Pair, shares: Pair, *, margin: float = 0.0, at_mean: bool = False, rule: SlopeRule = "clipped"
) -> NDArray[np.int64]:
    """Cells of each volume at the look that tells the volumes apart, shape (runs,); 0 where none does."""
    result = np.zeros(len(logs[0]), dtype=np.int64)
    for n in range(CELLS_MIN, CELLS_MAX + 1):
        so_far, used = ((side[0][:, :n], side[1][:, :n]) for side in (logs, shares))
        named = apart_with_work(so_far, used, level=look_level(n), margin=margin, at_mean=at_mean, rule=rule)
        result[named & (result == 0)] = n
    return result


def estimated_with_work(logs: Pair, shares: Pair, *, at_mean: bool, rule: SlopeRule) -> Floats:
    """Change of the volumes' fitted logs, or of their means where there is no adjustment, shape (runs,)."""
    fits, usable, _ = _fits(logs, shares, at_mean=at_mean, rule=rule)
    changes: Floats = np.where(usable, fits[1].level - fits[0].level, (logs[1] - logs[0]).mean(axis=1))
    return changes


def apart_with_work(
    logs: Pair,
    shares: Pair,
    *,
    level: float,
    margin: float = 0.0,
    at_mean: bool = False,
    rule: SlopeRule = "clipped",
) -> NDArray[np.bool_]:
    """Whether one comparison, adjusted where shares vary, has its smaller p below `level`, shape (runs,).

    At the least share, or at the mean of what is left.
    """
    n = logs[0].shape[1]
    plain = told_apart(logs[0], logs[1], level=level, margin=margin)
    if n - 1 - FREEDOM_MIN < 1:
        few: NDArray[np.bool_] = plain & ~_varying(shares)
        return few
    (first, second), usable, left = _fits(logs, shares, at_mean=at_mean, rule=rule)
    change, variance = second.level - first.level, first.error**2 + second.error**2
    freedom = variance**2 / (first.error**4 / first.freedom + second.error**4 / second.freedom)
    large, small = (pick(first.deviation, second.deviation) for pick in (np.maximum, np.minimum))
    unequal = large / small > SPREAD_RATIO_MAX
    paired = _paired(logs, left, rule)
    differences, room = (logs[1] - logs[0]).mean(axis=1), [SLOPE_MAX * np.abs(u).mean(axis=1) for u in left]
    welch_holds, paired_holds = (
        (differences - room[0] - LEAST_DEVIATION <= each) & (each <= differences + room[1] + LEAST_DEVIATION)
        for each in (change, paired.level)
    )
    paired_holds &= paired.freedom >= FREEDOM_MIN
    usable = usable & (welch_holds | paired_holds)
    named = np.zeros(len(plain), dtype=np.bool_)
    for factor, rows in ((1, ~unequal), (WELCH_FACTOR, unequal)):
        critical = critical_values(level / factor)
        result = welch_holds & (np.abs(change) > np.sqrt(variance) * np.interp(freedom, FREEDOM, critical))
        result |= paired_holds & (
            np.abs(paired.level) > paired.error * np.interp(paired.freedom, FREEDOM, critical)
        )
        named |= rows & result
    decided: NDArray[np.bool_] = np.where(usable, named & (np.abs(change) > math.log1p(margin)), plain)
    return decided


@dataclass(frozen=True, kw_only=True)
class _Fits:
    """Of many fits: levels at u = 0, their errors and degrees of freedom, residual deviations; wrong signs."""

    level: Floats
    error: Floats
    freedom: Floats
    deviation: Floats
    wrong: NDArray[np.bool_]


def _varying(shares: Pair) -> NDArray[np.bool_]:
    result: NDArray[np.bool_] = np.ptp(np.log(1 - np.concatenate(shares, axis=1)), axis=1) >= VARIES_MIN
    return result


def _fits(
    logs: Pair, shares: Pair, *, at_mean: bool, rule: SlopeRule
) -> tuple[list[_Fits], NDArray[np.bool_], list[Floats]]:
    """Both volumes' fits, where they are used, and u of each cell: by how much the log of what was left is below.

    Below the largest, or the mean; other work that slows a volume down makes the slopes of its logs on u negative.
    """
    logs_left = [np.log(1 - side) for side in shares]
    most = np.maximum(logs_left[0].max(axis=1), logs_left[1].max(axis=1))
    left = [most[:, None] - side for side in logs_left]
    if at_mean:
        middle = np.concatenate(left, axis=1).mean(axis=1)
        left = [side - middle[:, None] for side in left]
    fits, usable = [], _varying(shares)
    for log, u, log_left in zip(logs, left, logs_left, strict=True):
        steady = np.ptp(u, axis=1) < VARIES_MIN
        usable = usable & ~(steady & ((most - log_left.min(axis=1)) > VARIES_MIN))
        fits.append(_fitted(log, u, steady, rule))
    if rule == "refused":
        usable = usable & ~fits[0].wrong & ~fits[1].wrong
    return fits, usable, left


def _fitted(log: Floats, u: Floats, steady: NDArray[np.bool_], rule: SlopeRule) -> _Fits:
    n = log.shape[1]
    free = _line(log, u, steady)
    without = log.std(axis=1, ddof=1)
    if rule == "clipped":
        return replace(
            free,
            level=np.where(free.wrong, log.mean(axis=1), free.level),
            error=np.where(free.wrong, np.maximum(free.error, without / math.sqrt(n)), free.error),
        )
    if rule == "narrowed":
        return replace(
            free,
            level=np.where(free.wrong, log.mean(axis=1), free.level),
            error=np.where(free.wrong, without / math.sqrt(n), free.error),
            freedom=np.where(free.wrong, n - 1.0, free.freedom),
            deviation=np.where(free.wrong, without, free.deviation),
        )
    return free


def _line(log: Floats, u: Floats, steady: NDArray[np.bool_]) -> _Fits:
    """A straight line of each row's logs on its u; a level alone where it is steady. A slope above 0 is wrong."""
    n = log.shape[1]
    middle, centred = u.mean(axis=1), u - u.mean(axis=1)[:, None]
    squares = np.maximum((centred**2).sum(axis=1), 1e-12)
    slope = np.where(steady, 0.0, (centred * log).sum(axis=1) / squares)
    residuals = log - log.mean(axis=1)[:, None] - slope[:, None] * centred
    freedom = np.where(steady, n - 1.0, n - 2.0)
    deviation = np.sqrt((residuals**2).sum(axis=1) / freedom)
    return _Fits(
        level=log.mean(axis=1) - slope * middle,
        error=deviation * np.sqrt(1 / n + np.where(steady, 0.0, middle**2 / squares)),
        freedom=freedom,
        deviation=deviation,
        wrong=slope > 0,
    )


def _paired(logs: Pair, left: list[Floats], rule: SlopeRule) -> _Fits:
    """The paired test, of differences fitted on both cells' shares; with too few pairs it has no freedom."""
    runs, n = logs[0].shape
    if n < 3 + FREEDOM_MIN:
        none = np.zeros(runs)
        return _Fits(level=none, error=none + 1, freedom=none, deviation=none, wrong=none > 0)
    differences, never = logs[1] - logs[0], np.zeros(runs, dtype=np.bool_)
    free = _of_both(differences, left)
    if rule in {"free", "refused"}:
        return free
    # Of the fits without a slope or two, the closest one whose slopes have the right sign. The first volume's loss
    # makes the difference larger.
    best, least = free, np.where(free.wrong, np.inf, free.deviation**2 * free.freedom)
    first = _line(-differences, left[0], never)
    for fewer in (
        replace(first, level=-first.level),
        _line(differences, left[1], never),
        _line(differences, left[1], ~never),
    ):
        squares = np.where(fewer.wrong, np.inf, fewer.deviation**2 * fewer.freedom)
        best = _where(free.wrong & (squares < least), fewer, best)
        least = np.where(free.wrong, np.minimum(squares, least), least)
    if rule == "narrowed":
        return best
    return replace(free, level=best.level, error=np.maximum(best.error, free.error))


def _where(rows: NDArray[np.bool_], first: _Fits, second: _Fits) -> _Fits:
    return _Fits(
        level=np.where(rows, first.level, second.level),
        error=np.where(rows, first.error, second.error),
        freedom=np.where(rows, first.freedom, second.freedom),
        deviation=np.where(rows, first.deviation, second.deviation),
        wrong=np.where(rows, first.wrong, second.wrong),
    )


def _of_both(differences: Floats, left: list[Floats]) -> _Fits:
    """Differences of second and first volume's logs, fitted on both volumes' u."""
    n = differences.shape[1]
    means = [u.mean(axis=1) for u in left]
    first, second = (u - mean[:, None] for u, mean in zip(left, means, strict=True))
    centred = differences - differences.mean(axis=1)[:, None]
    squares_1, squares_2, product = ((a * b).sum(axis=1) for a, b in ((first,) * 2, (second,) * 2, (first, second)))
    moment_1, moment_2 = ((u * centred).sum(axis=1) for u in (first, second))
    determinant = squares_1 * squares_2 - product**2
    singular = determinant <= REGULAR_MIN * squares_1 * squares_2
    for u, squares in zip(left, (squares_1, squares_2), strict=True):
        singular |= squares <= REGULAR_MIN**2 * (u**2).sum(axis=1)
    determinant = np.where(singular, 1.0, determinant)
    slope_1 = (squares_2 * moment_1 - product * moment_2) / determinant
    slope_2 = (squares_1 * moment_2 - product * moment_1) / determinant
    residuals = centred - slope_1[:, None] * first - slope_2[:, None] * second
    deviation = np.sqrt((residuals**2).sum(axis=1) / (n - 3))
    of_means = squares_2 * means[0] ** 2 - 2 * product * means[0] * means[1] + squares_1 * means[1] ** 2
    regular = _Fits(
        level=differences.mean(axis=1) - slope_1 * means[0] - slope_2 * means[1],
        error=deviation * np.sqrt(1 / n + of_means / determinant),
        freedom=np.full(len(differences), n - 3.0),
        deviation=deviation,
        wrong=(slope_1 < 0) | (slope_2 > 0),
    )
    return _where(singular, _by_pseudo_inverse(differences, left), regular) if singular.any() else regular


def _by_pseudo_inverse(differences: Floats, left: list[Floats]) -> _Fits:
    """The same where one u does not vary, or both vary together: the smallest of the slopes that fit alike."""
    runs, n = differences.shape
    design = np.stack([np.ones((runs, n)), *left], axis=2)
    inverse = np.linalg.pinv(np.einsum("rni,rnj->rij", design, design), hermitian=True)
    coefficients = np.einsum("rij,rnj,rn->ri", inverse, design, differences)
    residuals = differences - np.einsum("rni,ri->rn", design, coefficients)
    deviation = np.sqrt((residuals**2).sum(axis=1) / (n - 3))
    return _Fits(
        level=coefficients[:, 0],
        error=deviation * np.sqrt(inverse[:, 0, 0]),
        freedom=np.full(runs, n - 3.0),
        deviation=deviation,
        wrong=(coefficients[:, 1] < 0) | (coefficients[:, 2] > 0),
    )
