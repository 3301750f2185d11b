"""All that `volbench credits` answers about one volume and one load, as plain data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from volbench.core.profile.files import whole_profile
from volbench.core.profile.limits import Limits, limits_of
from volbench.core.profile.resolve import ResolvedVolume, resolve
from volbench.errors import UsageError
from volbench.results.credits.dump import DumpForecast, DumpLoad, forecast_dump
from volbench.results.credits.extrapolation import Extrapolation, ahead
from volbench.results.credits.forecast import Forecast, forecast
from volbench.results.credits.prices import MonthlyPrice, Prices
from volbench.results.credits.sizing import (
    Alternative,
    InstanceAlternative,
    alternatives,
    cost_of,
    instance_endures,
    instances,
    least,
    size_parameter,
)
from volbench.results.credits.work import Work

INSTANCE = "instance"


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is asked.

    Args:
        profile, options: the volume, as in a SPEC.
        work: the load, or None when only a dump is asked about.
        start_share: how full every bucket is at first, 0..1; None: as the profile says.
        dump, window_s: a dump, and how long it may take.
    """

    profile: str
    options: Mapping[str, str]
    work: Work | None
    start_share: float | None = None
    dump: DumpLoad | None = None
    window_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class CreditForecast:
    """What comes out.

    Args:
        forecast: with gaps in which buckets earn nothing: the earlier exhaustion of the two.
        ahead: of a history that ends with credits left: when they run out if it goes on; None where they do not.
        with_idle_gaps: with gaps in which nothing happens; None where there is no gap.
        dump: started when the history ends (its balance, its mean load), or at once beside a constant load.
        cost: of the volume as it is, a month.
        alternatives: volumes that would endure the load, cheapest first.
        instance: the one that the volume is on, empty for none; `instance_endures`: whether its own limits serve
            the whole load for ever, None without one.
        instances: instances that would, where the volume's is among what holds the load back.
    """

    volume: ResolvedVolume
    limits: Limits
    work: Work | None
    forecast: Forecast | None
    ahead: Extrapolation | None
    with_idle_gaps: Forecast | None
    dump: DumpForecast | None
    prices: Prices
    cost: MonthlyPrice | None
    alternatives: tuple[Alternative, ...]
    instances: tuple[InstanceAlternative, ...]
    instance: str = ""
    instance_endures: bool | None = None

    @property
    def is_throttled(self) -> bool:
        """Whether the load is held back, by an empty bucket or by a cap."""
        predicted = self.forecast
        return predicted is not None and (predicted.exhausted_after_s is not None or predicted.capped_s != 0.0)


def answer(question: Question, prices: Prices) -> CreditForecast:
    """Answer a question. Raises UsageError for an unknown profile or parameter."""
    volume = resolve(question.profile, question.options)
    limits = limits_of(volume)
    if question.start_share is not None:
        limits = limits.starting_at(question.start_share)
    work = question.work
    predicted = forecast(limits, work) if work is not None else None
    idle = forecast(limits, work, gaps="idle") if work is not None and work.gap_s > 0 else None
    cheaper = alternatives(question.profile, question.options, work, prices) if work is not None else []
    instance = str(question.options.get(INSTANCE, "none"))
    has_instance = instance != "none"
    enduring = instances(work, prices) if work is not None and has_instance else []
    return CreditForecast(
        volume=volume,
        limits=limits,
        work=work,
        forecast=predicted,
        ahead=_ahead(limits, work, predicted),
        with_idle_gaps=idle,
        dump=_dump(question, limits, predicted),
        prices=prices,
        cost=cost_of(volume, work, prices),
        alternatives=tuple(cheaper),
        instances=tuple(enduring),
        instance=instance if has_instance else "",
        instance_endures=instance_endures(instance, work) if work is not None and has_instance else None,
    )


def has_parameter(profile: str, name: str) -> bool:
    """Return whether a profile has a parameter of this name."""
    return name in whole_profile(profile).parameters


def _ahead(limits: Limits, work: Work | None, predicted: Forecast | None) -> Extrapolation | None:
    if work is None or predicted is None or predicted.exhausted_after_s is not None or not predicted.final_balances:
        return None
    return ahead(limits.with_balances(predicted.final_balances), work)


def _dump(question: Question, limits: Limits, predicted: Forecast | None) -> DumpForecast | None:
    if question.dump is None:
        return None
    at = (
        limits
        if predicted is None or not predicted.final_balances
        else limits.with_balances(predicted.final_balances)
    )
    load = question.work.mean() if question.work is not None else None
    return forecast_dump(at, question.dump, load, window_s=question.window_s)


CONTRADICTION = 0.1
"""How much more of the bucket the vendor may count than the forecast before the size is in doubt: rounding and the
moment at which a period's balance stands make less."""
_SAME = 0.02
_GIB_MAX = 65_536


def implied_gib(question: Question, observed: Sequence[tuple[float, float]]) -> int | None:
    """Return the smallest size, in GiB, of which the vendor's balance may be.

    None where the stated size may have it.

    The balance of a larger volume falls more slowly. Striped volumes count as one of their total size.
    """
    parameter, work = size_parameter(question.profile), question.work
    if parameter is None or work is None or not observed:
        return None

    def shortfall(options: Mapping[str, str]) -> float:
        try:
            limits = limits_of(resolve(question.profile, options))
        except UsageError:
            return math.inf
        if question.start_share is not None:
            limits = limits.starting_at(question.start_share)
        return shortfall_from_observed(forecast(limits, work), observed)

    if shortfall(question.options) <= CONTRADICTION:
        return None
    return least(lambda gib: shortfall({**question.options, parameter: f"{gib}GiB"}) <= _SAME, 1, _GIB_MAX)


def shortfall_from_observed(predicted: Forecast, observed: Sequence[tuple[float, float]]) -> float:
    """Return how much more than the forecast's balance the vendor counts at most, as a share.

    0 without a bucket.
    """
    if predicted.bucket is None or not predicted.bucket.percent or len(predicted.balance) < 2:
        return 0.0
    times = [point.t_s for point in predicted.balance]
    shares = [point.balance / (predicted.bucket.capacity or 1.0) for point in predicted.balance]
    inside = [(t_s, share) for t_s, share in observed if times[0] <= t_s <= times[-1]]
    modelled = np.interp([t_s for t_s, _ in inside], times, shares) if inside else np.empty(0)
    return float(max(np.array([share for _, share in inside]) - modelled, default=0.0))


def difference_from_observed(predicted: Forecast, observed: Sequence[tuple[float, float]]) -> float | None:
    """Return the largest difference between the forecast's balance and the vendor's, as a share.

    None without either.

    Only points of the forecast's own time are compared; its balance is taken as straight between its points.
    """
    if predicted.bucket is None or not predicted.bucket.percent or len(predicted.balance) < 2:
        return None
    times = [point.t_s for point in predicted.balance]
    inside = [(t_s, share) for t_s, share in observed if times[0] <= t_s <= times[-1]]
    if not inside:
        return None
    shares = [point.balance / (predicted.bucket.capacity or 1.0) for point in predicted.balance]
    modelled = np.interp([t_s for t_s, _ in inside], times, shares)
    return float(np.max(np.abs(modelled - np.array([share for _, share in inside]))))
