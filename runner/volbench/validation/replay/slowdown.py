"""When a class of statements is slower than in the log: limits of quantiles, and what their intervals prove."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from volbench.core.base.text import number

STATEMENTS_MIN = 20
"""The median of a class needs this many statements; the 95th percentile needs some 200."""
LEVELS = (0.95, 0.5)
ALLOWANCE_MS = 1.0
"""A smaller difference is that of the client and the network, which the log does not include."""
QUEUED_ALLOWANCE_MS = 50.0
"""The client's own time may add up to this for statements that follow closely on one connection."""


@dataclass(frozen=True, kw_only=True)
class SlowdownLimit:
    """The limit beyond which a class is slower: a factor plus the round trip; `alpha` for each comparison."""

    factor: float
    rtts_ms: Sequence[float]
    alpha: float
    stretch: float = 1.0

    def describe_slowdown(
        self, logged: Sequence[float], service: Sequence[float], response: Sequence[float]
    ) -> str:
        """Return how a class is slower since its statements were sent, else since they were due; else empty."""
        return self._describe("", logged, service, ALLOWANCE_MS) or self._describe(
            " from when they were due", logged, response, QUEUED_ALLOWANCE_MS
        )

    def describe_unproven(self, logged: Sequence[float], service: Sequence[float]) -> str:
        """Return how the median of a class is beyond the limit, which its intervals do not prove; else empty."""
        was, became = rank(logged, 0.5), rank(service, 0.5)
        if min(len(logged), len(service)) < STATEMENTS_MIN or was is None or became is None:
            return ""
        if became <= self._beyond(was, 0.5, ALLOWANCE_MS):
            return ""
        return f"p50 {number(was)} ms in the log became {number(became)} ms" + _times(was, became)

    def excludes(self, logged: Sequence[float], service: Sequence[float]) -> bool:
        """Return whether the intervals prove that the median of a class is not beyond the limit."""
        low, _ = bounds(logged, 0.5, alpha=self.alpha)
        _, high = bounds(service, 0.5, alpha=self.alpha)
        if min(len(logged), len(service)) < STATEMENTS_MIN or low is None or high is None:
            return False
        return high <= self._beyond(low, 0.5, ALLOWANCE_MS)

    def beyond_stretch(self, logged: Sequence[float], service: Sequence[float]) -> bool:
        """Return whether a class that seems slower is slower whatever other work on the candidate's machine did.

        The waits of the candidate's tasks for a CPU stretched its CPU time by `stretch` in total. By Markov's
        inequality at most half of a class's statements were stretched by more than twice the excess, if the class
        was stretched like all others, so a median beyond the factor and that is the candidate's own. No such bound
        exists for a 95th percentile.
        """
        if self.stretch == 1.0:
            return True
        _, high = bounds(logged, 0.5, alpha=self.alpha)
        low, _ = bounds(service, 0.5, alpha=self.alpha)
        if high is None or low is None or math.isinf(self.stretch):
            return False
        stretch_max = 1 + 2 * (self.stretch - 1)
        return low > self._beyond(stretch_max * high, 0.5, ALLOWANCE_MS)

    def _describe(self, since: str, logged: Sequence[float], measured: Sequence[float], allowance_ms: float) -> str:
        """Return how a class is slower, by the exact bounds of the first level that proves it; else empty."""
        if min(len(logged), len(measured)) < STATEMENTS_MIN:
            return ""
        for level in LEVELS:
            _, high = bounds(logged, level, alpha=self.alpha)
            low, _ = bounds(measured, level, alpha=self.alpha)
            if high is None or low is None:
                continue
            if low > self._beyond(high, level, allowance_ms):
                was, became = rank(logged, level) or 0.0, rank(measured, level) or 0.0
                return (
                    f"p{level * 100:g} {number(was)} ms (at most {number(high)}) in the log "
                    f"became {number(became)} ms "
                    f"(at least {number(low)}){since}{_times(was, became)}"
                )
        return ""

    def _beyond(self, logged_ms: float, level: float, allowance_ms: float) -> float:
        """Return the limit of a quantile, in ms: the factor, plus what client and network may add."""
        return self.factor * logged_ms + max(allowance_ms, self._rtt_ms(level))

    def _rtt_ms(self, level: float) -> float:
        """Return the upper bound of the round trip; the maximum where there are few."""
        _, high = bounds(self.rtts_ms, level, alpha=self.alpha)
        return high if high is not None else max(self.rtts_ms, default=0.0)


def _times(was: float, became: float) -> str:
    return f", {number(became / was)} times" if was else ""


def bounds(ordered: Sequence[float], level: float, *, alpha: float) -> tuple[float | None, float | None]:
    """Return the interval of a quantile by order statistics; None for an end that too few values do not have.

    Args:
        ordered: values, smallest first. level: 0.95 for the 95th percentile. alpha: of both sides together.

    Source: Conover, Practical Nonparametric Statistics, section 3.2, normal approximation for independent values.
    Concurrent statements are not independent, so the factor of the plan must leave a margin.
    """
    half_width = NormalDist().inv_cdf(1 - alpha / 2) * math.sqrt(len(ordered) * level * (1 - level))
    low, high = math.floor(len(ordered) * level - half_width) - 1, math.ceil(len(ordered) * level + half_width)
    return (ordered[low] if low >= 0 else None), (ordered[high] if high < len(ordered) else None)


def rank(ordered: Sequence[float], level: float) -> float | None:
    """Return the smallest value that a share `level` does not exceed; None without values."""
    return ordered[max(0, math.ceil(level * len(ordered)) - 1)] if ordered else None
