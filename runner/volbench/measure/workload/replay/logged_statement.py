"""One entry of a slow query log, read as a statement.

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
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache

from volbench.core.base.parse import EPOCH_MAX_S, parse_moment
from volbench.measure.workload.replay.slowlog_entries import (
    BLANK,
    PREAMBLE,
    STATEMENT_CHARACTERS_MAX,
    EntryContinues,
    LogSegment,
    is_complete,
    iso_time_s,
)

ADMINISTRATOR = "that are administrator commands"
REMARK = "that are remarks of the server on entries it left out"
CUT = "that were cut off"
TOO_LONG = f"of more than {STATEMENT_CHARACTERS_MAX >> 20} MiB"
WITHOUT_TIME = "without a readable time"
INHERITED = "\ud800"
"""What an earlier part of the log decides; no text of a log decodes to it.

A schema follows it where a statement `use` set one if no earlier entry did.
"""
_THROTTLE = re.compile(r"throttle: +\d+ '[^'\n]*' warning\(s\) suppressed\.")
_ADMINISTRATOR = re.compile(r"# administrator command: [\w ]+")
_USE = re.compile(r"use\s+(`(?:[^`]|``)+`|[^\s`]+)", re.IGNORECASE)
_CONNECTION = re.compile(r"\bId: *(\d{1,20})\s*\Z")
_THREAD = re.compile(r"\bThread_id: (\d{1,20})\b")
_SCHEMA = re.compile(r"\bSchema: (.*?)(?:  QC_hit: |  Last_errno: | Rows_affected: )")
_ROUTINE = re.compile(r"^# Stored_routine: (.*?)\r?$", re.MULTILINE)
NO_SCHEMA_YET = (None, INHERITED)
"""Schemas of a state before the first `use`."""
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


def used_schema(sql: str) -> str | None:
    """Return the schema that a statement `use` names, None for any other statement."""
    use_statement = _USE.fullmatch(sql)
    return _unquoted(use_statement[1]) if use_statement else None


def keep_used_schema(state: LogState, sql: str) -> None:
    """Take the schema of a statement `use`, which a line `use` would have named had an earlier one been known."""
    if (named := used_schema(sql)) is not None:
        state.schema = (state.schema or "") + named


def schema_of_head(named: str | None, more: str) -> str | None:
    """Return the schema that a head names, None where it names none."""
    if "Schema: " not in more:
        return None if named is None else _named_schema(named)
    schema = _SCHEMA.search(f"{named or ''} {more}")
    return schema[1] if schema else None


@lru_cache(maxsize=4096)
def _named_schema(named: str) -> str | None:
    schema = _SCHEMA.search(named)
    return schema[1] if schema else None


def is_administrator_command(sql: str) -> bool:
    """Return whether the text in place of a statement names a command of the protocol."""
    return _ADMINISTRATOR.fullmatch(sql) is not None


def is_server_remark(sql: str) -> bool:
    """Return whether a text is the server's own, see log_throttle_queries_not_using_indexes."""
    return sql.startswith("throttle:") and _THROTTLE.fullmatch(sql) is not None


def is_moment(text: str) -> bool:
    """Return whether the text of `# Time:` is a time as MySQL from 5.7 on writes it."""
    if "T" not in text:
        return False
    try:
        parse_moment(text.strip())
    except ValueError:
        return False
    return True


def statement_of(segment: LogSegment, state: LogState) -> LoggedStatement | str:
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
    if state.schema in NO_SCHEMA_YET:
        keep_used_schema(state, sql)
    if is_administrator_command(sql) or is_server_remark(sql):
        return REMARK if is_server_remark(sql) else ADMINISTRATOR
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


def _has_no_timestamp(segment: LogSegment) -> bool:
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


def _start_s(segment: LogSegment, head: re.Match[str], stamp: str | None, state: LogState) -> float | None:
    """Return when the statement began, as exactly as the log allows; None without a time."""
    query_s = float(head["query"])
    if (iso_s := iso_time_s(segment)) is not None:
        return round(iso_s - query_s, 6)  # else a second that is whole would not look so
    if head["time"] is not None:
        state.local_end_s = local_time_s(head["time"])
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


def local_time_s(text: str) -> float | None:
    """Return the local time of `# Time:` before MySQL 5.7 as if it were UTC, None where it is no time."""
    match = _LOCAL_TIME.match(text)
    if match is None:
        return None
    try:
        moment = datetime.strptime(" ".join(match[0].split()), "%y%m%d %H:%M:%S").replace(tzinfo=UTC)
        return moment.timestamp()
    except ValueError:
        return None
