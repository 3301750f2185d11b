"""The causes that a finding may name, each with its heading, its charts and the options that act on it.

Reports, policies and the tests' conditions know no others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Cause:
    """What reports say of a cause.

    Args:
        title: the heading, a sentence without its full stop.
        panels: keys of the charts that show it, the best first.
        options: options of a volume or a server that act on it.
    """

    title: str
    panels: tuple[str, ...]
    options: frozenset[str] = frozenset()


CAUSES: Mapping[str, Cause] = {
    "storage.iops_limit": Cause(
        title="The volume is at its limit of operations per second",
        panels=("exceeded", "iops"),
        options=frozenset({"iops", "osd", "osds", "size", "innodb_buffer_pool_size"}),
    ),
    "storage.throughput_limit": Cause(
        title="The volume is at its limit of bytes per second",
        panels=("exceeded", "throughput_mib"),
        options=frozenset({"osds", "throughput", "size", "nconnect"}),
    ),
    "storage.burst_exhausted": Cause(
        title="The volume's burst credits ran out",
        panels=("balance", "iops"),
        options=frozenset({"iops", "osd", "throughput", "size"}),
    ),
    "storage.read_latency": Cause(
        title="Queries wait for slow reads from the volume",
        panels=("await",),
        options=frozenset({"innodb_buffer_pool_size"}),
    ),
    "storage.sync_latency": Cause(
        title="Commits wait for slow syncs of the volume",
        panels=("await", "fsync"),
        options=frozenset({"mount", "mode", "replicas", "innodb_flush_log_at_trx_commit", "sync_binlog"}),
    ),
    "storage.metadata_latency": Cause(
        title="Opening, creating and changing files is slow",
        panels=("await",),
        options=frozenset({"mode", "nfs", "vers"}),
    ),
    "storage.readahead_small": Cause(
        title="One reader waits for a small read-ahead", panels=("await", "throughput_mib")
    ),
    "storage.stall": Cause(title="The volume stalled", panels=("await", "queue", "throughput")),
    "storage.degraded": Cause(title="The volume became slower", panels=("await", "iops")),
    "storage.split_operations": Cause(
        title="The volume counts an operation of this host as several", panels=("iops", "exceeded")
    ),
    "storage.replication": Cause(
        title="The disks of the pool are busy with copies",
        panels=("iops", "await"),
        options=frozenset({"osd", "osds", "replicas"}),
    ),
    "instance.storage_limit": Cause(title="The instance is at its limit for storage", panels=("exceeded", "iops")),
    "host.io_limit": Cause(title="A limit above the volume throttles its operations", panels=("iops", "await")),
    "host.io_wait": Cause(title="Operations wait above the volume, on the host", panels=("await", "queue")),
    "memory.buffer_pool_small": Cause(
        title="The buffer pool is too small for the data in use",
        panels=("innodb", "iops"),
        options=frozenset({"innodb_buffer_pool_size"}),
    ),
    "memory.reclaim": Cause(
        title="The page cache was taken back, and the volume is read instead", panels=("iops", "throughput_mib")
    ),
    "cpu.server_saturated": Cause(title="The server has no CPU left", panels=("cpu", "pressure")),
    "cpu.client_saturated": Cause(title="The load generator has no CPU left", panels=("cpu", "pressure")),
    "cpu.steal": Cause(title="The hypervisor took CPU time away", panels=("cpu",)),
    "lock.row_contention": Cause(
        title="Queries wait for each other's row locks", panels=("throughput", "statement")
    ),
    "lock.metadata_contention": Cause(
        title="Queries wait for table and metadata locks", panels=("throughput", "statement")
    ),
    "redo.checkpoint_stall": Cause(
        title="The redo log is full, and queries wait for its checkpoint", panels=("innodb",)
    ),
    "network.latency": Cause(
        title="The server is far away: statements wait for the network", panels=("throughput", "statement")
    ),
    "network.stalls": Cause(
        title="The network between client and server stands still at times", panels=("throughput", "statement")
    ),
    "interference.backup": Cause(title="A backup slows the load down", panels=("throughput", "throughput_mib")),
    "interference.cpu": Cause(
        title="Other programs use the CPUs that the server needs", panels=("cpu", "pressure")
    ),
    "interference.io": Cause(
        title="Something else reads or writes on the same disk", panels=("iops", "throughput_mib")
    ),
    "interference.shared_volume": Cause(
        title="Somebody else uses the same volume", panels=("iops", "throughput_mib")
    ),
    "none": Cause(title="The volume is not the problem", panels=("await", "cpu")),
}
