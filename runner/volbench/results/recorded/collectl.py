"""collectl: CPUs and all disks together (its brief format), or each disk (its detail, -sD).

Source: collectl 4.3, formatit.ph and collectl(1).
"""

from __future__ import annotations

import re
from datetime import date

from volbench.results.recorded.host_texts import ALL, counted_amount
from volbench.results.recorded.parsed import (
    DayClock,
    Recorded,
    SeriesTable,
    dates,
    first_lines,
    scaled,
    time_of_day,
)

_COLLECTL = re.compile(r"^#(?:Date)?\s*(?:Time)?\s*cpu\s+sys\s+inter\s+ctxsw\b")


def looks_like_collectl(text: str) -> bool:
    """Whether a file has the heading of collectl's brief format."""
    return any(_COLLECTL.match(line) for line in first_lines(text, 200))


def parse_collectl(text: str) -> Recorded:
    """CPUs and all disks together, of collectl's brief format; `-oT` and `-oD` give its lines times."""
    table, clock = SeriesTable(), DayClock()
    columns: list[str] = []
    count, clocked, days = 0, False, tuple[date, ...]()
    for line in text.splitlines():
        if _COLLECTL.match(line):
            columns = [name for name in line.lstrip("#").split() if name not in ("Date", "Time")]
            continue
        dated = re.match(r"^(\d{4})(\d\d)(\d\d) (?=\d\d:)", line)
        if dated is not None and not days:
            days = (date(int(dated[1]), int(dated[2]), int(dated[3])),)
        text_after_date = line[dated.end() :] if dated else line
        stamp = time_of_day(text_after_date)
        cells = (stamp[1] if stamp is not None else text_after_date).split()
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
            value = counted_amount(row[name]) if name in row else None
            table.add(t_s, "diskstats", metric, ALL, None if value is None else value * scale)
    return Recorded(series=table.series(), clocked=clocked, interval_known=clocked, dates=days)


_DETAIL = re.compile(
    r"^#(?:(?:Date +)?Time +)?Name +KBytes Merged +IOs Size +Wait +KBytes Merged +IOs Size +Wait +RWSize"
)
_DETAIL_CELLS = 16


def looks_like_collectl_disks(text: str) -> bool:
    """Whether a file has the heading of collectl's detail of disks (-sD)."""
    return any(_DETAIL.match(line) for line in first_lines(text, 200))


def parse_collectl_disks(text: str) -> Recorded:
    """Operations, bytes and queue of each disk. Waits are whole milliseconds: those below 1 are not known."""
    table, clock = SeriesTable(), DayClock()
    count, clocked, days = 0, False, tuple[date, ...]()
    times_seen = set[str]()
    for line in text.splitlines():
        cells = line.split()
        if line.startswith("#") or len(cells) < _DETAIL_CELLS:
            continue
        name, values = cells[-_DETAIL_CELLS], [counted_amount(cell) for cell in cells[1 - _DETAIL_CELLS :]]
        if any(value is None for value in values):
            continue
        before = cells[:-_DETAIL_CELLS]
        if len(before) == 2 and len(before[0]) == 8 and before[0].isdecimal() and not days:
            days = dates(f"{before[0][:4]}-{before[0][4:6]}-{before[0][6:]}")
        stamp = time_of_day(before[-1]) if before else None
        if name in times_seen:
            times_seen, count = set(), count + 1
        times_seen.add(name)
        t_s = clock.at(stamp[0]) if stamp is not None else float(count + 1)
        clocked = clocked or stamp is not None
        for at, metric, scale in _DETAIL_COLUMNS:
            value = values[at]
            table.add(t_s, "diskstats", metric, name, None if value is None else value * scale)
    series = table.series()
    waits = {
        key: samples
        for key, samples in series.items()
        if key.metric in ("r_await_ms", "w_await_ms") and samples.value.min() < 1
    }
    notes = ("collectl prints waiting times without decimals: those of below 1 ms are not known",) if waits else ()
    series_left = {key: samples for key, samples in series.items() if key not in waits}
    return Recorded(series=series_left, clocked=clocked, interval_known=clocked, dates=days, notes=notes)


_DETAIL_COLUMNS = (
    (0, "read_mib_per_s", 1 / 1024),
    (2, "reads_per_s", 1.0),
    (4, "r_await_ms", 1.0),
    (5, "write_mib_per_s", 1 / 1024),
    (7, "writes_per_s", 1.0),
    (9, "w_await_ms", 1.0),
    (11, "aqu_sz", 1.0),
    (14, "util_ratio", 0.01),
)
