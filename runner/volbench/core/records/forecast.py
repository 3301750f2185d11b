"""What a suite expects of its volumes before the run, compared with the run after it."""

from __future__ import annotations

from pydantic import Field, field_validator, model_validator

from volbench.core.records.base import Bytes, Fraction, Record, Scalar, Seconds
from volbench.core.records.metrics import CATALOGUE


class Prediction(Record):
    """One metric of one step on one volume, with the derivation of its value."""

    volume: str = Field(description="Name of the volume; of a sweep's variant, its name with the factor.")
    step: str = Field(description="Row of the report, such as `read-write` or `fio/randread-4KiB`.")
    metric: str = Field(description="Name of a metric, in its unit.")
    parameters: dict[str, Scalar] = Field(
        default_factory=dict, description="Of the row, where several have its name: `{iodepth: 64}`."
    )
    against: str = Field(
        default="", description="Another volume: the value is this volume's figure divided by that one's."
    )
    value: float = Field(gt=0, description="In the metric's unit, or the ratio.")
    interval: tuple[float, float] | None = Field(
        default=None, description="Over the range of what can only be guessed."
    )
    derivation: str = Field(min_length=20, description="Where the value comes from: figures with their source.")
    input: bool = Field(default=False, description="The value was used to calibrate the volume: it proves nothing.")
    reported: float | None = Field(default=None, gt=0, description="The same figure in a report of somebody else.")

    @field_validator("metric")
    @classmethod
    def _metric_is_known(cls, name: str) -> str:
        if name not in CATALOGUE:
            raise ValueError(f"no metric is called {name!r}")
        return name

    @model_validator(mode="after")
    def _value_is_in_its_interval(self) -> Prediction:
        if self.interval is not None and not self.interval[0] <= self.value <= self.interval[1]:
            raise ValueError(f"{self.value:g} is not in its interval {self.interval[0]:g} to {self.interval[1]:g}")
        return self


class ForecastSpec(Record):
    """What is expected of the volumes before the run: burst credits under the load, and single metrics."""

    predictions: tuple[Prediction, ...] = Field(
        default=(), description="Single metrics, compared with the run in its report."
    )
    step: str = Field(default="", description="The step whose load spends the credits, from its begin on.")
    iops: float | None = Field(
        default=None, gt=0, description="Requests a second that it asks for; the volume's own cap bounds them."
    )
    io_size_bytes: Bytes = Field(default=16384, alias="io_size", gt=0, description="Of a request.")
    read_share: Fraction = Field(default=1.0, description="Reads among the requests.")
    dump: str = Field(default="", description="Row of a dump on the empty bucket: `night/beside-mysqldump`.")
    dump_size_bytes: Bytes | None = Field(default=None, alias="dump_size", description="What the dump reads.")
    dump_io_size_bytes: Bytes = Field(
        default=16384, alias="dump_io_size", gt=0, description="Of one of its reads, as the volume counts them."
    )
    dump_concurrent_iops: float = Field(
        default=0.0,
        ge=0,
        description="Requests a second of the load during the dump.",
    )
    window_s: Seconds | None = Field(default=None, alias="window", description="How long the dump may take.")
    volume: str = Field(
        default="", description="Profile of volumes that are not emulated, such as `ebs-gp2?size=50GiB`."
    )

    @model_validator(mode="after")
    def _says_something(self) -> ForecastSpec:
        if bool(self.step) != (self.iops is not None):
            raise ValueError("step and iops belong together: the load that spends the credits")
        if not self.step and not self.predictions:
            raise ValueError("a forecast needs predictions, or step and iops")
        return self
