"""What to do, with numbers where the measurement carries them: predicted as `--what-if` predicts."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

from volbench.core.profile.limits import Charge, VolumeLimit
from volbench.core.records.named_metrics import Client
from volbench.core.records.steps import step_kind
from volbench.results.explain.accounts.closed_network import Station, ThroughputBounds, solve
from volbench.results.explain.accounts.demand import Demand, demand_of
from volbench.results.explain.accounts.what_if import OtherVolume, more_pages, outlooks_of, page_units, states_tps
from volbench.results.explain.case import Case
from volbench.results.explain.evidence.device import Resource
from volbench.results.explain.rules.levers import fewer, more
from volbench.results.explain.wording import amount, number
from volbench.results.stats.grid import mean, median

LIFT_MIN = 1.1
"""A gain below it is not worth a sentence."""
_HEADROOM = 1.25
"""Provisioned above what is used, so that the limit does not queue again."""
_MIB = 2**20
_BISECTIONS = 30
WIDEST = 4.0
"""What is surely enough against what is needed at least, from which an estimate is no ground to buy by."""
MISS_TARGET = 0.01
BOUND_MIN = 1.5
"""Of what there is: a lower bound below it is no ground to choose a size by."""
CPUS_MAX = 256
HALF = " For half of "
"""How an estimate of what half of p95 takes begins: it is made from the load's demand."""


@dataclass(frozen=True, kw_only=True)
class PredictedGain:
    """What the same volume would do with `rate` provisioned (operations or MiB per second), and the next limit."""

    rate: float
    tps: float
    tps_interval: tuple[float, float]
    bound: str
    states_tps: bool = True


def lift(case: Case, resource: Resource) -> PredictedGain | None:
    """The volume with its latency as without a queue, and without this limit; None when it cannot be said.

    More of what limits never makes a load slower: no bound lies below what was measured.
    """
    demand, base_ms = demand_of(case), case.base_await_of_all_ms
    if not isinstance(demand, Demand) or base_ms is None:
        return None
    same = OtherVolume(name="", read_s=base_ms / 1000, write_s=base_ms / 1000, caps=())
    (free,) = outlooks_of(demand, same)
    if free.bound == "CPU" and not demand.cpu_known:
        return None
    cost = demand.reads + demand.writes
    if resource == "throughput":
        cost = demand.reads * demand.read_bytes + demand.writes * demand.write_bytes
    charge = Charge(unit="io" if resource == "iops" else "byte")
    cap = VolumeLimit(name=resource, scope="volume", resource=resource, rate_per_s=1.0, charge=charge)
    rate = _HEADROOM * (cost + more_pages(demand, free.tps) * page_units(cap)) * free.tps
    cap = replace(cap, rate_per_s=rate)
    (lifted,) = outlooks_of(demand, OtherVolume(name="", read_s=same.read_s, write_s=same.write_s, caps=(cap,)))
    if lifted.tps < LIFT_MIN * demand.tps:
        return None
    return PredictedGain(
        rate=rate if resource == "iops" else rate / _MIB,
        tps=lifted.tps,
        tps_interval=(max(demand.tps, lifted.tps_interval[0]), lifted.tps_interval[1]),
        bound="CPU" if free.bound == "CPU" else "the volume's latency",
        states_tps=states_tps(demand),
    )


@dataclass(frozen=True, kw_only=True)
class Needed:
    """How much of something a target takes. `least` and `enough` are what the interval's two ends take.

    None: no amount reaches the target there.
    """

    least: float | None
    likely: float | None
    enough: float | None

    @property
    def decides(self) -> bool:
        """Whether the interval is narrow enough to buy by."""
        finite = self.least is not None and self.likely is not None and self.enough is not None
        return finite and (self.enough or 0.0) <= WIDEST * (self.least or 1.0)

    def above(self, measured: float) -> Needed | None:
        """Return the same where the measured amount was too little; None where the estimate calls it enough."""
        if self.likely is None:
            return self
        if self.likely <= measured:
            return None
        return replace(self, least=None if self.least is None else max(measured, self.least))


def needed_for_p95(
    demand: Demand, volume_of: Callable[[float], OtherVolume], target_ms: float, span: tuple[float, float]
) -> Needed:
    """The least amount with which p95 is at most a target, for the likely p95 and for both ends of its interval.

    Args:
        demand: of one transaction.
        volume_of: a volume with an amount of something, more of which never makes it slower.
        target_ms: of p95.
        span: the amounts to look between, the lower first, both above 0.

    By bisection of the logarithm: p95 falls with the amount (`what_if` is monotone in it).
    """

    @cache
    def p95_ms(amount: float) -> tuple[float, float, float]:
        (outlook,) = outlooks_of(demand, volume_of(amount))
        if outlook.p95_ms is None or outlook.p95_interval is None:
            return math.inf, math.inf, math.inf
        return outlook.p95_interval[0], outlook.p95_ms, outlook.p95_interval[1]

    def least(end: int) -> float | None:
        low, high = span
        if p95_ms(high)[end] > target_ms:
            return None
        for _ in range(_BISECTIONS):
            middle = math.sqrt(low * high)
            low, high = (low, middle) if p95_ms(middle)[end] <= target_ms else (middle, high)
        return high

    return Needed(least=least(0), likely=least(1), enough=least(2))


def rate_for_p95(case: Case, resource: Resource, target_ms: float, level: float | None = None) -> Needed | None:
    """Operations or MiB/s that a p95 takes, on this volume otherwise as it is; None: cannot be predicted.

    Args:
        case: the step.
        resource: what is limited.
        target_ms: of p95, below what was measured.
        level: of the limit that was met, which was too little; None: what the load used is known to be.
    """
    demand, base_ms = demand_of(case), case.base_await_of_all_ms
    if not isinstance(demand, Demand) or base_ms is None or not demand.cpu_known:
        return None
    cost = demand.reads + demand.writes
    if resource == "throughput":
        cost = (demand.reads * demand.read_bytes + demand.writes * demand.write_bytes) / _MIB
    now = max(cost * demand.tps, 1e-6)

    def volume_of(rate: float) -> OtherVolume:
        per_s = rate if resource == "iops" else rate * _MIB
        charge = Charge(unit="io" if resource == "iops" else "byte")
        cap = VolumeLimit(name=resource, scope="volume", resource=resource, rate_per_s=per_s, charge=charge)
        return OtherVolume(name="", read_s=base_ms / 1000, write_s=base_ms / 1000, caps=(cap,))

    return needed_for_p95(demand, volume_of, target_ms, (now / 4, now * 1000)).above(max(now, level or 0.0))


def latency_for_p95(case: Case, target_ms: float) -> Needed | None:
    """Operations/s of one stream (1 / latency) that a p95 takes; None: cannot be predicted."""
    demand = demand_of(case)
    if not isinstance(demand, Demand) or not demand.cpu_known or demand.read_s <= 0:
        return None

    def volume_of(speed: float) -> OtherVolume:
        times = speed * demand.read_s
        return OtherVolume(name="", read_s=demand.read_s / times, write_s=demand.write_s / times, caps=())

    span = (1 / demand.read_s / 4, 1000 / demand.read_s)
    return needed_for_p95(demand, volume_of, target_ms, span).above(1 / demand.read_s)


def goal_text(case: Case, *, within: str = "") -> str:
    """Return that half of the p95 is wanted, the cell's as tables have it; empty without one.

    Args:
        case: the step.
        within: which part of the step the case is, in words: its p95 is that of the median interval.
    """
    p95_ms = None if within else case.latency_ms.get(Client.latency_ms_p95.name)
    which = "this cell's p95"
    if p95_ms is None:
        p95_ms, which = (
            median(case.at(Client.latency_ms_p95)),
            f"the median interval's p95{within and f' {within}'}",
        )
    return "" if p95_ms is None else f"{HALF}{which} ({number(p95_ms / 2)} in place of {number(p95_ms)} ms)"


def p95_text(
    case: Case,
    resource: Resource | None,
    *,
    level: float | None = None,
    verb: str = "the volume must give",
    within: str = "",
) -> str:
    """What half of the measured p95 takes: IOPS or MiB/s, or a latency; or that it cannot be said.

    Args:
        case: the step.
        resource: what is limited; None: a latency is wanted.
        level: of the limit, None where it is not known.
        verb: who must give so many of the resource.
        within: which part of the step the case is, in words; empty: it is all of it.
    """
    interval_ms, goal = median(case.at(Client.latency_ms_p95)), goal_text(case, within=within)
    if interval_ms is None or not goal:
        return ""
    target_ms = interval_ms / 2  # the estimate is of ratios: another p95 of the same step falls by half with it
    needed = (
        latency_for_p95(case, target_ms) if resource is None else rate_for_p95(case, resource, target_ms, level)
    )
    if needed is None:
        return ""
    if needed.likely is None:
        quality = "latency" if resource is None else "rate"
        return f"{goal} no {quality} is enough by this estimate: CPUs, or waits one after the other, limit first."
    if not needed.decides:
        better = "a faster volume" if resource is None else "a volume that has more"
        return (
            f"{goal} the estimate is too wide to decide: measure it on {better}, volbench run SUITE"
            " --volume NAME=SPEC."
        )

    def with_unit(value: float | None) -> str:
        if value is None:
            return "?"
        return f"{number(1000 / value)} ms" if resource is None else amount(value, resource)

    verb, bound = ("a read must take", "at most") if resource is None else (verb, "at least")
    if level is not None and needed.least == level:  # it was too little
        bound = "more than"
    return (
        f"{goal} {verb} about {with_unit(needed.likely)} ({bound} {with_unit(needed.least)}, surely enough"
        f" {with_unit(needed.enough)}; estimated)."
    )


def cpus_for_p95(*, clients: int, latency_s: float, cpu_s: float, queued_s: float, target: float) -> Needed:
    """CPUs with which the mean latency is at most a target's share of what it was; p95 is taken to go with it.

    A closed loop: of a transaction's latency, `cpu_s` is on CPUs, `queued_s` waits for one, and the rest is a delay
    that stays. `least` with constant service, `enough` with random service (mean value analysis).

    Args:
        clients: in the loop.
        latency_s: of a transaction, clients / throughput.
        cpu_s, queued_s: on and before CPUs, of a transaction.
        target: share of the latency, above 0.
    """
    delay_s = max(0.0, latency_s - cpu_s - queued_s)

    def fewest(rate_of: Callable[[ThroughputBounds], float]) -> float | None:
        for cpus in range(1, CPUS_MAX + 1):
            solved = solve(
                clients=clients, delay_s=delay_s, stations=[Station(name="", demand_s=cpu_s, servers=cpus)]
            )
            if clients / rate_of(solved) <= target * latency_s:
                return float(cpus)
        return None

    return Needed(
        least=fewest(lambda bounds: bounds.rate_max),
        likely=fewest(lambda bounds: bounds.rate),
        enough=fewest(lambda bounds: bounds.rate_min),
    )


def cpus_text(case: Case) -> str:
    """What CPUs half of the measured p95 takes; empty where the account of CPUs or a closed loop is missing."""
    account, tps, goal = case.cpu_account, case.tps, goal_text(case)
    delay = None if account is None else mean(account.delay)
    used = None if account is None else mean(account.own)
    if not tps or not used or delay is None or not goal or not case.threads or case.rate is not None:
        return ""
    latency_s = case.threads / tps
    needed = cpus_for_p95(
        clients=case.threads, latency_s=latency_s, cpu_s=used / tps, queued_s=delay / tps, target=0.5
    )
    if needed.likely is None:
        return f"{goal} no number of CPUs is enough: other waits or the transaction's own CPU time limit first."
    if not needed.decides:
        return f"{goal} the estimate is too wide to decide: it takes {_cpus(needed.least)} at least."
    return (
        f"{goal} this load, its client and volbench need about {_cpus(needed.likely)} (at least"
        f" {_cpus(needed.least)}, surely enough {_cpus(needed.enough)}; estimated), and have {number(used)} now."
    )


def _cpus(count: float | None) -> str:
    return "?" if count is None else f"{count:.0f} CPU{'' if count == 1 else 's'}"


def pool_text(pool_bytes: int, miss: float, target: float = MISS_TARGET) -> str:
    """What pool a target miss rate takes at least.

    Hits grow ever more slowly with a pool's size, since the pages in most use come first: the hit ratio h is
    concave in the size, and 0 without a pool. Hence h(c * P) <= c * h(P): a target takes at least c = (1 -
    target) / (1 - miss) times the pool. How much more depends on how accesses are spread, which one size does not
    tell. A bound that is hardly above the pool says nothing: it is left out.

    Args:
        pool_bytes: of the pool that was measured.
        miss: of page requests, measured.
        target: miss rate that is wanted, below `miss`.
    """
    if not 0 < target < miss < 1:
        return ""
    least_mib = pool_bytes / _MIB * (1 - target) / (1 - miss)
    decide = (
        "this decides: volbench run SUITE"
        f" --set engine.config.innodb_buffer_pool_size={max(2, round(2 * pool_bytes / _MIB))}M."
    )
    if least_mib < BOUND_MIN * pool_bytes / _MIB:
        return f" How much larger is not known from one size; {decide}"
    return (
        f" For a miss rate of {100 * target:g} % it needs at least {number(least_mib)} MiB (now"
        f" {number(pool_bytes / _MIB)}). How much more is not known from one size; {decide}"
    )


def redo_text(written_mib_per_s: Sequence[float], minutes: float, option: str) -> str:
    """What redo log holds so many minutes, at the mean rate and at the highest that was seen.

    Args:
        written_mib_per_s: MiB/s of redo in each interval.
        minutes: that the log should hold.
        option: the server's, for the size of its log.
    """
    finite = [rate for rate in written_mib_per_s if math.isfinite(rate)]
    if not finite or sum(finite) <= 0:
        return ""
    usual, most = (60 * minutes * rate / 1024 for rate in (sum(finite) / len(finite), max(finite)))
    return (
        f" This load writes {number(sum(finite) / len(finite))} MiB/s of redo: a log ({option}) of"
        f" {number(usual)} GiB holds {number(minutes)} minutes of it, {number(most)} GiB at its highest rate."
    )


def raise_limit_advice(case: Case, resource: Resource, level: float | None) -> str:
    """Advice for a limit of operations or bytes, as far as this kind of volume and this step allow it.

    Args:
        case: the step.
        resource: what is limited.
        level: of the limit; None: not known, since it is met only now and then.
    """
    order, alternative = more(case, resource), fewer(case, resource)
    than = "" if level is None else f" than {amount(level, resource)}"
    advice = f"{order}, or move to a volume that gives more{than}{alternative}."
    lifted = None if level is None else lift(case, resource)
    if lifted is None:
        most = "" if level is None else _at_most(case, resource)
        return advice + most + p95_text(case, resource, level=level)
    low, high = lifted.tps_interval
    span = f"{number(low)} to {number(high)}"
    gain = f"about {number(lifted.tps)} tps ({span}, estimated)" if lifted.states_tps else f"{span} tps (estimated)"
    return (
        f"{advice} About {amount(lifted.rate, resource)} would lift this to {gain}: next limit is {lifted.bound}."
        f"{p95_text(case, resource, level=level)}"
    )


def other_threads(case: Case) -> str:
    """Return what tells a limit from a slow volume: the step with half its threads, or two for one."""
    rate = "a limit keeps its rate, a slow volume"
    if case.threads is None or case.recorded or not _takes_threads(case):
        return f"the same load with half the threads: {rate} halves it"
    threads, change = (case.threads // 2, "halves") if case.threads > 1 else (2, "doubles")
    command = f"volbench run SUITE --volume NAME=SPEC --set steps.{case.name}.threads={threads}"
    return f"{command}; {rate} {change} it"


def _takes_threads(case: Case) -> bool:
    """Return whether `--set steps.NAME.threads` reaches the step: no part of another, no dot in its name."""
    return "threads" in step_kind(case.kind).model.model_fields and re.fullmatch(r"[\w-]+", case.name) is not None


def _at_most(case: Case, resource: Resource) -> str:
    """An upper bound, where nothing is known of what comes after the limit."""
    device, tps = case.device, case.tps if step_kind(case.kind).transactions or case.recorded else None
    used = mean(None if device is None else device.carried(resource))
    if not tps or not used:
        return ""
    each = f"{number(used / tps)} operations" if resource == "iops" else f"{number(1024 * used / tps)} KiB"
    unit = "IOPS" if resource == "iops" else "MiB/s"
    return (
        f" A transaction costs {each}, with all else that the volume does: twice the {unit} carry at most twice the"
        f" {number(tps)} tps that were measured, and other limits may come first."
    )
