"""Counts the I/O of a candidate's volume during a replay, second by second.

The counters are those of the block device where this machine has the data directory; else InnoDB's, which count
requests to its own files, but not the binary log, and not the effect of a page cache.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import mysql.connector

from volbench.errors import UsageError
from volbench.machine.engine.connection import Account, as_text, rows
from volbench.machine.volume.facts.discovery import discover
from volbench.measure.sample.device.diskstats import DiskStats
from volbench.measure.sample.interface import Unavailable
from volbench.measure.sample.parsers.diskstats import SECTOR_BYTES
from volbench.measure.sample.parsers.innodb import STATUS_QUERY, parse_status

_STATUS_BOUND_S = 5.0


@dataclass(frozen=True, kw_only=True)
class IoCounters:
    """Counters at one moment: requests and bytes since an arbitrary start, and pages still to be written."""

    t_s: float
    reads: float
    writes: float
    read_bytes: float
    written_bytes: float
    dirty_pages: float


class Meter:
    """Forwards a replay's progress, and reads counters each time: once a second, from the first statement on."""

    def __init__(self, account: Account, data_dir: str, progress: Callable[[str, float], None]) -> None:
        """Raise UsageError for a data directory without a device behind it, MissingPrerequisite for none."""
        self._account, self._progress = account, progress
        self._disk = _disk_of(data_dir) if data_dir else ""
        self._device = DiskStats([self._disk]) if self._disk else None
        self.counts: list[IoCounters] = []

    @property
    def counted_by(self) -> str:
        """Return the source of the counters in words."""
        return f"the device {self._disk}" if self._disk else "InnoDB, so without the binary log"

    def __call__(self, activity: str, share: float) -> None:
        """Progress, as a replay reports it; before its first statement the share is 0."""
        self._progress(activity, share)
        if share > 0:
            self.take()

    def take(self) -> None:
        """Read the counters once; a server that does not answer leaves a gap, which the next reading spans."""
        with suppress(mysql.connector.Error, Unavailable, OSError, KeyError):
            status = parse_status(
                (as_text(name), as_text(value))
                for name, value in rows(self._account, STATUS_QUERY, timeout_s=_STATUS_BOUND_S)
            )
            self.counts.append(_of_device(self._device, status) if self._device else _of_server(status))

    def close(self) -> None:
        """Close the device's counters."""
        if self._device is not None:
            self._device.close()


def _disk_of(data_dir: str) -> str:
    facts = discover(Path(data_dir))
    if facts.disk is None:
        raise UsageError(
            "no block device is behind the candidate's data directory",
            where="burst.data_dir",
            evidence=f"{data_dir} is on {facts.filesystem}",
            next_step="omit data_dir to use InnoDB's own counters",
        )
    return facts.disk


def _of_device(device: DiskStats, status: Mapping[str, float]) -> IoCounters:
    counters = {name: value for (name, _), value in device.read().items()}
    return IoCounters(
        t_s=time.monotonic(),
        reads=counters["reads"],
        writes=counters["writes"],
        read_bytes=counters["read_sectors"] * SECTOR_BYTES,
        written_bytes=counters["write_sectors"] * SECTOR_BYTES,
        dirty_pages=status["innodb_buffer_pool_pages_dirty"],
    )


def _of_server(status: Mapping[str, float]) -> IoCounters:
    return IoCounters(
        t_s=time.monotonic(),
        reads=status["innodb_data_reads"],
        writes=status["innodb_data_writes"],
        read_bytes=status["innodb_data_read"],
        written_bytes=status["innodb_data_written"],
        dirty_pages=status["innodb_buffer_pool_pages_dirty"],
    )
