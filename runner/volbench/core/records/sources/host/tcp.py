"""Source `tcp`."""

from __future__ import annotations

from volbench.core.records.sources.info import SourceInfo, metric_table

_METRICS = metric_table(
    "",
    {
        "segments_sent_per_s": ("1/s", "segments sent, without those that were sent again"),
        "retransmitted_per_s": ("1/s", "segments sent again"),
        "timeouts_per_s": ("1/s", "waits for an acknowledgement that ended by the retransmission timeout"),
        "probed_losses_per_s": ("1/s", "losses of a last segment that a probe found and repaired"),
    },
)
SOURCE = SourceInfo(
    name="tcp",
    role="host",
    text="TCP of the client's machine, all its connections, without what a remote machine sends again. "
    "Only of servers that are attached over TCP.",
    metrics=_METRICS,
)
