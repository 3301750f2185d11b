"""Rows of several servers on one volume: what each kept, how many fit, and what the volume's limits predict."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from volbench.core.records.base import Record
from volbench.core.records.report.cells import Standing


class SharingLevelRow(Record):
    """So many servers under load at once: medians over the cells that the row is of."""

    instances: int
    tps_of_all: float
    retained_share_min: float | None = None
    retained_share_mean: float | None = None
    fairness_index: float | None = None
    slowdown_max: float | None = None
    latency_ms_p95_slowest: float | None = Field(
        default=None, description="None: of some server not known, since it is beyond what was measured."
    )
    fits: bool | None = Field(description="Every server kept its objective; None: in some cells only.")
    predicted_share: float | None = Field(
        default=None,
        description="What each keeps at most by the volume's limits; None: they are not known, or loads differ.",
    )
    used_share: float | None = Field(default=None, description="What all together used of the limit, as measured.")
    predicted_use: float | None = Field(
        default=None, description="What they use of it if nothing else holds them back."
    )


class SharingRow(Record):
    """Several servers on one volume in one step."""

    volume: str
    step: str
    standing: Standing = Field(description="Of the cells that the row is of.")
    cells: int
    keeps: float = Field(description="Of the objective: share of its transactions alone that each must keep.")
    p95_ms: float | None = Field(default=None, description="Of the objective; None: it has none.")
    tps_alone: float
    latency_ms_p95_alone: float | None = None
    levels: tuple[SharingLevelRow, ...]
    fit: int = Field(
        description="Servers that fit as measured: with so many, and with each smaller number that was tried, all"
        " kept their objective; 0: not even one alone."
    )
    breaks_at: int | None = Field(
        default=None, description="The smallest number that was tried and did not fit; None: all did."
    )
    limit: str = Field(
        default="", description="The volume's limit that one server alone uses most; empty: unknown."
    )
    used_share: float | None = Field(default=None, description="What one server alone uses of that limit.")
    predicted_fit: int | None = Field(
        default=None, description="How many the limits carry at most, computed from the use of one."
    )
    check: Literal["agrees", "fewer", "refuted", "none"] = Field(
        default="none",
        description="What was measured says of the computed number: the same as far as was tried; fewer fit, with"
        " the limit's use as computed; the use differs or more fit, so the limit is not what decides;"
        " nothing was computed, or nothing measured of the limit.",
    )
    sentences: tuple[str, ...] = ()
