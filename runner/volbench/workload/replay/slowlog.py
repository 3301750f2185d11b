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
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

from volbench.base import safe_files
from volbench.errors import UsageError
from volbench.records.parse import EPOCH_MAX_S, parse_moment
from volbench.workload.replay.slowlog_entries import (
    BLANK,
    PREAMBLE,
    STATEMENT_CHARACTERS_MAX,
    Banner,
    EntryContinues,
    PlainRun,
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
INHERITED = "\ud800"
"""What an earlier part of the log decides; no text of a log decodes to it.

A schema follows it where a statement `use` set one if no earlier entry did.
"""

_ADMINISTRATOR = re.compile(r"# administrator command: [\w ]+")
_USE = re.compile(r"use\s+(`(?:[^`]|``)+`|[^\s`]+)", re.IGNORECASE)
_CONNECTION = re.compile(r"\bId: *(\d{1,20})\s*\Z")
_THREAD = re.compile(r"\bThread_id: (\d{1,20})\b")
_SCHEMA = re.compile(r"\bSchema: (.*?)(?:  QC_hit: |  Last_errno: | Rows_affected: )")
_ROUTINE = re.compile(r"^# Stored_routine: (.*?)\r?$", re.MULTILINE)
_NO_SCHEMA_YET = (None, INHERITED)
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
        return self.sql.isascii() or is_utf8(self.sql)


@dataclass(kw_only=True)
class LogState:
    """State from earlier entries: the schema of the last `use`, None before the first, and the last local time.

    Both are `INHERITED` at the start of a part of a log whose earlier text is not known.
    """

    schema: str | None = None
    local_end_s: float | str | None = None


def inherited_schema(schema: str | None, before: str | None) -> str | None:
    """Return a schema of a part of a log, where the part began with the schema `before`."""
    if schema is None or not schema.startswith(INHERITED):
        return schema
    return (schema.removeprefix(INHERITED) or None) if before is None else before


class SlowLog:
    """The statements of a log in order, to be iterated over once; counts skipped entries meanwhile.

    `entries` is the sum of `used` and `skipped`.
    """

    def __init__(
        self,
        text: Iterable[str],
        *,
        name: str,
        state: LogState | None = None,
        following: Iterable[str] | None = None,
    ) -> None:
        """Read nothing yet.

        Args:
            text: of the log, in pieces.
            name: for messages.
            state: for a text that begins at a head within the log: what is known of the entries before.
            following: of a part of a log: the text after it, which begins with a head.
        """
        self._text, self._name = text, name
        self._is_part, self._following = state is not None or following is not None, following
        self.state = LogState() if state is None else state
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
        for segment in self._entries(plain_runs=False):
            if isinstance(segment, Segment) and (statement := self._counted(segment)) is not None:
                yield statement

    def timed_texts(self) -> Iterator[tuple[str | None, float, str]]:
        """Yield schema, query time in seconds and text of the same statements, several times as fast.

        Raises UsageError as above; EntryContinues where only the text before or after this part of a log decides.
        """
        for entry in self._entries(plain_runs=True):
            if isinstance(entry, PlainRun):
                yield from self._plain_texts(entry)
            elif (statement := self._counted(entry)) is not None:
                yield statement.schema, statement.query_s, statement.sql

    def _entries(self, *, plain_runs: bool) -> Iterator[Segment | PlainRun]:
        """Yield the entries, and start anew at each banner."""
        is_slow_log, first_body = self._is_part, ""
        segments = divide_segments(self._text, plain_runs=plain_runs)
        following = None if self._following is None else divide_segments(self._following)
        for entry in join_entries(segments, following):
            if isinstance(entry, Banner):
                self.state, is_slow_log = LogState(schema=""), True
                continue
            if isinstance(entry, PlainRun):
                is_slow_log = True
            else:
                is_slow_log |= entry.head is not None
                first_body = first_body or entry.body
            yield entry
        if first_body and not is_slow_log:
            raise UsageError(
                "this is not a line of a slow query log", where=f"{self._name}:1",
                evidence=first_body.lstrip().split("\n", 1)[0][:120].encode("utf-8", "replace").decode(),
                next_step="give a file written with slow_query_log=ON and log_output=FILE",
            )  # fmt: skip

    def _counted(self, segment: Segment) -> LoggedStatement | None:
        """Return the statement of an entry, None without one; count it."""
        outcome = _statement(segment, self.state)
        if isinstance(outcome, str):
            self.skipped[outcome] += 1
            return None
        self.used += 1
        return outcome

    def _plain_texts(self, run: PlainRun) -> Iterator[tuple[str | None, float, str]]:
        """Yield what `_statement` says of the same entries: their head is whole, and their timestamp a time."""
        state, used = self.state, 0
        for match in run.matches:
            time, named, query, more, use, sql = match.group("time", "named", "query", "more", "use", "sql")
            if use is not None:
                state.schema = use
            if time is not None and not _is_moment(time):
                state.local_end_s = _local_time_s(time)
            if sql is None:
                self.skipped[ADMINISTRATOR] += 1
                continue
            if state.schema in _NO_SCHEMA_YET and (use_statement := _USE.fullmatch(sql)):
                _keep_used_schema(state, use_statement[1])
            used += 1
            schema = _schema_in(named, more)
            yield state.schema if schema is None else schema, float(query), sql
        self.used += used


def read_slow_log(lines: Iterable[str], *, name: str) -> SlowLog:
    """Return the log of lines with or without line feeds."""
    return SlowLog((line if line.endswith("\n") else f"{line}\n" for line in lines), name=name)


def why_outside(statement: LoggedStatement, schemas: Collection[str]) -> str:
    """Return why a statement belongs to none of these schemas; empty where it belongs to one."""
    return why_outside_schema(statement.schema, schemas)


def why_outside_schema(schema: str | None, schemas: Collection[str]) -> str:
    """Return why statements of a schema belong to none of these; empty where they belong to one."""
    if schema in schemas:
        return ""
    if schema is None:
        return "with an unknown schema"
    return "of other schemas" if schema else "without a schema"


def is_utf8(sql: str) -> bool:
    """Return whether the text of a log, decoded with surrogateescape, is UTF-8."""
    try:
        sql.encode()
    except UnicodeEncodeError:
        return False
    return True


@contextmanager
def slow_log(path: Path) -> Iterator[SlowLog]:
    """Yield the log in a file. Raises UsageError when the file cannot be read, also during iteration."""
    try:
        with safe_files.open_given(path) as file:
            yield SlowLog(decoded(file), name=str(path))
    except OSError as error:
        raise UsageError("the slow query log cannot be read", where=str(path), evidence=str(error)) from error


def decoded(file: BinaryIO, begin: int = 0, end: int | None = None) -> Iterator[str]:
    """Yield the text between two offsets, in the pieces in which the whole file is read."""
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    file.seek(begin)
    while end is None or begin < end:
        size = _CHUNK_BYTES - begin % _CHUNK_BYTES
        chunk = file.read(size if end is None else min(size, end - begin))
        if not chunk:
            if end is not None:
                raise OSError(f"the file became shorter while it was read, to {begin} bytes")
            break
        begin += len(chunk)
        yield decoder.decode(chunk)
    yield decoder.decode(b"", final=True)


def _keep_used_schema(state: LogState, name: str) -> None:
    """Take the schema of a statement `use`, which a line `use` would have named had an earlier one been known."""
    state.schema = (state.schema or "") + _unquoted(name)


def _schema_in(named: str | None, more: str) -> str | None:
    """Return the schema that a head names, None where it names none."""
    if "Schema: " not in more:
        return None if named is None else _named_schema(named)
    schema = _SCHEMA.search(f"{named or ''} {more}")
    return schema[1] if schema else None


@lru_cache(maxsize=4096)
def _named_schema(named: str) -> str | None:
    schema = _SCHEMA.search(named)
    return schema[1] if schema else None


def _is_moment(text: str) -> bool:
    """Return whether the text of `# Time:` is a time as MySQL from 5.7 on writes it."""
    if "T" not in text:
        return False
    try:
        parse_moment(text.strip())
    except ValueError:
        return False
    return True


def _statement(segment: Segment, state: LogState) -> LoggedStatement | str:
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
    if state.schema in _NO_SCHEMA_YET and (use_statement := _USE.fullmatch(sql)):
        _keep_used_schema(state, use_statement[1])
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


def _start_s(segment: Segment, head: re.Match[str], stamp: str | None, state: LogState) -> float | None:
    """Return when the statement began, as exactly as the log allows; None without a time."""
    query_s = float(head["query"])
    if (iso_s := iso_time_s(segment)) is not None:
        return round(iso_s - query_s, 6)  # else a second that is whole would not look so
    if head["time"] is not None:
        state.local_end_s = _local_time_s(head["time"])
    local_s = state.local_end_s
    if stamp is None:
        if isinstance(local_s, str):
            raise EntryContinues  # the part before decides
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
