"""The step `alter`: one change of one large table."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from volbench.core.records.base import Seconds
from volbench.core.records.metric import Metric
from volbench.core.records.steps.base import ASSUMED_WRITE_MIB_PER_S, StepBase, StepCost
from volbench.core.records.steps.kind import StepKind

AlterMethod = Literal["instant", "inplace", "copy", "pt-osc"]


class AlterStep(StepBase):
    """ALTER TABLE on one large table, by an algorithm of the server or by pt-online-schema-change.

    In `concurrent` of an `oltp` step it runs under load, and the rows `during` and `alone` show what the load lost.
    Later steps of the cell have the changed table; every cell begins with a fresh copy.
    """

    kind: Literal["alter"] = "alter"
    table: str = Field(
        default="sbtest1", pattern=r"^[A-Za-z0-9_$]{1,64}$", description="A table of the dataset's schema."
    )
    change: Literal["add_column", "add_index"] = Field(
        default="add_column",
        description="add_column: an INT NOT NULL DEFAULT 0 as the last one; add_index: of `column`.",
    )
    column: str = Field(
        default="c", pattern=r"^[A-Za-z0-9_$]{1,64}$", description="The column that add_index makes an index of."
    )
    method: AlterMethod = Field(
        default="inplace",
        description="instant, inplace, copy: ALGORITHM of ALTER TABLE; pt-osc: pt-online-schema-change.",
    )
    timeout_s: Seconds = Field(default=4 * 3600.0, alias="timeout", gt=0)
    start_after_s: Seconds = Field(
        default=0.0, alias="start_after", ge=0, description="Delay when it runs concurrently with a load."
    )

    @model_validator(mode="after")
    def _an_index_has_to_be_built(self) -> AlterStep:
        if self.method == "instant" and self.change == "add_index":
            raise ValueError("an index is never added instantly: use inplace, copy or pt-osc")
        return self

    @property
    def tool(self) -> str:
        """How rows of a concurrent step are called."""
        return f"alter-{self.method}"

    def cost(self, data_bytes: int) -> StepCost:
        """Return the estimate: the table is written once, unless the change is instant."""
        written = 0 if self.method == "instant" else data_bytes
        return StepCost(measured_s=0.1 + written / 2**20 / ASSUMED_WRITE_MIB_PER_S, kept_bytes=written)


KIND = StepKind(
    model=AlterStep,
    metrics=(
        Metric("alter_s", "s", "lower", "change of the table", "the change from start to end", "window"),
        Metric(
            "alter_rows_per_s", "1/s", "higher", "rows changed per second", "rows of the table per second", "window"
        ),
    ),
    primary=("alter_s",),
    explained="whole",
    stream_parameters=(),
    choices={
        "method": {
            "instant": "only the table's definition",
            "inplace": "within the engine, while clients write",
            "copy": "row by row into a new table, while writers wait",
            "pt-osc": "into a new table in chunks, triggers follow the writers, then a rename",
        }
    },
)
