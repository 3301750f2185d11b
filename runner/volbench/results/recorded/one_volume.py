"""What the vendor counts of several volumes, reduced to the one that is explained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from volbench.core.base.text import counted
from volbench.errors import UsageError
from volbench.results.recorded.clocks import HOST_SOURCES, VOLUME_SOURCES
from volbench.results.recorded.prometheus import TIME_OF
from volbench.results.store.series import Series, SeriesKey

_OPERATIONS = ("reads_per_s", "writes_per_s")
_LISTED_MAX = 8


def of_one_volume(
    series: Mapping[SeriesKey, Series], *, device: str, volume: str, take_busiest: bool = True
) -> tuple[dict[SeriesKey, Series], tuple[str, ...]]:
    """Series without those of other volumes than the one that is explained, and notes on what was left out.

    Beside a host's own counters the volume is the one that `volume` names, or the only one: nothing tells which of
    several belongs to a device. Without them it is the one that `device` or `volume` names, else the busiest, or
    with `take_busiest` false all of them.

    Raises UsageError for a volume that is not in it.
    """
    series = _with_waits(series)
    of_vendor = {key.entity for key in series if key.source in VOLUME_SOURCES and not _of_instance(key)}
    with_cpu = _as_only(_with_cpu(series), "mountstats")
    chosen = [entity for entity in sorted(of_vendor) if (volume or device) and (volume or device) in entity.split()]
    if volume and not chosen:
        raise UsageError(
            f"there is no volume {volume!r}",
            where=f"--volume {volume}",
            evidence=f"volumes: {', '.join(sorted(of_vendor)[:_LISTED_MAX]) or 'no file names one'}",
        )
    if len(of_vendor) < 2:
        return with_cpu, ()
    on_host = any(key.source in HOST_SOURCES for key in series)
    names = ", ".join(sorted(of_vendor)[:_LISTED_MAX]) + (" ..." if len(of_vendor) > _LISTED_MAX else "")
    if chosen:
        return _only(with_cpu, set(chosen)), (
            f"of {counted(len(of_vendor), 'volume')} only {', '.join(chosen)} is used",
        )
    if on_host:
        return _only(with_cpu, set()), (
            f"the vendor's figures of {counted(len(of_vendor), 'volume')} go unused, since nothing tells which of"
            f" them is the device's: {names} (--volume names it)",
        )
    if not take_busiest:
        return with_cpu, ()
    busiest = max(sorted(of_vendor), key=lambda entity: _operations(series, entity))
    return _only(with_cpu, {busiest}), (
        f"{busiest} is taken for the volume, since it has the most operations of {len(of_vendor)}: {names}"
        " (--volume names another)",
    )


def unused_instances(series: Mapping[SeriesKey, Series]) -> tuple[str, ...]:
    """Say that credits of several instances go unused; nothing where there are those of one, or none."""
    names = sorted({key.entity for key in series if key.metric.startswith("instance_") and "balance" in key.metric})
    if len(names) < 2:
        return ()
    listed = ", ".join(names[:_LISTED_MAX]) + (" ..." if len(names) > _LISTED_MAX else "")
    return (
        f"the credits of {counted(len(names), 'instance')} go unused, since nothing tells which of them has the"
        f" volume: {listed} (give the answers for one)",
    )


def _with_waits(series: Mapping[SeriesKey, Series]) -> dict[SeriesKey, Series]:
    """Series with waiting times in place of times whose operations another file counts."""
    made = {key: samples for key, samples in series.items() if key.metric not in TIME_OF.values()}
    for metric, time_name in TIME_OF.items():
        for key, times in series.items():
            rates = series.get(replace(key, metric=time_name.replace("_time_s_per_s", "s_per_s")))
            if key.metric != time_name or rates is None or replace(key, metric=metric) in series:
                continue
            both, at_time, at_rate = np.intersect1d(times.t_s, rates.t_s, return_indices=True)
            some = rates.value[at_rate] > 0
            waits = 1000.0 * times.value[at_time][some] / rates.value[at_rate][some]
            if some.any():
                made[replace(key, metric=metric)] = Series(t_s=both[some], value=waits)
    return made


def _of_instance(key: SeriesKey) -> bool:
    return key.metric.startswith("instance_") or key.metric == "replica_lag_s"


def _only(series: Mapping[SeriesKey, Series], entities: set[str]) -> dict[SeriesKey, Series]:
    return {
        key: samples
        for key, samples in series.items()
        if key.source not in VOLUME_SOURCES or _of_instance(key) or key.entity in entities
    }


def _operations(series: Mapping[SeriesKey, Series], entity: str) -> float:
    rates = [
        samples.value
        for key, samples in series.items()
        if key.entity == entity and key.metric in _OPERATIONS and key.source in VOLUME_SOURCES
    ]
    return sum(float(np.mean(values)) for values in rates)


def _as_only(series: Mapping[SeriesKey, Series], source: str) -> dict[SeriesKey, Series]:
    """Series whose only entity of a source has no name, as the sampler gives the only one none."""
    is_only = len({key.entity for key in series if key.source == source}) == 1
    return {
        replace(key, entity="") if is_only and key.source == source else key: samples
        for key, samples in series.items()
    }


def _with_cpu(series: Mapping[SeriesKey, Series]) -> dict[SeriesKey, Series]:
    """Series with the CPUs of the only instance as those of the host; of several instances none is."""
    names = {key.entity for key in series if key.source == "cpu"}
    if "" in names or len(names) != 1:
        return {key: samples for key, samples in series.items() if key.source != "cpu" or not key.entity}
    return {replace(key, entity="") if key.source == "cpu" else key: samples for key, samples in series.items()}
