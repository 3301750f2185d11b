"""What a volume serves each second while its limits change, and what that says of the change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from volbench.errors import StepFailed
from volbench.measure.workload.interface import StepContext

TICK_S = 1.0
MORE = 1.1
"""Times the operations of before, from which on the new limit holds: a limit that is met varies by far less."""
SECONDS = 3


@dataclass(frozen=True, kw_only=True)
class ServedRate:
    """What the volume did in the seconds up to `t_s`: operations a second."""

    t_s: float
    per_s: float


def watch(ctx: StepContext, operations: Callable[[], float], seconds: float, rates: list[ServedRate]) -> None:
    """Append what the volume does in each second. Raise StepFailed if cancelled.

    Args:
        operations: returns how many the volume has done so far.
        rates: are appended to.
    """
    until_s = ctx.clock.now_s() + seconds
    t_s, count = ctx.clock.now_s(), operations()
    while (left_s := until_s - ctx.clock.now_s()) > 0:
        if ctx.cancelled.wait(min(TICK_S, left_s)):
            raise StepFailed("the modification was cancelled", where="modify")
        now_s, now = ctx.clock.now_s(), operations()
        if now_s - t_s >= TICK_S / 2:
            rates.append(ServedRate(t_s=now_s, per_s=(now - count) / (now_s - t_s)))
            t_s, count = now_s, now


def outcome_of(
    rates: Sequence[ServedRate], asked_s: float, changed_s: float | None
) -> tuple[dict[str, float], tuple[str, ...]]:
    """Return the step's metrics and notes.

    Args:
        rates: what the volume did, in order of time.
        asked_s: when the change was asked for.
        changed_s: when the volume had the new limits; None: not while it was watched.
    """
    values = {} if changed_s is None else {"limits_changed_s": changed_s - asked_s}
    before = [rate.per_s for rate in rates if rate.t_s <= asked_s]
    usual = float(np.median(before)) if before else 0.0
    if usual <= 0:
        return values, ("the volume did nothing before the request: nothing is compared with it",)
    after = [rate for rate in rates if rate.t_s > asked_s]
    during = [rate.per_s for rate in after if changed_s is None or rate.t_s <= changed_s]
    if len(during) >= SECONDS:
        values["dip_ratio"] = _fewest_per_s(during) / usual
    for first in range(len(after) - SECONDS + 1):
        if all(rate.per_s > MORE * usual for rate in after[first : first + SECONDS]):
            values["new_limit_after_s"] = after[first].t_s - asked_s
            return values, ()
    if changed_s is None:
        return values, ("the load did no more operations while it was watched",)
    notes = ["the load did no more operations with the new limits: it met no limit, or meets another"]
    changed = [rate.per_s for rate in after if rate.t_s > changed_s]
    if (
        values.get("dip_ratio", 1.0) < 1
        and len(changed) >= SECONDS
        and _fewest_per_s(changed) <= _fewest_per_s(during)
    ):
        notes.append("seconds with the new limits had as few operations: the dip may be none of the change")
    return values, tuple(notes)


def _fewest_per_s(rates: Sequence[float]) -> float:
    """Return the fewest operations a second of SECONDS in a row."""
    return float(np.convolve(rates, np.ones(SECONDS) / SECONDS, "valid").min())
