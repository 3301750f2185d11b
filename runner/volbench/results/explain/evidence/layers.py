"""Layer accounting: the same operations counted at each layer between the server and the volume.

Layers from top to bottom: the server's files (performance_schema), the server's control group (cgroup_io), the
block device (diskstats), the volume's own counters. Units at each layer: operations/s, MiB/s, and operations in
flight.

Derivation. Little's law holds at every layer and for every part of the operations: N = X * T, with N operations in
flight (1), X operations/s, T seconds that each takes. A timer that adds up the time of all operations grows by N
seconds in each second, so N needs no assumption about arrivals. The layers are nested: an operation that the server
waits for is in flight in the server from its call to its return, and in flight at the device for a part of that
time.

    N(server) = N(above the device) + N(device, own operations)
    N(device) = N(device, own operations) + N(device, foreign operations)

Both right-hand terms are at least 0, hence N(above) >= N(server) - N(device): `operations_above` is a lower bound.
Foreign operations and the server's asynchronous read-ahead only make it smaller. Hits of a page cache take no time
and stay in the server's count, so the bound needs no equal number of operations.

Bytes are conserved downwards: device bytes = own bytes + foreign bytes. What makes own bytes larger at the device
than in the server's files is bounded in `allowed_own_writes` and `allowed_own_reads`: blocks that are written
whole, the file system's journal, and read-ahead of a page cache. The doublewrite buffer is a file of the server,
its bytes are in both counts. Merging and splitting change the number of operations and not their bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from volbench.results.explain.evidence.device import FILE_LAYER, Device, Direction
from volbench.results.stats.grid import Floats, Grid, Mask, mean

Operation = Literal["read", "write", "sync"]
CGROUP = "cgroup_io"
SERVER = "server"
"""The entity of the server's control group."""
LOGS = ("redo", "binlog")
READ_SLACK = 1.15
"""Own reads at the device against those of the files: a file system reads its metadata, extents split pages."""
WRITE_SLACK = 1.25
BLOCK_MIB = 4 / 1024
"""A write of a few bytes to a page cache reaches the device as a block of 4 KiB."""
JOURNAL_MIB = 32 / 1024
JOURNAL_WRITES = 4.0
"""A journal's commit for one sync (ext4, XFS): a descriptor, some metadata blocks, the commit block."""
SPLIT_MIB = 0.125
"""The least max_sectors_kb of usual devices: a longer write is split into pieces of this size."""
_JOURNALS_DATA = "data=journal"
WRITEBACK_S = 35.0
"""Linux writes a dirty page of a page cache back after 30 s (vm.dirty_expire_centisecs), checked each 5 s."""
FOREIGN_OPERATIONS_MIN, FOREIGN_MIB_MIN = 20.0, 2.0
"""Operations/s and MiB/s below which others' I/O is the operating system's own small change."""


@dataclass(frozen=True, kw_only=True)
class Flow:
    """Operations of one kind at one layer. Arrays have shape (buckets,), NaN where nothing is known.

    Args:
        layer: its name, as a report says it.
        rate: operations/s.
        in_flight: mean number of operations queued or in service; None: not known.
        mib_per_s: None: not known.
    """

    layer: str
    rate: Floats
    in_flight: Floats | None = None
    mib_per_s: Floats | None = None

    @property
    def each_ms(self) -> float | None:
        """Mean time of one operation over all buckets: sum of N against sum of X; None without an operation."""
        if self.in_flight is None:
            return None
        both = np.isfinite(self.rate) & np.isfinite(self.in_flight)
        total = float(self.rate[both].sum())
        return 1000 * float(self.in_flight[both].sum()) / total if total > 0 else None

    @property
    def each_ms_series(self) -> Floats | None:
        """The same in each bucket, shape (buckets,); NaN without an operation."""
        if self.in_flight is None:
            return None
        values: Floats = np.full(len(self.rate), np.nan)
        np.divide(1000 * self.in_flight, self.rate, out=values, where=self.rate > 0)
        return values

    @property
    def size_kib(self) -> float | None:
        """Mean size of one operation; None where it is not known."""
        if self.mib_per_s is None:
            return None
        both = np.isfinite(self.rate) & np.isfinite(self.mib_per_s)
        total = float(self.rate[both].sum())
        return 1024 * float(self.mib_per_s[both].sum()) / total if total > 0 else None


@dataclass(frozen=True, kw_only=True)
class ForeignFlow:
    """I/O of the device that the server never sent. Arrays have shape (buckets,); a bucket without data is 0.

    `share` is the foreign part of the device's operations or of its bytes, whichever is larger: a device has one
    queue, and a copy fills it with a few large operations as well as a neighbour with many small ones.
    """

    reads: Floats
    writes: Floats
    discards: Floats
    read_mib_per_s: Floats
    write_mib_per_s: Floats
    share: Floats

    @property
    def operations(self) -> Floats:
        """All foreign operations/s."""
        return self.reads + self.writes + self.discards

    @property
    def mib_per_s(self) -> Floats:
        """All foreign bytes, MiB/s."""
        return self.read_mib_per_s + self.write_mib_per_s


def server_flow(grid: Grid, operation: Operation, kinds: tuple[str, ...] | None = None) -> Flow | None:
    """Operations of the server's files as performance_schema counts them; None where it does not.

    Args:
        grid: the aligned series.
        operation: of the kind `sync`, performance_schema also counts opening, closing and stat.
        kinds: classes of files; None: all of them.
    """
    classes = grid.entities(FILE_LAYER, f"file_{operation}s_per_s")
    chosen = [kind for kind in classes if kinds is None or kind in kinds]
    rate = _sum(grid, f"file_{operation}s_per_s", chosen)
    if rate is None:
        return None
    return Flow(
        layer="the server's files",
        rate=rate,
        in_flight=_sum(grid, f"file_{operation}_s_per_s", chosen),
        mib_per_s=None if operation == "sync" else _sum(grid, f"file_{operation}_mib_per_s", chosen),
    )


def cgroup_flow(grid: Grid, direction: Direction, disk: str = "") -> Flow | None:
    """Operations of the server's control group below its limits; None where nothing counted them.

    Args:
        grid: the aligned series.
        direction: reads or writes.
        disk: kernel name of the volume's disk, for accounts that are kept by device.
    """
    for entity, metric in ((SERVER, f"{direction}_ops_per_s"), (disk, f"{direction}s_per_s")):
        rate = grid.column(CGROUP, metric, entity)
        if rate is not None:
            bytes_ = grid.column(CGROUP, f"{direction}_mib_per_s", entity)
            return Flow(layer="the server's control group", rate=rate, mib_per_s=bytes_)
    return None


def device_flow(device: Device, direction: Direction) -> Flow | None:
    """Operations of one direction at the device, foreign ones included; None where it does not tell them apart."""
    view = device.only(direction)
    if view is None:
        return None
    return Flow(layer="the device", rate=view.iops, in_flight=view.in_flight, mib_per_s=view.mib_per_s)


def operations_above(upper: Flow, lower: Flow) -> Floats | None:
    """Operations in flight between two layers, at least: N(upper) - N(lower), 0 where that is negative.

    Args:
        upper, lower: the same operations at both layers, arrays of shape (buckets,).

    Returns shape (buckets,), NaN where either is not known; None where a layer counts no time.
    """
    if upper.in_flight is None or lower.in_flight is None:
        return None
    return np.maximum(0.0, upper.in_flight - lower.in_flight)


def time_above_ms(upper: Flow, lower: Flow) -> float | None:
    """Milliseconds that one operation of the upper layer waits between two layers, at least; None: not known.

    Little's law for the space between both: T = N(above) / X(upper).
    """
    above = operations_above(upper, lower)
    if above is None:
        return None
    both = np.isfinite(above) & np.isfinite(upper.rate)
    total = float(upper.rate[both].sum())
    return 1000 * float(above[both].sum()) / total if total > 0 else None


def reads_directly(variables: Mapping[str, str], mount_options: Sequence[str] = ()) -> bool:
    """Whether InnoDB goes past the page cache, so that device bytes are the server's own bytes.

    ext4 with data=journal has no direct I/O: it is done through the page cache, with its read-ahead. Source:
    Documentation/admin-guide/ext4.rst, and ext4_should_use_dio in fs/ext4/file.c.
    """
    asks = variables.get("innodb_flush_method", "").upper().startswith("O_DIRECT")
    return asks and _JOURNALS_DATA not in mount_options


def allowed_own_reads(grid: Grid, disk: str, *, direct: bool) -> tuple[Floats, Floats | None] | None:
    """Reads/s and MiB/s that the server's own files explain at the device at most; None where they are not known.

    Args:
        grid: the aligned series.
        disk: kernel name of the volume's disk.
        direct: the server reads past the page cache. Else read-ahead of the page cache makes the bytes larger
            without a bound, and the second value is None.
    """
    files, group = server_flow(grid, "read"), cgroup_flow(grid, "read", disk)
    if files is None:
        return None
    rate, mib_per_s = files.rate, files.mib_per_s if direct else None
    if group is not None:
        rate = np.fmax(rate, group.rate)
        if mib_per_s is not None and group.mib_per_s is not None:
            mib_per_s = np.fmax(mib_per_s, group.mib_per_s)
    return READ_SLACK * rate, None if mib_per_s is None else READ_SLACK * mib_per_s


def allowed_own_writes(grid: Grid, disk: str, *, direct: bool, copies: float = 1.0) -> tuple[Floats, Floats] | None:
    """Writes/s and MiB/s that the server's own files explain at the device at most; None where they are not known.

    Bytes: those of the files, or those that InnoDB counts where they are more (a redo log without an instrument),
    with a slack; a whole block for each write, a journal's commit for each sync; the first two `copies` times,
    where the file system writes data to its journal first (`written_copies`). Operations: the writes, a journal's
    writes for each sync, and the pieces that long writes are split into. What went to a page cache may
    reach the device up to WRITEBACK_S later: unspent bytes are carried over as a credit.
    """
    files, syncs = server_flow(grid, "write"), server_flow(grid, "sync", (*LOGS, "dblwr", "data", "other", "temp"))
    if files is None or files.mib_per_s is None:
        return None
    own_mib, sync_rate = files.mib_per_s, np.zeros(len(grid)) if syncs is None else np.nan_to_num(syncs.rate)
    innodb, logs = (
        grid.column("innodb", "data_written_mib_per_s"),
        grid.column(FILE_LAYER, "file_write_mib_per_s", "binlog"),
    )
    if innodb is not None:
        own_mib = np.fmax(own_mib, innodb + (0.0 if logs is None else np.nan_to_num(logs)))
    fsyncs = grid.column("innodb", "data_fsyncs_per_s")
    sync_rate = sync_rate if fsyncs is None else np.fmax(sync_rate, np.nan_to_num(fsyncs))
    group = cgroup_flow(grid, "write", disk)
    if group is not None and group.mib_per_s is not None:
        own_mib = np.fmax(own_mib, group.mib_per_s)
    rate = files.rate if group is None else np.fmax(files.rate, group.rate)
    allowed_mib = copies * (WRITE_SLACK * own_mib + BLOCK_MIB * rate) + JOURNAL_MIB * sync_rate
    allowed_rate = copies * (WRITE_SLACK * rate + own_mib / SPLIT_MIB) + JOURNAL_WRITES * sync_rate
    buffered = allowed_mib if not direct else _buffered_writes(grid, allowed_mib)
    return allowed_rate, allowed_mib + _credit(buffered, grid.width_s)


def written_copies(mount_options: Sequence[str]) -> float:
    """How often a file system writes each byte: ext4 with data=journal to its journal, then to its place.

    Source: Documentation/admin-guide/ext4.rst. Counters of the device and of the group see both, files see one.
    """
    return 2.0 if _JOURNALS_DATA in mount_options else 1.0


def foreign_flow(grid: Grid, device: Device, *, direct: bool, copies: float = 1.0) -> ForeignFlow | None:
    """I/O of the device that no layer above it sent; None where one side is not known.

    Args:
        grid: the aligned series.
        device: the volume on this grid. A network file system counts this host's operations only: None.
        direct: see `allowed_own_reads`.
        copies: see `written_copies`.
    """
    own_reads = allowed_own_reads(grid, device.entity, direct=direct)
    own_writes = allowed_own_writes(grid, device.entity, direct=direct, copies=copies)
    if device.source == "mountstats" or device.reads is None or own_reads is None:
        return None
    nothing = np.zeros(len(grid))
    reads, read_mib = _beyond(device.reads, own_reads[0]), nothing
    if device.read_mib_per_s is not None:
        if own_reads[1] is None:
            read_mib = reads * _ratio(np.nan_to_num(device.read_mib_per_s), device.reads)
        else:
            read_mib = _beyond(device.read_mib_per_s, own_reads[1])
    writes, write_mib = nothing, nothing
    if own_writes is not None and device.writes is not None and device.write_mib_per_s is not None:
        writes, write_mib = _beyond(device.writes, own_writes[0]), _beyond(device.write_mib_per_s, own_writes[1])
    discard_rate = grid.column(device.source, "discards_per_s", device.entity)
    discards = nothing if discard_rate is None else np.nan_to_num(discard_rate)
    operations, mib_per_s = reads + writes + discards, read_mib + write_mib
    total = np.nan_to_num(device.iops) + discards
    total_mib = nothing if device.mib_per_s is None else np.nan_to_num(device.mib_per_s)
    share = np.where(operations >= FOREIGN_OPERATIONS_MIN, _ratio(operations, total), 0.0)
    share_mib = np.where(mib_per_s >= FOREIGN_MIB_MIN, _ratio(mib_per_s, total_mib), 0.0)
    return ForeignFlow(
        reads=reads,
        writes=writes,
        discards=discards,
        read_mib_per_s=read_mib,
        write_mib_per_s=write_mib,
        share=np.maximum(share, share_mib),
    )


def configured_limits(grid: Grid, direction: Direction) -> dict[Literal["iops", "throughput"], Floats]:
    """The tightest limits of the server's control group and its ancestors, by resource; operations/s, MiB/s."""
    names: dict[Literal["iops", "throughput"], str] = {"iops": "iops_max", "throughput": "mib_per_s_max"}
    columns = {resource: grid.column(CGROUP, f"{direction}_{name}", SERVER) for resource, name in names.items()}
    return {resource: column for resource, column in columns.items() if column is not None}


def stretches(active: Mask, *, gap: int, least: int) -> tuple[tuple[int, int], ...]:
    """First and last + 1 bucket of stretches of a mask; shorter gaps than `gap` are closed, short stretches go.

    Args:
        active: shape (buckets,).
        gap: buckets of a gap that ends a stretch.
        least: buckets that a stretch has at least.
    """
    joined: list[tuple[int, int]] = []
    edges = np.flatnonzero(np.diff(np.concatenate([[False], active, [False]]).astype(np.int8)))
    for first, last in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        if joined and first - joined[-1][1] < gap:
            joined[-1] = (joined[-1][0], last)
        else:
            joined.append((first, last))
    return tuple(pair for pair in joined if int(active[slice(*pair)].sum()) >= least)


def _sum(grid: Grid, metric: str, kinds: list[str]) -> Floats | None:
    columns = [column for kind in kinds if (column := grid.column(FILE_LAYER, metric, kind)) is not None]
    return np.asarray(np.sum(columns, axis=0)) if columns else None


def _beyond(values: Floats, allowed: Floats) -> Floats:
    """What exceeds the allowed amount; 0 where either is not known."""
    return np.nan_to_num(np.maximum(0.0, values - allowed))


def _ratio(values: Floats, total: Floats) -> Floats:
    shares: Floats = np.zeros(len(values))
    np.divide(values, total, out=shares, where=np.nan_to_num(total) > 0)
    return np.clip(shares, 0.0, 1.0)


def _buffered_writes(grid: Grid, allowed_mib: Floats) -> Floats:
    """MiB/s that go to a page cache and are not synced: temporary files above all."""
    kinds = [
        kind
        for kind in grid.entities(FILE_LAYER, "file_write_mib_per_s")
        if kind not in ("data", "dblwr")
        and not (mean(grid.column(FILE_LAYER, "file_syncs_per_s", kind)) or 0.0) > 0.5
    ]
    columns = _sum(grid, "file_write_mib_per_s", kinds)
    return np.zeros(len(allowed_mib)) if columns is None else columns


def _credit(buffered_mib_per_s: Floats, width_s: float) -> Floats:
    """MiB/s that a page cache may still write back in a bucket: what was buffered in the WRITEBACK_S before it."""
    buckets = max(1, round(WRITEBACK_S / width_s))
    total = np.concatenate([[0.0], np.cumsum(np.nan_to_num(buffered_mib_per_s))])
    first = np.maximum(0, np.arange(len(buffered_mib_per_s)) - buckets)
    return np.asarray(total[:-1] - total[first])
