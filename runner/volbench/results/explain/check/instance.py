"""What speaks against a limit of the instance: its counters and credits, the volume's, and other volumes."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from volbench.core.records.named_metrics import Cloudwatch, Diskstats, NamedMetric
from volbench.results.explain import thresholds as limit
from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.evidence.burst import BALANCE_EMPTY_PERCENT
from volbench.results.explain.evidence.device import Resource, device_of
from volbench.results.explain.evidence.instance_figures import near_figure
from volbench.results.explain.objection import Objection
from volbench.results.explain.wording import amount, number, percent
from volbench.results.stats.grid import Floats, mean, median

_DISK = re.compile(r"nvme[0-9]+n[0-9]+|xvd[a-z]+|sd[a-z]+")
"""Whole disks: what lies on them (partitions, dm, md) would be counted twice."""
_BALANCES: dict[Resource, NamedMetric] = {
    "throughput": Cloudwatch.instance_byte_balance_percent,
    "iops": Cloudwatch.instance_io_balance_percent,
}


def instance_objections(case: Case, cause: Cause) -> Iterator[Objection]:
    """All that speaks against a limit of the instance that no counter names.

    Args:
        case: the step.
        cause: the finding; what the instance's own counters name is not looked at again.
    """
    resource, level = _stated(cause)
    if resource is None or level is None:
        return
    yield from _counters(case, resource)
    yield from _credits(case, resource, level)
    yield from _other_volumes(case, resource, level)


def _stated(cause: Cause) -> tuple[Resource | None, float | None]:
    """The level that lies at the instance's figure, and of what; none where no figure is stated."""
    if not any(row.metric == "instance_figure" for row in cause.evidence):
        return None, None
    for row in cause.evidence:
        if row.metric in ("iops", "throughput", "baseline") and isinstance(row.value, int | float):
            return ("iops" if row.unit == "1/s" else "throughput"), float(row.value)
    return None, None


def _counters(case: Case, resource: Resource) -> Iterator[Objection]:
    """The instance counts its limit as not exceeded, or the volume its own as exceeded."""
    counted = case.exceeded
    of_instance = mean(counted.instance_iops if resource == "iops" else counted.instance_throughput)
    of_volume = mean(counted.of(resource))
    if of_instance is not None and of_instance < limit.EXCEEDED_MIN:
        text = f"the instance counts its limit exceeded in {percent(of_instance)} of the time"
        yield Objection(law="consistency", text=text, claimed=limit.EXCEEDED_MIN, recorded=of_instance)
    if of_volume is not None and of_volume >= limit.EXCEEDED_MIN:
        text = f"the volume counts its own limit exceeded in {percent(of_volume)} of the time"
        yield Objection(law="consistency", text=text, claimed=limit.EXCEEDED_MIN, recorded=of_volume)


def _credits(case: Case, resource: Resource, level: float) -> Iterator[Objection]:
    """An instance with credits left gives more than its baseline."""
    figure = near_figure(case.instance, resource, level)
    entities = case.grid.entities(*_BALANCES[resource])
    balance = case.at(_BALANCES[resource], entities[0]) if len(entities) == 1 else None
    left = None if balance is None else median(balance)
    if figure is None or figure.kind != "baseline" or left is None or left <= BALANCE_EMPTY_PERCENT:
        return
    text = f"{number(left)} % of the instance's burst credits are left, with which it gives more than its baseline"
    yield Objection(law="consistency", text=text, claimed=0.0, recorded=left)


def _other_volumes(case: Case, resource: Resource, level: float) -> Iterator[Objection]:
    """The instance's limit is of all its volumes: where their sum is more than it, it is none of this one."""
    device = case.device
    if device is None or not _DISK.fullmatch(device.entity):
        return
    entities = {
        entity
        for metric in (Diskstats.reads_per_s, Diskstats.operations_per_s)
        for entity in case.grid.entities(*metric.of(device.source))
        if _DISK.fullmatch(entity) and entity != device.entity
    }
    columns = [column for entity in sorted(entities) if (column := _carried(case, entity, resource)) is not None]
    carried = median(np.nansum(columns, axis=0)) if columns else None
    if carried is None or near_figure(case.instance, resource, level + carried) is not None:
        return
    text = (
        f"the host's other volumes carried {amount(carried, resource)} meanwhile, so that all together gave"
        f" {amount(level + carried, resource)}"
    )
    yield Objection(law="sufficiency", text=text, claimed=level, recorded=level + carried)


def _carried(case: Case, entity: str, resource: Resource) -> Floats | None:
    device = device_of(case.grid, entity)
    return None if device is None else device.carried(resource)
