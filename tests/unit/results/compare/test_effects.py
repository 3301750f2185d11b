"""Effects of a sweep on data whose effects are known; Student's t against its published table."""

from __future__ import annotations

import math

import numpy as np
import pytest

from volbench.core.plan.designs import combinations_of
from volbench.core.records.sweep import SweepSpec
from volbench.results.compare.effects import CellValue, FactorEffect, effects_of
from volbench.results.stats.linear import LinearModel, t_cdf, t_quantile
from volbench.results.stats.means import mean_shift

A, B = "volume.a", "volume.b"


def sweep_of(design: str, *names: str, levels: object = 1) -> SweepSpec:
    factors = {name: {"base": 0, "levels": levels} for name in names}
    return SweepSpec.model_validate({"design": design, "factors": factors})


def measured(
    sweep: SweepSpec, logs: dict[tuple[str, ...], float], *, blocks: int, noise: float, seed: int
) -> list[CellValue]:
    """Values with these effects of two-level terms at their level, another level a block, and noise in the logs."""
    random = np.random.default_rng(seed)
    drift = random.normal(0, 0.3, blocks)
    return [
        CellValue(
            combination=combination,
            block=block,
            value=math.exp(
                5
                + drift[block]
                + sum(size for term, size in logs.items() if all(combination[name] for name in term))
                + random.normal(0, noise)
            ),
        )
        for block in range(blocks)
        for combination in combinations_of(sweep)
    ]


def result(sweep: SweepSpec, observations: list[CellValue]) -> dict[tuple[str, ...], FactorEffect]:
    effects = effects_of(sweep, observations, better="higher", margin=0.05, alpha=0.05)
    return {effect.term: effect for effect in effects}


@pytest.mark.parametrize(
    ("freedom", "quantile"),
    [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (10, 2.228), (27, 2.052), (30, 2.042), (120, 1.980)],
)
def test_student_s_t_is_the_published_one(freedom: int, quantile: float) -> None:
    assert t_quantile(0.975, freedom) == pytest.approx(quantile, abs=5e-4)
    assert t_cdf(-quantile, freedom) == pytest.approx(0.025, abs=1e-4)
    assert t_cdf(0, freedom) == 0.5


def test_a_full_design_without_noise_gives_back_what_was_put_in() -> None:
    """Effects at the level: a doubles at b's base, b halves at a's base, together another third is gained."""
    sweep = sweep_of("full", A, B)
    effects = result(
        sweep,
        measured(
            sweep, {(A,): math.log(2), (B,): math.log(0.5), (A, B): math.log(4 / 3)}, blocks=4, noise=1e-9, seed=1
        ),
    )
    half = math.sqrt(4 / 3)  # a main effect is averaged over the other factor's values
    assert effects[A,].ratio == pytest.approx(2 * half)
    assert effects[B,].ratio == pytest.approx(0.5 * half)
    assert effects[A, B].ratio == pytest.approx(4 / 3)
    assert [effects[t].verdict for t in ((A,), (B,), (A, B))] == ["better", "worse", "better"]


def test_levels_are_each_compared_with_the_base() -> None:
    sweep = sweep_of("full", A, B, levels=[1, 2])
    observations = [
        CellValue(combination=c, block=block, value=10.0 * 3.0 ** float(c[A]) * (1 + 1e-9 * block * float(c[B])))
        for block in range(4)
        for c in combinations_of(sweep)
    ]
    effects = effects_of(sweep, observations, better="higher", margin=0.05, alpha=0.05)
    ratios = {(e.term, e.levels): e.ratio for e in effects}
    assert ratios[(A,), (1,)] == pytest.approx(3)
    assert ratios[(A,), (2,)] == pytest.approx(9)
    assert ratios[(B,), (2,)] == pytest.approx(1)
    assert ratios[(A, B), (2, 2)] == pytest.approx(1)
    assert next(e for e in effects if e.term == (B,)).verdict == "equivalent"


def test_intervals_hold_the_true_effect_as_often_as_they_say() -> None:
    """95 % intervals over 300 data sets with 4 blocks: a share that binomial chance allows (99.9 %)."""
    sweep = sweep_of("full", A, B)
    fromkeys = dict.fromkeys([(A,), (B,)], 0)
    for seed in range(300):
        effects = result(sweep, measured(sweep, {(A,): 0.3}, blocks=4, noise=0.2, seed=seed))
        for term, size in (((A,), 0.3), ((B,), 0.0)):
            ci = effects[term].ci
            assert ci is not None
            fromkeys[term] += ci[0] <= math.exp(size) <= ci[1]
    for count in fromkeys.values():
        assert 0.9 <= count / 300 <= 0.99


def test_families_of_no_effect_are_called_one_rarely() -> None:
    """Three terms without any effect: in at most 5 % of data sets (and chance) any verdict of better or worse."""
    sweep = sweep_of("full", A, B)
    wrong = sum(
        any(
            effect.verdict in ("better", "worse")
            for effect in result(sweep, measured(sweep, {}, blocks=4, noise=0.3, seed=1000 + seed)).values()
        )
        for seed in range(300)
    )
    assert wrong <= 28


def test_one_factor_at_a_time_is_tested_as_volumes_are_and_corrected_over_all_levels() -> None:
    sweep = sweep_of("one_factor", A, B)
    cells = measured(sweep, {(A,): 4.0}, blocks=5, noise=0.01, seed=3)
    effects = result(sweep, cells)
    assert set(effects) == {(A,), (B,)}
    base, level = ([o.value for o in cells if o.combination == at] for at in ({A: 0, B: 0}, {A: 1, B: 0}))
    p_value = mean_shift(base, level, [(n, n) for n in range(5)], alpha=0.05).p_value
    assert effects[A,].p_value == pytest.approx(p_value)
    assert effects[A,].p_adjusted == pytest.approx(2 * p_value)
    assert effects[A,].runs == (5, 5)


def test_two_cells_a_combination_decide_nothing_one_at_a_time() -> None:
    sweep = sweep_of("one_factor", A)
    effect = result(sweep, measured(sweep, {(A,): 3.0}, blocks=2, noise=0.01, seed=4))[A,]
    assert effect.verdict == "inconclusive"
    assert "at least 3" in effect.reason


def test_what_the_cells_cannot_tell_is_open_and_has_no_number() -> None:
    """All cells with the interaction at its level are missing."""
    sweep = sweep_of("full", A, B)
    existing = [
        o
        for o in measured(sweep, {(A,): 0.5}, blocks=4, noise=0.05, seed=5)
        if not (o.combination[A] and o.combination[B])
    ]
    effect = result(sweep, existing)[A, B]
    assert (effect.ratio, effect.ci, effect.verdict) == (None, None, "inconclusive")
    assert "do not tell" in effect.reason


def test_values_without_a_logarithm_give_no_effects() -> None:
    sweep = sweep_of("full", A, B)
    zero = [CellValue(combination=c, block=0, value=0.0) for c in combinations_of(sweep)]
    assert effects_of(sweep, zero, better="lower", margin=0.05, alpha=0.05) == []
    assert all(e.ratio is None for e in effects_of(sweep, [], better="lower", margin=0.05, alpha=0.05))


def test_least_squares_agrees_with_the_textbook_on_two_groups() -> None:
    """Difference of means and pooled standard error."""
    x, y = np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 9.0, 6.0])
    design = np.array([[1.0, 0.0]] * 3 + [[0.0, 1.0]] * 4)
    estimate = LinearModel(design, np.concatenate([x, y])).estimate(np.array([-1.0, 1.0]))
    assert estimate is not None
    pooled = (x.var(ddof=1) * 2 + y.var(ddof=1) * 3) / 5
    assert estimate.value == pytest.approx(y.mean() - x.mean())
    assert estimate.error == pytest.approx(math.sqrt(pooled * (1 / 3 + 1 / 4)))
    assert estimate.freedom == 5
