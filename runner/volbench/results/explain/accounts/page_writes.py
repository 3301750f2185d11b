"""Pages that a transaction writes, as a function of transactions per second, and the rate that they leave.

InnoDB writes two kinds of pages. A cold page is read for one change and written once before it leaves the pool, so
a transaction writes as many cold pages as it reads. A hot page (undo, rollback segments, roots, a small secondary
index) is changed again and again. The page cleaner comes around about once a second (the server's
`buf_flush_page_cleaner_thread` waits up to a second between its rounds) and writes each hot page that was changed
since. With H hot pages and b changes of hot pages in a transaction, X transactions a second write

    F(X) = H (1 - exp(-b X / H))

hot pages a second: the mean number of H equally likely pages that b X changes hit. A slow volume writes a hot page
for nearly each change, a fast one writes all of them once a second.

One run shows F at its own X. `b` is taken from the server's count of page changes
(`Innodb_buffer_pool_write_requests`): a mini-transaction counts once for each page it changes, and a transaction
changes its hot pages in several of them. H follows from both.

**What they leave.** A round writes its pages as fast as the volume takes them. Reads and log writes that arrive
meanwhile wait behind them, and so do soon all clients. So transactions have the part 1 - u of the time, where u is
the part in which the volume's busiest limit serves pages: X = (1 - u(X)) X', with X' of the same clients without
pages. Where the volume is busy all the time, its capacity for everything is the lower bound of both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from volbench.results.explain.accounts.closed_network import Station, ThroughputBounds, solve

DISTINCT, DISTINCT_MIN, DISTINCT_MAX = 0.27, 0.20, 0.40
"""Distinct hot pages for each change that the server counts. Fitted to 18 runs of three sysbench loads that only
write, on six emulated volumes, with the changes of one more run of each: 0.24 and 0.26 for updates of one row
without and with an index, 0.34 for transactions that update, delete and insert (results/examples/what-if)."""
_HALF = 0.5
_HALVINGS, _ROUNDS = 60, 18
"""For the number of hot pages, and for the rate, to a part in 2^18 of the largest."""


@dataclass(frozen=True, kw_only=True)
class PageCounts:
    """Pages of a transaction as InnoDB counted them in one run: read, written, and changes of pages.

    `cleaner_per_s` is how many pages a second the page cleaner may write (`innodb_io_capacity`).
    """

    read: float
    written: float
    changed: float
    cleaner_per_s: float


@dataclass(frozen=True, kw_only=True)
class PageWrites:
    """Hot and cold pages of one load.

    Args:
        cold: pages that a transaction reads, and writes once.
        hot: number of hot pages; infinite where each change of one is written.
        changes: of hot pages, in a transaction.
    """

    cold: float
    hot: float
    changes: float

    def per_transaction(self, tps: float) -> float:
        """Pages that a transaction writes at so many transactions a second."""
        if math.isinf(self.hot) or tps <= 0:
            return self.cold + self.changes
        return self.cold - self.hot * math.expm1(-self.changes * tps / self.hot) / tps


def page_writes(pages: PageCounts, tps: float, *, distinct: float = DISTINCT) -> PageWrites:
    """The hot and cold pages of a load, from one run of it.

    Args:
        pages: of a transaction of that run.
        tps: its transactions per second.
        distinct: distinct hot pages for each change that the server counts.
    """
    cold = min(pages.read, pages.written)
    flushed = pages.written - cold
    changes = max(flushed, pages.changed * distinct)
    if flushed <= 0 or flushed >= changes * (1 - 1e-3):
        return PageWrites(cold=cold, hot=math.inf, changes=flushed)
    return PageWrites(cold=cold, hot=changes * tps / _changes_of_a_page(flushed / changes), changes=changes)


@dataclass(frozen=True)
class Served:
    """A limit of the volume: seconds that it needs for a transaction as it was measured, and for one more page."""

    name: str
    transaction_s: float
    page_s: float


def solve_beside_pages(
    pages: PageWrites,
    limits: Sequence[Served],
    *,
    clients: int,
    delay_s: float,
    cpu: Station,
    written: float,
) -> ThroughputBounds:
    """Transactions per second of a number of clients on a volume that writes pages meanwhile.

    `ThroughputBounds.bound` is the limit that serves pages longest where that takes more than half of the time.

    Args:
        limits: of the volume.
        delay_s: of a transaction, without any queue.
        cpu: of a transaction.
        written: pages of the transaction that `limits` have the seconds of.
    """
    own = [
        Station(name=limit.name, demand_s=max(0.0, limit.transaction_s - written * limit.page_s))
        for limit in limits
    ]
    alone = solve(clients=clients, delay_s=delay_s, stations=[cpu, *own])

    def with_pages(tps: float) -> ThroughputBounds:
        count = pages.per_transaction(tps)
        stations = [
            Station(name=limit.name, demand_s=first.demand_s + count * limit.page_s)
            for limit, first in zip(limits, own, strict=True)
        ]
        full = solve(clients=clients, delay_s=delay_s, stations=[cpu, *stations])
        busiest = max(limits, key=lambda limit: limit.page_s, default=None)
        left = 1.0 if busiest is None else max(0.0, 1 - tps * count * busiest.page_s)
        if left * alone.rate >= full.rate or busiest is None:
            return full
        return ThroughputBounds(
            rate_min=min(full.rate_min, left * alone.rate_min),
            rate_max=min(full.rate_max, left * alone.rate_max),
            bound=busiest.name if left < _HALF else alone.bound,
        )

    low, high = 0.0, alone.rate_max
    for _ in range(_ROUNDS):
        middle = (low + high) / 2
        low, high = (middle, high) if with_pages(middle).rate > middle else (low, middle)
    return with_pages((low + high) / 2)


def _changes_of_a_page(ratio: float) -> float:
    """The z at which (1 - exp(-z)) / z is `part`, by halving: it falls from 1 at z = 0."""
    low, high = 0.0, 1.0 / ratio
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if -math.expm1(-middle) / middle > ratio else (low, middle)
    return (low + high) / 2
