"""What a MySQL or MariaDB server says of itself: SHOW ENGINE INNODB STATUS, and its status counters several times.

Counters come from `mysqladmin extended-status -i`, with or without -r, or from SHOW GLOBAL STATUS repeated by hand;
`Uptime` is their clock. Source: storage/innobase/srv/srv0srv.cc and buf/buf0buf.cc; client/mysqladmin.cc.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import pairwise

from volbench.results.recorded.parsed import Recorded, SeriesTable, first_lines, number
from volbench.results.recorded.status_rates import status_rates

_MONITOR = re.compile(
    r"^(?P<day>\d{4}-\d\d-\d\d|\d{6}) +(?P<time>\d{1,2}:\d\d:\d\d)\b.*INNODB MONITOR OUTPUT", re.MULTILINE
)
_PENDING = re.compile(r"Pending flushes \(fsync\) log: (?P<log>\d+); buffer pool: (?P<pool>\d+)")
_FILE_RATES = re.compile(
    r"(?P<reads>[\d.]+) reads/s, \d+ avg bytes/read, (?P<writes>[\d.]+) writes/s, (?P<fsyncs>[\d.]+) fsyncs/s"
)
_LOG_RATE = re.compile(r"^\d+ log i/o's done, (?P<rate>[\d.]+) log i/o's/second", re.MULTILINE)
_ROWS = re.compile(
    r"(?P<ins>[\d.]+) inserts/s, (?P<upd>[\d.]+) updates/s, (?P<del>[\d.]+) deletes/s, (?P<read>[\d.]+) reads/s"
)
_HIT = re.compile(r"Buffer pool hit rate (?P<hit>\d+) / 1000")
_PAGES = re.compile(r"^(?P<reads>[\d.]+) reads/s, [\d.]+ creates/s, (?P<writes>[\d.]+) writes/s", re.MULTILINE)
_VARIABLE = re.compile(r"^\|?\s*(?P<name>[A-Z][A-Za-z0-9_]+)\s*(?:\||\t)\s*(?P<value>-?\d+)\s*\|?\s*$")
_HEADING = re.compile(r"^\|?\s*Variable_name\s*(?:\||\t)\s*Value\s*\|?\s*$")
_REPORTS_MAX = 100_000
_VARIABLES_MIN = 20
"""Counters from which on a table is of the server's status and not of something else."""


def looks_like_innodb_status(text: str) -> bool:
    """Whether a file has an output of the InnoDB monitor."""
    return "INNODB MONITOR OUTPUT" in text or ("Per second averages calculated" in text and "FILE I/O" in text)


def parse_innodb_status(text: str) -> Recorded:
    """What each output of the monitor says of the seconds before it; several outputs are a series."""
    text = text.replace("\\n", "\n") if text.count("\n") < 20 else text  # `-e` without \G
    starts = list(_MONITOR.finditer(text))
    table, days = SeriesTable(), None
    first: datetime | None = None
    notes: list[str] = []
    for at, start in enumerate(starts or [None]):
        end = starts[at + 1].start() if at + 1 < len(starts) else len(text)
        block = text[start.start() : end] if start is not None else text
        moment = None if start is None else _moment(start["day"], start["time"])
        first = first or moment
        t_s = float(at + 1)
        if moment is not None and first is not None:
            t_s = (moment - first.replace(hour=0, minute=0, second=0)).total_seconds()
            days = days or (moment.date(),)
        for metric, value in _monitor(block).items():
            table.add(t_s, "innodb", metric, "", value)
        notes += _commit_notes(block)
    if len(starts) < 2:
        notes.append(
            "SHOW ENGINE INNODB STATUS is one moment: `volbench observe`, pt-stalk or iostat of those minutes tell"
            " how the volume fared"
        )
    return Recorded(
        series=table.series(), clocked=days is not None, dates=days or (), notes=tuple(dict.fromkeys(notes))
    )


def _moment(day: str, time: str) -> datetime | None:
    """A monitor's time: 2025-03-11, or 250311 in MySQL 5.5."""
    text = day if "-" in day else f"20{day[:2]}-{day[2:4]}-{day[4:]}"
    try:
        return datetime.fromisoformat(f"{text}T{time.zfill(8)}")
    except ValueError:
        return None


def _monitor(block: str) -> dict[str, float | None]:
    metrics: dict[str, float | None] = {}
    if files := _FILE_RATES.search(block):
        metrics |= {f"data_{name}_per_s": number(files[name]) for name in ("reads", "writes", "fsyncs")}
    if pending := _PENDING.search(block):
        metrics |= {"pending_log_fsyncs": number(pending["log"]), "pending_fsyncs": number(pending["pool"])}
    if log := _LOG_RATE.search(block):
        metrics["log_writes_per_s"] = number(log["rate"])
    if hit := _HIT.search(block):
        metrics["buffer_pool_miss_ratio"] = 1 - float(hit["hit"]) / 1000
    if pages := _PAGES.search(block):
        metrics |= {"pages_read_per_s": number(pages["reads"]), "pages_written_per_s": number(pages["writes"])}
    return metrics


def _commit_notes(block: str) -> Iterator[str]:
    """Say where commits wait for syncs: pages come from memory, and each change of a row waits for a sync."""
    files, rows, pending = _FILE_RATES.search(block), _ROWS.search(block), _PENDING.search(block)
    if files is None or rows is None:
        return
    changed = sum(number(rows[name]) or 0.0 for name in ("ins", "upd", "del"))
    reads, fsyncs = number(files["reads"]) or 0.0, number(files["fsyncs"]) or 0.0
    waiting = pending is not None and int(pending["log"][:18]) > 0
    if waiting and fsyncs >= changed > 0:
        yield (
            f"a sync of the redo log is pending, at {fsyncs:g} syncs/s for {changed:g} changed rows/s and {reads:g}"
            " reads/s of files: commits wait for syncs"
        )


def looks_like_status(text: str) -> bool:
    """Whether a file has a table of the server's status counters."""
    lines = first_lines(text, 1500)
    names = {matched["name"] for line in lines if (matched := _VARIABLE.match(line))}
    return len(names) >= _VARIABLES_MIN and any(
        name in names for name in ("Uptime", "Innodb_data_reads", "Questions")
    )


def begin_of_status(line: str) -> float | None:
    """0 for a line that begins a report, from whose first one seconds are counted; None for other lines."""
    return 0.0 if _HEADING.match(line) else None


def parse_status(text: str) -> Recorded:
    """Rates of the counters between reports; `Uptime` is the clock, and reports without it are counted.

    With `-r` all reports but the first are differences already. Raises ValueError for a single report.
    """
    reports = list(_reports(text))
    if len(reports) < 2:
        raise ValueError(
            "one report of the counters has no rates: give two or more (mysqladmin extended-status -i 10)"
        )
    table = SeriesTable()
    relative = reports[1].get("uptime", 0) < reports[0].get("uptime", 0)
    if relative:
        reports = list(_summed(reports))
    has_uptimes = all("uptime" in report for report in reports)
    start = reports[0].get("uptime", 0)
    for at, (before, after) in enumerate(pairwise(reports), start=1):
        dt_s = float(after["uptime"] - before["uptime"]) if has_uptimes else 1.0
        t_s = float(after["uptime"] - start) if has_uptimes else float(at)
        for metric, value in status_rates(before, after, dt_s):
            if has_uptimes or metric in _WITHOUT_TIME:
                table.add(t_s, "innodb", metric, "", value)
    notes = () if has_uptimes else ("the counters have no Uptime: rates of them are not known",)
    return Recorded(series=table.series(), clocked=False, interval_known=has_uptimes, notes=notes)


_WITHOUT_TIME = frozenset(
    {
        "threads_running",
        "pending_reads",
        "pending_writes",
        "pending_fsyncs",
        "buffer_pool_miss_ratio",
        "buffer_pool_free_ratio",
        "buffer_pool_dirty_ratio",
    }
)


def _reports(text: str) -> Iterator[dict[str, int]]:
    """Each table's whole numbers by name, lower case; a name that comes again begins the next table."""
    report: dict[str, int] = {}
    count = 0
    for line in text.splitlines():
        matched = _VARIABLE.match(line)
        if _HEADING.match(line) or (matched and matched["name"].lower() in report):
            if report:
                count += 1
                yield report
                if count > _REPORTS_MAX:
                    raise ValueError(f"more than {_REPORTS_MAX} reports")
            report = {}
        if matched:
            report[matched["name"].lower()] = int(matched["value"][:19])
    if report:
        yield report


def _summed(reports: list[dict[str, int]]) -> Iterator[dict[str, int]]:
    """Counters as they were, of differences (-r); gauges are differences too, so their sum is what they are."""
    state: Mapping[str, int] = {}
    for report in reports:
        state = {name: state.get(name, 0) + value for name, value in report.items()}
        yield dict(state)
