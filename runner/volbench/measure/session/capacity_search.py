"""The highest rate that keeps an objective: a search over ladders of rates, each an ordinary run."""

from __future__ import annotations

from collections.abc import Callable

from volbench.core.records.goals.capacity import CapacityRow
from volbench.errors import Undecided
from volbench.results.compare.capacity import ladder

RUNGS = 6
FACTOR = 2.0
SEARCHES_MAX = 4
"""Ladders of factor 2^5 each, up or down, before a search ends without a result."""

MeasureLadder = Callable[[tuple[int, ...], int], list[CapacityRow]]


def search(measure_ladder: MeasureLadder, start: int, repeats: int) -> list[CapacityRow]:
    """Return the rows of a fine ladder of rates with repeats around the capacity.

    Ladders of factor two with one cell, up or down, bracket the capacity first.

    Args:
        measure_ladder: measures rates with a number of cells.
        start: lowest rate of the first ladder, transactions a second.
        repeats: cells of the fine ladder.

    Raises Undecided when no ladder brackets the capacity.
    """
    low = float(start)
    for _ in range(SEARCHES_MAX):
        row = measure_ladder(ladder(low, low * FACTOR ** (RUNGS - 1), RUNGS), 1)[0]
        sustained_per_s, exceeded_per_s = row.sustained_per_s, row.high_per_s
        if sustained_per_s is not None and exceeded_per_s is not None:
            # A little beyond both, since cells differ and each has to keep one rate and to break another.
            return measure_ladder(ladder(max(1.0, sustained_per_s / 1.15), exceeded_per_s * 1.15, RUNGS), repeats)
        if exceeded_per_s is None and sustained_per_s is None:
            raise Undecided(
                "no rate of the ladder could be judged",
                where="capacity",
                evidence=f"run {row.run_id}",
                next_step="see the run's report for why its cells are invalid",
            )
        if sustained_per_s is not None:
            low = sustained_per_s
        elif low > 1:
            low = max(1.0, low / FACTOR ** (RUNGS - 1))
        else:
            break
    raise Undecided(
        "no ladder of rates brackets the objective",
        where="capacity",
        evidence=f"the last ladder began at {low:g}/s",
        next_step="start nearer to the capacity with --from, or choose another --limit",
    )
