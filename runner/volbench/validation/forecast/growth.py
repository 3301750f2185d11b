"""When a volume will be full, from how the source itself grew between captures of it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean, stdev

from volbench.core.base.parse import parse_moment
from volbench.core.base.text import counted, duration, percent, size
from volbench.core.profile.resolve import resolve_spec
from volbench.core.records.validation.capture import Capture
from volbench.core.records.validation.plan import GrowthPlan
from volbench.core.records.validation.result import CheckRow, GrowthOutlook
from volbench.errors import UsageError
from volbench.machine.volume.facts.discovery import discover
from volbench.results.stats.linear import t_quantile
from volbench.validation.capture.digests import read_capture
from volbench.validation.source.file_sizes import resolution_bytes
from volbench.validation.verdict import decide_check

ALPHA = 0.05
DAY_S = 86_400.0
DECISIVE_CAPTURES_MIN = 3
"""Two captures give one rate, and nothing about how the rate varies."""


def forecast_growth(plan: GrowthPlan) -> tuple[GrowthOutlook, CheckRow]:
    """Return when the plan's volume will be full, and the check of it.

    Raises UsageError for a wrong SPEC and for captures that cannot be read or have no file sizes,
    MissingPrerequisite for a directory that does not exist.
    """
    captures = sorted((_capture_with_sizes(name) for name in plan.captures), key=_started_s)
    if any(_started_s(before) == _started_s(after) for before, after in pairwise(captures)):
        raise UsageError(
            "two captures began at the same time", where="growth.captures", next_step="take another one later"
        )
    outlook = growth_outlook(captures, plan, volume_bytes(plan))
    return outlook, growth_check(outlook, captures, plan)


def volume_bytes(plan: GrowthPlan) -> int:
    """Return the size of the plan's volume.

    Raises UsageError for a wrong SPEC, MissingPrerequisite for a directory that does not exist.
    """
    if plan.volume:
        return resolve_spec(plan.volume, name="growth.volume").size_bytes
    return discover(Path(plan.data_dir)).size_bytes or 0


def growth_outlook(captures: Sequence[Capture], plan: GrowthPlan, size_bytes: int) -> GrowthOutlook:
    """Return bytes a day from the first capture to the last, with an interval from the rates between them.

    Each rate's interval includes the resolution of the file sizes.
    """
    rates = [_growth_per_s(before, after) for before, after in pairwise(captures)]
    likely, low, high = _growth_per_s(captures[0], captures[-1])
    if len(rates) > 1:
        means = [rate[0] for rate in rates]
        half_width = t_quantile(1 - ALPHA / 2, len(means) - 1) * stdev(means) / math.sqrt(len(means))
        low, high = min(low, fmean(means) - half_width), max(high, fmean(means) + half_width)
    low = max(0.0, low)
    used, logs = sum((captures[-1].files or {}).values()), captures[-1].binlog_bytes
    free = plan.full * size_bytes - used - (logs or 0)
    return GrowthOutlook(
        size_bytes=size_bytes,
        used_bytes=used,
        data_per_day=likely * DAY_S,
        data_per_day_low=low * DAY_S,
        data_per_day_high=high * DAY_S,
        binlog_bytes=logs,
        full_s=_seconds_to_fill(free, likely),
        full_s_low=_seconds_to_fill(free, high),
        full_s_high=_seconds_to_fill(free, low),
    )


def growth_check(outlook: GrowthOutlook, captures: Sequence[Capture], plan: GrowthPlan) -> CheckRow:
    """Decide by both ends of the interval, which takes three captures."""
    text, doubts = _text(outlook, plan), list(_doubts(outlook, captures))
    is_short = not _lasts(outlook.full_s_high, plan)
    if not is_short and not _lasts(outlook.full_s_low, plan):
        doubts.append("the interval of the growth spans the horizon: take another capture later")
    return decide_check(
        "growth",
        compared=len(captures) - 1 if outlook.size_bytes > 0 else 0,
        text=text,
        faults=[text] if is_short and outlook.size_bytes > 0 and len(captures) >= DECISIVE_CAPTURES_MIN else [],
        doubts=doubts,
        notes=list(_notes(outlook, captures)),
        nothing="the size of the volume is not known" if outlook.size_bytes <= 0 else "there is one capture only",
    )


def _seconds_to_fill(free_bytes: float, bytes_per_s: float) -> float | None:
    """Return the seconds until the volume is full; None: never."""
    if free_bytes <= 0:
        return 0.0
    return free_bytes / bytes_per_s if bytes_per_s > 0 else None


def _lasts(full_s: float | None, plan: GrowthPlan) -> bool:
    return full_s is None or full_s >= plan.horizon_s


def _text(outlook: GrowthOutlook, plan: GrowthPlan) -> str:
    volume = f"{percent(plan.full)} of {size(outlook.size_bytes)} are used"
    required = f"{duration(plan.horizon_s)} are required"
    if outlook.full_s_low is None:
        return f"{volume} never, as the source grew; {required}"
    likely, low, high = (
        "never" if seconds is None else duration(seconds)
        for seconds in (outlook.full_s, outlook.full_s_low, outlook.full_s_high)
    )
    return f"{volume} after {likely} [{low}, {high}], as the source grew; {required}"


def _doubts(outlook: GrowthOutlook, captures: Sequence[Capture]) -> Iterator[str]:
    if len(captures) < DECISIVE_CAPTURES_MIN:
        many = counted(len(captures), "capture does", "captures do")
        yield f"{many} not show how growth varies: take {DECISIVE_CAPTURES_MIN} or more"
    if outlook.binlog_bytes is None:
        yield "the source's binary logs are not visible (REPLICATION CLIENT is missing); they take space too"


def _notes(outlook: GrowthOutlook, captures: Sequence[Capture]) -> Iterator[str]:
    yield (
        f"the source's data grew by {size(outlook.data_per_day)} a day "
        f"[{size(outlook.data_per_day_low)}, {size(outlook.data_per_day_high)}] over "
        f"{duration(_started_s(captures[-1]) - _started_s(captures[0]))} in "
        f"{counted(len(captures), 'capture')}, to {size(outlook.used_bytes)}"
    )
    if outlook.binlog_bytes is not None:
        yield f"its binary logs took {size(outlook.binlog_bytes)}; the same retention will take as much"


def _growth_per_s(before: Capture, after: Capture) -> tuple[float, float, float]:
    """Return bytes a second: likely, low, high. Files that did not grow may have had free space: not counted."""
    seconds = _started_s(after) - _started_s(before)
    old, new = before.files or {}, after.files or {}
    increases = {name: size - old.get(name, 0) for name, size in new.items() if size > old.get(name, 0)}
    decrease = sum(old[name] - new.get(name, 0) for name in old if new.get(name, 0) < old[name])
    resolution = sum(resolution_bytes(new[name]) for name in increases)
    net = sum(increases.values()) - decrease
    return max(0, net) / seconds, max(0, net - resolution) / seconds, max(0, net + resolution) / seconds


def _capture_with_sizes(name: str) -> Capture:
    capture = read_capture(Path(name))
    if not capture.files:
        raise UsageError(
            "the capture has no file sizes",
            where="growth.captures",
            evidence=name,
            next_step="take another capture with an account that has PROCESS",
        )
    return capture


def _started_s(capture: Capture) -> float:
    return parse_moment(capture.started_at).timestamp()
