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

Servers escape nothing, so a literal or a comment may have lines that look like an entry. A head within an open
literal or comment is text of the statement; `_with_text_inside` distinguishes it from one that follows a literal
that never ends.
"""

from __future__ import annotations

import codecs
import math
import re
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from volbench.errors import UsageError
from volbench.records.parse import EPOCH_MAX_S, parse_moment

STATEMENT_CHARACTERS_MAX = 128 << 20
"""A longer statement is counted and skipped; servers allow a GiB, and 16 or 64 MiB by default."""
ADMINISTRATOR = "that are administrator commands"
CUT = "that were cut off"
TOO_LONG = f"of more than {STATEMENT_CHARACTERS_MAX >> 20} MiB"
WITHOUT_TIME = "without a readable time"
_CHUNK_BYTES = 1 << 20
_HEAD_CHARACTERS_MAX = 8192
_LOOKAHEAD_SEGMENTS = 1024
_CLOCK_SLACK_S = 2.0
_BLANK = " \t\r\n\x00"
"""A crash may leave zeros after the last entry."""

_HEAD = re.compile(
    r"# (?:(?:Time: (?P<time>[^\n]*)\n# )?User@Host: (?P<user>[^\n]*)\n# )?"
    r"(?:(?P<named>(?:Thread_id|Schema): [^\n]*)\n# )?"
    r"Query_time: (?P<query>\d{1,9}(?:\.\d{1,9})?)  ?Lock_time: (?P<lock>\d{1,9}(?:\.\d{1,9})?)  ?"
    r"Rows_sent: (?P<sent>\d{1,20})  ?Rows_examined: (?P<examined>\d{1,20})(?P<more>[^\n]*)\n"
)
_BANNER_END = re.compile(r" started with:\r?\nT(?:cp|CP) [Pp]ort: [^\n]*\nTime[ \t]+Id Command[ \t]+Argument\r?\n")
"""The text after the version. Only the end of the line before is searched, since it may be a long statement."""
_BANNER_MARK = "started with:"
_PREAMBLE = re.compile(
    r"(?P<comments>(?:#(?! administrator command: )[^\n]*\n)*)"
    r"(?:use (?P<use>[^\n]*);\r?\n)?"
    r"(?:SET (?=[lit])(?:last_insert_id=-?\d+,?)?(?:insert_id=-?\d+,?)?"
    r"(?:timestamp=(?P<stamp>\d{1,12}(?:\.\d{1,6})?))?;\r?\n)?"
)
_ADMINISTRATOR = re.compile(r"# administrator command: [\w ]+")
_USE = re.compile(r"use\s+(`(?:[^`]|``)+`|[^\s`]+)", re.IGNORECASE)
_CONNECTION = re.compile(r"\bId: *(\d{1,20})\s*\Z")
_THREAD = re.compile(r"\bThread_id: (\d{1,20})\b")
_SCHEMA = re.compile(r"\bSchema: (.*?)(?:  QC_hit: |  Last_errno: | Rows_affected: )")
_ROUTINE = re.compile(r"^# Stored_routine: (.*?)\r?$", re.MULTILINE)
_LOCAL_TIME = re.compile(r"\d{6} +\d{1,2}:\d\d:\d\d\s*\Z")
_MAY_HIDE = re.compile(r"['\"`#]|/\*|--")
_OUTSIDE = r"[^'\"`#/\-]++|/(?!\*)|-(?!-(?:[\s\x00]|\Z))|`[^`]*+`|/\*.*?\*/|(?:\#|--)[^\n]*+"
_CLOSED = re.compile(rf"(?>{_OUTSIDE}|'(?:[^'\\]|\\.)*+'|\"(?:[^\"\\]|\\.)*+\")*+\Z", re.DOTALL)
_CLOSED_WITHOUT_ESCAPES = re.compile(rf"(?>{_OUTSIDE}|'[^']*+'|\"[^\"]*+\")*+\Z", re.DOTALL)
"""Text without an open literal or comment, with backslash escapes, and with NO_BACKSLASH_ESCAPES."""


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
        for segment in _entries(_segments(self._text)):
            if isinstance(segment, _Banner):
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


@dataclass(frozen=True, kw_only=True, slots=True)
class _Segment:
    """A head, None for text without one, and the text up to the next head or banner.

    Args:
        is_partial: the text is too long and was truncated.
        is_cut: the log ends within the text.
    """

    head: re.Match[str] | None
    body: str
    is_partial: bool = False
    is_cut: bool = False


@dataclass(frozen=True)
class _Banner:
    """The point where the server opened the log."""


def _segments(text: Iterable[str]) -> Iterator[_Segment | _Banner]:
    """Yield the log, divided at everything that looks like a head or a banner."""
    head: re.Match[str] | None = None
    buffer, searched, is_partial = "", 0, False
    for chunk in text:
        buffer += chunk
        start = 0
        for match in _HEAD.finditer(buffer, searched):
            if match["user"] is None and match.start() and buffer[match.start() - 1] != "\n":
                continue
            yield from _split_at_banners(head, buffer[start : match.start()], is_partial=is_partial)
            head, start, is_partial = match, match.end(), False
        buffer = buffer[start:]
        searched = max(0, len(buffer) - _HEAD_CHARACTERS_MAX)
        if searched > STATEMENT_CHARACTERS_MAX:
            buffer, searched, is_partial = buffer[searched:], 0, True
    yield from _split_at_banners(head, buffer, is_partial=is_partial)


def _split_at_banners(head: re.Match[str] | None, body: str, *, is_partial: bool) -> Iterator[_Segment | _Banner]:
    """Yield the text after a head, divided at the server's banners; text after a banner belongs to no entry."""
    start = 0
    if _BANNER_MARK in body:
        for match in _BANNER_END.finditer(body):
            line = max(start, body.rfind("\n", start, match.start()) + 1)
            if body.find(", Version: ", line, match.start()) < 0:
                continue
            if head is not None or body[start:line].strip(_BLANK):
                yield _Segment(head=head, body=body[start:line], is_partial=is_partial)
            yield _Banner()
            head, start, is_partial = None, match.end(), False
    if head is not None or body[start:].strip(_BLANK):
        yield _Segment(head=head, body=body[start:], is_partial=is_partial)


def _entries(segments: Iterator[_Segment | _Banner]) -> Iterator[_Segment | _Banner]:
    """Yield each segment, joined with following ones whose heads are text of its statement."""
    waiting: deque[_Segment | _Banner] = deque()

    def ahead(number: int) -> _Segment | _Banner | None:
        while len(waiting) <= number:
            following = next(segments, None)
            if following is None:
                return None
            waiting.append(following)
        return waiting[number]

    while (segment := ahead(0)) is not None:
        waiting.popleft()
        if isinstance(segment, _Segment) and _is_open(segment):
            segment, count = _with_text_inside(segment, ahead)
            for _ in range(count):
                waiting.popleft()
        yield segment


def _with_text_inside(segment: _Segment, ahead: Callable[[int], _Segment | _Banner | None]) -> tuple[_Segment, int]:
    """Return the segment with following ones that are text of its open literal or comment, and their number.

    A literal is open because its end comes later, or because it never ends: the entry was cut off, has a syntax
    error (which MySQL never writes), or is of a session with NO_BACKSLASH_ESCAPES. Then a later statement's quotes
    seem to end the literal. So where that is possible, a head with a plausible time is a real one.
    """
    body, next_segment = segment.body, ahead(0)
    is_closed = _CLOSED_WITHOUT_ESCAPES.match(body) is not None
    may_be_whole = is_closed or not _is_complete(body) or _iso_time(segment) is None
    if may_be_whole and (
        is_closed
        if next_segment is None
        else isinstance(next_segment, _Segment) and _is_next(segment, next_segment)
    ):
        return segment, 0
    for number in range(_LOOKAHEAD_SEGMENTS):
        following = ahead(number)
        if following is None:
            return replace(segment, body=body, is_cut=True), number
        if isinstance(following, _Banner):
            break
        body += (following.head[0] if following.head else "") + following.body
        if _is_complete(body) and _is_closed(body):
            return replace(segment, body=body), number + 1
    return segment, 0


def _is_next(segment: _Segment, following: _Segment) -> bool:
    """Return whether the times of two segments allow them to be consecutive entries."""
    written_s, next_s = _written_s(segment), _written_s(following)
    return written_s is None or (next_s is not None and next_s > written_s - _CLOCK_SLACK_S)


def _written_s(segment: _Segment) -> float | None:
    """Return the approximate time at which the entry was written, on one clock for all entries of a log."""
    if (iso_s := _iso_time(segment)) is not None:
        return iso_s
    preamble = _PREAMBLE.match(segment.body)
    if segment.head is None or preamble is None or preamble["stamp"] is None:
        return None
    return float(preamble["stamp"]) + float(segment.head["query"])


def _iso_time(segment: _Segment) -> float | None:
    """Return the time of a head in the form of MySQL 5.7 and later; None for another form."""
    text = segment.head["time"] if segment.head is not None else None
    if text is None or "T" not in text:
        return None
    try:
        return parse_moment(text.strip()).timestamp()
    except ValueError:
        return None


def _is_closed(text: str) -> bool:
    """Return whether no literal and no comment is open at the end of the text."""
    return _MAY_HIDE.search(text) is None or _CLOSED.match(text) is not None


def _is_open(segment: _Segment) -> bool:
    """Return whether the statement's text may continue after the next head; False for a truncated one."""
    return segment.head is not None and not segment.is_partial and not _is_closed(segment.body)


def _is_complete(body: str) -> bool:
    """Return whether the text ends like a statement, with a line feed after its semicolon."""
    text = body.rstrip(_BLANK)
    return text.endswith(";") and "\n" in body[len(text) :]


def _statement(segment: _Segment, state: _State) -> LoggedStatement | str:
    """Return the statement of an entry, or why it has none; update `state`."""
    head, preamble = segment.head, _PREAMBLE.match(segment.body)
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


def _has_no_timestamp(segment: _Segment) -> bool:
    """Return whether the head may be of MySQL 5.0, which writes a timestamp only when a statement uses it."""
    return segment.head is not None and segment.head["named"] is None and _iso_time(segment) is None


def _sql(head: re.Match[str], text: str) -> str:
    """Return the statement without its end; empty where the end is missing."""
    if not _is_complete(text):
        return ""
    text = text.rstrip(_BLANK)[:-1]
    return text.replace("\r\n", "\n") if head[0].endswith("\r\n") else text


def _unquoted(name: str) -> str:
    if len(name) > 1 and name[0] == name[-1] == "`":
        return name[1:-1].replace("``", "`")
    return name


def _start_s(segment: _Segment, head: re.Match[str], stamp: str | None, state: _State) -> float | None:
    """Return when the statement began, as exactly as the log allows; None without a time."""
    query_s = float(head["query"])
    if (iso_s := _iso_time(segment)) is not None:
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
