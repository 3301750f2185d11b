"""Rows of what differs: comparisons of volumes, and a sweep's factors with their effects."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from volbench.core.records.base import Record, Scalar
from volbench.core.records.report.cells import Standing
from volbench.core.records.sweep import Design, Factor

Verdict = Literal["better", "worse", "equivalent", "inconclusive"]


class AdjustmentRow(Record):
    """Other work that a comparison is adjusted for, with the slope of each volume's logarithms."""

    covariate: str
    low: float = Field(description="The least share of a cell, at which the volumes are compared.")
    high: float
    slopes: tuple[float | None, float | None] = Field(
        description="1: in proportion to what is left; null: the volume's share hardly varies."
    )
    differ: bool = Field(description="The two lie apart by more than three standard errors.")


class ComparisonRow(Record):
    """Candidate against baseline; `ratio` is candidate / baseline, `ci` its confidence interval."""

    step: str
    parameters: dict[str, Scalar]
    metric: str
    unit: str
    better: str
    baseline: str
    candidate: str
    ratio: float | None
    ci: tuple[float, float] | None
    plain_ci: tuple[float, float] | None = Field(
        default=None,
        description="Where the bounds of disturbed cells leave no ci: the interval of these cells as they ran.",
    )
    p_value: float | None
    p_adjusted: float | None = None
    verdict: Verdict
    reason: str = ""
    runs: tuple[int, int]
    excluded_runs: tuple[int, int] = Field(
        default=(0, 0),
        description="Cells of either side that are invalid or have no value.",
    )
    within_bounds: tuple[int, int] = Field(
        default=(0, 0),
        description="Disturbed cells used on either side: ci and p_value are of the worst choice in their bounds.",
    )
    adjustments: tuple[AdjustmentRow, ...] = Field(
        default=(), description="Other work that the comparison is adjusted for; its disturbed cells are then used."
    )
    not_adjusted: str = Field(default="", description="Why it is not, although other work varied; empty otherwise.")
    nodes: int = Field(default=1, description="Within how many nodes the cells were compared; 1: all together.")
    runs_needed: int | None = None
    margin: float
    confidence: float
    baseline_value: float | None = None
    candidate_value: float | None = None
    standings: tuple[Standing | None, Standing | None] = Field(
        default=("valid", "valid"), description="Which cells the two values are of; null: none has one."
    )
    primary: bool = True


class SweepRow(Record):
    """What a run varied."""

    design: Design
    factors: dict[str, Factor]
    combinations: int
    conclusions: tuple[str, ...] = Field(
        default=(),
        description="Which factor matters, and why the others do not.",
    )


class EffectRow(Record):
    """One factor at a level (or two) against the base; `ratio` is level / base, `ci` its confidence interval.

    Of two factors, `ratio` is that of two ratios: the first factor's when the second is at its level, to the same
    at the second's base.
    """

    volume: str
    step: str
    parameters: dict[str, Scalar]
    metric: str
    unit: str
    better: str
    primary: bool
    factors: tuple[str, ...]
    levels: tuple[Scalar, ...]
    bases: tuple[Scalar, ...]
    base_value: float | None
    value: float | None
    ratio: float | None
    ci: tuple[float, float] | None
    p_value: float | None
    p_adjusted: float | None = None
    verdict: Verdict
    reason: str = ""
    runs: tuple[int, int]
    runs_needed: int | None = None
    margin: float
    confidence: float
