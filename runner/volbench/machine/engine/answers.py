"""Values of a server's answers, checked where they are read: what claims to be a server may answer anything."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, TypeVar

from volbench.errors import StepFailed

COUNT_MAX = 10**30
"""More than picoseconds of all statements of a server's life."""
_UNREADABLE = (ArithmeticError, LookupError, TypeError, ValueError)
_QUOTED_CHARACTERS = 120

_Parsed = TypeVar("_Parsed")
Rows = Sequence[Sequence[Any]]


def reads_answers(noun: str) -> Callable[[Callable[..., _Parsed]], Callable[..., _Parsed]]:
    """Decorate a function that asks a server and reads its answers: it raises StepFailed for what it cannot read.

    Args:
        noun: what is asked for.
    """

    def decorate(function: Callable[..., _Parsed]) -> Callable[..., _Parsed]:
        @functools.wraps(function)
        def wrapped(*arguments: Any, **options: Any) -> _Parsed:
            try:
                return function(*arguments, **options)
            except _UNREADABLE as error:
                raise _unreadable(noun, "reading a server", error) from error

        return wrapped

    return decorate


def _unreadable(noun: str, where: str, error: Exception) -> StepFailed:
    return StepFailed(
        f"the server's answer about {noun} cannot be read",
        where=where,
        evidence=f"{type(error).__name__}: {str(error)[:_QUOTED_CHARACTERS]}",
        next_step="check that the address is the server's own, and what is between it and this machine",
    )


def parse_answer(rows: Rows, parse: Callable[[Any], _Parsed], *, noun: str, where: str) -> _Parsed:
    """Return what `parse` makes of the rows of one answer.

    Args:
        rows: of the answer.
        parse: reads them; it raises ValueError, TypeError, LookupError or ArithmeticError for what it cannot read.
        noun: what was asked for.
        where: for the message.

    Raises StepFailed where it cannot.
    """
    try:
        return parse(rows)
    except _UNREADABLE as error:
        raise _unreadable(noun, where, error) from error


def whole_number(value: Any, *, low: int = 0, high: int = COUNT_MAX) -> int:
    """Return a whole number that a server gave as a number or as text. Raises ValueError, TypeError."""
    text = value.decode() if isinstance(value, bytes | bytearray) else value
    number = int(text)
    if (isinstance(text, float | Decimal) and number != text) or not low <= number <= high:
        raise ValueError(f"{str(value)[:_QUOTED_CHARACTERS]!r} where a number of {low} or more was expected")
    return number


def whole_or_zero(value: Any) -> int:
    """Return 0 for NULL, as sums over no rows are. Raises ValueError."""
    return 0 if value is None else whole_number(value)
