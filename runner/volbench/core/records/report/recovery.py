"""Rows of backups under a load, and of what crashes cost."""

from __future__ import annotations

from pydantic import Field

from volbench.core.records.base import Record
from volbench.core.records.report.cells import Standing


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
    latency_ms_p95_during: float | None = Field(
        default=None, description="None too: each cell had fewer than 20 transactions during the backup."
    )
    latency_ms_max_during: float | None = Field(
        default=None, description="The slowest of all cells, where they are too few for p95."
    )
    transactions_during: int | None = Field(default=None, description="Of all cells; as the slowest.")
    tps_alone: float | None = None
    tps_during: float | None = None
    stalled_s_during: float | None = None
    window_s: float | None = Field(default=None, description="As the suite states it.")
    fits: bool | None = Field(default=None, description="None: the suite states no window.")
    recommended_window_s: float


class SpeedRow(Record):
    """What a volume did in another step: its figure."""

    step: str
    metric: str
    value: float
    unit: str
    standing: Standing = Field(default="valid", description="Which cells the value is of.")


class DurabilityRow(Record):
    """What cuts cost on one volume in one crash step, all its cells together, with its speed beside it."""

    volume: str
    step: str
    fault: str = Field(description="`power_cut` or `kill_server`.")
    volume_durability: str | None = Field(
        default=None,
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
