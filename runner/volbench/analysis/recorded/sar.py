"""sar's text of devices (-d) and of all I/O (-b), of any locale and of old and new versions.

sysstat writes times in the locale's form and headings in English. Old versions count sectors of 512 bytes
(rd_sec/s, avgrq-sz, avgqu-sz), new ones KiB (rkB/s, areq-sz, aqu-sz). A time stands at the end of its interval.
Source: sar(1) of sysstat 10 and 12.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from volbench.analysis.recorded.parsed import DayClock, Recorded, Table, number, time_of_day
from volbench.store.series import Series, SeriesKey

_SECTORS_PER_MIB, _KIB_PER_MIB = 2048.0, 1024.0
_OPERATIONS = "operations_per_s"
_DEVICE = {
    "tps": (_OPERATIONS, 1.0),
    "rd_sec/s": ("read_mib_per_s", 1 / _SECTORS_PER_MIB),
    "wr_sec/s": ("write_mib_per_s", 1 / _SECTORS_PER_MIB),
    "rkB/s": ("read_mib_per_s", 1 / _KIB_PER_MIB),
    "wkB/s": ("write_mib_per_s", 1 / _KIB_PER_MIB),
    "avgqu-sz": ("aqu_sz", 1.0),
    "aqu-sz": ("aqu_sz", 1.0),
    "await": ("await_ms", 1.0),
    "%util": ("util_ratio", 0.01),
}
"""svctm is left out: sysstat itself warns that it means nothing."""
_ALL = {
    "tps": (_OPERATIONS, 1.0),
    "rtps": ("reads_per_s", 1.0),
    "wtps": ("writes_per_s", 1.0),
    "bread/s": ("read_mib_per_s", 1 / _SECTORS_PER_MIB),
    "bwrtn/s": ("write_mib_per_s", 1 / _SECTORS_PER_MIB),
}
_CPU = {
    "%user": ("user_ratio", 0.01),
    "%nice": ("nice_ratio", 0.01),
    "%system": ("system_ratio", 0.01),
    "%iowait": ("iowait_ratio", 0.01),
    "%steal": ("steal_ratio", 0.01),
    "%idle": ("idle_ratio", 0.01),
}
ALL_DEVICES = "all devices"


def looks_like_sar(text: str) -> bool:
    """Whether a file has a heading of sar -d, -b or -u after a time."""
    return any(_kind(rest.split()) for _, rest in _timed(text.splitlines()[:400]))


def parse_sar(text: str) -> Recorded:
    """Series of a sar text; lines that are no samples (averages, restarts) are passed over."""
    table, clock = Table(), DayClock()
    columns: list[str] = []
    for of_day_s, rest in _timed(text.splitlines()):
        words = rest.split()
        if _kind(words):
            columns = words
        elif columns and len(words) == len(columns):
            _sample(table, clock.at(of_day_s), _kind(columns), dict(zip(columns, words, strict=True)))
    return Recorded(series=table.series(), clocked=True)


def with_one_device(series: Mapping[SeriesKey, Series]) -> dict[SeriesKey, Series]:
    """What -b says of all devices given to the device that does all I/O; dropped when no device does.

    It is that device when its operations are those of all devices whenever both are known. Without -d, -b stays.
    """
    total = series.get(SeriesKey(source="diskstats", metric=_OPERATIONS, entity=ALL_DEVICES))
    devices = {
        key.entity: one
        for key, one in series.items()
        if key.source == "diskstats" and key.metric == _OPERATIONS and key.entity != ALL_DEVICES
    }
    if total is None or not devices:
        return dict(series)
    alone = next((name for name, one in devices.items() if _same(total, one)), None)
    kept = {key: one for key, one in series.items() if key.entity != ALL_DEVICES}
    for key, one in series.items():
        if alone is not None and key.entity == ALL_DEVICES:
            kept.setdefault(replace(key, entity=alone), one)
    return kept


def _same(total: Series, device: Series) -> bool:
    known = dict(zip(device.t_s.tolist(), device.value.tolist(), strict=True))
    pairs = [(a, known[t]) for t, a in zip(total.t_s.tolist(), total.value.tolist(), strict=True) if t in known]
    return len(pairs) >= 3 and all(abs(a - b) <= 0.02 + 0.01 * b for a, b in pairs)


def _sample(table: Table, t_s: float, kind: str, cells: Mapping[str, str]) -> None:
    if kind == "device":
        _add(table, t_s, "diskstats", cells["DEV"], cells, _DEVICE)
    elif kind == "all":
        _add(table, t_s, "diskstats", ALL_DEVICES, cells, _ALL)
    elif cells["CPU"] == "all":
        _add(table, t_s, "cpu", "", cells, _CPU)


def _timed(lines: list[str]) -> Iterator[tuple[float, str]]:
    for line in lines:
        found = time_of_day(line)
        if found is not None:
            yield found


def _kind(words: list[str]) -> str:
    """What a heading is of; empty for a line that is none."""
    if "DEV" in words and "tps" in words:
        return "device"
    if "rtps" in words and "wtps" in words:
        return "all"
    if "CPU" in words and "%idle" in words:
        return "cpu"
    return ""


def _add(
    table: Table,
    t_s: float,
    source: str,
    entity: str,
    cells: Mapping[str, str],
    wanted: Mapping[str, tuple[str, float]],
) -> None:
    for name, (metric, scale) in wanted.items():
        value = number(cells[name]) if name in cells else None
        table.add(t_s, source, metric, entity, None if value is None else value * scale)
