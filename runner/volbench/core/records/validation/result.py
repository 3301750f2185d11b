"""validation.json: what came out of a validation before a move."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from volbench.core.records.base import Moment, Record
from volbench.core.records.goals.capacity import CapacityRow
from volbench.core.records.goals.gate import ConditionRow, Decision

VALIDATION_SCHEMA = 2


class MoveEstimate(Record):
    """One pair of tools, predicted for the source's data. Bytes and seconds; intervals where cells repeat it."""

    tools: str
    run_id: str
    volume: str
    cells: int
    measured_bytes: int = Field(description="Data of the runs' cells.")
    source_bytes: int = Field(description="Data of the source, without secondary indexes.")
    dump_s: float
    copy_s: float | None
    restore_s: float
    checks_s: float | None = Field(description="As this validation took for every row.")
    total_s: float
    total_s_low: float | None
    total_s_high: float | None
    dominated_by: str
    emulated: bool = False


class BurstOutlook(Record):
    """What the candidate's volume makes of production's load. `low` and `high` are 95 % ends, of the runway too."""

    volume: str
    counted_by: str
    iops: float = Field(description="Requests a second that the log's mean load asks for.")
    iops_low: float
    iops_high: float
    read_share: float
    bucket: str = Field(description="The bucket that this is about, such as volume.credits; empty: none.")
    runway_s: float | None = Field(description="Until it is empty, from what the SPEC fills it with; null: never.")
    runway_s_low: float | None
    runway_s_high: float | None
    served_share: float = Field(description="Of the load, while credits last; below 1 a limit is too low.")
    served_share_low: float
    served_share_high: float
    served_share_after: float | None = Field(description="Once they are gone.")
    peak_iops: float | None = Field(default=None, description="Most in one interval of a series.")
    simulated_s: float | None = Field(
        default=None,
        description="Time for which the series was simulated.",
    )
    throttled_s: float | None = Field(
        default=None,
        description="Of it: empty credits limit the load.",
    )
    capped_s: float | None = Field(default=None, description="So long of it a limit is too low.")
    credits_share_lowest: float | None = Field(default=None, description="The least that the bucket holds.")


class GrowthOutlook(Record):
    """When a volume is full. Bytes a day and seconds; `low` and `high` are 95 % ends.

    Fields of binary logs other than `binlog_bytes` are in files of volbench 0.1 alone.
    """

    size_bytes: int
    used_bytes: int = Field(description="By the last capture, without binary logs.")
    data_per_day: float
    data_per_day_low: float
    data_per_day_high: float
    binlog_per_day: float | None = None
    binlog_per_day_low: float | None = None
    binlog_per_day_high: float | None = None
    binlog_retention_s: float | None = Field(default=None)
    binlog_bytes: float | None = Field(description="Of all binary logs; null: not visible.")
    full_s: float | None = Field(description="Until the volume is full; null: never.")
    full_s_low: float | None
    full_s_high: float | None


CheckName = Literal[
    "objects",
    "definers",
    "checksums",
    "queries",
    "times",
    "plans",
    "settings",
    "replay",
    "capacity",
    "move",
    "burst",
    "growth",
    "upgrade",
    "pt_upgrade",
    "accounts",
    "replica",
]


class CheckRow(Record):
    """One check: what was compared, and what differs."""

    check: CheckName
    decision: Decision
    text: str
    details: tuple[str, ...] = ()


class ServerSide(Record):
    """One of the two servers."""

    address: str
    flavor: str
    version: str
    user: str
    excess_privileges: tuple[str, ...] = Field(default=())


class ReplayClass(Record):
    """Statements of one shape. `response` is from when a statement was due, `service` from when it was sent."""

    fingerprint: str
    statements: int
    errors: int
    logged_ms_p50: float
    logged_ms_p95: float
    service_ms_p50: float | None
    service_ms_p95: float | None
    response_ms_p50: float | None
    response_ms_p95: float | None
    slower: str = Field(default="", description="How it is slower than the log, beyond doubt; else empty.")
    undecided: str = Field(
        default="", description="How it seems slower, where the busy machine of the client can have made it so."
    )
    unproven: str = Field(
        default="", description="How its median is beyond the limit, which the intervals do not prove; else empty."
    )
    excluded: bool = Field(
        default=False, description="Whether the intervals prove that its median is not beyond the limit."
    )


class Replayed(Record):
    """What became of the log's statements on the candidate."""

    statements: int = Field(description="Statements that were due.")
    sent: int
    excluded: dict[str, int] = Field(
        description="Statements of the log that were not replayed, by reason.",
    )
    log_s: float = Field(description="From the first to the last statement of the log.")
    log_from: str = Field(default="", description="When its first statement came, in UTC.")
    log_appended_bytes: int | None = Field(
        default=None,
        description="What its server appended to the log while it was read to its end, and was not replayed.",
    )
    speed: float
    planned_s: float
    duration_s: float
    peak_per_s: int = Field(description="Most statements that were due in one second, at this speed.")
    connections: int
    shared_connections: int = Field(description="Connections of the log that had to share one.")
    second_resolution: bool = Field(
        description="The log knows only the second: spread evenly within it.",
    )
    writes: bool
    late: int = Field(description="Started late by the client's own fault.")
    late_share: float
    client_cpu_share: float = Field(description="Of one CPU, by the busiest of the client's processes.")
    errors: dict[str, int] = Field(description="By the server's code and words of the first.")
    round_trip_ms_p50: float | None = Field(
        default=None,
        description="What a statement that does nothing took from here during the replay.",
    )
    round_trip_ms_p95: float | None = Field(default=None)
    foreign_cpu_ratio: float | None = Field(
        default=None,
        description="Share of all CPUs of the client's machine that other programs used during the replay.",
    )
    server_stretch: float | None = Field(
        default=None,
        description="How many times as long the candidate's tasks took on and waiting for a CPU as on it; null: it "
        "is on another machine, or this one was not busy with other work, or its tasks cannot be seen.",
    )
    classes: tuple[ReplayClass, ...]


class RunReference(Record):
    """A run that the policy was decided by."""

    run_id: str
    suite: str
    report_sha256: str
    complete: bool
    emulated: tuple[str, ...] = Field(default=(), description="Volumes that were emulated: a rehearsal.")


class Validation(Record):
    """validation.json: the decision, its checks, and every statement that the source was sent."""

    schema_: int = Field(default=VALIDATION_SCHEMA, alias="schema")
    decision: Decision
    reason: str
    name: str
    plan_sha256: str
    plan: str = Field(default="", description="Its text: what was asked, with its limits.")
    started_at: Moment
    finished_at: Moment
    volbench_version: str
    source: ServerSide
    candidate: ServerSide
    schemas: tuple[str, ...]
    checks: tuple[CheckRow, ...]
    advice: dict[str, str] = Field(
        default_factory=dict,
        description="Of pt-config-diff and pt-variable-advisor, installed or of the tools image.",
    )
    replay: Replayed | None = None
    burst: BurstOutlook | None = None
    growth: GrowthOutlook | None = None
    capacities: tuple[CapacityRow, ...] = ()
    moves: tuple[MoveEstimate, ...] = ()
    runs: tuple[RunReference, ...] = ()
    conditions: tuple[ConditionRow, ...] = ()
    statements_sent_to_source: dict[str, int] = Field(
        description="Each statement without its literals, and how often it was sent."
    )
    source_changed: bool | None = Field(
        default=None,
        description="Whether its binary log grew during the validation; null where that cannot be seen.",
    )
