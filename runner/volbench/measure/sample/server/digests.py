"""Source `digests`: what each text of a statement cost a server that is only read, every ten seconds.

The table of digests may hold ten thousand rows, and those with most time since the server's start need not be those
that cost most now. So all counters are read once, and afterwards only the rows of digests that were seen since.
A reading holds what the digests grew by since the reading before, the largest of them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from typing_extensions import override

from volbench.core.records.own_statements import is_own_digest
from volbench.core.records.series import SeriesRow
from volbench.measure.sample.change import Change
from volbench.measure.sample.config import SamplingConfig
from volbench.measure.sample.connection import ServerConnection
from volbench.measure.sample.interface import Presence, Reading, Sampler, Unavailable, Values
from volbench.measure.sample.own_account import OwnAccount, Sums
from volbench.measure.sample.shared import Shared

FIELDS = (
    "COUNT_STAR",
    "SUM_TIMER_WAIT",
    "SUM_LOCK_TIME",
    "SUM_CPU_TIME",
    "SUM_ROWS_EXAMINED",
    "SUM_ROWS_SENT",
    "SUM_ROWS_AFFECTED",
    "SUM_CREATED_TMP_DISK_TABLES",
)
NAMES = ("count", "ps", "lock_ps", "cpu_ps", "rows_examined", "rows_sent", "rows_affected", "tmp_disk_tables")
METRICS = {
    "count": ("query_per_s", 1.0),
    "ps": ("query_s_per_s", 1e12),
    "lock_ps": ("query_lock_s_per_s", 1e12),
    "cpu_ps": ("query_cpu_s_per_s", 1e12),
    "rows_examined": ("query_rows_examined_per_s", 1.0),
    "rows_sent": ("query_rows_sent_per_s", 1.0),
    "rows_affected": ("query_rows_affected_per_s", 1.0),
    "tmp_disk_tables": ("query_tmp_disk_tables_per_s", 1.0),
}
TEXT = "digest_text"
DIGESTS_MAX, CHARACTERS = 40, 160
_SLACK_S = 2
_TABLE = "performance_schema.events_statements_summary_by_digest"
_CONSUMERS = "SELECT NAME FROM performance_schema.setup_consumers WHERE ENABLED = 'YES'"
_OVERFLOW_TEXT = "(statements of texts for which the server's table of digests has no room)"
_NUMBERED = re.compile(r"(?<=[A-Za-z_])\d+")
_Key = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class _Row:
    """One row of the table; `sums` are in the order of NAMES, None: not kept."""

    key: _Key
    sums: tuple[int | None, ...]
    text: str = ""


class StatementDigests(Sampler):
    """Asks for digests that were seen since the last reading, and gives by how much they grew.

    Args:
        server: the connection that the other sources of the server use, too.
        own: the account of that connection, which is subtracted.
        clock: seconds, for how long ago the last reading was.
    """

    source: ClassVar[str] = "digests"
    every_ticks: ClassVar[int] = 10
    lane: ClassVar[str] = "server"
    observed_only: ClassVar[bool] = True

    def __init__(
        self, server: ServerConnection, own: OwnAccount, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._server = server
        self._own = own
        self._clock = clock
        self._generation = 0
        self._read_at = 0.0
        self._sums: dict[_Key, tuple[int | None, ...]] = {}
        self._own_before: dict[str, Sums] = {}
        self._has_cpu = False

    @classmethod
    @override
    def from_config(cls, config: SamplingConfig, shared: Shared) -> Sampler:
        """Return the sampler."""
        return cls(shared.server, shared.own_account or OwnAccount())

    @classmethod
    def is_remote(cls, config: SamplingConfig) -> bool:
        """Return whether there is a server, which may start later."""
        return bool(config.option_file)

    def close(self) -> None:
        """Close the connection, also for the other sources of this lane."""
        self._server.close()

    def probe(self) -> Presence:
        """Present where statements are told apart by digest."""
        try:
            enabled = {bytes(name or b"").decode() for (name,) in self._server.rows(_CONSUMERS)}
            if "statements_digest" not in enabled:
                return Presence(present=False, reason="the consumer statements_digest is off")
            self._has_cpu = "events_statements_cpu" in enabled
            self._begin()
        except Unavailable as error:
            return Presence(present=False, reason=str(error))
        return Presence(present=True, reason="" if self._has_cpu else "no CPU time of statements")

    def _begin(self) -> None:
        self._read_at = self._clock()
        rows, self._own_before = self._counted(f"SELECT {self._columns()} FROM {_TABLE}")  # noqa: S608
        self._sums = {row.key: row.sums for row in rows}
        self._generation = self._server.generation

    def read(self) -> Values:
        """Return by how much the digests with most time grew since the reading before."""
        if self._generation != self._server.generation:
            self._begin()
            raise Unavailable("the connection was opened again")
        now = self._clock()
        since_s = int(now - self._read_at) + _SLACK_S
        rows, own = self._counted(
            f"SELECT {self._columns()}, LEFT(REPLACE(DIGEST_TEXT, '\n', ' '), {CHARACTERS}) FROM {_TABLE}"  # noqa: S608
            f" WHERE LAST_SEEN >= NOW() - INTERVAL {since_s} SECOND"
        )
        if self._generation != self._server.generation:
            raise Unavailable("the connection was opened again")
        self._read_at = now
        grown: dict[str, list[int | None]] = {}
        texts: dict[str, str] = {}
        for row in rows:
            before = self._sums.get(row.key)
            self._sums[row.key] = row.sums
            name = row.key[1][:8]
            texts[name] = row.text or _OVERFLOW_TEXT
            grown[name] = _added(grown.get(name), _difference(row.sums, before))
        self._without_own(grown, texts, own)
        largest = sorted(grown, key=lambda name: grown[name][1] or 0, reverse=True)[:DIGESTS_MAX]
        values: Values = {}
        for name in sorted(largest):
            values[TEXT, f"{name} {texts[name]}"] = 1
            for field, number in zip(NAMES, grown[name], strict=True):
                if number is not None:
                    values[field, name] = number
        return values

    def _without_own(self, grown: dict[str, list[int | None]], texts: dict[str, str], own: dict[str, Sums]) -> None:
        """Subtract what our connection sent: exactly where the server tells, else by the texts that we send.

        Less than nothing is left where the table was emptied since the reading before: then nothing is known.
        """
        before, self._own_before = self._own_before, own
        for name, sums in list(grown.items()):
            if name in own:
                for index, (total, earlier) in enumerate(zip(own[name], before.get(name, (0, 0, 0)), strict=True)):
                    sums[index] = (sums[index] or 0) - (total - earlier)
            is_ours = not own and is_own_digest(texts[name])
            if not sums[0] or is_ours or any(number is not None and number < 0 for number in sums):
                del grown[name]

    def _counted(self, sql: str) -> tuple[list[_Row], dict[str, Sums]]:
        """Return rows of the table, and what of them our own connection sent, by digest."""
        return self._own.counted_in(lambda: list(self._rows(sql)), self._book_own)

    def _book_own(self) -> list[tuple[str, Sums]]:
        query = self._own.history_query
        return self._own.book(self._server.text(query)[0]) if query else []

    def _columns(self) -> str:
        sums = [field if field != "SUM_CPU_TIME" or self._has_cpu else "NULL" for field in FIELDS]
        return ", ".join(("COALESCE(SCHEMA_NAME, '') AS volbench", "COALESCE(DIGEST, '')", *sums))

    def _rows(self, sql: str) -> Iterator[_Row]:
        for schema, digest, *columns in self._server.rows(sql):
            sums = tuple(None if column is None else int(column) for column in columns[: len(FIELDS)])
            texts = [
                bytes(column or b"").decode("utf-8", "replace")
                for column in (schema, digest, *columns[len(FIELDS) :])
            ]
            yield _Row(key=(texts[0], texts[1]), sums=sums, text=texts[2] if len(texts) > 2 else "")

    @staticmethod
    def rates(before: Reading, after: Reading) -> Iterator[SeriesRow]:
        """Yield rates by text, under the names of the source performance_schema; digests of like texts together.

        A text that the reading before did not have begins with a rate of 0 at that reading, so that a row is always
        about the time since the row before it.
        """
        change = Change(source="performance_schema", before=before, after=after)
        if not change.usable:
            return
        texts, texts_before = _texts(after), set(_texts(before).values())
        together: dict[tuple[str, str], float] = {}
        for (field, digest), value in after.values.items():
            if field in METRICS and digest in texts:
                key = (field, texts[digest])
                together[key] = together.get(key, 0.0) + value
        for (field, text), value in together.items():
            metric, unit = METRICS[field]
            row = change.row(metric, value / unit / change.dt_s, text)
            if text not in texts_before:
                yield replace(row, t_s=before.t_s, value=0.0)
            yield row


def _texts(reading: Reading) -> dict[str, str]:
    """Return the text of each digest, with N for the numbers in its names."""
    texts = (entity.split(" ", 1) for name, entity in reading.values if name == TEXT)
    return {digest: _NUMBERED.sub("N", text) for digest, text in texts}


def _difference(now: tuple[int | None, ...], before: tuple[int | None, ...] | None) -> list[int | None]:
    """Return what was added; all of it for a digest that is new or whose counters began anew."""
    added = [a if a is None else a - (b or 0) for a, b in zip(now, before or (0,) * len(now), strict=True)]
    return list(now) if any(number is not None and number < 0 for number in added) else added


def _added(sums: list[int | None] | None, more: list[int | None]) -> list[int | None]:
    if sums is None:
        return more
    return [None if a is None or b is None else a + b for a, b in zip(sums, more, strict=True)]
