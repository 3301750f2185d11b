"""What a log does to the candidate: a replay with its counters, and the checks that come of it."""

from __future__ import annotations

from contextlib import closing, nullcontext
from dataclasses import dataclass

from volbench.engine.connection import Account
from volbench.records.validation import (
    BurstOutlook,
    CheckRow,
    GrowthOutlook,
    Replayed,
    ReplayPlan,
    ValidationPlan,
)
from volbench.validation.burst import burst_check, candidate_limits, need_of, outlook_of
from volbench.validation.checks import Progress
from volbench.validation.growth import growth_check, growth_of, outlook_of_growth, volume_bytes
from volbench.validation.replay import replay, replay_check, without_words
from volbench.validation.storage import stored
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
    replay_plan: ReplayPlan,
    candidate: Account,
    schemas: list[str],
    meter: Meter | None,
    progress: Progress,
) -> UnderLoad:
    """Replay the log, and judge what it shows. Raises UsageError for a log that cannot be read."""
    writes = plan.candidate.disposable
    before = stored(candidate) if plan.growth else None
    with closing(meter) if meter else nullcontext():
        found = replay(replay_plan, candidate, schemas=schemas, writes=writes, progress=meter or progress)
        if meter:
            meter.take()
    if plan.at_rest == "none":
        found = without_words(found)
    checks = [replay_check(found, replay_plan)]
    ahead, full = None, None
    if meter and plan.burst:
        need = need_of(meter.counts, found)
        limits = candidate_limits(plan.burst)
        ahead = outlook_of(need, limits, plan.burst, counted_by=meter.counted_by) if need else None
        checks.append(burst_check(ahead, found, plan.burst))
    if meter and plan.growth:
        after = stored(candidate)
        growth = growth_of(before, after, meter.counts, found)
        full = (
            outlook_of_growth(growth, after, plan.growth, volume_bytes(plan.growth)) if growth and after else None
        )
        checks.append(growth_check(full, found, plan.growth))
    return UnderLoad(checks=tuple(checks), replayed=found, burst=ahead, growth=full)


def meter_of(plan: ValidationPlan, candidate: Account, progress: Progress) -> Meter | None:
    """For a plan that asks for it: before anything is read, since a wrong SPEC would be told after hours."""
    if plan.growth is not None:
        volume_bytes(plan.growth)
    if plan.burst is not None:
        candidate_limits(plan.burst)
        return Meter(candidate, plan.burst.data_dir, progress)
    return Meter(candidate, "", progress) if plan.growth is not None else None
