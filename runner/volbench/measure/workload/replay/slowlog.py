"""Reads slow query logs of MySQL, Percona Server and MariaDB: each statement, when, in which schema, for how long.

`slowlog_entries` divides the text into entries, `logged_statement` reads one.
"""

from __future__ import annotations

import codecs
import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from volbench.core.base import safe_files
from volbench.core.base.text import counted
from volbench.errors import UsageError
from volbench.measure.workload.replay.logged_statement import (
    ADMINISTRATOR,
    NO_SCHEMA_YET,
    REMARK,
    LoggedStatement,
    LogState,
    is_administrator_command,
    is_moment,
    is_server_remark,
    keep_used_schema,
    local_time_s,
    schema_of_head,
    statement_of,
)
from volbench.measure.workload.replay.slowlog_entries import (
    Banner,
    LogSegment,
    PlainRun,
    divide_segments,
    join_entries,
)

_CHUNK_BYTES = 1 << 20
_COMPRESSED = ("\x1f\udc8b", "PK\3\4", "BZh", "\udcfd7zXZ", "(\udcb5/\udcfd")
"""What gzip, zip, bzip2, xz and zstd begin with, as text with lone surrogates."""


class LogText:
    """The text of a file between two offsets, to be iterated over once, in the pieces in which all of it is read.

    Without an end it is the file's size when the first piece is asked for: a server may write to the log as fast as
    it is read. `appended_bytes` is what it has written by the end of the reading.
    """

    def __init__(self, file: BinaryIO, begin: int = 0, end: int | None = None) -> None:
        """Read nothing yet."""
        self._file, self._begin, self._end = file, begin, end
        self.appended_bytes = 0

    def __iter__(self) -> Iterator[str]:
        """Yield the pieces. Raises OSError where the file has become shorter than the given end."""
        decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        begin, end = self._begin, self._size_bytes() if self._end is None else self._end
        self._file.seek(begin)
        while begin < end:
            chunk = self._file.read(min(_CHUNK_BYTES - begin % _CHUNK_BYTES, end - begin))
            if not chunk:
                if self._end is not None:
                    raise OSError(f"the file became shorter while it was read, to {begin} bytes")
                break
            begin += len(chunk)
            yield decoder.decode(chunk)
        if self._end is None:
            self.appended_bytes = max(0, self._size_bytes() - end)
        yield decoder.decode(b"", final=True)

    def _size_bytes(self) -> int:
        return self._file.seek(0, os.SEEK_END)


def appended_meanwhile(appended_bytes: int) -> str:
    """Return what the reading of a log has left out; empty where the server appended nothing meanwhile."""
    if not appended_bytes:
        return ""
    return f"left out: {counted(appended_bytes, 'byte')} that the server appended while the log was read"


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
        self.appended_bytes = 0

    @property
    def entries(self) -> int:
        """Return the number of entries so far."""
        return self.used + self.skipped.total()

    def summary(self) -> str:
        """Return a sentence: the number of entries, how many were used and skipped, and what was left out."""
        reasons = ", ".join(f"{count} {reason}" for reason, count in self.skipped.most_common())
        clauses = (
            f"{self.entries} entries, {self.used} of them statements",
            f"skipped: {reasons}" if reasons else "",
            appended_meanwhile(self.appended_bytes),
        )
        return "; ".join(filter(None, clauses))

    def __iter__(self) -> Iterator[LoggedStatement]:
        """Yield the statements. Raises UsageError naming the file when the text is no slow log."""
        for segment in self._entries(plain_runs=False):
            if isinstance(segment, LogSegment) and (statement := self._counted(segment)) is not None:
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

    def _entries(self, *, plain_runs: bool) -> Iterator[LogSegment | PlainRun]:
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
        if isinstance(self._text, LogText):
            self.appended_bytes = self._text.appended_bytes
        if first_body and not is_slow_log:
            raise UsageError(
                "this is not a line of a slow query log",
                where=f"{self._name}:1",
                evidence=first_body.lstrip().split("\n", 1)[0][:120].encode("utf-8", "replace").decode(),
                next_step="unpack it first: it is compressed"
                if first_body.startswith(_COMPRESSED)
                else "give a file written with slow_query_log=ON and log_output=FILE",
            )

    def _counted(self, segment: LogSegment) -> LoggedStatement | None:
        """Return the statement of an entry, None without one; count it."""
        outcome = statement_of(segment, self.state)
        if isinstance(outcome, str):
            self.skipped[outcome] += 1
            return None
        self.used += 1
        return outcome

    def _plain_texts(self, run: PlainRun) -> Iterator[tuple[str | None, float, str]]:
        """Yield what `statement_of` says of the same entries: their head is whole, and their timestamp a time."""
        state, used = self.state, 0
        for match, sql in run.entries:
            time, named, query, more, use = match.group("time", "named", "query", "more", "use")
            if use is not None:
                state.schema = use
            if time is not None and not is_moment(time):
                state.local_end_s = local_time_s(time)
            if sql[0] == "#" and is_administrator_command(sql):
                self.skipped[ADMINISTRATOR] += 1
                continue
            if is_server_remark(sql):
                self.skipped[REMARK] += 1
                continue
            if state.schema in NO_SCHEMA_YET:
                keep_used_schema(state, sql)
            used += 1
            schema = schema_of_head(named, more)
            yield state.schema if schema is None else schema, float(query), sql
        self.used += used


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


@contextmanager
def slow_log(path: Path) -> Iterator[SlowLog]:
    """Yield the log in a file. Raises UsageError when the file cannot be read, also during iteration."""
    try:
        with safe_files.open_given(path) as file:
            yield SlowLog(LogText(file), name=str(path))
    except OSError as error:
        raise UsageError("the slow query log cannot be read", where=str(path), evidence=str(error)) from error
