"""Limits of a recording that something before the volume may make as well: clients that send at an even rate.

A rate that stays the same whatever waits is a meter's, and a meter may be anywhere: a client with a rate of its own
(`pv -L`, `fio --rate_iops`, xtrabackup's --throttle), InnoDB's page cleaner (innodb_io_capacity). What tells the
volume's meter is that operations wait for it: one of them is in flight nearly all the time, they take longer than
without a queue, or fewer of them are done than before.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from volbench.core.base.text import percent
from volbench.core.records.report import FindingRow
from volbench.results.explain import thresholds as limit
from volbench.results.explain.calibration import SECOND_MAX
from volbench.results.explain.case import Case
from volbench.results.explain.evidence.device import Device, device_of
from volbench.results.explain.recordings.exceeded_limits import LIMITS, is_counted
from volbench.results.explain.wording import number
from volbench.results.explain.wording import row as row_of
from volbench.results.stats.grid import Mask, median

IDLE_BELOW = 0.8
"""Share of the time with an operation in flight, below which no limit held any back. At the limits of 30 recordings
of the lab it was 0.94 to 1."""
TICKED_MIN = 1000.0
"""Operations a second from which on that share is counted right: Linux 5.0 to 5.6 count a tick (at most 1,000 a
second) only where an operation begins or ends (update_io_ticks of block/blk-core.c)."""
SAME_RATE = 0.1
"""How much of a level the rate before it may be off: then as many operations were asked for."""
_EVEN = frozenset({"regularity", "evenness"})


def without_idle(rows: Iterable[FindingRow], case: Case) -> tuple[tuple[FindingRow, ...], tuple[str, ...]]:
    """The findings without limits of a device that often had nothing to do, and notes on those."""
    findings, device = tuple(rows), device_of(case.cell_grid, case.disk)
    reasons = ["" if device is None else _idle(row, device, _inside(row, case)) for row in findings]
    remaining = tuple(row for row, reason in zip(findings, reasons, strict=True) if not reason)
    return remaining, tuple(dict.fromkeys(reason for reason in reasons if reason))


def with_doubts(rows: Iterable[FindingRow], case: Case) -> tuple[FindingRow, ...]:
    """The findings, with limits as questions where clients or a slower volume make the same figures."""
    device = device_of(case.cell_grid, case.disk)
    if device is None:
        return tuple(rows)
    return tuple(_doubted(row, device, _inside(row, case)) for row in rows)


def _inside(row: FindingRow, case: Case) -> Mask:
    t_s, (begin_s, end_s) = case.cell_grid.t_s, row.window_s or (-np.inf, np.inf)
    return (t_s > begin_s) & (t_s <= end_s)


def _idle(row: FindingRow, device: Device, inside: Mask) -> str:
    busy = None if device.util is None else median(device.util[inside])
    rate = median(device.iops[inside])
    if row.cause not in LIMITS or is_counted(row) or busy is None or busy >= IDLE_BELOW:
        return ""
    if rate is None or rate < TICKED_MIN:
        return ""
    return (
        f"{number(rate)} operations/s are no limit of {device.entity}: in {percent(1 - busy)} of the time none was"
        " in flight, so that none waited for a limit; what asks for them has this rate"
    )


def _doubted(row: FindingRow, device: Device, inside: Mask) -> FindingRow:
    doubt = (
        ""
        if row.cause not in LIMITS or is_counted(row)
        else _quick(row, device, inside) or _slower(row, device, inside)
    )
    if not doubt:
        return row
    return row.model_copy(
        update={
            "confidence": min(row.confidence or 0.0, SECOND_MAX),
            "evidence": (*row.evidence, row_of("one_of_two", "limit or not", "1", doubt)),
            "advice": f"First find out whether it is a limit: load the volume with fio. Then: {row.advice}",
        }
    )


def _quick(row: FindingRow, device: Device, inside: Mask) -> str:
    """Few and quick operations: nothing says that they wait."""
    waits, queue = (
        None if values is None else median(values[inside]) for values in (device.await_ms, device.in_flight)
    )
    if waits is None or queue is None or waits >= limit.READ_SLOW_MS or queue >= limit.QUEUE_MIN:
        return ""
    if any(item.metric == "inflation" for item in row.evidence):
        return ""
    return (
        f"{number(queue)} operations in flight that take {number(waits)} ms need not wait for anything: clients"
        " that send at an even rate make the same figures"
    )


def _slower(row: FindingRow, device: Device, inside: Mask) -> str:
    """As many operations as were asked for before, at no meter's pace: each takes longer."""
    if device.in_flight is None or device.await_ms is None or any(item.metric in _EVEN for item in row.evidence):
        return ""
    before = np.zeros_like(inside)
    first = int(np.flatnonzero(inside)[0]) if inside.any() else 0
    before[:first] = device.in_flight[:first] < limit.FEW_MIN
    if int(before.sum()) < limit.PLATEAU_SAMPLES_MIN:
        return ""
    rate, rate_before = median(device.iops[inside]), median(device.iops[before])
    waits, waits_before = median(device.await_ms[inside]), median(device.await_ms[before])
    if not rate or not rate_before or not waits or not waits_before or abs(rate / rate_before - 1) > SAME_RATE:
        return ""
    return (
        f"as many operations were done before, {number(rate_before)}/s at {number(waits_before)} ms each: a volume"
        f" that became slower makes the same figures, one operation of it takes {number(waits)} ms"
    )
