"""Reads slow query logs of MySQL, Percona Server and MariaDB: each statement, when, in which schema, for how long.

What the servers write, by their sources (`sql/log.cc`; MySQL 5.7 to 9: `File_query_log::open` and `write_slow`,
Percona Server 8.0: the same functions, MariaDB 10.6 to 11: `MYSQL_QUERY_LOG::write`), and what of it was seen
in logs that were recorded (tests/fixtures/slowlog):

- *Head.* `# Time:`, `# User@Host:`, then MariaDB's `# Thread_id: .. Schema: ..` or Percona's `# Schema: ..`,
  then `# Query_time:`, then any number of comment lines (a bare `#` too). MariaDB, and MySQL before 5.7, leave
  `# Time:` out while the second is the same. `--log-short-format` leaves out `# Time:` and `# User@Host:`.
- *Schema.* `use NAME;` is written when the entry's schema is not that of the log's last `use`, whatever the
  connection (`if (thd->db().str && strcmp(thd->db().str, db))`, where `db` belongs to the log). So it holds for
  all entries after it, until the next `use` or until the log is opened again: then the banner is written and
  `db` is empty. An entry without a schema writes nothing: in MySQL's log it cannot be told from one of the last
  `use`, and gets that schema. MariaDB and Percona Server name the schema in each head, and that counts. `NAME`
  is bare, or in backquotes in newer MariaDB. Before the first `use` of a log that begins without a banner the
  schema is unknown.
- *SET.* Next comes `SET [last_insert_id=N,][insert_id=N,]timestamp=N;` (MySQL 5.0 writes each part only if
  needed), and all that follows, up to `;` and the line's end, is the statement, or
  `# administrator command: NAME`.
- *Time.* MySQL from 5.7 on writes the end in microseconds. MariaDB's `# Time:` (local time) and `timestamp` are the
  start in the recorded logs (10.11.19, 11.8.9), but the end in older sources (`LOGGER::slow_log_print`); a log does
  not show which. Before 5.7 both are the end in MySQL.
- *Not written.* Statements of a routine (MariaDB and Percona Server write them when configured to, with
  `# Stored_routine:`); statements with errors of syntax (MariaDB does write those).

`slowlog_entries` divides the text into entries.
"""

from __future__ import annotations

import codecs
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from volbench.errors import UsageError
from volbench.records.parse import EPOCH_MAX_S
from volbench.validation.queries.slowlog_entries import (
    BLANK,
    PREAMBLE,
    STATEMENT_CHARACTERS_MAX,
    Banner,
    Segment,
    divide_segments,
    is_complete,
    iso_time_s,
    join_entries,
)

ADMINISTRATOR = "that are administrator commands"
CUT = "that were cut off"
TOO_LONG = f"of more than {STATEMENT_CHARACTERS_MAX >> 20} MiB"
WITHOUT_TIME = "without a readable time"
_CHUNK_BYTES = 1 << 20

_ADMINISTRATOR = re.compile(r"# administrator command: [\w ]+")
_USE = re.compile(r"use\s+(`(?:[^`]|``)+`|[^\s`]+)", re.IGNORECASE)
_CONNECTION = re.compile(r"\bId: *(\d{1,20})\s*\Z")
_THREAD = re.compile(r"\bThread_id: (\d{1,20})\b")
_SCHEMA = re.compile(r"\bSchema: (.*?)(?:  QC_hit: |  Last_errno: | Rows_affected: )")
_ROUTINE = re.compile(r"^# Stored_routine: (.*?)\r?$", re.MULTILINE)
_LOCAL_TIME = re.compile(r"\d{6} +\d{1,2}:\d\d:\d\d\s*\Z")


@dataclass(frozen=True, kw_only=True)
class LoggedStatement:
    """One statement. `at_s` is its start, seconds since 1970.

    MySQL logs the end to the microsecond, so the start is known. MariaDB, and MySQL before 5.7, log whole seconds;
    then `at_s` is the second of the start, and statements within it keep their order only. Logs without
    `SET timestamp` have local time only, which is taken as UTC.
    """

    at_s: float
    connection: int
    user: str
    schema: str | None
    """Empty without a schema, None where the log does not show it."""
    query_s: float
    lock_s: float
    rows_sent: int
    rows_examined: int
    sql: str
    """Bytes that are no UTF-8 are lone surrogates in it, as errors="surrogateescape" makes them."""
    routine: str = ""
    """The stored routine that ran the statement; its CALL may be in the log as well."""

    @property
    def sql_bytes(self) -> bytes:
        """Return the statement as logged, in whatever character set."""
        return self.sql.encode("utf-8", "surrogateescape")

    @property
    def is_text(self) -> bool:
        """Return whether the whole statement is UTF-8."""
        return self.sql.isascii() or not any("\ud800" <= character <= "\udfff" for character in self.sql)


class SlowLog:
    """The statements of a log in order, to be iterated over once; counts skipped entries meanwhile.

    `entries` is the sum of `used` and `skipped`.
    """

    def __init__(self, text: Iterable[str], *, name: str) -> None:
        self._text, self._name = text, name
        self.used = 0
        self.skipped: Counter[str] = Counter()

    @property
    def entries(self) -> int:
        """Return the number of entries so far."""
        return self.used + self.skipped.total()

    def summary(self) -> str:
        """Return a sentence on the number of entries, and how many were used and skipped."""
        reasons = ", ".join(f"{count} {reason}" for reason, count in self.skipped.most_common())
        return f"{self.entries} entries, {self.used} of them statements" + (
            f"; skipped: {reasons}" if reasons else ""
        )

    def __iter__(self) -> Iterator[LoggedStatement]:
        """Yield the statements. Raises UsageError naming the file when the text is no slow log."""
        state, is_slow_log, first_body = _State(), False, ""
        for segment in join_entries(divide_segments(self._text)):
            if isinstance(segment, Banner):
                state, is_slow_log = _State(schema=""), True
                continue
            is_slow_log |= segment.head is not None
            first_body = first_body or segment.body
            outcome = _statement(segment, state)
            if isinstance(outcome, str):
                self.skipped[outcome] += 1
            else:
                self.used += 1
                yield outcome
        if first_body and not is_slow_log:
            raise UsageError(
                "this is not a line of a slow query log", where=f"{self._name}:1",
                evidence=first_body.lstrip().split("\n", 1)[0][:120].encode("utf-8", "replace").decode(),
                next_step="give a file written with slow_query_log=ON and log_output=FILE",
            )  # fmt: skip


def read_slow_log(lines: Iterable[str], *, name: str) -> SlowLog:
    """Return the log of lines with or without line feeds."""
    return SlowLog((line if line.endswith("\n") else f"{line}\n" for line in lines), name=name)


def why_outside(statement: LoggedStatement, schemas: Collection[str]) -> str:
    """Return why a statement belongs to none of these schemas; empty where it belongs to one."""
    if statement.schema in schemas:
        return ""
    if statement.schema is None:
        return "with an unknown schema"
    return "of other schemas" if statement.schema else "without a schema"


@contextmanager
def slow_log(path: Path) -> Iterator[SlowLog]:
    """Yield the log in a file. Raises UsageError when the file cannot be read, also during iteration."""
    try:
        with path.open("rb") as file:
            yield SlowLog(_decoded(file), name=str(path))
    except OSError as error:
        raise UsageError("the slow query log cannot be read", where=str(path), evidence=str(error)) from error


def _decoded(file: BinaryIO) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    while chunk := file.read(_CHUNK_BYTES):
        yield decoder.decode(chunk)
    yield decoder.decode(b"", final=True)


@dataclass(kw_only=True)
class _State:
    """State from earlier entries: the schema of the last `use`, None before the first, and the last local time."""

    schema: str | None = None
    local_end_s: float | None = None


def _statement(segment: Segment, state: _State) -> LoggedStatement | str:
    """Return the statement of an entry, or why it has none; update `state`."""
    head, preamble = segment.head, PREAMBLE.match(segment.body)
    if head is None or preamble is None:
        return CUT
    if preamble["use"] is not None:
        state.schema = _unquoted(preamble["use"])
    start_s = _start_s(segment, head, preamble["stamp"], state)
    sql = _sql(head, segment.body[preamble.end() :])
    if not sql and preamble["use"] is not None and preamble["stamp"] is None and _has_no_timestamp(segment):
        sql = f"use {preamble['use']}"
    if segment.is_partial:
        return TOO_LONG
    if not sql or segment.is_cut:
        return CUT
    if state.schema is None and (
        use_statement := _USE.fullmatch(sql)
    ):  # otherwise a `use` line would have the schema
        state.schema = _unquoted(use_statement[1])
    if _ADMINISTRATOR.fullmatch(sql):
        return ADMINISTRATOR
    if start_s is None:
        return WITHOUT_TIME
    attributes = f"{head['named'] or ''} {head['more']}"
    schema = _SCHEMA.search(attributes)
    connection = _CONNECTION.search(head["user"] or "") or _THREAD.search(attributes)
    routine = _ROUTINE.search(preamble["comments"]) if preamble["comments"] else None
    return LoggedStatement(
        at_s=start_s,
        connection=int(connection[1]) if connection else 0,
        user=(head["user"] or "").partition("[")[0].strip(),
        schema=schema[1] if schema else state.schema,
        query_s=float(head["query"]),
        lock_s=float(head["lock"]),
        rows_sent=int(head["sent"]),
        rows_examined=int(head["examined"]),
        sql=sql,
        routine=routine[1] if routine else "",
    )


def _has_no_timestamp(segment: Segment) -> bool:
    """Return whether the head may be of MySQL 5.0, which writes a timestamp only when a statement uses it."""
    return segment.head is not None and segment.head["named"] is None and iso_time_s(segment) is None


def _sql(head: re.Match[str], text: str) -> str:
    """Return the statement without its end; empty where the end is missing."""
    if not is_complete(text):
        return ""
    text = text.rstrip(BLANK)[:-1]
    return text.replace("\r\n", "\n") if head[0].endswith("\r\n") else text


def _unquoted(name: str) -> str:
    if len(name) > 1 and name[0] == name[-1] == "`":
        return name[1:-1].replace("``", "`")
    return name


def _start_s(segment: Segment, head: re.Match[str], stamp: str | None, state: _State) -> float | None:
    """Return when the statement began, as exactly as the log allows; None without a time."""
    query_s = float(head["query"])
    if (iso_s := iso_time_s(segment)) is not None:
        return round(iso_s - query_s, 6)  # else a second that is whole would not look so
    if head["time"] is not None:
        state.local_end_s = _local_time_s(head["time"])
    local_s = state.local_end_s
    if stamp is None:
        return None if local_s is None else _start_second(local_s, query_s)
    stamp_s = float(stamp)
    if stamp_s > EPOCH_MAX_S:
        return None
    is_start = head["user"] is None or "QC_hit: " in (head["named"] or "")  # the short format, or MariaDB
    return stamp_s if is_start else _start_second(stamp_s, query_s)


def _start_second(end_s: float, query_s: float) -> float:
    """Return the likeliest second of the start of a statement that ended within the second `end_s`."""
    return float(math.floor(end_s + 0.5 - query_s))


def _local_time_s(text: str) -> float | None:
    match = _LOCAL_TIME.match(text)
    if match is None:
        return None
    try:
        moment = datetime.strptime(" ".join(match[0].split()), "%y%m%d %H:%M:%S").replace(tzinfo=UTC)
        return moment.timestamp()
    except ValueError:
        return None
