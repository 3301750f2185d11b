"""What a parser makes of one file, and the small things that all of them need."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

import numpy as np
from numpy.typing import NDArray

from volbench.core.base.parse import NUMBER_MAX, parse_finite
from volbench.core.records.facts import STACKED_DEVICES
from volbench.results.stats.grid import interval_s
from volbench.results.store.series import Series, SeriesKey

DAY_S = 86_400.0
_CLOCK = re.compile(
    r"^(?:(?P<before>AM|PM|午前|午後|上午|下午)\s*)?"
    r"(?P<h>\d{1,2})\D{1,3}?(?P<m>\d{2})\D{1,3}?(?P<s>\d{2})\D{0,3}?"
    r"(?:\s+(?P<after>AM|PM|am|pm|πμ|μμ|π\.μ\.|μ\.μ\.|ص|م))?\s",
)
_AFTERNOON = ("PM", "pm", "午後", "下午", "μμ", "μ.μ.", "م")
_PER_KIB = {"B": 1 / 1024, "k": 1.0, "M": 1024.0, "G": 1024.0**2, "T": 1024.0**3, "P": 1024.0**4}
"""sysstat's units with --human, of bytes: cprintf_unit of common.c."""


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """Series of one file. `t_s` counts from midnight of its first day, or from its first line when it has no clock.

    `clocked` says which of the two; `notes` what a reader must know. `midnight_epoch_s` is that midnight where the
    file says its date and zone, in seconds since the epoch; None: times of day of a zone that is not known.
    `dates` are the first day's date where the file tells it: one, or both readings where the order of day and month
    is open, the likelier first. `host` is the machine that it was recorded on, empty: not told. `interval_known`:
    False where samples are only counted, so that `t_s` is in intervals of a length that no line tells.
    """

    series: Mapping[SeriesKey, Series]
    clocked: bool
    notes: tuple[str, ...] = ()
    midnight_epoch_s: float | None = None
    dates: tuple[date, ...] = ()
    host: str = ""
    interval_known: bool = True

    def shifted(self, seconds: float) -> Recorded:
        """Return the recording with all samples so much later."""
        return replace(self, series={key: samples.shifted(seconds) for key, samples in self.series.items()})


def recorded_of_epochs(series: Mapping[SeriesKey, Series], notes: tuple[str, ...] = ()) -> Recorded:
    """Series whose times are seconds since the epoch, with times of day in UTC."""
    first = min(float(samples.t_s[0]) for samples in series.values())
    midnight_s = first - first % DAY_S
    of_epoch = Recorded(series=series, clocked=True, notes=notes, midnight_epoch_s=midnight_s)
    return of_epoch.shifted(-midnight_s)


def with_interval(recorded: Recorded, interval_s: float) -> Recorded:
    """Return a recording of counted samples, `interval_s` seconds apart."""
    if recorded.interval_known:
        return recorded
    series = {
        key: Series(t_s=samples.t_s * interval_s, value=samples.value) for key, samples in recorded.series.items()
    }
    return replace(recorded, series=series, interval_known=True)


_BANNER = re.compile(r"^\S+ \S+ \((?P<host>[^)]*)\)\s+(?P<date>\S.*?)\s+_\S+_\s+\(\d+ CPU\)", re.MULTILINE)
"""Linux 6.1.0 (host)  11/21/26  _x86_64_  (2 CPU): the first line of what sysstat's tools print."""


def banner(text: str) -> tuple[str, tuple[date, ...]]:
    """Return host and date of the first banner of sysstat in a text; both empty without one."""
    matched = _BANNER.search(text)
    return ("", ()) if matched is None else (matched["host"], dates(matched["date"]))


def dates(text: str) -> tuple[date, ...]:
    """Return what a date in the locale's form may mean, the likelier first: 03/11/2025 is March 11 or November 3.

    Dots stand between day and month, in this order; a year of four digits may come first. Empty for no date.
    """
    numbers = [int(digits) for digits in re.findall(r"\d+", text)[:3] if len(digits) <= 4]
    if len(numbers) < 3:
        return ()
    if numbers[0] > 31:
        orders = [(numbers[0], numbers[1], numbers[2])]
    else:
        first, second, year = numbers
        year += 2000 if year < 100 else 0
        orders = [(year, first, second), (year, second, first)]
        orders = orders[::-1] if "." in text else orders
    return tuple(dict.fromkeys(day for order in orders if (day := _date(*order)) is not None))


def _date(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except (ValueError, OverflowError):
        return None


class SeriesTable:
    """Collects values of many series, then makes them ascending in time."""

    def __init__(self) -> None:
        self._rows: dict[SeriesKey, dict[float, float]] = {}

    def add(self, t_s: float, source: str, metric: str, entity: str, value: float | None) -> None:
        """One value; None is not known and gives no row, nor does a time that is no number, nor a value below 0, as
        of a counter that ran over.

        A time that comes twice keeps its last value.
        """
        if value is not None and 0 <= value <= NUMBER_MAX and abs(t_s) <= NUMBER_MAX:
            key = SeriesKey(source=source, metric=metric, entity=entity)
            self._rows.setdefault(key, {})[t_s] = float(value)

    def series(self) -> dict[SeriesKey, Series]:
        """All of them."""
        series = {}
        for key, rows in self._rows.items():
            times = sorted(rows)
            series[key] = Series(t_s=np.array(times), value=np.array([rows[t_s] for t_s in times]))
        return series


def busy_with_niced(series: Mapping[SeriesKey, Series]) -> dict[SeriesKey, Series]:
    """The series with the time of niced programs within user time, as /proc/stat's own reading here has it.

    sysstat states it apart: of CPUs that are all busy, `%user` may be a third. `nice_ratio` stays beside it.
    """
    user, nice = (SeriesKey(source="cpu", metric=name, entity="") for name in ("user_ratio", "nice_ratio"))
    if user not in series or nice not in series:
        return dict(series)
    niced = dict(zip(series[nice].t_s.tolist(), series[nice].value.tolist(), strict=True))
    of_user = series[user]
    both = [
        value + niced.get(t_s, 0.0) for t_s, value in zip(of_user.t_s.tolist(), of_user.value.tolist(), strict=True)
    ]
    return {**series, user: Series(t_s=of_user.t_s, value=np.array(both))}


class DayClock:
    """Times of day as seconds that never fall: a time before the last one is the next day's.

    A clock that was set back by up to two hours, as at the end of summer time, goes on counting: its day is 25 h.
    """

    def __init__(self) -> None:
        self._day = 0
        self._last = -1.0
        self._back_s = 0.0
        self._step_s = 0.0
        self._days: tuple[date, ...] = ()

    def at(self, of_day_s: float, days: tuple[date, ...] = ()) -> float:
        """Seconds since midnight of the first day.

        Args:
            of_day_s: as the text says it.
            days: what the text says of its date, each reading in the order of the first one's; empty: nothing.
        """
        self._days = self._days or days
        fall_s = self._last - of_day_s
        if days and (days != self._days or self._day):
            self._day = _days_later(self._days, days, self._day)
        elif 1 < fall_s <= _SET_BACK_MAX_S:
            self._back_s += fall_s + self._step_s
        elif fall_s > 1:
            self._day += 1
        if fall_s < 0 <= self._last:
            self._step_s = -fall_s
        self._last = of_day_s
        return self._day * DAY_S + of_day_s + self._back_s


_SET_BACK_MAX_S = 7200.0


def _days_later(first: Sequence[date], now: Sequence[date], day: int) -> int:
    """Days from the first date to another one: the fewest by any reading that is not before `day`."""
    spans = [(after - before).days for before, after in zip(first, now, strict=False)]
    return min((span for span in spans if span >= day), default=day)


def first_lines(text: str, count: int) -> list[str]:
    """Return at most `count` lines that a text begins with: what a format is told by.

    A line that is not over within HEAD_CHARACTERS, such as JSON's only one, is a line of no tool that writes lines.
    """
    lines = text[:HEAD_CHARACTERS].splitlines()
    if len(text) > HEAD_CHARACTERS:
        del lines[-1]
    return lines[:count]


HEAD_CHARACTERS = 1 << 20
"""What formats are told by, however long a text is: 4000 lines of the longest tool have half of it."""


def time_of_day(line: str) -> tuple[float, str] | None:
    """Seconds of the day that a line begins with, and the rest of the line; None when it begins otherwise.

    Takes 15:40:01, 15時40分01秒, 03:40:01 PM and the like: sysstat writes its times in the locale's form.
    """
    matched = _CLOCK.match(line + " ")
    if matched is None:
        return None
    hour, minute, second = (int(matched[name]) for name in "hms")
    half = matched["before"] or matched["after"]
    if half is not None:
        hour = hour % 12 + (12 if half in _AFTERNOON else 0)
    if hour > 24 or minute > 59 or second > 60:
        return None
    return hour * 3600.0 + minute * 60 + second, line[matched.end() :].strip() if matched.end() <= len(line) else ""


def number(text: str) -> float | None:
    """A number with a point or a comma for decimals; None for anything else."""
    try:
        return parse_finite(text.replace(",", "."))
    except ValueError:
        return None


ROUNDED = frozenset({"aqu_sz", "await_ms", "f_await_ms", "r_await_ms", "w_await_ms"})
"""Metrics whose whole numbers say too little: a volume of 0.3 ms is printed as 0 (--dec=0)."""


def is_rounded_off(text: str) -> bool:
    """Whether a cell is a zero without decimals."""
    return text == "0"


def without_rounded(
    series: Mapping[SeriesKey, Series], rounded: Iterable[tuple[str, str]]
) -> tuple[dict[SeriesKey, Series], tuple[str, ...]]:
    """The series without those of devices and metrics that are rounded to 0 under operations, with notes."""
    dropped = set(rounded)
    series_left = {key: samples for key, samples in series.items() if (key.entity, key.metric) not in dropped}
    devices = sorted({device for device, _ in dropped})
    return series_left, tuple(
        f"the times of {device} are printed without decimals, and some as 0: they are not known (--dec=2 has them)"
        for device in devices
    )


def scaled(text: str, scale: float) -> float | None:
    """A cell times a factor; None where it is no number.

    A percent sign is dropped. A unit of bytes (--human: 5.0M) says itself what the number is, in MiB.
    """
    value = number(text.removesuffix("%"))
    if value is not None:
        return value * scale
    with_unit = number(text[:-1]) if text[-1:] in _PER_KIB else None
    return None if with_unit is None else with_unit * _PER_KIB[text[-1]] / 1024


def merged(files: Iterable[Recorded]) -> dict[SeriesKey, Series]:
    """Series of several files, whatever their order; what two have at different times is joined by time.

    Where two files count the same thing of one device (entity of a source) in times that overlap, one of them
    counts alone: the intervals of two tools end at different moments, so that operations of one and bytes of the
    other vary against each other where nothing does. It is the one that lasts clearly longer, else the one with
    more metrics.
    """
    groups: dict[tuple[str, str], list[_FileSeries]] = {}
    for recorded in files:
        for candidate in _file_series(recorded):
            groups.setdefault((candidate.source, candidate.entity), []).append(candidate)
    pieces: dict[SeriesKey, list[Series]] = {}
    for candidates in groups.values():
        for candidate in _without_rivals(candidates):
            for metric, series in candidate.series.items():
                key = SeriesKey(source=candidate.source, metric=metric, entity=candidate.entity)
                pieces.setdefault(key, []).append(series)
    return {key: joined(of_key) for key, of_key in pieces.items()}


def joined(pieces: Sequence[Series]) -> Series:
    """One series of several, ascending in time; a time that comes twice keeps its last value."""
    if len(pieces) == 1 and (np.diff(pieces[0].t_s) > 0).all():
        return pieces[0]
    t_s = np.concatenate([piece.t_s for piece in pieces])[::-1]
    value = np.concatenate([piece.value for piece in pieces])[::-1]
    times, last = np.unique(t_s, return_index=True)
    return Series(t_s=times, value=value[last])


def all_times(pieces: Sequence[Series]) -> NDArray[np.float64]:
    """Return the times of several series, ascending, each once. Most have the same ones, which need no sorting."""
    t_s = pieces[0].t_s
    if (np.diff(t_s) > 0).all() and all(np.array_equal(t_s, piece.t_s) for piece in pieces[1:]):
        return t_s
    return np.unique(np.concatenate([piece.t_s for piece in pieces]))


@dataclass(frozen=True, kw_only=True)
class _FileSeries:
    """What one file has of one entity of a source, by metric.

    `of_file`: how many series the file has in all. `t0_s`, `t1_s`: the first and the last time. `width_s`: the
    typical interval; 0 with one time.
    """

    source: str
    entity: str
    series: Mapping[str, Series]
    of_file: int
    t0_s: float
    t1_s: float
    width_s: float

    @property
    def rank(self) -> tuple[int, float, int]:
        """The more, the sooner it counts alone."""
        return len(self.series), self.t1_s - self.t0_s, self.of_file

    def is_rival(self, entry: _FileSeries) -> bool:
        """Whether both have a metric in times that overlap by more than where one file ends and the next begins."""
        overlap_s = min(self.t1_s, entry.t1_s) - max(self.t0_s, entry.t0_s)
        apart = overlap_s < 0 or (overlap_s <= _OVERLAP * min(self.width_s, entry.width_s) and self.width_s > 0)
        return not apart and not self.series.keys().isdisjoint(entry.series)

    def is_longer(self, entry: _FileSeries) -> bool:
        """Whether it lasts clearly longer."""
        return self.t1_s - self.t0_s > _LONGER * (entry.t1_s - entry.t0_s)


_OVERLAP = 2.0
"""Intervals that files which follow each other may have in common."""
_LONGER = 1.5


def _file_series(recorded: Recorded) -> Iterator[_FileSeries]:
    metrics: dict[tuple[str, str], dict[str, Series]] = {}
    for key, series in recorded.series.items():
        if len(series.t_s):
            metrics.setdefault((key.source, key.entity), {})[key.metric] = series
    for (source, entity), series_of in metrics.items():
        times = all_times([*series_of.values()])
        yield _FileSeries(
            source=source,
            entity=entity,
            series=series_of,
            of_file=len(recorded.series),
            t0_s=float(times[0]),
            t1_s=float(times[-1]),
            width_s=interval_s(times) or 0.0,
        )


def _without_rivals(candidates: Sequence[_FileSeries]) -> Iterator[_FileSeries]:
    """What files have of one entity, less the files whose place another one takes."""
    used: list[_FileSeries] = []
    for candidate in sorted(candidates, key=lambda candidate: candidate.rank, reverse=True):
        rivals = [rival for rival in used if rival.is_rival(candidate)]
        if not rivals:
            used.append(candidate)
        elif all(candidate.is_longer(rival) for rival in rivals):
            used = [*(entry for entry in used if entry not in rivals), candidate]
    return iter(used)


def without_uncounted_flushes(recorded: Recorded) -> Recorded:
    """Return a recording without the flushes of devices that count none: device mapper, md and bcache print 0."""
    flushes = "flushes_per_s"
    uncounted = {
        key.entity
        for key, samples in recorded.series.items()
        if key.metric == flushes and key.entity.startswith(STACKED_DEVICES) and not np.any(samples.value > 0)
    }
    series_left = {
        key: samples
        for key, samples in recorded.series.items()
        if key.entity not in uncounted or key.metric not in (flushes, "f_await_ms")
    }
    return replace(recorded, series=series_left)
