"""Logs of TPC-C clients: go-tpc's `[Current]` lines, and HammerDB's transaction counter.

Source: go-tpc, pkg/measurement/measure.go and tpcc/workload.go; HammerDB 4, modules/tcount.
"""

from __future__ import annotations

import re

from volbench.results.recorded.parsed import Recorded, Table, number

_CURRENT = re.compile(
    r"^\[Current\] (?P<kind>[A-Z_]+) +- Takes\(s\): (?P<takes>[\d.]+), Count: (?P<count>\d+),.*?"
    r"95th\(ms\): (?P<p95>[\d.]+)"
)
_NEW_ORDER = "NEW_ORDER"
_TPM = re.compile(r"^\s*(?P<tpm>\d+) (?:MySQL|MariaDB) tpm\s*$")
_RESULT = re.compile(r"System achieved (?P<nopm>\d+) NOPM from (?P<tpm>\d+) (?:MySQL|MariaDB) TPM")


def looks_like_go_tpc(text: str) -> bool:
    """Whether a file has a line of go-tpc's intervals."""
    return any(_CURRENT.match(line) for line in text.splitlines()[:4000])


def parse_go_tpc(text: str) -> Recorded:
    """Series of a log of go-tpc, t_s from its first interval: transactions of all kinds, p95 of new orders."""
    table = Table()
    t_s, counts, takes, p95 = 0.0, dict[str, int](), 0.0, None

    def close() -> None:
        nonlocal t_s
        if counts and takes > 0:
            t_s += takes
            table.add(t_s, "client", "tps", "", sum(counts.values()) / takes)
            table.add(t_s, "client", "latency_ms_p95", "", p95)

    for line in text.splitlines():
        current = _CURRENT.match(line)
        if current is None:
            continue
        if current["kind"] in counts:
            close()
            counts, p95 = {}, None
        counts[current["kind"]] = int(current["count"][:18])
        takes = number(current["takes"]) or 0.0
        if current["kind"] == _NEW_ORDER:
            p95 = number(current["p95"])
    close()
    return Recorded(
        series=table.series(), clocked=False, notes=("go-tpc's log has no time of day: it is on no clock",)
    )


def looks_like_hammerdb(text: str) -> bool:
    """Whether a file has HammerDB's transaction counter, or its result."""
    return any(_TPM.match(line) for line in text.splitlines()[:4000]) or _RESULT.search(text) is not None


def parse_hammerdb(text: str) -> Recorded:
    """Transactions a second of HammerDB's counter, or of its result alone; samples are counted.

    The counter's interval is `tcset refreshrate`, 10 s unless it is set, and no line tells it.
    """
    table = Table()
    rates = [number(matched["tpm"]) for line in text.splitlines() if (matched := _TPM.match(line))]
    for at, tpm in enumerate(rates, start=1):
        table.add(float(at), "client", "tps", "", None if tpm is None else tpm / 60)
    result = _RESULT.search(text)
    notes = ["HammerDB's log has no time of day and no latency (its time profile has)"]
    if result is not None:
        notes.append(f"HammerDB's result: {result['nopm']} NOPM, {result['tpm']} TPM")
        if not rates:
            tpm = number(result["tpm"])
            table.add(1.0, "client", "tps", "", None if tpm is None else tpm / 60)
    return Recorded(series=table.series(), clocked=False, interval_known=False, notes=tuple(notes))
