"""Of two limits that one stretch may be at, the one that the rest of the recording refutes.

A stretch at which operations and bytes are constant is at a limit of either. Where the volume served more
operations at other times, and never more bytes, it is a limit of bytes. Where it served more of both, a limit began
or ended, which refutes none; unless its queue was longer there, since at a limit a longer queue brings nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from volbench.core.base.text import counted, percent
from volbench.core.records.report import FindingRow
from volbench.results.explain.calibration import ONE_OF_TWO_MAX, SECOND_MAX
from volbench.results.explain.case import Case
from volbench.results.explain.evidence.device import RESOURCES, Device, Resource, device_of
from volbench.results.explain.evidence.instance_figures import may_be_ec2, types_near
from volbench.results.explain.recordings.remarks import slot_queue
from volbench.results.explain.rules.advice import raise_limit_advice
from volbench.results.explain.rules.volume.instance_figure import ADVICE, DECIDE
from volbench.results.explain.rules.volume.instance_figure import NAME as _INSTANCE
from volbench.results.explain.wording import amount
from volbench.results.explain.wording import row as row_of
from volbench.results.stats.grid import Floats, median

LIMITS: dict[str, Resource] = {"storage.iops_limit": "iops", "storage.throughput_limit": "throughput"}
_BURST = "storage.burst_exhausted"
ABOVE = 1.1
"""How many times a named limit the volume must have served elsewhere: a meter's tolerance is less."""
SAMPLES_MIN = 3
"""Intervals in which it must have served so much: one may hold a burst of the meter's own bucket."""
TYPES_SHOWN = 3
"""Types of instances that are named of those whose figure a level lies at."""
_ONE_OF_TWO = ", and it is one of two"
_ALONE = ", and the rest of the recording refutes the other limit that it might be"
LONGER = 1.5
"""Times that a queue is longer which brings more: of noise, queues of one load differ by less."""
TOGETHER = 0.8
"""Of the longer one's time: the part that two findings of one stretch share at least."""
IDLE_BELOW = 0.9
"""Utilisation of a member of an array below which it had time in which nothing was asked of it."""


def without_refuted(
    rows: Iterable[FindingRow], case: Case, *, is_member: bool
) -> tuple[tuple[FindingRow, ...], tuple[str, ...]]:
    """The findings without limits that the recording refutes, and notes on those.

    Args:
        rows: findings of a recording.
        case: all of the recording.
        is_member: whether it is taken for an array whose own times are not counted.

    Nothing is refuted where credits ran out: what the volume served before that was a burst.
    """
    findings, device, t_s = tuple(rows), device_of(case.cell_grid, case.disk), case.cell_grid.t_s
    if device is None or any(row.cause == _BURST for row in findings):
        return findings, ()
    reasons = [_reason(row, device, t_s, is_member=is_member) for row in findings]
    limits = [reason for row, reason in zip(findings, reasons, strict=True) if row.cause in LIMITS]
    if not is_member and (len(limits) < len(LIMITS) or all(limits)):
        reasons = [
            reason if _is_longer_queue(row, device, t_s) else ""
            for row, reason in zip(findings, reasons, strict=True)
        ]
    notes = [reason for reason in reasons if reason]
    refuted = [row for row, reason in zip(findings, reasons, strict=True) if reason]
    remaining = [row for row, reason in zip(findings, reasons, strict=True) if not reason]
    if refuted and not is_member:
        remaining = [_as_only_one(row, refuted, case) for row in remaining]
    return tuple(remaining), tuple(notes)


def with_instance(rows: Iterable[FindingRow], case: Case) -> tuple[FindingRow, ...]:
    """The findings, with the instance's limit where they are of bytes only and the instance's type is not known.

    EC2 limits the bytes of an instance below those of its volumes; the types whose figure the level is are told.
    """
    findings, device = tuple(rows), device_of(case.cell_grid, case.disk)
    limits = [row for row in findings if row.cause in (*LIMITS, _INSTANCE)]
    level = None if len(limits) != 1 else _level(limits[0], "throughput")
    if level is None or case.instance or device is None or not may_be_ec2(device) or is_counted(limits[0]):
        return findings
    near = [*types_near("throughput", level)]
    if not near:
        return findings
    examples = ", ".join(f"{figure.instance} ({figure.text})" for figure in near[:TYPES_SHOWN])
    text = (
        f"whether the volume or the instance gives no more is not known, and neither is the instance's type:"
        f" {amount(level, 'throughput')} is at a limit of {counted(len(near), 'type')} of EC2, such as {examples};"
        " --instance states it"
    )
    (of_volume,) = limits
    candidate = of_volume.model_copy(
        update={
            "cause": _INSTANCE,
            "confidence": min(of_volume.confidence or 0.0, SECOND_MAX),
            "evidence": (row_of("instance_figure", level, "MiB/s", text), DECIDE, *of_volume.evidence),
            "advice": ADVICE,
        }
    )
    less = of_volume.model_copy(update={"confidence": min(of_volume.confidence or 0.0, ONE_OF_TWO_MAX)})
    position = findings.index(of_volume)
    return (*findings[:position], less, candidate, *findings[position + 1 :])


def _are_together(first: FindingRow, second: FindingRow) -> bool:
    """Whether two findings are about one stretch, whose ends operations and bytes may show an interval apart."""
    if first.window_s is None or second.window_s is None:
        return False
    shared = min(first.window_s[1], second.window_s[1]) - max(first.window_s[0], second.window_s[0])
    return shared >= TOGETHER * max(end - begin for begin, end in (first.window_s, second.window_s))


def _stated(row: FindingRow) -> Resource | None:
    """What a finding of the instance is about; None where its counters name it."""
    return next((name for item in row.evidence for name in RESOURCES if item.metric == name), None)


def with_slots(rows: Iterable[FindingRow], case: Case) -> tuple[FindingRow, ...]:
    """The findings, with limits of an NFS mount as one of two where its operations wait in the client for a slot.

    A fixed number of slots over a constant time is a constant rate, which is no limit of the file system.
    """
    queued = slot_queue(case)
    if not queued:
        return tuple(rows)
    doubt = row_of(
        "one_of_two", "limit or slots", "1", f"{queued}; as many slots make as even a rate: one of the two"
    )
    return tuple(
        row.model_copy(
            update={
                "confidence": min(row.confidence or 0.0, SECOND_MAX),
                "evidence": (*row.evidence, doubt),
                "advice": f"Give the client more slots or connections first. Then, if the rate stays: {row.advice}",
            }
        )
        if row.cause in LIMITS
        else row
        for row in rows
    )


def is_counted(row: FindingRow) -> bool:
    """Whether a counter or a configured limit decides a finding."""
    return any(item.metric == "decided_by" and str(item.value).startswith("counted") for item in row.evidence)


def _level(row: FindingRow, resource: Resource) -> float | None:
    values = (item.value for item in row.evidence if item.metric == resource)
    return next((float(value) for value in values if isinstance(value, int | float)), None)


def _reason(row: FindingRow, device: Device, t_s: Floats, *, is_member: bool) -> str:
    """Why a finding is refuted; empty where it is not."""
    resource = LIMITS.get(row.cause) or (_stated(row) if row.cause == _INSTANCE else None)
    level = None if resource is None else _level(row, resource)
    carried = None if resource is None else device.carried(resource)
    if resource is None or carried is None or level is None or row.window_s is None:
        return ""
    inside = (t_s > row.window_s[0]) & (t_s <= row.window_s[1])
    busy = None if device.util is None else median(device.util[inside])
    if is_member and busy is not None and busy < IDLE_BELOW:
        return f"{device.entity}, a member of an array, was busy {percent(busy)} of the time: it is at no limit"
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


def _is_longer_queue(row: FindingRow, device: Device, t_s: Floats) -> bool:
    """Whether the volume served more elsewhere with a longer queue: then what it served here was no limit.

    With a queue that is no longer, a limit that began or ended looks so.
    """
    resource = LIMITS.get(row.cause)
    level = None if resource is None else _level(row, resource)
    carried = None if resource is None else device.carried(resource)
    if level is None or carried is None or device.in_flight is None or row.window_s is None:
        return False
    inside = (t_s > row.window_s[0]) & (t_s <= row.window_s[1])
    more = ~inside & (carried > ABOVE * level)
    queue, queue_with_more = median(device.in_flight[inside]), median(device.in_flight[more])
    return queue is not None and queue_with_more is not None and queue_with_more >= LONGER * queue


def _as_only_one(row: FindingRow, refuted: Iterable[FindingRow], case: Case) -> FindingRow:
    """A limit of which the other kind is refuted: it has the confidence of both, and is no longer one of two."""
    confidences = [item.confidence or 0.0 for item in refuted if _are_together(item, row)]
    resource = _stated(row)
    level = None if resource is None else _level(row, resource)
    if row.cause not in (*LIMITS, _INSTANCE) or not confidences or resource is None or level is None:
        return row
    evidence = tuple(
        item.model_copy(update={"text": item.text.split(_ONE_OF_TWO)[0] + _ALONE})
        if item.metric == "checks"
        else item
        for item in row.evidence
        if item.metric != "size_kib" and not (item.metric == "decide" and "fio" in item.text)
    )
    if row.cause == _INSTANCE:
        return row.model_copy(update={"evidence": evidence})
    confidence = max(row.confidence or 0.0, *confidences)
    advice = raise_limit_advice(case, resource, level)
    return row.model_copy(update={"confidence": confidence, "evidence": evidence, "advice": advice})
