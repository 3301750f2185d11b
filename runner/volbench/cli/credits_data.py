"""The answer of `volbench credits` as JSON: unrounded numbers, null for what there is none of."""

from __future__ import annotations

import datetime
import math
from dataclasses import asdict
from typing import Any

from volbench.analysis.credits.answer import Answer, Question
from volbench.analysis.credits.dump import DumpForecast
from volbench.analysis.credits.forecast import Forecast
from volbench.analysis.credits.history import History
from volbench.analysis.credits.prices import Cost
from volbench.analysis.credits.work import Work

SCHEMA = 1
EPISODES_MAX = 100


def as_data(question: Question, answer: Answer, history: History | None) -> dict[str, Any]:
    """Everything in the answer.

    `exhausted_after_s` and `refill_s` are whole seconds, as a reader wants them; the `_exact_s` beside them are not
    rounded. Of a history with gaps, the top level takes buckets to earn nothing in gaps; `bounds` has both.
    """
    found = answer.forecast
    return {
        "schema": SCHEMA,
        "profile": answer.volume.profile,
        "parameters": dict(answer.volume.parameters),
        "size_bytes": answer.volume.size_bytes,
        **_outcome(found, answer.work),
        "refill_s": _whole(_refill_s(answer)),
        "refill_exact_s": _refill_s(answer),
        "bucket": _bucket(answer),
        "limits": [
            {"name": cap.name, "scope": cap.scope, "unit": cap.charge.unit, "rate_per_s": cap.rate_per_s}
            for cap in answer.limits.caps
        ],
        "load": None if answer.work is None else _load(answer.work, history),
        "bounds": _bounds(answer),
        "ahead": None if answer.ahead is None else asdict(answer.ahead),
        "balance": [] if found is None else [asdict(point) for point in found.balance],
        "dump": None if answer.dump is None else _dump(question, answer.dump),
        "cost": _cost(answer.cost),
        "alternatives": [
            {
                "profile": one.profile,
                "options": {one.size_parameter: f"{one.size_bytes / 2**30:g}GiB", **one.options},
                "size_bytes": one.size_bytes,
                "cost": _cost(one.cost),
            }
            for one in answer.alternatives
        ],
        "instances": [{"instance": one.instance, "cost": _cost(one.cost)} for one in answer.instances],
        "prices": {
            "dated": answer.prices.dated,
            "region": answer.prices.region,
            "currency": answer.prices.currency,
        },
        "assumed": list(answer.volume.assumed),
    }


def _outcome(found: Forecast | None, work: Work | None) -> dict[str, Any]:
    if found is None or work is None:
        return {"exhausted_after_s": None}
    return {
        "exhausted_after_s": _whole(found.exhausted_after_s),
        "exhausted_after_exact_s": found.exhausted_after_s,
        "exhausted_at": None if found.exhausted_after_s is None else moment(work, found.exhausted_after_s),
        "before": asdict(found.before),
        "after": None if found.after is None else asdict(found.after),
        "throttled_s": found.throttled_s,
        "throttled_for_ever": found.throttled_s is None,
        "capped_s": found.capped_s,
        "capped_for_ever": found.capped_s is None,
        "episodes": len(found.episodes),
        "first_episodes": [list(episode) for episode in found.episodes[:EPISODES_MAX]],
    }


def moment(work: Work, after_s: float) -> str | None:
    """The time at `after_s` of a history that knows its date (UTC) or its time of day."""
    if work.clock == "none":
        return None
    then = datetime.datetime.fromtimestamp(work.start_s + after_s, tz=datetime.UTC)
    if work.clock == "date":
        return then.strftime("%Y-%m-%dT%H:%M:%SZ")
    day = math.floor((work.start_s + after_s) / 86_400.0)
    return f"{then:%H:%M:%S}" + (f" on day {day + 1}" if day > 0 else "")


def _refill_s(answer: Answer) -> float | None:
    if answer.forecast is not None:
        return answer.forecast.refill_s
    return next((bucket.refill_s for bucket in answer.limits.buckets), None)


def _bucket(answer: Answer) -> dict[str, Any] | None:
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
        "starts_at": moment(work, 0.0),
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


def _bounds(answer: Answer) -> dict[str, Any] | None:
    if answer.with_idle_gaps is None:
        return None
    return {
        "gaps_idle": _outcome(answer.with_idle_gaps, answer.work),
        "gaps_at_baseline": _outcome(answer.forecast, answer.work),
    }


def _dump(question: Question, found: DumpForecast) -> dict[str, Any]:
    return {
        "bytes": question.dump.bytes if question.dump else None,
        "io_bytes": question.dump.io_bytes if question.dump else None,
        "window_s": question.window_s,
        "now": asdict(found.now),
        "exhausted": asdict(found.exhausted),
        "fits_now": found.fits_now,
        "fits_exhausted": found.fits_exhausted,
    }


def _cost(cost: Cost | None) -> dict[str, Any] | None:
    return None if cost is None else {"month": round(cost.month, 2), "assumed": cost.assumed}


def _whole(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds)
