"""Source `progress`."""

from __future__ import annotations

from volbench.core.records.sources.info import SourceInfo, metric_table

_METRICS = metric_table(
    "",
    {
        "standstill_ms_max": (
            "ms",
            "longest time, at least, in which no statement began while others were running; 0 for none",
        ),
        "statements_begun_per_s": ("1/s", "statements that sessions began, ours not counted"),
    },
)
SOURCE = SourceInfo(
    name="progress",
    role="server",
    text="The server's count of statements, asked ten times a second by COM_STATISTICS on a connection of its own:"
    " a standstill of half a second shows between two ticks. Only of a server that is in use and keeps no histogram"
    " of statement times (MariaDB); a histogram tells the slowest statement.",
    metrics=_METRICS,
    sampled=False,
)
