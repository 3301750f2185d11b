"""Which lines of the package some code executes; a function whose lines were all seen is traced no more."""

from __future__ import annotations

import dis
import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Self


@dataclass
class Lines:
    """Lines by reader and file, as numbers of the file."""

    of_reader: dict[str, dict[str, set[int]]] = field(default_factory=dict)

    def add(self, other: Lines) -> None:
        """Take in what another process reached."""
        for reader, files in other.of_reader.items():
            mine = self.of_reader.setdefault(reader, {})
            for file, lines in files.items():
                mine.setdefault(file, set()).update(lines)

    def together(self) -> dict[str, set[int]]:
        """Return the lines of all readers by file."""
        every: dict[str, set[int]] = {}
        for files in self.of_reader.values():
            for file, lines in files.items():
                every.setdefault(file, set()).update(lines)
        return every


class Tracer:
    """`with tracer: ...` notes the lines that are executed below a directory of that name."""

    def __init__(self, package: str) -> None:
        self._package = package
        self._left: dict[CodeType, set[int] | None] = {}
        self._seen: dict[str, set[int]] = {}
        self._new = False
        self._before: Any = None

    def __enter__(self) -> Self:
        self._new, self._before = False, sys.gettrace()
        sys.settrace(self._call)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def found_new(self) -> bool:
        """Whether the last block executed a line that none before it had."""
        return self._new

    def lines(self, reader: str) -> Lines:
        """Return what was reached so far, as of one reader."""
        return Lines({reader: self._seen} if self._seen else {})

    def _call(self, frame: FrameType, event: str, _: object) -> Callable[[FrameType, str, Any], Any] | None:
        del event
        code = frame.f_code
        if code not in self._left:
            self._left[code] = _lines_of(code) if self._package in code.co_filename else None
        if not self._left[code]:
            return None
        return self._line

    def _line(self, frame: FrameType, event: str, _: object) -> Callable[[FrameType, str, Any], Any] | None:
        left = self._left[frame.f_code]
        if event == "line" and left and frame.f_lineno in left:
            left.discard(frame.f_lineno)
            self._new = True
            file = frame.f_code.co_filename.rpartition(self._package)[2]
            self._seen.setdefault(file, set()).add(frame.f_lineno)
        return self._line if left else None


def _lines_of(code: CodeType) -> set[int]:
    """Return the lines of a function's body."""
    return {line for _, line in dis.findlinestarts(code) if line is not None and line != code.co_firstlineno}


@cache
def lines_of_package(package: Path) -> dict[str, frozenset[int]]:
    """Return all lines of functions by file, relative to the package."""
    return {
        path.relative_to(package).as_posix(): frozenset(
            line for code in _functions(compile(path.read_text(), str(path), "exec")) for line in _lines_of(code)
        )
        for path in sorted(package.rglob("*.py"))
    }


def _functions(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if constant.co_flags & inspect.CO_OPTIMIZED:  # a function, and no body of a class
                yield constant
            yield from _functions(constant)
