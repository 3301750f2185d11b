"""Source `round_trip`."""

from __future__ import annotations

from volbench.core.records.sources.info import SourceInfo, metric_table

_METRICS = metric_table(
    "",
    {
        "round_trip_ms_min": ("ms", "shortest round trip of the interval: the distance to the server"),
        "round_trip_ms": ("ms", "mean round trip"),
        "round_trip_ms_max": ("ms", "longest round trip that ended"),
        "round_trips_per_s": ("1/s", "round trips that ended, ten at most"),
    },
)
SOURCE = SourceInfo(
    name="round_trip",
    role="server",
    text="An empty statement on a connection of its own, ten times a second, as the load's clients send theirs: "
    "network, server and waiting for a CPU on both sides. Only of servers that are attached over TCP.",
    metrics=_METRICS,
)
