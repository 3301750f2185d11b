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
from volbench.validation.burst import burst_check, burst_outlook, candidate_limits, measure_demand
from volbench.validation.burst_series import forecast_series, simulate_series
from volbench.validation.checks import Progress
from volbench.validation.growth import forecast_growth
from volbench.validation.replay import redact_errors, replay, replay_check
from volbench.validation.volume_load import Meter


@dataclass(frozen=True, kw_only=True)
class ReplayOutcome:
    """What the log did to the candidate, and what it asked its volume for."""

    checks: tuple[CheckRow, ...] = ()
    replayed: Replayed | None = None
    burst: BurstOutlook | None = None
    growth: GrowthOutlook | None = None


def run_replay_checks(
    plan: ValidationPlan,
    candidate: Account,
    schemas: list[str],
    meter: Meter | None,
    progress: Progress,
) -> ReplayOutcome:
    """Replay the log where the plan has one, and judge what it shows; a series of the load needs none.

    Raises UsageError for a log, a series or a capture that cannot be read.
    """
    checks: list[CheckRow] = []
    replayed, burst, growth = None, None, None
    if plan.replay is not None:
        writes = plan.candidate.disposable
        with closing(meter) if meter else nullcontext():
            replayed = replay(plan.replay, candidate, schemas=schemas, writes=writes, progress=meter or progress)
            if meter:
                meter.take()
        if plan.at_rest == "none":
            replayed = redact_errors(replayed)
        checks.append(replay_check(replayed, plan.replay))
    if plan.burst is not None:
        burst, check = _burst(plan.burst, replayed, meter) if replayed and meter else forecast_series(plan.burst)
        checks.append(check)
    if plan.growth is not None:
        growth, check = forecast_growth(plan.growth)
        checks.append(check)
    return ReplayOutcome(checks=tuple(checks), replayed=replayed, burst=burst, growth=growth)


def _burst(plan: BurstPlan, replayed: Replayed, meter: Meter) -> tuple[BurstOutlook | None, CheckRow]:
    demand = measure_demand(meter.counts, replayed)
    if plan.series:
        return forecast_series(plan, demand)
    limits = candidate_limits(plan)
    outlook = burst_outlook(demand, limits, plan, counted_by=meter.counted_by) if demand else None
    return outlook, burst_check(outlook, replayed, plan)


def make_meter(plan: ValidationPlan, candidate: Account, progress: Progress) -> Meter | None:
    """For a plan that asks for it. A wrong SPEC or series is told of now, not after hours of reading."""
    if plan.growth is not None:
        forecast_growth(plan.growth)
    if plan.burst is not None:
        candidate_limits(plan.burst)
        if plan.burst.series:
            simulate_series(plan.burst)
    if plan.replay is None or plan.burst is None:
        return None
    return Meter(candidate, plan.burst.data_dir, progress)
