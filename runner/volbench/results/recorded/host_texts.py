"""vmstat and dstat (dool): CPUs of a host, and its disks where the text has operations of them.

Their first report is about the time since boot, and is left out (vmstat, dstat). Samples without times are counted.
Source: vmstat(8) of procps-ng 4, dstat 0.7, dool 1.3.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date, datetime

from volbench.results.recorded.parsed import (
    DayClock,
    Recorded,
    SeriesTable,
    first_lines,
    number,
    recorded_of_epochs,
    scaled,
    time_of_day,
)

_VMSTAT = {"us": "user_ratio", "sy": "system_ratio", "id": "idle_ratio", "wa": "iowait_ratio", "st": "steal_ratio"}
_VMSTAT_HEADING = re.compile(r"^\s*r\s+b\s+swpd\s+free\b")
_VMSTAT_CELLS_MIN = 16
_VMSTAT_STAMP = re.compile(r"(?P<day>\d{4}-\d\d-\d\d) (?P<time>\d\d:\d\d:\d\d)\s*$")
_DSTAT_CPU = {
    "usr": "user_ratio",
    "sys": "system_ratio",
    "idl": "idle_ratio",
    "wai": "iowait_ratio",
    "stl": "steal_ratio",
}
ALL = "all devices"


def looks_like_vmstat(text: str) -> bool:
    """Whether a file has vmstat's heading."""
    return any(_VMSTAT_HEADING.match(line) for line in first_lines(text, 200))


def is_sample(line: str) -> bool:
    """Whether a line has numbers as vmstat prints them."""
    cells = line.split()
    return len(cells) >= _VMSTAT_CELLS_MIN and all(number(cell) is not None for cell in cells[:_VMSTAT_CELLS_MIN])


def parse_vmstat(text: str) -> Recorded:
    """CPUs, and threads that run or wait for I/O, of each line but the first after a heading of a new start."""
    table, clock = SeriesTable(), DayClock()
    columns: list[str] = []
    count, days, clocked = 0, tuple[date, ...](), False
    for line in text.splitlines():
        if _VMSTAT_HEADING.match(line):
            columns = line.split()
            continue
        stamp = _VMSTAT_STAMP.search(line)
        cells = (line[: stamp.start()] if stamp else line).split()
        width = next((at for at, name in enumerate(columns) if name not in _PLAIN), len(columns))
        if not columns or len(cells) < width or any(number(cell) is None for cell in cells[:width]):
            continue
        count += 1
        if count == 1:
            continue  # since boot
        t_s = float(count - 1)
        if stamp is not None:
            moment = datetime.fromisoformat(f"{stamp['day']}T{stamp['time']}")
            t_s, clocked = clock.at(moment.hour * 3600.0 + moment.minute * 60 + moment.second), True
            days = days or (moment.date(),)
        row = dict(zip(columns, cells, strict=False))
        for name, metric in _VMSTAT.items():
            table.add(t_s, "cpu", metric, "", scaled(row[name], 0.01) if name in row else None)
        table.add(t_s, "cpu", "runnable_threads", "", number(row["r"]))
        table.add(t_s, "cpu", "blocked_threads", "", number(row["b"]))
    if count == 1:
        alone = "its only line is left out, as the first one is about the time since the machine booted"
        return Recorded(
            series={}, clocked=False, notes=(f"{alone}: give iostat -xt 1 and vmstat -t 1 of the hours",)
        )
    return Recorded(
        series=table.series(),
        clocked=clocked,
        dates=days,
        interval_known=clocked,
        notes=("vmstat tells blocks of all devices and no operations: iostat -x tells of the volume",),
    )


_PLAIN = frozenset(
    [
        "r",
        "b",
        "swpd",
        "free",
        "buff",
        "cache",
        "inact",
        "active",
        "si",
        "so",
        "bi",
        "bo",
        "in",
        "cs",
        "us",
        "sy",
        "id",
        "wa",
        "st",
        "gu",
    ]
)


def looks_like_dstat(text: str) -> bool:
    """Whether a file has dstat's groups above its columns, on a screen or as CSV."""
    head = text[:4000].translate(_DOOL)
    return "-dsk/" in head or "total-cpu-usage" in head or "total-usage" in head or _is_dstat_csv(head)


_DOOL = str.maketrans({"┄": "-", "│": "|", "┬": "|", "┊": ":"})
"""What dool, which goes on with dstat, draws in place of dstat's characters."""


def _is_dstat_csv(text: str) -> bool:
    return '"Dstat ' in text or '"dool ' in text


def parse_dstat(text: str) -> Recorded:
    """CPUs, bytes and operations of dstat, on a screen (groups between bars) or of `--output` (CSV)."""
    return _dstat_csv(text) if _is_dstat_csv(text[:4000]) else _dstat_screen(text.translate(_DOOL))


def _dstat_screen(text: str) -> Recorded:
    table, clock = SeriesTable(), DayClock()
    groups: list[str] = []
    columns: list[tuple[str, str]] = []
    parts_of: list[str] = []
    count, clocked, of_epochs = 0, False, False
    for line in text.splitlines():
        if line.lstrip().startswith("-") and ("usage" in line or "dsk/" in line or "io/" in line):
            groups = [group.strip("- ") for group in re.findall(r"-*[a-z][a-z/0-9 :-]*?-*(?=[ |]|$)", line)]
            parts_of, columns = line.split("|"), []
            continue
        cell_texts = re.split(r"[|:]", line)
        if groups and not columns and len(cell_texts) == len(groups):
            columns = [
                (group, name) for group, cells in zip(groups, cell_texts, strict=True) for name in cells.split()
            ]
            continue
        if groups and not columns and len(names := line.split("|")) == len(parts_of):
            columns = list(_dool_columns(parts_of, names))
            continue
        cells = _dstat_cells(line)
        if not columns or len(cells) != len(columns):
            continue
        count += 1
        if count == 1:
            continue
        row = dict(zip(columns, cells, strict=True))
        stamp = time_of_day(next((cell for (_, name), cell in row.items() if name in ("time", "date/time")), ""))
        epoch_s = next((number(cell) for (_, name), cell in row.items() if name == "epoch"), None)
        t_s = clock.at(stamp[0]) if stamp is not None else float(count - 1)
        clocked, of_epochs = clocked or stamp is not None, of_epochs or epoch_s is not None
        _dstat_row(table, t_s if epoch_s is None else epoch_s, row)
    series = table.series()
    if of_epochs and series:
        return recorded_of_epochs(series)
    return Recorded(series=series, clocked=clocked, interval_known=clocked)


def _dool_columns(groups: list[str], names: list[str]) -> Iterator[tuple[str, str]]:
    """Yield group and name of each column, of parts that may hold several groups with as many names each."""
    for group_name, cells in zip(groups, names, strict=True):
        of_part, columns = [group.strip("-") for group in group_name.split()], cells.split()
        each = len(columns) // len(of_part) if of_part else 0
        if each:
            yield from ((of_part[min(at // each, len(of_part) - 1)], name) for at, name in enumerate(columns))


def _dstat_cells(line: str) -> list[str]:
    """Cells of a line; a date and its time are one, as its last part."""
    without_date = re.sub(r"(?:\d\d|[A-Z][a-z]{2})-\d\d (?=\d\d:\d\d:\d\d)", "", line)
    return re.sub(r"\||(?<!\d):|:(?!\d)", " ", without_date).split()


def _dstat_csv(text: str) -> Recorded:
    table = SeriesTable()
    clock, count, clocked = DayClock(), 0, False
    groups: list[str] = []
    columns: list[tuple[str, str]] = []
    host = ""
    for line in text.splitlines():
        cells = [cell.strip().strip('"') for cell in line.split(",")]
        if cells[0] == "Host:" and len(cells) > 1:
            host = cells[1]
        elif any(cell.startswith(("total cpu", "dsk/", "total usage")) for cell in cells):
            groups, columns = cells, []
        elif groups and not columns:
            name = ""
            for group, column in zip([*groups, *[""] * len(cells)], cells, strict=False):
                name = group or name
                columns.append((name, column))
        elif columns and len(cells) == len(columns):
            count += 1
            row = dict(zip(columns, cells, strict=True))
            stamp = next((cell for (_, name), cell in row.items() if name in ("time", "date/time")), "")
            moment = time_of_day(re.sub(r"^(?:\d\d|[A-Z][a-z]{2})-\d\d ", "", stamp))
            t_s = clock.at(moment[0]) if moment is not None else float(count - 1)
            clocked = clocked or moment is not None
            if count > 1:
                _dstat_row(table, t_s, row)
    return Recorded(series=table.series(), clocked=clocked, interval_known=clocked, host=host)


def _dstat_row(table: SeriesTable, t_s: float, row: Mapping[tuple[str, str], str]) -> None:
    for (group, name), cell in row.items():
        if name in _DSTAT_CPU and "cpu" in group + "cpu" * ("usage" in group):
            table.add(t_s, "cpu", _DSTAT_CPU[name], "", scaled(cell, 0.01))
        elif name in ("read", "writ") and group.startswith(("dsk/", "io/")):
            entity = group.split("/", 1)[1]
            entity = ALL if entity == "total" else entity
            direction = "read" if name == "read" else "write"
            if group.startswith("io/"):
                table.add(t_s, "diskstats", f"{direction}s_per_s", entity, counted_amount(cell))
            else:
                table.add(t_s, "diskstats", f"{direction}_mib_per_s", entity, _amount(cell, 1 / 2**20))


_UNITS = {"B": 1.0, "k": 1024.0, "K": 1024.0, "M": 1024.0**2, "G": 1024.0**3}


def _amount(cell: str, scale: float) -> float | None:
    """A number with dstat's unit, times a factor."""
    unit = _UNITS.get(cell[-1:])
    value = number(cell if unit is None else cell[:-1])
    return None if value is None else value * (unit or 1.0) * scale


_THOUSAND = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9}


def counted_amount(cell: str) -> float | None:
    """A number, with a unit of thousands: so collectl and dstat print operations."""
    unit = _THOUSAND.get(cell[-1:])
    value = number(cell if unit is None else cell[:-1])
    return None if value is None else value * (unit or 1.0)
