"""T-tests of a change: a mean, its standard error, its degrees of freedom; of several the smallest p counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from volbench.results.stats.student_t import t_quantile, t_tail


@dataclass(frozen=True, kw_only=True)
class TTest:
    """A change with its standard error, both in the unit of the values, and the degrees of freedom, at least 1."""

    change: float
    error: float
    freedom: float

    def p_value(self, factor: float) -> float:
        """Return two-sided, multiplied by `factor`."""
        return min(1.0, 2 * factor * t_tail(abs(self.change) / self.error, self.freedom))

    def interval(self, alpha: float, factor: float) -> tuple[float, float]:
        """Return the changes that the test does not refuse at `alpha`."""
        reach = self.error * t_quantile(1 - alpha / factor / 2, self.freedom)
        return self.change - reach, self.change + reach


@dataclass(frozen=True, kw_only=True)
class TestedChange:
    """What several tests say together: the change of the one that counts, and what none of them refuses."""

    change: float
    low: float
    high: float
    p_value: float


def smallest(tests: Sequence[TTest], *, alpha: float, factor: float) -> TestedChange:
    """Return what the test with the smallest p says, with p times `factor`, and the changes that no test refuses.

    The interval excludes 0 exactly when p is below alpha.
    """
    deciding = min(tests, key=lambda test: test.p_value(factor))
    ends = [test.interval(alpha, factor) for test in tests]
    low, high = max(low for low, _ in ends), min(high for _, high in ends)
    return TestedChange(
        change=deciding.change,
        low=min(low, deciding.change),
        high=max(high, deciding.change),
        p_value=deciding.p_value(factor),
    )
