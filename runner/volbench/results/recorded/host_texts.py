"""vmstat, dstat and collectl: CPUs of a host, and its disks where the text has operations of them.

Their first report is about the time since boot, and is left out (vmstat, dstat). Samples without times are counted.
Source: vmstat(8) of procps-ng 4, dstat 0.7, collectl 4.3 (brief format).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime

from volbench.results.recorded.parsed import DayClock, Recorded, Table, number, scaled, time_of_day

_VMSTAT = {"us": "user_ratio", "sy": "system_ratio", "id": "idle_ratio", "wa": "iowait_ratio", "st": "steal_ratio"}
_VMSTAT_HEADING = re.compile(r"^\s*r\s+b\s+swpd\s+free\b")
_VMSTAT_STAMP = re.compile(r"(?P<day>\d{4}-\d\d-\d\d) (?P<time>\d\d:\d\d:\d\d)\s*$")
_DSTAT_CPU = {
    "usr": "user_ratio",
    "sys": "system_ratio",
    "idl": "idle_ratio",
    "wai": "iowait_ratio",
    "stl": "steal_ratio",
}
_COLLECTL = re.compile(r"^#(?:Date)?\s*(?:Time)?\s*cpu\s+sys\s+inter\s+ctxsw\b")
ALL = "all devices"


def looks_like_vmstat(text: str) -> bool:
    """Whether a file has vmstat's heading."""
    return any(_VMSTAT_HEADING.match(line) for line in text.splitlines()[:200])


def parse_vmstat(text: str) -> Recorded:
    """CPUs, and threads that run or wait for I/O, of each line but the first after a heading of a new start."""
    table, clock = Table(), DayClock()
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
    head = text[:4000]
    return "-dsk/" in head or "total-cpu-usage" in head or "total-usage" in head or '"Dstat ' in head


def parse_dstat(text: str) -> Recorded:
    """CPUs, bytes and operations of dstat, on a screen (groups between bars) or of `--output` (CSV)."""
    return _dstat_csv(text) if '"Dstat ' in text[:4000] else _dstat_screen(text)


def _dstat_screen(text: str) -> Recorded:
    table, clock = Table(), DayClock()
    groups: list[str] = []
    columns: list[tuple[str, str]] = []
    count, clocked = 0, False
    for line in text.splitlines():
        if line.lstrip().startswith("-") and ("usage" in line or "dsk/" in line or "io/" in line):
            groups = [group.strip("- ") for group in re.findall(r"-*[a-z][a-z/0-9 :-]*?-*(?=[ |]|$)", line)]
            columns = []
            continue
        parts = line.split("|")
        if groups and not columns and len(parts) == len(groups):
            columns = [(group, name) for group, cells in zip(groups, parts, strict=True) for name in cells.split()]
            continue
        cells = _dstat_cells(line)
        if not columns or len(cells) != len(columns):
            continue
        count += 1
        if count == 1:
            continue
        row = dict(zip(columns, cells, strict=True))
        stamp = time_of_day(next((cell for (_, name), cell in row.items() if name in ("time", "date/time")), ""))
        t_s = clock.at(stamp[0]) if stamp is not None else float(count - 1)
        clocked = clocked or stamp is not None
        _dstat_row(table, t_s, row)
    return Recorded(series=table.series(), clocked=clocked, interval_known=clocked)


def _dstat_cells(line: str) -> list[str]:
    """Cells of a line; a date and its time are one, as its last part."""
    return re.sub(r"\d\d-\d\d (?=\d\d:\d\d:\d\d)", "", line).replace("|", " ").split()


def _dstat_csv(text: str) -> Recorded:
    table = Table()
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
            moment = time_of_day(re.sub(r"^\d\d-\d\d ", "", stamp))
            t_s = clock.at(moment[0]) if moment is not None else float(count - 1)
            clocked = clocked or moment is not None
            if count > 1:
                _dstat_row(table, t_s, row)
    return Recorded(series=table.series(), clocked=clocked, interval_known=clocked, host=host)


def _dstat_row(table: Table, t_s: float, row: Mapping[tuple[str, str], str]) -> None:
    for (group, name), cell in row.items():
        if name in _DSTAT_CPU and "cpu" in group + "cpu" * ("usage" in group):
            table.add(t_s, "cpu", _DSTAT_CPU[name], "", scaled(cell, 0.01))
        elif name in ("read", "writ") and group.startswith(("dsk/", "io/")):
            entity = group.split("/", 1)[1]
            entity = ALL if entity == "total" else entity
            direction = "read" if name == "read" else "write"
            if group.startswith("io/"):
                table.add(t_s, "diskstats", f"{direction}s_per_s", entity, _amount(cell, 1.0))
            else:
                table.add(t_s, "diskstats", f"{direction}_mib_per_s", entity, _amount(cell, 1 / 2**20))


_UNITS = {"B": 1.0, "k": 1024.0, "K": 1024.0, "M": 1024.0**2, "G": 1024.0**3}


def _amount(cell: str, scale: float) -> float | None:
    """A number with dstat's unit, times a factor."""
    unit = _UNITS.get(cell[-1:])
    value = number(cell if unit is None else cell[:-1])
    return None if value is None else value * (unit or 1.0) * scale


def looks_like_collectl(text: str) -> bool:
    """Whether a file has the heading of collectl's brief format."""
    return any(_COLLECTL.match(line) for line in text.splitlines()[:200])


def parse_collectl(text: str) -> Recorded:
    """CPUs and all disks together, of collectl's brief format; `-oT` and `-oD` give its lines times."""
    table, clock = Table(), DayClock()
    columns: list[str] = []
    count, clocked, days = 0, False, tuple[date, ...]()
    for line in text.splitlines():
        if _COLLECTL.match(line):
            columns = [name for name in line.lstrip("#").split() if name not in ("Date", "Time")]
            continue
        dated = re.match(r"^(\d{4})(\d\d)(\d\d) (?=\d\d:)", line)
        if dated is not None and not days:
            days = (date(int(dated[1]), int(dated[2]), int(dated[3])),)
        rest = line[dated.end() :] if dated else line
        stamp = time_of_day(rest)
        cells = (stamp[1] if stamp is not None else rest).split()
        if not columns or len(cells) != len(columns) or line.startswith("#"):
            continue
        count += 1
        t_s = clock.at(stamp[0]) if stamp is not None else float(count)
        clocked = clocked or stamp is not None
        row = dict(zip(columns, cells, strict=True))
        busy, system = scaled(row["cpu"], 0.01), scaled(row["sys"], 0.01)
        table.add(t_s, "cpu", "system_ratio", "", system)
        table.add(t_s, "cpu", "user_ratio", "", None if busy is None or system is None else busy - system)
        for name, metric, scale in (
            ("Reads", "reads_per_s", 1.0),
            ("Writes", "writes_per_s", 1.0),
            ("KBRead", "read_mib_per_s", 1 / 1024),
            ("KBWrit", "write_mib_per_s", 1 / 1024),
        ):
            table.add(t_s, "diskstats", metric, ALL, _amount(row[name], scale) if name in row else None)
    return Recorded(series=table.series(), clocked=clocked, interval_known=clocked, dates=days)
