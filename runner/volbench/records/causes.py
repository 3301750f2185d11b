"""The causes that a finding may name; reports, policies and the tests' conditions know no others."""

CAUSES: tuple[str, ...] = (
    "storage.iops_limit",
    "storage.throughput_limit",
    "storage.burst_exhausted",
    "storage.read_latency",
    "storage.sync_latency",
    "storage.metadata_latency",
    "storage.stall",
    "storage.degraded",
    "instance.storage_limit",
    "host.io_limit",
    "host.io_wait",
    "memory.buffer_pool_small",
    "cpu.server_saturated",
    "cpu.client_saturated",
    "cpu.steal",
    "lock.row_contention",
    "redo.checkpoint_stall",
    "interference.backup",
    "interference.io",
    "none",
)
