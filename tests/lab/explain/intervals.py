"""How often an interval that was stated held what came."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from explain.observed import Observed


@dataclass(frozen=True, kw_only=True)
class Held:
    """`held` of so many intervals held what came; `refused` times nothing was stated."""

    held: int
    of: int
    refused: int = 0


def of_pairs(pairs: Iterable[Mapping[str, Any]], value: str, interval: str) -> Held:
    """Of rows of tests/benchmarks/what_if.py.

    Args:
        value, interval: names of what was run, and of what was stated for it.
    """
    rows = list(pairs)
    stated = [row for row in rows if row.get(interval) and row.get(value) is not None]
    retained = sum(row[interval][0] <= row[value] <= row[interval][1] for row in stated)
    return Held(held=retained, of=len(stated), refused=sum("cannot" in row for row in rows))


def of_forecasts(runs: Iterable[Observed]) -> Held:
    """Of the time until credits run out, of bursts alone as their errors are."""
    known_names = [
        run for run in runs if "exhausted_after_s" in run.truths and run.truth == ("storage.burst_exhausted",)
    ]
    stated = [run for run in known_names if "after_s" in run.forecast and "earliest_s" in run.forecast]
    retained = sum(
        run.forecast["earliest_s"] <= run.truths["exhausted_after_s"] <= run.forecast.get("latest_s", math.inf)
        for run in stated
    )
    return Held(held=retained, of=len(stated), refused=sum("after_s" not in run.forecast for run in known_names))
