"""A volume that got slower by itself: from one second on each operation takes longer, with no longer queue.

An exhausted burst looks alike at first: operations fall and waiting times rise. What tells them apart is what a
longer queue brings afterwards: nothing at a limit, as much more where latency alone rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from volbench.analysis.explain import thresholds as limit
from volbench.analysis.explain.align import Floats, mean
from volbench.analysis.explain.case import Case
from volbench.analysis.explain.cliffs import Cliff, cliffs
from volbench.analysis.explain.found import Found
from volbench.analysis.explain.limits import dispersion, elasticity
from volbench.analysis.explain.shared_evidence import context, latency_rise, throughput_fall
from volbench.analysis.explain.wording import before_and_after, clock, number, row

SAMPLES_MIN = 5
QUEUE_RISE_MAX = 2.0


def slower_findings(case: Case) -> Iterator[Found]:
    """One finding for the largest lasting rise of the waiting time that no limit and no queue explains."""
    device = case.device
    if device is None or device.await_ms is None or device.in_flight is None:
        return
    found = [one for one in cliffs(case.grid.t_s, device.await_ms, ratio_min=limit.DEGRADED_RISE) if one.ratio > 1]
    for cliff in sorted(found, key=lambda one: one.ratio, reverse=True)[:1]:
        after = slice(cliff.index, None)
        rates, queues = (before_and_after(one, cliff.index) for one in (device.iops, device.in_flight))
        slope = elasticity(device.iops[after], device.in_flight[after])
        silent = _silent(case, cliff.index)
        # A sum of metered reads and free writes is irregular, too: it tells nothing where it is all that is known.
        spread = None if device.reads is None else dispersion(device.iops[after] * case.grid.width_s)
        unmetered = None if spread is None else spread >= limit.IRREGULAR_MIN or None
        free = _free(slope)
        if free is False and (silent or unmetered):
            free = None  # a queue that hardly varies has no slope to speak of
        if len(case.grid) - cliff.index < SAMPLES_MIN or rates is None or queues is None:
            continue
        if not (free or silent or unmetered) or free is False or silent is False:
            continue
        if any(_metered(one, after, case.grid.width_s) for one in (device.reads, device.writes)):
            continue
        if queues[1] > QUEUE_RISE_MAX * queues[0] or rates[1] >= rates[0]:
            continue
        alike = _both_rose(device.r_await_ms, device.w_await_ms, cliff.index)
        share = _share_after(case, cliff)
        if alike is not False and (share is None or share >= limit.SHARE_MIN):
            yield _found(case, cliff, share, rates, queues, [True, free, silent, unmetered, alike])


def _metered(rates: Floats | None, after: slice, width_s: float) -> bool:
    """Whether reads alone, or writes, come as regularly as only a meter lets them: a control group limits each."""
    spread = None if rates is None else dispersion(rates[after] * width_s)
    return spread is not None and spread <= limit.REGULARITY_CAPPED


def _share_after(case: Case, cliff: Cliff) -> float | None:
    """Of statement time in files, since the volume is slower; None where it is not known."""
    later = replace(case, grid=case.grid.within(cliff.at_s, case.window_s[1]))
    return later.storage_share


def _free(slope: float | None) -> bool | None:
    """Whether a longer queue brings as much more; None between that and a limit, too."""
    if slope is None or limit.ELASTICITY_CAPPED < slope < limit.ELASTICITY_FREE:
        return None
    return slope >= limit.ELASTICITY_FREE


def _found(
    case: Case,
    cliff: Cliff,
    share: float | None,
    rates: tuple[float, float],
    queues: tuple[float, float],
    checks: list[bool | None],
) -> Found:
    at = cliff.at_s
    rose = latency_rise(case, cliff.index)
    text = (f"{rose}: " if rose else "") + (
        f"from {clock(at, case.clock_zero_s)} on an operation takes {number(cliff.after)} ms, before"
        f" {number(cliff.before)} ms, with {number(queues[1])} in flight, before {number(queues[0])}"
    )
    given = (
        f"it gives {number(rates[1])} operations a second, and gave {number(rates[0])} before: no limit is reached"
    )
    return Found(
        cause="storage.degraded",
        decided_by="before and after",
        window_s=(at, case.window_s[1]),
        share=share,
        checks=tuple(checks),
        evidence=(
            row("await_ms", cliff.after, "ms", text),
            row("iops", rates[1], "1/s", given),
            *throughput_fall(case, cliff.index),
            *context(case),
        ),
        advice=f"The volume itself got slower at {clock(at, case.clock_zero_s)}, not this load heavier: look at the"
        " storage's own history and at its other users.",
    )


def _silent(case: Case, index: int) -> bool | None:
    """Whether the volume's counters say that no limit was exceeded afterwards; None: it does not count."""
    counted = case.exceeded
    columns = (
        counted.volume_iops, counted.volume_throughput, counted.instance_iops, counted.instance_throughput,
    )  # fmt: skip
    shares = [mean(one[index:]) for one in columns if one is not None]
    known = [one for one in shares if one is not None]
    if not known or limit.EXCEEDED_SILENT < max(known) < limit.EXCEEDED_MIN:
        return None
    return max(known) <= limit.EXCEEDED_SILENT


def _both_rose(reads: Floats | None, writes: Floats | None, index: int) -> bool | None:
    """Whether reads and writes both take twice as long; None when only one kind is known."""
    levels = [before_and_after(one, index) for one in (reads, writes) if one is not None]
    known = [one for one in levels if one is not None]
    if len(known) < 2:
        return None
    return bool(np.all([after >= 2 * before for before, after in known]))
