"""Numbers and changes read the same everywhere, and never say more than is known."""

from __future__ import annotations

import pytest

from volbench.base.text import change, duration, interval, number, quantity
from volbench.records.metrics import CATALOGUE
from volbench.report.wording import GLOSSARY, label


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"), (0.0, "0"), (0.01234, "0.0123"), (4.5678, "4.57"), (78.91, "78.9"), (1234.5, "1,234"),
        (56789.0, "56,789"), (-3.14159, "−3.14"), (2.5e12, "2.5e+12"), (1.2e-9, "1.2e-09"),
    ],
)  # fmt: skip
def test_numbers_have_three_digits(value: float | None, text: str) -> None:
    """Absent is a dash, not zero."""
    assert number(value) == text


@pytest.mark.parametrize(
    ("ratio", "text"),
    [(None, "–"), (1.0, "0 %"), (1.38, "+38 %"), (0.73, "−27 %"), (1.0212, "+2.1 %"), (0.9999, "0 %"),
     (3.4, "+240 %"), (12.3, "× 12.3"), (0.02, "−98 %"), (1.0996, "+10 %")],
)  # fmt: skip
def test_changes(ratio: float | None, text: str) -> None:
    """Percent with a sign up to threefold, then a factor; what rounds to nothing has no sign."""
    assert change(ratio) == text


def test_an_interval_without_bounds_says_so() -> None:
    """Too few runs to bound it."""
    assert interval(None) == "[no bound]"
    assert interval((0.9, 1.3)) == "[−10 %, +30 %]"
    assert interval((1.9, 12.0)) == "[× 1.90, × 12.0]"


def test_the_unit_one_is_not_written() -> None:
    """A share is a bare number."""
    assert quantity(0.5, "1") == "0.500"
    assert quantity(12.0, "ms") == "12.0 ms"
    assert quantity(None, "ms") == "–"


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, "–"), (12.34, "12.3 s"), (200, "3 min 20 s"), (7505, "2 h 05 min")]
)
def test_durations(seconds: float | None, text: str) -> None:
    """Seconds, minutes, hours."""
    assert duration(seconds) == text


def test_the_glossary_knows_only_catalogued_metrics() -> None:
    """No explanation for what can never be reported; a metric without one goes by its own name."""
    assert set(GLOSSARY) <= set(CATALOGUE)
    assert label("no_such_metric") == "no_such_metric"
