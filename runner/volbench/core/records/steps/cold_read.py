"""The step `cold_read`: reads that no cache serves."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from volbench.core.records.base import Bytes, Seconds
from volbench.core.records.metric import CPU_SYSTEM, CPU_USER, FIRST_QUERY, SERVER_START, WARM_READ, Metric
from volbench.core.records.steps.base import ASSUMED_READ_MIB_PER_S, StepBase, StepCost
from volbench.core.records.steps.kind import StepKind, WarmReads


class ColdReadStep(StepBase):
    """Reads that no cache may serve: files of the data directory, then a table scan after a restart."""

    kind: Literal["cold_read"] = "cold_read"
    files: bool = Field(default=True, description="Read every file of the schema from start to end.")
    table_scan: bool = Field(
        default=True, description="Restart the server cold; first query, then scan all tables."
    )
    reader: Literal["plain", "cat"] = Field(
        default="plain",
        description="plain: into one buffer; cat: `cat FILES | wc -c`, whose pipe costs what memory can give.",
    )
    readers: int = Field(default=1, ge=1, le=64, description="Files read at the same time; cat reads one by one.")
    block_size_bytes: Bytes = Field(default=1 << 20, alias="block_size", ge=4096)
    warm_read: bool = Field(
        default=True,
        description="Read the files once more, warm, and report that as well.",
    )
    timeout_s: Seconds = Field(default=4 * 3600.0, alias="timeout", gt=0)

    @model_validator(mode="after")
    def _cat_reads_one_by_one(self) -> ColdReadStep:
        if self.reader == "cat" and self.readers > 1:
            raise ValueError("cat reads one file after the other: readers must be 1")
        return self

    def cost(self, data_bytes: int) -> StepCost:
        """Return the estimate: the files cold and warm, and the scan."""
        reads = int(self.files) * 2 + int(self.table_scan)
        return StepCost(measured_s=reads * data_bytes / 2**20 / ASSUMED_READ_MIB_PER_S)


KIND = StepKind(
    model=ColdReadStep,
    own_server="a cold read restarts the server",
    metrics=(
        Metric(
            "cold_read_mib_per_s",
            "MiB/s",
            "higher",
            "cold read speed",
            "files of the data directory read with no cache to serve them",
        ),
        Metric("cold_read_s", "s", "lower", "cold read time", "time of these cold reads", "part"),
        Metric("cold_read_files_per_s", "1/s", "higher", "cold files/s", "files opened and read per second"),
        WARM_READ,
        Metric(
            "table_scan_s",
            "s",
            "lower",
            "cold table scan",
            "all tables scanned after a cold restart of the server",
            "part",
        ),
        Metric(
            "table_scan_mib_per_s",
            "MiB/s",
            "higher",
            "table scan speed",
            "bytes of the tables per second of that scan",
        ),
        FIRST_QUERY,
        SERVER_START,
        CPU_USER,
        CPU_SYSTEM,
    ),
    primary=("cold_read_mib_per_s", "table_scan_s", "first_query_ms"),
    explained="whole",
    file_io="both",
    stream_parameters=("readers",),
    file_group="one large file",
    speed="cold_read_mib_per_s",
    warm_reads=WarmReads(suffix="", cold="cold_read_mib_per_s", warm="warm_read_mib_per_s"),
)
