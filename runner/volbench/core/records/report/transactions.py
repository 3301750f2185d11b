"""Rows of what one transaction costs, where its time goes, and its queries."""

from __future__ import annotations

from pydantic import Field

from volbench.core.records.base import Record


class TransactionRow(Record):
    """What one transaction of a step costs on a volume, median over valid cells; and against the first volume."""

    volume: str
    step: str
    threads: int | None = Field(default=None, description="Of the load; steps with several are kept apart.")
    metric: str
    value: float
    unit: str
    ratio: float | None = Field(default=None, description="Against the first volume, the baseline.")
    cells: int


class TimeBudgetRow(Record):
    """One piece of a transaction's time on a volume. The pieces of a volume's step sum to its `latency_ms`."""

    volume: str
    step: str
    threads: int | None = Field(default=None, description="Of the load; steps with several are kept apart.")
    piece: str
    title: str
    ms: float = Field(description="Mean of a transaction over valid cells.")
    share: float = Field(description="ms / latency_ms")
    latency_ms: float = Field(
        description="Mean latency of a transaction: as the client measured it, else the time of its statements."
    )
    cells: int
    valid: bool = Field(default=True, description="False: no valid cell; this is of disturbed ones.")


class TimeDifferenceRow(Record):
    """How much of the extra time of a transaction on the candidate one piece is."""

    step: str
    threads: int | None = None
    baseline: str
    candidate: str
    piece: str
    title: str
    baseline_ms: float
    candidate_ms: float
    difference_ms: float = Field(description="candidate - baseline, of means over cells")
    ci: tuple[float, float] | None = Field(
        default=None, description="Interval of the difference of means in ms; null: the cells do not bound it."
    )
    share: float | None = Field(default=None, description="Of the whole difference; null where that is near 0.")
    valid: bool = Field(default=True, description="False: a volume has no valid cell; this is of disturbed ones.")
    cells: tuple[int, int] | None = Field(
        default=None, description="Cells of baseline and candidate that the means are of; null: not recorded."
    )


class QueryRow(Record):
    """One text of a statement on a volume, all valid cells together; the one with most time first."""

    volume: str
    step: str
    threads: int | None = Field(default=None, description="Of the load; steps with several are kept apart.")
    query: str = Field(description="Text of the digest; numbers within names are N, so that like tables are one.")
    share: float = Field(description="Of the time of all statements of the step.")
    per_s: float
    mean_ms: float
    cpu_ms: float | None = Field(default=None, description="MySQL 8.0.28 and later.")
    lock_ms: float | None = Field(default=None, description="Table locks.")
    wait_ms: float | None = Field(
        default=None,
        description="Neither CPU nor table locks: files, commits, rows.",
    )
    ratio: float | None = Field(default=None, description="mean_ms against the first volume, the baseline.")
