"""sar's text: devices (-d), all I/O (-b), CPUs (-u, -u ALL) and pressure (-q), of any locale, alone or in sar -A.

sysstat writes times in the locale's form and headings in English. Old versions count sectors of 512 bytes
(rd_sec/s, avgrq-sz, avgqu-sz), new ones KiB (rkB/s, areq-sz, aqu-sz). A time stands at the end of its interval.
A table begins with a heading, a timed line without any number, and ends with the next heading. A blank line ends
it, too, but for devices that it had before: a person may have cut hours out.
`sar -A -f` prints the whole file once for each table, so each table has a clock of its own.
Source: activity.c and pr_stats.c of sysstat 10.0 to 12.7; every heading of these is in tests/fixtures/sar.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

import numpy as np

from volbench.results.recorded.parsed import (
    DAY_S,
    ROUNDED,
    DayClock,
    Recorded,
    SeriesTable,
    banner,
    busy_with_niced,
    first_lines,
    is_rounded_off,
    merged,
    number,
    scaled,
    time_of_day,
    without_rounded,
)
from volbench.results.store.series import Series, SeriesKey

_SECTORS_PER_MIB, _KIB_PER_MIB = 2048.0, 1024.0
_OPERATIONS = "operations_per_s"
ALL_DEVICES = "all devices"
LINES_LOOKED_AT = 4000


@dataclass(frozen=True, kw_only=True)
class _Kind:
    """A table that is read: a heading with all of `needed` and nothing beside `columns` and `ignored` is one.

    `columns` maps a heading's column to a metric and the factor that makes it the metric's unit; columns of one
    metric are summed.
    """

    name: str
    source: str
    needed: frozenset[str]
    columns: Mapping[str, tuple[str, float]]
    ignored: frozenset[str] = frozenset()

    def matches(self, columns: list[str]) -> bool:
        """Whether a heading is one of this table."""
        return self.needed <= set(columns) <= self.columns.keys() | self.ignored


_KINDS = (
    _Kind(
        name="device",
        source="diskstats",
        needed=frozenset({"DEV", "tps"}),
        columns={
            "tps": (_OPERATIONS, 1.0),
            "rd_sec/s": ("read_mib_per_s", 1 / _SECTORS_PER_MIB),
            "wr_sec/s": ("write_mib_per_s", 1 / _SECTORS_PER_MIB),
            "rkB/s": ("read_mib_per_s", 1 / _KIB_PER_MIB),
            "wkB/s": ("write_mib_per_s", 1 / _KIB_PER_MIB),
            "avgqu-sz": ("aqu_sz", 1.0),
            "aqu-sz": ("aqu_sz", 1.0),
            "await": ("await_ms", 1.0),
            "%util": ("util_ratio", 0.01),
        },
        # sysstat itself warns that svctm means nothing
        ignored=frozenset({"DEV", "dkB/s", "avgrq-sz", "areq-sz", "svctm"}),
    ),
    _Kind(
        name="all",
        source="diskstats",
        needed=frozenset({"tps", "rtps", "wtps"}),
        columns={
            "tps": (_OPERATIONS, 1.0),
            "rtps": ("reads_per_s", 1.0),
            "wtps": ("writes_per_s", 1.0),
            "dtps": ("discards_per_s", 1.0),
            "bread/s": ("read_mib_per_s", 1 / _SECTORS_PER_MIB),
            "bwrtn/s": ("write_mib_per_s", 1 / _SECTORS_PER_MIB),
        },
        ignored=frozenset({"bdscd/s"}),
    ),
    _Kind(
        name="cpu",
        source="cpu",
        needed=frozenset({"CPU", "%iowait", "%idle"}),
        columns={
            "%user": ("user_ratio", 0.01),
            "%usr": ("user_ratio", 0.01),
            "%guest": ("user_ratio", 0.01),
            "%nice": ("nice_ratio", 0.01),
            "%gnice": ("nice_ratio", 0.01),
            "%system": ("system_ratio", 0.01),
            "%sys": ("system_ratio", 0.01),
            "%irq": ("system_ratio", 0.01),
            "%soft": ("system_ratio", 0.01),
            "%iowait": ("iowait_ratio", 0.01),
            "%steal": ("steal_ratio", 0.01),
            "%idle": ("idle_ratio", 0.01),
        },
        ignored=frozenset({"CPU"}),
    ),
    _Kind(
        name="pressure",
        source="psi",
        needed=frozenset({"%scpu"}),
        columns={"%scpu": ("cpu_some_ratio", 0.01)},
        ignored=frozenset({"%scpu-10", "%scpu-60", "%scpu-300"}),
    ),
    _Kind(
        name="pressure",
        source="psi",
        needed=frozenset({"%sio", "%fio"}),
        columns={"%sio": ("io_some_ratio", 0.01), "%fio": ("io_full_ratio", 0.01)},
        ignored=frozenset({f"%{kind}io-{span}" for kind in "sf" for span in (10, 60, 300)}),
    ),
)
_NOT_A_CLOCK = 3
"""Words after a time that may be the locale's of a 12-hour clock, or a time zone's."""


def looks_like_sar(text: str) -> bool:
    """Whether a file has a heading, after a time, of a table that is read."""
    return any(_kind_after_clock(row.split()) is not None for _, row in _timed(text, LINES_LOOKED_AT))


def parse_sar(text: str) -> Recorded:
    """Series of a sar text; tables that are not read, averages and restarts are passed over.

    Raises ValueError for a 12-hour clock in a language whose words for its halves are not known.
    """
    reader = _Reader()
    for line in text.splitlines():
        reader.read(line)
    host, days = banner(text)
    series, rounded = without_rounded(busy_with_niced(reader.table.series()), reader.rounded)
    return Recorded(
        series=series,
        clocked=True,
        notes=(*reader.notes(), *rounded),
        host=host,
        dates=days,
    )


class _Reader:
    """Goes through the lines: which table they are in, and the day that each table has come to."""

    def __init__(self) -> None:
        self.table = SeriesTable()
        self.rounded: set[tuple[str, str]] = set()
        self._kind: _Kind | None = None
        self._columns: tuple[str, ...] = ()
        self._clocks: dict[tuple[str, ...], DayClock] = {}
        self._first_days: tuple[date, ...] = ()
        self._day = 0
        self._discards = False
        self._after_blank = False
        self._rows_of: set[str] = set()

    def read(self, line: str) -> None:
        """One line of the text."""
        if not line.strip():
            self._after_blank = bool(self._rows_of)
            return
        if line.rstrip().endswith("CPU)") and (days := banner(line)[1]):
            self._begin_file(days)
            return
        timed = time_of_day(line)
        if timed is None:
            return
        of_day_s, row = timed
        fields = row.split()
        if fields[:1] == ["COM"]:  # a comment (-C) ends no table
            return
        if fields and all(number(field.removesuffix("%")) is None for field in fields):
            self._begin_table(fields)
        if self._columns:
            t_s = self._day * DAY_S + self._clocks[self._columns].at(of_day_s)
            if len(fields) == len(self._columns) and tuple(fields) != self._columns:
                self._row(t_s, dict(zip(self._columns, fields, strict=True)))

    def notes(self) -> Iterator[str]:
        """What a reader of the series must know."""
        if self._discards:
            yield "sar counts discards (TRIM) among a device's operations: they are in its operations a second"

    def _begin_file(self, days: tuple[date, ...]) -> None:
        """Another file in the same text: another day, or the same one again."""
        self._first_days = self._first_days or days
        self._day = _days_between(self._first_days, days)
        self._clocks, self._columns = {}, ()

    def _begin_table(self, headings: list[str]) -> None:
        self._kind, self._columns = _kind(headings), ()
        if self._kind is None and (kind := _kind_after_clock(headings)) is not None:
            raise ValueError(
                f"its times have a word that is not known, {headings[0]!r} before the columns of the {kind.name}"
                " table: print it again with LC_ALL=C"
            )
        if self._kind is not None:
            self._columns, self._rows_of, self._after_blank = tuple(headings), set(), False
            self._clocks.setdefault(self._columns, DayClock())

    def _row(self, t_s: float, cells: Mapping[str, str]) -> None:
        kind = self._kind
        if kind is None or (kind.name == "cpu" and cells["CPU"] != "all"):
            return
        entity = {"device": cells.get("DEV", ""), "all": ALL_DEVICES}.get(kind.name, "")
        if self._after_blank and entity not in self._rows_of:
            self._columns = ()
            return
        self._rows_of.add(entity)
        sums: dict[str, float | None] = {}
        for name, (metric, scale) in kind.columns.items():
            value = scaled(cells[name], scale) if name in cells else None
            if metric == "await_ms" and not (scaled(cells.get("tps", ""), 1.0) or 0.0) > 0:
                value = None  # printed as 0 without an operation
            if metric in ROUNDED and value is not None and is_rounded_off(cells[name]) and cells.get("tps") != "0":
                self.rounded.add((entity, metric))
            if value is not None:
                sums[metric] = (sums.get(metric) or 0.0) + value
        for metric, total in sums.items():
            self.table.add(t_s, kind.source, metric, entity, total)
        discarded = scaled(cells.get("dkB/s", "0"), 1.0)
        self._discards = self._discards or (kind.name == "device" and bool(discarded))


def merged_by_device(files: Iterable[Recorded]) -> dict[SeriesKey, Series]:
    """Series of several files, with what -b says of all devices given to the one that does all I/O.

    In each file by itself, since another tool's figures may take the place of -d's, and then in all together, since
    -b and -d may be two files.
    """
    each = (replace(recorded, series=with_one_device(recorded.series)) for recorded in files)
    return with_one_device(merged(each))


def with_one_device(series: Mapping[SeriesKey, Series]) -> dict[SeriesKey, Series]:
    """What -b says of all devices given to the device that does all I/O; dropped when no device does.

    It is that device when its operations are those of all devices whenever both are known. Without -d, -b stays.
    -b tells discards apart: operations are then its reads and writes alone.
    """
    without = _without_discards(series)
    total = series.get(SeriesKey(source="diskstats", metric=_OPERATIONS, entity=ALL_DEVICES))
    devices = {
        key.entity: samples
        for key, samples in series.items()
        if key.source == "diskstats" and key.metric == _OPERATIONS and key.entity != ALL_DEVICES
    }
    if total is None or not devices:
        return without
    alone = next((name for name, samples in devices.items() if _same(total, samples)), None)
    result = {key: samples for key, samples in series.items() if key.entity != ALL_DEVICES}
    for key, samples in without.items():
        if alone is not None and key.entity == ALL_DEVICES:
            own = replace(key, entity=alone)
            result[own] = samples if key.metric == _OPERATIONS else result.get(own, samples)
    return result


def _without_discards(series: Mapping[SeriesKey, Series]) -> dict[SeriesKey, Series]:
    """The operations of all devices less their discards, at the times at which -b told those."""
    operations, discards = (
        SeriesKey(source="diskstats", metric=metric, entity=ALL_DEVICES)
        for metric in (_OPERATIONS, "discards_per_s")
    )
    result = {key: samples for key, samples in series.items() if key != discards}
    if discards in series and operations in series:
        all_operations, discarded = series[operations], series[discards]
        discards_at = dict(zip(discarded.t_s.tolist(), discarded.value.tolist(), strict=True))
        less = np.array([discards_at.get(t_s, 0.0) for t_s in all_operations.t_s.tolist()])
        result[operations] = Series(t_s=all_operations.t_s, value=np.maximum(0.0, all_operations.value - less))
    return result


def _same(total: Series, device: Series) -> bool:
    device_at = dict(zip(device.t_s.tolist(), device.value.tolist(), strict=True))
    pairs = [
        (a, device_at[t]) for t, a in zip(total.t_s.tolist(), total.value.tolist(), strict=True) if t in device_at
    ]
    return len(pairs) >= 3 and all(abs(a - b) <= 0.02 + 0.01 * b for a, b in pairs)


def _timed(text: str, lines_max: int) -> Iterator[tuple[float, str]]:
    for line in first_lines(text, lines_max):
        clock = time_of_day(line)
        if clock is not None:
            yield clock


def _kind(headings: list[str]) -> _Kind | None:
    """The table that a heading is of; None for every table that is not read, and for a line that is no heading."""
    return next((kind for kind in _KINDS if kind.matches(headings)), None)


def _kind_after_clock(headings: list[str]) -> _Kind | None:
    """The same, where words that belong to an unknown clock may stand before the columns."""
    return next((kind for skip in range(_NOT_A_CLOCK) if (kind := _kind(headings[skip:])) is not None), None)


def _days_between(first: Sequence[date], second: Sequence[date]) -> int:
    """Days from one banner's date to another's, the fewest where the order of day and month is open."""
    spans = [(b - a).days for a, b in zip(first, second, strict=False) if b >= a]
    return min(spans, default=0)
