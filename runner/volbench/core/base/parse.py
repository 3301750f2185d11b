"""Values of text that others wrote: a value, or ValueError, whatever the text is.

`int`, `float`, `json.loads` and `datetime` refuse text by exceptions of several kinds, and take some that the
arithmetic after them does not: a number of 400 digits, 1e999, a time in the year 1 that a time zone moves to the
year 0, brackets nested without an end.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

WHOLE_MAX = 2**64
"""Counters of the kernel and of servers have 64 bits."""
NUMBER_MAX = 1e20
"""No counter of 64 bits and nothing measured is beyond; squares and sums of such numbers are still finite."""
EPOCH_MAX_S = 2.2e11
"""Seconds since 1970 at the end of the year 8940: what is beyond is no time."""
SPAN_MAX_S = 1e9
"""Between two moments of one run or observation: 31 years. Such a time after EPOCH_MAX_S is still one."""
_YEARS = range(1900, 8940)


def parse_whole(text: str) -> int:
    """Return a whole number of at most 64 bits. Raises ValueError."""
    if len(text) > 40:
        raise ValueError(f"a number of {len(text)} digits")
    value = int(text)
    if abs(value) > WHOLE_MAX:
        raise ValueError(f"{value} has more than 64 bits")
    return value


def optional_whole(text: str) -> int | None:
    """Return a whole number of at most 64 bits without a sign; None for any other text."""
    try:
        return parse_whole(text) if text.isdecimal() else None
    except ValueError:
        return None


def parse_finite(text: str) -> float:
    """Return a number of at most NUMBER_MAX, not NaN. Raises ValueError."""
    value = float(text)
    if not abs(value) <= NUMBER_MAX:
        raise ValueError(f"{text[:40]!r} is no measured number")
    return value


def parse_moment(text: str) -> datetime:
    """Return an ISO 8601 time.

    Without a zone it is UTC. Raises ValueError, also for years that arithmetic would leave.
    """
    moment = datetime.fromisoformat(text)
    if moment.year not in _YEARS:
        raise ValueError(f"the year {moment.year} is none that a measurement was made in")
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


_UNUSUAL_NUMBER = re.compile(r"[0-9](?:[eE]\+?[0-9]|[0-9]{18}(?<![.0-9][0-9]{19}))")
"""A number of more than 63 bits, or an exponent: few files have any."""
_SHAPES = bytes.maketrans(b"123456789E", b"000000000e")
"""All digits as 0: bytes are found several times as fast as a pattern."""
DEPTH_MAX = 64
"""Of values within values in a record: what reads them calls itself."""


def parse_json(text: str | bytes, *, number_max: float = NUMBER_MAX) -> Any:
    """Return the value of JSON.

    Args:
        number_max: numbers with a fraction or an exponent are at most this; whole ones have at most 64 bits.

    Raises ValueError, also for bytes that are no text, half a character (a lone surrogate), numbers that are not
    finite or too large, and nesting without an end.
    """
    return _parse_json(text, number_max=number_max)


def parse_record_json(text: str | bytes, *, number_max: float = NUMBER_MAX) -> Any:
    """Return the value of JSON as parse_json does; a key that an object has twice is an error too."""
    return _parse_json(text, number_max=number_max, object_pairs_hook=_object)


def json_at(text: str) -> Callable[[int], tuple[Any, int]]:
    """Return a function that takes a position of a text and returns the value of JSON there, and where it ends.

    It raises ValueError as parse_json does.
    """
    unusual = _is_unusual(text)
    decoder = json.JSONDecoder(**_hooks(unusual=unusual, number_max=NUMBER_MAX))
    return lambda at: _checked(lambda: decoder.raw_decode(text, at), unusual=unusual)


def _parse_json(text: str | bytes, *, number_max: float, **hooks: Any) -> Any:
    text = text.decode(json.detect_encoding(text)) if isinstance(text, bytes) else text
    unusual = _is_unusual(text)
    hooks |= _hooks(unusual=unusual, number_max=number_max)
    return _checked(lambda: json.loads(text, **hooks), unusual=unusual)


def _is_unusual(text: str) -> bool:
    """Return whether a text of JSON may have half a character or a number that json.loads takes and we do not."""
    if "\\" in text and ("\\ud" in text or "\\uD" in text):
        return True
    shapes = text.encode("utf-8", "surrogatepass").translate(_SHAPES)
    has_exponent = b"0e" in shapes and (b"0e0" in shapes or b"0e+0" in shapes)
    return (has_exponent or b"0" * 19 in shapes) and _UNUSUAL_NUMBER.search(text) is not None


def _hooks(*, unusual: bool, number_max: float) -> dict[str, Any]:
    """Return arguments of json.loads. Where numbers are usual it reads them itself, many times as fast."""
    hooks: dict[str, Any] = {"parse_constant": _refuse_constant}
    if unusual:
        hooks |= {"parse_int": parse_whole, "parse_float": lambda number: _bounded(number, number_max)}
    return hooks


def _checked(parse: Callable[[], Any], *, unusual: bool) -> Any:
    """Return what a parser of JSON returns. Raises ValueError for whatever it raises, and for half a character."""
    try:
        value = parse()
        if unusual:
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError as error:
        raise ValueError("JSON that is nested too deep") from error
    except UnicodeEncodeError as error:
        raise ValueError("a text has half a character (a lone surrogate)") from error
    return value


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no number")


def _bounded(text: str, number_max: float) -> float:
    value = float(text)
    if not abs(value) <= number_max:
        raise ValueError(f"the number {text[:40]} is larger than any that is measured")
    return value


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"the key {twice[:100]!r} is there twice")
    return value


def checked_plain(value: Any) -> Any:
    """Return a value of JSON without a model. Raises ValueError for what parse_json would refuse in a file."""
    waiting = [(value, 0)]
    while waiting:
        item, depth = waiting.pop()
        if depth > DEPTH_MAX:
            raise ValueError("values that are nested too deep")
        if isinstance(item, dict):
            waiting += [(below, depth + 1) for pair in item.items() for below in pair]
        elif isinstance(item, list | tuple):
            waiting += [(below, depth + 1) for below in item]
        elif isinstance(item, float) and not math.isfinite(item):
            raise ValueError(f"{item} is no number")
        elif isinstance(item, str):
            item.encode()  # UnicodeEncodeError is a ValueError
    return value
