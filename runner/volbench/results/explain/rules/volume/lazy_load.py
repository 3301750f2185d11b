"""The rule that names a volume made from a snapshot, whose blocks are fetched when they are first touched.

A read of a block that was never touched waits for its fetch, a read of one that was does not. With N blocks read at
random, the share that was not touched falls as exp(-reads / N): the mean read becomes faster little by little,
while the load goes on. Writes of the same volume are fast all the time. That tells it from a limit or spent credits
(writes wait in the same queue), from a cold buffer pool on a sound volume (its reads are fast, or become fewer),
from a part of the volume that is slow (its reads stay slow, or end at once), and from a volume that recovers (its
reads become faster with time, not with reads: `first_touch`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from volbench.core.records.report import EvidenceRow
from volbench.core.records.steps import step_kind
from volbench.results.explain import thresholds as limit
from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.cause_info import CauseInfo
from volbench.results.explain.evidence.device import Device
from volbench.results.explain.evidence.first_touch import PAST_FALL, Indices, ReadFall, read_fall
from volbench.results.explain.rule import CACHE_TAKEN, LAZY_LOAD, Rule
from volbench.results.explain.rules.shared_evidence import context
from volbench.results.explain.wording import number, percent, row
from volbench.results.stats.grid import Floats, median

SAMPLES_MIN = 12
"""Intervals with reads: thirds of fewer have no median."""
READ_SLOW_MS = 5.0
"""Of a read at first: a network SSD answers in 0.5 to 2 ms, and a fetch from object storage takes 10 and more."""
WRITE_TIMES = 3.0
"""How many times a write's time a read takes at first; behind one queue both wait alike."""
FALL_MAX = 0.6
"""Of a read's time at first: what is left of it in the last third."""
STEP_MAX = 0.6
"""Of the whole fall (of the logarithm): more of it between two neighbouring stretches is a step."""
STRETCHES = 6
RISE_MIN = 1.2
"""Times the reads a second of the first third. A limit of reads keeps its rate while its queue shortens."""
SHORT_QUEUE = 2.0
"""Reads in flight up to which there is no queue that could become shorter."""
BALANCE_MIN = 20.0
"""Percent of burst credits that are left: far from empty."""
WORK_MIN = 1.0
"""Operations a second; fewer are no interval of work."""
SIZE_TIMES_MAX = 2.0
"""Times the size of a later read that one at first may have: larger ones take longer anywhere."""


CAUSES = (
    CauseInfo(
        name="storage.lazy_load",
        claims=frozenset({"latency", "at the device"}),
        contradicts=frozenset({"storage.read_latency", "storage.degraded"}),
        group="the volume is slow",
        title="Blocks of a restored volume are loaded when they are first read",
        panels=("await", "iops"),
        accounts_for=frozenset({"reads of the volume", "queue of the volume"}),
        is_change=True,
        explains_fall=True,
        meaning=(
            "The volume was made from a snapshot, and each block is fetched when it is first touched. Reads are"
            " slow until all that the load needs has been touched."
        ),
        signs=(
            "A read takes at least 5 ms and 3 times as long as a write of the same time at first; after that at"
            " most 60 % of it, by a fall that is gradual: no step has more than 60 % of it. The volume then gives"
            " at least 1.2 times as many reads a second, or had fewer than two in flight: a limit would do neither."
            " Where the load reads more as reads become faster, the fall follows the reads, not the time: both"
            " halves of it take about as many reads, the second one less time. A volume that recovers by itself"
            " seldom does so, nor does a load that reads few blocks again and again: neither is named then. Burst"
            " credits, where they are known, are above 20 %. A scan that reads each block once has no second read"
            " to compare with, and is not named. A cache below the volume that fills looks the same."
        ),
        advice=(
            "Read every block once before the load comes (fio or dd over the device), enable fast snapshot restore"
            " or an initialisation rate, or load the buffer pool from a dump of it. The emulated profile"
            " `snapshot-lazy-load` shows what a load makes of such a volume."
        ),
    ),
)


@dataclass(frozen=True, kw_only=True)
class _Fall:
    """Reads at first and after their fall: their time, and how many a second; a write's time at first."""

    before_ms: float
    after_ms: float
    before_per_s: float
    after_per_s: float
    write_ms: float
    course: ReadFall | None


def lazy_load_findings(case: Case) -> Iterator[Cause]:
    """Yield the finding where reads become fast little by little under writes that were fast all the time."""
    device = case.device
    if device is None or device.reads is None or device.r_await_ms is None:
        return
    fall = _fall(device, device.reads, device.r_await_ms)
    if fall is None or _has_queue(fall):
        return
    balance = case.balance_percent
    left = None if balance is None or not np.isfinite(balance).any() else float(np.nanmin(balance))
    if left is not None and left < BALANCE_MIN:
        return
    share = case.storage_share
    if share is not None and share < limit.SHARE_MIN:
        return
    yield Cause(
        cause="storage.lazy_load",
        window_s=case.window_s,
        share=share,
        checks=(
            True,
            fall.after_per_s >= RISE_MIN * fall.before_per_s or None,
            left is not None or None,
            None if fall.course is None else fall.course.follows_reads,
        ),
        evidence=(*_rows(fall, left, case.grid.width_s), *context(case)),
        advice=(
            "Read every block once before the load comes (fio or dd over the device), enable fast snapshot restore"
            " or an initialisation rate"
            + (", or load the buffer pool from a dump of it." if step_kind(case.kind).has_statements else ".")
        ),
    )


def _rows(fall: _Fall, left: float | None, width_s: float) -> Iterator[EvidenceRow]:
    """Yield what shows it.

    Args:
        fall: of the reads.
        left: least percent of burst credits; None: not known.
        width_s: of an interval.
    """
    text = (
        f"a read takes {number(fall.before_ms)} ms at first and {number(fall.after_ms)} ms later, a write"
        f" {number(fall.write_ms)} ms at first: reads become faster little by little, as blocks are touched"
    )
    yield row("r_await_ms", fall.before_ms, "ms", text)
    rates = (
        f"the volume gives {number(fall.before_per_s)} reads/s at first and {number(fall.after_per_s)} later:"
        " no limit holds them back"
    )
    yield row("reads_per_s", fall.after_per_s, "1/s", rates)
    if fall.course is not None and fall.course.follows_reads:
        halves = " and ".join(
            f"{number(half.reads * width_s)} reads in {number(half.intervals * width_s)} s"
            for half in (fall.course.first, fall.course.second)
        )
        text = f"both halves of the fall take {halves}: it follows the reads, not the time"
        yield row("reads_times", fall.course.reads_times, "1", text)
    if left is not None:
        yield row("balance_percent", left, "%", f"at least {percent(left / 100)} of the burst credits are left")


def _has_queue(fall: _Fall) -> bool:
    """Return whether a queue that became shorter explains the fall: as many reads as before, behind a limit."""
    queued = fall.before_per_s * fall.before_ms / 1000 >= SHORT_QUEUE
    return queued and fall.after_per_s < RISE_MIN * fall.before_per_s


def _fall(device: Device, reads: Floats, await_ms: Floats) -> _Fall | None:
    """Return how reads became faster; None where they did not, not by touching blocks, or writes were slow too."""
    all_used = np.flatnonzero(np.isfinite(await_ms) & np.isfinite(reads) & (reads >= WORK_MIN))
    if len(all_used) < SAMPLES_MIN or device.writes is None or device.w_await_ms is None:
        return None
    course = read_fall(await_ms[all_used], reads[all_used])
    used = all_used if course is None else all_used[: max(SAMPLES_MIN, round(PAST_FALL * course.intervals))]
    thirds = np.array_split(used, 3)
    first, last = thirds[0], thirds[2]
    before_ms, after_ms = median(await_ms[first]), median(await_ms[last])
    writing = first[np.nan_to_num(device.writes[first]) >= WORK_MIN]
    write_ms = median(device.w_await_ms[writing]) if len(writing) else None
    if before_ms is None or after_ms is None or not write_ms:
        return None
    if before_ms < max(READ_SLOW_MS, WRITE_TIMES * write_ms) or after_ms > FALL_MAX * before_ms:
        return None
    if not _is_by_touch(await_ms, all_used, course) or _became_smaller(device, reads, first, last):
        return None
    return _Fall(
        before_ms=before_ms,
        after_ms=after_ms,
        before_per_s=median(reads[first]) or 0.0,
        after_per_s=median(reads[last]) or 0.0,
        write_ms=write_ms,
        course=course,
    )


def _is_by_touch(await_ms: Floats, used: Indices, course: ReadFall | None) -> bool:
    """Return whether the fall is gradual, and time does not explain it better than reads do."""
    if course is None:
        return _is_gradual(await_ms, used)
    return course.follows_reads is not False and (course.is_even or _is_gradual(await_ms, used))


def _is_gradual(await_ms: Floats, used: Indices) -> bool:
    """Return whether the fall goes over several stretches of the step, each one faster than the one before."""
    levels = np.log([median(await_ms[stretch]) or 1e-3 for stretch in np.array_split(used, STRETCHES)])
    falls = -np.diff(levels)
    total = float(levels[0] - levels[-1])
    return total > 0 and float(falls.max()) <= STEP_MAX * total and int((falls > 0).sum()) >= STRETCHES - 2


def _became_smaller(device: Device, reads: Floats, first: Indices, last: Indices) -> bool:
    """Return whether a read at first was much larger than a later one: it takes longer on any volume."""
    if device.read_mib_per_s is None:
        return False
    before, after = (median(device.read_mib_per_s[intervals] / reads[intervals]) for intervals in (first, last))
    return bool(before and after and before > SIZE_TIMES_MAX * after)


RULES = (
    Rule(
        name=LAZY_LOAD,
        causes=frozenset({"storage.lazy_load"}),
        subject="volume",
        find=lazy_load_findings,
        yields_to=frozenset({CACHE_TAKEN}),
    ),
)
