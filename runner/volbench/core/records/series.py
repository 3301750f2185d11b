"""Rows of series.parquet and histograms.parquet: the columns of runner/ARCHITECTURE.md, one value a row."""

from __future__ import annotations

from dataclasses import dataclass

LATENESS = "lateness"
"""First word of the source of a histogram of lateness; the second is a kind of an emulated volume's operations."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SeriesRow:
    """One value of one metric over the interval that ends at `t_s`. What is not known has no row.

    Args:
        t_s: seconds since the cell's zero, end of the interval.
        source: `client`, `diskstats`, `innodb`, ... (see ARCHITECTURE.md).
        metric: its name, unit last.
        value: finite, in the metric's unit.
        entity: device, mount or instrument; empty when there is only one.
    """

    t_s: float
    source: str
    metric: str
    value: float
    entity: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class HistogramRow:
    """All latencies of one source in one interval. `events` 0 is a stall: no latency is known, it is not zero.

    Args:
        t_s, interval_s: end and length of the interval, seconds since the cell's zero.
        step: name of the step that ran.
        source: `client` (sysbench events), `server` (statements), or `lateness` and a kind of operations.
        events, errors: finished in the interval.
        edge_mult, edge_deduct: bin i starts at exp(i / edge_mult + edge_deduct) ms.
        bin, count: numbers of the non-empty bins, ascending, and their events; equally long.
        below, above: events outside the bins.
        measured: inside the step's window, not warm-up.
    """

    t_s: float
    interval_s: float
    step: str
    source: str
    events: int
    errors: int
    edge_mult: float
    edge_deduct: float
    bin: tuple[int, ...]
    count: tuple[int, ...]
    below: int = 0
    above: int = 0
    measured: bool = True
