"""One interval's latencies in log bins, as histograms.parquet keeps them: merge, quantile, mean, max.

Small and without arrays, for those who write such rows; results/stats/histogram.py does the same for long runs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

_LEVEL_SLACK = 1e-9  # of the events wanted: 0.07 x 100 events is the 7th, not a little more


@dataclass(frozen=True, kw_only=True)
class LatencyBins:
    """Bin i covers exp(i / edge_mult + edge_deduct) .. exp((i + 1) / edge_mult + edge_deduct) ms.

    `counts` maps non-empty bins to events; `below` and `above` are events outside of all bins.
    """

    edge_mult: float
    edge_deduct: float
    counts: Mapping[int, int] = field(default_factory=dict)
    below: int = 0
    above: int = 0

    @property
    def events(self) -> int:
        """All events, those outside the bins too."""
        return sum(self.counts.values()) + self.below + self.above

    def edge_ms(self, number: float) -> float:
        """Return where bin `number` starts, ms; half a bin more is its middle on the log scale."""
        return math.exp(number / self.edge_mult + self.edge_deduct)

    def quantile_ms(self, level: float) -> float | None:
        """Return the latency that a share `level` of events does not exceed, on the log scale within its bin.

        None when there are no events, or when it lies above the last edge.
        """
        if self.events == 0:
            return None
        rank_of_all = level * self.events
        if abs(rank_of_all - round(rank_of_all)) <= _LEVEL_SLACK * max(1.0, rank_of_all):
            rank_of_all = round(rank_of_all)
        rank = rank_of_all - self.below
        if rank <= 0 and self.below:
            return self.edge_ms(0) * rank_of_all / self.below
        cumulative = 0
        for number, count in sorted(self.counts.items()):
            if cumulative + count >= rank:
                share = (rank - cumulative) / count
                return math.exp((number + share) / self.edge_mult + self.edge_deduct)
            cumulative += count
        return None

    def mean_ms(self) -> float | None:
        """Return mean latency, taking events as spread evenly on the log scale within each bin.

        None where `quantile_ms` is.
        """
        if self.events == 0 or self.above:
            return None
        width = 1 / self.edge_mult  # the mean of exp(x) over a bin that starts at exp(s) is exp(s) * factor
        factor = math.expm1(width) / width
        total_ms = sum(count * self.edge_ms(number) * factor for number, count in self.counts.items())
        return (total_ms + self.below * self.edge_ms(0) / 2) / self.events

    def max_ms(self) -> float | None:
        """Return the upper edge of the last bin that has events: at most one bin too long. None as quantile_ms."""
        if self.events == 0 or self.above:
            return None
        return self.edge_ms(max(self.counts) + 1) if self.counts else self.edge_ms(0)


def sysbench_latency_bins(
    *, range_mult: float, range_deduct: float, size: int, counts: Mapping[int, int]
) -> LatencyBins:
    """Return the bins of sysbench's C histogram.

    sysbench rounds to the nearest index, so exp(i / range_mult + range_deduct) is the *middle* of its bin i. Its
    first and last index also take what is outside, so they become `below` and `above`, and bin 0 is its index 1.

    Args:
        range_mult, range_deduct, size: of the C structure.
        counts: index to events.

    Source: sysbench 1.0.20, src/sb_histogram.c, sb_histogram_update.
    """
    return LatencyBins(
        edge_mult=range_mult,
        edge_deduct=range_deduct + 0.5 / range_mult,
        counts={number - 1: count for number, count in counts.items() if 0 < number < size - 1},
        below=counts.get(0, 0),
        above=counts.get(size - 1, 0),
    )


def merge(histograms: Iterable[LatencyBins]) -> LatencyBins | None:
    """Return the sum of histograms with the same bins; None of nothing. Raises ValueError when the bins differ."""
    merged: Counter[int] = Counter()
    edges: tuple[float, float] | None = None
    below = above = 0
    for histogram in histograms:
        if edges is not None and edges != (histogram.edge_mult, histogram.edge_deduct):
            raise ValueError("histograms with different bins cannot be merged")
        edges = (histogram.edge_mult, histogram.edge_deduct)
        merged.update(histogram.counts)
        below += histogram.below
        above += histogram.above
    if edges is None:
        return None
    return LatencyBins(edge_mult=edges[0], edge_deduct=edges[1], counts=dict(merged), below=below, above=above)
