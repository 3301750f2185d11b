"""Rows of series.parquet: a replica's lag in each second, and what its source committed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from volbench.core.records.series import SeriesRow
from volbench.measure.workload.interface import Clock
from volbench.measure.workload.oltp.sysbench import ReportInterval
from volbench.measure.workload.replica.heartbeat import Beats

SOURCE = "replica"


def lag_rows(beats: Beats, clock: Clock) -> Iterator[SeriesRow]:
    """Yield median and highest lag of each whole second from the first commit to the last commit or appearance.

    A second counts the beats that the replica showed in it. Beats that it has not shown at the second's end count
    in the highest lag with the age of the oldest, so a stopped replica's lag rises, as Seconds_Behind_Source does.
    """
    count = min(len(beats.committed_s), len(beats.visible_s))
    visible_s = beats.visible_s[:count]
    lags_ms = np.maximum(visible_s - beats.committed_s[:count], 0.0) * 1e3
    times_s = np.concatenate([beats.committed_s, visible_s])
    edges_s = np.arange(times_s.min(), times_s.max(), 1.0) if len(times_s) else times_s
    bounds = np.searchsorted(visible_s, edges_s)
    for end_s, first, until in zip(edges_s[1:], bounds, bounds[1:], strict=False):
        of_second = lags_ms[first:until]
        pending_s = beats.committed_s[until : until + 1]
        ages_ms = (end_s - pending_s[pending_s < end_s]) * 1e3
        t_s = clock.at_s(round(end_s * 1e9))
        if len(of_second):
            yield SeriesRow(t_s=t_s, source=SOURCE, metric="lag_ms_p50", value=float(np.median(of_second)))
        if len(of_second) or len(ages_ms):
            highest_ms = np.concatenate([of_second, ages_ms]).max()
            yield SeriesRow(t_s=t_s, source=SOURCE, metric="lag_ms_max", value=float(highest_ms))


def source_row(interval: ReportInterval, clock: Clock) -> SeriesRow:
    """Return what the source committed in one interval of sysbench."""
    return SeriesRow(
        t_s=clock.at_s(interval.end_ns),
        source=SOURCE,
        metric="source_tps",
        value=interval.events / interval.interval_s,
    )
