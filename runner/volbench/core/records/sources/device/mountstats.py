"""Source `mountstats`."""

from __future__ import annotations

from volbench.core.records.sources.info import METADATA, TRAFFIC, SourceInfo, metric_table

TIMED_OPERATIONS = {
    "READ": "r",
    "WRITE": "w",
    "COMMIT": "commit",
    "OPEN": "open",
    "CLOSE": "close",
    "GETATTR": "getattr",
    "LOOKUP": "lookup",
}
"""Operations whose waiting time is shown by itself, with the prefix of their metrics."""
_METRICS = metric_table(
    "",
    {
        **TRAFFIC,
        "commits_per_s": ("1/s", "COMMIT operations"),
        **{
            f"{prefix}_{kind}_ms": (
                "ms",
                f"mean time of {'READ and READ_PLUS' if name == 'READ' else name}, {text}; absent without one",
            )
            for name, prefix in TIMED_OPERATIONS.items()
            for kind, text in (("await", "with the client's queue"), ("rtt", "network and server alone"))
        },
        **METADATA,
        "unknown_ops_per_s": ("1/s", "operations of kinds that volbench does not know; absent without one"),
        "retransmissions_per_s": ("1/s", "requests sent again"),
        "errors_per_s": ("1/s", "operations that ended with an error (statvers 1.1)"),
        "transport_in_flight": ("1", "mean number of requests on the wire when one was sent"),
        "transport_backlog": ("1", "mean number of requests waiting for a slot when one was sent"),
    },
)
SOURCE = SourceInfo(
    name="mountstats",
    role="device",
    text="The NFS client. Mounts of one server may share connections, so transport counters may include other "
    "mounts.",
    metrics=_METRICS,
    view="files",
)
