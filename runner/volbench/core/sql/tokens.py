"""The tokens of a statement, and texts in which no literal can pose as SQL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum, IntFlag

from volbench.core.sql import library


class Kind(IntEnum):
    """What a token is."""

    SIGN = 0
    WORD = 1
    NAME = 2
    """In backquotes, or in double quotes under ANSI_QUOTES."""
    TEXT = 3
    NUMBER = 4
    BITS = 5
    COMMENT = 6
    HINT = 7
    OPEN = 8
    """`/*!` with its version, of a comment that a server may execute."""
    CLOSE = 9
    VARIABLE = 10
    DOLLAR = 11
    """`$tag$ text $tag$`, a text to MySQL from 9.0 on."""


class Doubt(IntFlag):
    """What servers, versions or sessions read differently, or take for an error of syntax."""

    VERSION = 1
    NESTED = 2
    DOLLAR = 4
    ZERO = 8
    SPACE = 16
    HINT = 32
    OPEN = 64
    FAULT = 128


LITERALS = frozenset((Kind.TEXT, Kind.NUMBER, Kind.BITS, Kind.DOLLAR))
VALUES_AND_NAMES = frozenset((*LITERALS, Kind.NAME, Kind.COMMENT, Kind.HINT))


class Charset(IntEnum):
    """A client's character sets in which tokens end elsewhere; in all others they end as in UTF-8."""

    UTF8 = 0
    LATIN1 = 1
    """With white space at 0xa0."""
    GBK = 2
    GB18030 = 3
    SJIS = 4
    BIG5 = 5


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a session reads a text: its sql_mode, and its client's character set."""

    ansi_quotes: bool = False
    no_escapes: bool = False
    charset: Charset = Charset.UTF8

    @property
    def bits(self) -> int:
        """Return what the library takes."""
        return self.ansi_quotes | self.no_escapes << 1 | self.charset << 2


class Tokens:
    """The tokens of a text, without white space: kind, start and end in bytes, and whether it does not end."""

    def __init__(self, sql: bytes, dialect: Dialect | None = None) -> None:
        self._reader = library.TokenReader(sql, (dialect or Dialect()).bits)

    def __iter__(self) -> Iterator[tuple[int, int, int, bool]]:
        """Yield the tokens once."""
        while tokens := self._reader.read():
            for kind, start, end, flags in tokens:
                yield kind, start, end, bool(flags & 1)

    @property
    def doubts(self) -> Doubt:
        """Return the doubts about the text that was read so far."""
        return Doubt(self._reader.doubts)


def is_closed(sql: str, *, escapes: bool = True) -> bool:
    """Return whether no literal, quoted name or comment is open at the end of the text.

    Args:
        sql: text of a log.
        escapes: a backslash takes the next character's meaning; not in a session with NO_BACKSLASH_ESCAPES.
    """
    return library.is_closed(library.as_bytes(sql), Dialect(no_escapes=not escapes).bits)


def without_values(sql: str) -> str:
    """Return the text with spaces in place of literals, quoted names and comments, so that signs are signs."""
    text = library.as_bytes(sql)
    plain, before = bytearray(), 0
    for kind, start, end, _ in Tokens(text):
        if kind in VALUES_AND_NAMES:
            plain += text[before:start] + b" "
            before = end
    plain += text[before:]
    return plain.decode("utf-8", "surrogateescape")


def statements(sql: str) -> list[str]:
    """Return the statements of a text that a client sent at once, without the semicolons between them."""
    text = library.as_bytes(sql)
    ends = [start for kind, start, end, _ in Tokens(text) if kind == Kind.SIGN and text[start:end] == b";"]
    bounds = zip([0, *(end + 1 for end in ends)], [*ends, len(text)], strict=True)
    return [text[begin:end].decode("utf-8", "surrogateescape") for begin, end in bounds]
