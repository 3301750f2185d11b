"""Rows of what ran: volumes, the steps of cells, fio's curves against queue depth."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from volbench.core.records.base import Moment, Plain, Record, Scalar
from volbench.core.records.cell import Disturbance
from volbench.core.records.metrics import MetricValue


class VolumeRow(Record):
    """One volume of the run."""

    name: str
    kind: str
    spec: str
    profile: str | None = None
    filesystem: str | None = None
    mount_options: tuple[str, ...] = ()
    device: str | None = None
    emulated: bool = False
    facts: dict[str, Plain] = Field(default_factory=dict)


Standing = Literal["valid", "disturbed", "invalid"]
"""Of a value: its cell is valid; invalid for disturbances alone, so that bounds are known; invalid otherwise."""


class CellRow(Record):
    """One step of one executed cell."""

    cell_id: str
    volume: str
    step: str
    kind: str
    parameters: dict[str, Scalar]
    block: int
    repeat: int
    valid: bool
    invalid_reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    window_s: tuple[float, float] | None = None
    started_at: Moment | None = None
    metrics: dict[str, MetricValue] = Field(default_factory=dict)
    disturbances: tuple[Disturbance, ...] = Field(
        default=(), description="What delayed the step from outside, with a bound on what each can have done."
    )
    delayed_share_max: float | None = Field(
        default=None,
        description="For at most this share of the step's time they delayed it, all together.",
    )
    bounds: dict[str, tuple[float, float | None]] = Field(
        default_factory=dict,
        description="Of a step that is invalid for disturbances alone: metric -> where it lies without them. "
        "null: no upper end is known.",
    )
    covariates: dict[str, float] = Field(
        default_factory=dict, description="Shares that other work took: of the CPUs, of the device's operations."
    )
    node: str = Field(default="", description="The node that the cell ran on; empty: not known.")
    used_within_bounds: tuple[str, ...] = Field(
        default=(), description="Metrics whose comparison uses this step although it is invalid, within its bounds."
    )


class ExcludedRow(Record):
    """Cells that a figure is not of: the least and the largest of their values."""

    standing: Standing
    cells: int
    low: float
    high: float


class FigureRow(Record):
    """A volume's figure of a metric: the median of its valid cells; of others where none is valid."""

    volume: str
    step: str
    parameters: dict[str, Scalar]
    metric: str
    unit: str
    value: float
    standing: Standing = Field(description="Which cells the value is of.")
    cells: int
    excluded: tuple[ExcludedRow, ...] = Field(default=(), description="The cells that the value is not of.")


class CurvePointRow(Record):
    """One queue depth of a curve: geometric means over valid cells, with intervals."""

    depth: int
    iops: float
    iops_ci: tuple[float, float] | None
    latency_ms: float
    latency_ci: tuple[float, float] | None
    cells: int


class CurveRow(Record):
    """fio against queue depth on one volume."""

    volume: str
    step: str
    parameters: str = Field(description="Of the points, but for pattern and depth.")
    points: tuple[CurvePointRow, ...]
    knee_depth: float | None = Field(default=None, description="Requests under way from which on more only wait.")
    plateau_iops: float | None = None
    text: str = ""
