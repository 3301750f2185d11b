"""Rows of what was predicted, and what came."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from volbench.core.records.base import Record, Scalar


class ForecastRow(Record):
    """What the suite's forecast of burst credits said of a volume, and what came."""

    volume: str
    event: str = Field(description="Such as `credits run out`.")
    predicted_s: float | None = Field(description="null: it was not to happen")
    measured_s: tuple[float, ...] = Field(description="Of each valid cell in which it happened.")
    endured_s: tuple[float, ...] = Field(
        default=(), description="Of each valid cell in which it did not happen: how long the load lasted."
    )
    cells: int = Field(default=0, description="Valid cells of the step whose counters tell whether it happened.")
    difference: float | None = Field(
        default=None, description="Median of the cells / forecast - 1; null: it did not happen in most of them."
    )
    within_tolerance: bool | None = Field(
        default=None,
        description="Within 5 %; false too: it did not happen though the load lasted longer, or was not to happen"
        " and did; null: not known.",
    )
    text: str = ""


class PredictionRow(Record):
    """A metric that the suite predicted before the run, and what came."""

    volume: str
    step: str
    parameters: dict[str, Scalar] = Field(default_factory=dict)
    metric: str
    unit: str
    against: str = Field(default="", description="Another volume: all figures are ratios to it.")
    predicted: float
    interval: tuple[float, float] | None = None
    measured: float | None = Field(
        default=None, description="Median of the cells; of a compared pair its ratio; null: no cell has it."
    )
    cells: int = 0
    valid: bool = Field(default=True, description="False: no valid cell; this is of disturbed ones.")
    difference: float | None = Field(default=None, description="measured / predicted - 1.")
    within_tolerance: bool | None = Field(
        default=None,
        description="Within the interval, without one within 20 %; null for an input or without measurement.",
    )
    input: bool = Field(default=False, description="The volume was calibrated with it.")
    reported: float | None = Field(default=None, description="The figure of somebody else's report.")
    derivation: str


class WhatIfRow(Record):
    """A step as it would be on another volume; `unavailable_reason` says why it is not predicted."""

    volume: str
    step: str
    threads: int | None = Field(default=None, description="Of the load; steps with several are kept apart.")
    spec: str
    unavailable_reason: str = ""
    performance_level: Literal["", "steady", "burst", "baseline"] = ""
    burst_duration_s: float | None = None
    tps: float | None = Field(default=None, description="Null with an interval: a figure would be too far off.")
    tps_interval: tuple[float, float] | None = None
    latency_ms_p95: float | None = Field(default=None, description="As `tps`; null too where none was measured.")
    latency_interval: tuple[float, float] | None = None
    limited_by: str = ""
    limit_per_s: float | None = None
    method: Literal["demand", "response"] = Field(
        default="demand",
        description="demand: from what a transaction demands; response: from what a millisecond costs it.",
    )
    latency_ms_mean: float | None = Field(default=None, description="By the response; null by the demand.")
    latency_ms_mean_interval: tuple[float, float] | None = Field(default=None, description="Of the slopes, 95 %.")
    text: str = ""
