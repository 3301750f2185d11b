"""I/O of others on the same device: what it moved beyond the server's own bytes.

Bytes are conserved downwards: device bytes = own bytes + foreign bytes, cumulated: the difference of one interval
is off by the operations in flight at its ends. What makes own bytes larger at the device than in the server's files
is bounded in `allowed_own_writes` and `allowed_own_reads`: blocks that are written whole, the file system's
journal, and read-ahead of a page cache. The doublewrite buffer is a file of the server, its bytes are in both
counts. Merging and splitting (max_sectors_kb, chunks of a RAID) change the number of operations and not their
bytes: operations beyond the server's own are foreign only as far as foreign bytes can carry them, a block of 4 KiB
each at least.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from volbench.core.records.named_metrics import Diskstats, Innodb, PerformanceSchema
from volbench.results.explain.evidence.device import DIRECTIONS, Device
from volbench.results.explain.evidence.layers import LOGS, cgroup_flow, server_flow, summed
from volbench.results.stats.grid import Floats, Grid, Mask, mean

BYTES_SLACK = 1.03
"""Own bytes of direct reads at the device against those of the files, cumulated: they are the same ones."""
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
GROUP_HAS_ALL = 0.95
"""Of the bytes of the server's files, what its control group has at least where it has all of them: the two are
read a moment apart."""
_JOURNALS_DATA = "data=journal"
WRITEBACK_S = 35.0
"""Linux writes a dirty page of a page cache back after 30 s (vm.dirty_expire_centisecs), checked each 5 s."""
FOREIGN_OPERATIONS_MIN, FOREIGN_MIB_MIN = 20.0, 2.0
"""Operations/s and MiB/s below which others' I/O is the operating system's own small change."""


@dataclass(frozen=True, kw_only=True)
class ForeignFlow:
    """I/O of the device that the server never sent. Arrays have shape (buckets,); a bucket without data is 0.

    `share` is the foreign part of the device's operations or of its bytes, whichever is larger: a device has one
    queue, and a copy fills it with a few large operations as well as a neighbour with many small ones.
    `net_read_mib_per_s`, `net_write_mib_per_s`: what the device moved less what the server's own files explain,
    negative where it is less: only the sum of one direction over many intervals is what others moved. What the
    server may yet write pays for no read of others.
    """

    reads: Floats
    writes: Floats
    discards: Floats
    read_mib_per_s: Floats
    write_mib_per_s: Floats
    share: Floats
    net_read_mib_per_s: Floats
    net_write_mib_per_s: Floats

    @property
    def operations(self) -> Floats:
        """All foreign operations/s."""
        return self.reads + self.writes + self.discards

    @property
    def mib_per_s(self) -> Floats:
        """All foreign bytes, MiB/s."""
        return self.read_mib_per_s + self.write_mib_per_s


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


def allowed_own_writes(
    grid: Grid, disk: str, *, direct: bool, copies: float = 1.0, cell_grid: Grid | None = None
) -> tuple[Floats, Floats] | None:
    """Writes/s and MiB/s that the server's own files explain at the device at most; None where they are not known.

    Bytes: those of the files, or those that InnoDB counts where they are more (a redo log without an instrument),
    with a slack; a whole block for each write, a journal's commit for each sync; the first two `copies` times,
    where the file system writes data to its journal first (`written_copies`). Operations: the writes, a journal's
    writes for each sync, and the pieces that long writes are split into. What went to a page cache may
    reach the device up to WRITEBACK_S later: unspent bytes are carried over as a credit, those of before the grid
    as far as `whole` has them, the grid of all of the cell.
    """
    files, syncs = server_flow(grid, "write"), server_flow(grid, "sync", (*LOGS, "dblwr", "data", "other", "temp"))
    if files is None or files.mib_per_s is None:
        return None
    own_mib, sync_rate = files.mib_per_s, np.zeros(len(grid)) if syncs is None else np.nan_to_num(syncs.rate)
    innodb, logs = (
        grid.column(*Innodb.data_written_mib_per_s),
        grid.column(*PerformanceSchema.file_write_mib_per_s, "binlog"),
    )
    if innodb is not None:
        own_mib = np.fmax(own_mib, innodb + (0.0 if logs is None else np.nan_to_num(logs)))
    fsyncs = grid.column(*Innodb.data_fsyncs_per_s)
    sync_rate = sync_rate if fsyncs is None else np.fmax(sync_rate, np.nan_to_num(fsyncs))
    group = cgroup_flow(grid, "write", disk)
    if group is not None and group.mib_per_s is not None:
        own_mib = np.fmax(own_mib, group.mib_per_s)
    rate = files.rate if group is None else np.fmax(files.rate, group.rate)
    allowed_mib = copies * (WRITE_SLACK * own_mib + BLOCK_MIB * rate) + JOURNAL_MIB * sync_rate
    allowed_rate = copies * (WRITE_SLACK * rate + own_mib / SPLIT_MIB) + JOURNAL_WRITES * sync_rate
    buffered = allowed_mib if not direct else _buffered_writes(grid, allowed_mib)
    credit = _credit(buffered, grid.width_s)
    if cell_grid is not None and len(cell_grid) > len(grid):
        earlier = cell_grid.within(
            float(grid.t_s[0]) - grid.width_s - WRITEBACK_S, float(grid.t_s[0]) - grid.width_s
        )
        written = PerformanceSchema.file_write_mib_per_s
        of_files = summed(earlier, written, list(earlier.entities(*written)))
        if of_files is not None:
            before = of_files if not direct else _buffered_writes(earlier, of_files)
            credit = credit + _left_over(np.nan_to_num(before), len(grid), grid.width_s)
    return allowed_rate, allowed_mib + credit


def written_copies(mount_options: Sequence[str]) -> float:
    """How often a file system writes each byte: ext4 with data=journal to its journal, then to its place.

    Source: Documentation/admin-guide/ext4.rst. Counters of the device and of the group see both, files see one.
    """
    return 2.0 if _JOURNALS_DATA in mount_options else 1.0


def foreign_flow(
    grid: Grid, device: Device, *, direct: bool, copies: float = 1.0, cell_grid: Grid | None = None
) -> ForeignFlow | None:
    """I/O of the device that no layer above it sent; None where one side is not known.

    Args:
        grid: the aligned series.
        device: the volume on this grid. A network file system counts this host's operations only: None.
        direct: see `allowed_own_reads`.
        copies: see `written_copies`.
        cell_grid: all of the cell, for what was written to a page cache before; None: nothing is known of it.
    """
    own_reads = allowed_own_reads(grid, device.entity, direct=direct)
    own_writes = allowed_own_writes(grid, device.entity, direct=direct, copies=copies, cell_grid=cell_grid)
    if device.source == "mountstats" or device.reads is None or own_reads is None:
        return None
    nothing = np.zeros(len(grid))
    reads, read_mib, read_net = _foreign_reads(grid, device, own_reads)
    writes, write_mib, write_net = nothing, nothing, nothing
    if own_writes is not None and device.writes is not None and device.write_mib_per_s is not None:
        write_mib, write_net = (
            _beyond(device.write_mib_per_s, own_writes[1]),
            device.write_mib_per_s - own_writes[1],
        )
        writes = np.minimum(_beyond(device.writes, own_writes[0]), write_mib / BLOCK_MIB)
    discard_rate = grid.column(*Diskstats.discards_per_s.of(device.source), device.entity)
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
        net_read_mib_per_s=np.nan_to_num(read_net),
        net_write_mib_per_s=np.nan_to_num(write_net),
    )


def part_beyond_group(grid: Grid, device: Device, inside: Mask) -> float | None:
    """Of a device's operations in some intervals, the part beyond the server's control group, cumulated.

    Args:
        grid: the aligned series.
        device: the volume on this grid.
        inside: the intervals, shape (buckets,).

    The group counts an operation when it is sent and the device when it has ended: cumulated they are the same
    ones, and a journal writes for the server's syncs. None where a direction is not counted, or has fewer bytes
    than the server's files: then what a page cache writes back is in another group (cgroup v1).
    """
    own = 0.0
    for direction in DIRECTIONS:
        group, files = cgroup_flow(grid, direction, device.entity), server_flow(grid, direction)
        if group is None or group.mib_per_s is None or files is None or files.mib_per_s is None:
            return None
        both = np.isfinite(group.mib_per_s) & np.isfinite(files.mib_per_s)
        if float(group.mib_per_s[both].sum()) < GROUP_HAS_ALL * float(files.mib_per_s[both].sum()):
            return None
        own += float(np.nansum(group.rate[inside]))
    syncs = server_flow(grid, "sync", LOGS)
    own += 0.0 if syncs is None else JOURNAL_WRITES * float(np.nansum(syncs.rate[inside]))
    total = float(np.nansum(device.iops[inside]))
    return max(0.0, 1 - own / total) if total > 0 else None


def _foreign_reads(
    grid: Grid, device: Device, own_reads: tuple[Floats, Floats | None]
) -> tuple[Floats, Floats, Floats]:
    """Reads/s, MiB/s and signed MiB/s beyond the server's own, each of shape (buckets,).

    Reads are at most as many as the bytes beyond the files' own can be. Through a page cache read-ahead makes the
    bytes larger: then the number of reads bounds the bytes as well.
    """
    nothing = np.zeros(len(grid))
    files, bytes_ = server_flow(grid, "read"), device.read_mib_per_s
    if bytes_ is None or files is None or files.mib_per_s is None or device.reads is None:
        return nothing, nothing, nothing
    net = bytes_ - BYTES_SLACK * files.mib_per_s
    group = cgroup_flow(grid, "read", device.entity)
    if group is not None and group.mib_per_s is not None:
        net = np.fmin(net, bytes_ - BYTES_SLACK * group.mib_per_s)
    reads = np.minimum(_beyond(device.reads, own_reads[0]), np.nan_to_num(np.maximum(0.0, net)) / BLOCK_MIB)
    if own_reads[1] is not None:
        return reads, _beyond(bytes_, own_reads[1]), net
    most = reads * _per_operation(bytes_, device.reads)
    return reads, np.minimum(most, np.nan_to_num(np.maximum(0.0, net))), np.minimum(most, np.nan_to_num(net))


def _beyond(values: Floats, allowed: Floats) -> Floats:
    """What exceeds the allowed amount; 0 where either is not known."""
    return np.nan_to_num(np.maximum(0.0, values - allowed))


def _ratio(values: Floats, total: Floats) -> Floats:
    shares: Floats = np.zeros(len(values))
    np.divide(values, total, out=shares, where=np.nan_to_num(total) > 0)
    return np.clip(shares, 0.0, 1.0)


def _per_operation(values: Floats, rate: Floats) -> Floats:
    """MiB of one operation, 0 without one; shape (buckets,)."""
    size: Floats = np.zeros(len(values))
    np.divide(np.nan_to_num(values), rate, out=size, where=np.nan_to_num(rate) > 0)
    return size


def _left_over(buffered_mib_per_s: Floats, buckets: int, width_s: float) -> Floats:
    """MiB/s that a page cache may still write back in the buckets after some, shape (buckets,)."""
    followed_by_nothing = np.concatenate([buffered_mib_per_s, np.zeros(buckets)])
    return _credit(followed_by_nothing, width_s)[len(buffered_mib_per_s) :]


def _buffered_writes(grid: Grid, allowed_mib: Floats) -> Floats:
    """MiB/s that go to a page cache and are not synced: temporary files above all."""
    kinds = [
        kind
        for kind in grid.entities(*PerformanceSchema.file_write_mib_per_s)
        if kind not in ("data", "dblwr")
        and not (mean(grid.column(*PerformanceSchema.file_syncs_per_s, kind)) or 0.0) > 0.5
    ]
    columns = summed(grid, PerformanceSchema.file_write_mib_per_s, kinds)
    return np.zeros(len(allowed_mib)) if columns is None else columns


def _credit(buffered_mib_per_s: Floats, width_s: float) -> Floats:
    """MiB/s that a page cache may still write back in a bucket: what was buffered in the WRITEBACK_S before it."""
    buckets = max(1, round(WRITEBACK_S / width_s))
    total = np.concatenate([[0.0], np.cumsum(np.nan_to_num(buffered_mib_per_s))])
    first = np.maximum(0, np.arange(len(buffered_mib_per_s)) - buckets)
    return np.asarray(total[:-1] - total[first])
