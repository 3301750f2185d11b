"""What a suite expects of volumes with burst credits: said before the run, compared with the run after it."""

from __future__ import annotations

from pydantic import Field

from volbench.records.base import Bytes, Fraction, Record, Seconds


class ForecastSpec(Record):
    """The load that a suite puts on its volumes, for the forecast of burst credits."""

    step: str = Field(description="The step whose load spends the credits, from its begin on.")
    iops: float = Field(gt=0, description="Requests a second that it asks for; the volume's own cap bounds them.")
    io_size_bytes: Bytes = Field(default=16384, alias="io_size", gt=0, description="Of a request.")
    read_share: Fraction = Field(default=1.0, description="Reads among the requests.")
    dump: str = Field(default="", description="Row of a dump on the empty bucket: `night/beside-mysqldump`.")
    dump_size_bytes: Bytes | None = Field(default=None, alias="dump_size", description="What the dump reads.")
    dump_io_size_bytes: Bytes = Field(
        default=16384, alias="dump_io_size", gt=0, description="Of one of its reads, as the volume counts them."
    )
    dump_beside_iops: float = Field(default=0.0, ge=0, description="Requests a second of the load beside the dump.")
    window_s: Seconds | None = Field(default=None, alias="window", description="How long the dump may take.")
    volume: str = Field(
        default="", description="Profile of volumes that are not emulated, such as `ebs-gp2?size=50GiB`."
    )
