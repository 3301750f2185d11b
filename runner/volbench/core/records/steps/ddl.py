"""The step `ddl`: what MySQL does with the files of tables."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator
from typing_extensions import override

from volbench.core.records.base import Seconds
from volbench.core.records.metric import LATENCIES, SERVER_START, Metric
from volbench.core.records.steps.base import StepBase, StepCost
from volbench.core.records.steps.kind import WRITES_FILES, StepKind

ASSUMED_DDL_S = 0.05
"""One statement that makes, changes or drops a table's file, with all its syncs."""
TABLE_FILE_BYTES = 160 * 2**10
"""An empty table's file (112 KiB on MySQL 9.7), and a second one while an ALTER copies it."""
DdlPhase = Literal["create", "open", "alter_inplace", "alter_copy", "temporary", "binlog_rotation", "drop"]
DDL_PHASES: tuple[DdlPhase, ...] = (
    "create",
    "open",
    "alter_inplace",
    "alter_copy",
    "temporary",
    "binlog_rotation",
    "drop",
)


class DdlStep(StepBase):
    """What MySQL does with files: thousands of tables, each with a file of its own, in a schema of their own.

    Each phase is a row of its own, `NAME/PHASE`; the row `NAME` has the time of all of them.
    """

    kind: Literal["ddl"] = "ddl"
    tables: int = Field(default=1000, ge=1, le=100_000, description="Tables that are made, opened and dropped.")
    altered_tables: int = Field(
        default=100,
        ge=1,
        le=100_000,
        description="Tables that each ALTER phase changes, at most.",
    )
    temporary_tables: int = Field(
        default=200,
        ge=1,
        le=100_000,
        description="Temporary tables made, filled and dropped.",
    )
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

    @override
    def cost(self, data_bytes: int) -> StepCost:
        """Return the estimate."""
        return StepCost(measured_s=sum(map(self.statements, self.phases)) * ASSUMED_DDL_S / self.threads)

    def temporary_bytes(self) -> int:
        """Return the bytes of the tables' files."""
        return self.tables * TABLE_FILE_BYTES

    def statements(self, phase: DdlPhase) -> int:
        """Return the number of operations in a phase."""
        match phase:
            case "alter_inplace" | "alter_copy":
                return min(self.altered_tables, self.tables)
            case "temporary":
                return self.temporary_tables
            case "binlog_rotation":
                return self.rotations
            case _:
                return self.tables


KIND = StepKind(
    model=DdlStep,
    own_server=WRITES_FILES,
    metrics=(
        Metric(
            "ddl_per_s", "1/s", "higher", "DDL/s", "statements on tables' files per second of a phase", "window"
        ),
        Metric("ddl_s", "s", "lower", "DDL time", "one phase of DDL", "window"),
        Metric("ddl_total_s", "s", "lower", "time for all DDL", "all phases of DDL together", "window"),
        SERVER_START,
        *LATENCIES,
    ),
    primary=("ddl_per_s", "ddl_total_s"),
    explained="phases",
    stream_parameters=("threads",),
    file_group="MySQL's tables",
    speed="ddl_per_s",
)
