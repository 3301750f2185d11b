"""Source `mountstats`: the NFS mount that carries the data directory.

`*_await_ms` is what the caller waited for, `*_rtt_ms` what network and server took; the difference is the client's
own queue.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from typing_extensions import override

from volbench.core.records.series import SeriesRow
from volbench.core.records.sources.device.mountstats import TIMED_OPERATIONS
from volbench.measure.sample.change import MIB, Change, ratio
from volbench.measure.sample.config import SamplingConfig
from volbench.measure.sample.files import KernelFile
from volbench.measure.sample.interface import Reading, Sampler, Unavailable, Values
from volbench.measure.sample.parsers.mountstats import (
    ALL_KINDS,
    METADATA,
    NfsMount,
    operations_by_kind,
    parse_mountstats,
)
from volbench.measure.sample.shared import Shared

_COUNTERS = ("operations", "transmissions", "queue_ms", "rtt_ms", "execute_ms", "errors")


class MountStats(Sampler):
    """Reads the statistics of one mount.

    Args:
        mount_point: where the NFS is mounted, as in mountinfo; empty: the data directory is not on NFS.
        path: /proc/self/mountstats.
    """

    source: ClassVar[str] = "mountstats"

    def __init__(self, mount_point: str, path: Path = Path("/proc/self/mountstats")) -> None:
        self._mount_point = mount_point
        self._file = KernelFile(path)

    @classmethod
    @override
    def from_config(cls, config: SamplingConfig, shared: Shared) -> Sampler:
        """Return the sampler."""
        return cls(config.mount_point)

    def read(self) -> Values:
        """Return counters of the mount, by operation."""
        if not self._mount_point:
            raise Unavailable("the data directory is not on NFS")
        mounts = [m for m in parse_mountstats(self._file.read()) if m.mount_point == self._mount_point]
        if not mounts:
            raise Unavailable(f"{self._file.path} has no NFS mount on {self._mount_point}")
        return _values_of(mounts[-1])  # of mounts on top of each other, the last is seen

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @staticmethod
    def rates(before: Reading, after: Reading) -> Iterator[SeriesRow]:
        """Yield rates and waiting times. A mount whose counters went backwards was made anew: no row."""
        change = Change(source=MountStats.source, before=before, after=after)
        if not change.usable or change.grown("server_read") is None:
            return
        yield from change.rows(_rates_of(change))
        for operation, prefix in TIMED_OPERATIONS.items():
            count = change.grown("operations", operation)
            yield from change.rows(
                (
                    (f"{prefix}_await_ms", ratio(change.grown("execute_ms", operation), count)),
                    (f"{prefix}_rtt_ms", ratio(change.grown("rtt_ms", operation), count)),
                )
            )


def _values_of(mount: NfsMount) -> Values:
    values: Values = {(name, ""): value for name, value in mount.bytes.items()}
    for name, operation in operations_by_kind(mount).items():
        for counter in _COUNTERS:
            value = getattr(operation, counter)
            if value is not None and (operation.operations or name in TIMED_OPERATIONS):
                values[counter, name] = value
    for counter in ("sends", "bad_xids", "in_flight_sum", "backlog_sum"):
        if mount.transports:
            values[counter, ""] = sum(getattr(transport, counter) for transport in mount.transports)
    return values


def _rates_of(change: Change) -> Iterator[tuple[str, float | None]]:
    yield "reads_per_s", change.per_s("operations", "READ")
    yield "writes_per_s", change.per_s("operations", "WRITE")
    yield "commits_per_s", change.per_s("operations", "COMMIT")
    yield "read_mib_per_s", change.per_s("server_read", unit=MIB)
    yield "write_mib_per_s", change.per_s("server_write", unit=MIB)
    every = [entity for counter, entity in change.after.values if counter == "operations"]
    metadata = [operation for operation in every if operation in METADATA]
    operations = _sum(change, "operations", metadata)
    yield "metadata_ops_per_s", ratio(operations, change.dt_s)
    yield "metadata_await_ms", ratio(_sum(change, "execute_ms", metadata), operations)
    yield (
        "unknown_ops_per_s",
        ratio(_sum(change, "operations", [name for name in every if name not in ALL_KINDS]), change.dt_s),
    )
    yield "retransmissions_per_s", ratio(_retransmitted(change, every), change.dt_s)
    yield "errors_per_s", ratio(_sum(change, "errors", change.entities("errors")), change.dt_s)
    sends = change.grown("sends")
    yield "transport_in_flight", ratio(change.grown("in_flight_sum"), sends)
    yield "transport_backlog", ratio(change.grown("backlog_sum"), sends)


def _retransmitted(change: Change, operations: list[str]) -> float | None:
    """Return transmissions beyond one for each operation, kind by kind: one kind's never make up for another's."""
    total, has_any = 0.0, False
    for name in operations:
        sent, done = _grown(change, "transmissions", name), _grown(change, "operations", name)
        if sent is not None and done is not None:
            total, has_any = total + max(0.0, sent - done), True
    return total if has_any else None


def _grown(change: Change, counter: str, operation: str) -> float | None:
    """Return by how much a counter grew.

    An operation that had never been made has no counters before: it began at 0.
    """
    if (counter, operation) not in change.before.values and ("operations", "READ") in change.before.values:
        return change.after.values.get((counter, operation))
    return change.grown(counter, operation)


def _sum(change: Change, counter: str, operations: list[str]) -> float | None:
    """Return the growth over several operations; None when there is none of them."""
    grown = [_grown(change, counter, operation) for operation in operations]
    values = [value for value in grown if value is not None]
    return sum(values) if values and len(values) == len(grown) else None
