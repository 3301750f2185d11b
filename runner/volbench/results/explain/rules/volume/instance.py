"""The rule that names the storage limit of the instance (virtual machine)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from volbench.core.records.named_metrics import Cloudwatch, NamedMetric
from volbench.results.explain import thresholds as limit
from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.cause_info import CauseInfo
from volbench.results.explain.evidence.burst import BALANCE_EMPTY_PERCENT
from volbench.results.explain.evidence.device import Resource
from volbench.results.explain.rule import EXPLAINS_WAITS, INSTANCE, OUTSIDE, SHARED_LIMIT, Rule
from volbench.results.explain.rules.advice import p95_text
from volbench.results.explain.rules.shared_evidence import context, queue_holds
from volbench.results.explain.rules.volume.instance_figure import NAME
from volbench.results.explain.topics import USE_OF_VOLUME
from volbench.results.explain.wording import amount, clock, percent, row
from volbench.results.stats.grid import mean, quantile

CAUSES = (
    CauseInfo(
        name="instance.storage_limit",
        claims=frozenset({"limit", "instance"}),
        group="the host or the instance",
        title="The instance is at its limit for storage",
        panels=("exceeded", "iops"),
        accounts_for=USE_OF_VOLUME,
        moment="the instance's limit is reached",
        meaning="The instance (virtual machine) reached its own storage limit before the volume reached its limit.",
        signs=(
            "The counter of the instance's limit (EBS NVMe log page, EBS CSI driver, or the emulator) says"
            " *exceeded* in at least 20 % of the time, and more often than the volume's; or the instance's burst"
            " credits (CloudWatch's EBSByteBalance%, EBSIOBalance%) ran out. Without such a counter it is one of"
            " two with a limit of the volume: where the level lies within 3 % of what the instance's type gives"
            " (`--instance`, or the run's host), and where a recording shows a limit of bytes and names no type."
        ),
        advice="Choose a larger instance type. A larger volume does not help.",
        waits="even",
    ),
)


_BALANCES: dict[NamedMetric, str] = {
    Cloudwatch.instance_byte_balance_percent: "bandwidth",
    Cloudwatch.instance_io_balance_percent: "operations",
}
EMPTY_MIN = 3
"""Intervals in which the instance's credits are spent, from which on it is named."""


def instance_findings(case: Case) -> Iterator[Cause]:
    """The instance's own limit: only its counters can tell it from the volume's."""
    yield from _counted(case)
    yield from _spent(case.of_volume)


def _spent(case: Case) -> Iterator[Cause]:
    """The instance's burst credits that ran out, as the vendor counts them; none of several instances."""
    for metric, noun in _BALANCES.items():
        entities = case.grid.entities(*metric)
        balance = case.at(metric, entities[0]) if len(entities) == 1 else None
        if balance is None or case.device is None:
            continue
        empty = balance <= BALANCE_EMPTY_PERCENT
        if int(empty.sum()) < EMPTY_MIN:
            continue
        first = int(np.flatnonzero(empty)[0])
        at = clock(float(case.grid.t_s[first]) - case.grid.width_s, case.clock_zero_s)
        began = f"ran out at {at}" if first else "were spent before the first sample"
        resource: Resource = "throughput" if noun == "bandwidth" else "iops"
        carried = case.device.carried(resource)
        level = None if carried is None else mean(carried[empty])
        text = f"the instance's burst credits for {noun} {began}: the volume's own are others"
        rows = [row(metric.name, 0.0, "%", text)]
        if level is not None:
            unit = "1/s" if resource == "iops" else "MiB/s"
            rows.append(row("level", level, unit, f"without, the instance gave {amount(level, resource)}"))
        yield Cause(
            cause=NAME,
            decided_by="counted",
            window_s=(float(case.grid.t_s[first]) - case.grid.width_s, case.window_s[1]),
            share=case.storage_share,
            checks=(True, True),
            evidence=(*rows, *context(case)),
            advice="A larger instance type, whose baseline is what this load wants, or less load.",
            volume_advice="A larger volume or more provisioned IOPS would not help.",
        )
        return


def _counted(case: Case) -> Iterator[Cause]:
    """The instance's limit that its counters say was exceeded."""
    counted = case.exceeded
    shares: dict[Resource, float | None] = {
        "iops": mean(counted.instance_iops),
        "throughput": mean(counted.instance_throughput),
    }
    volume = max(mean(counted.volume_iops) or 0.0, mean(counted.volume_throughput) or 0.0)
    resource = max(shares, key=lambda name: shares[name] or 0.0)
    share = shares[resource] or 0.0
    if share < limit.EXCEEDED_MIN or share < volume or case.device is None:
        return
    level = quantile(case.device.carried(resource), limit.LEVEL_QUANTILE)
    rows = [
        row(
            f"instance_exceeded_{resource}_ratio",
            share,
            "1",
            f"the instance's storage limit was exceeded in {percent(share)} of the time, the volume's in"
            f" {percent(volume)}",
        )
    ]
    if level is not None:
        unit = "1/s" if resource == "iops" else "MiB/s"
        rows.append(row("level", level, unit, f"it gave {amount(level, resource)}"))
    checks = [True, queue_holds(case)]
    yield Cause(
        cause=NAME,
        decided_by="counted",
        window_s=case.window_s,
        share=case.storage_share,
        checks=tuple(checks),
        evidence=(*rows, *context(case)),
        advice=(
            "A larger instance type."
            if volume < limit.EXCEEDED_MIN
            else "A larger instance type and a volume that gives more: both limits were met, and either alone"
            " leaves the other."
        )
        + p95_text(case, resource, level=level, verb="the instance must give"),
        volume_advice="A larger volume would not help: its own limit was not reached."
        if volume < limit.EXCEEDED_MIN
        else "",
    )


RULES = (
    Rule(
        name=INSTANCE,
        causes=frozenset({NAME}),
        subject="volume",
        find=instance_findings,
        yields_to=EXPLAINS_WAITS | {SHARED_LIMIT},
        after=OUTSIDE,
    ),
)
