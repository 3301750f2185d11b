"""The check of a closed loop's forecast: its transactions one by one, with queues that form by themselves.

It shares no formula with mean value analysis: clients take slices of CPU, read and write one operation after the
other, and each operation waits for the volume's limits by virtual scheduling (GCRA, ITU-T I.371) and then takes a
lognormal time. What the load reads and writes in the background charges the limits, and nobody waits for it.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from volbench.core.profile.limits import VolumeLimit
from volbench.results.explain.accounts.demand import Demand

EVENTS_MAX = 40_000
"""Operations of a simulation; p95 of a thousand transactions is known to some per cent."""
TRANSACTIONS_MIN, TRANSACTIONS_MAX = 200, 4_000
_WARM_UP = 0.2
_TOLERANCE_S = 0.01
"""How far a limit without credits lets operations bunch: `tolerance_s` of every profile."""


@dataclass(frozen=True, kw_only=True)
class Service:
    """A volume's times without a queue: means in s, and the deviation of their logarithm."""

    read_s: float
    write_s: float
    sigma: float


@dataclass(kw_only=True)
class _Meter:
    """One limit as the emulator meters it (GCRA); `tat` is the theoretical arrival time, in s."""

    limit: VolumeLimit
    read_cost: float
    write_cost: float
    tolerance_s: float
    tat: float = 0.0

    def admit(self, at_s: float, cost: float) -> float:
        """Return when an operation that comes at `at_s` may begin."""
        begin = max(at_s, self.tat - self.tolerance_s)
        self.tat = max(self.tat, at_s) + cost / self.limit.rate_per_s
        return begin


@dataclass(kw_only=True)
class _State:
    """The simulated machine: when each CPU is free, the limits, and what has finished."""

    random: np.random.Generator
    cpus: list[float]
    meters: Sequence[_Meter]
    service: Service
    response_s: list[float] = field(default_factory=list)

    def compute(self, at_s: float, seconds: float) -> float:
        free = heapq.heappop(self.cpus)
        end = max(at_s, free) + seconds
        heapq.heappush(self.cpus, end)
        return end

    def operate(self, at_s: float, *, writes: bool) -> float:
        begin = at_s
        for meter in self.meters:
            begin = max(begin, meter.admit(at_s, meter.write_cost if writes else meter.read_cost))
        mean = self.service.write_s if writes else self.service.read_s
        sigma = self.service.sigma
        return begin + mean * math.exp(self.random.normal(-sigma * sigma / 2, sigma))


def simulated_p95_s(
    demand: Demand, service: Service, limits: Sequence[VolumeLimit], *, dry: bool, seed: int = 1
) -> float | None:
    """Return p95 of simulated transactions, s; None where one alone has too many operations to simulate enough.

    Args:
        demand: of one transaction.
        service: the volume's times without a queue.
        limits: of the volume.
        dry: buckets of credits are empty; else they are full, and never run dry within the simulation.
        seed: of the draws.
    """
    each = demand.reads_waited + demand.writes_waited + 1.0
    count = int(min(TRANSACTIONS_MAX, EVENTS_MAX / each))
    if count < TRANSACTIONS_MIN:
        return None
    state = _State(
        random=np.random.default_rng(seed),
        cpus=[0.0] * demand.cpus,
        meters=[_meter(limit, demand) for limit in limits if limit.capacity is None or dry],
        service=service,
    )
    plans: dict[int, tuple[float, list[bool]]] = {client: (0.0, []) for client in range(demand.clients)}
    queue = [(state.random.uniform(0, demand.response_s), client) for client in range(demand.clients)]
    heapq.heapify(queue)
    slice_s = demand.cpu_s / each
    while len(state.response_s) < count:
        at_s, client = heapq.heappop(queue)
        begun_s, plan = plans[client]
        if not plan:
            if begun_s:
                state.response_s.append(at_s - begun_s)
            plans[client] = (max(at_s, 1e-9), _plan(demand, state, at_s))
            at_s += demand.locks_s + demand.outside_s
            heapq.heappush(queue, (state.compute(at_s, slice_s), client))
            continue
        heapq.heappush(queue, (state.compute(state.operate(at_s, writes=plan.pop()), slice_s), client))
    warm = state.response_s[int(_WARM_UP * count) :]
    return float(np.quantile(warm, 0.95))


def _plan(demand: Demand, state: _State, at_s: float) -> list[bool]:
    """Return a transaction's operations in order, True for a write; charge what nobody waits for.

    A plan is never empty: an empty one says that the transaction has ended.
    """
    random = state.random
    waited = [False] * random.poisson(demand.reads_waited) + [True] * random.poisson(demand.writes_waited)
    unwaited = (max(0.0, demand.reads - demand.reads_waited), max(0.0, demand.writes - demand.writes_waited))
    for meter in state.meters:
        units = random.poisson(unwaited[0]) * meter.read_cost + random.poisson(unwaited[1]) * meter.write_cost
        meter.admit(at_s, units)
    random.shuffle(waited)
    return waited or [False]


def _meter(limit: VolumeLimit, demand: Demand) -> _Meter:
    sizes = np.array([demand.read_bytes, demand.write_bytes])
    read, write = limit.charge.per_request(sizes, sequential=False).tolist()
    return _Meter(
        limit=limit,
        read_cost=read * limit.charge.read_weight,
        write_cost=write * limit.charge.write_weight,
        tolerance_s=_TOLERANCE_S,
    )
