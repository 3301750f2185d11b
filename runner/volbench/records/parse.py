"""Values of text that others wrote: a value, or ValueError, whatever the text is.

`int`, `float`, `json.loads` and `datetime` refuse text by exceptions of several kinds, and take some that the
arithmetic after them does not: a number of 400 digits, 1e999, a time in the year 1 that a time zone moves to the
year 0, brackets nested without an end.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

WHOLE_MAX = 2**64
"""Counters of the kernel and of servers have 64 bits."""
NUMBER_MAX = 1e20
"""No counter of 64 bits and nothing measured is beyond; squares and sums of such numbers are still finite."""
EPOCH_MAX_S = 2.2e11
"""Seconds since 1970 at the end of the year 8940: what is beyond is no time."""
_YEARS = range(1900, 8940)


def parse_whole(text: str) -> int:
    """A whole number of at most 64 bits. Raises ValueError."""
    if len(text) > 40:
        raise ValueError(f"a number of {len(text)} digits")
    value = int(text)
    if abs(value) > WHOLE_MAX:
        raise ValueError(f"{value} has more than 64 bits")
    return value


def optional_whole(text: str) -> int | None:
    """A whole number of at most 64 bits without a sign; None for any other text."""
    try:
        return parse_whole(text) if text.isdecimal() else None
    except ValueError:
        return None


def parse_finite(text: str) -> float:
    """A number of at most NUMBER_MAX, not NaN. Raises ValueError."""
    value = float(text)
    if not abs(value) <= NUMBER_MAX:
        raise ValueError(f"{text[:40]!r} is no measured number")
    return value


def parse_moment(text: str) -> datetime:
    """An ISO 8601 time; without a zone it is UTC. Raises ValueError, also for years that arithmetic would leave."""
    moment = datetime.fromisoformat(text)
    if moment.year not in _YEARS:
        raise ValueError(f"the year {moment.year} is none that a measurement was made in")
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def parse_json(text: str | bytes) -> Any:
    """The value of JSON. Raises ValueError, also for bytes that are no text and for nesting without an end."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("JSON that is nested too deep") from error
