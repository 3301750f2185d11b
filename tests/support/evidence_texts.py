"""Texts of tools as users have them, of a volume whose figures are given: for tests of what is read out of them.

The figures are our own; the layouts are those of the tools (sysstat 12, AWS' CLI), as in tests/fixtures/evidence.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

START = datetime(2025, 3, 11, 14, 0, 0)
START_UTC = START.replace(tzinfo=UTC)
_HEADING = (
    "Device            r/s     w/s     rkB/s     wkB/s   rrqm/s   wrqm/s  %rrqm  %wrqm r_await w_await aqu-sz"
    " rareq-sz wareq-sz  %util\n"
)
_CPU = "avg-cpu:  %user   %nice %system %iowait  %steal   %idle\n"


@dataclass(frozen=True, kw_only=True)
class Second:
    """What a volume did in one interval: operations a second, KiB of one, ms of one, CPUs busy in percent."""

    reads: float = 0.0
    writes: float = 0.0
    kib: float = 16.0
    read_ms: float = 1.0
    write_ms: float = 1.0
    busy: float = 8.0

    @property
    def in_flight(self) -> float:
        """By Little's law."""
        return (self.reads * self.read_ms + self.writes * self.write_ms) / 1000

    @property
    def util(self) -> float:
        """Percent of the time with an operation in flight."""
        return min(100.0, 100 * self.in_flight)


def jitter(number: int, piece: float = 0.02) -> float:
    """Return a factor around 1 that varies with the number and is the same in every run."""
    return 1 + piece * ((number * 7919 % 101) / 50 - 1)


def limited(iops: float, seconds: int, *, kib: float = 16.0, queue: Sequence[float] = (24, 30)) -> list[Second]:
    """Return reads at a limit of operations: an even rate, a queue that varies, waiting times by Little's law."""
    rows = []
    for number in range(seconds):
        waiting = queue[0] + (queue[1] - queue[0]) * (number * 37 % 11) / 10
        rate = iops * jitter(number, 0.001)
        rows.append(Second(reads=rate, kib=kib, read_ms=1000 * waiting / rate))
    return rows


def quiet(seconds: int, *, iops: float = 300.0, kib: float = 16.0, read_ms: float = 0.8) -> list[Second]:
    """Return a volume that has little to do."""
    return [
        Second(reads=0.8 * iops * jitter(number, 0.2), writes=0.2 * iops, kib=kib, read_ms=read_ms, write_ms=0.7)
        for number in range(seconds)
    ]


def iostat(
    seconds: Iterable[Second],
    *,
    host: str = "db1",
    device: str = "nvme1n1",
    start: datetime = START,
    step_s: float = 1.0,
    clock: str = "%m/%d/%Y %I:%M:%S %p",
    more_devices: Sequence[tuple[str, Second]] = (),
    kernel: str = "5.15.0",
) -> str:
    """Return `iostat -xt`; without `-t` where `clock` is empty. The first report is that since boot."""
    lines = [f"Linux {kernel} ({host}) \t{start:%m/%d/%Y} \t_x86_64_\t(8 CPU)\n\n"]
    rows = list(seconds)
    for number, second in enumerate([rows[0], *rows]):
        if clock:
            lines.append(f"{start + timedelta(seconds=number * step_s):{clock}}\n")
        lines.append(_CPU)
        lines.append(f"{second.busy:16.2f}    0.00    2.00    4.00    0.00  {94 - second.busy:6.2f}\n\n{_HEADING}")
        lines += [_iostat_row(name, value) for name, value in ((device, second), *more_devices)]
        lines.append("\n")
    return "".join(lines)


def _iostat_row(device: str, second: Second) -> str:
    return (
        f"{device:<10}{second.reads:9.2f}{second.writes:8.2f}{second.reads * second.kib:10.2f}"
        f"{second.writes * second.kib:10.2f}     0.00     0.00   0.00   0.00{second.read_ms:8.2f}"
        f"{second.write_ms:8.2f}{second.in_flight:7.2f}{second.kib:9.2f}{second.kib:9.2f}{second.util:7.2f}\n"
    )


def sar(
    seconds: Iterable[Second],
    *,
    host: str = "db1",
    device: str = "nvme1n1",
    start: datetime = START,
    step_s: float = 600.0,
    clock: str = "%H:%M:%S",
    banner_date: str = "%m/%d/%Y",
) -> str:
    """Return `sar -d -p` of one device."""
    head = "DEV       tps     rkB/s     wkB/s     dkB/s   areq-sz    aqu-sz     await     %util\n"
    lines = [
        f"Linux 5.15.0 ({host}) \t{start:{banner_date}} \t_x86_64_\t(8 CPU)\n\n",
        f"{start:{clock}}          {head}",
    ]
    for number, second in enumerate(seconds, start=1):
        at = start + timedelta(seconds=number * step_s)
        total = second.reads + second.writes
        waited = 0.0 if not total else 1000 * second.in_flight / total
        lines.append(
            f"{at:{clock}}  {device:>13}{total:9.2f}{second.reads * second.kib:10.2f}"
            f"{second.writes * second.kib:10.2f}      0.00{second.kib:10.2f}{second.in_flight:10.2f}{waited:10.2f}"
            f"{second.util:10.2f}\n"
        )
    return "".join(lines)


def metric_data(
    columns: Mapping[str, Sequence[float]],
    *,
    start: datetime = START_UTC,
    period_s: float = 60.0,
    ids: Sequence[str] = (),
) -> str:
    """Return an answer of `aws cloudwatch get-metric-data`; the keys are labels."""
    results = []
    for number, (label, values) in enumerate(columns.items()):
        times = [start + timedelta(seconds=index * period_s) for index in range(len(values))]
        results.append(
            {
                "Id": ids[number] if ids else f"m{number}",
                "Label": label,
                "Timestamps": [time.isoformat().replace("+00:00", "Z") for time in times],
                "Values": list(values),
                "StatusCode": "Complete",
            }
        )
    return json.dumps({"MetricDataResults": results}, indent=1)


def metric_statistics(
    label: str,
    values: Sequence[float],
    *,
    statistic: str = "Sum",
    unit: str = "Count",
    start: datetime = START_UTC,
    period_s: float = 60.0,
) -> str:
    """Return an answer of `aws cloudwatch get-metric-statistics`, whose points are in no order."""
    points = [
        {
            "Timestamp": (start + timedelta(seconds=index * period_s)).isoformat(),
            statistic: value,
            "Unit": unit,
        }
        for index, value in enumerate(values)
    ]
    return json.dumps({"Label": label, "Datapoints": points[1::2] + points[::2]}, indent=1)
