"""Steps: one workload with its parameters, as a suite states it and as cell.json carries it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from volbench.records.base import Bytes, Record, Scalar, Seconds

SysbenchTest = Literal[
    "oltp_read_write", "oltp_read_only", "oltp_write_only", "oltp_point_select", "oltp_insert", "oltp_delete",
    "oltp_update_index", "oltp_update_non_index", "select_random_points", "select_random_ranges",
]  # fmt: skip
RandType = Literal["uniform", "gaussian", "special", "pareto", "zipfian"]


def _as_tuple(value: Any) -> Any:
    return (value,) if isinstance(value, int | float | str) else value


_ONE_COUNT = {"type": "integer", "minimum": 1, "maximum": 4096}
Threads = Annotated[
    tuple[Annotated[int, Field(ge=1, le=4096)], ...],
    Field(min_length=1),
    BeforeValidator(_as_tuple),
    WithJsonSchema({"anyOf": [_ONE_COUNT, {"type": "array", "items": _ONE_COUNT, "minItems": 1}]}),
]


class StepBase(Record):
    """What every step has: a name, unique within its suite, that reports and comparisons use."""

    name: str = Field(default="", description="Unique name of the step; the kind and its number if left out.")


class OltpStep(StepBase):
    """sysbench OLTP, closed loop, or open loop when `rate` is given."""

    kind: Literal["oltp"] = "oltp"
    test: SysbenchTest = Field(default="oltp_read_write", description="sysbench's bundled Lua test.")
    threads: Threads = Field(
        default=(8,), description="Client threads; a list runs the step once for each, in this order."
    )
    rate: float | None = Field(
        default=None,
        gt=0,
        description="Transactions per second offered (open loop, Poisson); absent: closed loop.",
    )
    rand_type: RandType = Field(default="uniform", description="sysbench --rand-type, always passed.")
    warmup_s: Seconds = Field(default=10.0, alias="warmup", ge=0, description="Run before measuring, discarded.")
    duration_s: Seconds = Field(default=60.0, alias="duration", gt=0, description="Measured time.")
    options: dict[str, Scalar] = Field(default_factory=dict, description="More sysbench options, name: value.")
    beside: tuple[BesideStep, ...] = Field(
        default=(), description="Steps that run at the same time (backup window)."
    )


class DumpStep(StepBase):
    """A logical backup of the dataset."""

    kind: Literal["dump"] = "dump"
    tool: Literal["mysqldump", "mydumper"] = "mysqldump"
    threads: int = Field(default=4, ge=1, le=256, description="mydumper's threads; mysqldump has one.")
    to: Literal["volume", "scratch", "nowhere"] = Field(
        default="volume",
        description="Where the dump is written: beside the data, on the agent's disk, or dropped.",
    )
    timeout_s: Seconds = Field(default=4 * 3600.0, alias="timeout", gt=0)
    start_after_s: Seconds = Field(
        default=0.0, alias="start_after", ge=0, description="Delay when run beside another."
    )


class RestoreStep(StepBase):
    """Loads the cell's last dump into an empty schema and proves it equal to the source by checksums."""

    kind: Literal["restore"] = "restore"
    tool: Literal["mysql", "myloader"] = "mysql"
    threads: int = Field(default=4, ge=1, le=256, description="myloader's threads; mysql has one.")
    timeout_s: Seconds = Field(default=4 * 3600.0, alias="timeout", gt=0)


class ColdReadStep(StepBase):
    """Reads that no cache may serve: files of the data directory, then a table scan after a restart."""

    kind: Literal["cold_read"] = "cold_read"
    files: bool = Field(default=True, description="Read every file of the schema from start to end.")
    table_scan: bool = Field(
        default=True, description="Restart the server cold; first query, then scan all tables."
    )
    readers: int = Field(default=1, ge=1, le=64, description="Files read at the same time.")
    block_size_bytes: Bytes = Field(default=1 << 20, alias="block_size", ge=4096)
    warm_too: bool = Field(default=True, description="Read the files once more, warm, and report it beside.")
    timeout_s: Seconds = Field(default=4 * 3600.0, alias="timeout", gt=0)


class IdleStep(StepBase):
    """Nothing but the server's own background work: the baseline noise of the volume."""

    kind: Literal["idle"] = "idle"
    duration_s: Seconds = Field(default=10.0, alias="duration", gt=0)


BesideStep = Annotated[DumpStep, Field()]
Step = Annotated[OltpStep | DumpStep | RestoreStep | ColdReadStep | IdleStep, Field(discriminator="kind")]

OltpStep.model_rebuild()


def parameters_of(step: Step) -> dict[str, Scalar]:
    """The step's parameters as shown in results: what tells two rows of one step apart, and what shapes it."""
    if isinstance(step, OltpStep):
        parameters: dict[str, Scalar] = {
            "test": step.test,
            "threads": step.threads[0],
            "rand_type": step.rand_type,
        }
        if step.rate is not None:
            parameters["rate"] = step.rate
        parameters.update(step.options)
        if step.beside:
            parameters["beside"] = "+".join(other.tool for other in step.beside)
        return parameters
    shown = step.model_dump(exclude={"kind", "name", "timeout_s", "start_after_s"})
    return {name: value for name, value in shown.items() if isinstance(value, Scalar)}
