from __future__ import annotations

import pytest

from volbench.errors import UsageError
from volbench.results.recorded.window import clock_text, parse_window

HOUR_S = 3600.0


def test_a_window_is_found_on_the_day_that_the_recording_meets() -> None:
    window = parse_window("14:35-15:10")
    assert window.within(13 * HOUR_S, 18 * HOUR_S) == (14 * HOUR_S + 2100, 15 * HOUR_S + 600)
    assert window.within(20 * HOUR_S, 40 * HOUR_S) == (38 * HOUR_S + 2100, 39 * HOUR_S + 600)


def test_a_window_over_midnight() -> None:
    assert parse_window("23:50:30-00:10").within(23 * HOUR_S, 25 * HOUR_S) == (86_400 - 570, 86_400 + 600)


@pytest.mark.parametrize("text", ["14:35", "14:75-15:00", "now-later", "14:35-14:35", "4h"])
def test_what_is_no_window(text: str) -> None:
    with pytest.raises(UsageError, match="window"):
        parse_window(text)


def test_a_window_without_samples_says_what_there_is() -> None:
    with pytest.raises(UsageError, match="13:00:00 to 18:00:00"):
        parse_window("02:00-03:00").within(13 * HOUR_S, 18 * HOUR_S)


def test_times_of_later_days_say_so() -> None:
    assert clock_text(52_500) == "14:35:00"
    assert clock_text(86_400 + 60) == "00:01:00 (day 2)"
