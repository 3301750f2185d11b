"""What our own connection had the server do, so that it can be subtracted from what the server counts.

On a server of our own the connection that reads the counters is not instrumented. On somebody else's server that
would change performance_schema, so our statements are counted with all others. events_statements_history has the
last statements of each thread with their exact time and digest (ten by default; the consumer is on in MySQL, off in
MariaDB). Where that is more than one tick sends, each statement of ours is found there once.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

BUCKETS = 450
_BUCKET_0_PS = 1e7
_BUCKETS_PER_DECADE = 50
Sums = tuple[int, int, int]
"""Statements, and ps and lock ps of them."""
_Answer = TypeVar("_Answer")


class OwnAccount:
    """Statements of one connection: all, by bucket of the histogram, and by digest.

    `history_query` gives what `book` takes; empty where the server keeps no history.
    """

    def __init__(self) -> None:
        self.history_query = ""
        self.clear()

    def clear(self) -> None:
        """Forget all: another connection has another thread, whose events are numbered anew."""
        self._last_event = 0
        self.count = self.ps = self.lock_ps = self.errors = 0
        self.buckets: Counter[int] = Counter()
        self.digest_counts: Counter[str] = Counter()
        self.digest_ps: Counter[str] = Counter()
        self.digest_lock_ps: Counter[str] = Counter()

    def book(self, history: str) -> list[tuple[str, Sums]]:
        """Add the statements that are new; return digest and sums of each, in their order.

        Args:
            history: of our thread, one statement a line: EVENT_ID, TIMER_WAIT and LOCK_TIME in ps, ERRORS, begin of
                DIGEST.

        Raises ValueError for other text.
        """
        booked = []
        lines = sorted((int(fields[0]), fields[1:]) for line in history.splitlines() if (fields := line.split(" ")))
        for event, (timer, lock, errors, digest) in lines:
            if event <= self._last_event:
                continue
            self._last_event = event
            self.count += 1
            self.ps += int(timer)
            self.lock_ps += int(lock)
            self.errors += int(errors)
            self.buckets[bucket_of(int(timer))] += 1
            self.digest_counts[digest] += 1
            self.digest_ps[digest] += int(timer)
            self.digest_lock_ps[digest] += int(lock)
            booked.append((digest, (1, int(timer), int(lock))))
        return booked

    def counted_in(
        self, read: Callable[[], _Answer], book: Callable[[], list[tuple[str, Sums]]]
    ) -> tuple[_Answer, dict[str, Sums]]:
        """Return what the server counts by digest, and what of it is ours.

        A history has no query that is still running. So the one that reads it is in the digests that are read next,
        and first in the next history: it may have taken longer than all that others sent with its text.

        Args:
            read: asks for the digests, with one statement.
            book: asks for the history, and books it.
        """
        book()
        sums = {
            digest: (count, self.digest_ps[digest], self.digest_lock_ps[digest])
            for digest, count in self.digest_counts.items()
        }
        answer = read()
        for digest, (count, ps, lock_ps) in book()[:1]:
            of_all = sums.get(digest, (0, 0, 0))
            sums[digest] = (of_all[0] + count, of_all[1] + ps, of_all[2] + lock_ps)
        return answer, sums


def bucket_of(timer_ps: int) -> int:
    """Return the bucket of events_statements_histogram_global that a statement of this time is counted in.

    Bucket 0 is below 10 us; each edge is 10^(1/50) times the one before.
    """
    if timer_ps < _BUCKET_0_PS:
        return 0
    return min(BUCKETS - 1, math.floor(_BUCKETS_PER_DECADE * math.log10(timer_ps / _BUCKET_0_PS)) + 1)
