"""A load whose transactions wait for a volume, second by second, with every slope known in advance.

The client cuts time at whole seconds, the sampler `offset_s` later. What both count is made on a grid of tenths of
a second: in each the volume has one await for each term, and a transaction takes its CPU time and its waits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from volbench.results.response.samples import CellSamples, WaitCount, by_transaction, retimed

Floats = NDArray[np.float64]
_FINE = 10
"""Parts of a second."""


@dataclass(frozen=True, kw_only=True)
class Load:
    """A closed loop.

    Args:
        waits: by term, how often a transaction waits.
        cpu_ms: of a transaction.
        noise: relative deviation of what a second's transactions take beside their waits.
        cpu_wait_ms: that a transaction waits for a CPU while it waits for nothing else; the longer its waits, the
            shorter, in proportion to the load's rate.
    """

    waits: Mapping[str, float]
    cpu_ms: float = 3.0
    threads: int = 4
    noise: float = 0.05
    volume: str = "v"
    cpu_wait_ms: float = 0.0
    counted: Mapping[str, float] = field(default_factory=dict)


def square_wave(seconds: int, *, low_ms: float, high_ms: float, slot_s: int, rng: np.random.Generator) -> Floats:
    """Return an await for each tenth of a second; each pair of slots has a high and a low one, in any order."""
    slots = -(-seconds // slot_s)
    pairs = [order for _ in range(-(-slots // 2)) for order in rng.permutation([low_ms, high_ms])]
    return np.repeat(np.asarray(pairs[:slots]), slot_s * _FINE)[: seconds * _FINE]


def cell(
    load: Load,
    awaits_ms: Mapping[str, Floats],
    *,
    rng: np.random.Generator,
    offset_s: float = 0.5,
    name: str = "01-v",
    machine_ms: Floats | None = None,
    signals: Mapping[str, Floats] | None = None,
    jitter: float = 0.03,
) -> CellSamples:
    """Return what client and sampler see of the load.

    Args:
        awaits_ms: by term, for each tenth of a second; at most the seconds that all of them have.
        offset_s: by how much the sampler's seconds begin later than the client's.
        machine_ms: what the machine adds to each transaction and to each await, for each tenth of a second.
        signals: by term, 0 or 1 for each tenth of a second.
        jitter: relative deviation of an await from tenth to tenth of a second.
    """
    size = min(len(values) for values in awaits_ms.values())
    pause = np.zeros(size) if machine_ms is None else machine_ms[:size]
    real = {
        term: values[:size] * (1 + jitter * rng.standard_normal(size)) + pause for term, values in awaits_ms.items()
    }
    alone_ms = (
        load.cpu_ms + 5 * pause + sum((load.waits.get(term, 0.0) * real[term] for term in real), np.zeros(size))
    )
    waited_ms = load.cpu_wait_ms * load.cpu_ms / alone_ms
    fine_ms = alone_ms + waited_ms
    ended = load.threads * 1000 / _FINE / fine_ms
    latency = _seconds(fine_ms, ended, 0) * (1 + load.noise * rng.standard_normal(size // _FINE))
    shift = round(offset_s * _FINE)
    counted = load.counted or load.waits
    return CellSamples(
        cell=name,
        volume=load.volume,
        threads=load.threads,
        interval_s=1.0,
        latency_ms=latency,
        finished=ended.reshape(-1, _FINE).sum(axis=1),
        awaits_ms={term: _seconds(values, ended, shift) for term, values in real.items()},
        counted={term: WaitCount(low=count, high=count) for term, count in counted.items()},
        signals={term: values[:size].reshape(-1, _FINE).mean(axis=1) for term, values in (signals or {}).items()},
        seen_signals={term: _seconds(values[:size], ended, shift) for term, values in (signals or {}).items()},
        slots=_slots(signals, size) if signals else None,
        cpu_wait_ms=_by_transaction(waited_ms, ended, shift) if load.cpu_wait_ms else None,
    )


def _slots(signals: Mapping[str, Floats], size: int) -> NDArray[np.int64]:
    """Return for each second the number of the stretch in one state that it began in."""
    states = np.stack([values[:size] for values in signals.values()])
    changes = np.concatenate([[0], (np.diff(states, axis=1) != 0).any(axis=0).cumsum()])
    return np.asarray(changes[::_FINE], dtype=np.int64)


def _seconds(values: Floats, weights: Floats, shift: int) -> Floats:
    """Return weighted means of the client's seconds, as a sampler `shift` tenths later tells them."""
    if shift == 0:
        weighted = (values * weights).reshape(-1, _FINE).sum(axis=1)
        return np.asarray(weighted / weights.reshape(-1, _FINE).sum(axis=1))
    edges = np.concatenate([[0], np.arange(shift, len(values), _FINE), [len(values)]])
    done = np.add.reduceat(weights, edges[:-1])
    spent = np.add.reduceat(values * weights, edges[:-1])
    ends = np.arange(0, len(values) + 1, _FINE)
    return retimed(edges.astype(float), 1000 * done, spent / done, ends.astype(float))


def _by_transaction(values: Floats, ended: Floats, shift: int) -> Floats:
    """Return what tasks waited by transaction, as a sampler `shift` tenths later counts it."""
    edges = np.concatenate([[0], np.arange(shift or _FINE, len(values), _FINE), [len(values)]])
    spent = np.add.reduceat(values * ended, edges[:-1])
    ends = np.arange(0, len(values) + 1, _FINE)
    return by_transaction(edges.astype(float), spent, ends.astype(float), ended.reshape(-1, _FINE).sum(axis=1))


def covers(interval: Sequence[float], truth: float) -> bool:
    """Return whether an interval holds the truth."""
    return interval[0] <= truth <= interval[1]
