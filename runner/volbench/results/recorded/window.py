"""A window of the day, such as 14:35-15:10, and where it lies in a recording."""

from __future__ import annotations

import re
from dataclasses import dataclass

from volbench.core.base.text import time_of_day
from volbench.errors import UsageError
from volbench.results.recorded.parsed import DAY_S

_WINDOW = re.compile(r"^(\d{1,2}):(\d{2})(?::(\d{2}))?\s*[-–]\s*(\d{1,2}):(\d{2})(?::(\d{2}))?$")


@dataclass(frozen=True, kw_only=True)
class DayWindow:
    """From one time of day to another, in seconds since midnight; `end_s` is on the next day when it is earlier."""

    begin_s: float
    end_s: float
    text: str

    def within(self, first_s: float, last_s: float) -> tuple[float, float]:
        """The window in seconds since midnight of a recording's first day: its first one that the recording meets.

        Args:
            first_s, last_s: the recording's begin and end.

        Raises UsageError when the recording has nothing of it.
        """
        for day in range(int(last_s // DAY_S) + 2):
            begin_s, end_s = self.begin_s + day * DAY_S, self.end_s + day * DAY_S
            if begin_s < last_s and end_s > first_s:
                return begin_s, end_s
        raise UsageError(
            "the recording has nothing of this window",
            where=f"--window {self.text}",
            evidence=f"it goes from {clock_text(first_s)} to {clock_text(last_s)}",
        )


def parse_window(text: str) -> DayWindow:
    """HH:MM-HH:MM or HH:MM:SS-HH:MM:SS. Raises UsageError."""
    matched = _WINDOW.match(text.strip())
    fields = [] if matched is None else [int(field or 0) for field in matched.groups()]
    if not fields or max(fields[0], fields[3]) > 24 or max(fields[1], fields[2], fields[4], fields[5]) > 59:
        raise UsageError(
            "this is no window of the day", where=f"--window {text}", next_step="give one such as 14:35-15:10"
        )
    begin_s, end_s = (float(h * 3600 + m * 60 + s) for h, m, s in (fields[:3], fields[3:]))
    if begin_s == end_s:
        raise UsageError("the window is empty", where=f"--window {text}")
    return DayWindow(begin_s=begin_s, end_s=end_s + (DAY_S if end_s < begin_s else 0.0), text=text)


def clock_text(t_s: float) -> str:
    """Seconds since midnight as a time of day, with the day where it is not the first."""
    day, of_day = divmod(round(t_s), int(DAY_S))
    return f"{time_of_day(of_day)} (day {day + 1})" if day else time_of_day(of_day)
