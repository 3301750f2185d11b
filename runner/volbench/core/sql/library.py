"""The lexer's library, a Rust crate (runner/lexer) that the set-up compiles; loaded at the first use.

All work is done on whole texts in the library. Its memory does not grow with a text's tokens.
"""

from __future__ import annotations

import ctypes
import importlib.util
import threading
from array import array
from collections.abc import Callable, Sequence
from ctypes import POINTER, byref, c_char_p, c_int64, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any

from volbench.errors import MissingPrerequisite

_NAME = "libvolbench_lexer.so"
_PACKAGE = "volbench_lexer"
"""The distribution that brings the library to an installed volbench."""
ABI = 3
_FAULT = "the SQL lexer failed on a text"
_SPANS = 4096


class Span(ctypes.Structure):
    """A token: `start` and `end` in bytes, `kind`, and `flags`: 1 it does not end, 2 it is a name after a point."""

    _fields_ = (("start", c_uint64), ("end", c_uint64), ("kind", c_uint32), ("flags", c_uint32))


@cache
def _library() -> ctypes.CDLL:
    """Load the library. Raises MissingPrerequisite where it is missing, or is of another version."""
    path = _library_path()
    try:
        library = ctypes.CDLL(str(path))
        abi = library.volbench_lexer_abi()
    except (OSError, AttributeError) as error:
        raise _lack("the SQL lexer is not there", path, str(error)) from error
    if abi != ABI:
        raise _lack("the SQL lexer is of another version", path, f"its functions are those of {abi}, not {ABI}")
    text: list[Any] = [c_char_p, c_size_t]
    library.volbench_fingerprint.argtypes = [*text, c_uint32, c_void_p, c_size_t]
    library.volbench_judge.argtypes = [*text, c_uint32, POINTER(c_uint8), c_void_p, c_size_t]
    library.volbench_tokens.argtypes = [*text, c_uint32, POINTER(c_uint64), c_void_p, c_size_t]
    library.volbench_is_closed.argtypes = [*text, c_uint32]
    library.volbench_classes_new.argtypes, library.volbench_classes_new.restype = [], c_void_p
    library.volbench_classes_free.argtypes, library.volbench_classes_free.restype = [c_void_p], None
    library.volbench_classes_add.argtypes = [c_void_p, *text, c_void_p, c_size_t, c_void_p, c_void_p]
    library.volbench_classes_shapes.argtypes = [c_void_p, c_uint32, c_void_p, c_size_t]
    for name in ("classes_add", "classes_shapes", "fingerprint", "judge", "tokens", "is_closed"):
        getattr(library, f"volbench_{name}").restype = c_int64
    return library


def _library_path() -> Path:
    """Return the library that the set-up copied here, else that of the distribution."""
    own = Path(__file__).with_name(_NAME)
    if own.exists():
        return own
    installed = importlib.util.find_spec(_PACKAGE)
    directories = [] if installed is None else installed.submodule_search_locations or []
    return next((path for directory in directories if (path := Path(directory) / _NAME).exists()), own)


def _lack(message: str, path: Path, evidence: str) -> MissingPrerequisite:
    return MissingPrerequisite(
        message,
        where=str(path),
        evidence=evidence,
        next_step="`make lexer` in a checkout, which needs cargo and gcc; else `pip install` its runner/lexer",
    )


class _Buffer(threading.local):
    """Room for answers, one for each thread."""

    def __init__(self) -> None:
        self.room = ctypes.create_string_buffer(1 << 12)
        self.address = ctypes.addressof(self.room)

    def grow(self, size: int) -> None:
        self.room = ctypes.create_string_buffer(size)
        self.address = ctypes.addressof(self.room)

    def take(self, size: int) -> bytes:
        return ctypes.string_at(self.address, size)


_BUFFER = _Buffer()
_ROOM_MAX = 1 << 20
"""More is given back after use."""


def as_bytes(sql: str) -> bytes:
    """Return the bytes of a text whose bytes that are no UTF-8 were decoded with surrogateescape."""
    try:
        return sql.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return sql.encode("utf-8", "replace")


def fingerprint_of(sql: bytes, dialect: int) -> bytes:
    """Return the shape of a statement."""
    return _call_library(_library().volbench_fingerprint, sql, len(sql), dialect)


def judged(sql: bytes, allowed: int) -> tuple[int, str]:
    """Return the number of an answer, and its reason."""
    answer = c_uint8()
    buffer = _BUFFER
    size = _library().volbench_judge(sql, len(sql), allowed, byref(answer), buffer.address, len(buffer.room))
    return answer.value, _answer(size).decode("utf-8", "replace")


def _call_library(function: Callable[..., int], *arguments: object) -> bytes:
    """Return the text that a function writes; ask again with more room where it needs that."""
    buffer = _BUFFER
    size = function(*arguments, buffer.address, len(buffer.room))
    if size > len(buffer.room):
        buffer.grow(size)
        size = function(*arguments, buffer.address, size)
    return _answer(size)


def _answer(size: int) -> bytes:
    if size < 0:
        raise RuntimeError(_FAULT)
    answer = _BUFFER.take(size)
    if len(_BUFFER.room) > _ROOM_MAX:
        _BUFFER.grow(1 << 12)
    return answer


def is_closed(sql: bytes, dialect: int) -> bool:
    """Return whether no string, quoted name or comment is open at the end."""
    closed = _library().volbench_is_closed(sql, len(sql), dialect)
    if closed < 0:
        raise RuntimeError(_FAULT)
    return bool(closed)


class TokenReader:
    """The tokens of a text in pieces, so that their number takes no memory."""

    def __init__(self, sql: bytes, dialect: int) -> None:
        self._sql, self._dialect = sql, dialect
        self._place = (c_uint64 * 3)()
        self._spans = (Span * _SPANS)()

    @property
    def doubts(self) -> int:
        """Return what of the text so far servers read differently, or take for an error of syntax, as bits."""
        return self._place[2]

    def read(self) -> list[tuple[int, int, int, int]]:
        """Return the next tokens: kind, start, end, flags; none at the end."""
        count = _library().volbench_tokens(
            self._sql, len(self._sql), self._dialect, self._place, ctypes.addressof(self._spans), _SPANS
        )
        if count < 0:
            raise RuntimeError(_FAULT)
        return [(span.kind, span.start, span.end, span.flags) for span in self._spans[:count]]


class ShapeNumbers:
    """Numbers of shapes, in the order in which they occur, for many statements at once."""

    def __init__(self) -> None:
        self._library = _library()
        self._classes = self._library.volbench_classes_new()
        self._shapes: list[str] = []

    def __del__(self) -> None:
        if hasattr(self, "_classes"):
            self._library.volbench_classes_free(self._classes)

    def add(self, statements: Sequence[bytes]) -> tuple[array[int], bytes]:
        """Return the number of each statement's shape, and for each a byte with the answer of the guard."""
        count, text = len(statements), b"".join(statements)
        ends = array("Q", accumulate(map(len, statements)))
        numbers, answers = array("I", bytes(4 * count)), ctypes.create_string_buffer(count)
        added = self._library.volbench_classes_add(
            self._classes,
            text,
            len(text),
            ends.buffer_info()[0],
            count,
            numbers.buffer_info()[0],
            ctypes.addressof(answers),
        )
        if added < 0:
            raise RuntimeError(_FAULT)
        if added > len(self._shapes):
            self._take_shapes()
        return numbers, answers.raw

    def _take_shapes(self) -> None:
        text = _call_library(self._library.volbench_classes_shapes, self._classes, len(self._shapes))
        at = 0
        while at < len(text):
            end = at + 4 + int.from_bytes(text[at : at + 4], "little")
            self._shapes.append(text[at + 4 : end].decode("utf-8", "replace"))
            at = end

    def shape(self, number: int) -> str:
        """Return the shape of a number."""
        return self._shapes[number]
