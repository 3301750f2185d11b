"""What the lab itself knows of a run: caps that were set, and when credits ran out by the emulator's counters.

Read from the run's series, never from its findings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volbench.core.profile.limits import limits_of
from volbench.core.profile.resolve import resolve
from volbench.core.records.cell import CellResult
from volbench.results.credits.extrapolation import ahead
from volbench.results.credits.work import from_points
from volbench.results.store.run_directory import SERIES_FILE, RunDirectory
from volbench.results.store.series import Series, SeriesKey, read_series

CREDITS = "volume.credits"
EMPTY_PERCENT = 0.01
"""An empty bucket says 0. A sample of 0.5 % is none: gp2 of this size still has a tenth of a second then."""
FORECAST_FROM_S = 1.0
"""Seconds of the load that are left out: within the first, the lab sets the credits."""
FORECAST_AT = 0.5
"""Share of those credits that is left when the forecast is made: half-way, whatever the bucket's size is. At a
fixed second some buckets would be all but empty, and a tenth of a second much of what is left."""
GP2_IOPS_PER_GIB, GP2_IOPS_MIN = 3, 100


@dataclass(frozen=True, kw_only=True)
class Known:
    """`truths` by name, and what `volbench credits` forecast when half of the credits were left."""

    truths: Mapping[str, float] = field(default_factory=dict)
    forecast: Mapping[str, float] = field(default_factory=dict)


def known_of(directory: RunDirectory, volume: Mapping[str, Any], drawn: Mapping[str, Any]) -> Known:
    """What is known of a run with one cell.

    Args:
        volume: the setup's, with its profile.
        drawn: the setup's values.
    """
    truths = {name: float(drawn[name]) for name in ("iops", "throughput") if name in drawn}
    if volume.get("profile") != "ebs-gp2":
        return Known(truths=truths)
    truths["baseline"] = float(max(GP2_IOPS_MIN, GP2_IOPS_PER_GIB * float(drawn["size"])))
    results = list(directory.results())
    if not results or not results[0].steps:
        return Known(truths=truths)
    credits_known, forecast = _credits(directory, results[0], volume)
    return Known(truths={**truths, **credits_known}, forecast=forecast)


def empty_at_s(t_s: NDArray[np.float64], percent: NDArray[np.float64]) -> float | None:
    """When a falling balance reaches 0: the line through the last two samples above it.

    None when it never does.
    """
    empty = np.flatnonzero(percent <= EMPTY_PERCENT)
    if not len(empty) or empty[0] < 2:
        return None
    first = int(empty[0])
    fall = (percent[first - 2] - percent[first - 1]) / (t_s[first - 1] - t_s[first - 2])
    if fall <= 0:
        return float(t_s[first])
    return float(min(t_s[first], t_s[first - 1] + percent[first - 1] / fall))


def _credits(
    directory: RunDirectory, result: CellResult, volume: Mapping[str, Any]
) -> tuple[dict[str, float], dict[str, float]]:
    begin_s, end_s = result.steps[0].window_s
    path = directory.cell_dir(result.cell_id) / SERIES_FILE
    series = read_series(path, sources=["emulator"], window_s=(begin_s, end_s))
    balance = series.get(SeriesKey(source="emulator", metric="balance_percent", entity=CREDITS))
    if balance is None:
        return {}, {}
    at_s = empty_at_s(balance.t_s, balance.value)
    begun = np.flatnonzero(balance.t_s >= begin_s + FORECAST_FROM_S)
    spent = begun[balance.value[begun] <= FORECAST_AT * balance.value[begun[0]]] if len(begun) else begun
    if at_s is None or not len(spent) or balance.t_s[spent[0]] >= at_s:
        return ({} if at_s is None else {"exhausted_at_s": at_s}), {}
    now_s, left = float(balance.t_s[spent[0]]), float(balance.value[spent[0]]) / 100
    truths = {"exhausted_at_s": at_s, "exhausted_after_s": at_s - now_s}
    return truths, _forecast(series, volume, begin_s, now_s, left)


def _forecast(
    series: Mapping[SeriesKey, Series], volume: Mapping[str, Any], begin_s: float, now_s: float, left: float
) -> dict[str, float]:
    """As `volbench credits` answers for the history from `begin_s` to `now_s`, with the balance at `now_s`."""
    reads = series[SeriesKey(source="emulator", metric="reads_per_s")]
    observed = reads.t_s <= now_s

    def values(metric: str) -> NDArray[np.float64]:
        return series[SeriesKey(source="emulator", metric=metric)].value[observed]

    work = from_points(
        t_s=reads.t_s[observed] - begin_s,
        reads_per_s=values("reads_per_s"),
        writes_per_s=values("writes_per_s"),
        read_bytes_per_s=values("read_mib_per_s") * 2**20,
        write_bytes_per_s=values("write_mib_per_s") * 2**20,
    )
    options = {name: str(value) for name, value in volume.items() if name not in {"profile", "dir", "seed"}}
    result = ahead(limits_of(resolve(str(volume["profile"]), options)).starting_at(left), work)
    if result is None or result.after_s is None:
        return {}
    latest = {} if result.latest_s is None else {"latest_s": result.latest_s}
    return {"after_s": result.after_s, "earliest_s": result.earliest_s, **latest}
