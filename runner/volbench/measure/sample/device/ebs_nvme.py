"""Source `ebs_nvme`: what an EBS volume counts itself, read from its NVMe controller.

`volume_exceeded_*_ratio` is the share of time in which the load was above the *volume's* limit,
`instance_exceeded_*_ratio` above that of the *instance*. Reading needs CAP_SYS_ADMIN;
in a pod the node's helper reads.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from typing_extensions import override

from volbench.core.records.series import SeriesRow
from volbench.machine.volume.node_helper import ask_for_log_page
from volbench.measure.sample.change import MIB, Change, ratio
from volbench.measure.sample.config import SamplingConfig
from volbench.measure.sample.interface import Reading, Sampler, Unavailable, Values
from volbench.measure.sample.parsers.ebs_nvme import LOG_PAGE_BYTES, LOG_PAGE_ID, LatencyBin, parse_log_page
from volbench.measure.sample.shared import Shared

NVME_IOCTL_ADMIN_CMD = 0xC0484E41
_GET_LOG_PAGE = 0x02
_NAMESPACE = 1
_ADMIN_COMMAND = struct.Struct("<BBHIIIQQIIIIIIIIII")
"""struct nvme_admin_cmd of linux/nvme_ioctl.h, 72 bytes."""
_TIMEOUT_MS = 1000
COUNTERS = (
    "reads",
    "writes",
    "read_bytes",
    "write_bytes",
    "read_us",
    "write_us",
    "volume_exceeded_iops_us",
    "volume_exceeded_throughput_us",
    "instance_exceeded_iops_us",
    "instance_exceeded_throughput_us",
)
_EXCEEDED = (
    "volume_exceeded_iops",
    "volume_exceeded_throughput",
    "instance_exceeded_iops",
    "instance_exceeded_throughput",
)


class EbsNvmeSampler(Sampler):
    """Reads the log page of some devices.

    Args:
        devices: device files such as /dev/nvme1n1.
        helper: socket of the node's privileged helper, which reads for a pod that sees no device.
    """

    source: ClassVar[str] = "ebs_nvme"
    lane: ClassVar[str] = "ebs_nvme"

    def __init__(self, devices: Sequence[str], helper: Path | None = None) -> None:
        self._devices = tuple(Path(device) for device in devices)
        self._helper = helper
        self._fds: dict[Path, int] = {}

    @classmethod
    @override
    def from_config(cls, config: SamplingConfig, shared: Shared) -> Sampler:
        """Return the sampler."""
        return cls(config.nvme_devices, Path(config.node_helper) if config.node_helper else None)

    @classmethod
    def is_remote(cls, config: SamplingConfig) -> bool:
        """Return whether a device is there to be asked."""
        return bool(config.nvme_devices)

    def read(self) -> Values:
        """Return counters of each device, and the counts of its latency bins."""
        if not self._devices:
            raise Unavailable("no NVMe device is behind the data directory")
        values: Values = {}
        for device in self._devices:
            try:
                page = parse_log_page(self._log_page(device))
            except (OSError, ValueError) as error:
                raise Unavailable(f"{device}: no EBS statistics: {error}") from error
            values |= {(name, device.name): getattr(page, name) for name in (*COUNTERS, "queue_length")}
            for direction, bins in (("r", page.read_latency), ("w", page.write_latency)):
                values |= {
                    (_bin_name(direction, latency_bin), device.name): latency_bin.count for latency_bin in bins
                }
        return values

    def _log_page(self, device: Path) -> bytes:
        if self._helper is not None:
            return ask_for_log_page(self._helper, device.name)
        if device not in self._fds:
            self._fds[device] = _opened(device)
        return _page_of(self._fds[device])

    def close(self) -> None:
        """Close the devices."""
        for fd in self._fds.values():
            os.close(fd)
        self._fds.clear()

    @staticmethod
    def rates(before: Reading, after: Reading) -> Iterator[SeriesRow]:
        """Yield rates by device. A device whose counters went backwards was attached anew: no row."""
        change = Change(source=EbsNvmeSampler.source, before=before, after=after)
        if not change.usable:
            return
        for device in change.entities("reads"):
            if change.grown_sum(COUNTERS, device) is None:
                continue
            yield from change.rows(ebs_rates(change, device), device)
            for direction in ("r", "w"):
                yield from change.rows(_latencies(change, direction, device), device)


def read_log_page(device: Path) -> bytes:
    """Return the log page of a device that is opened for it. Raises OSError."""
    fd = _opened(device)
    try:
        return _page_of(fd)
    finally:
        os.close(fd)


def _opened(device: Path) -> int:
    return os.open(device, os.O_RDONLY | os.O_CLOEXEC)


def _page_of(fd: int) -> bytes:
    page = ctypes.create_string_buffer(LOG_PAGE_BYTES)
    fcntl.ioctl(fd, NVME_IOCTL_ADMIN_CMD, admin_command(ctypes.addressof(page)))
    return page.raw


def admin_command(address: int) -> bytes:
    """Return the command that has the controller write its log page to `address`.

    Source: NVMe base specification, Get Log Page: the page's number, and dwords wanted from bit 16.
    """
    dwords = (LOG_PAGE_BYTES // 4) << 16
    return _ADMIN_COMMAND.pack(
        _GET_LOG_PAGE,
        0,
        0,
        _NAMESPACE,
        0,
        0,
        0,
        address,
        0,
        LOG_PAGE_BYTES,
        LOG_PAGE_ID | dwords,
        0,
        0,
        0,
        0,
        0,
        _TIMEOUT_MS,
        0,
    )


def ebs_rates(change: Change, entity: str) -> Iterator[tuple[str, float | None]]:
    """Yield the metrics of the log page's counters; an emulated volume keeps them too."""
    yield "reads_per_s", change.per_s("reads", entity)
    yield "writes_per_s", change.per_s("writes", entity)
    yield "read_mib_per_s", change.per_s("read_bytes", entity, unit=MIB)
    yield "write_mib_per_s", change.per_s("write_bytes", entity, unit=MIB)
    yield "r_await_ms", ratio(change.grown("read_us", entity), change.grown("reads", entity), scale=1e-3)
    yield "w_await_ms", ratio(change.grown("write_us", entity), change.grown("writes", entity), scale=1e-3)
    for name in _EXCEEDED:
        yield f"{name}_ratio", change.per_s(f"{name}_us", entity, unit=1e6)
    yield "queue_length", change.gauge("queue_length", entity)


def _bin_name(direction: str, latency_bin: LatencyBin) -> str:
    return f"{direction}_bin {latency_bin.lower_us} {latency_bin.upper_us}"


def _latencies(change: Change, direction: str, device: str) -> Iterator[tuple[str, float | None]]:
    """Yield quantiles within the interval, on a straight line within their bin."""
    bins = []
    for name, entity in change.after.values:
        kind, _, edges = name.partition(" ")
        if entity == device and kind == f"{direction}_bin":
            lower, upper = map(int, edges.split())
            bins.append(LatencyBin(lower_us=lower, upper_us=upper, count=int(change.grown(name, entity) or 0)))
    for name, level in (("p50", 0.5), ("p99", 0.99)):
        yield (
            f"{direction}_latency_ms_{name}",
            _quantile_ms(sorted(bins, key=lambda latency_bin: latency_bin.lower_us), level),
        )


def _quantile_ms(bins: list[LatencyBin], level: float) -> float | None:
    remaining = level * sum(latency_bin.count for latency_bin in bins)
    for entry in bins:
        if entry.count and entry.count >= remaining:
            return (entry.lower_us + (entry.upper_us - entry.lower_us) * remaining / entry.count) / 1000
        remaining -= entry.count
    return None
