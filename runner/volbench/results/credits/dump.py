"""How long a dump takes on a volume: with its credits as they are, and once they are gone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from volbench.core.profile.limits import Limits
from volbench.errors import UsageError
from volbench.results.credits.balance import served_by_caps
from volbench.results.credits.work import Work

_SPEED_MIN_PER_S = 1e-6  # a read a week and a half: the dump does not end
_DUST = 1e-12  # of a bucket: what floating point leaves of an empty one


@dataclass(frozen=True, kw_only=True)
class DumpLoad:
    """What is read.

    Args:
        bytes: in all.
        io_bytes: size of a read.
        sequential: whether reads follow one another on the volume.
        rate_max_per_s: most reads per second that its client makes by itself; infinite: as the volume allows.
    """

    bytes: float
    io_bytes: float
    sequential: bool = False
    rate_max_per_s: float = np.inf

    def __post_init__(self) -> None:
        if not (0 < self.bytes < np.inf and 0 < self.io_bytes < np.inf and self.rate_max_per_s > 0):
            raise UsageError(f"a dump has more than 0 bytes, in reads of more than 0, not {self.bytes:g}")


@dataclass(frozen=True, kw_only=True)
class DumpTime:
    """How long the dump takes; None: it never ends, since the load beside it leaves nothing.

    Args:
        alone_s: without any other load.
        beside_load_s: with the load served first, the dump getting what is left.
    """

    alone_s: float | None
    beside_load_s: float | None


@dataclass(frozen=True, kw_only=True)
class DumpForecast:
    """The dump started with the credits as they are, and with empty buckets; `fits_*` None without a window."""

    now: DumpTime
    exhausted: DumpTime
    fits_now: bool | None = None
    fits_exhausted: bool | None = None


def forecast_dump(
    limits: Limits, dump: DumpLoad, load: Work | None, *, window_s: float | None = None
) -> DumpForecast:
    """Return how long a dump takes.

    Args:
        limits: of the volume, with what is in its buckets when the dump starts.
        dump: what is read.
        load: constant load beside it; None: there is none.
        window_s: how long it may take; judged beside the load.
    """
    times = []
    for state in (limits, limits.starting_at(0.0)):
        alone_s = duration_s(state, dump, None)
        times.append(DumpTime(alone_s=alone_s, beside_load_s=duration_s(state, dump, load)))
    fits = [None if window_s is None else _within(time.beside_load_s, window_s) for time in times]
    return DumpForecast(now=times[0], exhausted=times[1], fits_now=fits[0], fits_exhausted=fits[1])


def duration_s(limits: Limits, dump: DumpLoad, load: Work | None) -> float | None:
    """Return seconds that a dump takes beside a constant load that is served first; None: without end."""
    rates, costs, load_demand = (np.array(column) for column in zip(*_columns(limits, dump, load), strict=True))
    buckets = slice(len(limits.caps), None)
    served = float(served_by_caps(limits, load)[0]) if load else 1.0
    balances = np.array([bucket.start for bucket in limits.buckets])
    capacities = np.array([bucket.capacity for bucket in limits.buckets])
    left, passed_s = dump.bytes / dump.io_bytes, 0.0
    for _ in range(2 * len(balances) + 1):  # each round but the last empties a bucket
        binding = np.ones(rates.shape, dtype=bool)
        binding[buckets] = balances <= 0.0
        overloaded = binding & (served * load_demand > rates)
        share = min(served, float(np.min(rates[overloaded] / load_demand[overloaded], initial=served)))
        limiting = binding & (costs > 0)
        room = (rates[limiting] - share * load_demand[limiting]) / costs[limiting]
        speed = min(dump.rate_max_per_s, float(np.min(room, initial=np.inf)))
        if speed < _SPEED_MIN_PER_S:
            return None
        gains = (rates - share * load_demand - speed * costs)[buckets]
        gains = np.where(binding[buckets], np.maximum(gains, 0.0), gains)
        falling = gains < 0
        dry_s = float(np.min(balances[falling] / -gains[falling], initial=np.inf))
        step_s = min(left / speed, dry_s)
        passed_s += step_s
        left -= speed * step_s
        if step_s < dry_s:
            return passed_s
        emptied = falling & (balances + gains * step_s <= _DUST * capacities)
        balances = np.where(emptied, 0.0, np.minimum(balances + gains * step_s, capacities))
    return None


def _columns(limits: Limits, dump: DumpLoad, load: Work | None) -> list[tuple[float, float, float]]:
    """Return of every limit, caps first: its rate, what one read of the dump costs, what the load asks for."""
    size = np.array([dump.io_bytes])
    columns = []
    for limit in limits.all:
        cost = limit.charge.read_weight * float(limit.charge.per_request(size, sequential=dump.sequential)[0])
        columns.append((limit.rate_per_s, cost, float(load.demand(limit.charge)[0]) if load else 0.0))
    return columns


def _within(took_s: float | None, window_s: float) -> bool:
    return took_s is not None and took_s <= window_s
