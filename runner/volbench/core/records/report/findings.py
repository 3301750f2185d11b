"""Rows of causes: findings with their evidence, moments, and metrics that move with latency."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from volbench.core.records.base import Record

ShareBase = Literal["latency", "statement time"]
CauseRelation = Literal[
    "accounted for", "layer above", "served", "restated", "reversed", "shared", "not accounted for", "not known", ""
]


class EvidenceRow(Record):
    """One checkable fact behind a finding."""

    metric: str
    value: float | str | None
    unit: str = ""
    text: str


class FindingRow(Record):
    """A named cause. `share` is the part of latency it explains, where that can be said.

    Shares of one cell's step add up to 1 at most, of causes that are one of two the largest. A row has the median
    over its cells.
    """

    cause: str
    volume: str
    step: str
    cell_ids: tuple[str, ...] = Field(description="Cells that show it; window and evidence are the first one's.")
    window_s: tuple[float, float] | None = None
    share: float | None = None
    share_of: ShareBase = Field(
        default="latency",
        description="What `share` is a part of: the clients' latency, or the time of the server's statements"
        " where no client tells its own.",
    )
    share_by_cell: tuple[float | None, ...] = Field(
        default=(), description="What it explains in each of `cell_ids`; empty in older reports."
    )
    confidence: float | None = None
    counted: bool | None = Field(
        default=None,
        description="Whether `confidence` is a count of such findings in the lab; false: none was counted, and it"
        " is the most that such a finding gets; null: an older report.",
    )
    evidence: tuple[EvidenceRow, ...] = ()
    advice: str = ""
    valid: bool = Field(default=True, description="False: the step has no valid cell; this is of invalid ones.")
    component: str = Field(default="", description="Of a layout: the other volume that it is about, such as log.")


class RefutedRow(Record):
    """A cause that would have been named, and what the evidence has against it."""

    cause: str
    volume: str
    step: str
    cell_ids: tuple[str, ...] = Field(description="Cells in which it would have been named.")
    law: str = Field(description="What it breaks: conservation, sufficiency, consistency, time or acquittal.")
    text: str = Field(description="The figures, as a clause that follows `but`.")
    claimed: float
    recorded: float


class MomentRow(Record):
    """A moment of one cell that a finding speaks of, or in which a dump or restore beside the load began."""

    cell_id: str
    volume: str
    step: str
    t_s: float = Field(description="Seconds since the cell's zero.")
    end_s: float | None = Field(default=None, description="When it was over; None: not known.")
    cause: str = Field(default="", description="Of the finding; empty: what the run itself began.")
    text: str


class AssociationRow(Record):
    """A metric that moves with p95 over a step's valid cells. It supports a finding and never makes one."""

    volume: str
    step: str
    cell_id: str = Field(description="The cell that shows it best.")
    source: str
    metric: str
    entity: str = ""
    rho: float = Field(description="Rank correlation of differences from interval to interval.")
    lag_s: float = Field(description="By how much the metric leads.")
    samples: int
    effective_samples: float
    q_value: float = Field(description="Corrected for all metrics and lags that were tried.")
    cells: int = Field(default=1, description="Whose pairs are pooled, ranks within each cell.")
    cpu_rho: float | None = Field(
        default=None, description="The same of the host's CPU use, for comparison; null: not sampled."
    )
    implausible_reason: str = Field(
        default="", description="Why its sign makes it no candidate for a cause; empty: it may be one."
    )
    first_cause: str = Field(
        default="",
        description="The step's first cause, which the metric is held against, with `@` and the component of a"
        " layout that it is about; empty: none is named.",
    )
    relation: CauseRelation = Field(
        default="",
        description="`accounted for`: the first cause is about this metric; `layer above`: its waits are part of"
        " the metric; `served`: work of the process that carries out its operations; `restated`: the load's rate"
        " by another name; `reversed`: see implausible_reason; `shared`: `moves_along`, though nothing says that"
        " the cause is about it; `not accounted for`; `not known`. Empty: no cause is named, or an older report.",
    )
    moves_along: bool | None = Field(
        default=None,
        description="Whether it moves with the first cause's own metric at least as closely as both move with p95;"
        " null: not computed.",
    )
