"""Divides a stream of SQL into statements as the command line clients do: at delimiters outside strings.

Source: `add_line` in mysql.cc of MySQL and MariaDB, in binary mode. A statement comes in pieces, so that one with a
BLOB of any size takes no memory. No right depends on this: the server decides what the loading account may do.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass

HEAD_BYTES_MAX = 1 << 16
"""A statement's first piece is whole up to this size."""
SANDBOX_MARK = re.compile(rb"/\*M?!999999\\- [^*\n]*+\*/")
"""The first line of MariaDB's dumps: a command for its own client, which no client knows in binary mode."""
_LINE_BYTES = 1 << 12
"""A shorter line is read whole: it may be a `delimiter` line."""
_SPACE = re.compile(rb"\s*+")
_DELIMITER_LINE = re.compile(rb"delimiter[ \t]++(\S++)[^\n]*+\n?", re.IGNORECASE)
_SQL_MODE = re.compile(rb"\bsql_mode\s*=\s*'([^']*)'", re.IGNORECASE)
_COMMENT = re.compile(rb"--(?=\s)|#|/\*(?![!+]|M!)")
_END_OF_COMMENT = {b"--": b"\n", b"#": b"\n", b"/*": b"*/"}
_INSIDE = {
    b"\n": re.compile(rb"[^\n]*+"),
    b"*/": re.compile(rb"[^*]*+(?:\*(?!/)[^*]*+)*"),
    b"`": re.compile(rb"[^`]*+"),
    b"'": re.compile(rb"(?:[^'\\]++|\\.)*", re.DOTALL),
    b'"': re.compile(rb'(?:[^"\\]++|\\.)*', re.DOTALL),
}
"""By its end: what is inside a comment, a name or a string."""
_INSIDE_UNESCAPED = {b"'": re.compile(rb"[^']*+"), b'"': re.compile(rb'[^"]*+')}
"""The same in the mode NO_BACKSLASH_ESCAPES."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of the stream; all pieces together are the stream.

    Args:
        first, last: it begins a statement, with the comments before it, or ends one, with its delimiter.
        command: it is a `delimiter` line of the client.
    """

    text: bytes
    first: bool = False
    last: bool = False
    command: bool = False


def end_of(pattern: re.Pattern[bytes], text: bytes, position: int = 0) -> int:
    """Return where a match that begins at the position ends; the position itself without one."""
    match = pattern.match(text, position)
    return position if match is None else match.end()


@functools.cache
def _code(delimiter: bytes, escapes: bool) -> re.Pattern[bytes]:
    """Return the pattern of SQL up to the delimiter, or to a string or comment that does not end in the text."""
    strings = rb"""'(?:[^'\\]++|\\.)*'|"(?:[^"\\]++|\\.)*\"""" if escapes else rb"""'[^']*+'|"[^"]*+\""""
    begin = re.escape(delimiter[:1])
    return re.compile(
        rb"(?:[^'\"`#/\-\\" + begin + rb"]++|" + strings + rb"|`[^`]*+`|(?!" + re.escape(delimiter) + rb")"
        rb"(?:/(?!\*(?![!+]|M!))|-(?!-\s)|\\(?!['\"`]).|" + begin + rb"(?<!['\"`#/\-\\])))*",
        re.DOTALL,
    )


class Statements:
    """What is open between two chunks: the delimiter, a statement, a comment or string in it."""

    def __init__(self) -> None:
        self._delimiter, self._escapes = b";", True
        self._head: bytes | None = b""
        """Of the statement, until its first piece was yielded."""
        self._blank = True
        """Nothing but comments since the last statement."""
        self._open = b""

    def pieces(self, chunks: Iterable[bytes]) -> Iterator[Piece]:
        """Yield the pieces of a stream."""
        tail_text = b""
        for chunk in chunks:
            text = tail_text + chunk
            end = self._safe_end(text)
            tail = yield from self._pieces_of(text[:end])
            tail_text = tail + text[end:]
        tail = yield from self._pieces_of(tail_text)
        if tail:
            yield self._piece(tail)
        if self._head:
            yield Piece(self._head, first=True, last=True)

    def _safe_end(self, text: bytes) -> int:
        """Return an end that divides no delimiter and no beginning or end of a comment."""
        if newline := text.rfind(b"\n") + 1:
            return newline
        if len(text) < _LINE_BYTES:
            return 0
        unsafe = b"-/*" + self._delimiter
        return next((end for end in range(len(text), len(text) - 64, -1) if text[end - 1] not in unsafe), len(text))

    def _pieces_of(self, text: bytes) -> Generator[Piece, None, bytes]:
        """Yield the pieces of a text; return what needs the text behind it, half an escape."""
        begin = position = 0
        while position < len(text):
            if self._open:
                position, is_complete = self._skip_inside(text, position)
                if not is_complete:
                    break
                continue
            if self._blank:
                position = end_of(_SPACE, text, position)
                line = _DELIMITER_LINE.match(text, position)
                if line is not None:
                    self._delimiter, position = line[1], line.end()
                    yield Piece((self._head or b"") + text[begin:position], command=True)
                    begin, self._head = position, b""
                    continue
                if mark := SANDBOX_MARK.match(text, position):
                    position = mark.end()
                    continue
                self._blank = position == len(text) or _COMMENT.match(text, position) is not None
            position, ended = self._skip_code(text, position)
            if ended:
                yield self._piece(text[begin:position], last=True)
                begin, self._head, self._blank = position, b"", True
        remainder = text[begin:position]
        if self._head is not None and len(self._head) + len(remainder) < HEAD_BYTES_MAX:
            self._head += remainder
        elif remainder:
            yield self._piece(remainder)
        return text[position:]

    def _piece(self, text: bytes, *, last: bool = False) -> Piece:
        head, self._head = self._head, None
        piece = Piece(text if head is None else head + text, first=head is not None, last=last)
        if piece.first and (mode := _SQL_MODE.search(piece.text, 0, 1000)):
            self._escapes = b"NO_BACKSLASH_ESCAPES" not in mode[1].upper()
        return piece

    def _skip_inside(self, text: bytes, position: int) -> tuple[int, bool]:
        """Return the position after what is open; and False if the text ends before that does."""
        inside = _INSIDE[self._open] if self._escapes else {**_INSIDE, **_INSIDE_UNESCAPED}[self._open]
        end = end_of(inside, text, position)
        if not text.startswith(self._open, end):
            return end, False
        end += len(self._open)
        self._open = b""
        return end, True

    def _skip_code(self, text: bytes, position: int) -> tuple[int, bool]:
        """Return the position after the code from here on, and whether it ends with the delimiter."""
        comment = _COMMENT.match(text, position)
        if comment is not None:
            self._open = _END_OF_COMMENT[comment[0]]
            return comment.end(), False
        end = end_of(_code(self._delimiter, self._escapes), text, position)
        if text.startswith(self._delimiter, end):
            return end + len(self._delimiter), True
        if end < len(text) and text[end : end + 1] in b"'\"`":
            self._open = text[end : end + 1]
            return end + 1, False
        return (end, False) if end > position or end == len(text) else (end + 1, False)
