"""Throughput and latency against queue depth: intervals over cells, and the knee where waiting begins.

With N requests always under way Little's law says N = throughput x latency. Below the knee latency is what a
request takes alone, and throughput grows with N; above it throughput stays, and latency grows in proportion to N.
The two asymptotes meet at N* = highest throughput x latency alone.

Source: Denning and Buzen, The Operational Analysis of Queueing Network Models, Computing Surveys 10 (1978).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from volbench.results.stats.linear import t_quantile

FLAT_MAX = 1.15
"""Twice the depth brings at most this much more throughput: it has reached its plateau."""
CELLS_MIN = 2


@dataclass(frozen=True, kw_only=True)
class CellMean:
    """Geometric mean over cells, with its interval; None with a single cell."""

    value: float
    ci: tuple[float, float] | None


@dataclass(frozen=True, kw_only=True)
class DepthPoint:
    """One depth: requests under way, throughput per second, mean latency in ms, over `cells` cells."""

    depth: int
    iops: CellMean
    latency_ms: CellMean
    cells: int


@dataclass(frozen=True, kw_only=True)
class Knee:
    """Where the asymptotes meet: `depth` is no measured one, `iops` the plateau, `alone_ms` latency at depth 1."""

    depth: float
    iops: float
    alone_ms: float


def level(values: Sequence[float], *, confidence: float = 0.95) -> CellMean:
    """Return geometric mean and Student's interval of logs. Raises ValueError for values that have no log."""
    logs = [math.log(value) for value in values]
    centre = fmean(logs)
    if len(logs) < CELLS_MIN:
        return CellMean(value=math.exp(centre), ci=None)
    reach = t_quantile((1 + confidence) / 2, len(logs) - 1) * stdev(logs) / math.sqrt(len(logs))
    return CellMean(value=math.exp(centre), ci=(math.exp(centre - reach), math.exp(centre + reach)))


def curve(cells: Mapping[int, Sequence[tuple[float, float]]], *, confidence: float = 0.95) -> list[DepthPoint]:
    """Return points by depth from (throughput, latency in ms) of each cell.

    Left out are depths without a cell, and those at which a cell finished nothing: no geometric mean has that.
    """
    return [
        DepthPoint(
            depth=depth,
            iops=level([iops for iops, _ in pairs], confidence=confidence),
            latency_ms=level([latency_ms for _, latency_ms in pairs], confidence=confidence),
            cells=len(pairs),
        )
        for depth, pairs in sorted(cells.items())
        if pairs and all(min(pair) > 0 for pair in pairs)
    ]


def knee(points: Sequence[DepthPoint]) -> Knee | None:
    """Return the knee; None when depth 1 was not measured, or throughput still grows at the largest depth."""
    if len(points) < 3 or points[0].depth != 1:
        return None
    last, before = points[-1], points[-2]
    doublings = math.log2(last.depth / before.depth)
    if last.iops.value > before.iops.value * FLAT_MAX**doublings:
        return None
    iops, alone_ms = max(point.iops.value for point in points), points[0].latency_ms.value
    return Knee(depth=iops * alone_ms / 1000, iops=iops, alone_ms=alone_ms)
