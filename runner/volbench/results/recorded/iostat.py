"""iostat -x: extended statistics of devices, with or without time stamps, old and new columns, text or JSON.

A report is one table, or with --pretty one for reads, for writes and so on; with -s only totals are known.
The first report is about the time since the machine booted, and is left out.
Source: iostat(1) and iostat.c of sysstat 10 and 12.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import Any

import numpy as np

from volbench.core.base.parse import parse_json
from volbench.core.base.text import counted
from volbench.results.recorded.parsed import (
    ROUNDED,
    DayClock,
    Recorded,
    SeriesTable,
    banner,
    busy_with_niced,
    dates,
    first_lines,
    is_rounded_off,
    scaled,
    time_of_day,
    without_rounded,
)
from volbench.results.store.series import Series, SeriesKey

_COLUMNS = {
    "r/s": ("reads_per_s", 1.0),
    "w/s": ("writes_per_s", 1.0),
    "tps": ("operations_per_s", 1.0),
    "rkB/s": ("read_mib_per_s", 1 / 1024),
    "wkB/s": ("write_mib_per_s", 1 / 1024),
    "kB/s": ("mib_per_s", 1 / 1024),
    "rMB/s": ("read_mib_per_s", 1.0),
    "wMB/s": ("write_mib_per_s", 1.0),
    "MB/s": ("mib_per_s", 1.0),
    "rGB/s": ("read_mib_per_s", 1024.0),
    "wGB/s": ("write_mib_per_s", 1024.0),
    "GB/s": ("mib_per_s", 1024.0),
    "rsec/s": ("read_mib_per_s", 1 / 2048),
    "wsec/s": ("write_mib_per_s", 1 / 2048),
    "r_await": ("r_await_ms", 1.0),
    "w_await": ("w_await_ms", 1.0),
    "kB_read/s": ("read_mib_per_s", 1 / 1024),
    "kB_wrtn/s": ("write_mib_per_s", 1 / 1024),
    "MB_read/s": ("read_mib_per_s", 1.0),
    "MB_wrtn/s": ("write_mib_per_s", 1.0),
    "GB_read/s": ("read_mib_per_s", 1024.0),
    "GB_wrtn/s": ("write_mib_per_s", 1024.0),
    "Blk_read/s": ("read_mib_per_s", 1 / 2048),
    "Blk_wrtn/s": ("write_mib_per_s", 1 / 2048),
    "f/s": ("flushes_per_s", 1.0),
    "f_await": ("f_await_ms", 1.0),
    "await": ("await_ms", 1.0),
    "avgqu-sz": ("aqu_sz", 1.0),
    "aqu-sz": ("aqu_sz", 1.0),
    "%util": ("util_ratio", 0.01),
}
_WAITS = {"r_await": "r/s", "w_await": "w/s", "f_await": "f/s", "await": "tps"}
_EXTENDED = (
    {"r/s", "w/s"},
    {"r/s", "r_await"},
    {"w/s", "w_await"},
    {"d/s", "d_await"},
    {"aqu-sz", "%util"},
    {"tps", "await"},
    {"tps", "kB_read/s"},
    {"tps", "MB_read/s"},
    {"tps", "GB_read/s"},
    {"tps", "Blk_read/s"},
)
"""Columns that a table of iostat has, with -x or without; each of its forms has all of one of these."""
_CPU = ("user_ratio", "nice_ratio", "system_ratio", "iowait_ratio", "steal_ratio", "idle_ratio")
_DATE = re.compile(r"^\d{1,4}[-/.年]\d{1,2}[-/.月]\d{1,4}日?[ T]\s*(?P<time>.*)$")
_PSEUDO = re.compile(r"^(loop|ram|zram|sr|scd|fd)\d+$")
_CPU_HEADING = "avg-cpu:"
_CPU_LINE = re.compile(r"^avg-cpu: +%user +%nice +%system ")
_JSON = re.compile(r'^\s*\{\s*"sysstat"\s*:')


def looks_like_iostat(text: str) -> bool:
    """Whether a file has a heading of iostat -x, or is its JSON."""
    if _JSON.match(text):
        return '"disk_device"' in text[:20_000]
    return any(_is_heading(line.split()) or _CPU_LINE.match(line) for line in first_lines(text, 400))


def begins_report(line: str) -> bool:
    """Whether a report begins with a line, of a text without times: with its CPUs, else with its devices."""
    return line.startswith(_CPU_HEADING)


def parse_iostat(text: str, *, interval_s: float | None = None) -> Recorded:
    """Series of what iostat -x printed.

    Args:
        text: what iostat printed.
        interval_s: of its reports, where they have no time stamps; None: not known, they are counted.

    Raises ValueError for JSON that is cut off, and for a clock that cannot be read.
    """
    reports = _Reports(interval_s, *banner(text))
    if _JSON.match(text):
        _read_json(text, reports)
    else:
        _read_text(text, reports)
    return reports.recorded()


class _Reports:
    """Collects values report by report; the first report is left out."""

    def __init__(self, interval_s: float | None, host: str, day: tuple[date, ...]) -> None:
        self._table, self._clock = SeriesTable(), DayClock()
        self._host, self._banner_dates = host, day
        self._dates: tuple[date, ...] = ()
        self._interval_s = interval_s
        self._stamp_s: float | None = None
        self._number = -1
        self._pseudo: list[tuple[float, Mapping[str, str]]] = []
        self._has_disks = False
        self._rounded: set[tuple[str, str]] = set()
        self._misfits = 0
        self._times: list[float] = []

    def begin(self) -> None:
        """The next report begins."""
        self._number += 1

    def misfit(self) -> None:
        """A row below a heading of more or fewer columns."""
        self._misfits += 1

    def host(self, name: str, days: tuple[date, ...]) -> None:
        """The machine and the day, as JSON says them."""
        self._host, self._banner_dates = name, days

    def stamp(self, of_day_s: float, days: tuple[date, ...]) -> None:
        """The time of day of the report, and what its date may be."""
        self._dates = self._dates or days
        self._stamp_s = self._clock.at(of_day_s, days)

    def cpu(self, values: Mapping[str, float | None]) -> None:
        """The processors of the report, by metric."""
        if self._number >= 1:
            self._times.append(self._t_s)
            for metric, value in values.items():
                self._table.add(self._t_s, "cpu", metric, "", value)

    def device(self, cells: Mapping[str, str]) -> None:
        """One row of a device, by heading."""
        if self._number < 1:
            return
        if not self._times or self._times[-1] != self._t_s:
            self._times.append(self._t_s)
        if _PSEUDO.match(cells["Device"]):
            self._pseudo.append((self._t_s, cells))
        else:
            self._has_disks = True
            self._add(self._t_s, cells)

    def recorded(self) -> Recorded:
        """All of it. Loop devices and the like count where there is no other device: they lie on one."""
        for t_s, cells in () if self._has_disks else self._pseudo:
            self._add(t_s, cells)
        clocked = self._stamp_s is not None
        series, rounded = without_rounded(busy_with_niced(self._table.series()), self._rounded)
        series, uncounted = _counted(series)
        series = series if self._misfits else _with_idle(series, self._times)
        return Recorded(
            series=series,
            notes=(
                *rounded,
                *self._losses(is_empty=not series),
                *(
                    f"{device} has operations and neither a queue nor a waiting time in any sample: its kernel does"
                    " not count them, so they are not known"
                    for device in uncounted
                ),
            ),
            clocked=clocked,
            host=self._host,
            dates=(self._dates or self._banner_dates) if clocked else (),
            interval_known=clocked or self._interval_s is not None,
        )

    def _losses(self, *, is_empty: bool) -> Iterator[str]:
        """What of the text is not read."""
        if is_empty and self._number == 0:
            yield (
                "its only report is left out, as the first one is about the time since the machine booted, and no"
                " line tells of -y: give two reports or more, as of `iostat -xt 1 60`"
            )
        if self._misfits:
            yield (
                f"{counted(self._misfits, 'row')} of other columns than the heading above them not read: lines were"
                " wrapped or cut"
            )

    @property
    def _t_s(self) -> float:
        return self._stamp_s if self._stamp_s is not None else self._number * (self._interval_s or 1.0)

    def _add(self, t_s: float, cells: Mapping[str, str]) -> None:
        """A waiting time without an operation is printed as 0 and not known."""
        for name, (metric, scale) in _COLUMNS.items():
            value = scaled(cells[name], scale) if name in cells else None
            rate = _WAITS.get(name)
            if rate is not None and rate in cells and not (scaled(cells[rate], 1.0) or 0) > 0:
                value = None
            if metric in ROUNDED and value is not None and is_rounded_off(cells[name]) and _has_operations(cells):
                self._rounded.add((cells["Device"], metric))
            self._table.add(t_s, "diskstats", metric, cells["Device"], value)


def _with_idle(series: Mapping[SeriesKey, Series], times: Sequence[float]) -> dict[SeriesKey, Series]:
    """The series with zeros for reports that leave a device out between two that have it: it was idle (-z)."""
    all_times = np.unique(np.array(times, dtype=np.float64))
    filled = dict(series)
    for key, samples in series.items():
        if key.source == "diskstats" and key.metric not in _AWAITS:
            inside = all_times[(all_times >= samples.t_s[0]) & (all_times <= samples.t_s[-1])]
            if len(inside) > len(samples.t_s):
                value = np.zeros(len(inside))
                value[np.searchsorted(inside, samples.t_s)] = samples.value
                filled[key] = Series(t_s=inside, value=value)
    return filled


def _has_operations(cells: Mapping[str, str]) -> bool:
    return any((scaled(cells[name], 1.0) or 0.0) > 0 for name in ("r/s", "w/s", "tps") if name in cells)


def _counted(series: Mapping[SeriesKey, Series]) -> tuple[dict[SeriesKey, Series], list[str]]:
    """Series without zeros that mean "not counted", and the devices that have them.

    Kernels before 5.10 count no time of a device that passes its operations on (md): each of its times is 0.
    """
    busy = {key.entity for key, samples in series.items() if key.metric.endswith("s_per_s") and samples.value.any()}
    times = {
        device: [samples for key, samples in series.items() if key.entity == device and key.metric in _TIMES]
        for device in busy
    }
    uncounted = sorted(
        device for device, of in times.items() if of and not any(samples.value.any() for samples in of)
    )
    series_left = {
        key: samples for key, samples in series.items() if key.entity not in uncounted or key.metric not in _TIMES
    }
    return series_left, uncounted


_AWAITS = frozenset({"await_ms", "r_await_ms", "w_await_ms", "f_await_ms"})
_TIMES = frozenset({"aqu_sz", "util_ratio", "await_ms", "r_await_ms", "w_await_ms"})


class _TextReader:
    """Goes through lines. A report begins with its time, else the processors, else a heading that it has already.

    Without headings, as grep leaves a text, a device that comes again begins the next report. With -h of sysstat 11
    a device's name has a line of its own.
    """

    def __init__(self, reports: _Reports) -> None:
        self._reports = reports
        self._columns: list[str] = []
        self._headings: set[tuple[str, ...]] = set()
        self._rows: set[str] = set()
        self._begun = self._cpu_next = False
        self._name = ""

    def read(self, line: str) -> None:
        """One line of the text."""
        name, self._name = self._name, ""
        cells = line.split()
        stamp, is_cpu = _stamp(line), line.startswith(_CPU_HEADING)
        if stamp is not None or (is_cpu and (self._headings or self._rows or not self._begun)):
            self._begin()
        if stamp is not None:
            self._reports.stamp(*stamp)
        elif is_cpu:
            self._cpu_next = True
        elif self._cpu_next:
            self._cpu_next = False
            self._reports.cpu(dict(zip(_CPU, (scaled(cell, 0.01) for cell in cells), strict=False)))
        elif _is_heading(cells):
            self._heading([cell.rstrip(":") for cell in cells])
        elif not cells or cells[0].rstrip(":") == "Device" or cells[-1] == "Device":
            self._columns = []
        else:
            self._row(line, cells, name)

    def _begin(self) -> None:
        self._reports.begin()
        self._headings, self._columns, self._rows, self._begun = set(), [], set(), True

    def _heading(self, columns: list[str]) -> None:
        if not self._begun or tuple(columns) in self._headings:
            self._begin()
        self._columns, self._rows = columns, set()
        self._headings.add(tuple(columns))

    def _row(self, line: str, cells: list[str], name: str) -> None:
        columns = self._columns
        if len(cells) == 1 and len(columns) > 2 and columns[0] == "Device":
            self._name = cells[0]
            return
        values = [name, *cells] if name else cells
        if not columns or (not name and len(values) == len(columns) and _is_group(line, columns)):
            return
        if len(values) != len(columns):
            if scaled(values[-1], 1.0) is not None:
                self._reports.misfit()
            return
        row = dict(zip(columns, values, strict=True))
        if row["Device"] in self._rows:
            self._reports.begin()
            self._rows = set()
        self._rows.add(row["Device"])
        self._reports.device(row)


def _read_text(text: str, reports: _Reports) -> None:
    reader = _TextReader(reports)
    for line in text.splitlines():
        reader.read(line)


def _read_json(text: str, reports: _Reports) -> None:
    try:
        output: Any = parse_json(text)
        hosts = output["sysstat"]["hosts"]
        statistics = [report for host in hosts for report in host["statistics"]]
        if len(hosts) == 1:
            reports.host(str(hosts[0].get("nodename", "")), dates(str(hosts[0].get("date", ""))))
        for report in statistics:
            reports.begin()
            if "timestamp" in report:
                stamp = _stamp(str(report["timestamp"]))
                if stamp is None:
                    raise ValueError(f"the time {report['timestamp']!r} cannot be read")
                reports.stamp(*stamp)
            cpu = report.get("avg-cpu", {})
            reports.cpu({f"{name}_ratio": scaled(str(value), 0.01) for name, value in cpu.items()})
            for disk in report.get("disk", ()):
                cells = {name: str(value) for name, value in disk.items()}
                if cells["disk_device"].startswith(" "):
                    continue  # the sum of a group of -g
                reports.device({**cells, "Device": cells["disk_device"], "%util": cells.get("util", "")})
    except (json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"its JSON is cut off or not iostat's ({error}): iostat closes it when it ends by itself or by Ctrl-C"
        ) from error


def _is_heading(cells: list[str]) -> bool:
    """Whether a line is a heading of -x, one of several with --pretty."""
    names = {cell.rstrip(":") for cell in cells}
    return "Device" in names and any(some <= names for some in _EXTENDED)


def _is_group(line: str, columns: list[str]) -> bool:
    """Return whether a row is the sum of a group of -g: its name is indented by one space more than a device's."""
    if columns[0] == "Device":
        return line.startswith(" ")
    return columns[-1] == "Device" and re.search(r"  \S+\s*$", line) is not None


def _stamp(line: str) -> tuple[float, tuple[date, ...]] | None:
    """The time of day of a line that is a time stamp and nothing else, and what its date may be.

    Raises ValueError for a date and a time with words that are not known.
    """
    text = line.strip()
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        dated = _DATE.match(text)
        clock = time_of_day(dated["time"]) if dated else None
        if clock is not None and clock[1] and len(clock[1].split()) == 1:
            raise ValueError(
                f"its times have a word that is not known, {clock[1]!r}: print it again with LC_ALL=C"
            ) from None
        return (clock[0], _of_clock(text)) if dated and clock is not None and not clock[1] else None
    return moment.hour * 3600.0 + moment.minute * 60 + moment.second, (moment.date(),)


def _of_clock(stamp: str) -> tuple[date, ...]:
    """What the date of a time stamp may be, the likelier first: locales that put the month before the day, with a
    year of four digits between slashes, have a clock of 12 hours (glibc's en_US, `%m/%d/%Y` and `%r`).
    """
    date_texts = dates(stamp.split(maxsplit=1)[0])
    is_day_first = re.match(r"\d\d/\d\d/\d{4} [\d:]+$", stamp) is not None
    return date_texts[::-1] if is_day_first else date_texts
