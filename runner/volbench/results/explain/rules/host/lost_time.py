"""Time that operations of the server lose above the device, layer by layer (`evidence.layers`)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from volbench.core.records.steps import step_kind
from volbench.results.explain import thresholds as limit
from volbench.results.explain.case import Case
from volbench.results.explain.evidence.device import Direction
from volbench.results.explain.evidence.foreign import SPLIT_MIB
from volbench.results.explain.evidence.layers import LOGS, Flow, device_flow, flush_ms, server_flow, time_above_ms
from volbench.results.explain.evidence.processors import CELL, task_use
from volbench.results.explain.rules.log_waits import hidden_commit_share
from volbench.results.stats.grid import mean

MOSTLY = 0.9
"""Of a step's operations: with fewer in one direction, its streams are in both."""
STREAMS_ABOVE_MIN = 0.5
"""Of the streams' time: as much must be accounted for before the volume is acquitted."""


@dataclass(frozen=True, kw_only=True)
class LostTime:
    """Time that operations of the server lose above the device.

    Args:
        direction: of the operations at the device; syncs are writes there.
        noun: of one operation, as a report says it.
        upper, lower: the same operations in the server and at the device.
        each_ms, below_ms: time of one in the server, and what the device takes for its work.
        above_ms: the difference, at least.
        share: of statement time; None: not known.
        who: whose operations they are, as a report says it.
    """

    direction: Direction
    noun: str
    upper: Flow
    lower: Flow
    each_ms: float
    below_ms: float
    above_ms: float
    share: float | None
    who: str = "the server"


def lost_of_streams(case: Case, direction: Direction) -> LostTime | None:
    """Time that a step's own streams lose above the device; None where they lose little, or it is not known.

    Each stream of fio has one operation under way at any time, or computes: of N streams, those that are neither at
    the device nor on a CPU nor wait for one are between both (Little's law). Only the direction that the step has
    mostly is looked at, and no step with a rate of its own, whose streams wait for their turn.
    """
    view = None if case.device is None else case.device.only(direction)
    if not step_kind(case.kind).queue_swept or view is None or not case.threads or case.rate is not None:
        return None
    device, use = case.device, task_use(case.grid, CELL)
    lower = None if device is None else device_flow(device, direction)
    if use is None or device is None or lower is None or lower.each_ms is None:
        return None
    arrived, of_all = mean(view.iops) or 0.0, mean(device.iops) or 0.0
    if arrived < MOSTLY * of_all or arrived <= 0:
        return None
    upper = Flow(
        layer="the step's streams",
        rate=view.iops,
        in_flight=np.maximum(0.0, case.threads - np.nan_to_num(use.used + use.delay)),
        mib_per_s=view.mib_per_s,
    )
    each_ms, above_ms = upper.each_ms, time_above_ms(upper, lower)
    share = None if above_ms is None else above_ms * arrived / 1000 / case.threads
    if each_ms is None or above_ms is None or share is None or share < STREAMS_ABOVE_MIN:
        return None
    if above_ms < max(limit.READ_SLOW_MS, 2 * lower.each_ms):
        return None
    return LostTime(
        direction=direction,
        noun=direction,
        upper=upper,
        lower=lower,
        each_ms=each_ms,
        below_ms=each_ms - above_ms,
        above_ms=above_ms,
        share=share,
        who="the step",
    )


def lost_reads(case: Case) -> LostTime | None:
    """Time that reads of data files lose above the device; None where they lose little, or it is not known.

    At least twice what the device takes, and as long as a slow read: less is scheduling. With reads past the page
    cache, the device must serve about as many: fewer mean that this device is not where the files are. They are the
    same reads then, and wait above it for no longer than the mean of one is longer: what two layers count of one
    second differs by what was in flight at its ends, and seconds of which one layer has too much do not add up.
    """
    upper = server_flow(case.grid, "read", ("data",))
    lower = None if case.device is None else device_flow(case.device, "read")
    if upper is None or lower is None or upper.each_ms is None or lower.each_ms is None:
        return None
    sent, arrived, above_ms = mean(upper.rate), mean(lower.rate), time_above_ms(upper, lower)
    if not sent or not arrived or above_ms is None:
        return None
    if case.reads_directly:
        above_ms = min(above_ms, max(0.0, upper.each_ms - lower.each_ms))
    least = (1 - limit.SAME_OPERATIONS) if case.reads_directly else limit.PAGE_CACHE_MISSES_MIN
    below_ms = upper.each_ms - above_ms
    if arrived < least * sent or above_ms < max(limit.READ_SLOW_MS, 2 * below_ms):
        return None
    share = None if case.budget is None else case.budget.share("data_reads")
    if share is not None and share < limit.SHARE_MIN:
        return None
    return LostTime(
        direction="read",
        noun="read",
        upper=upper,
        lower=lower,
        each_ms=upper.each_ms,
        below_ms=below_ms,
        above_ms=above_ms,
        share=share,
    )


def lost_syncs(case: Case) -> LostTime | None:
    """Time that syncs of the logs lose above the device; None where they lose little, or it is not known.

    A sync is at most: two commits of a file system's journal, its own and the one that runs when it comes; each of
    them two writes and a flush, one after the other; and its own bytes in pieces of SPLIT_MIB. What is beyond that,
    the device did not take. A journal on a device of its own takes as many writes and flushes there.
    """
    upper, device = server_flow(case.grid, "sync", LOGS), case.device
    written = server_flow(case.grid, "write", LOGS)
    lower = None if device is None else device_flow(device, "write")
    if upper is None or lower is None or device is None or upper.each_ms is None or lower.each_ms is None:
        return None
    pieces = 0.0
    if written is not None and written.mib_per_s is not None and mean(upper.rate):
        pieces = (mean(written.mib_per_s) or 0.0) / (mean(upper.rate) or 1.0) / SPLIT_MIB
    commit_ms = lower.each_ms + flush_ms(case.grid, device, case.disks)
    if case.journal_device is not None:
        commit_ms += case.journal_device.commit_ms
    below_ms = limit.SYNC_BY_VOLUME * 2 * commit_ms + pieces * lower.each_ms
    above_ms = upper.each_ms - below_ms
    if above_ms < limit.SYNC_SLOW_MS:
        return None
    budget = case.budget
    share = None
    if budget is not None:
        share = budget.share("redo_sync", "binlog_sync", "binlog_group", "doublewrite") + hidden_commit_share(case)
        if share < limit.SHARE_MIN:
            return None
    return LostTime(
        direction="write",
        noun="sync of a log",
        upper=upper,
        lower=lower,
        each_ms=upper.each_ms,
        below_ms=below_ms,
        above_ms=above_ms,
        share=share,
    )
