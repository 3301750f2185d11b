"""The step `dump`: a backup."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import Field, model_validator

from volbench.core.records.base import Bytes, Scalar, Seconds
from volbench.core.records.metric import Metric
from volbench.core.records.steps.base import StepBase, StepCost
from volbench.core.records.steps.kind import StepKind

ASSUMED_DUMP_MIB_PER_S = 60.0
_DESTINATIONS = frozenset({"directory", "url"})


class DumpStep(StepBase):
    """A backup of the dataset: logical, or physical of the whole server."""

    kind: Literal["dump"] = "dump"
    tool: Literal["mysqldump", "mydumper", "physical"] = Field(
        default="mysqldump",
        description="physical: the server's files, copied while it runs: MySQL clones itself, and of MariaDB it is "
        "mariadb-backup that copies.",
    )
    threads: int = Field(
        default=4, ge=1, le=256, description="Threads of mydumper and mariadb-backup; mysqldump has one."
    )
    to: Literal["volume", "scratch", "directory", "s3", "nowhere"] = Field(
        default="volume",
        description="Where the dump is written: to the volume, to the agent's disk, to `directory`, to an object "
        "below `url`, or nowhere (discarded).",
    )
    directory: str = Field(
        default="",
        pattern=r"^(/[^\x00\n]*)?$",
        description="With `to: directory`: where another volume is mounted, such as /mnt/backup. The cell "
        "removes its dump. For the targets local and attach.",
    )
    url: str = Field(
        default="",
        pattern=r"^(s3://[A-Za-z0-9._-]+(/[^?#\s]*)?)?$",
        description="With `to: s3`: the prefix below which mysqldump's output is stored, s3://BUCKET/PREFIX. The "
        "step removes its object. For the targets local, attach and kubernetes; needs the extra aws.",
    )
    timeout_s: Seconds = Field(default=4 * 3600.0, alias="timeout", gt=0)
    start_after_s: Seconds = Field(
        default=0.0, alias="start_after", ge=0, description="Delay when it runs concurrently with a load."
    )
    stop_after_s: Seconds | None = Field(
        default=None,
        alias="stop_after",
        gt=0,
        description="Kill mysqldump after so long, as an operator does; it needs `to: nowhere`.",
    )
    rate_limit_bytes_per_s: Bytes | None = Field(
        default=None,
        alias="rate_limit",
        gt=0,
        description="Throttle mysqldump to so many bytes of its output a second, as `pv -L` does; it needs "
        "`to: nowhere`.",
    )
    window_s: Seconds | None = Field(
        default=None, alias="window", gt=0, description="The time that the backup may take; reports say if it fits."
    )

    @model_validator(mode="after")
    def _a_killed_dump_leaves_nothing(self) -> DumpStep:
        if self.stop_after_s is not None and (self.tool != "mysqldump" or self.to != "nowhere"):
            raise ValueError("stop_after kills a mysqldump that is discarded: tool mysqldump, to nowhere")
        return self

    @model_validator(mode="after")
    def _a_throttled_dump_is_read(self) -> DumpStep:
        if self.rate_limit_bytes_per_s is not None and (self.tool != "mysqldump" or self.to != "nowhere"):
            raise ValueError("rate_limit throttles a mysqldump that is discarded: tool mysqldump, to nowhere")
        return self

    @model_validator(mode="after")
    def _a_directory_is_named(self) -> DumpStep:
        if (self.to == "directory") != bool(self.directory):
            raise ValueError("`to: directory` and `directory: /mnt/backup` belong together")
        return self

    @model_validator(mode="after")
    def _a_bucket_is_named(self) -> DumpStep:
        if (self.to == "s3") != bool(self.url):
            raise ValueError("`to: s3` and `url: s3://BUCKET/PREFIX` belong together")
        if self.to == "s3" and self.tool != "mysqldump":
            raise ValueError(f"`to: s3` is for mysqldump; {self.tool} writes files: dump to a directory")
        return self

    def parameters(self) -> dict[str, Scalar]:
        """Return them without a place that is not used: older runs do not have it, and are the same step."""
        values = super().parameters()
        return {name: value for name, value in values.items() if value != "" or name not in _DESTINATIONS}

    def cost(self, data_bytes: int) -> StepCost:
        """Return the estimate."""
        stored_bytes = data_bytes if self.to in ("volume", "scratch") else 0
        speed_bytes_per_s = min(ASSUMED_DUMP_MIB_PER_S * 2**20, self.rate_limit_bytes_per_s or math.inf)
        return StepCost(measured_s=data_bytes / speed_bytes_per_s, kept_bytes=stored_bytes)


KIND = StepKind(
    model=DumpStep,
    metrics=(
        Metric("dump_s", "s", "lower", "dump time", "backup from start to end, synced", "window"),
        Metric("dump_mib_per_s", "MiB/s", "higher", "dump speed", "bytes of the dump per second", "window"),
        Metric("dump_bytes", "B", "none", "dump size", "bytes of the dump"),
    ),
    primary=("dump_s",),
    explained="whole",
    stream_parameters=("threads",),
)
