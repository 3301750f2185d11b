"""The permutation null of the rank-sum test, in one block or within several.

Within blocks the statistic is van Elteren's: the sum of the candidate's rank sums in each block, each divided by
the block's cells plus one. All splits within each block are equally likely, and independent of the other blocks, so
the exact null distribution is the convolution of those of the blocks. A block that is faster as a whole, or
scatters more, changes no rank within itself: nothing is assumed of how blocks differ.

The weights are small whole numbers, so that sums and ties are exact; where those would be large, they are
rounded to a twelfth of the smallest. The test is exact for any fixed weights.

Source: van Elteren, Bulletin of the International Statistical Institute 37 (1960); Lehmann, Nonparametrics, section
3.3; the same weights are the default of SAS' PROC NPAR1WAY for strata.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

EXACT_RUNS_MAX = 100
"""Up to this many runs in a block all splits are counted; beyond, random ones are drawn."""
RANDOM_SPLITS = 9_999
_SEED = 20_111
_WEIGHT_STEPS = 12
_WEIGHT_MAX = 64
_WHOLE_MAX = 2.0**53

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Blocks = Sequence[tuple[Ints, Ints]]
"""Of each block the logs of baseline and candidate, in whole steps, each of at least one run."""
_Block = tuple[tuple[int, ...], int, int]
"""Midranks of a block, doubled; the candidate's number of runs; the block's weight."""


def block_weights(blocks: Blocks) -> list[int]:
    """Return van Elteren's weights of the blocks, 1 / (runs + 1), as small whole numbers."""
    sizes = [len(x) + len(y) + 1 for x, y in blocks]
    common = math.lcm(*sizes)
    weights = [common // size for size in sizes]
    if max(weights) > _WEIGHT_MAX:
        weights = [round(_WEIGHT_STEPS * max(sizes) / size) for size in sizes]
    divisor = math.gcd(*weights)
    return [weight // divisor for weight in weights]


def is_exact(blocks: Blocks) -> bool:
    """Return whether all splits are counted."""
    return all(len(x) + len(y) <= EXACT_RUNS_MAX for x, y in blocks)


def split_count(blocks: Blocks) -> int:
    """Return how many splits the null has, or how many random ones are drawn."""
    return math.prod(math.comb(len(x) + len(y), len(y)) for x, y in blocks) if is_exact(blocks) else RANDOM_SPLITS


def tails(blocks: Blocks, shift: int) -> tuple[float, float]:
    """Under the null that y is x moved by `shift`: P(statistic of y at least the observed), P(at most)."""
    ranked, observed, drawn = [], 0, np.zeros(RANDOM_SPLITS)
    exact = is_exact(blocks)
    for number, ((x, y), weight) in enumerate(zip(blocks, block_weights(blocks), strict=True)):
        midranks_doubled = _midranks_doubled(x, y - shift)
        observed += weight * int(midranks_doubled[len(x) :].sum())
        if exact:
            ranked.append((tuple(sorted(midranks_doubled.tolist())), len(y), weight))
        else:
            drawn += weight * (_random_splits(len(x) + len(y), len(y), number) @ midranks_doubled)
    if not exact:
        beyond = np.array([np.sum(drawn >= observed), np.sum(drawn <= observed)])
        upper, lower = (beyond + 1) / (RANDOM_SPLITS + 1)  # the observed split is one of the possible
        return float(upper), float(lower)
    at_least, at_most = null_tails(tuple(sorted(ranked)))
    return float(at_least[observed]), float(at_most[observed])


def _midranks_doubled(x: Ints, y: Ints) -> Ints:
    _, group, sizes = np.unique(np.concatenate([x, y]), return_inverse=True, return_counts=True)
    return np.asarray((2 * np.cumsum(sizes) - sizes + 1)[group], dtype=np.int64)


@lru_cache(maxsize=256)
def null_tails(blocks: tuple[_Block, ...]) -> tuple[Floats, Floats]:
    """P(sum >= s) and P(sum <= s) of the weighted sum s = 0.. over all blocks, by counting splits per sum.

    Args:
        blocks: of each the midranks of its runs, doubled and in order; the candidate's number of runs; the weight.
    """
    counts = np.ones(1)
    for midranks_doubled, size, weight in blocks:
        of_block = _split_counts(midranks_doubled, size)
        spaced = np.zeros(weight * (len(of_block) - 1) + 1)
        spaced[::weight] = of_block
        if counts.sum() * spaced.sum() > _WHOLE_MAX:  # no whole numbers any more: as probabilities
            counts, spaced = counts / counts.sum(), spaced / spaced.sum()
        counts = np.convolve(counts, spaced)
    return np.cumsum(counts[::-1])[::-1] / counts.sum(), np.cumsum(counts) / counts.sum()


@lru_cache(maxsize=256)
def _split_counts(midranks_doubled: tuple[int, ...], size: int) -> Floats:
    """Return how many choices of `size` of these ranks have each sum 0.. ."""
    top = sum(midranks_doubled[-size:])
    subsets = np.zeros((size + 1, top + 1))
    subsets[0, 0] = 1
    for rank in midranks_doubled:
        subsets[1:, rank:] += subsets[:-1, : top + 1 - rank]
    counts: Floats = subsets[size]
    return counts


@lru_cache(maxsize=4)
def _random_splits(total: int, size: int, number: int) -> Floats:
    """Return random choices of `size` out of `total`, always the same: shape (RANDOM_SPLITS, total) of 0 and 1."""
    order = np.random.default_rng(_SEED + number).random((RANDOM_SPLITS, total)).argsort(axis=1)
    return (order < size).astype(np.float64)
