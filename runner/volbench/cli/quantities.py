"""Durations, sizes and shares as options state them; an error names its option."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from volbench.errors import UsageError

Number = TypeVar("Number", int, float)


def parsed(parse: Callable[[str], Number], option: str, text: str) -> Number:
    """Return the value of an option. Raise UsageError where `parse` raises ValueError."""
    try:
        return parse(text)
    except ValueError as error:
        raise UsageError(str(error), where=f"{option} {text}") from error


def positive(parse: Callable[[str], Number], option: str, text: str, *, noun: str) -> Number:
    """Return the value of an option, which is above 0. Raise UsageError.

    Args:
        noun: what it is, such as `a size`.
    """
    value = parsed(parse, option, text)
    if not value > 0:
        raise UsageError(f"{noun} must be above 0", where=f"{option} {text}")
    return value
