"""The rule that names the storage limit of the instance (virtual machine)."""

from __future__ import annotations

from collections.abc import Iterator

from volbench.results.explain import thresholds as limit
from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.cause_info import CauseInfo
from volbench.results.explain.evidence.device import Resource
from volbench.results.explain.rules.advice import p95_text
from volbench.results.explain.rules.shared_evidence import context, queue_holds
from volbench.results.explain.wording import amount, percent, row
from volbench.results.stats.grid import mean, quantile

CAUSES = (
    CauseInfo(
        name="instance.storage_limit",
        group="the host or the instance",
        title="The instance is at its limit for storage",
        panels=("exceeded", "iops"),
        moment="the instance's limit is reached",
        meaning="The instance (virtual machine) reached its own storage limit before the volume reached its limit.",
        signs=(
            "The counter of the instance's limit (EBS NVMe log page, EBS CSI driver, or the emulator) says"
            " *exceeded* in at least 20 % of the time, and more often than the volume's. Without such a counter,"
            " this cause cannot be distinguished from a limit of the volume."
        ),
        advice="Choose a larger instance type. A larger volume does not help.",
    ),
)


def instance_findings(case: Case) -> Iterator[Cause]:
    """The instance's own limit: only its counter can tell it from the volume's."""
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
        cause="instance.storage_limit",
        decided_by="counted",
        window_s=case.window_s,
        share=case.storage_share,
        checks=tuple(checks),
        evidence=(*rows, *context(case)),
        advice="A larger instance type: a larger volume would not help, its own limit was not reached."
        + p95_text(case, resource, verb="the instance must give"),
    )
