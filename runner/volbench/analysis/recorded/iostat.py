"""iostat -x: extended statistics of devices, with or without time stamps, old and new columns.

The first report is about the time since the machine booted, and is left out.
Source: iostat(1) of sysstat 10 and 12.
"""

from __future__ import annotations

import re
from datetime import datetime

from volbench.analysis.recorded.parsed import DayClock, Recorded, Table, number, time_of_day

_COLUMNS = {
    "r/s": ("reads_per_s", 1.0),
    "w/s": ("writes_per_s", 1.0),
    "rkB/s": ("read_mib_per_s", 1 / 1024),
    "wkB/s": ("write_mib_per_s", 1 / 1024),
    "rMB/s": ("read_mib_per_s", 1.0),
    "wMB/s": ("write_mib_per_s", 1.0),
    "rsec/s": ("read_mib_per_s", 1 / 2048),
    "wsec/s": ("write_mib_per_s", 1 / 2048),
    "r_await": ("r_await_ms", 1.0),
    "w_await": ("w_await_ms", 1.0),
    "f/s": ("flushes_per_s", 1.0),
    "f_await": ("f_await_ms", 1.0),
    "await": ("await_ms", 1.0),
    "avgqu-sz": ("aqu_sz", 1.0),
    "aqu-sz": ("aqu_sz", 1.0),
    "%util": ("util_ratio", 0.01),
}
_WAITS = {"r_await": "r/s", "w_await": "w/s", "f_await": "f/s"}
_CPU = ("user_ratio", "nice_ratio", "system_ratio", "iowait_ratio", "steal_ratio", "idle_ratio")
_DATE = re.compile(r"^\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}[ T]\s*(?P<time>.*)$")
_PSEUDO = re.compile(r"^(loop|ram|sr|fd)\d+$")
_CPU_HEADING = "avg-cpu:"


def looks_like_iostat(text: str) -> bool:
    """Whether a file has a heading of iostat -x."""
    return any(_is_heading(line.split()) for line in text.splitlines()[:400])


def parse_iostat(text: str, *, interval_s: float = 1.0) -> Recorded:
    """Series of an iostat -x text.

    Args:
        text: what iostat printed.
        interval_s: of its reports; used when they have no time stamps.
    """
    table, clock = Table(), DayClock()
    columns: list[str] = []
    stamp: float | None = None
    report, reports_seen, cpu_next = -1, 0, False
    for line in text.splitlines():
        words = line.split()
        found = _stamp(line)
        if found is not None:
            stamp = clock.at(found)
        elif _is_heading(words):
            columns, report = [word.rstrip(":") for word in words], report + 1
            reports_seen = max(reports_seen, report)
        elif line.startswith(_CPU_HEADING):
            cpu_next = True
        elif cpu_next:
            cpu_next = False
            if report + 1 >= 1:  # the processors come before the devices of their report
                t_s = stamp if stamp is not None else (report + 1) * interval_s
                for metric, word in zip(_CPU, words, strict=False):
                    value = number(word)
                    table.add(t_s, "cpu", metric, "", None if value is None else value / 100)
        elif columns and len(words) == len(columns) and report >= 1 and not _PSEUDO.match(words[0]):
            _device(
                table, stamp if stamp is not None else report * interval_s, dict(zip(columns, words, strict=True))
            )
    notes = (
        () if stamp is not None else (f"iostat has no time stamps: reports are taken as {interval_s:g} s apart",)
    )
    return Recorded(series=table.series(), clocked=stamp is not None, notes=notes)


def _device(table: Table, t_s: float, cells: dict[str, str]) -> None:
    """A waiting time without an operation is printed as 0 and not known."""
    for name, (metric, scale) in _COLUMNS.items():
        value = number(cells[name]) if name in cells else None
        rate = _WAITS.get(name)
        if rate is not None and not (number(cells.get(rate, "")) or 0) > 0:
            value = None
        table.add(t_s, "diskstats", metric, cells["Device"], None if value is None else value * scale)


def _is_heading(words: list[str]) -> bool:
    return bool(words) and words[0].rstrip(":") == "Device" and "%util" in words and "r/s" in words


def _stamp(line: str) -> float | None:
    """The time of day of a line that is a time stamp and nothing else."""
    text = line.strip()
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        dated = _DATE.match(text)
        found = time_of_day(dated["time"]) if dated else None
        return found[0] if found is not None and not found[1] else None
    return moment.hour * 3600.0 + moment.minute * 60 + moment.second
