"""Causes as a reader meets them: a heading in words, how sure it is, and the chart that shows it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from volbench.records.report import EvidenceRow, FindingRow

_TITLES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "storage.iops_limit": ("The volume is at its limit of operations per second", ("exceeded", "iops")),
    "storage.throughput_limit": ("The volume is at its limit of bytes per second", ("exceeded", "throughput_mib")),
    "storage.burst_exhausted": ("The volume's burst credits ran out", ("balance", "iops")),
    "storage.degraded": ("The volume became slower", ("await", "iops")),
    "storage.stall": ("The volume stood still for a while", ("await", "queue", "throughput")),
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
    "interference.backup": ("A backup beside the load slows it down", ("throughput", "throughput_mib")),
    "interference.io": ("Something else reads or writes on the same disk", ("iops", "throughput_mib")),
    "host.io_limit": ("A limit above the volume holds its operations back", ("iops", "await")),
    "host.io_wait": ("Operations wait above the volume, on the host", ("await", "queue")),
    "none": ("The volume is not the problem", ("await", "cpu")),
}
"""Cause -> its heading, and the panels that show it, the best first. A cause that is not here goes by its name."""
_WORDS = ((0.9, "very likely"), (0.7, "likely"), (0.4, "possible"), (0.0, "a hint only"))
CHECKS = "checks"
"""The metric of the evidence row that a confidence rests on."""


@dataclass(frozen=True, kw_only=True)
class ShownCause:
    """A finding as a page shows it.

    Args:
        title: the heading.
        certainty: how sure it is and how much it explains, in words with figures; empty where neither is known.
        facts: evidence that a reader can check.
        rests_on: what the confidence rests on.
        panel: key of the chart that shows it; empty where there is none.
    """

    finding: FindingRow
    title: str
    certainty: str
    facts: tuple[EvidenceRow, ...]
    rests_on: tuple[EvidenceRow, ...]
    panel: str


def shown_cause(finding: FindingRow, panels: Collection[str]) -> ShownCause:
    """Return a finding for a page that has these panels (their keys)."""
    wanted = _TITLES[finding.cause][1] if finding.cause in _TITLES else ()
    return ShownCause(
        finding=finding,
        title=cause_title(finding.cause),
        certainty=certainty(finding),
        facts=tuple(row for row in finding.evidence if row.metric != CHECKS),
        rests_on=tuple(row for row in finding.evidence if row.metric == CHECKS),
        panel=next((key for key in wanted if key in panels), ""),
    )


def cause_title(cause: str) -> str:
    """Return a cause in words; its name where there are none."""
    return _TITLES[cause][0] if cause in _TITLES else cause


def certainty(finding: FindingRow) -> str:
    """Return `very likely (confidence 97 %); explains 63 % of the latency`, as far as it is known."""
    parts = []
    if finding.confidence is not None:
        word = next(word for least, word in _WORDS if finding.confidence >= least)
        parts.append(f"{word} (confidence {100 * finding.confidence:.0f} %)")
    if finding.share is not None:
        parts.append(f"explains {100 * finding.share:.0f} % of the latency")
    return "; ".join(parts)
