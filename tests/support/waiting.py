"""Waiting for a condition in a test, on a machine however busy."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

WAIT_S = 180.0
INTERVAL_S = 0.01
INTERVAL_SHARE = 0.1
INTERVAL_S_MAX = 0.1
Result = TypeVar("Result")


def wait_for(
    condition: Callable[[], Result | None],
    failure: str = "",
    *,
    within_s: float = WAIT_S,
    interval_s_max: float = INTERVAL_S_MAX,
) -> Result:
    """Return the first result of a condition that is true; fail with its last result after `within_s`.

    A condition may look at all processes or start a program: the longer it is false, the less often it is tested.
    """
    begun_s = time.monotonic()
    while not (result := condition()):
        waited_s = time.monotonic() - begun_s
        assert waited_s < within_s, f"not within {within_s} s: {failure or repr(result)}"
        time.sleep(min(interval_s_max, max(INTERVAL_S, INTERVAL_SHARE * waited_s)))
    return result
