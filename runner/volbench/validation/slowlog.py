"""Reads slow query logs of MySQL and MariaDB: each statement, when, on which connection, for how long."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from volbench.errors import UsageError

STATEMENT_BYTES_MAX = 16 << 20
_TIME = re.compile(r"# Time: (?P<iso>\d{4}-\d\d-\d\dT\S+)|# Time: \d{6}\s+\d{1,2}:\d\d:\d\d")
_USER = re.compile(r"# User@Host: (?P<user>[^\[]*)\[[^\]]*\].*?(Id:\s*(?P<id>\d+))?\s*$")
_THREAD = re.compile(r"# Thread_id:\s*(?P<id>\d+)(\s+Schema: (?P<schema>\S*) )?")
_NUMBERS = re.compile(r"(?P<name>Query_time|Lock_time|Rows_sent|Rows_examined):\s*(?P<value>[\d.]+)")
_STAMP = re.compile(r"SET timestamp=(?P<at>\d+(\.\d+)?);\s*$", re.IGNORECASE)
_USE = re.compile(r"use `?(?P<schema>[^`;]+)`?;\s*$", re.IGNORECASE)
_HEADERS = (
    re.compile(r".*, Version: .* started with:"),
    re.compile(r"T(cp|CP) [Pp]ort: "),
    re.compile(r"Time\s+Id\s+Command"),
)
_ADMINISTRATOR = re.compile(r"# administrator command: ")


@dataclass(frozen=True, kw_only=True)
class LoggedStatement:
    """One statement. `at_s` is its start, seconds since 1970.

    MySQL logs the end to the microsecond, so the start is known. MariaDB, and MySQL before 5.7, log whole seconds
    of local time; then it is the second of `SET timestamp`, and statements within it keep their order only.
    """

    at_s: float
    connection: int
    user: str
    schema: str
    query_s: float
    lock_s: float
    rows_sent: int
    rows_examined: int
    sql: str


@dataclass
class _Entry:
    """What was read of an entry so far; `end_s` is when it was written."""

    user: str = ""
    connection: int = 0
    numbers: dict[str, float] = field(default_factory=dict)
    stamp_s: float | None = None
    lines: list[str] = field(default_factory=list)


def read_slow_log(lines: Iterable[str], *, name: str) -> Iterator[LoggedStatement]:
    """The statements of a log, in its order; connects and other administrator commands are left out.

    Raises UsageError naming the line when the text is no slow log.
    """
    reader = _Reader(name)
    for number, line in enumerate(lines, 1):
        yield from reader.line(line.rstrip("\r\n"), number)
    yield from reader.end()


@contextmanager
def slow_log(path: Path) -> Iterator[Iterator[LoggedStatement]]:
    """The statements of a file. Raises UsageError when it cannot be read, then or later."""
    try:
        with path.open(encoding="utf-8", errors="replace") as lines:
            yield read_slow_log(lines, name=str(path))
    except OSError as error:
        raise UsageError("the slow query log cannot be read", where=str(path), evidence=str(error)) from error


class _Reader:
    """Goes through a log line by line; comments begin an entry, other lines are its statement."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._time_s: float | None = None
        self._schema: dict[int, str] = {}
        self._entry: _Entry | None = None
        self._bytes = 0

    def line(self, text: str, number: int) -> Iterator[LoggedStatement]:
        """What is complete now that this line is read."""
        if text.startswith("# ") and self._comment(text):
            return
        if any(pattern.match(text) for pattern in _HEADERS):
            yield from self.end()
        elif found := _TIME.match(text):
            yield from self.end()
            self._time_s = _seconds(found["iso"]) if found["iso"] else None
        elif found := _USER.match(text):
            yield from self.end()
            self._entry = _Entry(user=found["user"].strip(), connection=int(found["id"] or 0))
        elif self._entry is not None:
            self._statement(text, number)
        elif text.strip():
            raise UsageError(
                "this is not a line of a slow query log", where=f"{self._name}:{number}", evidence=text[:120],
                next_step="give a file written with slow_query_log=ON and log_output=FILE",
            )  # fmt: skip

    def end(self) -> Iterator[LoggedStatement]:
        """The entry that was being read, when it has a statement and a time."""
        entry, self._entry, self._bytes = self._entry, None, 0
        sql = "\n".join(entry.lines).strip().removesuffix(";") if entry else ""
        if entry is None or not sql or "query_time" not in entry.numbers:
            return
        if self._time_s is not None:
            at_s = self._time_s - entry.numbers["query_time"]
        elif entry.stamp_s is not None:
            at_s = entry.stamp_s
        else:
            return
        yield LoggedStatement(
            at_s=round(at_s, 6),  # as exact as the log; else a second that is whole would not look so
            connection=entry.connection,
            user=entry.user,
            schema=self._schema.get(entry.connection, ""),
            query_s=entry.numbers["query_time"],
            lock_s=entry.numbers.get("lock_time", 0.0),
            rows_sent=int(entry.numbers.get("rows_sent", 0)),
            rows_examined=int(entry.numbers.get("rows_examined", 0)),
            sql=sql,
        )

    def _comment(self, text: str) -> bool:
        """Whether the line says something about the entry that has begun."""
        if self._entry is None or self._entry.lines:
            return False
        if found := _THREAD.match(text):
            self._entry.connection = int(found["id"])
            if found["schema"]:
                self._schema[self._entry.connection] = found["schema"]
            return True
        numbers = {found["name"].lower(): float(found["value"]) for found in _NUMBERS.finditer(text)}
        self._entry.numbers |= numbers
        if _ADMINISTRATOR.match(text):
            self._entry = _Entry()
            return True
        return not text.startswith(("# Time:", "# User@Host:"))

    def _statement(self, text: str, number: int) -> None:
        entry = self._entry
        assert entry is not None  # noqa: S101 - the caller asked
        if not entry.lines and (found := _USE.fullmatch(text.strip())):
            self._schema[entry.connection] = found["schema"]
        elif not entry.lines and (found := _STAMP.fullmatch(text.strip())):
            entry.stamp_s = float(found["at"])
        else:
            self._bytes += len(text)
            if self._bytes > STATEMENT_BYTES_MAX:
                raise UsageError(
                    f"a statement of more than {STATEMENT_BYTES_MAX >> 20} MiB", where=f"{self._name}:{number}"
                )
            entry.lines.append(text)


def _seconds(iso: str) -> float:
    moment = datetime.fromisoformat(iso)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
