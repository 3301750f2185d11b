"""Numbers and times as a DBA writes them."""

from __future__ import annotations

from volbench.core.base.text import time_of_day
from volbench.core.records.report import EvidenceRow
from volbench.results.stats.grid import Floats, median

_DAY_S = 86_400


def clock(t_s: float, zero_s: float = 0.0) -> str:
    """hh:mm:ss where `zero_s` is a time of day, in seconds; else `second 38`, counted from the run's start."""
    if not zero_s:
        return f"second {round(t_s)}"
    return time_of_day(round(zero_s + t_s) % _DAY_S)


_FOUR_DIGITS_MIN = 999.5
"""What three digits would write as 1e+03."""


def number(value: float) -> str:
    """Three digits, thousands with commas."""
    if abs(value) >= _FOUR_DIGITS_MIN:
        digits = 10 ** max(0, len(str(int(abs(value)))) - 4)
        return f"{round(value / digits) * digits:,.0f}"
    return f"{value:.3g}"


def amount(value: float, resource: str) -> str:
    """`3,000 IOPS` or `125 MiB/s`."""
    return f"{number(value)} {'IOPS' if resource == 'iops' else 'MiB/s'}"


def percent(value: float) -> str:
    """Whole percents; what is there but little is `under 1 %`."""
    return "under 1 %" if 0 < value < 0.01 else f"{100 * value:.0f} %"


def row(metric: str, value: float | str | None, unit: str, text: str) -> EvidenceRow:
    """One checkable fact."""
    return EvidenceRow(metric=metric, value=value, unit=unit, text=text)


def before_and_after(values: Floats, index: int) -> tuple[float, float] | None:
    """Medians on both sides of a bucket; None when either is not known."""
    before, after = median(values[:index]), median(values[index:])
    return None if before is None or after is None else (before, after)
