"""Frozen models of a volume profile's file: suites/volumes/NAME.yaml, or a user's own.

A profile is data. Its *figures* are numbers, each with its source and whether it is assumed; a SPEC may set its
*parameters*; its *formulas* give names to arithmetic on both (core/profile/formula.py); its limits and latencies
consist of formulas.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from volbench.core.records.base import Record, parse_size_bytes

PROFILE_SCHEMA = 1

Formula = str | float


class Figure(Record):
    """One number of a volume. A text is a size such as 250MiB."""

    value: float | str
    unit: str
    source: str
    assumed: bool

    @property
    def number(self) -> float:
        """The value; sizes in bytes."""
        return float(parse_size_bytes(self.value)) if isinstance(self.value, str) else self.value


class Parameter(Record):
    """A parameter that a SPEC may set. Its default may be a formula of figures and earlier parameters."""

    kind: Literal["size", "number", "share", "choice", "instance", "profile", "volume"]
    default: Formula
    choices: tuple[str, ...] = ()
    text: str


class Check(Record):
    """A condition on the parameters."""

    require: Formula
    text: str


class Spread(Record):
    """A limit that exists once per disk of a cluster."""

    over: Formula
    object_bytes: Formula
    read_copies: Formula
    write_copies: Formula


class Disks(Record):
    """The disks of a cluster: each is a volume of its own, with its own limits and credits.

    A parameter of kind `volume` names their SPEC, such as `ebs-gp2?size=600GiB`. Their figures are names of
    formulas, with the parameter's name before them: `osd_read_median`.
    """

    parameter: str
    spread: Spread
    write_ios: Formula = Field(default=1.0, description="I/Os of a disk for one write of a copy.")


class Published(Record):
    """The vendor's metric for a credit bucket."""

    metric: str
    percent: bool


class Limit(Record):
    """A limit, as the daemon's model knows it; numbers are formulas."""

    name: str
    when: Formula = 1.0
    scope: Literal["volume", "cluster", "instance"] = "volume"
    resource: Literal["iops", "throughput"]
    unit: Literal["io", "byte"]
    rate_per_s: Formula
    burst: Formula
    credits: bool = False
    fill: Formula = 1.0
    max_io_bytes: Formula | None = None
    merge_from_bytes: Formula | None = None
    min_bytes: Formula = 0.0
    weights: dict[Literal["read", "write", "flush", "metadata", "change"], Formula] | None = None
    spread: Spread | None = None
    published: Published | None = None


class Leg(Record):
    """One leg of an operation's latency: a lognormal by its median and 99th percentile."""

    median_us: Formula
    p99_us: Formula
    max_of: Formula = 1.0
    random_only: bool = False


class Latency(Record):
    """Legs one after the other, then the bytes at the speed of one stream."""

    parts: tuple[Leg, ...]
    stream_bytes_per_s: Formula | None = None


class FirstTouch(Record):
    """The cost of the first access to a block of a volume from a snapshot."""

    chunk_bytes: Formula
    latency: Latency
    bytes_per_s: Formula | None = None


class Profile(Record):
    """A file of suites/volumes. A fragment (common, the instance table) has some of the keys only."""

    schema_: Literal[1] = Field(alias="schema")
    name: str
    title: str = ""
    text: str = ""
    base: str | None = None
    mode: Literal["block", "files"] | None = None
    durability: Formula | None = None
    size_bytes: Formula | None = None
    async_window_s: Formula | None = None
    attribute_ttl_s: Formula | None = None
    read_ahead_kib: Formula | None = None
    client_sync: Formula = 0.0
    disks: Disks | None = None
    overhead_us: Formula | None = None
    late_tolerance_us: Formula | None = None
    parameters: dict[str, Parameter] = Field(default_factory=dict)
    figures: dict[str, Figure] = Field(default_factory=dict)
    table: dict[str, dict[str, Figure]] = Field(default_factory=dict)
    formulas: dict[str, Formula] = Field(default_factory=dict)
    checks: tuple[Check, ...] = ()
    limits: tuple[Limit, ...] = ()
    latency: dict[str, Latency] = Field(default_factory=dict)
    first_touch: FirstTouch | None = None
    more: dict[Literal["iops", "throughput"], str] = Field(
        default_factory=dict,
        description="What gives more of it where no parameter provisions it, as an order: Enlarge the volume.",
    )
