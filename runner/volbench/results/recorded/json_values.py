"""JSON values one after the other in a text, as `>>` of a shell and line-by-line logs write them.

Lines that begin no value are passed over after the first value: a program's messages, as `2>&1` puts them there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from volbench.core.base.parse import json_at, parse_json

VALUES_MAX = 200_000
_SPACE = " \t\r\n"
_BEGINS = "{["


def json_values(text: str) -> Iterator[Any]:
    """Yield each value of a text. Raises ValueError for what is no JSON, and for more than VALUES_MAX of them."""
    value_at = json_at(text)
    at, count = _skip(text, 0), 0
    while at < len(text):
        if count and text[at] not in _BEGINS:
            at = _skip(text, _line_end(text, at))
            continue
        try:
            value, end = value_at(at)
        except ValueError:
            value, end = parse_json(text[at:]), len(text)  # what is wrong, from where this value begins
        yield value
        at, count = _skip(text, end), count + 1
        if count > VALUES_MAX:
            raise ValueError(f"more than {VALUES_MAX} values in one file")


def _line_end(text: str, at: int) -> int:
    line_end = text.find("\n", at)
    return len(text) if line_end < 0 else line_end


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in _SPACE:
        at += 1
    return at
