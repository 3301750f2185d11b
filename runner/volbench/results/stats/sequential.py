"""The level of a comparison, and of each look at a run that goes on until it is decided.

After each block of cells, from 3 against 3 to 20 against 20, the cells so far are compared at the level of that
number of cells, by the two tests of `results/stats/means.py`. For one metric, equal volumes are told apart at some
look with a probability below 5 %: 4.7 % of normal deviations, counted on 100,000 simulated runs of 20 looks, less
for others (`tests/benchmarks/looks.py` counts again). The levels are a choice: high where few cells
can show a large difference, the rest spread evenly. The interval at the level of a look is a repeated confidence
interval.

Cells of several nodes are compared by the rank-sum test within nodes, whose null distribution depends on how many
cells each node has. Each of the looks up to 8 cells has a level of 0.52 %, just above 2/400, the smallest p of two
nodes with 3 against 3 cells, and each later one 0.1 %; by Bonferroni all err in at most 4.3 %. Looks at one
node before that add at most the error of those looks: with a second node from the look at 4, 5, 6, 7, 8 or 9 cells
on, the sum is at most 4.8, 4.8, 4.7, 4.7, 4.6 and 4.5 %.

Source: Jennison and Turnbull, Group Sequential Methods (2000), chapters 7 and 9.
"""

from __future__ import annotations

from dataclasses import dataclass

FIRST_WEIGHT = 0.6
"""Part of alpha that the first primary metric has in a run with a fixed number of cells."""

CELLS_MIN = 3
"""Fewer cells than this on either side decide nothing: two have one degree of freedom between them."""
CELLS_MAX = 20
LOOK_LEVELS = {3: 0.0095, 4: 0.0055}
"""Level of the look at so many cells of each volume."""
LATER_LOOK_LEVEL = 0.0045
"""Level of each look at more cells."""

NODES_LOOK_LEVEL = 0.0052
"""Level of each look at cells that are compared within several nodes, up to NODES_CELLS of each volume."""
NODES_CELLS = 8
NODES_LATER_LEVEL = 0.001


def look_level(cells: int, *, nodes: int = 1) -> float:
    """Return the level of a look at so many cells of the volume with fewer; that of the first look below it.

    Args:
        nodes: within which the cells are compared.
    """
    if nodes > 1:
        return NODES_LOOK_LEVEL if cells <= NODES_CELLS else NODES_LATER_LEVEL
    return LOOK_LEVELS.get(max(cells, CELLS_MIN), LATER_LOOK_LEVEL)


ALPHA = 0.05
"""What all looks at one pair may err together."""


def relative_p(p_value: float, cells: int, level: float, *, nodes: int = 1) -> float:
    """Return a p-value relative to the error of all looks, or to the level of a run with a fixed number of cells.

    A run that stops at a look came past the ones before it, so the levels of these are added: earlier looks are the
    stronger evidence (stagewise ordering), and the sum bounds the probability of so strong a result by Bonferroni.

    Args:
        p_value: at the look.
        cells: of the volume with fewer.
        level: of the comparison; that of a look at so many cells tells that it was one.
    """
    if level >= ALPHA or abs(level - look_level(cells, nodes=nodes)) > 1e-9:
        return p_value / level
    return (sum(look_level(before, nodes=nodes) for before in range(CELLS_MIN, cells)) + p_value) / ALPHA


def confidence_of_all(confidence: float) -> float:
    """Return what the intervals of all looks at a pair hold with together; without looks, the confidence of one.

    Args:
        confidence: of one interval; that of a look tells that it was one.
    """
    levels = (*LOOK_LEVELS.values(), LATER_LOOK_LEVEL, NODES_LOOK_LEVEL, NODES_LATER_LEVEL)
    is_look = any(abs(1 - confidence - level) < 1e-9 for level in levels)
    return 1 - ALPHA if is_look else confidence


@dataclass(frozen=True, kw_only=True)
class ErrorLevel:
    """How much error comparisons may make: the family-wise `alpha`, or that of a look at so many cells."""

    alpha: float = 0.05
    sequential: bool = False

    def at(self, cells: int, *, nodes: int = 1) -> float:
        """Return the level of a comparison; `cells` of the volume with fewer, on so many nodes."""
        return min(look_level(cells, nodes=nodes), self.alpha) if self.sequential else self.alpha

    def weights(self, metrics: int) -> list[float]:
        """Return the part of the level that each primary metric of a family has, in order."""
        if metrics < 2 or self.sequential:
            return [1.0, *[0.0] * (metrics - 1)][:metrics]
        return [FIRST_WEIGHT, *[(1 - FIRST_WEIGHT) / (metrics - 1)] * (metrics - 1)]


FIXED_LEVEL = ErrorLevel()
"""Of a run with a fixed number of cells, at an error of 5 %."""
