"""Comparison of means where other work took a share of the CPUs or of the device: adjusted for those shares.

Of each volume the logs of its cells are fitted by least squares on u = log(1 - share), the log of what other work
left, with a slope of the volume's own: a slope of 1 is a throughput in proportion to what is left, 0 one that other
work does not touch. What is compared are the fitted values at the least share of any cell, and of what others
*wanted* of busy CPUs those at the mean, so that nothing is extrapolated beyond what was seen. The error of a
fitted value includes that of the slope, and the degrees of freedom are those that the slopes leave, so the tests
hold where a share goes with a volume: they then say little, not the wrong thing. Which shares are adjusted for
depends on the shares alone, never on the values.

A volume whose shares hardly vary has no slope. It needs none where they are near the least share; else nothing
tells the other work from the volume, and there is no adjustment.

Other work makes nothing faster. A slope that says so is chance, or something that moved with that work: it is taken
for none, and the other slopes are those of the closest fit without it. The error stays that of the fit with all
slopes, or is that of the fit without it where that is larger: `tests/benchmarks/slope_signs.py` counts what this
does to errors, power and figures.

Source: analysis of covariance with separate slopes, Milliken and Johnson, Analysis of Messy Data III, chapter 2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from volbench.core.base.text import counted
from volbench.results.stats.linear import Estimate, LinearModel, closest_signed
from volbench.results.stats.means import LEAST_DEVIATION, Pairs, mean_shift, shift_of_logs
from volbench.results.stats.statistics import SPREAD_RATIO_MAX, WELCH_FACTOR, Better, Shift
from volbench.results.stats.t_tests import TTest, smallest

LABELS = {
    "cpu_taken": "the CPU use of other work",
    "cpu_wanted": "the threads of other work that waited for the CPUs",
    "io_taken": "the I/O of other work",
}
"""Of covariates, in sentences."""
WHY_UNKNOWN = {
    "cpu_taken": ": all CPUs were in use, or it was not sampled",
    "cpu_wanted": ": it was not sampled",
    "io_taken": ": it was not sampled",
}
CPU_WANTED = "cpu_wanted"
CPU = ("cpu_taken", CPU_WANTED)
"""What other work took of the CPUs, and what it wanted of them: the first one that is known in all cells counts."""
VARIES_MIN = 0.03
"""Where the logs of what is left differ by less, a share explains no more than cells scatter by anyway."""
FREEDOM_MIN = 2
"""Degrees of freedom that a volume's cells must have left."""
SHARE_MAX = 0.99
SLOPE_SIGNS: Mapping[Better, int] = {"higher": 1, "lower": -1, "none": 0}
"""Of logs on u: other work makes throughputs lower and latencies higher; 0: it may be either."""
SLOPE_MAX = 3.0
"""With too few cells to estimate a slope it is taken to be no steeper: a load loses the cube of what is left."""
DIFFER_T = 3.0
"""Slopes of two volumes differ where they lie apart by so many standard errors."""
TOLERANCE_ERRORS = 2.0
"""An adjustment may pass its bound by so many standard errors of its slope."""

Floats = NDArray[np.float64]
Shares = Mapping[str, float]
"""Of one cell: the share that other work took, by covariate; absent: not known."""
Bounds = tuple[float, float] | None
"""Of one cell: where its value lies without the other work; None: it is not known to be disturbed."""


@dataclass(frozen=True, kw_only=True)
class Covaried:
    """One volume's cells, at least one: positive values, the shares of each, and the bounds of disturbed ones."""

    values: Sequence[float]
    shares: Sequence[Shares]
    bounds: Sequence[Bounds]


@dataclass(frozen=True, kw_only=True)
class Adjustment:
    """What a comparison is adjusted for: shares from `low` to `high`; `slopes` of both volumes' logs on u.

    A slope is None where a volume's shares hardly vary, and 0 where the cells with more other work were the better
    ones. `differ`: the two slopes lie apart by more than chance.
    """

    covariate: str
    low: float
    high: float
    slopes: tuple[float | None, float | None]
    differ: bool


@dataclass(frozen=True, kw_only=True)
class Adjusted:
    """The adjusted shift, with what it is adjusted for; or why there is none."""

    shift: Shift | None = None
    adjustments: tuple[Adjustment, ...] = ()
    why_not: str = ""
    too_few: bool = False
    """More cells would allow an adjustment."""
    explains: float = 0.0
    """A change of the logs up to this much could be other work's, with slopes up to SLOPE_MAX."""


@dataclass(frozen=True, kw_only=True)
class _Fit:
    """A volume's fitted log at the reference, its residual deviation, and its slopes by covariate."""

    level: Estimate
    deviation: float
    slopes: Mapping[str, Estimate]


def adjusted_shift(
    baseline: Covaried, candidate: Covaried, pairs: Pairs, *, better: Better, alpha: float, factor: float
) -> Adjusted:
    """Return the adjusted ratio candidate / baseline, its interval and p; none where shares do not vary.

    Args:
        baseline, candidate: with at least one cell each.
        pairs: positions of the cells of one block.
        better: whether higher or lower values are better, which other work takes them away from.
        alpha, factor: as for `mean_shift`.
    """
    sides = baseline, candidate = _with_one_of_cpus(baseline, candidate)
    every = [shares for side in sides for shares in side.shares]
    varying, unknown = _varying(every)
    if unknown or not varying:
        plain = _as_they_ran(sides, pairs, alpha=alpha, factor=factor)
        return Adjusted(why_not=unknown) if unknown else plain
    fewest = min(len(side.values) for side in sides)
    room = fewest - 1 - FREEDOM_MIN
    if room < 1:
        spans = (_range([_left(shares[name]) for shares in every]) for name in varying)
        are = "is" if fewest == 1 else "are"
        why_not = f"{counted(fewest, 'cell')} a volume {are} too few to tell what other work did"
        return Adjusted(why_not=why_not, too_few=True, explains=SLOPE_MAX * sum(spans))
    varying = varying[: max(room // 2, 1)]
    reference = {name: min(shares[name] for side in sides for shares in side.shares) for name in varying}
    point = {name: _compared_at(name, every, least) for name, least in reference.items()}
    sign = SLOPE_SIGNS[better]
    fits = [_fit(side, reference, point, sign) for side in sides]
    if fits[0] is None or fits[1] is None:
        return Adjusted(why_not="other work differs between the volumes more than within one")
    first, second = fits[0], fits[1]
    if beyond := next(
        (text for side, fit in zip(sides, (first, second), strict=True) if (text := _beyond(side, fit, reference))),
        "",
    ):
        return Adjusted(why_not=beyond)
    tests = [
        test
        for test in (_of_levels(first, second), *_of_pairs(sides, pairs, reference, point, sign))
        if _is_plausible(test.change, sides, pairs, reference, point, better)
    ]
    if not tests:
        return Adjusted(why_not="the estimated effect of other work is larger than such work can have")
    small, large = sorted((first.deviation, second.deviation))
    spread_ratio = large / small if large / small > SPREAD_RATIO_MAX else None
    change = smallest(tests, alpha=alpha, factor=factor * (WELCH_FACTOR if spread_ratio else 1))
    runs = (len(baseline.values), len(candidate.values))
    return Adjusted(
        shift=shift_of_logs(change, alpha=alpha, runs=runs, spread_ratio=spread_ratio),
        adjustments=tuple(_adjustment(name, sides, (first, second)) for name in varying),
    )


def _with_one_of_cpus(baseline: Covaried, candidate: Covaried) -> tuple[Covaried, Covaried]:
    """Keep one covariate of the CPUs, the first one that all cells have; all where none does."""
    every = [*baseline.shares, *candidate.shares]
    chosen = next((name for name in CPU if all(name in shares for shares in every)), None)
    if chosen is None:
        return baseline, candidate
    first, second = (
        replace(
            side,
            shares=[
                {name: share for name, share in shares.items() if name == chosen or name not in CPU}
                for shares in side.shares
            ],
        )
        for side in (baseline, candidate)
    )
    return first, second


def _as_they_ran(sides: tuple[Covaried, Covaried], pairs: Pairs, *, alpha: float, factor: float) -> Adjusted:
    """Compare cells that other work disturbed all alike; nothing where it disturbed none, or too few are there."""
    every = [shares for side in sides for shares in side.shares]
    shared_names = [name for name in CPU if all(name in shares for shares in every)]
    disturbed = any(bounds is not None for side in sides for bounds in side.bounds)
    if not shared_names or not disturbed or min(len(side.values) for side in sides) < 2:
        return Adjusted()
    levels = [shares[shared_names[0]] for shares in every]
    alike = Adjustment(
        covariate=shared_names[0], low=min(levels), high=max(levels), slopes=(None, None), differ=False
    )
    shift = mean_shift(sides[0].values, sides[1].values, pairs, alpha=alpha, factor=factor)
    return Adjusted(shift=shift, adjustments=(alike,))


def _varying(every: Sequence[Shares]) -> tuple[list[str], str]:
    """Return the covariates that vary, the one that does most first; or which one is not known in all cells."""
    names = list(dict.fromkeys(name for shares in every for name in shares))
    ranges = {name: _range([_left(shares[name]) for shares in every if name in shares]) for name in names}
    varying = sorted((name for name in names if ranges[name] >= VARIES_MIN), key=lambda name: -ranges[name])
    for name in varying:
        if count := sum(name not in shares for shares in every):
            where = f"{count} of {counted(len(every), 'cell', 'cells')}"
            return [], f"{LABELS.get(name, name)} is not known in {where}{WHY_UNKNOWN[name]}"
    return varying, ""


def _range(values: Sequence[float]) -> float:
    return max(values) - min(values) if values else 0.0


def _left(share: float) -> float:
    """Return the log of what other work left: 0 where it took nothing."""
    return math.log(1 - min(max(share, 0.0), SHARE_MAX))


def _compared_at(name: str, every: Sequence[Shares], least: float) -> float:
    """Return where volumes are compared, as a distance from the least share in logs: there, or at the mean.

    The least share that others took is nearly the machine without them. Where all CPUs are in use no cell shows
    that machine, and at the mean the fitted values err least.
    """
    if name != CPU_WANTED:
        return 0.0
    return float(np.mean([_left(shares[name]) - _left(least) for shares in every]))


def _fit(side: Covaried, reference: Mapping[str, float], point: Mapping[str, float], sign: int) -> _Fit | None:
    """Fit a volume's logs, with slopes of that sign; None where its shares hardly vary, far from the reference."""
    names = []
    for name, least in reference.items():
        left = [_left(shares[name]) for shares in side.shares]
        if _range(left) >= VARIES_MIN:
            names.append(name)
        elif min(left) < _left(least) - VARIES_MIN:
            return None
    rows = [[1.0, *(_left(shares[name]) - _left(reference[name]) for name in names)] for shares in side.shares]
    design, logs = np.array(rows), np.log(np.asarray(side.values, dtype=np.float64))
    model = LinearModel(design, logs)
    if model.freedom < FREEDOM_MIN:
        return None
    contrasts, signs = np.eye(1 + len(names)), [0, *[sign] * len(names)]
    contrasts[0, 1:] = [point[name] for name in names]
    estimates = [model.estimate(contrast) for contrast in contrasts]
    if any(estimate is None for estimate in estimates):
        return None
    level, *slopes = (estimate for estimate in estimates if estimate is not None)
    signed, columns = closest_signed(design, logs, signs)
    values = dict(zip(columns, signed.coefficients.tolist(), strict=True))
    return _Fit(
        level=_of_signed(level, signed, contrasts[0, list(columns)]),
        deviation=max(model.deviation, LEAST_DEVIATION),
        slopes={
            name: replace(slope, value=values.get(column, 0.0))
            for column, (name, slope) in enumerate(zip(names, slopes, strict=True), start=1)
        },
    )


def _of_signed(estimate: Estimate, signed: LinearModel, contrast: Floats) -> Estimate:
    """Return the value of the fit with the right signs, with the larger error of both fits."""
    of_signed = signed.estimate(contrast)
    if of_signed is None:
        return estimate
    return replace(estimate, value=of_signed.value, error=max(estimate.error, of_signed.error))


def _of_levels(first: _Fit, second: _Fit) -> TTest:
    """Return Welch's test of two fitted values, each with the error and the freedom of its own fit."""
    of_x, of_y = (max(fit.level.error, LEAST_DEVIATION) ** 2 for fit in (first, second))
    freedom = (of_x + of_y) ** 2 / (of_x**2 / first.level.freedom + of_y**2 / second.level.freedom)
    return TTest(
        change=second.level.value - first.level.value, error=math.sqrt(of_x + of_y), freedom=max(1.0, freedom)
    )


def _of_pairs(
    sides: Sequence[Covaried],
    pairs: Pairs,
    reference: Mapping[str, float],
    point: Mapping[str, float],
    sign: int,
) -> list[TTest]:
    """Return the paired test, of differences fitted on the shares of both cells; none with too few pairs.

    Nor with two covariates: one cell with a large share would decide five coefficients.
    """
    names = list(reference)
    if len(names) > 1:
        return []
    rows = [
        [
            1.0,
            *(
                _left(side.shares[position][name]) - _left(reference[name])
                for side, position in zip(sides, pair, strict=True)
                for name in names
            ),
        ]
        for pair in pairs
    ]
    width = 1 + 2 * len(names)
    if len(rows) < width + FREEDOM_MIN:
        return []
    differences = np.array([math.log(sides[1].values[second] / sides[0].values[first]) for first, second in pairs])
    design, at_point = np.array(rows), np.array([1.0, *([point[name] for name in names] * 2)])
    level = LinearModel(design, differences).estimate(at_point)
    if level is None or level.freedom < FREEDOM_MIN:
        return []
    signed, columns = closest_signed(design, differences, [0, *[-sign] * len(names), *[sign] * len(names)])
    level = _of_signed(level, signed, at_point[list(columns)])
    return [TTest(change=level.value, error=max(level.error, LEAST_DEVIATION), freedom=float(level.freedom))]


def _is_plausible(
    change: float,
    sides: tuple[Covaried, Covaried],
    pairs: Pairs,
    reference: Mapping[str, float],
    point: Mapping[str, float],
    better: Better,
) -> bool:
    """Return whether slopes from 0 to SLOPE_MAX could make this of the plain changes, of all cells or of the pairs.

    Those of values of which lower ones are better, such as latencies, go from -SLOPE_MAX to 0. Values without a
    direction may go either way.
    """
    logs = [np.log(np.asarray(side.values, dtype=np.float64)) for side in sides]
    plain = [float(logs[1].mean() - logs[0].mean())]
    if pairs:
        plain.append(float(np.mean([logs[1][second] - logs[0][first] for first, second in pairs])))
    room = [
        SLOPE_MAX
        * sum(
            float(np.mean([abs(_left(shares[name]) - _left(least) - point[name]) for shares in side.shares]))
            for name, least in reference.items()
        )
        for side in sides
    ]
    down, up = {"higher": room, "lower": room[::-1], "none": [sum(room)] * 2}[better]
    return min(plain) - down - LEAST_DEVIATION <= change <= max(plain) + up + LEAST_DEVIATION


def _beyond(side: Covaried, fit: _Fit, reference: Mapping[str, float]) -> str:
    """Say where an adjustment passes what the disturbance can have done at most; empty where none does."""
    for value, bounds, shares in zip(side.values, side.bounds, side.shares, strict=True):
        if bounds is None:
            continue
        distance = {name: _left(shares[name]) - _left(reference[name]) for name in fit.slopes}
        undone = -sum(slope.value * distance[name] for name, slope in fit.slopes.items())
        slack = TOLERANCE_ERRORS * sum(slope.error * abs(distance[name]) for name, slope in fit.slopes.items())
        low, high = (
            math.log(end / value) if 0 < end < math.inf else math.copysign(math.inf, end - value) for end in bounds
        )
        if not low - slack - LEAST_DEVIATION <= undone <= high + slack + LEAST_DEVIATION:
            return "the estimated effect of other work is larger than its bounds allow"
    return ""


def _adjustment(name: str, sides: Sequence[Covaried], fits: tuple[_Fit, _Fit]) -> Adjustment:
    shares = [shares[name] for side in sides for shares in side.shares]
    slopes = [fit.slopes.get(name) for fit in fits]
    differ = False
    if slopes[0] is not None and slopes[1] is not None:
        error = math.hypot(slopes[0].error, slopes[1].error)
        differ = abs(slopes[0].value - slopes[1].value) > DIFFER_T * error
    values = [None if slope is None else slope.value for slope in slopes]
    return Adjustment(
        covariate=name, low=min(shares), high=max(shares), slopes=(values[0], values[1]), differ=differ
    )
