"""The checks that follow from a replay of the log on the candidate, or from series and captures of the load."""

from __future__ import annotations

from contextlib import closing, nullcontext
from dataclasses import dataclass

from volbench.core.records.validation.plan import BurstPlan, ValidationPlan
from volbench.core.records.validation.result import BurstOutlook, CheckRow, GrowthOutlook, Replayed
from volbench.machine.engine.connection import Account
from volbench.measure.workload.replay.schedule import NothingToReplayError
from volbench.validation.checks import Progress
from volbench.validation.forecast.burst import burst_check, burst_outlook, candidate_limits, measure_demand
from volbench.validation.forecast.burst_series import forecast_series, simulate_series
from volbench.validation.forecast.growth import forecast_growth
from volbench.validation.replay.evaluation import redact_errors, replay, replay_check
from volbench.validation.replay.io_meter import Meter
from volbench.validation.verdict import undecided


@dataclass(frozen=True, kw_only=True)
class ReplayOutcome:
    """The replay with its checks and forecasts."""

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
    """Replay the log where the plan has one, and run the checks that need it; series and captures need no replay.

    Args:
        plan: of the validation.
        candidate: account on the candidate.
        schemas: to replay.
        meter: counts I/O of the candidate's volume; None without a forecast of burst credits.
        progress: called with an activity and a share.

    Raises UsageError for a log, a series or a capture that cannot be read.
    """
    checks: list[CheckRow] = []
    replayed, burst, growth = None, None, None
    if plan.replay is not None:
        writes = plan.candidate.disposable
        with closing(meter) if meter else nullcontext():
            try:
                replayed = replay(
                    plan.replay, candidate, schemas=schemas, writes=writes, progress=meter or progress
                )
            except NothingToReplayError as error:
                checks.append(undecided("replay", error.what, error.evidence))
            if meter:
                meter.take()
        if replayed and plan.at_rest == "none":
            replayed = redact_errors(replayed)
        if replayed:
            checks.append(replay_check(replayed, plan.replay))
    if plan.burst is not None:
        burst, check = _burst(plan.burst, replayed, meter)
        checks.append(check)
    if plan.growth is not None:
        growth, check = forecast_growth(plan.growth)
        checks.append(check)
    return ReplayOutcome(checks=tuple(checks), replayed=replayed, burst=burst, growth=growth)


def _burst(plan: BurstPlan, replayed: Replayed | None, meter: Meter | None) -> tuple[BurstOutlook | None, CheckRow]:
    demand = measure_demand(meter.counts, replayed) if replayed and meter else None
    if plan.series:
        return forecast_series(plan, demand)
    if replayed is None or meter is None:
        return None, undecided("burst", "nothing was replayed, so the load is not known")
    limits = candidate_limits(plan)
    outlook = burst_outlook(demand, limits, plan, counted_by=meter.counted_by) if demand else None
    return outlook, burst_check(outlook, replayed, plan)


def make_meter(plan: ValidationPlan, candidate: Account, progress: Progress) -> Meter | None:
    """Return the meter of a plan with `burst` and `replay`; None for another plan.

    Raises UsageError for a wrong SPEC, series or capture now rather than after hours of reading.
    """
    if plan.growth is not None:
        forecast_growth(plan.growth)
    if plan.burst is not None:
        candidate_limits(plan.burst)
        if plan.burst.series:
            simulate_series(plan.burst)
    if plan.replay is None or plan.burst is None:
        return None
    return Meter(candidate, plan.burst.data_dir, progress)
