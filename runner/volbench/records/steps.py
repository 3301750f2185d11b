"""Steps: one workload with its parameters, as a suite states it and as cell.json carries it."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from volbench.records.base import Bytes, Fraction, Record, Scalar, Seconds

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
    to: Literal["volume", "scratch", "nowhere"] = Field(
        default="volume",
        description="Where the dump is written: to the volume, to the agent's disk, or nowhere (discarded).",
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
    window_s: Seconds | None = Field(
        default=None, alias="window", gt=0, description="The time that the backup may take; reports say if it fits."
    )

    @model_validator(mode="after")
    def _a_killed_dump_leaves_nothing(self) -> DumpStep:
        if self.stop_after_s is not None and (self.tool != "mysqldump" or self.to != "nowhere"):
            raise ValueError("stop_after kills a mysqldump that is discarded: tool mysqldump, to nowhere")
        return self


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
    reader: Literal["plain", "cat"] = Field(
        default="plain",
        description="plain: into one buffer; cat: `cat FILES | wc -c`, whose pipe costs what memory can give.",
    )
    readers: int = Field(default=1, ge=1, le=64, description="Files read at the same time; cat reads one by one.")
    block_size_bytes: Bytes = Field(default=1 << 20, alias="block_size", ge=4096)
    warm_too: bool = Field(default=True, description="Read the files once more, warm, and report that too.")
    timeout_s: Seconds = Field(default=4 * 3600.0, alias="timeout", gt=0)

    @model_validator(mode="after")
    def _cat_reads_one_by_one(self) -> ColdReadStep:
        if self.reader == "cat" and self.readers > 1:
            raise ValueError("cat reads one file after the other: readers must be 1")
        return self


class CrashStep(StepBase):
    """Durability: clients commit, power is cut or the server is killed, and what is lost is counted."""

    kind: Literal["crash"] = "crash"
    how: Literal["auto", "power_cut", "kill_server"] = Field(
        default="auto",
        description="power_cut drops what an emulated volume had not made durable; kill_server is SIGKILL; "
        "auto: power_cut on emulated volumes, kill_server on others.",
    )
    threads: int = Field(
        default=8, ge=1, le=256, description="Clients that commit, each on a connection of its own."
    )
    after_s: Seconds = Field(
        default=8.0,
        alias="after",
        gt=0,
        le=600,
        description="Commits before a cut; its moment is drawn by the seed, between 0.5 and 1.5 times this.",
    )
    cuts: int = Field(default=1, ge=1, le=100, description="How often, each followed by a recovery.")
    rows_per_commit: int = Field(default=4, ge=2, le=100, description="Rows of a transaction.")
    row_bytes: int = Field(default=200, ge=16, le=4096, description="Bytes of a row, all decided by the seed.")
    check_tables: bool = Field(
        default=True, description="CHECK TABLE on the whole dataset after the last recovery."
    )


class IdleStep(StepBase):
    """Nothing but the server's own background work: the baseline noise of the volume."""

    kind: Literal["idle"] = "idle"
    duration_s: Seconds = Field(default=10.0, alias="duration", gt=0)


FilePhase = Literal["clone", "create", "read_cold", "read_warm", "stat", "copy", "objects", "delete"]
FILE_PHASES: tuple[FilePhase, ...] = (
    "clone", "create", "read_cold", "read_warm", "stat", "copy", "objects", "delete",
)  # fmt: skip
_DEFAULT_FILE_PHASES = FILE_PHASES[1:]


class SmallFilesStep(StepBase):
    """A tree of small files on the data's volume: created, read, listed, copied, removed; and git-like objects."""

    kind: Literal["small_files"] = "small_files"
    files: int = Field(default=2000, ge=1, le=1_000_000, description="Files in the tree.")
    total_size_bytes: Bytes = Field(
        default=40 << 20, alias="total_size", ge=0, description="Of all files; their sizes are log-normal."
    )
    sizes_bytes: tuple[Bytes, ...] = Field(
        default=(), alias="sizes", description="Sizes used in turn, instead of `total_size`."
    )
    sigma: float = Field(default=1.5, ge=0, le=4, description="Spread of log(size); 0: all of one size.")
    files_per_directory: int = Field(default=100, ge=1, le=100_000, description="Directories hold this many.")
    jobs: int = Field(default=1, ge=1, le=256, description="Files handled at the same time; cp and git have one.")
    phases: tuple[FilePhase, ...] = Field(
        default=_DEFAULT_FILE_PHASES,
        min_length=1,
        description="What is done, always in this order; all but `clone` (git clone of a local repository that "
        "holds the tree) need `create`.",
    )
    sync: Literal["none", "end", "each"] = Field(
        default="end",
        description="none: as cp and git; end: a phase that writes ends when all is on the volume; "
        "each: fsync of every file.",
    )
    objects_publish: Literal["link", "rename"] = Field(
        default="link", description="How an object gets its name: a hard link and unlink, or a rename."
    )
    timeout_s: Seconds = Field(default=4 * 3600.0, alias="timeout", gt=0)

    @model_validator(mode="after")
    def _phases_can_run(self) -> SmallFilesStep:
        if "create" not in self.phases and set(self.phases) != {"clone"}:
            raise ValueError("the phase 'create' is needed: the others work on what it makes")
        return self


DdlPhase = Literal["create", "open", "alter_inplace", "alter_copy", "temporary", "binlog_rotation", "drop"]
DDL_PHASES: tuple[DdlPhase, ...] = (
    "create", "open", "alter_inplace", "alter_copy", "temporary", "binlog_rotation", "drop",
)  # fmt: skip


class DdlStep(StepBase):
    """What MySQL does with files: thousands of tables, each with a file of its own, in a schema of their own."""

    kind: Literal["ddl"] = "ddl"
    tables: int = Field(default=1000, ge=1, le=100_000, description="Tables that are made, opened and dropped.")
    altered: int = Field(
        default=100, ge=1, le=100_000, description="Tables that each ALTER phase changes, at most."
    )
    temporary: int = Field(default=200, ge=1, le=100_000, description="Temporary tables made, filled and dropped.")
    rotations: int = Field(default=50, ge=1, le=10_000, description="FLUSH BINARY LOGS, each after one write.")
    threads: int = Field(default=1, ge=1, le=256, description="Connections that work at the same time.")
    table_open_cache: int = Field(
        default=64,
        ge=1,
        le=524_288,
        description="For the `open` phase only: smaller than `tables`, every one misses.",
    )
    phases: tuple[DdlPhase, ...] = Field(
        default=DDL_PHASES, min_length=1, description="What is done, always in this order; `create` is needed."
    )
    timeout_s: Seconds = Field(default=4 * 3600.0, alias="timeout", gt=0)

    @model_validator(mode="after")
    def _phases_can_run(self) -> DdlStep:
        if "create" not in self.phases:
            raise ValueError("the phase 'create' is needed: the others work on what it makes")
        return self


FioPattern = Literal["read", "write", "randread", "randwrite", "rw", "randrw"]
_PATTERN = {"type": "string", "enum": list(get_args(FioPattern))}
_SIZE = {"type": "string", "pattern": r"^\s*\d+(\.\d+)?\s*([KMGT]i?B?|kB|B)?\s*$", "examples": ["64MiB"]}
Sizes = Annotated[
    tuple[Bytes, ...],
    Field(min_length=1),
    BeforeValidator(_as_tuple),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "minimum": 0},
                _SIZE,
                {"type": "array", "items": {"anyOf": [{"type": "number", "minimum": 0}, _SIZE]}, "minItems": 1},
            ]
        }
    ),
]
Patterns = Annotated[
    tuple[FioPattern, ...],
    Field(min_length=1),
    BeforeValidator(_as_tuple),
    WithJsonSchema({"anyOf": [_PATTERN, {"type": "array", "items": _PATTERN, "minItems": 1}]}),
]


class FioStep(StepBase):
    """fio on a file of the data's volume: every combination of the lists is one point, a row of its own."""

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
    fdatasync: int = Field(default=0, ge=0, description="After every so many writes; 0: never.")
    read_share: Fraction = Field(default=0.7, gt=0, lt=1, description="Share of reads in `rw` and `randrw`.")
    ramp_s: Seconds = Field(default=2.0, alias="ramp", ge=0, description="Run before measuring, for each point.")
    duration_s: Seconds = Field(default=10.0, alias="duration", gt=0, description="Measured time of each point.")
    server: Literal["idle", "stopped"] = Field(
        default="stopped",
        description="The state of MySQL during the step: stopped, so that all I/O is fio's, or idle.",
    )


SequentialMode = Literal["write", "write_fsync", "write_direct", "read_cold", "read_warm", "read_direct"]
SEQUENTIAL_MODES: tuple[SequentialMode, ...] = (
    "write", "write_fsync", "write_direct", "read_cold", "read_warm", "read_direct",
)  # fmt: skip


class SequentialStep(StepBase):
    """One large file from start to end, as dd writes and reads it; every mode and size is a row of its own."""

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


BesideStep = Annotated[DumpStep, Field()]
Step = Annotated[
    OltpStep
    | DumpStep
    | RestoreStep
    | ColdReadStep
    | CrashStep
    | IdleStep
    | SmallFilesStep
    | DdlStep
    | FioStep
    | SequentialStep,
    Field(discriminator="kind"),
]

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
            parameters["beside"] = "+".join(concurrent.tool for concurrent in step.beside)
        return parameters
    values = step.model_dump(exclude={"kind", "name", "timeout_s", "start_after_s", "stop_after_s", "window_s"})
    lists = {
        name: ",".join(map(str, value)) for name, value in values.items() if isinstance(value, tuple) and value
    }
    return {name: value for name, value in (values | lists).items() if isinstance(value, Scalar)}
