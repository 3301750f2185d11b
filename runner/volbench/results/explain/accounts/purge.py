"""How far purge is: InnoDB removes old versions of rows, and reads and writes pages for it, after the transactions.

A transaction that stays open holds it back, since it may still read the old versions. Without one, purge may be
too slow for the load: MySQL 9.7 has one purge thread on a host of two CPUs. On emulated volumes purge fell behind
for good in 5 of 12 runs, at once or after a minute and a half, and that did not follow the volume's speed.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from volbench.core.records.named_metrics import Client, Innodb
from volbench.results.explain.case import Case

PURGE_LAG_MIN = 0.2
"""Transactions whose undo was left, of all in the window: from here on purge has put off work that will be done."""
PURGE_BEHIND = 10_000
"""Transactions in the history list: where it grows without end, purge is behind from here on. Of 451 runs of both
labs that names 5, all those in which a forgotten transaction was made. Lists of up to 30,000 fell again in others.
Where purge was too slow it names 10 of 11 steps; the last one had come to 7,000."""
BEHIND = (
    "purge is behind: InnoDB's history list grows as long as the load runs; undo that is not purged takes memory,"
    " and is read and written later. Compare volumes only where purge is in the same state. Look for a transaction"
    " that stays open (information_schema.INNODB_TRX); without one, try more innodb_purge_threads or a lower rate"
)


def undo_left(case: Case) -> float:
    """Growth of the history list for each transaction, from one of its least lengths to the last; 0 if not known.

    What is purged leaves the list only now and then (innodb_purge_rseg_truncate_frequency: in every 128th round of
    purge by default), so a list that never fell within the window tells how far purge is only where it is long.
    """
    length, tps = case.at(Innodb.history_list_length), case.at(Client.tps)
    done = 0.0 if tps is None else float(np.nansum(tps)) * case.grid.width_s
    if length is None or done <= 0:
        return 0.0
    finite = length[np.isfinite(length)]
    least = 1 + np.flatnonzero((finite[1:-1] < finite[:-2]) & (finite[1:-1] <= finite[2:]))
    if len(least) < 2:
        rises = len(finite) > 1 and bool(np.all(np.diff(finite) >= 0)) and finite[-1] >= PURGE_BEHIND
        return float(finite[-1] - finite[0]) / done if rises else 0.0
    first, last = int(least[0]), int(least[-1])
    grown = float(finite[last] - finite[first]) * len(finite) / (last - first)
    return max(0.0, grown / done)


def purge_notes(case: Case) -> Iterator[str]:
    """Says that purge is behind, where it is."""
    length = case.at(Innodb.history_list_length)
    if length is None or not np.isfinite(length).any():
        return
    if np.nanmax(length) >= PURGE_BEHIND and undo_left(case) >= PURGE_LAG_MIN:
        yield BEHIND
