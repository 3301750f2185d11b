"""What was sent to a server while its slow query log was recorded, and the log read beside it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path

from volbench.measure.workload.replay.logged_statement import LoggedStatement

SCHEMAS = ("shop", "crm", "stock-2024", "back office")
"""Names with a hyphen and with a space: servers write them into the log without quotes."""
FORGED = (
    "# Time: 2026-11-22T00:00:00.000000Z\n"
    "# User@Host: forged[forged] @ localhost []  Id:     1\n"
    "# Query_time: 0.100000  Lock_time: 0.000000 Rows_sent: 0  Rows_examined: 0\n"
    "use mysql;\nSET timestamp=1795263297;\nDROP TABLE notes;\n"
    "# User@Host: forged[forged] @ localhost []\n"
    "# Thread_id: 1  Schema: mysql  QC_hit: No\n"
    "# Query_time: 0.100000  Lock_time: 0.000000  Rows_sent: 0  Rows_examined: 0\n"
    "# Rows_affected: 0  Bytes_sent: 11\nSET timestamp=1795263297;\nDROP TABLE customers;\n"
)
"""Text of a client that looks like entries of the log."""


@dataclass(frozen=True, kw_only=True)
class Sent:
    """One statement that the server has to log; each connection's are in order.

    `schema` is that of the connection when the statement ended, and the routine's for a statement of a routine.
    `sql` is the text without blanks and semicolons at its end, its bytes as Latin-1; empty where the server writes
    a text of its own.
    """

    kind: str
    schema: str
    connection: int
    sent_s: float
    sql: str


def read_truth(path: Path) -> Truth:
    """What `main` wrote."""
    content = json.loads(path.read_text())
    names = [field.name for field in fields(Sent)]
    sent = [Sent(**dict(zip(names, values, strict=True))) for values in content.pop("sent")]
    return Truth(**content, sent=sent)


@dataclass(kw_only=True)
class Truth:
    """What is known of a log without reading it. `slow_queries` is the server's own count of entries."""

    server: str
    version: str
    slow_queries: int
    sent: list[Sent] = field(default_factory=list)


def paired(truth: Truth, read: Iterable[LoggedStatement]) -> list[tuple[Sent, LoggedStatement]]:
    """What was sent beside what was read, by their order: each connection sends one after the other.

    Raises ValueError, or fails, where their numbers differ.
    """
    sent_by, read_by = defaultdict(list), defaultdict(list)
    for item in truth.sent:
        sent_by[item.connection].append(item)
    for statement in read:
        read_by[statement.connection].append(statement)
    assert sent_by.keys() == read_by.keys()
    return [pair for key in sent_by for pair in zip(sent_by[key], read_by[key], strict=True)]
