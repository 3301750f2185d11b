"""sysbench's intermediate reports (--report-interval) of 1.0 and 0.5, its CSV and JSON reporters, and summaries.

Source: sysbench 1.0.20, src/lua/internal/sysbench.lua (report_default, report_csv, report_json); sysbench 0.5,
sysbench/tests/db/common.lua; sysbench 0.4, sysbench.c.
"""

from __future__ import annotations

import re

from volbench.results.recorded.parsed import Recorded, SeriesTable, first_lines, number

_LINE = re.compile(
    r"^\[ (?P<t>\d+(?:\.\d+)?)s ?\] thds: (?P<threads>\d+) tps: (?P<tps>[\d.]+) qps: (?P<qps>[\d.]+)"
    r".*?lat \(ms, ?(?P<level>\d+)%\): (?P<latency>[\d.]+)(?: err/s: (?P<errors>[\d.]+))?"
)
_OLD = re.compile(
    r"^\[ *(?P<t>\d+(?:\.\d+)?)s?\] threads: (?P<threads>\d+), tps: (?P<tps>[\d.]+),"
    r"(?: reads(?:/s)?: (?P<reads>[\d.]+), writes(?:/s)?: (?P<writes>[\d.]+),)?"
    r" response time: (?P<latency>[\d.]+)ms \((?P<level>\d+)%\)(?:, errors(?:/s)?: +(?P<errors>[\d.]+))?"
)
_CSV = re.compile(
    r"^(?P<t>\d+(?:\.\d+)?),(?P<threads>\d+),(?P<tps>\d+\.\d\d),(?P<qps>\d+\.\d\d),\d+\.\d\d,\d+\.\d\d,\d+\.\d\d,"
    r"(?P<latency>\d+\.\d\d),(?P<errors>\d+\.\d\d),\d+\.\d\d\s*$"
)
_JSON = re.compile(
    r'"time": *(?P<t>[\d.]+),\s*"threads": *(?P<threads>\d+),\s*"tps": *(?P<tps>[\d.]+),\s*"qps": *\{\s*'
    r'"total": *(?P<qps>[\d.]+),[^}]*\},\s*"latency": *(?P<latency>[\d.]+),\s*"errors": *(?P<errors>[\d.]+)'
)
_QUEUE = re.compile(r"^\[ (?P<t>\d+(?:\.\d+)?)s ?\] queue length: (?P<queue>\d+), concurrency: (?P<busy>\d+)")
_PERCENTILE = re.compile(r"--percentile[= ](\d+)")
_TRANSACTIONS = re.compile(r"^ +transactions: +(?P<count>\d+) +\((?P<tps>[\d.]+) per sec\.\)", re.MULTILINE)
_TIME = re.compile(r"^ +total time: +(?P<t>[\d.]+)s", re.MULTILINE)
_SUMMARY_LATENCY = re.compile(
    r"^ +(?:(?P<level>\d+)th percentile: +(?P<new>[\d.]+)"
    r"|approx\. +(?P<old_level>\d+) percentile: +(?P<old>[\d.]+)ms)",
    re.MULTILINE,
)
_FIRST = re.compile(r"^sysbench v?\d+\.\d")
_THREADS = re.compile(r"^Number of threads: (\d+)", re.MULTILINE)
_DEFAULT_LEVEL = "95"
"""Percentile that sysbench reports unless --percentile says another; its CSV and JSON do not name it."""
_LINES = 2000
_NO_CLOCK = "sysbench's log has no time of day: it is not on one clock with other files"


def looks_like_sysbench(text: str) -> bool:
    """Whether a file has a line of an intermediate report, or a summary."""
    lines = first_lines(text, _LINES)
    if any(_LINE.match(line) or _OLD.match(line) for line in lines):
        return True
    if sum(_CSV.match(line) is not None for line in lines) >= 2:
        return True
    if _JSON.search(text[:20_000]) is not None:
        return True
    return " transactions: " in text and _TRANSACTIONS.search(text) is not None


def begins_load(line: str) -> bool:
    """Whether a line is the first that sysbench prints, with its version."""
    return _FIRST.match(line) is not None


def told_s(line: str) -> float | None:
    """Seconds from the load's begin that a line of an intermediate report tells; None for other lines."""
    report = _LINE.match(line) or _OLD.match(line) or _CSV.match(line)
    return None if report is None else float(report["t"])


def parse_sysbench(text: str) -> Recorded:
    """Series of a sysbench log, t_s from the start of the load.

    A percentile of 0.00 in an interval without a transaction is a stall, not a latency: it has no row. A log with a
    summary alone has one sample, of its whole time.
    """
    table, times = SeriesTable(), list[float]()
    level = matched[1] if (matched := _PERCENTILE.search(text)) else _DEFAULT_LEVEL
    for line in text.splitlines():
        report = _LINE.match(line) or _OLD.match(line) or _CSV.match(line)
        if report is not None:
            _interval(table, report, level)
            times.append(float(report["t"]))
        elif queue := _QUEUE.match(line):
            table.add(float(queue["t"]), "client", "queue_length", "", float(queue["queue"]))
    for report in _JSON.finditer(text):
        _interval(table, report, level)
    notes = [_NO_CLOCK]
    if len(set(times)) < len(times):
        notes.append("sysbench's log has some seconds twice, as of two clients at once: one report of each is used")
    if not table.series():
        _summary(table, text)
        notes.append("sysbench's log has no intervals (--report-interval): its summary is one sample")
    return Recorded(series=table.series(), clocked=False, notes=tuple(notes))


def _interval(table: SeriesTable, report: re.Match[str], level: str) -> None:
    cells = report.groupdict()
    t_s, tps = float(report["t"]), number(report["tps"])
    table.add(t_s, "client", "tps", "", tps)
    table.add(t_s, "client", "qps", "", _number(cells.get("qps")))
    table.add(t_s, "client", "threads_running", "", number(report["threads"]))
    table.add(t_s, "client", "errors_per_s", "", _number(cells.get("errors")))
    if tps:
        table.add(t_s, "client", f"latency_ms_p{cells.get('level') or level}", "", number(report["latency"]))


def _number(text: str | None) -> float | None:
    return None if text is None else number(text)


def _summary(table: SeriesTable, text: str) -> None:
    transactions, total = _TRANSACTIONS.search(text), _TIME.search(text)
    if transactions is None or total is None:
        return
    t_s = float(total["t"])
    table.add(t_s, "client", "tps", "", number(transactions["tps"]))
    threads, latency = _THREADS.search(text), _SUMMARY_LATENCY.search(text)
    if threads is not None:
        table.add(t_s, "client", "threads_running", "", number(threads[1]))
    if latency is not None:
        level = latency["level"] or latency["old_level"]
        table.add(t_s, "client", f"latency_ms_p{level}", "", number(latency["new"] or latency["old"]))
