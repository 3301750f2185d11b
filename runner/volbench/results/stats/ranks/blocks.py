"""Blocks of runs: which nodes two volumes share, and their values by node."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from volbench.results.stats.ranks.null import Blocks, Floats, Ints, block_weights

SHARED_MIN = 0.5
"""Nodes are blocks where at least this share of either volume's cells is on nodes that both used."""


def shared_nodes(baseline: Sequence[str], candidate: Sequence[str]) -> tuple[str, ...]:
    """Return the nodes within which two volumes are compared, in order of appearance; none: as if on one node.

    That is where all cells are on one node, and where volumes share too few nodes for blocks: then nodes vary with
    the volumes, and whether a verdict holds is another question.

    Args:
        baseline, candidate: the node of each cell.
    """
    shared = [node for node in dict.fromkeys(baseline) if node in set(candidate)]
    if len({*baseline, *candidate}) < 2 or not shared:
        return ()
    shares = (sum(node in shared for node in side) / len(side) for side in (baseline, candidate))
    return tuple(shared) if min(shares) >= SHARED_MIN else ()


def split_by(values: Ints, names: Sequence[str] | None, order: Sequence[str]) -> list[Ints]:
    """Return the values of each block, sorted: sums depend on the order.

    Args:
        names: the block of each value; None: all are in one.
    """
    if names is None:
        return [np.sort(values)]
    if len(names) != len(values):
        raise ValueError("each value needs the name of its block")
    of = np.array(names)
    return [np.sort(values[of == name]) for name in order]


def median_difference(blocks: Blocks) -> float:
    """Return the median of all differences y - x within blocks, weighted as the test weights the blocks.

    It is the shift at which the statistic is at the middle of its null distribution (Hodges and Lehmann 1963).
    """
    weights = block_weights(blocks)
    differences = np.concatenate([np.subtract.outer(y, x).ravel() for x, y in blocks])
    repeated = np.concatenate([np.full(len(x) * len(y), w) for (x, y), w in zip(blocks, weights, strict=True)])
    order = np.argsort(differences, kind="stable")
    below_doubled = 2 * np.cumsum(repeated[order])
    total = below_doubled[-1] // 2
    lower = differences[order[np.searchsorted(below_doubled, total, side="left")]]
    upper = differences[order[np.searchsorted(below_doubled, total, side="right")]]
    return (int(lower) + int(upper)) / 2


def pooled_within(sides: Sequence[Ints]) -> tuple[float, int]:
    """Return the variance of one volume's values within blocks, and its degrees of freedom."""
    freedom = sum(len(side) - 1 for side in sides)
    squares = sum(float(np.var(side)) * len(side) for side in sides)
    return (squares / freedom if freedom else math.nan), freedom


def mean_difference(blocks: Blocks) -> tuple[float, float, float]:
    """Return the mean of the blocks' differences, and what one unit of x's and of y's variance adds to its own.

    Blocks have the weights n m / (n + m), which are the best where both volumes scatter alike.
    """
    raw = np.array([len(x) * len(y) / (len(x) + len(y)) for x, y in blocks])
    weights = raw / raw.sum()
    change = float(sum(w * (np.mean(y) - np.mean(x)) for (x, y), w in zip(blocks, weights, strict=True)))
    of_x, of_y = (
        float(sum(w**2 / len(block[side]) for block, w in zip(blocks, weights, strict=True))) for side in (0, 1)
    )
    return change, of_x, of_y


def without_levels(
    baseline: Sequence[float], candidate: Sequence[float], nodes: tuple[Sequence[str], Sequence[str]] | None
) -> tuple[Floats, Floats]:
    """Return the logs of positive values, less the level of their node: the middle between the volumes' means."""
    x, y = np.log(np.asarray(baseline, dtype=np.float64)), np.log(np.asarray(candidate, dtype=np.float64))
    for name in dict.fromkeys(nodes[0]) if nodes is not None else ():
        in_x, in_y = (np.array(side) == name for side in nodes or ())
        level = (x[in_x].mean() + y[in_y].mean()) / 2
        x[in_x] -= level
        y[in_y] -= level
    return x, y
