"""The sign test: is the median over cells on one side of a limit? Exact, and true for any distribution."""

from __future__ import annotations

import math

CELLS_NEEDED_MAX = 100
"""More cells than this are not proposed: nobody would run them."""


def binomial_tail(cells: int, keeping: int) -> float:
    """P(at least `kept` of `cells` keep a limit) if the median lay on it: the p-value of a one-sided sign test.

    Source: Conover, Practical Nonparametric Statistics, section 3.4.
    """
    return float(sum(math.comb(cells, k) for k in range(keeping, cells + 1)) / 2**cells)


def sign_test(cells: int, keeping: int, *, alpha: float) -> bool | None:
    """True: the median keeps the limit at level `alpha`; False: it breaks it; None: these cells cannot tell."""
    if binomial_tail(cells, keeping) <= alpha:
        return True
    if binomial_tail(cells, cells - keeping) <= alpha:
        return False
    return None


def more_cells(cells: int, keeping: int, *, alpha: float) -> int | None:
    """Return how many further cells would decide if they kept the limit as often as these; None when none would."""
    share = keeping / cells if cells else 1.0
    for total in range(cells + 1, CELLS_NEEDED_MAX + 1):
        if sign_test(total, round(share * total), alpha=alpha) is not None:
            return total - cells
    return None
