"""report.json: the contract with everybody who reads results by program.

Keys may be added within a version of the format. A key that is renamed or removed makes a new version.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from volbench.core.records.base import Moment, Plain, Record
from volbench.core.records.goals.pricing import StorageClassRow
from volbench.core.records.report.cells import (
    CellRow,
    CurvePointRow,
    CurveRow,
    ExcludedRow,
    FigureRow,
    Standing,
    VolumeRow,
)
from volbench.core.records.report.comparisons import AdjustmentRow, ComparisonRow, EffectRow, SweepRow, Verdict
from volbench.core.records.report.findings import (
    AssociationRow,
    EvidenceRow,
    FindingRow,
    MomentRow,
    RefutedRow,
    ShareBase,
)
from volbench.core.records.report.forecasts import ForecastRow, PredictionRow, WhatIfRow
from volbench.core.records.report.recovery import BackupRow, DurabilityRow, SpeedRow
from volbench.core.records.report.response import NoResponseRow, ResponsePointRow, ResponseRow
from volbench.core.records.report.sharing import SharingLevelRow, SharingRow
from volbench.core.records.report.transactions import QueryRow, TimeBudgetRow, TimeDifferenceRow, TransactionRow

__all__ = [
    "REPORT_SCHEMA",
    "AdjustmentRow",
    "AssociationRow",
    "BackupRow",
    "CellRow",
    "ComparisonRow",
    "CurvePointRow",
    "CurveRow",
    "DataRow",
    "DurabilityRow",
    "EffectRow",
    "EvidenceRow",
    "ExcludedRow",
    "FigureRow",
    "FindingRow",
    "ForecastRow",
    "MomentRow",
    "NoResponseRow",
    "PredictionRow",
    "QueryRow",
    "RefutedRow",
    "Report",
    "ResponsePointRow",
    "ResponseRow",
    "ServerRow",
    "ShareBase",
    "SharingLevelRow",
    "SharingRow",
    "SpeedRow",
    "Standing",
    "Summary",
    "SweepRow",
    "TimeBudgetRow",
    "TimeDifferenceRow",
    "Timing",
    "TransactionRow",
    "Verdict",
    "VolumeRow",
    "WhatIfRow",
]

REPORT_SCHEMA = 2


class ServerRow(Record):
    """The server that all cells ran."""

    flavor: str
    version: str
    variables: dict[str, str] = Field(default_factory=dict)


class DataRow(Record):
    """The data that every cell started from, against the memory that may hold it."""

    bytes: int
    buffer_pool_bytes: int | None = None
    data_to_pool_ratio: float | None = Field(default=None, description="Well above 1: reads come from the volume.")


class HeadlineFigure(Record):
    """What the figure of a headline is of: a row of the comparisons, or of the cells of one volume."""

    step: str
    load: str = Field(description="Threads, rate or depth in words; empty without.")
    metric: str


class Summary(Record):
    """The verdict in a sentence, and what it rests on."""

    verdict: Literal["candidate_better", "candidate_worse", "equivalent", "mixed", "inconclusive", "single_volume"]
    headline: str = Field(
        default="", description="Size, cause and decision, a clause each at most; empty in older reports."
    )
    notes: tuple[str, ...] = Field(
        default=(), description="What belongs to the headline and is too much for it, in sentences."
    )
    figure: HeadlineFigure | None = Field(default=None, description="What the headline's figure is of.")
    sentence: str
    box: tuple[str, ...] = Field(
        default=(), description="Below the sentence: those of response and time_difference on the headline's step."
    )
    underpowered: bool = False
    caveats: tuple[str, ...] = ()
    time_difference: tuple[str, ...] = Field(
        default=(), description="Where the extra time of the slower volume goes, a sentence for each comparison."
    )
    response: tuple[str, ...] = Field(
        default=(), description="What a millisecond of the volume costs, a sentence for each load."
    )
    sharing: tuple[str, ...] = Field(
        default=(), description="How many servers fit on a volume, in sentences for each step."
    )


class Timing(Record):
    """Where the run's wall time went."""

    wall_s: float
    measured_s: float
    measured_share: float | None = Field(default=None, description="measured_s / wall_s")


class Report(Record):
    """report.json."""

    schema_: int = Field(default=REPORT_SCHEMA, alias="schema")
    run_id: str
    suite: str
    started_at: Moment
    finished_at: Moment | None
    complete: bool
    volbench_version: str
    summary: Summary
    server: ServerRow | None
    data: DataRow | None = None
    host: dict[str, Plain]
    timing: Timing
    volumes: tuple[VolumeRow, ...]
    cells: tuple[CellRow, ...]
    comparisons: tuple[ComparisonRow, ...]
    until_decided: bool = Field(default=False, description="Whether comparisons have the levels of looks.")
    figures: tuple[FigureRow, ...] = Field(default=(), description="Each volume's figures, and of which cells.")
    findings: tuple[FindingRow, ...] = ()
    refuted: tuple[RefutedRow, ...] = Field(
        default=(), description="Causes that would have been named, and what speaks against each."
    )
    moments: tuple[MomentRow, ...] = Field(default=(), description="What the timelines mark, by cell and time.")
    forecasts: tuple[ForecastRow, ...] = ()
    predictions: tuple[PredictionRow, ...] = ()
    curves: tuple[CurveRow, ...] = ()
    sweep: SweepRow | None = None
    effects: tuple[EffectRow, ...] = Field(default=(), description="Of a sweep's factors, main effects first.")
    backups: tuple[BackupRow, ...] = ()
    durability: tuple[DurabilityRow, ...] = ()
    sharing: tuple[SharingRow, ...] = ()
    storage_classes: tuple[StorageClassRow, ...] = ()
    transactions: tuple[TransactionRow, ...] = ()
    queries: tuple[QueryRow, ...] = ()
    time_budgets: tuple[TimeBudgetRow, ...] = ()
    time_differences: tuple[TimeDifferenceRow, ...] = ()
    responses: tuple[ResponseRow, ...] = Field(
        default=(), description="What a millisecond of the volume costs transactions and queries."
    )
    undetermined_responses: tuple[NoResponseRow, ...] = ()
    response_points: tuple[ResponsePointRow, ...] = ()
    associations: tuple[AssociationRow, ...] = ()
    what_if: tuple[WhatIfRow, ...] = ()
    failures: tuple[dict[str, Plain], ...] = ()
    differing_settings: dict[str, dict[str, str]] = Field(
        default_factory=dict, description="Setting or fact -> volume -> value, where volumes differ."
    )
    reproduce: tuple[str, ...] = Field(default=(), description="The command lines that make this run again.")
