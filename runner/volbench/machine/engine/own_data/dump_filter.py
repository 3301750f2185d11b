"""Leaves out of a dump what is not for an account with rights on one schema: definers, schemas, server's settings.

Line breaks stay, so that the client's `at line N` is the dump's.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from volbench.core.base.text import counted
from volbench.errors import UsageError
from volbench.machine.engine.own_data.statements import SANDBOX_MARK, Statements, end_of

_LEAD = re.compile(
    rb"(?:\s++|(?:--|#)[^\n]*+(?:\n|\Z)|/\*(?![!+]|M!)(?:[^*]++|\*(?!/))*\*/|" + SANDBOX_MARK.pattern + rb")*"
)
_VERSIONED = rb"(?:/\*M?!\d*\s*)?"
_WRAPPED = re.compile(rb"(?:/\*M?!\d*\s*)?(.*?)\s*(?:\*/)?\s*;?\s*", re.DOTALL)
_SERVER_BYTES_MAX = 1 << 20
_WARNINGS_BYTES_MAX = 1 << 14
_WARNINGS = re.compile(
    rb"(?:(?:(?:[\w./-]*/)?(?:mysqldump|mariadb-dump|mysqlpump): \[?(?:Warning|Note)\]?:?|Warning:)"
    rb"[ \t][^\n]*\n)*"
)
"""What a program of dumps prints of its own: a password on the command line, GTIDs, tablespaces."""
_NAME = rb"(?P<name>`(?:[^`]|``)+`|[\w$]+)"
_USE = re.compile(_VERSIONED + rb"USE\s+" + _NAME, re.IGNORECASE)
_DATABASE = re.compile(
    _VERSIONED
    + rb"(?:CREATE|DROP|ALTER)\s+(?:DATABASE|SCHEMA)\s+"
    + _VERSIONED
    + rb"(?:IF\s+(?:NOT\s+)?EXISTS\s*)?(?:\*/\s*)?"
    + _NAME,
    re.IGNORECASE,
)
_TABLE = re.compile(_VERSIONED + rb"CREATE\s+TABLE\b", re.IGNORECASE)
_USER = rb"(?:`(?:[^`]|``)*`|'[^']*'|\"[^\"]*\"|[\w$.%-]+)"
_DEFINER = re.compile(
    rb"(?P<before>" + _VERSIONED + rb"(?:CREATE|ALTER)\b"
    rb"(?:\s|\*/|/\*M?!\d*|OR\s+REPLACE\b|ALGORITHM\s*=\s*\w+|AGGREGATE\b)*)"
    rb"\bDEFINER\s*=\s*(?:CURRENT_USER\b(?:\s*\(\s*\))?|" + _USER + rb"(?:\s*@\s*" + _USER + rb")?)",
    re.IGNORECASE,
)
_OF_THE_SERVER = {
    kind: re.compile(pattern, re.IGNORECASE | re.DOTALL)
    for kind, pattern in {
        "the server's GTIDs": rb"SET\s+(?:@@GLOBAL\.|GLOBAL\s+)(?:GTID_PURGED|gtid_slave_pos)\s*=[^;]*",
        "its place in replication": rb"CHANGE\s+(?:MASTER|REPLICATION\s+SOURCE)\s[^;]*"
        rb"|(?:START|STOP)\s+(?:ALL\s+)?(?:SLAVES?|REPLICAS?)\b[^;]*",
        "its binary log switched off": rb"SET\s+(?:@@SESSION\.|SESSION\s+|@@)?SQL_LOG_BIN"
        rb"\s*=\s*(?:[01]|ON|OFF|@\w+)",
        "its statistics switched off": rb"SET\s+GLOBAL\s+INNODB_STATS_AUTO_RECALC\s*=\s*(?:OFF|@\w+)",
        "its accounts read again": rb"FLUSH\s+PRIVILEGES",
    }.items()
}
"""What mysqldump and mariadb-dump write about the server: nothing of the data."""


@dataclass(kw_only=True)
class LeftOut:
    """What was left out of a dump or changed in it, counted; its files may be loaded at the same time."""

    kinds: Counter[str] = field(default_factory=Counter)
    definers: int = 0
    encoding: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add(self, kind: str) -> None:
        """Count a statement that was left out."""
        with self._lock:
            self.kinds[kind] += 1

    def add_definer(self) -> None:
        """Count a definer that was replaced."""
        with self._lock:
            self.definers += 1

    def recode(self, encoding: str) -> None:
        """Note that the dump was in this encoding."""
        self.encoding = encoding

    def notes(self) -> tuple[str, ...]:
        """Return a sentence for each kind."""
        notes = [
            f"left out of the dump: {kind} ({counted(count, 'statement')})" for kind, count in self.kinds.items()
        ]
        if self.encoding:
            notes.append(
                f"the dump is in {self.encoding}, as `>` of Windows PowerShell writes it: bytes and letters that"
                " are no ASCII may differ from the server's (mysqldump --result-file keeps them)"
            )
        if self.definers:
            notes.append(
                f"definers replaced by the loading account, which has rights on this schema only: {self.definers}"
            )
        return tuple(notes)


class DumpFilter:
    """Passes on the statements of one schema, each with the loading account as its definer."""

    def __init__(self, schema: str, left_out: LeftOut) -> None:
        self._schema = schema
        self._left_out = left_out
        self._elsewhere: dict[str, None] = {}
        self._current = schema
        self._drops = self._has_tables = False

    def filtered(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the dump for the schema. Raise UsageError at its end if it is of other schemas only."""
        for piece in Statements().pieces(self._without_warnings(chunks)):
            text = _without_mark(piece.text) if piece.first or piece.command else piece.text
            if piece.command:  # a client may take the CR for a part of the delimiter
                text = text.replace(b"\r\n", b"\n")
            if piece.first:
                text = self._begun(text, is_complete=piece.last)
            yield b"\n" * text.count(b"\n") if self._drops and not piece.command else text
        if self._elsewhere and not self._has_tables:
            raise UsageError(
                f"the dump has no schema {self._schema}",
                where="dataset.schema",
                evidence=f"its schemas are {', '.join(self._elsewhere)}",
                next_step="set dataset.schema to one of them",
            )

    def _without_warnings(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the dump without warnings before it, as `2>&1` leaves them there; their line breaks stay."""
        head, chunks_left = b"", iter(chunks)
        for chunk in chunks_left:
            head += chunk
            if len(head) >= _WARNINGS_BYTES_MAX:
                break
        warnings = _WARNINGS.match(head)
        if warnings is not None and warnings.end():
            self._left_out.add("the warnings of its program before it")
            head = b"\n" * head[: warnings.end()].count(b"\n") + head[warnings.end() :]
        yield head
        yield from chunks_left

    def _begun(self, text: bytes, *, is_complete: bool) -> bytes:
        """Decide on a statement by its beginning; return its text, changed if need be."""
        begin = end_of(_LEAD, text)
        schema = self._schema_of(text, begin)
        if schema != self._schema:
            reason = f"the schema {schema}"
            self._elsewhere[schema] = None
        else:
            reason = _of_the_server(text[begin:]) if is_complete else ""
        self._drops = bool(reason)
        if reason:
            self._left_out.add(reason)
            return text
        self._has_tables |= _TABLE.match(text, begin) is not None
        if match := _DEFINER.match(text, begin):
            self._left_out.add_definer()
            return text[:begin] + match["before"] + b"DEFINER=CURRENT_USER" + text[match.end() :]
        return text

    def _schema_of(self, text: bytes, begin: int) -> str:
        """Return the schema that a statement is of, as mysqldump's `USE` says."""
        if match := _DATABASE.match(text, begin):
            return _unquoted(match["name"])
        if match := _USE.match(text, begin):
            self._current = _unquoted(match["name"])
        return self._current


def _unquoted(quoted: bytes) -> str:
    name = quoted.decode(errors="replace")
    return name[1:-1].replace("``", "`") if name.startswith("`") else name


def _of_the_server(statement: bytes) -> str:
    """Return what a whole statement is if it has nothing of the data; empty for any other."""
    if len(statement) > _SERVER_BYTES_MAX:
        return ""
    inner = _WRAPPED.fullmatch(statement)
    text = inner[1] if inner else statement
    return next((kind for kind, pattern in _OF_THE_SERVER.items() if pattern.fullmatch(text)), "")


def _without_mark(text: bytes) -> bytes:
    """Return the text without MariaDB's mark before the statement."""
    lead = end_of(_LEAD, text)
    return SANDBOX_MARK.sub(b"", text[:lead]) + text[lead:]
