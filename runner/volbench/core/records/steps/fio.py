"""The step `fio`: fio's jobs on a file of the volume."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator
from typing_extensions import override

from volbench.core.records.base import Bytes, Fraction, Seconds
from volbench.core.records.metric import LATENCIES, Metric
from volbench.core.records.size_contrast import RAMP_S
from volbench.core.records.steps.base import (
    ASSUMED_WRITE_MIB_PER_S,
    SERVER_RESTART_S,
    Sizes,
    StepBase,
    StepCost,
    Threads,
    as_tuple,
)
from volbench.core.records.steps.kind import WRITES_FILES, StepKind

FioPattern = Literal["read", "write", "randread", "randwrite", "rw", "randrw"]
_PATTERN = {"type": "string", "enum": list(get_args(FioPattern))}
Patterns = Annotated[
    tuple[FioPattern, ...],
    Field(min_length=1),
    BeforeValidator(as_tuple),
    WithJsonSchema({"anyOf": [_PATTERN, {"type": "array", "items": _PATTERN, "minItems": 1}]}),
]


CONTRAST_S = 5.0
CONTRAST_MEASURED_MIN = 4.0
"""Measured time of each pattern, in durations of a contrast, from which one follows by default."""


class FioStep(StepBase):
    """fio on a file of the data's volume: every combination of the lists is one point, a row of its own.

    Each combination of `rw`, `block_size`, `iodepth` and `numjobs` is a row of its own, `NAME/PATTERN-SIZE`;
    the row `NAME` has the prefill.
    """

    kind: Literal["fio"] = "fio"
    rw: Patterns = Field(default=("randread",), description="Patterns, as fio calls them.")
    block_size_bytes: Sizes = Field(default=(4096,), alias="block_size", description="Sizes of one operation.")
    iodepth: Threads = Field(default=(1,), description="Operations under way at a time, of each job.")
    numjobs: Threads = Field(default=(1,), description="Jobs at a time, all on the one file.")
    size_bytes: Bytes = Field(default=1 << 30, alias="size", ge=1 << 20, description="Of the file.")
    prefill: bool = Field(
        default=True, description="Write the whole file once in each cell, before the first point and unmeasured."
    )
    direct: bool = Field(default=True, description="With O_DIRECT; else through the page cache.")
    fdatasync: int = Field(default=0, ge=0, description="Writes between two fdatasync; 0: none.")
    read_share: Fraction = Field(default=0.7, gt=0, lt=1, description="Share of reads in `rw` and `randrw`.")
    ramp_s: Seconds = Field(default=2.0, alias="ramp", ge=0, description="Run before measuring, for each point.")
    duration_s: Seconds = Field(default=10.0, alias="duration", gt=0, description="Measured time of each point.")
    server: Literal["idle", "stopped"] = Field(
        default="stopped",
        description="The state of MySQL during the step: stopped, so that all I/O is fio's, or idle.",
    )

    size_contrast_s: Seconds | None = Field(
        default=None,
        alias="size_contrast",
        ge=0,
        le=60,
        description="After the last point, of a step with one `block_size` and `direct`: the deepest queue of each"
        " pattern once more, twice as deep and with operations 4 times as large for so long, then 4 times as small"
        " if that does not tell a limit of IOPS from one of bytes. No figure of the step has it in. Absent: 5 s"
        " where each pattern is measured for at least 20 s; `0s`: none.",
    )

    @model_validator(mode="after")
    def _has_one_size(self) -> FioStep:
        if self.size_contrast_s and (len(self.block_size_bytes) != 1 or not self.direct):
            raise ValueError("`size_contrast` needs one `block_size`, and `direct`")
        return self

    @property
    def contrast_s(self) -> float:
        """Seconds of each load of the contrast of sizes; 0: there is none."""
        if len(self.block_size_bytes) != 1 or not self.direct:
            return 0.0
        if self.size_contrast_s is not None:
            return self.size_contrast_s
        measured_s = self.points() / len(self.rw) * self.duration_s
        return CONTRAST_S if measured_s >= CONTRAST_MEASURED_MIN * CONTRAST_S else 0.0

    @override
    def cost(self, data_bytes: int) -> StepCost:
        """Return the estimate; of the contrast of sizes the first load."""
        fill_s = self.size_bytes / 2**20 / ASSUMED_WRITE_MIB_PER_S if self.prefill else 0.0
        restart_s = SERVER_RESTART_S if self.server == "stopped" else 0.0
        contrast_s = self.contrast_s and len(self.rw) * (RAMP_S + self.contrast_s)
        return StepCost(
            measured_s=self.points() * self.duration_s,
            unmeasured_s=fill_s + self.points() * self.ramp_s + contrast_s + restart_s,
        )

    def temporary_bytes(self) -> int:
        """Return the bytes of the file."""
        return self.size_bytes

    def points(self) -> int:
        """Return the number of combinations that are measured."""
        return len(self.rw) * len(self.block_size_bytes) * len(self.iodepth) * len(self.numjobs)


KIND = StepKind(
    model=FioStep,
    own_server=WRITES_FILES,
    metrics=(
        Metric(
            "fio_iops",
            "1/s",
            "higher",
            "IOPS of fio",
            "operations of fio's jobs per second, reads and writes together",
            "window",
        ),
        Metric(
            "fio_mib_per_s", "MiB/s", "higher", "throughput of fio", "MiB of fio's operations per second", "window"
        ),
        Metric("fio_prefill_s", "s", "lower", "prefill", "fio's file written once, before anything is measured"),
        *LATENCIES,
    ),
    primary=("fio_iops", "latency_ms_p99"),
    explained="points",
    file_io="step",
    queue_swept=True,
    stream_parameters=("iodepth", "numjobs"),
)
