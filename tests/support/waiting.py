"""Waiting for a condition in a test, on a machine however busy."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

WAIT_S = 180.0
INTERVAL_S = 0.01
Result = TypeVar("Result")


def wait_for(condition: Callable[[], Result | None], failure: str = "", *, within_s: float = WAIT_S) -> Result:
    """Return the first result of a condition that is true; fail with its last result after `within_s`."""
    end_s = time.monotonic() + within_s
    while not (result := condition()):
        assert time.monotonic() < end_s, f"not within {within_s} s: {failure or repr(result)}"
        time.sleep(INTERVAL_S)
    return result
