"""A plan of a validation before a move: what is compared with what."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from volbench.core.records.base import Bytes, Fraction, Record, Seconds
from volbench.core.records.goals.capacity import CapacityPlan
from volbench.core.records.goals.policy import Condition
from volbench.core.records.tls import ServerAccess

PLAN_SCHEMA: Literal[2] = 2


class ServerPlace(ServerAccess):
    """A server that runs; the password is in the option file or in VOLBENCH_MYSQL_PASSWORD, never here."""

    host: str = Field(default="", description="Host of the server; or give `socket`.")
    port: int = Field(default=3306, ge=1, le=65535, description="Its port.")
    socket: str = Field(default="", description="Unix socket of the server.")
    user: str = Field(
        default="root", description="Who connects; see the least grants in suites/validation/README.md."
    )
    option_file: str = Field(default="", description="A my.cnf with the password in [client]; 0600.")

    @model_validator(mode="after")
    def _one_place(self) -> ServerPlace:
        if bool(self.host) == bool(self.socket) and not self.option_file:
            raise ValueError("give a host or a socket, or an option_file that has one")
        return self


class QueriesPlan(Record):
    """Queries to compare, from a slow query log (long_query_time = 0 for all) or a capture of the source."""

    slow_log: str = Field(default="", description="Path of the log, from where volbench runs.")
    capture: str = Field(default="", description="Or the file of a `volbench capture`.")
    classes: int = Field(default=50, ge=1, le=300, description="So many classes, those that took most time first.")
    pt_upgrade: bool = Field(default=False, description="Ask pt-upgrade about the same queries too.")
    pt_upgrade_s: Seconds = Field(
        default=600.0, alias="pt_upgrade_time", gt=0, le=24 * 3600, description="It may run so long, such as 10m."
    )

    @model_validator(mode="after")
    def _one_origin(self) -> QueriesPlan:
        if bool(self.slow_log) == bool(self.capture):
            raise ValueError("give a slow_log or a capture, one of them")
        return self


class SourcePlace(ServerPlace):
    """The server in use now."""

    allow_privileged: bool = Field(
        default=False, description="Read it by an account with FILE, SUPER or SYSTEM_VARIABLES_ADMIN too."
    )


class SettingsPlan(Record):
    """Compare the servers' variables."""

    accept: tuple[str, ...] = Field(default=(), description="Variables that may differ, by name.")


class ReplicaPlan(Record):
    """What pt-table-checksum wrote down on a replica, read and never run."""

    on: Literal["source", "candidate"] = Field(description="Which of both is the replica.")
    table: str = Field(
        default="percona.checksums",
        pattern=r"^[A-Za-z0-9_$]+\.[A-Za-z0-9_$]+$",
        description="Where its results are (--replicate).",
    )
    not_older_s: Seconds = Field(
        default=7 * 86400.0, alias="not_older", gt=0, description="Older checksums prove nothing, 168h if left out."
    )


class MovePlan(Record):
    """How long the move takes, from dumps and restores that `runs` measured."""

    window_s: Seconds | None = Field(default=None, alias="window", gt=0, description="It may take so long: 4h.")
    copy_per_s: Bytes | None = Field(
        default=None, alias="copy", gt=0, description="Bytes a second on the way of the dump, such as 100MiB."
    )
    switch_s: Seconds = Field(
        default=30.0, alias="switch", ge=0, description="Clients moved over, once nothing has to be copied."
    )


class CandidatePlace(ServerPlace):
    """The server to move to."""

    disposable: bool = Field(
        default=False, description="Its data may be written by a replay, and is restored again afterwards."
    )


class ReplayPlan(Record):
    """The log's statements again, on the candidate, when they came; see suites/validation/README.md."""

    slow_log: str = Field(description="Path of the log, from where volbench runs.")
    speed: float = Field(default=1.0, ge=0.01, le=100, description="2: twice as fast as they came.")
    connections: int = Field(default=128, ge=1, le=1000, description="Connections at most, at one time.")
    seconds: Seconds = Field(default=3600.0, gt=0, le=24 * 3600, description="Only so much of the log's time.")
    slower: float = Field(
        default=1.5,
        gt=1,
        le=100,
        description="A class is slower beyond this multiple of the log's p95.",
    )
    errors_max: Fraction = Field(default=0.001, ge=0, lt=1, description="A larger share of errors is a no-go.")
    ignore_errors: tuple[int, ...] = Field(default=(), description="Codes that count for nothing, such as 1062.")
    late_max: Fraction = Field(
        default=0.01, ge=0, lt=1, description="Beyond this share of late starts the replay is invalid."
    )


class BurstPlan(Record):
    """Whether the candidate's volume holds the replayed load for long: its limits, and its burst credits."""

    volume: str = Field(description="Its profile, as a SPEC: ebs-gp2?size=50GiB&instance=m5.large.")
    data_dir: str = Field(
        default="", description="The candidate's data directory as seen from here; its device is counted then."
    )
    duration_s: Seconds = Field(
        default=86400.0,
        alias="duration",
        gt=0,
        description="Credits have to last so long, 24h if left out.",
    )
    series: str = Field(
        default="", description="Production's load over the days, as `volbench credits --from` reads it."
    )
    device: str = Field(default="", description="Which device of a series that has several.")
    times: float = Field(default=1.0, gt=0, le=1000, description="Load multiplier.")


class GrowthPlan(Record):
    """When the candidate's volume will be full, from captures of the source."""

    volume: str = Field(default="", description="Its profile with its size, as a SPEC: ebs-gp3?size=500GiB.")
    data_dir: str = Field(
        default="", description="Or the data directory as seen from here; its file system's size is taken then."
    )
    horizon_s: Seconds = Field(
        default=90 * 86400.0,
        alias="horizon",
        gt=0,
        description="It may not be full before, 90d if left out.",
    )
    full: Fraction = Field(default=0.9, gt=0, le=1, description="So much of it may be used, 90 % if left out.")
    captures: tuple[str, ...] = Field(
        default=(), max_length=100, description="Files of `volbench capture` of the source, days apart."
    )

    @model_validator(mode="after")
    def _one_volume(self) -> GrowthPlan:
        if bool(self.volume) == bool(self.data_dir):
            raise ValueError("give the volume as a SPEC with its size, or a data_dir, one of them")
        if len(self.captures) < 2:
            raise ValueError("growth is the difference between captures of the source: give two or more `captures`")
        return self


AtRest = Literal["plain", "none"]


class ValidationPlan(Record):
    """What is compared with what."""

    schema_: Literal[2] = Field(default=PLAN_SCHEMA, alias="schema", description="Version of this format.")
    name: str = Field(default="validation", max_length=120, description="Shown in the report.")
    source: SourcePlace = Field(description="The server in use now; only ever read.")
    candidate: CandidatePlace = Field(description="The server to move to, with the data restored to it.")
    at_rest: AtRest = Field(
        default="plain",
        description="Whether the reports hold values of rows.",
    )
    schemas: tuple[str, ...] = Field(
        default=(), description="Schemas to compare; all but the system's if left out."
    )
    data: bool = Field(default=True, description="Compare every row by checksums.")
    checksum_connections: int = Field(
        default=1, ge=1, le=16, description="So many connections to each server compute checksums."
    )
    queries: QueriesPlan | None = Field(default=None, description="Compare queries; left out: none.")
    settings: SettingsPlan | None = Field(default=None, description="Compare variables; left out: not.")
    replica: ReplicaPlan | None = Field(
        default=None, description="Read the results of a pt-table-checksum of your own; left out: not."
    )
    upgrade: bool = Field(
        default=False,
        description="Ask MySQL Shell's upgrade checker, which sends the source statements of its own.",
    )
    replay: ReplayPlan | None = Field(default=None, description="Replay the log; left out: not.")
    capacity: CapacityPlan | None = Field(
        default=None, description="The highest rate that keeps an objective, from `runs`, against the log's peak."
    )
    move: MovePlan | None = Field(default=None, description="Predict the time of the move from `runs`.")
    burst: BurstPlan | None = Field(
        default=None, description="Burst credits and limits under the load of `replay`; left out: not asked."
    )
    growth: GrowthPlan | None = Field(
        default=None, description="When the volume is full, by captures of the source; left out: not asked."
    )
    runs: tuple[str, ...] = Field(
        default=(), max_length=20, description="Directories of runs on the candidate's volume."
    )
    volume: str = Field(default="", description="The candidate's volume in `runs`; else all but a run's first one.")
    confidence: Fraction = Field(default=0.95, gt=0.5, lt=1, description="How sure each condition has to be.")
    policy: tuple[Condition, ...] = Field(
        default=(), max_length=1000, description="Conditions over checks and runs; all must hold too."
    )

    @model_validator(mode="after")
    def _load_is_measured(self) -> ValidationPlan:
        if self.burst is not None and self.replay is None and not self.burst.series:
            raise ValueError("burst is measured while `replay` sends the log: give it too, or a series")
        return self
