"""The answer of `volbench credits` as JSON: unrounded numbers, null where a value does not exist."""

from __future__ import annotations

import datetime
import math
from dataclasses import asdict
from typing import Any

from volbench.results.credits.answer import CreditForecast, Question
from volbench.results.credits.dump import DumpForecast
from volbench.results.credits.forecast import Forecast
from volbench.results.credits.history import History
from volbench.results.credits.observed import observed_dump
from volbench.results.credits.prices import MonthlyPrice
from volbench.results.credits.work import Work

SCHEMA = 1
EPISODES_MAX = 100


def answer_data(question: Question, answer: CreditForecast, history: History | None) -> dict[str, Any]:
    """Return the whole answer.

    `exhausted_after_s` and `refill_s` are whole seconds; `exhausted_after_exact_s` and `refill_exact_s` are not
    rounded. Where a history has gaps, the top level assumes that buckets earn nothing in gaps; `bounds` has both
    cases.
    """
    forecast = answer.forecast
    return {
        "schema": SCHEMA,
        "profile": answer.volume.profile,
        "parameters": dict(answer.volume.parameters),
        "size_bytes": answer.volume.size_bytes,
        **_outcome(forecast, answer.work),
        "refill_s": _rounded(_refill_s(answer)),
        "refill_exact_s": _refill_s(answer),
        "bucket": _bucket(answer),
        "limits": [
            {"name": cap.name, "scope": cap.scope, "unit": cap.charge.unit, "rate_per_s": cap.rate_per_s}
            for cap in answer.limits.caps
        ],
        "load": None if answer.work is None else _load(answer.work, history),
        "bounds": _bounds(answer),
        "ahead": None if answer.ahead is None else asdict(answer.ahead),
        "balance": [] if forecast is None else [asdict(point) for point in forecast.balance],
        "dump": None if answer.dump is None else _dump(question, answer.dump, history),
        "cost": _cost(answer.cost),
        "alternatives": [
            {
                "profile": alternative.profile,
                "options": {
                    alternative.size_parameter: f"{alternative.size_bytes / 2**30:g}GiB",
                    **alternative.options,
                },
                "size_bytes": alternative.size_bytes,
                "cost": _cost(alternative.cost),
            }
            for alternative in answer.alternatives
        ],
        "instances": [
            {"instance": alternative.instance, "cost": _cost(alternative.cost)} for alternative in answer.instances
        ],
        "prices": {
            "dated": answer.prices.dated,
            "region": answer.prices.region,
            "currency": answer.prices.currency,
        },
        "assumed": list(answer.volume.assumed),
    }


def _outcome(forecast: Forecast | None, work: Work | None) -> dict[str, Any]:
    if forecast is None or work is None:
        return {"exhausted_after_s": None}
    return {
        "exhausted_after_s": _rounded(forecast.exhausted_after_s),
        "exhausted_after_exact_s": forecast.exhausted_after_s,
        "exhausted_at": None if forecast.exhausted_after_s is None else time_text(work, forecast.exhausted_after_s),
        "before": asdict(forecast.before),
        "after": None if forecast.after is None else asdict(forecast.after),
        "throttled_s": forecast.throttled_s,
        "throttled_for_ever": forecast.throttled_s is None,
        "capped_s": forecast.capped_s,
        "capped_for_ever": forecast.capped_s is None,
        "episodes": len(forecast.episodes),
        "first_episodes": [list(episode) for episode in forecast.episodes[:EPISODES_MAX]],
    }


def time_text(work: Work, after_s: float) -> str | None:
    """Return the time at `after_s` of a history with dates (UTC) or times of day; None without a clock."""
    if work.clock == "none":
        return None
    then = datetime.datetime.fromtimestamp(work.start_s + after_s, tz=datetime.UTC)
    if work.clock == "date":
        return then.strftime("%Y-%m-%dT%H:%M:%SZ")
    day = math.floor((work.start_s + after_s) / 86_400.0)
    return f"{then:%H:%M:%S}" + (f" on day {day + 1}" if day > 0 else "")


def _refill_s(answer: CreditForecast) -> float | None:
    if answer.forecast is not None:
        return answer.forecast.refill_s
    return next((bucket.refill_s for bucket in answer.limits.buckets), None)


def _bucket(answer: CreditForecast) -> dict[str, Any] | None:
    bucket = answer.forecast.bucket if answer.forecast else next(iter(answer.limits.buckets), None)
    if bucket is None:
        return None
    return {
        "name": bucket.name,
        "scope": bucket.scope,
        "unit": bucket.charge.unit,
        "capacity": bucket.capacity,
        "start": bucket.start,
        "baseline_per_s": bucket.rate_per_s,
        "metric": bucket.metric or None,
    }


def _load(work: Work, history: History | None) -> dict[str, Any]:
    mean = work.mean()
    constant = math.isinf(float(work.interval_s[-1]))
    return {
        "from": None if history is None else history.text,
        "warnings": [] if history is None else list(history.warnings),
        "constant": constant,
        "starts_at": time_text(work, 0.0),
        "duration_s": None if constant else float(work.interval_s.sum()),
        "intervals": len(work.interval_s),
        "reads_per_s": float(mean.reads_per_s[0]),
        "writes_per_s": float(mean.writes_per_s[0]),
        "read_bytes": float(mean.read_bytes[0]),
        "write_bytes": float(mean.write_bytes[0]),
        "sequential": work.sequential,
        "gap_s": work.gap_s,
        "gaps": [list(gap) for gap in work.gaps[:EPISODES_MAX]],
    }


def _bounds(answer: CreditForecast) -> dict[str, Any] | None:
    if answer.with_idle_gaps is None:
        return None
    return {
        "gaps_idle": _outcome(answer.with_idle_gaps, answer.work),
        "gaps_at_baseline": _outcome(answer.forecast, answer.work),
    }


def _dump(question: Question, dump_forecast: DumpForecast, history: History | None) -> dict[str, Any]:
    observed = (
        None
        if history is None or question.dump is None
        else observed_dump(history, question.dump.bytes, window_s=question.window_s)
    )
    return {
        "bytes": question.dump.bytes if question.dump else None,
        "io_bytes": question.dump.io_bytes if question.dump else None,
        "window_s": question.window_s,
        "now": asdict(dump_forecast.now),
        "exhausted": asdict(dump_forecast.exhausted),
        "fits_now": dump_forecast.fits_now,
        "fits_exhausted": dump_forecast.fits_exhausted,
        "observed": None if observed is None else asdict(observed),
    }


def _cost(cost: MonthlyPrice | None) -> dict[str, Any] | None:
    return None if cost is None else {"month": round(cost.month, 2), "assumed": cost.assumed}


def _rounded(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds)
