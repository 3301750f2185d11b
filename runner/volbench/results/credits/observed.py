"""How long a dump takes at the speed that a history shows while its volume was held back.

A forecast assumes that the volume gives its profile's limits. A history whose requests waited for tens of
milliseconds shows a volume that does not: something that the history cannot see used it. What it then still read is
the best that a dump can expect until that ends.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from volbench.results.credits.history import History

READING_MIN = 0.1
"""Share of the highest read rate from which an interval counts as reading: in the others nothing was asked for."""


@dataclass(frozen=True, kw_only=True)
class ObservedDump:
    """A dump at the speed of the intervals in which requests waited.

    Args:
        read_bytes_per_s: median of the intervals that read at all.
        intervals: how many these are.
        takes_s: of the dump at that speed.
        fits: within its window; None without one.
    """

    read_bytes_per_s: float
    intervals: int
    takes_s: float
    fits: bool | None


def observed_dump(history: History, dump_bytes: float, *, window_s: float | None = None) -> ObservedDump | None:
    """Return the dump at the observed speed; None where requests did not wait, or nothing was read while they did.

    Args:
        dump_bytes: of the dump, uncompressed.
        window_s: how long it may take.
    """
    work = history.work
    ends_s = work.ends_s
    begins_s = ends_s - work.interval_s
    slow = np.zeros(len(ends_s), dtype=bool)
    for begin_s, end_s in history.slow:
        slow |= (begins_s < end_s) & (ends_s > begin_s)
    rates = work.read_bytes_per_s[slow & work.is_known]
    if not len(rates) or rates.max() <= 0:
        return None
    reading = rates[rates >= READING_MIN * rates.max()]
    speed = float(np.median(reading))
    takes_s = dump_bytes / speed
    return ObservedDump(
        read_bytes_per_s=speed,
        intervals=len(reading),
        takes_s=takes_s,
        fits=None if window_s is None else takes_s <= window_s,
    )
