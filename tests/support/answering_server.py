"""A server that answers every query alike, and what comes of comparing two of them."""

from __future__ import annotations

from collections.abc import Sequence

from volbench.core.records.validation.capture import Capture, CapturedClass
from volbench.core.records.validation.result import CheckRow
from volbench.errors import StepFailed
from volbench.validation.catalog.objects import Inventory
from volbench.validation.queries.classes import QueryClass
from volbench.validation.queries.comparison import QueryComparison, compare_queries
from volbench.validation.source.server import Rows

EMPTY: Inventory = {
    "schema": {"shop": {}},
    "table": {},
    "column": {},
    "index": {},
    "trigger": {},
    "routine": {},
    "event": {},
    "view": {},
    "time zone": {"UTC": {}},
    "account": {"'app'@'%'": {}},
    "grant everywhere": {"'app'@'%'.SELECT": {}},
}
NO_COLUMNS = "1146 (42S02): Table 'shop.t' doesn't exist"
ONE_TABLE: Inventory = EMPTY | {
    "table": {"shop.t": {}},
    "column": {"shop.t.a": {"type": "int", "nullable": "NO", "charset": ""}},
}


class Answers:
    """A server that answers every query alike: with rows, or with an error."""

    def __init__(self, answer: Rows | str | Exception) -> None:
        self.answer = answer

    def query(self, sql: str) -> Rows:
        if sql.startswith("USE ") and not isinstance(self.answer, Exception):
            return []
        if isinstance(self.answer, Exception):
            raise self.answer
        if isinstance(self.answer, str):
            raise StepFailed("a query failed", evidence=f"{self.answer}; select ?")
        return self.answer


def a_class(*samples: str) -> QueryClass:
    samples = samples or ("SELECT a FROM t",)
    return QueryClass(fingerprint="select a from t", schema="shop", samples=samples, count=3, total_s=1.0)


def compared(source: Answers, candidate: Answers, *classes: QueryClass) -> list[QueryComparison]:
    return compare_queries(source, candidate, classes, lambda *_: None, rounds=1, pause=lambda _: None)


def rows_of(checks: Sequence[CheckRow]) -> dict[str, CheckRow]:
    return {row.check: row for row in checks}


def a_capture(started_at: str, *classes: CapturedClass, masked: bool = False) -> Capture:
    return Capture(
        flavor="mysql",
        version="8.4.0",
        started_at=started_at,
        seconds=60,
        statements_per_s=1,
        threads_running_max=1,
        unclassified=0,
        masked=masked,
        files={},
        binlog_bytes=0,
        classes=classes,
    )
