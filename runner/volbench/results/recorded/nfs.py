"""The NFS client as nfsiostat prints it, and as repeated states of /proc/self/mountstats show it.

Source: nfsiostat(8) and tools/nfs-iostat of nfs-utils 1.3 to 2.6; fs/nfs and net/sunrpc/stats.c of Linux.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from volbench.core.records.sources.device.mountstats import TIMED_OPERATIONS
from volbench.results.recorded.parsed import Recorded, SeriesTable, first_lines, number

_MOUNT = re.compile(r"^(?P<export>\S.*) mounted on (?P<mount>/.*):\s*$")
_TOTAL = re.compile(r"^\s*ops?/s\s+rpc bklog\s*$")
_DIRECTION = re.compile(r"^(?P<direction>read|write):\s+ops/s")
_DEVICE = re.compile(r"^device (?P<export>\S+) mounted on (?P<mount>\S+) with fstype nfs\d? ")
_COLUMNS = ("ops/s", "kB/s", "kB/op", "retrans", "avg RTT (ms)", "avg exe (ms)", "avg queue (ms)", "errors")
_OPERATION = re.compile(r"^\s+(?P<name>[A-Z_]+):(?P<counters>(?: \d+){8,9})\s*$")
_SOURCE = "mountstats"


def looks_like_nfsiostat(text: str) -> bool:
    """Whether a file has a heading of nfsiostat."""
    return any(_TOTAL.match(line) for line in first_lines(text, 400))


def parse_nfsiostat(text: str) -> Recorded:
    """Series of each mount that nfsiostat printed, samples counted; the first report is about all time since mount.

    What is neither a read nor a write is metadata. `avg exe` has the client's queue, `avg RTT` the server's part.
    """
    table, reports = SeriesTable(), dict[str, int]()
    mount = ""
    lines = iter(_rows(text))
    total = 0.0
    for line in lines:
        if matched := _MOUNT.match(line):
            mount = matched["mount"]
            reports[mount] = reports.get(mount, -1) + 1
            moved = 0.0
        elif _TOTAL.match(line) and mount:
            cells = next(lines, "").split()
            total = number(cells[0]) or 0.0 if cells else 0.0
            if reports[mount] and len(cells) > 1:
                table.add(reports[mount], _SOURCE, "transport_backlog", mount, number(cells[1]))
        elif (matched := _DIRECTION.match(line)) and mount:
            rate = _direction(table, reports[mount], mount, matched["direction"], line, next(lines, ""))
            moved += rate
            if matched["direction"] == "write" and reports[mount]:
                table.add(reports[mount], _SOURCE, "metadata_ops_per_s", mount, max(0.0, total - moved))
    return Recorded(series=table.series(), clocked=False, interval_known=False)


def _rows(text: str) -> Iterator[str]:
    """Yield the lines, with the values of a row on one, where each has a line of its own.

    So prints Python 3 what the script of nfs-utils 1.3 wrote for Python 2, where a `print` could end in a comma.
    """
    lines = text.splitlines()
    if not any(_ALONE.match(line) for line in lines):
        yield from lines
        return
    values: list[str] = []
    direction = ""
    for line in lines:
        if _VALUE.match(line):
            values.append(line.strip())
            continue
        if values:
            yield " ".join(values)
            values = []
        if _ALONE.match(line):
            direction = f"{line.strip()} "
        elif line.strip():
            yield f"{direction}{line.strip()}" if direction else line
            direction = ""
    yield " ".join(values)


_ALONE = re.compile(r"^(?:read|write):\s*$")
_VALUE = re.compile(r"^\s*[\d.]+(?: \([\d.]+%\))?\s*$")


def _direction(table: SeriesTable, report: int, mount: str, direction: str, heading: str, line: str) -> float:
    """Add what a report has of one direction; return its operations a second."""
    names = [name for name in _COLUMNS if name in heading]
    values = re.sub(r"\([^)]*\)", "", line).split()
    cells = dict(zip(names, (number(value) for value in values), strict=False))
    rate, prefix = cells.get("ops/s") or 0.0, direction[0]
    if report:
        table.add(report, _SOURCE, f"{direction}s_per_s", mount, rate)
        moved = cells.get("kB/s")
        table.add(report, _SOURCE, f"{direction}_mib_per_s", mount, None if moved is None else moved / 1024)
        if rate > 0:
            table.add(report, _SOURCE, f"{prefix}_await_ms", mount, cells.get("avg exe (ms)"))
            table.add(report, _SOURCE, f"{prefix}_rtt_ms", mount, cells.get("avg RTT (ms)"))
    return rate


def looks_like_mountstats(text: str) -> bool:
    """Whether a file has states of /proc/self/mountstats with an NFS mount."""
    return any(_DEVICE.match(line) for line in first_lines(text, 2000))


def parse_mountstats(text: str) -> Recorded:
    """Rates between states of each mount; their time is the mount's age.

    Raises ValueError for a single state: it has no rates.
    """
    table = SeriesTable()
    states: dict[str, tuple[float, dict[str, list[int]]]] = {}
    count = 0
    for mount, age_s, counters in _states(text):
        count += 1
        before = states.get(mount)
        if before is not None and age_s > before[0]:
            _rates(table, age_s, mount, before[1], counters, age_s - before[0])
        states[mount] = age_s, counters
    if count and not table.series():
        raise ValueError("each mount is in it once: a state of the counters has no rates, give two or more")
    return Recorded(series=table.series(), clocked=False)


def _states(text: str) -> Iterator[tuple[str, float, dict[str, list[int]]]]:
    mount, age_s, counters = "", 0.0, dict[str, list[int]]()
    for line in [*text.splitlines(), "device end mounted on / with fstype none "]:
        if line.startswith("device "):
            if mount and counters:
                yield mount, age_s, counters
            matched = _DEVICE.match(line)
            mount, age_s, counters = matched["mount"] if matched else "", 0.0, {}
        elif mount and line.strip().startswith("age:"):
            age_s = number(line.split(":", 1)[1].strip()) or 0.0
        elif mount and (matched := _OPERATION.match(line)):
            counters[matched["name"]] = [int(value[:19]) for value in matched["counters"].split()]


def _rates(
    table: SeriesTable,
    t_s: float,
    mount: str,
    old: Mapping[str, list[int]],
    new: Mapping[str, list[int]],
    dt_s: float,
) -> None:
    metadata = 0.0
    for name in new.keys() & old.keys():
        grown = [after - before for before, after in zip(old[name], new[name], strict=False)]
        if min(grown) < 0:  # mounted anew
            return
        rate = grown[0] / dt_s
        if name not in ("READ", "WRITE"):
            metadata += rate
        if name in TIMED_OPERATIONS and grown[0]:
            table.add(t_s, _SOURCE, f"{TIMED_OPERATIONS[name]}_await_ms", mount, grown[7] / grown[0])
            table.add(t_s, _SOURCE, f"{TIMED_OPERATIONS[name]}_rtt_ms", mount, grown[6] / grown[0])
        if name == "READ":
            table.add(t_s, _SOURCE, "reads_per_s", mount, rate)
            table.add(t_s, _SOURCE, "read_mib_per_s", mount, grown[4] / 2**20 / dt_s)
        elif name == "WRITE":
            table.add(t_s, _SOURCE, "writes_per_s", mount, rate)
            table.add(t_s, _SOURCE, "write_mib_per_s", mount, grown[3] / 2**20 / dt_s)
    table.add(t_s, _SOURCE, "metadata_ops_per_s", mount, metadata)
    other_operations = [name for name in new.keys() & old.keys() if name not in ("READ", "WRITE")]
    operations = sum(new[name][0] - old[name][0] for name in other_operations)
    waited_ms = sum(new[name][7] - old[name][7] for name in other_operations)
    table.add(t_s, _SOURCE, "metadata_await_ms", mount, waited_ms / operations if operations else None)
