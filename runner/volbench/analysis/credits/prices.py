"""What a volume costs a month: suites/prices/aws.yaml, dated list prices."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError, model_validator

from volbench.errors import UsageError
from volbench.profile.files import profiles_directory
from volbench.profile.formula import Value
from volbench.records.base import Bytes, Record
from volbench.suite.document import parse_document
from volbench.suite.load import read_file

HOURS_IN_MONTH = 730.0  # as vendors' calculators take it
_SECONDS_IN_MONTH = HOURS_IN_MONTH * 3600.0


class Price(Record):
    """One part of a volume's price: of a parameter (size, iops, throughput), or of traffic.

    `per` is the amount that `price` is for, in the parameter's own unit (bytes for sizes and traffic); only what
    lies above `over` and up to `up_to` is charged.
    """

    parameter: str | None = None
    traffic: Literal["read", "write"] | None = None
    per: Bytes
    price: float = Field(ge=0)
    over: float = Field(default=0.0, ge=0)
    up_to: float = math.inf
    source: str
    assumed: bool

    @model_validator(mode="after")
    def _is_of_one_thing(self) -> Price:
        if (self.parameter is None) == (self.traffic is None):
            raise ValueError("a price is either of a parameter or of traffic")
        return self

    def month(self, amount: float) -> float:
        """The price of an amount, in the parameter's unit."""
        return max(0.0, min(amount, self.up_to) - self.over) / self.per * self.price


class InstancePrice(Record):
    """An instance's price an hour."""

    hour: float = Field(ge=0)
    source: str
    assumed: bool


class Prices(Record):
    """suites/prices/aws.yaml."""

    schema_: Literal[1] = Field(alias="schema")
    dated: str
    region: str
    currency: str
    volumes: dict[str, tuple[Price, ...]]
    instances: dict[str, InstancePrice]


@dataclass(frozen=True, kw_only=True)
class Cost:
    """A month's price of a volume, and whether any part of it is a price that was not read at the vendor."""

    month: float
    assumed: bool


def load_prices(path: Path | None = None) -> Prices:
    """suites/prices/aws.yaml, or the file given. Raises UsageError with file and line."""
    return _load((path or profiles_directory().parent / "prices" / "aws.yaml").resolve())


@cache
def _load(path: Path) -> Prices:
    document = parse_document(read_file(path, noun="price"), name=str(path))
    try:
        return Prices.model_validate(document.data)
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageError(
            f"{'.'.join(str(key) for key in first['loc'])}: {first['msg']}", where=document.origin(first["loc"])
        ) from error


def monthly_cost(
    prices: Prices,
    profile: str,
    parameters: Mapping[str, Value],
    *,
    read_bytes_per_s: float,
    write_bytes_per_s: float,
) -> Cost | None:
    """A month of a volume with these parameters under this mean traffic; None where there is no price."""
    charges = prices.volumes.get(profile)
    if charges is None:
        return None
    traffic = {"read": read_bytes_per_s * _SECONDS_IN_MONTH, "write": write_bytes_per_s * _SECONDS_IN_MONTH}
    total, assumed = 0.0, False
    for charge in charges:
        amount = traffic[charge.traffic] if charge.traffic else float(parameters[charge.parameter or ""])
        month = charge.month(amount)
        total += month
        assumed = assumed or (charge.assumed and month > 0)
    return Cost(month=total, assumed=assumed)
