"""sysbench's intermediate reports (--report-interval). Source: sysbench 1.0.20, src/lua/internal/sysbench.lua."""

from __future__ import annotations

import re

from volbench.results.recorded.parsed import Recorded, Table

_LINE = re.compile(
    r"^\[ (?P<t>\d+(?:\.\d+)?)s ?\] thds: (?P<threads>\d+) tps: (?P<tps>[\d.]+) qps: (?P<qps>[\d.]+)"
    r".*?lat \(ms, ?(?P<level>\d+)%\): (?P<latency>[\d.]+)(?: err/s: (?P<errors>[\d.]+))?"
)
_QUEUE = re.compile(r"^\[ (?P<t>\d+(?:\.\d+)?)s ?\] queue length: (?P<queue>\d+), concurrency: (?P<busy>\d+)")


def looks_like_sysbench(text: str) -> bool:
    """Whether a file has a line of an intermediate report."""
    return any(_LINE.match(line) for line in text.splitlines()[:2000])


def parse_sysbench(text: str) -> Recorded:
    """Series of a sysbench log, t_s from the start of the load.

    A percentile of 0.00 in an interval without a transaction is a stall, not a latency: it has no row.
    """
    table = Table()
    for line in text.splitlines():
        if report := _LINE.match(line):
            t_s, tps = float(report["t"]), float(report["tps"])
            table.add(t_s, "client", "tps", "", tps)
            table.add(t_s, "client", "qps", "", float(report["qps"]))
            table.add(t_s, "client", "threads_running", "", float(report["threads"]))
            if report["errors"] is not None:
                table.add(t_s, "client", "errors_per_s", "", float(report["errors"]))
            if tps > 0:
                table.add(t_s, "client", f"latency_ms_p{report['level']}", "", float(report["latency"]))
        elif report := _QUEUE.match(line):
            table.add(float(report["t"]), "client", "queue_length", "", float(report["queue"]))
    return Recorded(
        series=table.series(),
        clocked=False,
        notes=("sysbench's log has no time of day: it is not on one clock with other files",),
    )
