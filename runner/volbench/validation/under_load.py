"""What a log does to the candidate: a replay with its counters, and the checks that come of it."""

from __future__ import annotations

from contextlib import closing, nullcontext
from dataclasses import dataclass

from volbench.engine.connection import Account
from volbench.records.validation import (
    BurstOutlook,
    BurstPlan,
    CheckRow,
    GrowthOutlook,
    Replayed,
    ValidationPlan,
)
from volbench.validation.burst import burst_check, candidate_limits, need_of, outlook_of
from volbench.validation.burst_series import by_series, walk
from volbench.validation.checks import Progress
from volbench.validation.growth import forecast_growth
from volbench.validation.replay import replay, replay_check, without_words
from volbench.validation.volume_load import Meter


@dataclass(frozen=True, kw_only=True)
class UnderLoad:
    """What the log did to the candidate, and what it asked its volume for."""

    checks: tuple[CheckRow, ...] = ()
    replayed: Replayed | None = None
    burst: BurstOutlook | None = None
    growth: GrowthOutlook | None = None


def under_load(
    plan: ValidationPlan,
    candidate: Account,
    schemas: list[str],
    meter: Meter | None,
    progress: Progress,
) -> UnderLoad:
    """Replay the log where the plan has one, and judge what it shows; a series of the load needs none.

    Raises UsageError for a log, a series or a capture that cannot be read.
    """
    checks: list[CheckRow] = []
    found, ahead, full = None, None, None
    if plan.replay is not None:
        writes = plan.candidate.disposable
        with closing(meter) if meter else nullcontext():
            found = replay(plan.replay, candidate, schemas=schemas, writes=writes, progress=meter or progress)
            if meter:
                meter.take()
        if plan.at_rest == "none":
            found = without_words(found)
        checks.append(replay_check(found, plan.replay))
    if plan.burst is not None:
        ahead, check = _burst(plan.burst, found, meter) if found and meter else by_series(plan.burst)
        checks.append(check)
    if plan.growth is not None:
        full, check = forecast_growth(plan.growth)
        checks.append(check)
    return UnderLoad(checks=tuple(checks), replayed=found, burst=ahead, growth=full)


def _burst(plan: BurstPlan, found: Replayed, meter: Meter) -> tuple[BurstOutlook | None, CheckRow]:
    need = need_of(meter.counts, found)
    if plan.series:
        return by_series(plan, need)
    limits = candidate_limits(plan)
    ahead = outlook_of(need, limits, plan, counted_by=meter.counted_by) if need else None
    return ahead, burst_check(ahead, found, plan)


def meter_of(plan: ValidationPlan, candidate: Account, progress: Progress) -> Meter | None:
    """For a plan that asks for it. A wrong SPEC or series is told of now, not after hours of reading."""
    if plan.growth is not None:
        forecast_growth(plan.growth)
    if plan.burst is not None:
        candidate_limits(plan.burst)
        if plan.burst.series:
            walk(plan.burst)
    if plan.replay is None or plan.burst is None:
        return None
    return Meter(candidate, plan.burst.data_dir, progress)
