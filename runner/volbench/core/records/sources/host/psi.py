"""Source `psi`."""

from __future__ import annotations

from volbench.core.records.sources.info import SourceInfo, metric_table

_METRICS = metric_table(
    "",
    {
        f"{resource}_{kind}_ratio": ("1", f"share of time in which {who} waited for {resource}")
        for resource in ("cpu", "io", "memory")
        for kind, who in (("some", "at least one task"), ("full", "all tasks"))
    },
)
SOURCE = SourceInfo(
    name="psi",
    role="host",
    text="Shares of time in which something waited; entity `server`: only in its control group, if that is "
    "version 2.",
    metrics=_METRICS,
)
