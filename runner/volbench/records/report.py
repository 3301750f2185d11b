"""report.json: the contract with everybody who reads results by program.

Keys may be added. A renamed one makes a new version, and its older name is read.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import AliasChoices, Field, field_validator, model_validator

from volbench.records.base import Record, Scalar
from volbench.records.cell import Disturbance, Failure
from volbench.records.goals.pricing import StorageClassRow
from volbench.records.metrics import MetricValue
from volbench.records.renamed import older_names, with_current_names
from volbench.records.steps import current_parameters
from volbench.records.sweep import Design, Factor

REPORT_SCHEMA = 2
Verdict = Literal["better", "worse", "equivalent", "inconclusive"]


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
    facts: dict[str, Any] = Field(default_factory=dict)


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
    started_at: str | None = None
    metrics: dict[str, MetricValue] = Field(default_factory=dict)
    disturbances: tuple[Disturbance, ...] = Field(
        default=(), description="What delayed the step from outside, with a bound on what each can have done."
    )
    delayed_share_max: float | None = Field(
        default=None,
        validation_alias=AliasChoices("delayed_share_max", "held_share"),
        description="For at most this share of the step's time they delayed it, all together.",
    )
    bounds: dict[str, tuple[float, float | None]] = Field(
        default_factory=dict,
        description="Of a step that is invalid for disturbances alone: metric -> where it lies without them. "
        "null: no upper end is known.",
    )
    used_within_bounds: tuple[str, ...] = Field(
        default=(), description="Metrics whose comparison uses this step although it is invalid, within its bounds."
    )

    @model_validator(mode="before")
    @classmethod
    def _current_parameters(cls, row: Any) -> Any:
        return current_parameters(row)


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
    p_value: float | None
    p_adjusted: float | None = None
    verdict: Verdict
    reason: str = ""
    runs: tuple[int, int]
    excluded_runs: tuple[int, int] = Field(
        default=(0, 0),
        validation_alias=AliasChoices("excluded_runs", "left_out"),
        description="Cells of either side that are invalid or have no value.",
    )
    within_bounds: tuple[int, int] = Field(
        default=(0, 0),
        description="Disturbed cells used on either side: ci and p_value are of the worst choice in their bounds.",
    )
    nodes: int = Field(default=1, description="Within how many nodes the cells were compared; 1: all together.")
    runs_needed: int | None = None
    margin: float
    confidence: float
    baseline_value: float | None = None
    candidate_value: float | None = None
    primary: bool = True


def _without_keys(row: Any, *keys: str) -> Any:
    """Return a row of an older report without keys that were removed."""
    return {key: row[key] for key in row if key not in keys} if isinstance(row, dict) else row


class SweepRow(Record):
    """What a run varied."""

    design: Design
    factors: dict[str, Factor]
    combinations: int
    conclusions: tuple[str, ...] = Field(
        default=(),
        validation_alias=AliasChoices("conclusions", "said"),
        description="Which factor matters, and why the others do not.",
    )

    @model_validator(mode="before")
    @classmethod
    def _drop_removed_keys(cls, row: Any) -> Any:
        return _without_keys(row, "resolution", "aliased")


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

    @model_validator(mode="before")
    @classmethod
    def _drop_removed_keys(cls, row: Any) -> Any:
        return _without_keys(row, "aliases")


class ForecastRow(Record):
    """What the suite's forecast of burst credits said of a volume, and what came."""

    volume: str
    event: str = Field(validation_alias=AliasChoices("event", "what"), description="Such as `credits run out`.")
    predicted_s: float | None = Field(description="null: it was not to happen")
    measured_s: tuple[float, ...] = Field(description="Of each valid cell in which it happened.")
    cells: int = Field(default=0, description="Valid cells of the step in which it could happen.")
    difference: float | None = Field(default=None, description="Median of the cells / forecast - 1.")
    within_tolerance: bool | None = Field(
        default=None, validation_alias=AliasChoices("within_tolerance", "met"), description="Within 5 %."
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
    measured: float | None = Field(default=None, description="Median of the cells; null: no cell has it.")
    cells: int = 0
    valid: bool = Field(default=True, description="False: no valid cell; this is of disturbed ones.")
    difference: float | None = Field(default=None, description="measured / predicted - 1.")
    within_tolerance: bool | None = Field(
        default=None,
        validation_alias=AliasChoices("within_tolerance", "met"),
        description="Within 20 %; null for an input or without measurement.",
    )
    input: bool = Field(default=False, description="The volume was calibrated with it.")
    reported: float | None = Field(default=None, description="The figure of somebody else's report.")
    derivation: str


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


class EvidenceRow(Record):
    """One checkable fact behind a finding."""

    metric: str
    value: float | str | None
    unit: str = ""
    text: str


class FindingRow(Record):
    """A named cause. `share` is the part of latency it explains, where that can be said."""

    cause: str
    volume: str
    step: str
    cell_ids: tuple[str, ...] = Field(description="Cells that show it; window and evidence are the first one's.")
    window_s: tuple[float, float] | None = None
    share: float | None = None
    confidence: float | None = None
    evidence: tuple[EvidenceRow, ...] = ()
    advice: str = ""
    valid: bool = Field(default=True, description="False: the step has no valid cell; this is of invalid ones.")


class MomentRow(Record):
    """A moment of one cell that a finding speaks of, or in which a dump or restore beside the load began."""

    cell_id: str
    volume: str
    step: str
    t_s: float = Field(description="Seconds since the cell's zero.")
    end_s: float | None = Field(default=None, description="When it was over; None: not known.")
    cause: str = Field(default="", description="Of the finding; empty: what the run itself began.")
    text: str


class BackupRow(Record):
    """A backup beside a load on one volume: medians over valid cells."""

    volume: str
    step: str
    tool: str
    cells: int
    dump_s: float
    dump_s_max: float = Field(description="The slowest cell: what the window is judged by.")
    dump_mib_per_s: float | None = None
    latency_ms_p95_alone: float | None = None
    latency_ms_p95_during: float | None = None
    tps_alone: float | None = None
    tps_during: float | None = None
    stalled_s_during: float | None = None
    window_s: float | None = Field(default=None, description="As the suite states it.")
    fits: bool | None = Field(default=None, description="None: the suite states no window.")
    recommended_window_s: float


class SpeedRow(Record):
    """What a volume did in another step: the median of its valid cells."""

    step: str
    metric: str
    value: float
    unit: str


class DurabilityRow(Record):
    """What cuts cost on one volume in one crash step, all its cells together, with its speed beside it."""

    volume: str
    step: str
    fault: str = Field(validation_alias=AliasChoices("fault", "how"), description="`power_cut` or `kill_server`.")
    volume_durability: str | None = Field(
        default=None,
        validation_alias=AliasChoices("volume_durability", "volume_promises"),
        description="Of an emulated volume.",
    )
    settings: dict[str, str] = Field(default_factory=dict, description="The server's, as it says them.")
    cells: int
    cuts: int
    acknowledged_commits: int
    lost_commits: int
    torn_or_damaged: int
    failed_recoveries: int = Field(default=0, description="Cuts after which the server did not come back.")
    lost_s: float | None = None
    commits_per_s: float | None = None
    recovery_s: float | None = None
    first_query_ms: float | None = None
    speeds: tuple[SpeedRow, ...] = ()


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
    difference_ms: float = Field(description="candidate - baseline, of means over valid cells")
    ci: tuple[float, float] | None = Field(
        default=None, description="Exact rank interval of the shift in ms; null: the cells do not bound it."
    )
    share: float | None = Field(default=None, description="Of the whole difference; null where that is near 0.")
    valid: bool = Field(default=True, description="False: a volume has no valid cell; this is of disturbed ones.")


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
        validation_alias=AliasChoices("wait_ms", "waited_ms"),
        description="Neither CPU nor table locks: files, commits, rows.",
    )
    ratio: float | None = Field(default=None, description="mean_ms against the first volume, the baseline.")


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


class WhatIfRow(Record):
    """A step as it would be on another volume; `unavailable_reason` says why it is not predicted."""

    volume: str
    step: str
    threads: int | None = Field(default=None, description="Of the load; steps with several are kept apart.")
    spec: str
    unavailable_reason: str = Field(default="", validation_alias=AliasChoices("unavailable_reason", "cannot"))
    performance_level: Literal["", "steady", "burst", "baseline"] = Field(
        default="", validation_alias=AliasChoices("performance_level", "regime")
    )
    burst_duration_s: float | None = Field(
        default=None, validation_alias=AliasChoices("burst_duration_s", "lasts_s")
    )
    tps: float | None = None
    tps_interval: tuple[float, float] | None = None
    latency_ms_p95: float | None = None
    latency_interval: tuple[float, float] | None = None
    limited_by: str = ""
    limit_per_s: float | None = None
    text: str = ""


class Summary(Record):
    """The verdict in a sentence, and what it rests on."""

    verdict: Literal["candidate_better", "candidate_worse", "equivalent", "mixed", "inconclusive", "single_volume"]
    sentence: str
    underpowered: bool = Field(default=False, validation_alias=AliasChoices("underpowered", "low_power"))
    caveats: tuple[str, ...] = ()
    time_difference: tuple[str, ...] = Field(
        default=(), description="Where the extra time of the slower volume goes, a sentence for each comparison."
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
    started_at: str
    finished_at: str | None
    complete: bool
    volbench_version: str
    summary: Summary
    server: ServerRow | None = Field(validation_alias=AliasChoices("server", "engine"))
    data: DataRow | None = None
    host: dict[str, Any]
    timing: Timing
    volumes: tuple[VolumeRow, ...]
    cells: tuple[CellRow, ...]
    comparisons: tuple[ComparisonRow, ...]
    findings: tuple[FindingRow, ...] = ()
    moments: tuple[MomentRow, ...] = Field(default=(), description="What the timelines mark, by cell and time.")
    forecasts: tuple[ForecastRow, ...] = ()
    predictions: tuple[PredictionRow, ...] = ()
    curves: tuple[CurveRow, ...] = ()
    sweep: SweepRow | None = None
    effects: tuple[EffectRow, ...] = Field(default=(), description="Of a sweep's factors, main effects first.")
    backups: tuple[BackupRow, ...] = ()
    durability: tuple[DurabilityRow, ...] = ()
    storage_classes: tuple[StorageClassRow, ...] = ()
    transactions: tuple[TransactionRow, ...] = ()
    queries: tuple[QueryRow, ...] = ()
    time_budgets: tuple[TimeBudgetRow, ...] = ()
    time_differences: tuple[TimeDifferenceRow, ...] = ()
    associations: tuple[AssociationRow, ...] = ()
    what_if: tuple[WhatIfRow, ...] = ()
    failures: tuple[dict[str, Any], ...] = ()
    differing_settings: dict[str, dict[str, str]] = Field(
        default_factory=dict, description="Setting or fact -> volume -> value, where volumes differ."
    )
    reproduce: tuple[str, ...] = Field(default=(), description="The command lines that make this run again.")

    @field_validator("failures")
    @classmethod
    def _current_names(cls, failures: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], ...]:
        return tuple(with_current_names(failure, older_names(Failure)) for failure in failures)
