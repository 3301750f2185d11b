"""The rule that names round trips that carry no data: opens, lookups, attributes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from volbench.core.records.named_metrics import Innodb, Mountstats, PerformanceSchema
from volbench.core.records.sources import sources_with
from volbench.core.records.steps import step_kind
from volbench.results.explain import thresholds as limit
from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.cause_info import CauseInfo
from volbench.results.explain.evidence.device import VIEWS
from volbench.results.explain.rule import EXPLAINS_WAITS, METADATA, OUTSIDE, Rule
from volbench.results.explain.wording import number, percent, row
from volbench.results.stats.grid import Floats, mean

_COUNTERS = sources_with(Mountstats.metadata_await_ms.name, *VIEWS)

CAUSES = (
    CauseInfo(
        name="storage.metadata_latency",
        group="the volume is slow",
        title="Opening, creating and changing files is slow",
        panels=("await",),
        accounts_for=frozenset({"metadata of the volume", "queue of the volume", "writes of files"}),
        options=frozenset({"mode", "nfs", "vers"}),
        meaning="The time goes to round trips without data: open, close, lookup, create, rename.",
        signs=(
            "At least 40 % of the storage's time is metadata, as counted by the NFS client or the emulated"
            " volume, or by performance_schema for data files. Sequential throughput may be excellent at the same"
            " time."
        ),
        advice=(
            "Reduce round trips: a larger `table_open_cache`, fewer and larger files, block storage in place of"
            " a network file system."
        ),
    ),
)


@dataclass(frozen=True, kw_only=True)
class _Trips:
    """Round trips of a step: how many a second, seconds of theirs and of reads and writes in each second.

    `counted`: by the filesystem itself; else by the server, of its own files.
    """

    per_s: float
    seconds: float
    data_s: float
    counted: bool

    @property
    def each_ms(self) -> float:
        """Mean time of one."""
        return 1000 * self.seconds / self.per_s

    @property
    def share(self) -> float:
        """Of all time that operations take."""
        return self.seconds / (self.seconds + self.data_s)


def metadata_findings(case: Case) -> Iterator[Cause]:
    """One finding where most of the storage's time goes to round trips without data."""
    trips = _counted(case) or _of_the_server(case)
    streams = float(case.threads or 1)
    if trips is None or trips.share < limit.METADATA_SHARE_MIN or trips.seconds < limit.SHARE_MIN * streams:
        return
    checks = [True, trips.each_ms >= 1.0, True if trips.counted else None]
    text = f"{percent(trips.share)} of the storage's time is spent on metadata"
    cache = "a larger table_open_cache, " if step_kind(case.kind).file_io == "server" else ""
    noun = "opens, lookups and the like" if trips.counted else "opens and closes of data files, no syncs,"
    yield Cause(
        cause="storage.metadata_latency",
        decided_by="counted" if trips.counted else "level",
        window_s=case.window_s,
        share=min(1.0, trips.seconds / streams),
        of_clients=True,
        checks=tuple(checks),
        evidence=(
            row("metadata_share", trips.share, "1", text),
            row(
                "metadata_await_ms",
                trips.each_ms,
                "ms",
                f"{number(trips.per_s)} {noun} a second, {number(trips.each_ms)} ms each",
            ),
        ),
        advice=f"Fewer round trips: {cache}fewer and larger files, or block storage in place of a network"
        " filesystem.",
    )


def _counted(case: Case) -> _Trips | None:
    """As the NFS client or the emulated volume counts them."""
    device = case.device
    for source in _COUNTERS:
        rate = case.at(Mountstats.metadata_ops_per_s.of(source))
        waited = case.at(Mountstats.metadata_await_ms.of(source))
        if rate is None or waited is None or device is None or device.await_ms is None:
            continue
        return _trips(rate, rate * waited / 1000, device.iops * device.await_ms / 1000, counted=True)
    return None


def _of_the_server(case: Case) -> _Trips | None:
    """What performance_schema counts of data files beside reads and writes, where hardly any of it is an fsync.

    Its MISC holds open, close, stat and fsync alike; InnoDB counts the fsyncs of all its files.
    """
    columns = [
        case.at(metric, "data")
        for metric in (
            PerformanceSchema.file_syncs_per_s,
            PerformanceSchema.file_sync_s_per_s,
            PerformanceSchema.file_read_s_per_s,
            PerformanceSchema.file_write_s_per_s,
        )
    ]
    fsyncs = mean(case.at(Innodb.data_fsyncs_per_s))
    operations, seconds, reading, writing = columns
    if operations is None or seconds is None or reading is None or writing is None or fsyncs is None:
        return None
    if fsyncs > limit.METADATA_FSYNCS_MAX * (mean(operations) or 0.0):
        return None
    return _trips(operations, seconds, reading + writing, counted=False)


def _trips(rate: Floats, seconds: Floats, data_s: Floats, *, counted: bool) -> _Trips | None:
    """Means over the window; None without a round trip."""
    per_s, spent, data = (mean(np.nan_to_num(rates)) or 0.0 for rates in (rate, seconds, data_s))
    return _Trips(per_s=per_s, seconds=spent, data_s=data, counted=counted) if per_s > 0 and spent > 0 else None


RULES = (
    Rule(
        name=METADATA,
        causes=frozenset({"storage.metadata_latency"}),
        subject="volume",
        find=metadata_findings,
        yields_to=EXPLAINS_WAITS,
        yields_to_much=OUTSIDE,
    ),
)
