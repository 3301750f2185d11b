"""Stands: parts of an interval in which all clients stood still, by their slowest transactions and what they lost.

An interval of a second hides a stand of 0.7 s: some transactions end in it. Two figures show it all the same. A
transaction that was under way when it began ends after it, so that the slowest one took at least its length d. And
a closed loop that does X transactions a second does X * d fewer. A tail (some operations that take long) has the
first and not the second: the other clients go on.

Who stood is decided by conservation of busy time. In the W seconds around a stand a device that is busy for a share
u at other times was idle for (1 - u) (W - d), and for d more if it had nothing to do meanwhile; the middle of both
is where the one becomes likelier than the other. The same holds for statements: sessions that were in one have its
time in the server's sum, clients that stood by themselves have not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from volbench.results.stats.grid import Floats, Mask, mean, median, quantile

LONG_MS = 500.0
"""A stand that is looked for: garbage collection, a snapshot, a paused machine take from 0.5 to some seconds."""
BEYOND_TAIL = 3.0
"""Slowest transaction of a stand's interval against that of calm ones, which is their tail."""
LOST_MIN = 0.5
"""Of the transactions that fit into a stand, those that are missing at least: a catching-up load has some again."""
LOST_MAX = 1.3
"""The same at most, and half an interval for chance: a slow phase loses more than its slowest transaction."""
SOME = 0.05
"""Of the usual: an interval with less lies nearly wholly within a stand. One at its end may have a few, the others
have none at all; a limit lets a few pass all the time."""
RECOVERED = 0.75
"""Of the usual: an interval with fewer transactions belongs to the fall around a stand."""
UNDECIDED = 0.25
"""Of the clients' time in stands: from a quarter to a half of it in statements says neither. What a statement took
is counted when it has ended, perhaps after the window that is compared."""
WAITS_ELSE_MAX = 0.5
"""Of the time without stands: where tasks of the host wait for I/O more than that, those may be of other disks."""
WAITS_DEVIATIONS = 2.0
"""Of the waits of calm intervals: what scatters by more hides whether a stand was a wait."""
WAITS_MIN_S = 2.0
"""Of all stands together: in less, what another task writes at that moment, an observer itself, waits as long."""
CPU_WAIT_MIN = 0.75
"""Of the usual tasks that wait for a CPU: a stop of 0.5 s leaves half of them in its interval, and less than three
quarters in one of two across which it lies."""
PERIODIC_MIN = 3
"""Stands from which a period can be stated."""
PERIODIC_SPREAD_MAX = 0.25
"""Deviation of the distances against their mean, up to which stands recur with a period."""


@dataclass(frozen=True, kw_only=True)
class Stand:
    """`length_s` without progress of any client, within the buckets `first` to `last`."""

    first: int
    last: int
    length_s: float

    @property
    def buckets(self) -> slice:
        """All of them."""
        return slice(self.first, self.last + 1)


def client_stands(tps: Floats | None, slowest_ms: Floats | None, width_s: float) -> tuple[Stand, ...]:
    """When all clients stood still for a part of some intervals, in order of time.

    Args:
        tps, slowest_ms: of each interval, shape (buckets,); None: not known.
        width_s: of an interval.
    """
    calm_ms, usual = quantile(slowest_ms, 0.25), None if tps is None else median(tps[tps > 0])
    if tps is None or slowest_ms is None or calm_ms is None or not usual:
        return ()
    long = np.nan_to_num(slowest_ms) >= max(LONG_MS, BEYOND_TAIL * calm_ms)
    stands: list[Stand] = []
    for index in np.flatnonzero(long).tolist():
        length_s = (float(slowest_ms[index]) - calm_ms) / 1000
        first = max(0, index - math.ceil(length_s / width_s))
        lost = float(np.nansum(np.maximum(0.0, usual - tps[first : index + 1]))) * width_s
        if lost < LOST_MIN * length_s * usual:
            continue
        if stands and first <= stands[-1].last and index - stands[-1].last <= 1:  # those that ended a bit later
            before = stands.pop()
            first, length_s = before.first, max(before.length_s, length_s)
        stands.append(Stand(first=first, last=index, length_s=length_s))
    at_once = tuple(stand for stand in stands if _is_at_once(tps, usual, stand, width_s))
    return at_once if 2 * len(at_once) >= len(stands) else ()  # else slow phases, one of which looks like a stand


def counted_stands(standstill_ms: Floats | None, width_s: float) -> tuple[Stand, ...]:
    """Stands of a server that tells its standstills itself (source `progress`), in order of time.

    Args:
        standstill_ms: of each interval, the longest time in which no statement began though some ran, shape
            (buckets,).
        width_s: of an interval.
    """
    long = np.zeros(0, dtype=np.int64) if standstill_ms is None else np.flatnonzero(standstill_ms >= LONG_MS)
    stands: list[Stand] = []
    for index in long.tolist():
        length_s = float(standstill_ms[index]) / 1000 if standstill_ms is not None else 0.0
        first = max(0, index - math.ceil(length_s / width_s))
        if stands and first <= stands[-1].last:  # it went on, or lay in both
            before = stands.pop()
            first, length_s = before.first, max(before.length_s, length_s)
        stands.append(Stand(first=first, last=index, length_s=length_s))
    return tuple(stands)


def _is_at_once(tps: Floats, usual: float, stand: Stand, width_s: float) -> bool:
    """Whether clients stood at once and went on at once, as a stand has it and a slow phase has not."""
    low = np.nan_to_num(tps) < RECOVERED * usual
    first, last = stand.first, stand.last
    while first > 0 and low[first - 1]:
        first -= 1
    while last + 1 < len(tps) and low[last + 1]:
        last += 1
    around = np.nan_to_num(tps[first : last + 1])
    lost_s = float(np.maximum(0.0, 1 - around / usual).sum()) * width_s
    some, none = int((around <= SOME * usual).sum()), int((around == 0).sum())
    stopped = none >= max(some - 1, math.floor(stand.length_s / width_s) - 1)
    return stopped and lost_s <= LOST_MAX * stand.length_s + width_s / 2


def was_idle(busy: Floats | None, stands: Sequence[Stand], width_s: float) -> bool | None:
    """Whether a device was idle while all clients stood still; None where that is not known.

    Args:
        busy: share of each interval in which it had an operation, shape (buckets,).
        stands: at least one.
        width_s: of an interval.
    """
    if busy is None or not stands:
        return None
    idle = 1 - np.clip(busy, 0.0, 1.0)
    around = _around(len(busy), stands)
    usual = mean(idle[~around]) if (~around).any() else None
    idle_s, length_s = float(np.nansum(idle[around])) * width_s, sum(stand.length_s for stand in stands)
    if usual is None or not np.isfinite(idle[around]).all():
        return None
    return idle_s >= usual * max(0.0, float(around.sum()) * width_s - length_s) + length_s / 2


def waited_for_io(waiting: Floats | None, stands: Sequence[Stand], width_s: float) -> bool | None:
    """Whether tasks waited for I/O while all clients stood still; None where that is not known.

    Args:
        waiting: share of each interval in which a task of the host waited for I/O (PSI, some), shape (buckets,).
        stands: at least one.
        width_s: of an interval.

    In the W seconds around stands of d seconds, tasks wait for the usual share w of them if others go on, and for d
    in whole if all stand for I/O: w (W - d) + d. The middle of both is where the one becomes likelier. PSI is of
    the whole host: what other tasks wait comes and goes, and WAITS_DEVIATIONS of its scatter must not reach there.
    """
    if waiting is None or not stands:
        return None
    around = _around(len(waiting), stands)
    calm = waiting[~around & np.isfinite(waiting)]
    usual = mean(calm)
    if usual is None or usual > WAITS_ELSE_MAX or not np.isfinite(waiting[around]).all():
        return None
    length_s, intervals = sum(stand.length_s for stand in stands), float(around.sum())
    if length_s < WAITS_MIN_S:
        return None
    middle_s = (1 - usual) * length_s / 2
    if WAITS_DEVIATIONS * float(np.std(calm)) * math.sqrt(intervals) * width_s > middle_s:
        return None
    return float(waiting[around].sum() - usual * intervals) * width_s >= middle_s


def waited_for_cpus(delay: Floats | None, stands: Sequence[Stand]) -> bool | None:
    """Whether the server's tasks waited for a CPU while all clients stood still; None where that is not known.

    Args:
        delay: seconds a second for which its tasks were runnable without a CPU, shape (buckets,).
        stands: at least one.

    Where CPUs are what it stands for, at least one of its tasks waits for one all along, and hardly fewer than
    usual. Tasks of a server that is stopped wait for none, so that some interval of a stand has clearly less.
    """
    if delay is None or not stands:
        return None
    around = _around(len(delay), stands)
    usual = mean(delay[~around])
    if usual is None or not np.isfinite(delay[around]).all():
        return None
    return bool((delay[around] >= max(1.0, CPU_WAIT_MIN * usual)).all())


def held_statements(
    statement_s: Floats | None, stands: Sequence[Stand], clients: int | None, width_s: float
) -> bool | None:
    """Whether clients stood within statements of the server; None where that is not known.

    Args:
        statement_s: seconds of statements in each second, shape (buckets,).
        stands: at least one.
        clients: how many there are.
        width_s: of an interval.
    """
    if statement_s is None or not clients or not stands:
        return None
    wider = _around(len(statement_s), stands)
    wider |= np.append(False, wider[:-1])  # a statement's time is counted when it has ended
    usual, finite = mean(statement_s[~wider]), np.isfinite(statement_s[wider])
    if usual is None or not finite.any():
        return None
    in_statements_s, length_s = (
        float(np.nanmean(statement_s[wider])) * float(wider.sum()) * width_s,
        sum(stand.length_s for stand in stands),
    )
    beyond = in_statements_s - usual * max(0.0, float(wider.sum()) * width_s - length_s)
    if beyond >= length_s * clients / 2:
        return True
    return None if beyond >= UNDECIDED * length_s * clients else False


def completed_less(rate: Floats, stands: Sequence[Stand]) -> bool:
    """Whether a device ended clearly fewer operations a second around stands than at other times."""
    around = _around(len(rate), stands)
    usual, now = mean(rate[~around]), mean(rate[around])
    lengths = sum(stand.length_s for stand in stands) / max(1, int(around.sum()))
    return usual is not None and now is not None and now <= (1 - LOST_MIN * lengths) * usual


def period_s(stands: Sequence[Stand], width_s: float) -> float | None:
    """After how many seconds stands come again; None where they come by chance, or too seldom."""
    if len(stands) < PERIODIC_MIN:
        return None
    apart = np.diff([stand.last for stand in stands]) * width_s
    least = PERIODIC_SPREAD_MAX * float(apart.mean()) + width_s / 2
    return float(apart.mean()) if float(apart.std()) <= least else None


def _around(buckets: int, stands: Sequence[Stand]) -> Mask:
    mask = np.zeros(buckets, dtype=np.bool_)
    for stand in stands:
        mask[stand.buckets] = True
    return mask
