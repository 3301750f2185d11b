"""How far purge is: InnoDB removes old versions of rows, and reads and writes pages for it, after the transactions.

Where purge falls behind, undo leaves the buffer pool before it is purged and is read again for it, so that purge
gets slower still. A load may stay in that state, or never come to it, on the same volume: MySQL 9.7 has one purge
thread on a host of two CPUs, and it reads one page after the other.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from volbench.analysis.explain.case import Case

PURGE_LAG_MIN = 0.2
"""Transactions whose undo was left, of all in the window: from here on purge has put off work that will be done."""
PURGE_BEHIND = 10_000
"""Transactions in the history list: where it grows without end, purge is behind from here on. In 24 runs in which
purge kept up it had at most 1,900, where it did not up to 110,000 (tests/benchmarks/what_if.py)."""
BEHIND = (
    "purge is behind: InnoDB's history list grows as long as the load runs; undo that is not purged takes memory,"
    " and is read and written later. Compare volumes only where purge is in the same state: a longer warm-up,"
    " more innodb_purge_threads or a lower rate show which it is"
)


def undo_left(case: Case, done: float) -> float:
    """Growth of the history list for each transaction, from one of its least lengths to the last.

    What is purged leaves the list only now and then (innodb_purge_rseg_truncate_frequency: in every 128th round of
    purge by default), so a list that never fell within the window tells how far purge is only where it is long.
    """
    length = case.at("history_list_length", "innodb")
    finite = length[np.isfinite(length)] if length is not None else np.empty(0)
    least = 1 + np.flatnonzero((finite[1:-1] < finite[:-2]) & (finite[1:-1] <= finite[2:]))
    if len(least) < 2:
        rises = len(finite) > 1 and bool(np.all(np.diff(finite) >= 0)) and finite[-1] >= PURGE_BEHIND
        return float(finite[-1] - finite[0]) / done if rises else 0.0
    first, last = int(least[0]), int(least[-1])
    grown = float(finite[last] - finite[first]) * len(finite) / (last - first)
    return max(0.0, grown / done)


def purge_notes(case: Case) -> Iterator[str]:
    """Says that purge is behind, where it is."""
    length, tps = case.at("history_list_length", "innodb"), case.at("tps")
    if length is None or tps is None or not np.isfinite(length).any():
        return
    done = float(np.nansum(tps)) * case.grid.width_s
    if done > 0 and np.nanmax(length) >= PURGE_BEHIND and undo_left(case, done) >= PURGE_LAG_MIN:
        yield BEHIND
