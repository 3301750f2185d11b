"""What each factor of a sweep does to a metric: ratios to the base, with intervals and verdicts.

One factor at a time: each level against the base by the test of `means`, as volumes are compared. Full factorials:
a linear model of log(metric) with blocks, main effects, and two-factor interactions. An interaction's ratio says by
how much the first factor's ratio changes when the second one is at its level instead of its base.

Holm's correction is over one family: all terms of one metric of one step on one volume.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from statistics import fmean, median

import numpy as np
from numpy.typing import NDArray

from volbench.core.plan.designs import Term
from volbench.core.records.base import Scalar
from volbench.core.records.sweep import SweepSpec
from volbench.results.stats.corrections import holm
from volbench.results.stats.linear import Estimate, LinearModel
from volbench.results.stats.means import block_pairs, mean_shift
from volbench.results.stats.sample_size import runs_needed
from volbench.results.stats.sequential import CELLS_MIN
from volbench.results.stats.statistics import Better, Judgement, Shift, Verdict, judge, shift_of


@dataclass(frozen=True, kw_only=True)
class CellValue:
    """One valid value of one cell, with its combination of factors and its block."""

    combination: Mapping[str, Scalar]
    block: int
    value: float


@dataclass(frozen=True, kw_only=True)
class FactorEffect:
    """A main effect (one factor) or an interaction (two), each at one level against the base.

    `base_value` and `value` are medians in a one-factor design, else means of logs over all other factors, turned
    back; None for an interaction.
    """

    term: Term
    levels: tuple[Scalar, ...]
    bases: tuple[Scalar, ...]
    base_value: float | None
    value: float | None
    ratio: float | None
    ci: tuple[float, float] | None
    p_value: float | None
    p_adjusted: float | None
    verdict: Verdict
    reason: str
    runs: tuple[int, int]
    runs_needed: int | None = None


@dataclass(frozen=True, kw_only=True)
class _Open:
    """An effect before the correction over its family; without a shift there is nothing to judge."""

    term: Term
    levels: tuple[Scalar, ...]
    bases: tuple[Scalar, ...]
    sides: tuple[tuple[float, ...], tuple[float, ...]]
    shift: Shift | None
    exact: bool
    why_not: str = ""


def effects_of(
    sweep: SweepSpec, observations: Sequence[CellValue], *, better: Better, margin: float, alpha: float
) -> list[FactorEffect]:
    """Return all effects of one metric, main effects first, in the order of the sweep's factors.

    Args:
        sweep: the factors and the design.
        observations: valid values only, on one volume; zero and negative ones have no ratio.
        better, margin, alpha: as for `statistics.judge`.
    """
    values = [o for o in observations if math.isfinite(o.value)]
    if any(o.value <= 0 for o in values):
        return []
    if sweep.design == "one_factor":
        open_effects = [_against_base(sweep, values, name, level, alpha) for name, level in _levels(sweep)]
    else:
        open_effects = _by_model(sweep, values, alpha)
    p_values = [o.shift.p_value for o in open_effects if o.shift is not None and min(o.shift.runs) >= CELLS_MIN]
    adjusted = iter(holm(p_values))
    return [_judged(o, adjusted, len(p_values), better=better, margin=margin, alpha=alpha) for o in open_effects]


def _levels(sweep: SweepSpec) -> Iterable[tuple[str, Scalar]]:
    return ((name, level) for name, factor in sweep.factors.items() for level in factor.levels)


def _against_base(sweep: SweepSpec, values: Sequence[CellValue], name: str, level: Scalar, alpha: float) -> _Open:
    base = {key: factor.base for key, factor in sweep.factors.items()}
    of_base = sorted((o.block, o.value) for o in values if dict(o.combination) == base)
    of_level = sorted((o.block, o.value) for o in values if dict(o.combination) == {**base, name: level})
    at_base, at_level = (tuple(value for _, value in side) for side in (of_base, of_level))
    has_both = bool(at_base and at_level)
    pairs = block_pairs([block for block, _ in of_base], [block for block, _ in of_level])
    return _Open(
        term=(name,),
        levels=(level,),
        bases=(base[name],),
        sides=(at_base, at_level),
        shift=_shift_of(at_base, at_level, pairs, alpha) if has_both else None,
        exact=True,
        why_not="" if has_both else "no valid value on one side",
    )


def _shift_of(
    at_base: Sequence[float], at_level: Sequence[float], pairs: Sequence[tuple[int, int]], alpha: float
) -> Shift:
    if min(len(at_base), len(at_level)) < CELLS_MIN:
        return shift_of(at_base, at_level, alpha=alpha)
    return mean_shift(at_base, at_level, pairs, alpha=alpha)


def _by_model(sweep: SweepSpec, values: Sequence[CellValue], alpha: float) -> list[_Open]:
    columns = _Columns(sweep, values)
    model = LinearModel(columns.matrix, np.log([o.value for o in values])) if values else None
    return [
        _modelled(sweep, values, term, levels, columns, model, alpha)
        for term in columns.terms
        for levels in product(*(sweep.factors[name].levels for name in term))
    ]


def _modelled(
    sweep: SweepSpec,
    values: Sequence[CellValue],
    term: Term,
    levels: tuple[Scalar, ...],
    columns: _Columns,
    model: LinearModel | None,
    alpha: float,
) -> _Open:
    bases = tuple(sweep.factors[name].base for name in term)
    estimate = model.estimate(columns.contrast(term, levels)) if model is not None else None
    at = [tuple(o.combination[name] for name in term) for o in values]
    sides = tuple(
        tuple(o.value for o, position in zip(values, at, strict=True) if position == end) for end in (bases, levels)
    )
    return _Open(
        term=term,
        levels=levels,
        bases=bases,
        sides=(sides[0], sides[1]),
        shift=None if estimate is None else _shift(estimate, alpha, (len(sides[0]), len(sides[1]))),
        exact=False,
        why_not="" if estimate else "the valid cells do not tell this from the rest",
    )


def _shift(estimate: Estimate, alpha: float, runs: tuple[int, int]) -> Shift:
    low, high = estimate.interval(1 - alpha)
    return Shift(
        ratio=math.exp(estimate.value),
        low=math.exp(low),
        high=math.exp(high),
        p_value=estimate.p_value,
        alpha=alpha,
        runs=runs,
        splits=0,
        exact=False,
    )


def _judged(
    effect: _Open, adjusted: Iterable[float], family: int, *, better: Better, margin: float, alpha: float
) -> FactorEffect:
    shift, sides = effect.shift, effect.sides
    enough = shift is not None and min(shift.runs) >= CELLS_MIN
    p_adjusted = next(iter(adjusted)) if enough else None
    if shift is None:
        judgement = Judgement(verdict="inconclusive", reason=effect.why_not)
    else:
        judgement = judge(
            shift,
            better=better,
            margin=margin,
            p_adjusted=1.0 if p_adjusted is None else p_adjusted,
            cells_min=CELLS_MIN,
        )
    centre = median if effect.exact else _geometric_mean
    single = len(effect.term) == 1
    needed = None
    if effect.exact and shift is not None and judgement.verdict == "inconclusive":
        needed = runs_needed(*sides, alpha=alpha, margin=margin, weight=1 / max(1, family))
    return FactorEffect(
        term=effect.term,
        levels=effect.levels,
        bases=effect.bases,
        base_value=centre(sides[0]) if single and sides[0] else None,
        value=centre(sides[1]) if single and sides[1] else None,
        ratio=shift.ratio if shift else None,
        ci=(shift.low, shift.high) if shift and shift.low is not None and shift.high is not None else None,
        p_value=shift.p_value if shift else None,
        p_adjusted=p_adjusted,
        verdict=judgement.verdict,
        reason=judgement.reason,
        runs=(len(sides[0]), len(sides[1])),
        runs_needed=None if needed is None else max(needed, min(len(side) for side in sides) + 1),
    )


def _geometric_mean(values: Sequence[float]) -> float:
    return math.exp(fmean(map(math.log, values)))


class _Columns:
    """The design matrix: a column a block, and sum-coded columns for each term."""

    def __init__(self, sweep: SweepSpec, values: Sequence[CellValue]) -> None:
        self._sweep = sweep
        names = list(sweep.factors)
        self.terms: list[Term] = [*((name,) for name in names), *combinations(names, 2)]
        blocks = sorted({o.block for o in values})
        self._first = len(blocks)
        rows = [[*(float(o.block == block) for block in blocks), *self._row(o.combination)] for o in values]
        self.matrix: NDArray[np.float64] = np.array(rows, dtype=np.float64)

    def contrast(self, term: Term, levels: tuple[Scalar, ...]) -> NDArray[np.float64]:
        """Return coefficients of the effect: the level against the base, averaged over all other factors.

        For two factors: the first one's effect at the second one's level, less that at its base.
        """
        width = len(list(self._row({name: factor.base for name, factor in self._sweep.factors.items()})))
        total = np.zeros(self._first + width)
        for signs in product((0, 1), repeat=len(term)):
            ends = zip(term, levels, signs, strict=True)
            point = {name: level if raised else self._sweep.factors[name].base for name, level, raised in ends}
            sign = (-1) ** (len(term) - sum(signs))
            total[self._first :] += sign * np.array(list(self._row_of_term(term, point)))
        return total

    def _row(self, point: Mapping[str, Scalar]) -> Iterable[float]:
        for term in self.terms:
            yield from self._products(term, point)

    def _row_of_term(self, term: Term, point: Mapping[str, Scalar]) -> Iterable[float]:
        """Return the row where every column of another term is 0: its mean over the levels."""
        for each in self.terms:
            if each == term:
                yield from self._products(term, point)
            else:
                yield from (0.0 for _ in self._products(each, {n: self._sweep.factors[n].base for n in each}))

    def _products(self, term: Term, point: Mapping[str, Scalar]) -> list[float]:
        codes = [self._codes(name, point[name]) for name in term]
        return [math.prod(chosen) for chosen in product(*codes)]

    def _codes(self, name: str, value: Scalar) -> list[float]:
        """Sum coding: one column for each level, -1 in all of them for the base."""
        factor = self._sweep.factors[name]
        if value == factor.base:
            return [-1.0] * len(factor.levels)
        return [float(value == level) for level in factor.levels]
