"""What a volume costs a month: suites/prices/aws.yaml, dated list prices."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError, model_validator

from volbench.core.profile.files import profiles_directory
from volbench.core.profile.formula import Value
from volbench.core.profile.resolve import resolve_disk
from volbench.core.records.base import Bytes, Record
from volbench.core.suite.document import parse_document
from volbench.core.suite.load import read_file
from volbench.errors import UsageError

HOURS_IN_MONTH = 730.0  # as vendors' calculators take it
_SECONDS_IN_MONTH = HOURS_IN_MONTH * 3600.0


class Price(Record):
    """One part of a volume's price: of a parameter (size, iops, throughput), of traffic, or of its disks.

    `per` is the amount that `price` is for, in the parameter's own unit (bytes for sizes and traffic). Only what
    lies above `over` (and `over_per_gib` for each GiB of `size`) and up to `up_to` is charged. `disks` names the
    parameter that says what each disk is, and `number` the one that says how many there are: each costs what a
    volume of its own costs. `only` has parameters with the values for which the price was read; with others the
    volume has no price. `without` says what the volume needs and the price leaves out.
    """

    parameter: str | None = None
    traffic: Literal["read", "write"] | None = None
    disks: str | None = None
    number: str | None = None
    per: Bytes = 1
    price: float | None = Field(default=None, ge=0)
    over: float = Field(default=0.0, ge=0)
    over_per_gib: float = Field(default=0.0, ge=0)
    up_to: float = math.inf
    only: dict[str, str] = Field(default_factory=dict)
    without: str = ""
    source: str
    assumed: bool

    @model_validator(mode="after")
    def _is_of_one_thing(self) -> Price:
        if sum(charge is not None for charge in (self.parameter, self.traffic, self.disks)) != 1:
            raise ValueError("a price is of a parameter, of traffic, or of disks")
        if (self.disks is None) != (self.number is None) or (self.disks is None) == (self.price is None):
            raise ValueError("disks need their number and have prices of their own; everything else needs a price")
        return self

    def month(self, amount: float, *, size_gib: float = 0.0) -> float:
        """Return the price of an amount, in the parameter's unit, of a volume of this size."""
        over = self.over + self.over_per_gib * size_gib
        return max(0.0, min(amount, self.up_to) - over) / self.per * (self.price or 0.0)


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

    def is_charged_by_traffic(self, profile: str) -> bool:
        """Return whether a part of a profile's price is for bytes read or written."""
        return any(charge.traffic for charge in self.volumes.get(profile, ()))

    def is_complete(self, profile: str) -> bool:
        """Return whether a profile has a price that leaves out nothing that the volume needs."""
        return profile in self.volumes and not any(charge.without for charge in self.volumes[profile])


@dataclass(frozen=True, kw_only=True)
class MonthlyPrice:
    """A month's price of a volume, and whether any part of it is a price that was not read at the vendor.

    `without` says what the volume needs and the price leaves out, each once.
    """

    month: float
    assumed: bool
    without: tuple[str, ...] = ()


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
) -> MonthlyPrice | None:
    """Return a month of a volume with these parameters under this mean traffic; None where there is no price."""
    charges = prices.volumes.get(profile)
    if charges is None or not all(_is_for(charge, parameters) for charge in charges):
        return None
    traffic = {"read": read_bytes_per_s * _SECONDS_IN_MONTH, "write": write_bytes_per_s * _SECONDS_IN_MONTH}
    charges_priced = [_priced(prices, charge, parameters, traffic) for charge in charges]
    if None in charges_priced:
        return None
    priced = [charge for charge in charges_priced if charge is not None]
    return MonthlyPrice(
        month=sum(charge.month for charge in priced),
        assumed=any(charge.assumed and charge.month > 0 for charge in priced),
        without=tuple(dict.fromkeys(text for charge in priced for text in charge.without)),
    )


def _is_for(charge: Price, parameters: Mapping[str, Value]) -> bool:
    """Return whether a price was read for a volume with these parameters."""
    return all(str(parameters.get(key)) == value for key, value in charge.only.items())


def _priced(
    prices: Prices, charge: Price, parameters: Mapping[str, Value], traffic: Mapping[str, float]
) -> MonthlyPrice | None:
    """Return one part of a month's price; None where the disks have no price."""
    without = (charge.without,) if charge.without else ()
    if charge.disks is None:
        amount = traffic[charge.traffic] if charge.traffic else _number(parameters, charge.parameter or "")
        month = charge.month(amount, size_gib=float(parameters.get("size", 0.0)) / 2**30)
        return MonthlyPrice(month=month, assumed=charge.assumed, without=without)
    disk = resolve_disk(str(parameters.get(charge.disks, "")))
    each = monthly_cost(prices, disk.profile, disk.parameters, read_bytes_per_s=0.0, write_bytes_per_s=0.0)
    if each is None:
        return None
    number = _number(parameters, charge.number or "")
    return MonthlyPrice(month=each.month * number, assumed=each.assumed, without=(*without, *each.without))


def _number(parameters: Mapping[str, Value], name: str) -> float:
    """Return a parameter that a price is for. Raise UsageError where the volume has no such number."""
    value = parameters.get(name)
    if not isinstance(value, int | float):
        raise UsageError(
            f"a price is for the parameter {name!r}, of which the volume has no number",
            where="prices",
            evidence=f"parameters: {', '.join(parameters)}",
            next_step="name one of the profile's parameters in the file of prices",
        )
    return float(value)
