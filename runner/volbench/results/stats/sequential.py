"""The level of a comparison, and of each look at a run that goes on until it is decided.

After each block of cells, from 4 against 4 to 8 against 8, the cells so far are compared at the level of that
number of cells. For one metric, equal volumes are told apart at some look with a probability below 5 %.

With equal spreads the order of the cells' values is a random permutation, whatever the distribution of the metric.
So the joint distribution of the looks' p-values is known, and the levels are a choice of attainable p-values (the
exact test has few) whose union stays below 5 %: 4.8 %, counted on a million random permutations
(`tests/unit/results/stats/test_sequential.py` counts again). The interval at the level of a look is a repeated
confidence interval.

Cells of several nodes have another null distribution, which depends on how many cells each node has. Each look at
them has a level of 0.52 %, just above 2/400, the smallest p of two nodes with 3 against 3 cells each. By Bonferroni
all five looks err in at most 2.6 %. Looks at one node before that add at most the error of those looks: with a
second node from the look at 5, 6, 7 or 8 cells on the sum is at most 4.93, 4.41, 4.71 and 4.91 %.

Source: Jennison and Turnbull, Group Sequential Methods (2000), chapters 7 and 9.
"""

from __future__ import annotations

from dataclasses import dataclass

FIRST_WEIGHT = 0.6
"""Part of alpha that the first primary metric has; enough for complete separation of 4 against 4 cells."""

CELLS_MIN = 4
CELLS_MAX = 8
LOOK_LEVELS = {4: 0.0286, 5: 0.0080, 6: 0.0152, 7: 0.0175, 8: 0.0200}
"""Level of the look at n against n cells; just above an attainable p-value of the rank-sum test."""

NODES_LOOK_LEVEL = 0.0052
"""Level of each look at cells that are compared within several nodes."""


def look_level(cells: int, *, nodes: int = 1) -> float:
    """Return the level of a look at so many cells of the volume with fewer; that of the last look beyond it.

    Args:
        nodes: within which the cells are compared.
    """
    return NODES_LOOK_LEVEL if nodes > 1 else LOOK_LEVELS[min(max(cells, CELLS_MIN), CELLS_MAX)]


@dataclass(frozen=True, kw_only=True)
class Level:
    """How much error comparisons may make: the family-wise `alpha`, or that of a look at so many cells."""

    alpha: float = 0.05
    sequential: bool = False

    def at(self, cells: int, *, nodes: int = 1) -> float:
        """The level of a comparison; `cells` of the volume with fewer, on so many nodes."""
        return look_level(cells, nodes=nodes) if self.sequential else self.alpha

    def weights(self, metrics: int) -> list[float]:
        """The part of the level that each primary metric of a family has, in order."""
        if metrics < 2 or self.sequential:
            return [1.0, *[0.0] * (metrics - 1)][:metrics]
        return [FIRST_WEIGHT, *[(1 - FIRST_WEIGHT) / (metrics - 1)] * (metrics - 1)]
