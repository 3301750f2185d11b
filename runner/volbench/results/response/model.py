"""What an estimate gives: slopes with intervals and counted waits, or why there are none."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from volbench.results.response.samples import WaitCount

Method = Literal["signal", "within", "between"]
Agreement = Literal["agrees", "below", "above", "open"]
SHARP_MAX = 0.5
"""Half an interval over the larger of slope and count; beyond, a slope says little about the count."""
CONTRADICTION = 1.5
"""Times half an interval that a count must lie off to contradict a slope: 2.9 deviations, one in 300 by chance. A
report has a dozen slopes, and of a dozen 95 % intervals one misses in every second report."""


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A slope, from `low` to `high`."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Slope:
    """Milliseconds of latency for each millisecond of one await, with its 95 % interval.

    Args:
        counted: waits by the server's count, as they would bend the slope; None: it counts none.
        less_cpu_wait: the same of the latency less the tasks' wait for CPUs; None: nobody timed it, or no signal
            tells what moves it.
        await_ms: mean; `moved_ms`: its 10th and 90th percentile.
        is_held: the data do not tell it from another term; it stands at its count and has no interval of its own.
        variance_share: of the latency's variance from interval to interval, that this await explains.
    """

    term: str
    value: float
    low: float
    high: float
    counted: WaitCount | None
    await_ms: float
    moved_ms: tuple[float, float]
    is_held: bool = False
    variance_share: float = 0.0
    less_cpu_wait: Interval | None = None

    @property
    def is_sharp(self) -> bool:
        """Whether the interval is narrow enough to say something about the count."""
        return self._is_narrow(self.value, self.low, self.high)

    @property
    def waits(self) -> Interval:
        """The slope as a number of waits: less the wait for CPUs, where that is known."""
        return self.less_cpu_wait or Interval(value=self.value, low=self.low, high=self.high)

    @property
    def agreement(self) -> Agreement:
        """How the slope stands to the counted waits: less the wait for CPUs, where that is known."""
        if self.counted is None or self.is_held:
            return "open"
        waits = self.waits
        if waits.value + CONTRADICTION * (waits.high - waits.value) < self.counted.low:
            return "below"
        if waits.value - CONTRADICTION * (waits.value - waits.low) > self.counted.high:
            return "above"
        meets = waits.low <= self.counted.high and self.counted.low <= waits.high
        is_counted = self.counted.low > 0 or self.counted.high == 0
        is_narrow = self._is_narrow(waits.value, waits.low, waits.high)
        return "agrees" if meets and is_narrow and is_counted else "open"

    def _is_narrow(self, value: float, low: float, high: float) -> bool:
        scale = max(abs(value), self.counted.low if self.counted else 0.0)
        return not self.is_held and (high - low) / 2 <= SHARP_MAX * scale


@dataclass(frozen=True, kw_only=True)
class Response:
    """Latency over awaits of one load. `intercept_ms` is what no await of a term explains."""

    slopes: tuple[Slope, ...]
    intercept_ms: float
    latency_ms: float
    method: Method
    intervals: int
    cells: int
    volumes: int
    explained: float
    notes: tuple[str, ...] = ()

    def slope(self, term: str) -> Slope | None:
        """Return the slope of one term; None where it has none."""
        return next((slope for slope in self.slopes if slope.term == term), None)


@dataclass(frozen=True, kw_only=True)
class NoResponse:
    """Why there is no response, and what would give one.

    `duration`: of the step, which the advice is about; empty: the advice names its option itself.
    """

    reason: str
    advice: str
    duration: str = ""

    def advice_for(self, step: str) -> str:
        """Return the advice with the command for one step of a suite."""
        if not self.duration or re.fullmatch(r"[\w-]+", step) is None:
            return self.advice
        return f"{self.advice}: `volbench run SUITE --set steps.{step}.duration={self.duration}`"
