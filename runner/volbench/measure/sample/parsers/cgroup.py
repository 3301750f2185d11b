"""Accounts of control groups: io.stat and cpu.stat of version 2, blkio, cpu and cpuacct of version 1."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupIoCounters:
    """What a group asked of one device, `major:minor`, since it was made. Version 1 counts bios before merging."""

    read_bytes: int = 0
    write_bytes: int = 0
    reads: int = 0
    writes: int = 0


_V2_FIELDS = {"rbytes": "read_bytes", "wbytes": "write_bytes", "rios": "reads", "wios": "writes"}


def parse_io_stat(text: str) -> dict[str, GroupIoCounters]:
    """io.stat: `8:16 rbytes=1459200 wbytes=314773504 rios=192 wios=353 ...` by device.

    Keys come in any order, unknown ones are left out; a line without pairs is a device without an account.
    Source: Documentation/admin-guide/cgroup-v2.rst.
    """
    traffic: dict[str, GroupIoCounters] = {}
    for line in text.splitlines():
        device, *fields = line.split()
        pairs = [field.split("=", 1) for field in fields if "=" in field]
        counters = {_V2_FIELDS[key]: int(value) for key, value in pairs if key in _V2_FIELDS}
        if counters:
            traffic[device] = GroupIoCounters(**counters)
    return traffic


def parse_blkio(text: str) -> dict[str, dict[str, int]]:
    """Return a file of blkio.throttle.

    By device `major:minor`, the operation's name (Read, Write, ...) and its value.

    The last line, `Total N`, names no device and is left out.
    """
    values: dict[str, dict[str, int]] = {}
    for line in text.splitlines():
        fields = line.split()
        if len(fields) == 3:
            values.setdefault(fields[0], {})[fields[1]] = int(fields[2])
    return values


def join_blkio(serviced: str, service_bytes: str) -> dict[str, GroupIoCounters]:
    """Return the two files of version 1 as one account by device."""
    operations, sizes = parse_blkio(serviced), parse_blkio(service_bytes)
    return {
        device: GroupIoCounters(
            reads=counts.get("Read", 0),
            writes=counts.get("Write", 0),
            read_bytes=sizes.get(device, {}).get("Read", 0),
            write_bytes=sizes.get(device, {}).get("Write", 0),
        )
        for device, counts in operations.items()
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class CgroupIoLimits:
    """What a group may ask of one device in a second; None: no limit."""

    reads: int | None = None
    writes: int | None = None
    read_bytes: int | None = None
    write_bytes: int | None = None


_V2_LIMITS = {"riops": "reads", "wiops": "writes", "rbps": "read_bytes", "wbps": "write_bytes"}


def parse_io_max(text: str) -> dict[str, CgroupIoLimits]:
    """io.max: `8:16 rbps=2097152 wbps=max riops=max wiops=120` by device; `max` is no limit.

    Source: Documentation/admin-guide/cgroup-v2.rst.
    """
    limits_by_device: dict[str, CgroupIoLimits] = {}
    for line in text.splitlines():
        device, *fields = line.split()
        pairs = [field.split("=", 1) for field in fields if "=" in field]
        limits = {_V2_LIMITS[key]: int(value) for key, value in pairs if key in _V2_LIMITS and value.isdecimal()}
        if limits:
            limits_by_device[device] = CgroupIoLimits(**limits)
    return limits_by_device


def join_blkio_limits(reads: str, writes: str, read_bytes: str, write_bytes: str) -> dict[str, CgroupIoLimits]:
    """Return the four blkio.throttle limits of version 1 by device.

    Each line is `8:16 120`, a removed limit has none.

    Args:
        reads, writes: read_iops_device and write_iops_device.
        read_bytes, write_bytes: read_bps_device and write_bps_device.

    Source: Documentation/admin-guide/cgroup-v1/blkio-controller.rst.
    """
    named = {"reads": reads, "writes": writes, "read_bytes": read_bytes, "write_bytes": write_bytes}
    by_device: dict[str, dict[str, int]] = {}
    for name, text in named.items():
        for line in text.splitlines():
            device, _, value = line.partition(" ")
            if value.strip().isdecimal() and int(value) > 0:
                by_device.setdefault(device, {})[name] = int(value)
    return {device: CgroupIoLimits(**limits) for device, limits in by_device.items()}


def tightest(limits: Iterable[CgroupIoLimits]) -> CgroupIoLimits:
    """Return the least of each limit: a group is held to its own and to those of all groups around it."""
    listed = list(limits)

    def least(values: Iterable[int | None]) -> int | None:
        return min((value for value in values if value is not None), default=None)

    return CgroupIoLimits(
        reads=least(entry.reads for entry in listed),
        writes=least(entry.writes for entry in listed),
        read_bytes=least(entry.read_bytes for entry in listed),
        write_bytes=least(entry.write_bytes for entry in listed),
    )


_CPU_FIELDS = {
    "usage_usec": "used_us",
    "nr_periods": "periods",
    "nr_throttled": "throttled",
    "throttled_usec": "throttled_us",
}


def parse_cpu_stat(stat: str, usage: str = "") -> dict[str, int]:
    """Return `used_us`, and with a quota `periods`, `throttled` and `throttled_us`, from cpu.stat.

    Args:
        stat: cpu.stat; of version 2 it holds the time used as well.
        usage: cpuacct.usage of version 1, nanoseconds.

    `throttled_us` adds up the time for which each CPU did not run the group's tasks that it had (of version 1
    `throttled_time`, nanoseconds). Source: Documentation/admin-guide/cgroup-v2.rst;
    Documentation/scheduler/sched-bwc.rst; throttled_time of kernel/sched/fair.c.
    """
    fields = dict(line.split(None, 1) for line in stat.splitlines() if len(line.split()) == 2)
    account = {name: int(fields[key]) for key, name in _CPU_FIELDS.items() if key in fields}
    if "throttled_time" in fields:
        account["throttled_us"] = int(fields["throttled_time"]) // 1000
    if usage.strip():
        account["used_us"] = int(usage) // 1000
    return account


def parse_proc_cgroup(text: str) -> dict[str, str]:
    """/proc/PID/cgroup as controller to path; version 2 has the empty name."""
    paths: dict[str, str] = {}
    for line in text.splitlines():
        fields = line.split(":", 2)
        if len(fields) == 3:
            paths.update(dict.fromkeys(fields[1].split(","), fields[2]))
    return paths


def parse_counts(text: str) -> dict[str, int]:
    """memory.events and memory.stat: `high 12` a line; what is no count is left out.

    Source: Documentation/admin-guide/cgroup-v2.rst.
    """
    fields = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in fields if len(pair) == 2 and pair[1].isdecimal()}
