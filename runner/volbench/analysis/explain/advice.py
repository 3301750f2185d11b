"""What to do, with numbers where the measurement carries them: predicted as `--what-if` predicts."""

from __future__ import annotations

from dataclasses import dataclass

from volbench.analysis.credits.limits import Charge, Limit
from volbench.analysis.explain.align import mean
from volbench.analysis.explain.case import Case
from volbench.analysis.explain.demand import Demand, demand_of
from volbench.analysis.explain.device import Resource
from volbench.analysis.explain.what_if import OtherVolume, outlooks_of
from volbench.analysis.explain.wording import amount, number

LIFT_MIN = 1.1
"""A gain below it is not worth a sentence."""
_HEADROOM = 1.25
"""Provisioned above what is used, so that the limit does not queue again."""
_MIB = 2**20


@dataclass(frozen=True, kw_only=True)
class Lift:
    """What the same volume would do with `rate` provisioned (operations or MiB per second), and the next limit."""

    rate: float
    tps: float
    tps_interval: tuple[float, float]
    bound: str


def lift(case: Case, resource: Resource) -> Lift | None:
    """The volume with its latency as without a queue, and without this limit; None when it cannot be said."""
    demand, base_ms = demand_of(case), case.base_await_ms
    if not isinstance(demand, Demand) or base_ms is None:
        return None
    same = OtherVolume(name="", read_s=base_ms / 1000, write_s=base_ms / 1000, caps=())
    (free,) = outlooks_of(demand, same)
    if free.bound == "CPU" and not demand.cpu_known:
        return None
    cost = demand.reads + demand.writes
    if resource == "throughput":
        cost = demand.reads * demand.read_bytes + demand.writes * demand.write_bytes
    rate = _HEADROOM * cost * free.tps
    charge = Charge(unit="io" if resource == "iops" else "byte")
    cap = Limit(name=resource, scope="volume", resource=resource, rate_per_s=rate, charge=charge)
    (found,) = outlooks_of(demand, OtherVolume(name="", read_s=same.read_s, write_s=same.write_s, caps=(cap,)))
    if found.tps < LIFT_MIN * demand.tps:
        return None
    return Lift(
        rate=rate if resource == "iops" else rate / _MIB,
        tps=found.tps,
        tps_interval=found.tps_interval,
        bound="CPU" if free.bound == "CPU" else "the volume's latency",
    )


def more_of(case: Case, resource: Resource, level: float) -> str:
    """Advice for a limit of operations or bytes."""
    lever = "buffer pool" if _reads_rule(case) else "writes per transaction"
    other = f"; or fewer operations: look at the {lever}"
    found = lift(case, resource)
    if found is None:
        more = f"Provision more than {amount(level, resource)}, or move to a volume that gives more{other}."
        return more + _at_most(case, resource)
    low, high = found.tps_interval
    return (
        f"About {amount(found.rate, resource)} provisioned would lift this to about {number(found.tps)} tps"
        f" ({number(low)} to {number(high)}, estimated): next limit is {found.bound}{other}."
    )


def _at_most(case: Case, resource: Resource) -> str:
    """An upper bound, where nothing is known of what comes after the limit."""
    device, tps = case.device, case.tps
    used = mean(None if device is None else device.carried(resource))
    if not tps or not used:
        return ""
    each = f"{number(used / tps)} operations" if resource == "iops" else f"{number(1024 * used / tps)} KiB"
    unit = "IOPS" if resource == "iops" else "MiB/s"
    return (
        f" A transaction costs {each}, with all else that the volume does: twice the {unit} carry at most twice the"
        f" {number(tps)} tps that were measured, and other limits may come first."
    )


def _reads_rule(case: Case) -> bool:
    if case.device is None or case.device.reads is None or case.device.writes is None:
        return True
    return (mean(case.device.reads) or 0.0) >= (mean(case.device.writes) or 0.0)
