"""The volume's queue against the number of clients: how many of them can be waiting for the volume at a time.

Where nearly as many operations are in flight as there are clients, nearly all clients wait for the volume, or
others keep it as busy. A volume in that state is never acquitted, whatever its waiting times are. In 53 recordings
whose threads were counted in /proc (state D), the queue was 0.9 to 1.6 times the clients in all 35 in which most
threads waited for the disk, and at most 0.14 times in the others: see tests/fixtures/recordings.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from volbench.core.records.named_metrics import Client, Innodb
from volbench.core.records.report import FindingRow
from volbench.results.explain.case import Case
from volbench.results.explain.rules.acquittal import NONE
from volbench.results.explain.wording import number
from volbench.results.recorded.parsed import Recorded
from volbench.results.stats.grid import mean
from volbench.results.store.series import SeriesKey

QUEUE_SHARE_MIN = 0.75
"""Operations in flight for each client from which on the volume is not acquitted."""
_CLIENT_THREADS = SeriesKey.of(Client.threads_running)
_SERVER_THREADS = SeriesKey.of(Innodb.threads_running)


@dataclass(frozen=True, kw_only=True)
class QueueOfClients:
    """Operations of the volume in flight on average, and the clients, both over the time that was explained."""

    in_flight: float
    clients: float

    @property
    def has_most_clients(self) -> bool:
        """Whether nearly as many operations are in flight as there are clients."""
        return self.in_flight >= QUEUE_SHARE_MIN * self.clients

    @property
    def text(self) -> str:
        """In words."""
        return (
            f"{number(self.in_flight)} operations of the volume are in flight on average,"
            f" for {number(self.clients)} clients: most of them wait for it, or others keep it as busy, so it is"
            " not acquitted"
        )


def client_count(recordings: Iterable[Recorded]) -> float | None:
    """How many clients there are: the load's threads, else the threads that the server runs; None: not recorded.

    Their number hardly changes, so that a log without a clock tells it as well.
    """
    series = [recorded.series for recorded in recordings]
    for key in (_CLIENT_THREADS, _SERVER_THREADS):
        counts = [
            float(np.median(columns[key].value)) for columns in series if key in columns and len(columns[key].value)
        ]
        if counts and max(counts) > 0:
            return max(counts)
    return None


def queue_of_clients(case: Case, clients: float | None) -> QueueOfClients | None:
    """The queue of a case's volume against the clients; None where one of them is not known."""
    in_flight = None if case.device is None else mean(case.device.in_flight)
    if in_flight is None or clients is None:
        return None
    return QueueOfClients(in_flight=in_flight, clients=clients)


def without_acquittal(findings: Iterable[FindingRow], queue: QueueOfClients | None) -> tuple[FindingRow, ...]:
    """The findings, less an acquittal that the queue speaks against."""
    speaks_against = queue is not None and queue.has_most_clients
    return tuple(finding for finding in findings if not (speaks_against and finding.cause == NONE))
