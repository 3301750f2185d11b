"""The step `sequential`: one large file from start to end."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from typing_extensions import override

from volbench.core.records.base import Bytes, Seconds
from volbench.core.records.metric import WARM_READ, Metric
from volbench.core.records.steps.base import ASSUMED_WRITE_MIB_PER_S, Sizes, StepBase, StepCost
from volbench.core.records.steps.kind import WRITES_FILES, StepKind, WarmReads

SequentialMode = Literal["write", "write_fsync", "write_direct", "read_cold", "read_warm", "read_direct"]
SEQUENTIAL_MODES: tuple[SequentialMode, ...] = (
    "write",
    "write_fsync",
    "write_direct",
    "read_cold",
    "read_warm",
    "read_direct",
)


class SequentialStep(StepBase):
    """One large file from start to end, as dd writes and reads it; every mode and size is a row of its own.

    Each mode and size is a row of its own, `NAME/MODE`; the row `NAME` has no figures.
    """

    kind: Literal["sequential"] = "sequential"
    size_bytes: Sizes = Field(default=(256 << 20,), alias="size", description="Sizes of the file.")
    block_size_bytes: Bytes = Field(default=1 << 20, alias="block_size", ge=4096, le=1 << 26, multiple_of=4096)
    modes: tuple[SequentialMode, ...] = Field(
        default=SEQUENTIAL_MODES,
        min_length=1,
        description="write: as plain dd, into the page cache; write_fsync: as dd conv=fsync; write_direct and "
        "read_direct: with O_DIRECT; read_cold: proven not cached; read_warm: cached, memory and not storage.",
    )
    timeout_s: Seconds = Field(default=4 * 3600.0, alias="timeout", gt=0)

    @override
    def cost(self, data_bytes: int) -> StepCost:
        """Return the estimate."""
        return StepCost(measured_s=len(self.modes) * sum(self.size_bytes) / 2**20 / ASSUMED_WRITE_MIB_PER_S)

    def temporary_bytes(self) -> int:
        """Return the bytes of the largest file."""
        return max(self.size_bytes)


KIND = StepKind(
    model=SequentialStep,
    own_server=WRITES_FILES,
    metrics=(
        Metric(
            "sequential_mib_per_s",
            "MiB/s",
            "higher",
            "sequential speed",
            "one large file from start to end",
            "window",
        ),
        Metric(
            "unsynced_write_mib_per_s",
            "MiB/s",
            "higher",
            "unsynced write speed",
            "one large file written and not synced: what the page cache took, memory and not storage",
        ),
        WARM_READ,
        Metric("sequential_s", "s", "lower", "sequential time", "time of one pass over the large file", "window"),
    ),
    primary=("sequential_mib_per_s",),
    explained="points",
    file_io="step",
    stream_parameters=(),
    file_group="one large file",
    speed="sequential_mib_per_s",
    warm_reads=WarmReads(suffix="/read", cold="sequential_mib_per_s", warm="warm_read_mib_per_s"),
)
