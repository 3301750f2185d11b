"""The smallest size of each type of volume that would not run out of credits, and what it costs a month."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from volbench.core.profile.files import INSTANCES, load_profile, profile_names, whole_profile
from volbench.core.profile.limits import Limits, limits_of
from volbench.core.profile.resolve import ResolvedVolume, resolve
from volbench.errors import UsageError
from volbench.results.credits.balance import is_sustainable, served_by_caps
from volbench.results.credits.prices import HOURS_IN_MONTH, MonthlyPrice, Prices, monthly_cost
from volbench.results.credits.work import Work

_GIB_MAX = 2**18  # above every vendor's largest volume: a bound of the search, the profile's own check is closer
_TUNED_MAX = 2**24
_CAP_SLACK = 0.01  # a history's peak may lie this far above a cap: sampling rounds
_ROUNDING = 1e-9
_TIME_SCALE = "time_scale"
_NOT_KEPT = {"instance", "credits", "iops", "throughput"}
_TUNED_UNIT = {"iops": 1.0, "throughput": 2.0**20}  # parameters of profiles are IOPS and MiB/s


@dataclass(frozen=True, kw_only=True)
class Alternative:
    """A volume that serves the whole load for ever.

    Args:
        profile: its type.
        options: parameters to be set besides its size, as in a SPEC.
        size_parameter: which parameter sets its size.
        size_bytes: its size.
        cost: a month's price; None where there is none.
    """

    profile: str
    options: Mapping[str, str]
    size_parameter: str
    size_bytes: int
    cost: MonthlyPrice | None


@dataclass(frozen=True, kw_only=True)
class InstanceAlternative:
    """An instance whose own limits serve the whole load for ever."""

    instance: str
    cost: MonthlyPrice | None


def size_parameter(profile: str) -> str | None:
    """Return the parameter that says how large a volume of this profile is; None where it has no size."""
    return next(
        (key for key, parameter in whole_profile(profile).parameters.items() if parameter.kind == "size"), None
    )


def alternatives(profile: str, options: Mapping[str, str], work: Work, prices: Prices) -> list[Alternative]:
    """Return the smallest volume of each priced type of its kind that holds the data and endures the load.

    A type whose price leaves something out (the nodes of a cluster) is no alternative.

    A bucket is full at first, and the load is repeated for ever. Instance limits are left out: see `instances`.
    Sorted by price.

    Args:
        profile, options: the volume that there is, as in a SPEC; of its own type, other options are kept.
    """
    volume = resolve(profile, options)
    common_options = {key: value for key, value in options.items() if key not in _NOT_KEPT}
    common = {key: value for key, value in common_options.items() if key == _TIME_SCALE}
    names = profile_names()
    complete = [name for name in prices.volumes if prices.is_complete(name)]
    other_profiles = [name for name in complete if name in names and name != volume.profile]
    candidates = [
        (profile, common_options),
        *((name, common) for name in other_profiles if _mode(name) == volume.mode),
    ]
    sized = [smallest(name, volume.size_bytes, work, prices, options=base) for name, base in candidates]
    return sorted(
        (alternative for alternative in sized if alternative is not None),
        key=lambda sized: (math.inf if sized.cost is None else sized.cost.month, sized.profile),
    )


def smallest(
    profile: str, size_bytes: int, work: Work, prices: Prices, *, options: Mapping[str, str] | None = None
) -> Alternative | None:
    """Return the smallest volume of a type, from `size_bytes` on, that endures the load; None when none does.

    Args:
        options: parameters besides its size, as in a SPEC.
    """
    parameter = size_parameter(profile)
    if parameter is None:
        return None

    @cache
    def options_at(gib: int) -> Mapping[str, str] | None:
        return _tuned(profile, {**(options or {}), parameter: f"{gib}GiB"}, work, prices)

    gib_max = _most(profile, "size_max_gib", _GIB_MAX)
    smallest_gib = least(lambda gib: options_at(gib) is not None, max(1, math.ceil(size_bytes / 2**30)), gib_max)
    chosen = None if smallest_gib is None else options_at(smallest_gib)
    if chosen is None:
        return None
    resolved = resolve(profile, chosen)
    return Alternative(
        profile=resolved.profile,
        options={key: value for key, value in chosen.items() if key != parameter},
        size_parameter=parameter,
        size_bytes=resolved.size_bytes,
        cost=cost_of(resolved, work, prices),
    )


def instances(work: Work, prices: Prices) -> list[InstanceAlternative]:
    """Return the instances with a price whose own limits endure the load, cheapest first."""
    alternatives_found = []
    for name in sorted(load_profile(INSTANCES).table.keys() & prices.instances.keys()):
        if instance_endures(name, work):
            price = prices.instances.get(name)
            cost = None if price is None else MonthlyPrice(month=price.hour * HOURS_IN_MONTH, assumed=price.assumed)
            alternatives_found.append(InstanceAlternative(instance=name, cost=cost))
    return sorted(
        alternatives_found, key=lambda sized: (math.inf if sized.cost is None else sized.cost.month, sized.instance)
    )


def instance_endures(instance: str, work: Work) -> bool:
    """Return whether an instance's own limits serve the whole load for ever."""
    return _suits(_of_instance(limits_of(resolve("ebs-gp2", {"instance": instance}))), work)


def cost_of(volume: ResolvedVolume, work: Work | None, prices: Prices) -> MonthlyPrice | None:
    """Return a month of this volume under the mean traffic of the load."""
    mean = None if work is None else work.mean()
    return monthly_cost(
        prices,
        volume.profile,
        volume.parameters,
        read_bytes_per_s=0.0 if mean is None else float(mean.read_bytes_per_s[0]),
        write_bytes_per_s=0.0 if mean is None else float(mean.write_bytes_per_s[0]),
    )


def _tuned(profile: str, options: dict[str, str], work: Work, prices: Prices) -> Mapping[str, str] | None:
    """Return the options with provisioned IOPS and throughput as small as the load allows; None when none suits."""
    priced = {price.parameter for price in prices.volumes.get(profile, ())}
    tunable = [name for name in _TUNED_UNIT if name in priced and name in whole_profile(profile).parameters]
    limits = _limits(profile, options)
    if not tunable:
        return options if limits is not None and _suits(limits, work) else None
    peaks = _peaks(profile, work)
    if "throughput" in tunable and limits is not None:
        offered = min(cap.rate_per_s for cap in limits.caps if cap.resource == "throughput")
        if peaks["throughput"] > offered:
            units = math.ceil(peaks["throughput"] / _TUNED_UNIT["throughput"])
            options = {**options, "throughput": str(units)}

    def suits(iops: int) -> bool:
        tuned = _limits(profile, {**options, "iops": str(iops)})
        return tuned is not None and _suits(tuned, work)

    fewest = least(suits, max(1, math.ceil(peaks["iops"])), _most(profile, "iops_max", _TUNED_MAX))
    return None if fewest is None else {**options, "iops": str(fewest)}


def _peaks(profile: str, work: Work) -> dict[str, float]:
    """Return the most that the load asks of each resource of this type, in its limits' units per second."""
    caps = limits_of(resolve(profile)).caps
    return {
        resource: max(
            (float(work.demand(cap.charge).max()) for cap in caps if cap.resource == resource), default=0.0
        )
        for resource in _TUNED_UNIT
    }


def _suits(limits: Limits, work: Work) -> bool:
    served = float(np.min(served_by_caps(limits, work), initial=1.0))
    slack = _ROUNDING if np.isinf(work.interval_s).any() else _CAP_SLACK
    return served >= 1.0 - slack and is_sustainable(limits.starting_at(1.0), work)


def _limits(profile: str, options: Mapping[str, str]) -> Limits | None:
    """Return the limits; None for parameters that the profile does not allow."""
    try:
        return limits_of(resolve(profile, options))
    except UsageError:
        return None


def _of_instance(limits: Limits) -> Limits:
    return Limits(
        caps=tuple(cap for cap in limits.caps if cap.scope == "instance"),
        buckets=tuple(bucket for bucket in limits.buckets if bucket.scope == "instance"),
    )


def least(suits: Callable[[int], bool], low: int, high: int) -> int | None:
    """Return the least whole number from `low` on that suits; what is too small and what is too large do not."""
    if low > high:
        return None
    below, at = low - 1, low
    while not suits(at):
        if at >= high:
            return None
        below, at = at, min(2 * at, high)
    while at - below > 1:
        middle = (below + at) // 2
        below, at = (below, middle) if suits(middle) else (middle, at)
    return at


def _most(profile: str, figure: str, otherwise: int) -> int:
    """Return a profile's own upper bound, where it has such a figure."""
    bound = whole_profile(profile).figures.get(figure)
    return otherwise if bound is None else math.floor(bound.number)


def _mode(name: str) -> str:
    return resolve(name).mode
