"""A bucket of credits that the volume itself, or its vendor, says is empty.

A bucket fills at the baseline's rate whenever less than the baseline is used (Amazon EBS User Guide, gp2, st1, sc1;
EFS User Guide, bursting). So a balance that stays at nothing means that the load wants the baseline or more: the
volume is metered at that moment. No waiting time is needed to know it; CloudWatch's VolumeReadOps, VolumeWriteOps
and BurstBalance are enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from volbench.core.base.text import counted
from volbench.core.records.report import EvidenceRow
from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.cause_info import CauseInfo
from volbench.results.explain.rule import BALANCE, BURST, EXPLAINS_WAITS, INSTANCE, OUTSIDE, SHARED_LIMIT, Rule
from volbench.results.explain.rules.advice import p95_text
from volbench.results.explain.rules.levers import more
from volbench.results.explain.rules.shared_evidence import context, explains_little
from volbench.results.explain.topics import USE_OF_VOLUME
from volbench.results.explain.wording import amount, clock, number, percent, row
from volbench.results.stats.grid import Floats, median, quantile, true_runs

EMPTY_PERCENT = 1.0
"""A balance that CloudWatch rounds or averages over a period is seldom exactly 0."""
EMPTY_SAMPLES_MIN = 2
FILLED_PERCENT = 10.0
"""A bucket that was never fuller than this was empty all along; when it emptied is not known then."""
FALL_MAX = 0.8
"""Rate while empty over rate before, below which the volume gives visibly less."""

MET_BECAUSE_OF = frozenset({"storage.burst_exhausted", "memory.reclaim", "storage.lazy_load"})
"""An empty bucket, reads that memory had served, blocks that are being fetched: each meets a limit."""

CAUSES = (
    CauseInfo(
        name="storage.burst_exhausted",
        claims=frozenset({"episode"}),
        suggested_as="limit that began",
        group="the volume is at a limit",
        title="The volume's burst credits ran out",
        panels=("balance", "iops"),
        accounts_for=USE_OF_VOLUME,
        options=frozenset({"iops", "osd", "size", "throughput"}),
        is_change=True,
        moment="the burst credits are gone",
        meaning="The volume ran on burst credits and spent them. It now gives its baseline.",
        signs=(
            "At one moment the rate falls to a plateau, and latency rises. The volume's credit balance, where it"
            " is known (at most 0.5 % left), confirms it. A volume whose credits are gone from the start shows"
            " the baseline only."
        ),
        advice=(
            "Choose a volume whose baseline carries the load. Do not use what was measured before that moment:"
            " it is the burst. `volbench credits` forecasts when credits run out and what that means for a dump"
            " ([credits](credits.md))."
        ),
        waits="even",
    ),
)


def emptied_findings(case: Case) -> Iterator[Cause]:
    """`storage.burst_exhausted` from the balance alone, for evidence without a plateau of waiting operations."""
    balance, device = case.balance_percent, case.device
    if balance is None or device is None or explains_little(case):
        return
    first = first_empty(balance)
    if first is None:
        return
    t_s, width_s = case.grid.t_s, case.grid.width_s
    emptied_s = fall_at_s(t_s, width_s, device.iops, first) or empty_at_s(t_s, balance, first)
    began_filled = bool(np.nanmax(balance[: first + 1]) >= FILLED_PERCENT)
    start_s = emptied_s if began_filled else float(t_s[0]) - width_s
    empty = np.nan_to_num(balance, nan=100.0) <= EMPTY_PERCENT
    most, during = quantile(device.iops[:first], 1.0), median(device.iops[empty])
    comparable = began_filled and most is not None and during is not None and not case.changes_load
    fell = during <= FALL_MAX * most if comparable and most is not None and during is not None else None
    when = f"at {clock(emptied_s, case.clock_zero_s)}" if began_filled else "before the first sample"
    last = float(t_s[int(np.flatnonzero(empty)[-1])])
    text = f"the burst credits ran out {when}, {_afterwards(balance, first)}"
    yield Cause(
        cause="storage.burst_exhausted",
        decided_by="counted",
        window_s=(start_s, last),
        share=case.storage_share,
        checks=(True, fell),
        evidence=(
            row("exhausted_at", emptied_s if began_filled else None, "s", text),
            *_rates(most if comparable else None, during),
            *context(case),
        ),
        advice=(
            f"{more(case, 'iops')}, so that the baseline is what this load wants; or less load until the credits"
            " are there again: `volbench credits` says how long that takes."
            + p95_text(replace(case, grid=case.grid.where(empty)), "iops", level=during, within="without credits")
        ),
    )


def _afterwards(balance: Floats, first: int) -> str:
    """What the balance did between the first and the last time that it was empty."""
    levels = balance[first:][np.isfinite(balance[first:])]
    levels = levels[: int(np.flatnonzero(levels <= EMPTY_PERCENT)[-1]) + 1]
    times = len(true_runs(levels <= EMPTY_PERCENT))
    if times < 2 or float(levels.max()) < FILLED_PERCENT:
        return f"and stayed at {number(float(np.nanmin(balance)))} %"
    return (
        f"and {counted(times - 1, 'time')} again after they had filled up to {number(float(levels.max()))} %: they"
        f" were gone in {percent(float((levels <= EMPTY_PERCENT).mean()))} of that time"
    )


def first_empty(balance: Floats) -> int | None:
    """The first sample from which the balance stays empty for EMPTY_SAMPLES_MIN samples; None when it never does.

    Args:
        balance: percent left; shape (samples,), NaN where not known.
    """
    finite = np.flatnonzero(np.isfinite(balance))
    empty = balance[finite] <= EMPTY_PERCENT
    for position in range(len(finite) - EMPTY_SAMPLES_MIN + 1):
        if empty[position : position + EMPTY_SAMPLES_MIN].all():
            return int(finite[position])
    return None


def empty_at_s(t_s: Floats, balance: Floats, first: int) -> float:
    """When a falling balance reached 0: on the line through the two samples before `first`, at most at `first`.

    The samples of a vendor lie minutes apart; the bucket empties between two of them.
    """
    above = [index for index in range(first) if np.isfinite(balance[index]) and balance[index] > EMPTY_PERCENT][-2:]
    if len(above) < 2:
        return float(t_s[first])
    earlier, later = above
    fall = (balance[earlier] - balance[later]) / (t_s[later] - t_s[earlier])
    if fall <= 0:
        return float(t_s[first])
    return float(min(t_s[first], t_s[later] + balance[later] / fall))


def fall_at_s(t_s: Floats, width_s: float, iops: Floats, first: int) -> float | None:
    """When the rate fell to the baseline's, within the two samples up to `first`; None where it did not fall so.

    A sample is a mean over its period, and a balance may be taken anywhere in it. The operations are counted, so
    those beyond the baseline say for how long of the two periods there were credits.

    Args:
        t_s: ends of the periods, shape (samples,).
        width_s: length of a period.
        iops: operations/s, shape (samples,).
        first: the first sample whose balance is empty.
    """
    before, after = median(iops[max(0, first - 3) : max(0, first - 1)]), median(iops[first + 1 : first + 4])
    two = iops[max(0, first - 1) : first + 1]
    if before is None or after is None or after > FALL_MAX * before or len(two) < 2 or not np.isfinite(two).all():
        return None
    periods = float(np.clip((two - after) / (before - after), 0.0, 1.0).sum())
    return float(t_s[first]) - 2 * width_s + periods * width_s


def _rates(most: float | None, during: float | None) -> Iterator[EvidenceRow]:
    if during is None:
        return
    text = f"without credits the volume gave {amount(during, 'iops')}"
    if most is not None and most >= during:  # else the load asked for less before
        text += f"; before it gave up to {amount(most, 'iops')}"
    yield row("baseline", during, "1/s", text)


def emptied_of_volume(case: Case) -> Iterator[Cause]:
    """The same on the clock of what counted the balance."""
    if case.device is not None:
        yield from emptied_findings(case.of_volume)


RULES = (
    Rule(
        name=BALANCE,
        causes=frozenset({"storage.burst_exhausted"}),
        subject="volume",
        find=emptied_of_volume,
        yields_to=EXPLAINS_WAITS | {SHARED_LIMIT, INSTANCE, BURST},
        after=OUTSIDE,
    ),
)
