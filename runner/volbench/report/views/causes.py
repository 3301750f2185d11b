"""Causes as a report shows them: a heading in words, the confidence, and the chart that shows the cause."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from volbench.base.text import percent
from volbench.records.report import EvidenceRow, FindingRow

_TITLES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "storage.iops_limit": ("The volume is at its limit of operations per second", ("exceeded", "iops")),
    "storage.throughput_limit": ("The volume is at its limit of bytes per second", ("exceeded", "throughput_mib")),
    "storage.burst_exhausted": ("The volume's burst credits ran out", ("balance", "iops")),
    "storage.degraded": ("The volume became slower", ("await", "iops")),
    "storage.stall": ("The volume stalled", ("await", "queue", "throughput")),
    "storage.sync_latency": ("Commits wait for slow syncs of the volume", ("await", "fsync")),
    "storage.read_latency": ("Queries wait for slow reads from the volume", ("await",)),
    "storage.metadata_latency": ("Opening, creating and changing files is slow", ("await",)),
    "instance.storage_limit": ("The instance is at its limit for storage", ("exceeded", "iops")),
    "redo.checkpoint_stall": ("The redo log is full, and queries wait for its checkpoint", ("innodb",)),
    "memory.buffer_pool_small": ("The buffer pool is too small for the data in use", ("innodb", "iops")),
    "lock.row_contention": ("Queries wait for each other's row locks", ("throughput", "statement")),
    "cpu.client_saturated": ("The load generator has no CPU left", ("cpu", "pressure")),
    "cpu.server_saturated": ("The server has no CPU left", ("cpu", "pressure")),
    "cpu.steal": ("The hypervisor took CPU time away", ("cpu",)),
    "interference.backup": ("A backup slows the load down", ("throughput", "throughput_mib")),
    "interference.io": ("Something else reads or writes on the same disk", ("iops", "throughput_mib")),
    "host.io_limit": ("A limit above the volume throttles its operations", ("iops", "await")),
    "host.io_wait": ("Operations wait above the volume, on the host", ("await", "queue")),
    "none": ("The volume is not the problem", ("await", "cpu")),
}
"""Cause -> heading, and the panels that show it, the best first. A cause without an entry is shown by its name."""
_LIKELIHOODS = ((0.9, "very likely"), (0.7, "likely"), (0.4, "possible"), (0.0, "a hint only"))
CHECKS = "checks"
"""The metric of the evidence row that is the basis of a confidence."""


@dataclass(frozen=True, kw_only=True)
class CauseView:
    """A finding as a page shows it.

    Args:
        title: the heading.
        certainty: confidence and explained share in words with figures; empty where neither is known.
        facts: evidence that a reader can check.
        confidence_basis: evidence rows that the confidence was calculated from.
        panel: key of the chart that shows the cause; empty without one.
    """

    finding: FindingRow
    title: str
    certainty: str
    facts: tuple[EvidenceRow, ...]
    confidence_basis: tuple[EvidenceRow, ...]
    panel: str


def cause_view(finding: FindingRow, panels: Collection[str]) -> CauseView:
    """Return a finding for a page that has these panels (their keys)."""
    panel_keys = _TITLES[finding.cause][1] if finding.cause in _TITLES else ()
    return CauseView(
        finding=finding,
        title=cause_title(finding.cause),
        certainty=certainty(finding),
        facts=tuple(row for row in finding.evidence if row.metric != CHECKS),
        confidence_basis=tuple(row for row in finding.evidence if row.metric == CHECKS),
        panel=next((key for key in panel_keys if key in panels), ""),
    )


def cause_title(cause: str) -> str:
    """Return a cause in words; its name where it has no title."""
    return _TITLES[cause][0] if cause in _TITLES else cause


def certainty(finding: FindingRow) -> str:
    """Return `very likely (confidence 97 %); explains 63 % of the latency`, as far as both are known."""
    clauses = []
    if finding.confidence is not None:
        likelihood = next(likelihood for least, likelihood in _LIKELIHOODS if finding.confidence >= least)
        clauses.append(f"{likelihood} (confidence {percent(finding.confidence)})")
    if finding.share is not None:
        clauses.append(f"explains {percent(finding.share)} of the latency")
    return "; ".join(clauses)
