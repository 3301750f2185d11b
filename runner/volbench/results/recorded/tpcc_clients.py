"""Logs of TPC-C clients: go-tpc's `[Current]` lines, HammerDB's transaction counter, tpcc-mysql's intervals.

Source: go-tpc, cmd/go-tpc/tpcc.go, pkg/measurement/measure.go and tpcc/workload.go; HammerDB 4, modules/tcount;
Percona's tpcc-mysql, src/main.c.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime

from volbench.results.recorded.parsed import Recorded, SeriesTable, first_lines, number, recorded_of_epochs

_CURRENT = re.compile(
    r"^\[Current\] (?P<kind>[A-Z_]+) +- Takes\(s\): [\d.]+, Count: \d+, TPM: (?P<tpm>[\d.]+),"
    r"(?:.*? 95th\(ms\): (?P<p95>[\d.]+))?(?:.*? 99th\(ms\): (?P<p99>[\d.]+))?"
)
_NEW_ORDER = "NEW_ORDER"
_INTERVAL = re.compile(r"^ *(?P<t>\d+), trx: (?P<count>\d+), 95%: (?P<p95>[\d.]+), 99%: (?P<p99>[\d.]+), max_rt:")
_TPM = re.compile(r"^\s*(?P<tpm>\d+) (?:MySQL|MariaDB) tpm(?: @ (?P<at>.+?))?\s*$")
_AT = re.compile(
    r"^\w{3} (?P<month>\w{3}) +(?P<day>\d{1,2}) (?P<time>\d\d:\d\d:\d\d) (?P<zone>\S+) (?P<year>\d{4})$"
)
_RESULT = re.compile(r"System achieved (?P<nopm>\d+) NOPM from (?P<tpm>\d+) (?:MySQL|MariaDB) TPM")


def looks_like_go_tpc(text: str) -> bool:
    """Whether a file has a line of go-tpc's intervals."""
    return any(_CURRENT.match(line) for line in first_lines(text, 4000))


def ends_go_tpc(line: str) -> bool:
    """Whether a line follows the last interval of a load, before its summary."""
    return line.rstrip() == "Finished"


def parse_go_tpc(text: str) -> Recorded:
    """Series of a log of go-tpc, its reports counted: transactions of all kinds, p95 and p99 of new orders.

    The interval is `--interval`, 10 s unless it is set, and no line tells it: `Takes` of a kind begins with its
    first transaction. Old versions have no 95th percentile.
    """
    table = SeriesTable()
    reports: list[dict[str, re.Match[str]]] = [{}]
    for current in filter(None, map(_CURRENT.match, text.splitlines())):
        if current["kind"] in reports[-1]:
            reports.append({})
        reports[-1][current["kind"]] = current
    for at, report in enumerate(reports, start=1):
        rates = [number(current["tpm"]) or 0.0 for current in report.values()]
        table.add(float(at), "client", "tps", "", sum(rates) / 60 if rates else None)
        for name in ("p95", "p99") if _NEW_ORDER in report else ():
            cell = report[_NEW_ORDER][name]
            table.add(float(at), "client", f"latency_ms_{name}", "", None if cell is None else number(cell))
    return Recorded(
        series=table.series(),
        clocked=False,
        interval_known=False,
        notes=("go-tpc's log has no time of day: it is on no clock",),
    )


def looks_like_hammerdb(text: str) -> bool:
    """Whether a file has HammerDB's transaction counter, or its result."""
    return any(_TPM.match(line) for line in first_lines(text, 4000)) or _RESULT.search(text) is not None


def parse_hammerdb(text: str) -> Recorded:
    """Transactions a second of HammerDB's counter, or of its result alone.

    The counter's log has times where they were asked for (`@ Thu Jun 30 21:18:41 UTC 2022`); else its samples are
    counted: their interval is `tcset refreshrate`, 10 s unless it is set, and no line tells it.
    """
    matches = [matched for line in text.splitlines() if (matched := _TPM.match(line))]
    moments = [None if matched["at"] is None else _moment(matched["at"]) for matched in matches]
    zones = {moment[1] for moment in moments if moment is not None}
    clocked = bool(matches) and None not in moments and len(zones) == 1
    table = SeriesTable()
    for at, (interval_match, moment) in enumerate(zip(matches, moments, strict=True), start=1):
        tpm = number(interval_match["tpm"])
        t_s = moment[0] if clocked and moment is not None else float(at)
        table.add(t_s, "client", "tps", "", None if tpm is None else tpm / 60)
    result = _RESULT.search(text)
    notes = ["HammerDB's log has no latency (its time profile has)"]
    if result is not None:
        notes.append(f"HammerDB's result: {result['nopm']} NOPM, {result['tpm']} TPM")
        if not matches:
            tpm = number(result["tpm"])
            table.add(1.0, "client", "tps", "", None if tpm is None else tpm / 60)
    series = table.series()
    if not clocked or not series:
        return Recorded(series=series, clocked=False, interval_known=False, notes=tuple(notes))
    recorded = recorded_of_epochs(series, tuple(notes))
    if zones <= _UTC:
        return recorded
    day = datetime.fromtimestamp(recorded.midnight_epoch_s or 0.0, tz=UTC).date()
    return replace(recorded, midnight_epoch_s=None, dates=(day,))


_UTC = frozenset({"UTC", "GMT"})


def _moment(text: str) -> tuple[float, str] | None:
    """A time of Tcl's clock as if it were UTC, in seconds since the epoch, and its zone's letters."""
    matched = _AT.match(text)
    if matched is None:
        return None
    try:
        stamp = f"{matched['day']} {matched['month']} {matched['year']} {matched['time']}"
        moment = datetime.strptime(stamp, "%d %b %Y %H:%M:%S").replace(tzinfo=UTC)
    except ValueError:
        return None
    return (moment.timestamp(), matched["zone"]) if 1970 <= moment.year < 9000 else None


def looks_like_tpcc_mysql(text: str) -> bool:
    """Whether a file has a line of tpcc-mysql's intervals."""
    return any(_INTERVAL.match(line) for line in first_lines(text, 4000))


def told_of_tpcc_mysql(line: str) -> float | None:
    """Seconds from the begin that a line tells; None for other lines."""
    matched = _INTERVAL.match(line)
    return None if matched is None else float(matched["t"])


def begins_tpcc_mysql(line: str) -> bool:
    """Whether a line is in the first ones that tpcc-mysql prints."""
    return "TPC-C Load Generator" in line


def parse_tpcc_mysql(text: str) -> Recorded:
    """New orders a second of each interval and their p95 and p99, t_s from the begin of the measurement.

    A percentile of 0 in an interval without a new order is no latency. The first interval is as long as its end.
    """
    table, before_s = SeriesTable(), 0.0
    for line in text.splitlines():
        matched = _INTERVAL.match(line)
        if matched is None:
            continue
        t_s, count = float(matched["t"]), number(matched["count"]) or 0.0
        if t_s > before_s:
            table.add(t_s, "client", "tps", "", count / (t_s - before_s))
            for name in ("p95", "p99") if count else ():
                table.add(t_s, "client", f"latency_ms_{name}", "", number(matched[name]))
        before_s = t_s
    return Recorded(
        series=table.series(),
        clocked=False,
        notes=("tpcc-mysql's log has no time of day, and counts new orders only",),
    )
