"""How the source itself grew between captures of it: days of real growth, where a replay has minutes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from statistics import fmean, stdev

from volbench.analysis.linear import t_quantile
from volbench.errors import UsageError
from volbench.records.capture import Capture
from volbench.records.gate import Decision
from volbench.records.validation import CheckRow, GrowthOutlook, GrowthPlan
from volbench.validation.capture import read_capture
from volbench.validation.file_sizes import step_bytes
from volbench.validation.growth import DAY_S, full_after_s, growth_text, lasts, spoken_bytes, volume_bytes
from volbench.validation.move import spoken_s

ALPHA = 0.05
DECIDED_FROM = 3
"""Two captures tell one rate, and nothing of how it varies."""


def by_captures(plan: GrowthPlan) -> tuple[GrowthOutlook, CheckRow]:
    """When the volume is full. Raises UsageError for captures that cannot be read or have no files."""
    taken = sorted((_capture(name) for name in plan.captures), key=_at_s)
    if any(_at_s(before) == _at_s(after) for before, after in pairwise(taken)):
        raise UsageError("two captures were begun at one time", where="growth.captures", next_step="take one later")
    outlook = outlook_of_captures(taken, plan, volume_bytes(plan))
    return outlook, captures_check(outlook, taken, plan)


def outlook_of_captures(taken: Sequence[Capture], plan: GrowthPlan, size_bytes: int) -> GrowthOutlook:
    """Bytes a day from the first capture to the last, by the rates between them, give or take a step of each."""
    rates = [_rate(before, after) for before, after in pairwise(taken)]
    likely, low, high = _rate(taken[0], taken[-1])
    if len(rates) > 1:
        means = [one[0] for one in rates]
        reach = t_quantile(1 - ALPHA / 2, len(means) - 1) * stdev(means) / math.sqrt(len(means))
        low, high = min(low, fmean(means) - reach), max(high, fmean(means) + reach)
    low = max(0.0, low)
    used, logs = sum((taken[-1].files or {}).values()), taken[-1].binlog_bytes
    room = plan.full * size_bytes - used - (logs or 0)
    full = [full_after_s(room, rate, 0.0, None) for rate in (likely, low, high)]
    return GrowthOutlook(
        size_bytes=size_bytes, used_bytes=used, data_per_day=likely * DAY_S, data_per_day_low=low * DAY_S,
        data_per_day_high=high * DAY_S, binlog_per_day=None, binlog_per_day_low=None, binlog_per_day_high=None,
        binlog_kept_s=None, binlog_bytes=logs, full_s=full[0], full_s_low=full[2], full_s_high=full[1],
    )  # fmt: skip


def captures_check(found: GrowthOutlook, taken: Sequence[Capture], plan: GrowthPlan) -> CheckRow:
    """By both ends of the interval, which takes three captures."""
    decision: Decision = "undecided"
    if len(taken) >= DECIDED_FROM:
        if not lasts(found.full_s_high, plan):
            decision = "no-go"
        elif lasts(found.full_s_low, plan) and found.binlog_bytes is not None:
            decision = "go"
    text = growth_text(found, plan, "as the source grew")
    return CheckRow(check="growth", decision=decision, text=text, details=tuple(_details(found, taken)))


def _details(found: GrowthOutlook, taken: Sequence[Capture]) -> Iterator[str]:
    yield (
        f"the source's data grew by {spoken_bytes(found.data_per_day)} a day "
        f"[{spoken_bytes(found.data_per_day_low)}, {spoken_bytes(found.data_per_day_high)}] over "
        f"{spoken_s(_at_s(taken[-1]) - _at_s(taken[0]))} in {len(taken)} captures, to "
        f"{spoken_bytes(found.used_bytes)}"
    )
    if len(taken) < DECIDED_FROM:
        yield f"{len(taken)} captures do not tell how growth varies: take {DECIDED_FROM} or more"
    if found.binlog_bytes is None:
        yield "the source's binary logs could not be seen (REPLICATION CLIENT): they take room too"
    else:
        yield f"its binary logs took {spoken_bytes(found.binlog_bytes)}, as they will when they are kept as long"


def _rate(before: Capture, after: Capture) -> tuple[float, float, float]:
    """Bytes a second: likely, low, high. Files that did not grow are not counted, since they may have room left."""
    seconds = _at_s(after) - _at_s(before)
    then, now = before.files or {}, after.files or {}
    grew = {name: size - then.get(name, 0) for name, size in now.items() if size > then.get(name, 0)}
    shrank = sum(then[name] - now.get(name, 0) for name in then if now.get(name, 0) < then[name])
    steps = sum(step_bytes(now[name]) for name in grew)
    net = sum(grew.values()) - shrank
    return max(0, net) / seconds, max(0, net - steps) / seconds, max(0, net + steps) / seconds


def _capture(name: str) -> Capture:
    found = read_capture(Path(name))
    if not found.files:
        raise UsageError(
            "the capture has no sizes of files", where="growth.captures", evidence=name,
            next_step="take it anew with an account that has PROCESS",
        )  # fmt: skip
    return found


def _at_s(one: Capture) -> float:
    return datetime.fromisoformat(one.started_at).timestamp()
