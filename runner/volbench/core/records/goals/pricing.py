"""What the transactions of a load cost on each volume: the suite's question, and the report's answer."""

from __future__ import annotations

from pydantic import Field

from volbench.core.records.base import Record, Scalar


class PricingSpec(Record):
    """A comparison of storage classes by speed, durability and price."""

    step: str = Field(min_length=1, description="Row of the report with the transactions, such as `read-write`.")
    volumes: dict[str, str] = Field(
        default_factory=dict,
        description="What volumes that are not emulated are, for their price: `{fast: ebs-io2?iops=6000}`.",
    )


class StorageClassRow(Record):
    """Speed, durability and price of one volume under one load: medians over valid cells."""

    volume: str
    step: str
    parameters: dict[str, Scalar] = Field(default_factory=dict, description="Threads or rate of the load.")
    tps: float | None = None
    tps_range: tuple[float, float] | None = Field(default=None, description="Lowest and highest cell.")
    latency_ms_p95: float | None = None
    cells: int = 0
    valid: bool = Field(default=True, description="False: no valid cell; this is of disturbed ones.")
    has_credits: bool = Field(default=False, description="Burst credits were left: the speed may not last.")
    cuts: int = Field(default=0, description="Power cuts or kills of the server; 0: no crash step.")
    acknowledged_commits: int = 0
    lost_commits: int = 0
    failed_recoveries: int = 0
    recovery_s: float | None = Field(default=None, description="Median over the cuts.")
    priced_as: str = Field(default="", description="SPEC whose price it is.")
    price_month: float | None = Field(default=None, description="null: see `price_unavailable_reason`.")
    price_per_million: float | None = Field(
        default=None, description="Of a million transactions, if the volume runs this load all month."
    )
    currency: str = ""
    region: str = ""
    price_list_date: str = ""
    assumed: bool = Field(default=False, description="Some part of the price was not read at the vendor.")
    price_exclusions: tuple[str, ...] = Field(
        default=(),
        description="What the volume needs and the price leaves out.",
    )
    price_unavailable_reason: str = ""
    dominated_by: tuple[str, ...] = Field(
        default=(),
        description="Volumes that are at least as fast for no higher price, and lost no commits. A burst speed"
        " dominates no lasting one, and an incomplete price no complete one.",
    )
    certain: bool = Field(
        default=False, description="One of these is faster in its slowest cell than this volume in its fastest."
    )
    frontier: bool = Field(default=False, description="No volume dominates it, and it lost no commits.")

    @property
    def settled(self) -> bool:
        """Whether price and speed are what a month brings: the price is complete, and no credits were left."""
        return not self.price_exclusions and not self.has_credits

    @property
    def loses(self) -> bool:
        """Whether an acknowledged commit was lost, or the server did not recover."""
        return self.lost_commits > 0 or self.failed_recoveries > 0
