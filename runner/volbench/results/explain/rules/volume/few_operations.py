"""The rule that names a volume that is busy and slow at a few operations a second."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from volbench.core.records.report import EvidenceRow
from volbench.results.explain import thresholds as limit
from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.evidence.device import Device
from volbench.results.explain.rule import CACHE_TAKEN, FEW_OPERATIONS, LAZY_LOAD, Rule
from volbench.results.explain.rules.host.foreign import others_have_most
from volbench.results.explain.rules.shared_evidence import (
    context,
    effect_rows,
    explains_little,
    loss_rows,
    waited_operation,
)
from volbench.results.explain.rules.volume.credits import first_empty
from volbench.results.explain.wording import clock, number, percent, row
from volbench.results.stats.grid import Mask, mean, median, quantile

READ_TIMES = 3.0
"""Times a write's time that a read takes, from which on reads alone are slow: one queue makes both wait alike."""
_READ_AGAIN = (
    " Reads alone are slow: read the same blocks a second time (fio or dd over the device). If that is fast, the"
    " volume was made from a snapshot and fetches each block at its first touch."
)


def few_operations(case: Case) -> Iterator[Cause]:
    """Busy and slow at a few operations a second: no limit of any known volume, and nothing shows one.

    Slow are the operations that sessions wait for; few are all together. Nor is it the volume's where others have
    most of what it, or the disks below it, do.
    A control group, a hypervisor or a storage system may set a lower limit than any volume on sale has. Where the
    evidence of a limit is there, such as a meter's regularity, it is that limit.
    """
    device, waited = case.device, case.waited_device
    if device is None or waited is None or waited.await_ms is None:
        return
    if _counts_exceeded(case) or explains_little(case):
        return
    waits = waited.await_ms
    slow = np.isfinite(waits) & (waits >= limit.DEGRADED_AWAIT_MS)
    working = device.util if device.util is not None else device.in_flight
    if working is not None:
        slow &= working >= limit.DEGRADED_UTIL
    few = slow & (device.iops <= limit.DEGRADED_IOPS)
    if device.mib_per_s is not None:
        few &= device.mib_per_s <= limit.DEGRADED_MIB_PER_S
    busy = int((waited.iops > 0).sum())
    if int(few.sum()) < 3 or few.sum() < 0.8 * slow.sum() or few.sum() < 0.1 * busy:
        return
    if float(np.nansum(waited.iops[few])) * case.grid.width_s < limit.DEGRADED_OPERATIONS_MIN:
        return
    if _is_at_limit(case, few) or others_have_most(case):
        return
    before = median(waits[~slow & np.isfinite(waits)])
    first = int(np.flatnonzero(few)[0])
    at, low, high = float(case.grid.t_s[first]), quantile(device.iops[few], 0), quantile(device.iops[few], 1)
    usual = median(waits[few]) or 0.0
    rose = before is not None and before * limit.DEGRADED_RISE <= usual
    # A range whose lower end is faster than before is no rise: the median is told, and that all is slow.
    text = (
        f"from {clock(at - case.grid.width_s, case.clock_zero_s)} {waited_operation(case)} takes {number(usual)} ms"
        f" at the median ({number(quantile(waits[few], 0) or 0)} to {number(quantile(waits[few], 1) or 0)} ms)"
    )
    if before is not None:
        text += f", before {number(before)} ms" if rose else f"; the rest is no faster by much: {number(before)} ms"
    rows = [
        row("await_ms", usual, "ms", text),
        row(
            "iops",
            median(device.iops[few]),
            "1/s",
            f"at {number(low or 0)} to {number(high or 0)} operations a second: below every known limit of IOPS"
            " (the smallest volumes give 100)",
        ),
    ]
    if device.util is not None:
        low_u, high_u = quantile(device.util[few], 0) or 0.0, quantile(device.util[few], 1) or 0.0
        rows.append(
            row(
                "util_ratio",
                median(device.util[few]),
                "1",
                f"busy {percent(low_u)} to {percent(high_u)} of the time",
            )
        )
    checks = [True, rose]
    effects = [effect for effect in effect_rows(case, few) if effect.is_worse]
    yield Cause(
        cause="storage.degraded",
        decided_by="before and after" if rose else "level",
        window_s=(at - case.grid.width_s, float(case.grid.t_s[int(np.flatnonzero(few)[-1])])),
        share=case.storage_share,
        checks=tuple(checks),
        evidence=(*rows, *_more_traffic(case, first), *loss_rows(effects), *context(case)),
        advice="The cause is outside this host's own load: ask for the volume's own history (credit balance, volume"
        " status, provider events), for snapshots and neighbours on the same storage. More provisioned IOPS are"
        " no answer to a volume that does not give a tenth of the least."
        + (_READ_AGAIN if _reads_alone(device, few) else ""),
    )


def _reads_alone(device: Device, few: Mask) -> bool:
    """Return whether writes of these intervals are fast; not where there are none."""
    if device.r_await_ms is None or device.w_await_ms is None:
        return False
    reads, writes = (median(waits[few]) for waits in (device.r_await_ms, device.w_await_ms))
    return bool(reads and writes and reads >= READ_TIMES * writes)


def _is_at_limit(case: Case, few: Mask) -> bool:
    """Whether half of these intervals and more are at a level that the evidence shows to be a limit."""
    within = np.zeros(len(few), dtype=np.bool_)
    for level in (*case.limits, *(limit_of_disks.plateau for limit_of_disks in case.disk_limits)):
        within[level.first : level.last] = True
    return int((few & within).sum()) >= 0.5 * int(few.sum())


def _more_traffic(case: Case, since: int) -> Iterator[EvidenceRow]:
    """Own load that came on top, once the volume was slow already: a rise of operations or bytes."""
    device = case.device
    if device is None:
        return
    for name, values, unit in (("iops", device.iops, "1/s"), ("mib_per_s", device.mib_per_s, "MiB/s")):
        if values is None:
            continue
        usual, most = median(values[:since]), quantile(values[since:], 1)
        if usual is None or most is None or most < 2 * usual or usual <= 0:
            continue
        at = float(case.grid.t_s[since + int(np.nanargmax(values[since:]))])
        listed_stalls = number(most) if name == "iops" else f"{number(most)} MiB/s"
        text = (
            f"own load adds to it: {listed_stalls} {'operations a second' if name == 'iops' else ''} at"
            f" {clock(at, case.clock_zero_s)}, {most / usual:.1f} times as much as before"
        )
        yield row(name, most, unit, " ".join(text.split()))
        return


def _counts_exceeded(case: Case) -> bool:
    """Whether a counter says that a limit was met, or that credits are gone: the waiting times are explained."""
    counted = (case.exceeded.volume_iops, case.exceeded.volume_throughput, case.exceeded.instance_iops)
    if any((mean(finding) or 0.0) >= limit.EXCEEDED_MIN for finding in counted if finding is not None):
        return True
    balance = case.of_volume.balance_percent
    return balance is not None and first_empty(balance) is not None


RULES = (
    Rule(
        name=FEW_OPERATIONS,
        causes=frozenset({"storage.degraded"}),
        subject="volume",
        find=few_operations,
        yields_to=frozenset({CACHE_TAKEN, LAZY_LOAD}),
    ),
)
