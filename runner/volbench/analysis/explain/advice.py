"""What to do, with numbers where the measurement carries them."""

from __future__ import annotations

from dataclasses import dataclass

from volbench.analysis.explain.align import mean
from volbench.analysis.explain.case import Case
from volbench.analysis.explain.wording import amount, number

CPU_USABLE = 0.95


@dataclass(frozen=True, kw_only=True)
class Lift:
    """What a closed loop would do without the queue at the volume, and what would bound it next."""

    tps: float
    rate: float
    bound: str


def lift(case: Case, *, rate_now: float, queue_share: float | None) -> Lift | None:
    """Transactions per second without the volume's queue, at most what the CPU allows; None when it cannot be said.

    A closed loop of n threads does n / T transactions a second; without the share q of T that is spent in the
    queue it does n / (T (1 - q)). CPU time per transaction stays what it is.

    Args:
        case: a step whose load is closed (no rate).
        rate_now: operations or MiB per second now; it grows as the transactions do.
        queue_share: the share of transaction time spent waiting in the queue.
    """
    if queue_share is None or not 0 < queue_share < 1 or case.rate is not None or not case.tps or not rate_now:
        return None
    if case.cpu_busy is None or case.cpu_busy <= 0:
        return None
    free, by_cpu = case.tps / (1 - queue_share), case.tps * CPU_USABLE / case.cpu_busy
    if by_cpu <= case.tps:
        return None
    tps = min(free, by_cpu)
    bound = "CPU" if by_cpu < free else "the volume's latency"
    return Lift(tps=tps, rate=rate_now * tps / case.tps, bound=bound)


def more_of(case: Case, resource: str, level: float, queue_share: float | None) -> str:
    """Advice for a limit of operations or bytes."""
    lever = "buffer pool" if _reads_rule(case) else "writes per transaction"
    other = f"; or fewer operations: look at the {lever}" if lever else ""
    found = lift(case, rate_now=level, queue_share=queue_share)
    if found is None:
        return f"Provision more than {amount(level, resource)}, or move to a volume that gives more{other}."
    return (
        f"About {amount(found.rate, resource)} provisioned would lift this to about {number(found.tps)} tps"
        f" (estimate; next limit: {found.bound}){other}."
    )


def _reads_rule(case: Case) -> bool:
    if case.device is None or case.device.reads is None or case.device.writes is None:
        return True
    return (mean(case.device.reads) or 0.0) >= (mean(case.device.writes) or 0.0)
