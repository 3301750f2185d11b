"""The rank-sum test within blocks, against R's coin, the sign test, and an enumeration of all splits."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations, product

import numpy as np
import pytest

from volbench.results.compare.comparison import Comparison, compare
from volbench.results.compare.row import Row
from volbench.results.stats.ranks.blocks import shared_nodes
from volbench.results.stats.ranks.null import block_weights, tails
from volbench.results.stats.sample_size import runs_for_level, runs_needed
from volbench.results.stats.sequential import look_level
from volbench.results.stats.statistics import bounded_shift_of, judge, shift_of

COIN = (
    (
        [0.229, -0.120, -0.069, -0.041, 0.715, 0.919, 0.736, 0.972],
        [0.023, 0.025, 0.195, 0.108, 1.048, 0.852, 1.010, 0.867],
        "11112222",
        "11112222",
        0.064604,
        0.958951,
    ),
    (
        [-0.205, 0.093, -0.143, -0.167, 0.615, 0.632, -0.364, -0.450],
        [0.175, 0.184, 0.089, 0.013, 0.701, 0.687, -0.308, -0.469],
        "11112233",
        "11112233",
        0.022799,
        0.981147,
    ),
    (
        [-0.098, 0.084, 0.176, 0.738, 0.662],
        [0.186, 0.198, 0.862, 0.830, 0.762],
        "11122",
        "11222",
        0.010127,
        1.0,
    ),
    (
        [0.027, 0.053, 0.690, 0.636, 0.838, -0.453, -0.657, -0.216, -0.303, -0.620],
        [0.273, 0.112, 0.157, 0.700, 0.894, 0.848, -0.238, -0.297, -0.405, -0.219],
        "1122233333",
        "1112223333",
        0.005106,
        0.995235,
    ),
)
"""Logs of x and y, their blocks, and both tails: `independence_test` of R 4.2.2's coin 1.4-2 on ranks within blocks
times 1 / (N + 1), stratified by block, a million resamples."""


def logs_in_blocks(x: Sequence[float], y: Sequence[float], bx: str, by: str) -> list[tuple[np.ndarray, np.ndarray]]:
    sides = [
        (np.rint(np.array(values) * 1000).astype(np.int64), np.array(list(names)))
        for values, names in ((x, bx), (y, by))
    ]
    return [(sides[0][0][sides[0][1] == name], sides[1][0][sides[1][1] == name]) for name in dict.fromkeys(bx)]


@pytest.mark.parametrize(("x", "y", "bx", "by", "upper", "lower"), COIN)
def test_the_null_within_blocks_is_that_of_r_coin(
    x: list[float], y: list[float], bx: str, by: str, upper: float, lower: float
) -> None:
    """Within four standard errors of its resamples."""
    for own, foreign in zip(tails(logs_in_blocks(x, y, bx, by), 0), (upper, lower), strict=True):
        assert abs(own - foreign) <= 4 * math.sqrt(own * (1 - own) / 1e6) + 1e-12


@pytest.mark.parametrize(("positive", "nodes"), [(7, 7), (6, 7), (9, 10), (5, 10)])
def test_one_against_one_on_each_node_is_the_sign_test(positive: int, nodes: int) -> None:
    """P(at least k of n) of the binomial distribution with 1/2."""
    blocks = [(np.array([100]), np.array([101 if node < positive else 99])) for node in range(nodes)]
    expected = sum(math.comb(nodes, k) for k in range(positive, nodes + 1)) / 2**nodes
    assert tails(blocks, 0)[0] == pytest.approx(expected, rel=1e-12)


def enumerated_p(x: Sequence[Sequence[float]], y: Sequence[Sequence[float]]) -> float:
    """Two-sided p by listing every split of every block; ranks by counting."""

    def sums(first: Sequence[float], second: Sequence[float]) -> Iterator[tuple[bool, float]]:
        pooled = [*first, *second]
        ranks = [sum(b < a for b in pooled) + (sum(b == a for b in pooled) + 1) / 2 for a in pooled]
        for split in combinations(range(len(pooled)), len(second)):
            yield split == tuple(range(len(first), len(pooled))), sum(ranks[i] for i in split) / (len(pooled) + 1)

    totals = []
    observed = 0.0
    for combination in product(*(list(sums(*block)) for block in zip(x, y, strict=True))):
        totals.append(sum(item for _, item in combination))
        observed = totals[-1] if all(is_observed for is_observed, _ in combination) else observed
    at_least = sum(total >= observed - 1e-9 for total in totals) / len(totals)
    at_most = sum(total <= observed + 1e-9 for total in totals) / len(totals)
    return min(1.0, 2 * min(at_least, at_most))


@pytest.mark.parametrize("seed", range(12))
def test_p_value_equals_enumeration_with_ties_and_unequal_blocks(seed: int) -> None:
    draw = np.random.default_rng(seed)
    sizes = [(2, 2), (3, 2), (1, 3)][: 2 + seed % 2]
    x, y = ([draw.integers(100, 105, size[side]).astype(float).tolist() for size in sizes] for side in (0, 1))
    blocks = [tuple(np.array(side).astype(np.int64) for side in block) for block in zip(x, y, strict=True)]
    p_value = min(1.0, 2 * min(tails(blocks, 0)))  # type: ignore[arg-type]
    assert p_value == pytest.approx(enumerated_p(x, y), abs=1e-12)


FAST, SLOW = [100.0, 101.0, 102.0, 103.0], [50.0, 50.5, 51.0, 51.5]
NODES = (["n1"] * 4 + ["n2"] * 4,) * 2


def test_a_difference_that_the_nodes_hide_is_seen_within_them() -> None:
    baseline, candidate = FAST + SLOW, [0.9 * value for value in FAST + SLOW]
    pooled, within = shift_of(baseline, candidate), shift_of(baseline, candidate, nodes=NODES)
    assert pooled.p_value > 0.05
    assert within.p_value == pytest.approx(2 / 70**2)
    assert (within.blocks, within.splits) == (2, 4900)
    assert within.ratio == pytest.approx(0.9, rel=0.02)
    assert within.low is not None
    assert within.high is not None
    assert within.low < 0.9 < within.high < 1


@pytest.mark.parametrize("seed", range(20))
def test_the_interval_excludes_one_exactly_when_p_is_below_alpha(seed: int) -> None:
    draw = np.random.default_rng(seed)
    spread = [0.02, 0.2][seed % 2]
    sides = [
        np.exp(draw.normal(0, 0.02 if side == 0 else spread, 8)) * np.array([1.0] * 4 + [0.5] * 4)
        for side in (0, 1)
    ]
    shift = shift_of(sides[0].tolist(), (sides[1] * 1.03).tolist(), nodes=NODES)
    excluded = (shift.low is not None and shift.low > 1) or (shift.high is not None and shift.high < 1)
    assert excluded is (shift.p_value < shift.alpha)


def test_a_noisy_side_needs_welchs_test_within_blocks_as_well() -> None:
    draw = np.random.default_rng(1)
    levels = np.array([1.0] * 4 + [0.5] * 4)
    steady, noisy = (np.exp(draw.normal(0, spread, 8)) * levels for spread in (0.01, 0.3))
    shift = shift_of(steady.tolist(), noisy.tolist(), nodes=NODES)
    assert shift.spread_ratio is not None
    assert shift.spread_ratio > 5, "the levels of the nodes are no spread"
    alike = shift_of((steady * 2).tolist(), (steady[::-1] * levels / levels[::-1]).tolist(), nodes=NODES)
    assert alike.spread_ratio is None


def test_bounds_are_taken_at_their_worst_within_each_node() -> None:
    baseline = [(value, value, value) for value in FAST + SLOW]
    candidate = [(0.9 * value, 0.9 * value, value) for value in FAST + SLOW]
    worst = bounded_shift_of(baseline, candidate, nodes=NODES)
    assert worst.p_value >= shift_of(FAST + SLOW, FAST + SLOW, nodes=NODES).p_value
    assert worst.nearest_ratio == 1.0


def test_too_few_cells_on_each_node_say_what_is_missing() -> None:
    nodes = (["a", "a", "b", "b"], ["a", "a", "b", "b"])
    shift = shift_of([100, 101, 50, 51], [200, 201, 100, 101], nodes=nodes)
    assert shift.p_value == pytest.approx(2 / 36)
    judgement = judge(shift, better="higher", margin=0.05, p_adjusted=shift.p_value)
    assert judgement.verdict == "inconclusive"
    assert judgement.reason == "4 against 4 runs over 2 nodes have no p below 0.056: more on each node are needed"
    assert runs_for_level(level=0.03, blocks=2) == 5
    assert runs_for_level(level=0.03, blocks=5) == 6


def test_runs_needed_do_not_count_the_levels_of_nodes_as_spread() -> None:
    baseline = [100.0, 102.0, 98.0, 50.0, 51.0, 49.0]
    candidate = [110.0, 108.0, 112.0, 54.0, 55.0, 56.0]
    nodes = (["n1"] * 3 + ["n2"] * 3,) * 2
    within, pooled = runs_needed(baseline, candidate, nodes=nodes), runs_needed(baseline, candidate)
    assert within is not None
    assert pooled is None or within < pooled / 4


def test_weights_are_van_elterens() -> None:
    def of(*sizes: int) -> list[int]:
        return block_weights([(np.zeros(size // 2, int), np.zeros(size - size // 2, int)) for size in sizes])

    assert of(8, 8) == [1, 1]
    assert of(8, 4, 4) == [5, 9, 9]
    assert of(5, 6, 9) == [35, 30, 21]
    assert of(7, 8, 10, 11, 12) == [20, 17, 14, 13, 12]


@pytest.mark.parametrize(
    ("baseline", "candidate", "expected"),
    [
        (["n1"] * 5, ["n1"] * 5, ()),
        (["n1"] * 5, ["n2"] * 5, ()),
        (["n1", "n1", "n2", "n2"], ["n1", "n2", "n2", "n2"], ("n1", "n2")),
        (["n1", "n1", "n2"], ["n1", "n1", "n3"], ("n1",)),
        (["n1", "n2", "n3"], ["n1", "n4", "n5"], ()),
        ([""] * 3, [""] * 3, ()),
    ],
    ids=["one", "apart", "both", "part", "too-few", "unknown"],
)
def test_nodes_that_are_blocks(baseline: list[str], candidate: list[str], expected: tuple[str, ...]) -> None:
    assert shared_nodes(baseline, candidate) == expected


def compared(
    nodes: Sequence[str], *, ratio: float, sequential: bool = False, more: Sequence[Row] = ()
) -> Comparison:
    levels = {"n1": 1.0, "n2": 0.5, "n3": 0.8}
    rows = [
        Row(
            step="s",
            parameters={},
            metric="tps",
            unit="1/s",
            better="higher",
            volume=volume,
            cell=f"{volume}{number}",
            value=(100 + number % 4) * levels[node] * factor,
            node=node,
        )
        for volume, factor in (("a", 1.0), ("b", ratio))
        for number, node in enumerate(nodes)
    ]
    (comparison,) = compare([*rows, *more], ["a", "b"], sequential=sequential)
    return comparison


def test_one_verdict_comes_out_of_two_nodes_of_different_speed() -> None:
    comparison = compared(["n1"] * 4 + ["n2"] * 4, ratio=0.8)
    assert (comparison.verdict, comparison.nodes, comparison.runs) == ("worse", 2, (8, 8))
    assert comparison.ci is not None
    assert comparison.ci[0] < 0.8 < comparison.ci[1] < 1


def test_cells_on_a_node_without_the_other_volume_are_left_out() -> None:
    alone = Row(
        step="s",
        parameters={},
        metric="tps",
        unit="1/s",
        better="higher",
        volume="a",
        cell="a9",
        value=9.0,
        node="n3",
    )
    comparison = compared(["n1"] * 4 + ["n2"] * 4, ratio=0.8, more=[alone])
    assert (comparison.verdict, comparison.runs, comparison.excluded_runs) == ("worse", (8, 8), (1, 0))


def test_a_look_at_several_nodes_has_its_own_level() -> None:
    comparison = compared(["n1"] * 4 + ["n2"] * 2, ratio=0.8, sequential=True)
    assert comparison.confidence == pytest.approx(1 - look_level(6, nodes=2))
    assert comparison.verdict == "worse"
