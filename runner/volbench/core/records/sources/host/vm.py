"""Source `vm`."""

from __future__ import annotations

from volbench.core.records.sources.info import SourceInfo, metric_table

_METRICS = metric_table(
    "",
    {
        "swap_in_pages_per_s": ("1/s", "pages read from swap"),
        "swap_out_pages_per_s": ("1/s", "pages written to swap"),
        "page_faults_per_s": ("1/s", "page faults"),
        "major_faults_per_s": ("1/s", "page faults that had to read"),
    },
)
SOURCE = SourceInfo(
    name="vm",
    role="host",
    text="The machine.",
    metrics=_METRICS,
)
