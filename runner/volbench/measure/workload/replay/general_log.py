"""Reads general query logs of MySQL, Percona Server and MariaDB: each statement, when it came, on which connection.

What the servers write, by their sources (MySQL 5.7 to 9: `File_query_log::write_general`; MySQL 5.6 and MariaDB:
`MYSQL_QUERY_LOG::write`), and what of it was seen in logs that were recorded (tests/fixtures/general-log):

- *Entry.* A time, the connection's number, the command's name, a tab, its text, a line feed. The time is that of
  the arrival, but for `Execute` in MariaDB, which is written after its end if it succeeded: to the microsecond in
  MySQL from 5.7 on; else local time to the second, and two tabs while the second is the same. The text is not
  escaped, so it may hold lines that look like an entry.
- *Schema.* It is the connection's own: of `Connect` (`USER@HOST on SCHEMA using ...`), `Change user`, `Init DB`, or
  a statement `USE`.
- *Statement.* `Query`, and `Execute` with the values in place of the placeholders. What a trigger or a stored
  function sends is written like a client's statement, after the one that called it: no log tells them apart.
- *Not written.* How long a statement took, whether it failed; in MySQL, a statement with an error of syntax.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from volbench.core.base import safe_files
from volbench.core.base.parse import parse_moment
from volbench.core.sql.fingerprint import fingerprint
from volbench.core.sql.tokens import is_closed, statements, without_values
from volbench.errors import UsageError
from volbench.measure.workload.replay.logged_statement import (
    ADMINISTRATOR,
    CUT,
    TOO_LONG,
    WITHOUT_TIME,
    LoggedStatement,
    local_time_s,
    used_schema,
)
from volbench.measure.workload.replay.slowlog import LogText
from volbench.measure.workload.replay.slowlog_entries import BLANK, STATEMENT_CHARACTERS_MAX

WITHOUT_VALUES = "that were executed in bulk, without their values"
OF_ROUTINES = "that triggers or stored routines sent"
_STATEMENTS = ("Query", "Execute")
_CLOCK_SLACK_S = 0.5
"""Entries of threads may be so much out of order."""
_LOOKS_MAX = 1000
"""After so many lines that look like heads a literal counts as open until a head with a later time."""
_TIME = r"(?P<time>\d{4}-\d\d-\d\dT[\d:.]{8,15}(?:Z|[+-]\d\d:\d\d)|\d{6} [ \d]\d:\d\d:\d\d)\t"
_COMMAND = r" *(?P<connection>\d{1,20}) (?P<command>[A-Za-z][A-Za-z_ ]{2,39})\t"
_HEAD = re.compile(rf"(?:{_TIME}|\t\t){_COMMAND}")
_TIMED = re.compile(_TIME + _COMMAND)
_SLOW_HEAD = re.compile(r"# (?:Time|User@Host|Query_time): ")
_LINES_LOOKED_AT = 10_000
"""By `is_general_log`: a part of a log may begin within a long statement."""
_BANNER = re.compile(
    r"[^\n]*(?:, Version: [^\n]* started with:|^T(?:cp|CP) [Pp]ort: |^Time[ \t]+Id Command[ \t]+Argument)"
)
_ON_SCHEMA = re.compile(r"(?P<user>[^@\n]*)@\S*(?: as \S*)? on (?P<schema>.*?)(?: using [\w/ ]+)?\Z")
_COMPOUND = re.compile(
    r"\b(?:procedure|function|trigger|event|package)\b|\bbegin not atomic\b|/\*m?!"
    r"|(?:\A|;)\s*(?:if|loop|while|repeat|case|for)\b"
)
"""Statements that may have others in them; dumps write them in comments that servers execute."""
_SPLIT_MAX = 1 << 20
_VARIABLES = re.compile(r"\bname_const\s*\(|\A\s*select\b.*\binto\s+(?!@|outfile\b|dumpfile\b)[`\w]")
_ROW = re.compile(r"\b(?P<name>new|old)\s*\.")
_NO_ROW = r"(?:\b{name}\b(?!\s*\.)|\b(?:from|join|into|update|table)\s+{name}\s*\.)"
"""An alias of the name, or a schema of the name before a table's."""
_COMMENTS_BEFORE = re.compile(r"(?:\s+|/\*(?!M?!).*?\*/|(?:#|--\s)[^\n]*(?:\n|\Z))*", re.DOTALL)


@dataclass(slots=True)
class _Entry:
    """An entry, whose text grows by the lines that belong to it."""

    at_s: float | None
    connection: int
    command: str
    lines: list[str] = field(default_factory=list)
    characters: int = 0
    is_cut: bool = False
    quotes_log: bool = False
    """Its open literal has lines of an older log."""
    looks: int = 0
    """How often it was asked whether its literal is still open; each takes time by the length of its text."""

    def add(self, line: str) -> None:
        self.characters += len(line)
        if self.characters <= STATEMENT_CHARACTERS_MAX:
            self.lines.append(line)

    def text(self) -> str:
        return "\n".join(self.lines).rstrip(BLANK)


@dataclass(slots=True)
class _Connection:
    """What earlier entries tell of a connection; its schema is None where it began before the log."""

    user: str = ""
    schema: str | None = None

    def follow(self, command: str, text: str) -> bool:
        """Take user and schema from a command that is no statement; return whether it is of that kind."""
        if command in {"Connect", "Change user"}:
            if (named := _ON_SCHEMA.match(text)) is not None:
                self.user, self.schema = named["user"], named["schema"]
        elif command == "Init DB":
            self.schema = text
        else:
            return command == "Quit"
        return True


@dataclass(kw_only=True)
class GeneralLog:
    """The statements of a log in order of their arrival, to be iterated over once; counts skipped ones meanwhile.

    Args:
        text: of the log, in pieces.
        name: for messages.
        schema: of connections that were open before the log began; None: unknown.
    """

    text: Iterable[str]
    name: str
    schema: str | None = None
    used: int = 0
    of_open_connections: int = 0
    """Statements of connections whose schema the log does not show."""
    skipped: Counter[str] = field(default_factory=Counter)
    _connections: dict[int, _Connection] = field(default_factory=dict)
    _is_iso: bool = False
    """The times are those of MySQL from 5.7 on, which writes each of several statements by itself."""

    @property
    def appended_bytes(self) -> int:
        """Return what the server appended to the file while it was read to its end."""
        return self.text.appended_bytes if isinstance(self.text, LogText) else 0

    def __iter__(self) -> Iterator[LoggedStatement]:
        """Yield the statements. Raises UsageError naming the file when the text is no general log."""
        for entry in self._entries():
            connection = self._connections.setdefault(entry.connection, _Connection())
            if entry.command not in _STATEMENTS:
                if not connection.follow(entry.command, entry.text()):
                    self.skipped[ADMINISTRATOR] += 1
                if entry.command == "Quit":
                    del self._connections[entry.connection]
                continue
            text = entry.text()
            for sql in (text,) if self._is_iso else statements_in(text) or ("",):
                if (
                    len(sql) <= _SPLIT_MAX
                    and (named := used_schema(_COMMENTS_BEFORE.sub("", sql, count=1))) is not None
                ):
                    connection.schema = named
                if reason := _why_skipped(entry, sql):
                    self.skipped[reason] += 1
                else:
                    self.used += 1
                    yield self._statement(entry, connection, sql)

    def _entries(self) -> Iterator[_Entry]:
        """Yield the entries, each with all lines of its text."""
        entry, last_s, first_line = None, None, ""
        for line in _lines(self.text):
            head = _HEAD.match(line)
            if head is None and entry is None:
                first_line = first_line or line.strip(BLANK)  # of a statement that began before this part of a log
            elif entry is not None and (head is None or self._is_text(entry, head)):
                if not (_BANNER.match(line) and is_closed(entry.text())):
                    entry.add(line)
            elif head is not None:
                if entry is not None:
                    yield entry
                if head["time"] is not None:
                    last_s, self._is_iso = _time_s(head["time"]), "T" in head["time"]
                entry = _Entry(last_s, int(head["connection"]), head["command"].strip())
                entry.add(line[head.end() :])
        if entry is not None:
            yield entry
        elif first_line:
            raise self._refusal(first_line)

    def _is_text(self, entry: _Entry, head: re.Match[str]) -> bool:
        """Return whether what looks like a head is text of the entry's open literal or comment.

        A literal may also never end: in a statement with an error of syntax, or of a session with
        NO_BACKSLASH_ESCAPES. Entries follow in order of time, and texts quote older logs. So a head with an earlier
        time is text, and so are those after it without a time, and those of connections that the log does not have.
        """
        if entry.command not in _STATEMENTS:
            return False
        timed = head if head["time"] is not None else None
        if entry.looks < _LOOKS_MAX:
            entry.looks += 1
            if is_closed(text := entry.text()):
                return False
            timed = timed or _TIMED.search(text)
        if timed is not None:
            time_s = _time_s(timed["time"])
            is_other_log = ("T" in timed["time"]) != self._is_iso
            entry.quotes_log = is_other_log or time_s is None or time_s < (entry.at_s or 0.0) - _CLOCK_SLACK_S
        is_new = int(head["connection"]) not in self._connections and head["command"] != "Connect"
        is_text = entry.quotes_log or (head["time"] is None and is_new)
        if not is_text:
            entry.is_cut = not (is_closed(entry.text()) or is_closed(entry.text(), escapes=False))
        return is_text

    def _refusal(self, line: str) -> UsageError:
        return UsageError(
            "this is not a general query log",
            where=f"{self.name}:1",
            evidence=line[:120].encode("utf-8", "replace").decode(),
            next_step="give a file written with general_log=ON and log_output=FILE",
        )

    def _statement(self, entry: _Entry, connection: _Connection, sql: str) -> LoggedStatement:
        schema = connection.schema
        if schema is None:
            self.of_open_connections += 1
            schema = self.schema
        return LoggedStatement(
            at_s=entry.at_s or 0.0,
            connection=entry.connection,
            user=connection.user,
            schema=schema,
            query_s=0.0,
            lock_s=0.0,
            rows_sent=0,
            rows_examined=0,
            sql=sql,
        )


def _why_skipped(entry: _Entry, sql: str) -> str:
    """Return why a statement cannot be sent; empty where it can."""
    if entry.at_s is None:
        return WITHOUT_TIME
    if entry.characters > STATEMENT_CHARACTERS_MAX:
        return TOO_LONG
    if entry.is_cut or not sql:
        return CUT
    if entry.command == "Execute" and len(sql) <= _SPLIT_MAX and "?" in without_values(sql):
        return WITHOUT_VALUES
    return OF_ROUTINES if is_of_routine(sql) else ""


@contextmanager
def general_log(path: Path, *, schema: str | None = None) -> Iterator[GeneralLog]:
    """Yield the log in a file. Raises UsageError when the file cannot be read, also during iteration."""
    try:
        with safe_files.open_given(path) as file:
            yield GeneralLog(text=LogText(file), name=str(path), schema=schema)
    except OSError as error:
        raise UsageError("the general query log cannot be read", where=str(path), evidence=str(error)) from error


def is_general_log(path: Path) -> bool:
    """Return whether an entry of a general log comes before any of a slow log. Raises UsageError."""
    with general_log(path) as log:
        for line in islice(_lines(log.text), _LINES_LOOKED_AT):
            if _HEAD.match(line) is not None:
                return True
            if _SLOW_HEAD.match(line) is not None:
                return False
    return False


def statements_in(sql: str) -> list[str]:
    """Return the statements that a client sent at once: MariaDB writes them as one entry.

    A text that may have a block in it is one statement, and so is one that is long or has backslashes, which mean
    nothing in some sessions: as a whole it is never sent.
    """
    if ";" not in sql or "\\" in sql or len(sql) > _SPLIT_MAX or _COMPOUND.search(fingerprint(sql)) is not None:
        return [sql]
    texts = [text.strip(BLANK) for text in statements(sql)]
    return [text for text in texts if text]


def is_of_routine(sql: str) -> bool:
    """Return whether a statement refers to variables that only exist within a trigger or a stored routine.

    `NEW.` and `OLD.` are rows of a trigger, unless the statement has an alias or a schema of that name.
    """
    shape = fingerprint(sql)
    if shape.startswith("create"):
        return False
    rows = {row["name"] for row in _ROW.finditer(shape)}
    return bool(_VARIABLES.search(shape)) or any(
        re.search(_NO_ROW.format(name=name), shape) is None for name in rows
    )


def _lines(text: Iterable[str]) -> Iterator[str]:
    """Yield the lines without their ends; of one that is far too long, its beginning."""
    pieces: list[str] = []
    for chunk in text:
        *ended, begun = chunk.split("\n")
        for line in ended:
            yield "".join([*pieces, line])
            pieces = []
        if sum(map(len, pieces)) <= STATEMENT_CHARACTERS_MAX:
            pieces.append(begun)
    if any(pieces):
        yield "".join(pieces)


def _time_s(text: str) -> float | None:
    """Return the time of a head since 1970, None where it is no time; local time as if it were UTC."""
    if "T" not in text:
        return local_time_s(text)
    try:
        return parse_moment(text).timestamp()
    except ValueError:
        return None
