"""The step `purge`: old rows of one table are deleted by pt-archiver."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from volbench.core.records.base import Fraction, Seconds
from volbench.core.records.metric import Metric
from volbench.core.records.steps.base import ASSUMED_WRITE_MIB_PER_S, StepBase, StepCost
from volbench.core.records.steps.kind import StepKind


class PurgeStep(StepBase):
    """Deletes the oldest rows of a table in small transactions, with pt-archiver.

    In `concurrent` of an `oltp` step it runs under load, and the rows `during` and `alone` show what the load lost.
    Later steps of the cell run without these rows; every cell begins with a fresh copy.
    """

    kind: Literal["purge"] = "purge"
    table: str = Field(
        default="sbtest1", pattern=r"^[A-Za-z0-9_$]{1,64}$", description="A table of the dataset's schema."
    )
    share: Fraction = Field(
        default=0.3, gt=0, description="Of the primary key's range, from its lowest value: one column of integers."
    )
    where: str = Field(
        default="",
        max_length=4000,
        pattern=r"^[^\x00\n]*$",
        description="In place of `share`: a condition of SQL for the rows to delete, such as a < '2026-01-01'.",
    )
    chunk: int = Field(
        default=1000, ge=1, le=1_000_000, description="Rows deleted by each statement, which is a transaction."
    )
    timeout_s: Seconds = Field(default=4 * 3600.0, alias="timeout", gt=0)
    start_after_s: Seconds = Field(
        default=0.0, alias="start_after", ge=0, description="Delay when it runs concurrently with a load."
    )

    @property
    def tool(self) -> str:
        """How rows of a concurrent step are called."""
        return "pt-archiver"

    def cost(self, data_bytes: int) -> StepCost:
        """Return the estimate: the rows are read once, and written once as undo and binary log."""
        return StepCost(measured_s=0.1 + data_bytes * self.share / 2**20 / ASSUMED_WRITE_MIB_PER_S)


KIND = StepKind(
    model=PurgeStep,
    metrics=(
        Metric("purge_s", "s", "lower", "deletion of old rows", "the deletion from start to end", "window"),
        Metric(
            "purge_rows_per_s", "1/s", "higher", "rows deleted per second", "rows of the table per second", "window"
        ),
    ),
    primary=("purge_rows_per_s",),
    explained="whole",
    stream_parameters=(),
)
