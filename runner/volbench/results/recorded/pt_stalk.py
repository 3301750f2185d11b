"""What pt-stalk collected: many files of one prefix, of which some have its time stamps and some have none.

Read are -diskstats and -procstat (raw /proc files after `TS` lines), -mysqladmin (status counters once an interval,
without a time: its first is taken to be at the first time stamp), -variables, and -df for the device behind the
data directory, and -top for the CPUs that the server uses. Source: pt-stalk of Percona Toolkit 3, sub collect;
proc(5) and the kernel's iostats documentation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from itertools import pairwise
from pathlib import PurePosixPath

from volbench.core.base.parse import parse_moment, parse_whole
from volbench.results.recorded.parsed import DAY_S, HEAD_CHARACTERS, Recorded, SeriesTable, scaled
from volbench.results.recorded.status_rates import status_rates
from volbench.results.store.series import Series, SeriesKey

_NAME = re.compile(r"(?P<prefix>\d{4}(?:_\d{2}){5})-(?P<kind>[a-z_0-9-]+)")
_STAMP = re.compile(
    r"TS (?P<epoch>\d{9,10})(?:\.\d+)?(?: (?P<date>\d{4}-\d{2}-\d{2})[ T](?P<time>\d{2}:\d{2}:\d{2})|$)"
)
_SAMPLES = re.compile(r"^TS \d{9,10}(?:\.\d+)?(?: [^\n]*)?\n(?: *\d+ +\d+ \S+(?: \d+){11,}\n)", re.MULTILINE)
_FRACTION = re.compile(r"TS \d+(?P<fraction>\.\d+)")
READ = ("diskstats", "procstat", "mysqladmin", "variables", "df", "top")
"""Kinds of files; what the others of a collection say is in these, or has no clock."""
_OPTIONAL = frozenset({"top"})
"""Kinds whose absence is not worth a note."""
_TOP_HEAD = re.compile(r"top - (?P<h>\d{2}):(?P<m>\d{2}):(?P<s>\d{2}) ")
_TOP_COLUMNS = ("PID", "%CPU", "COMMAND")
_SERVERS = frozenset({"mysqld", "mariadbd"})
_SECTORS_PER_MIB = 2048.0
_VALUES_MAX = 2_000_000
_VARIABLE_CHARACTERS_MAX = 4_000
"""What is longer is no value of a server that is asked for here."""
_CPU = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")


@dataclass(frozen=True, kw_only=True)
class Collection:
    """One prefix's files as one recording, and what they say of the server.

    `disk` is the device behind the data directory, else the one with the longest queue; `used` names the files.
    """

    recorded: Recorded
    variables: Mapping[str, str]
    disk: str | None
    used: tuple[str, ...]


def kind_of(name: str) -> tuple[str, str] | None:
    """Prefix and kind of a collected file's name; None for a name of another form."""
    matched = _NAME.fullmatch(name)
    return (matched["prefix"], matched["kind"]) if matched else None


def parse_collection(prefix: str, files: Mapping[str, str]) -> Collection:
    """The files of one prefix, text by kind. Raises ValueError for numbers that are none."""
    table = SeriesTable()
    disks, cpus = list(_sections(files.get("diskstats", ""))), list(_sections(files.get("procstat", "")))
    for before, after in pairwise(disks):
        _disk_rates(table, before, after)
    for before, after in pairwise(cpus):
        _cpu_rates(table, before, after)
    for at_s, used in _server_cpus(files.get("top", "")):
        table.add(at_s, "tasks", "cpus_used", "server", used)
    variables = _variables(files.get("variables", ""))
    stamps = [t_s for t_s, _ in (disks or cpus)]
    _status(table, list(_reports(files.get("mysqladmin", ""))), stamps)
    devices = {name for _, text in disks for name in _disks(text)}
    disk = _disk_behind(variables.get("datadir"), files.get("df", ""), devices)
    notes = [f"pt-stalk {prefix} has no -{kind}" for kind in READ if kind not in files and kind not in _OPTIONAL]
    if disk is None:
        disk = _most_waited_for(table.series())
        notes.append("the device behind the data directory is not known: the one with the longest queue is taken")
    if files.get("mysqladmin") and stamps:
        notes.append("pt-stalk's -mysqladmin has no time stamps: its counters may be an interval early or late")
    return Collection(
        recorded=Recorded(
            series=table.series(), clocked=bool(stamps), notes=tuple(notes), dates=_dates(files) if stamps else ()
        ),
        variables=variables,
        disk=disk,
        used=tuple(kind for kind in READ if kind in files),
    )


def looks_like_disk_samples(text: str) -> bool:
    """Whether a file has states of /proc/diskstats, each after its time: a -diskstats by another name."""
    return _SAMPLES.search(text[:HEAD_CHARACTERS]) is not None


def parse_disk_samples(text: str) -> Recorded:
    """Series of each device between the states; in UTC where only seconds since the epoch are told."""
    recorded = replace(parse_collection("", {"diskstats": text}).recorded, notes=())
    first = next((stamp for line in text.splitlines() if (stamp := _STAMP.match(line))), None)
    if first is None or first["date"] is not None or not recorded.dates:
        return recorded
    midnight = int(first["epoch"]) // int(DAY_S) * DAY_S
    return replace(recorded, midnight_epoch_s=midnight, dates=())


def _moment(stamp: re.Match[str]) -> datetime:
    if stamp["date"] is None:
        return datetime.fromtimestamp(int(stamp["epoch"]), tz=UTC).replace(tzinfo=None)
    return parse_moment(f"{stamp['date']}T{stamp['time']}")


def _dates(files: Mapping[str, str]) -> tuple[date, ...]:
    """The day of the first time stamp; empty where there is none."""
    for kind in ("diskstats", "procstat"):
        stamp = next(
            (matched for line in files.get(kind, "").splitlines() if (matched := _STAMP.match(line))), None
        )
        if stamp is not None:
            return (_moment(stamp).date(),)
    return ()


def _sections(text: str) -> Iterator[tuple[float, str]]:
    """Seconds of the first section's day, and what follows each time stamp."""
    first_day: float | None = None
    lines: list[str] = []
    at: float | None = None
    for line in [*text.splitlines(), "TS"]:
        if not line.startswith("TS"):
            lines.append(line)
            continue
        if at is not None and lines:
            yield at, "\n".join(lines)
        stamp, lines = _STAMP.match(line), []
        if stamp is None:
            at = None
            continue
        moment = _moment(stamp)
        day = moment.toordinal() * DAY_S
        first_day = day if first_day is None else first_day
        fraction = _FRACTION.match(line)
        of_day = moment.hour * 3600.0 + moment.minute * 60 + moment.second
        at = day - first_day + of_day + (float(fraction["fraction"]) if fraction else 0.0)


def _disks(text: str) -> dict[str, list[int]]:
    """Counters of each device of /proc/diskstats that has been used."""
    devices = {}
    for line in text.splitlines():
        fields = line.split()
        if len(fields) >= 14:
            counters = [parse_whole(field) for field in fields[3:14]]
            if counters[0] or counters[4]:
                devices[fields[2]] = counters
    return devices


def _disk_rates(table: SeriesTable, before: tuple[float, str], after: tuple[float, str]) -> None:
    (t0_s, old_text), (t1_s, new_text) = before, after
    dt_s = t1_s - t0_s
    old, new = _disks(old_text), _disks(new_text)
    for name in old.keys() & new.keys() if dt_s > 0 else ():
        grown = [b - a for a, b in zip(old[name], new[name], strict=True)]
        if min(grown[:8] + grown[9:]) < 0:  # attached anew, or a counter of 32 bits that wrapped
            continue
        reads, writes = grown[0], grown[4]
        values = {
            "reads_per_s": reads / dt_s,
            "writes_per_s": writes / dt_s,
            "read_mib_per_s": grown[2] / _SECTORS_PER_MIB / dt_s,
            "write_mib_per_s": grown[6] / _SECTORS_PER_MIB / dt_s,
            "r_await_ms": grown[3] / reads if reads else None,
            "w_await_ms": grown[7] / writes if writes else None,
            "util_ratio": min(1.0, grown[9] / 1000 / dt_s),
            "aqu_sz": grown[10] / 1000 / dt_s,
            "in_flight": float(new[name][8]),
        }
        for metric, value in values.items():
            table.add(t1_s, "diskstats", metric, name, value)


def _cpu_rates(table: SeriesTable, before: tuple[float, str], after: tuple[float, str]) -> None:
    old, new = _cpu_times(before[1]), _cpu_times(after[1])
    grown = {name: max(0, new.get(name, 0) - old.get(name, 0)) for name in _CPU}
    total = sum(grown.values())
    if not old or not new or total <= 0:
        return
    values = {
        "user_ratio": grown["user"] + grown["nice"],
        "nice_ratio": grown["nice"],
        "system_ratio": grown["system"] + grown["irq"] + grown["softirq"],
        "iowait_ratio": grown["iowait"],
        "steal_ratio": grown["steal"],
        "idle_ratio": grown["idle"],
    }
    for metric, value in values.items():
        table.add(after[0], "cpu", metric, "", value / total)


def _server_cpus(text: str) -> Iterator[tuple[float, float]]:
    """Seconds of the day, and the CPUs that the server's processes use, of each report of top but the first.

    The first report of a batch is the mean since the processes began. Only what top lists is counted: of a server
    that it does not list, nothing is known.
    """
    at_s, reports, used, columns = 0.0, 0, None, list[str]()
    for line in [*text.splitlines(), ""]:
        head, cells = _TOP_HEAD.match(line), line.split()
        if head is not None:
            if used is not None and reports > 1:
                yield at_s, used
            at_s, used, columns = float(int(head["h"]) * 3600 + int(head["m"]) * 60 + int(head["s"])), None, []
            reports += 1
        elif set(_TOP_COLUMNS) <= set(cells):
            columns = cells
        elif columns and len(cells) >= len(columns) and cells[columns.index("COMMAND")] in _SERVERS:
            percent = scaled(cells[columns.index("%CPU")], 0.01)
            used = (used or 0.0) + percent if percent is not None else used
    if used is not None and reports > 1:
        yield at_s, used


def _cpu_times(text: str) -> dict[str, int]:
    line = next((candidate for candidate in text.splitlines() if candidate.startswith("cpu ")), "")
    return {name: parse_whole(field) for name, field in zip(_CPU, line.split()[1:], strict=False)}


def _reports(text: str) -> Iterator[dict[str, int]]:
    """Each table of `mysqladmin extended-status`: its whole numbers by name, lower case."""
    report: dict[str, int] = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) != 4:
            continue
        if cells[1] == "Variable_name":
            if report:
                yield report
            report = {}
        elif cells[2].isdecimal():
            report[cells[1].lower()] = parse_whole(cells[2])
    if report:
        yield report


def _status(table: SeriesTable, reports: list[dict[str, int]], stamps: list[float]) -> None:
    """Rates of the counters; one interval is that of the other files."""
    if len(stamps) < 2 or len(reports) < 2 or len(reports[0]) * len(reports) > _VALUES_MAX:
        return
    steps = sorted(b - a for a, b in pairwise(stamps))
    interval_s = steps[len(steps) // 2]
    for number, (before, after) in enumerate(pairwise(reports), start=1):
        for metric, value in status_rates(before, after, interval_s):
            table.add(stamps[0] + number * interval_s, "innodb", metric, "", value)


def _variables(text: str) -> dict[str, str]:
    """SHOW GLOBAL VARIABLES, with tabs; there are several tables in it, the first of a name holds."""
    variables: dict[str, str] = {}
    for line in text.splitlines():
        name, separator, value = line.partition("\t")
        is_bounded = separator and len(line) <= _VARIABLE_CHARACTERS_MAX
        if is_bounded and re.fullmatch(r"[a-z][a-z0-9_]*", name):
            variables.setdefault(name, value.strip())
    return variables


def _disk_behind(data_dir: str | None, df: str, devices: set[str]) -> str | None:
    """The device that holds the data directory, by the longest mount point of `df` above it."""
    if data_dir is None:
        return None
    best: tuple[int, str] | None = None
    directory = PurePosixPath(data_dir)
    for line in df.splitlines():
        fields = line.split()
        if len(fields) >= 6 and fields[0].startswith("/dev/") and fields[5].startswith("/"):
            mount = PurePosixPath(fields[5])
            if (mount == directory or mount in directory.parents) and (best is None or len(mount.parts) > best[0]):
                best = len(mount.parts), PurePosixPath(fields[0]).name
    return None if best is None else next((name for name in _names(best[1]) if name in devices), None)


def _most_waited_for(series: Mapping[SeriesKey, Series]) -> str | None:
    queues = {key.entity: float(samples.value.mean()) for key, samples in series.items() if key.metric == "aqu_sz"}
    return max(queues, key=lambda name: queues[name]) if queues else None


def _names(device: str) -> Iterator[str]:
    """The whole disk of a partition, then the device itself: flushes are not counted for partitions."""
    if re.match(r"(nvme|mmcblk|loop)\d", device):
        yield re.sub(r"(?<=\d)p\d+$", "", device)
    else:
        yield device.rstrip("0123456789")
    yield device
