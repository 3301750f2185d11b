"""`sadf -d`: what sar recorded as lines of fields between semicolons, read as the text that sar itself prints.

Source: sadf.c and rndr_stats.c of sysstat 12.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

from volbench.results.recorded.parsed import HEAD_CHARACTERS, Recorded
from volbench.results.recorded.sar import looks_like_sar, parse_sar

_HEADING = re.compile(r"^# hostname;interval;timestamp;(?P<columns>.*)$", re.MULTILINE)
_LINE = re.compile(
    r"^(?P<host>[^;#]*);-?\d+;(?:(?P<epoch>\d{9,10})|(?P<day>\d{4}-\d\d-\d\d) (?P<time>\d\d:\d\d:\d\d)"
    r"(?: (?P<zone>[^;\s]+))?);(?P<cells>.*)$"
)
_ALL_CPUS = "-1"
_UTC = ("UTC", "GMT")


def looks_like_sadf(text: str) -> bool:
    """Whether a file has a heading of a table that sar's reader knows."""
    return _HEADING.search(text[:HEAD_CHARACTERS]) is not None and looks_like_sar("\n".join(_as_sar(text)))


def parse_sadf(text: str) -> list[Recorded]:
    """Series of all tables, of each host for itself; times are UTC unless `-t` or `-T` made them local ones."""
    return [_of_host(pieces) for pieces in _by_host(text).values()]


def _of_host(text: str) -> Recorded:
    recorded = parse_sar("\n".join(_as_sar(text)))
    first = next((row for line in text.splitlines() if (row := _LINE.match(line))), None)
    if not recorded.dates or first is None or not (first["epoch"] or first["zone"] in _UTC):
        return recorded
    midnight = datetime.combine(recorded.dates[0], datetime.min.time(), tzinfo=UTC)
    return replace(recorded, midnight_epoch_s=midnight.timestamp(), dates=())


def _by_host(text: str) -> dict[str, str]:
    """The lines of each host, each table of it below its heading."""
    lines: dict[str, list[str]] = {}
    heading_of: dict[str, str] = {}
    heading = ""
    for line in text.splitlines():
        if _HEADING.match(line):
            heading = line
        elif row := _LINE.match(line):
            of_host = lines.setdefault(row["host"], [])
            if heading_of.get(row["host"]) != heading:
                of_host.append(heading)
                heading_of[row["host"]] = heading
            of_host.append(line)
    return {host: "\n".join(of_host) for host, of_host in lines.items()}


def _as_sar(text: str) -> Iterator[str]:
    """Yield the lines as sar prints them: a banner for each day, a time before each heading and row."""
    columns, last_day, begun = "", "", False
    for line in text.splitlines():
        if heading := _HEADING.match(line):
            columns, begun = heading["columns"].replace(";", " "), False
        elif columns and (row := _LINE.match(line)):
            day, time = _moment(row)
            if day != last_day:
                last_day, begun = day, False
                yield f"Linux - ({row['host']}) \t{day} \t_-_\t(1 CPU)"
            if not begun:
                yield f"{time} {columns}"
                begun = True
            cells = row["cells"].split(";")
            yield " ".join([time, *("all" if cell == _ALL_CPUS else cell for cell in cells)])


def _moment(row: re.Match[str]) -> tuple[str, str]:
    """Day and time of a line: of UTC where it has seconds since the epoch (-U)."""
    if row["epoch"] is None:
        return row["day"], row["time"]
    moment = datetime.fromtimestamp(int(row["epoch"]), tz=UTC)
    return moment.date().isoformat(), moment.time().isoformat()
