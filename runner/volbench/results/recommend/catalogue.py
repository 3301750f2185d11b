"""The volumes that could be bought: every priced type of block volume in steps of size, IOPS and throughput."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from volbench.core.base.nearest import suggestion
from volbench.core.profile.files import profile_names, whole_profile
from volbench.core.profile.limits import Limits, limits_of
from volbench.core.profile.resolve import ResolvedVolume, resolve
from volbench.core.profile.schema import Figure
from volbench.errors import UsageError
from volbench.results.credits.prices import MonthlyPrice, Prices
from volbench.results.credits.sizing import cost_of, size_parameter

_SERIES = (1.0, 1.25, 1.6, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)
"""Steps of a decade of IOPS: by a quarter to a third, which is what a forecast tells apart at best."""
_THROUGHPUT_MIB = (125, 160, 200, 250, 315, 400, 500, 630, 800, 1000, 1250, 1600, 2000)
_SIZE_STEP = 1.25
_SIZES_MAX = 40
_PROVISIONED = ("iops", "throughput")
"""Parameters that are bought by the unit."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A volume with its month's price. `options`: as in a SPEC."""

    profile: str
    options: Mapping[str, str]
    volume: ResolvedVolume
    limits: Limits
    cost: MonthlyPrice

    @property
    def spec(self) -> str:
        """The volume as a SPEC: ebs-gp3?size=100GiB&iops=4000."""
        return f"{self.profile}?{'&'.join(f'{key}={value}' for key, value in self.options.items())}"


def candidates(prices: Prices, *, size_bytes: int, profiles: Sequence[str] = ()) -> tuple[Candidate, ...]:
    """Return all volumes of at least a size, the cheapest first; of one price the one with more IOPS first.

    Args:
        prices: of volumes; a type whose price leaves something out is none.
        size_bytes: what the volume must hold.
        profiles: types to choose from; empty: all block volumes with a price.

    Raises UsageError for a type that is unknown, no block volume, or without a price, and for prices of which no
    type is offered or that leave out a part which is bought by the unit.
    """
    for name in profiles:
        _check(name, prices)
    names = profiles or _offered(prices)
    candidates: list[Candidate] = []
    for name in names:
        candidates += _of_profile(name, prices, max(1, math.ceil(size_bytes / 2**30)))
    return tuple(sorted(candidates, key=lambda candidate: (candidate.cost.month, -_iops(candidate))))


def _check(name: str, prices: Prices) -> None:
    if name not in profile_names():
        hint = suggestion(name, profile_names())
        raise UsageError(f"there is no profile {name!r}; {hint}", where=f"--profile {name}")
    if fault := _fault(name, prices):
        offered = [each for each in prices.volumes if each in profile_names() and not _fault(each, prices)]
        raise UsageError(
            f"the profile {name} {fault}",
            where=f"--profile {name}",
            evidence=f"block volumes with a price ({prices.dated}): {', '.join(offered) or 'none'}",
            next_step="choose one of these, or add its price to a file and give that as --prices FILE",
        )


def _offered(prices: Prices) -> list[str]:
    """Return all block volumes with a price. Raise UsageError for none, and for a price that leaves a part out."""
    faults = {name: _fault(name, prices) for name in prices.volumes if name in profile_names()}
    for name in faults:
        unpriced = _unpriced(name, prices) if prices.is_complete(name) else []
        if unpriced:
            priced = ", ".join(_priced_parameters(name, prices))
            raise UsageError(
                f"the price of {name} has no part for its {' and '.join(unpriced)}",
                where="--prices",
                evidence=f"its parts are for {priced}; what has no price would seem free",
                next_step="add the missing part (price: 0 where it costs nothing), or leave the profile out",
            )
    offered = [name for name, fault in faults.items() if not fault]
    if not offered:
        reasons = [f"{name} {fault}" for name, fault in faults.items()]
        raise UsageError(
            "no block volume has a price, so none can be recommended",
            where="--prices",
            evidence="; ".join(reasons) or "no profile of suites/volumes has a price in that file",
            next_step="add a price of a block volume, as suites/prices/aws.yaml has them",
        )
    return offered


def _fault(name: str, prices: Prices) -> str:
    """Return why a profile cannot be chosen from, as the rest of a sentence; empty where it can."""
    charges = prices.volumes.get(name)
    if charges is None:
        return "has no price"
    if without := next((charge.without for charge in charges if charge.without), ""):
        return f"has a price that leaves out {without}"
    if unpriced := _unpriced(name, prices):
        return f"has a price without a part for its {' and '.join(unpriced)}"
    if resolve(name).mode != "block":
        return "is a file system on the network, not a block volume"
    return "" if size_parameter(name) else "has no parameter for its size"


def _unpriced(name: str, prices: Prices) -> list[str]:
    """Return what is provisioned of a block volume and has no price: it would be recommended as if it were free."""
    if resolve(name).mode != "block":
        return []
    parameters, priced = whole_profile(name).parameters, _priced_parameters(name, prices)
    return [parameter for parameter in _PROVISIONED if parameter in parameters and parameter not in priced]


def _priced_parameters(name: str, prices: Prices) -> list[str]:
    """Return the parameters that a price is for, or is known for one value of."""
    charges = prices.volumes[name]
    named = [charge.parameter for charge in charges if charge.parameter]
    return list(dict.fromkeys([*named, *(parameter for charge in charges for parameter in charge.only)]))


def _of_profile(name: str, prices: Prices, gib: int) -> Iterator[Candidate]:
    profile = whole_profile(name)
    parameters, figures = profile.parameters, profile.figures
    parameter = size_parameter(name) or ""
    if "iops" in parameters:
        throughputs = [{"throughput": str(mib)} for mib in _THROUGHPUT_MIB] if "throughput" in parameters else [{}]
        grid = [{"iops": str(iops), **more} for iops in _iops_steps(name, figures) for more in throughputs]
        sized = [
            {parameter: f"{_gib_for(figures, gib, int(combination['iops']))}GiB", **combination}
            for combination in grid
        ]
    else:
        sized = [{parameter: f"{size}GiB"} for size in _sizes(figures, gib)]
    for options in sized:
        try:
            volume = resolve(name, options)
        except UsageError:
            continue  # the vendor does not offer this combination
        cost = cost_of(volume, None, prices)
        if cost is not None:
            yield Candidate(profile=name, options=options, volume=volume, limits=limits_of(volume), cost=cost)


def _iops_steps(name: str, figures: Mapping[str, Figure]) -> list[int]:
    most = _figure(figures, "iops_max")
    if most is None:
        raise UsageError(f"{name} has no figure iops_max, so no steps of IOPS are known", where=f"--profile {name}")
    steps = {round(step * 10**decade) for decade in range(2, 7) for step in _SERIES}
    return sorted(step for step in {*steps, round(most)} if step <= most)


def _gib_for(figures: Mapping[str, Figure], gib: int, iops: int) -> int:
    """Return the least size, in GiB, that holds the data and may have so many IOPS."""
    ratio, free, least = (_figure(figures, key) for key in ("iops_per_gib", "iops_base", "size_min_gib"))
    needed = math.ceil(iops / ratio) if ratio and iops > (free or 0) else 1
    return max(gib, needed, math.ceil(least or 1))


def _sizes(figures: Mapping[str, Figure], gib: int) -> Iterator[int]:
    least, most = (_figure(figures, key) for key in ("size_min_gib", "size_max_gib"))
    size, most = max(gib, math.ceil(least or 1)), most or math.inf
    for _ in range(_SIZES_MAX):
        if size > most:
            return
        yield size
        size = math.ceil(size * _SIZE_STEP)


def _figure(figures: Mapping[str, Figure], name: str) -> float | None:
    figure = figures.get(name)
    return None if figure is None else figure.number


def _iops(candidate: Candidate) -> float:
    caps = [cap.rate_per_s for cap in candidate.limits.all if cap.resource == "iops"]
    return min(caps, default=math.inf)
