"""`sadf -d`: what sar recorded as lines of fields between semicolons, read as the text that sar itself prints.

Source: sadf.c and rndr_stats.c of sysstat 12.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

from volbench.results.recorded.parsed import Recorded
from volbench.results.recorded.sar import looks_like_sar, parse_sar

_HEADING = re.compile(r"^# hostname;interval;timestamp;(?P<columns>.*)$", re.MULTILINE)
_LINE = re.compile(
    r"^(?P<host>[^;#]*);-?\d+;(?P<day>\d{4}-\d\d-\d\d) (?P<time>\d\d:\d\d:\d\d)(?P<utc> UTC)?;(?P<cells>.*)$"
)
_ALL_CPUS = "-1"


def looks_like_sadf(text: str) -> bool:
    """Whether a file has a heading of a table that sar's reader knows."""
    return _HEADING.match(text) is not None and looks_like_sar("\n".join(_as_sar(text)))


def parse_sadf(text: str) -> Recorded:
    """Series of all tables of one host; times are UTC unless `-t` made them the host's own."""
    recorded = parse_sar("\n".join(_as_sar(text)))
    if not recorded.dates or " UTC;" not in text:
        return recorded
    midnight = datetime.combine(recorded.dates[0], datetime.min.time(), tzinfo=UTC)
    return replace(recorded, midnight_epoch_s=midnight.timestamp(), dates=())


def _as_sar(text: str) -> Iterator[str]:
    """Yield the lines as sar prints them: a banner for each day, a time before each heading and row."""
    columns, day, begun = "", "", False
    for line in text.splitlines():
        if heading := _HEADING.match(line):
            columns, begun = heading["columns"].replace(";", " "), False
        elif columns and (row := _LINE.match(line)):
            if row["day"] != day:
                day, begun = row["day"], False
                yield f"Linux - ({row['host']}) \t{day} \t_-_\t(1 CPU)"
            if not begun:
                yield f"{row['time']} {columns}"
                begun = True
            cells = row["cells"].split(";")
            yield " ".join([row["time"], *("all" if cell == _ALL_CPUS else cell for cell in cells)])
