"""Of two limits that one stretch may be at, the one that the rest of the recording refutes.

A stretch at which operations and bytes are constant is at a limit of either. Where the volume served more
operations at other times, and never more bytes, it is a limit of bytes. Where it served more of both, a limit began
or ended: that refutes none.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from volbench.core.records.report import FindingRow
from volbench.results.explain.evidence.device import Device, Resource
from volbench.results.explain.wording import amount
from volbench.results.stats.grid import Floats, median

_LIMITS: dict[str, Resource] = {"storage.iops_limit": "iops", "storage.throughput_limit": "throughput"}
_BURST = "storage.burst_exhausted"
ABOVE = 1.1
"""How many times a named limit the volume must have served elsewhere: a meter's tolerance is less."""
SAMPLES_MIN = 3
"""Intervals in which it must have served so much: one may hold a burst of the meter's own bucket."""
IDLE_BELOW = 0.9
"""Utilisation of a member of an array below which it had time in which nothing was asked of it."""


def without_refuted(
    rows: Iterable[FindingRow], device: Device | None, t_s: Floats, *, is_member: bool
) -> tuple[tuple[FindingRow, ...], tuple[str, ...]]:
    """The findings without limits that the recording refutes, and notes on those.

    Args:
        rows: findings of a recording.
        device: the volume over all of the recording.
        t_s: ends of its intervals, shape (buckets,).
        is_member: whether it is taken for an array whose own times are not counted.

    Nothing is refuted where credits ran out: what the volume served before that was a burst.
    """
    findings = tuple(rows)
    if device is None or any(row.cause == _BURST for row in findings):
        return findings, ()
    reasons = [_reason(row, device, t_s, is_member=is_member) for row in findings]
    limits = [reason for row, reason in zip(findings, reasons, strict=True) if row.cause in _LIMITS]
    if not is_member and (len(limits) < len(_LIMITS) or all(limits)):
        return findings, ()
    notes = [reason for reason in reasons if reason]
    refuted = [row for row, reason in zip(findings, reasons, strict=True) if reason]
    kept = [row for row, reason in zip(findings, reasons, strict=True) if not reason]
    if refuted and not is_member:
        kept = [_as_only_one(row, refuted) for row in kept]
        if any(row.cause in _LIMITS for row in kept):
            notes.append("the limit that is left may be the volume's or the instance's (instance.storage_limit)")
    return tuple(kept), tuple(notes)


def _reason(row: FindingRow, device: Device, t_s: Floats, *, is_member: bool) -> str:
    """Why a finding is refuted; empty where it is not."""
    resource = _LIMITS.get(row.cause)
    level = next((one.value for one in row.evidence if one.metric == resource), None)
    carried = None if resource is None else device.carried(resource)
    if resource is None or carried is None or not isinstance(level, float) or row.window_s is None:
        return ""
    inside = (t_s > row.window_s[0]) & (t_s <= row.window_s[1])
    busy = None if device.util is None else median(device.util[inside])
    if is_member and busy is not None and busy < IDLE_BELOW:
        return f"{device.entity}, a member of an array, was busy {busy:.0%} of the time: it is at no limit"
    if is_member:
        return ""
    elsewhere = np.sort(carried[~inside & np.isfinite(carried)])
    most = float(elsewhere[-SAMPLES_MIN]) if len(elsewhere) >= SAMPLES_MIN else 0.0
    if most <= ABOVE * level:
        return ""
    return (
        f"{amount(level, resource)} is no limit: the volume served {amount(most, resource)} at other times of the"
        " same recording"
    )


def _as_only_one(row: FindingRow, refuted: Iterable[FindingRow]) -> FindingRow:
    """A limit of which the other kind is refuted: it has the confidence of both, and is no longer one of two."""
    others = [one.confidence or 0.0 for one in refuted if one.window_s == row.window_s]
    if row.cause not in _LIMITS or not others:
        return row
    evidence = tuple(one for one in row.evidence if "it is one of the two" not in one.text)
    return row.model_copy(update={"confidence": max(row.confidence or 0.0, *others), "evidence": evidence})
