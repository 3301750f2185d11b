"""The step `crash`: what a power cut or a kill loses."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from volbench.core.records.base import Seconds
from volbench.core.records.metric import FIRST_QUERY, Metric
from volbench.core.records.steps.base import ASSUMED_READ_MIB_PER_S, StepBase, StepCost
from volbench.core.records.steps.kind import StepKind

RECOVERY_S = 5.0


class CrashStep(StepBase):
    """Durability: clients commit, power is cut or the server is killed, and what is lost is counted."""

    kind: Literal["crash"] = "crash"
    fault: Literal["auto", "power_cut", "kill_server"] = Field(
        default="auto",
        description="power_cut drops what an emulated volume had not made durable; kill_server is SIGKILL; "
        "auto: power_cut on emulated volumes, kill_server on others.",
    )
    threads: int = Field(
        default=8, ge=1, le=256, description="Clients that commit, each on a connection of its own."
    )
    after_s: Seconds = Field(
        default=8.0,
        alias="after",
        gt=0,
        le=600,
        description="Commits before a cut; its moment is drawn by the seed, between 0.5 and 1.5 times this.",
    )
    cuts: int = Field(default=1, ge=1, le=100, description="How often, each followed by a recovery.")
    rows_per_commit: int = Field(default=4, ge=2, le=100, description="Rows of a transaction.")
    row_bytes: int = Field(default=200, ge=16, le=4096, description="Bytes of a row, all decided by the seed.")
    check_tables: bool = Field(
        default=True, description="CHECK TABLE on the whole dataset after the last recovery."
    )

    def cost(self, data_bytes: int) -> StepCost:
        """Return the estimate: the cuts with their recoveries, and the check of all tables."""
        check_s = int(self.check_tables) * data_bytes / 2**20 / ASSUMED_READ_MIB_PER_S
        return StepCost(measured_s=self.cuts * (self.after_s + RECOVERY_S) + check_s)


KIND = StepKind(
    model=CrashStep,
    own_server="a crash test kills the server",
    metrics=(
        Metric(
            "commits_per_s",
            "1/s",
            "higher",
            "commits/s",
            "acknowledged commits per second, before the cuts of a crash test",
        ),
        Metric(
            "acknowledged_commits",
            "1",
            "none",
            "acknowledged commits",
            "commits that the server acknowledged before the cuts, over all cuts",
        ),
        Metric(
            "lost_commits",
            "1",
            "lower",
            "lost commits",
            "acknowledged commits that are missing after the recovery; over all cuts",
        ),
        Metric(
            "lost_s",
            "s",
            "lower",
            "lost work",
            "from the first acknowledgement of a lost commit to the last of any; the longest of all cuts",
        ),
        Metric(
            "unacknowledged_commits",
            "1",
            "none",
            "unacknowledged commits",
            "present without an acknowledgement: the answer was still under way, which is legal",
        ),
        Metric(
            "torn_commits",
            "1",
            "lower",
            "torn commits",
            "present in part after a recovery, acknowledged or not: never legal",
        ),
        Metric(
            "damaged_rows",
            "1",
            "lower",
            "damaged rows",
            "rows with other bytes than were written, or that no client wrote",
        ),
        Metric(
            "damaged_tables",
            "1",
            "lower",
            "damaged tables",
            "tables that CHECK TABLE reports as corrupt after the last recovery",
        ),
        Metric(
            "failed_recoveries",
            "1",
            "lower",
            "failed recoveries",
            "power cuts without recovery; the cell stops there and stays valid",
        ),
        Metric(
            "recovery_s",
            "s",
            "lower",
            "recovery",
            "from the server's start after a cut to its first answer; the median of all cuts",
        ),
        FIRST_QUERY,
    ),
    primary=("commits_per_s", "recovery_s"),
    stream_parameters=("threads",),
)
