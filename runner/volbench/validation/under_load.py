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
    GrowthPlan,
    Replayed,
    ValidationPlan,
)
from volbench.validation.burst import burst_check, candidate_limits, need_of, outlook_of
from volbench.validation.burst_series import by_series, walk
from volbench.validation.checks import Progress
from volbench.validation.file_sizes import Stored, stored
from volbench.validation.growth import growth_check, growth_of, outlook_of_growth, volume_bytes
from volbench.validation.growth_captures import by_captures
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

    Raises UsageError for a log or a series that cannot be read.
    """
    if plan.replay is None:
        return _without_replay(plan)
    writes = plan.candidate.disposable
    before = stored(candidate) if plan.growth else None
    with closing(meter) if meter else nullcontext():
        found = replay(plan.replay, candidate, schemas=schemas, writes=writes, progress=meter or progress)
        if meter:
            meter.take()
    if plan.at_rest == "none":
        found = without_words(found)
    checks = [replay_check(found, plan.replay)]
    ahead, full = None, None
    if meter and plan.burst:
        ahead, check = _burst(plan.burst, found, meter)
        checks.append(check)
    if meter and plan.growth:
        full, check = _growth(plan.growth, (before, stored(candidate)), found, meter)
        checks.append(check)
    return UnderLoad(checks=tuple(checks), replayed=found, burst=ahead, growth=full)


def _burst(plan: BurstPlan, found: Replayed, meter: Meter) -> tuple[BurstOutlook | None, CheckRow]:
    need = need_of(meter.counts, found)
    if plan.series:
        return by_series(plan, need)
    limits = candidate_limits(plan)
    ahead = outlook_of(need, limits, plan, counted_by=meter.counted_by) if need else None
    return ahead, burst_check(ahead, found, plan)


def _growth(
    plan: GrowthPlan, files: tuple[Stored | None, Stored | None], found: Replayed, meter: Meter
) -> tuple[GrowthOutlook | None, CheckRow]:
    if plan.captures:
        return by_captures(plan)
    before, after = files
    growth = growth_of(before, after, meter.counts, found)
    full = outlook_of_growth(growth, after, plan, volume_bytes(plan)) if growth and after else None
    return full, growth_check(full, found, plan)


def _without_replay(plan: ValidationPlan) -> UnderLoad:
    checks: list[CheckRow] = []
    ahead, full = None, None
    if plan.burst is not None:
        ahead, check = by_series(plan.burst)
        checks.append(check)
    if plan.growth is not None:
        full, check = by_captures(plan.growth)
        checks.append(check)
    return UnderLoad(checks=tuple(checks), burst=ahead, growth=full)


def meter_of(plan: ValidationPlan, candidate: Account, progress: Progress) -> Meter | None:
    """For a plan that asks for it. A wrong SPEC or series is told of now, not after hours of reading."""
    if plan.growth is not None:
        volume_bytes(plan.growth)
        if plan.growth.captures:
            by_captures(plan.growth)
    if plan.burst is not None:
        candidate_limits(plan.burst)
        if plan.burst.series:
            walk(plan.burst)
    if plan.replay is None or (plan.burst is None and plan.growth is None):
        return None
    return Meter(candidate, plan.burst.data_dir if plan.burst else "", progress)
