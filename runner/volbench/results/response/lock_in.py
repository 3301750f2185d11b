"""Slopes by a known signal, latency and awaits each on its own clock: the volume was slow in slots that we chose.

The client cuts time at other moments than the samplers do, so an interval of one is in two of the other. But the
signal is known on both clocks: `z` is the share of one of the client's intervals in which the volume was slow, and
`z'` what the same await's samples saw of it. Two reduced forms, each exact on its own clock,

    latency = intercept of its cycle + sum over signals of p x z
    await   = intercept of its cycle + sum over signals of q x z'

give the slopes b of `latency = a + sum of b x await` by `q b = p` (indirect least squares; of as many signals as
awaits it is two-stage least squares). What is not in step with the signal averages out of both: other programs,
checkpoints, measurement noise. A cycle is four slots, one in each state, so that slow drifts fall out as well.

The wait for CPUs follows the signal as well, since sessions that wait for a read want no CPU: b is what a
millisecond costs in all, with what it saves elsewhere. The wait for CPUs has an answer r of its own, on the
samplers' clock, and `q b = p - r` gives the slope without it, which is the number of waits. No row's wait for CPUs
is a regressor, which would be biased, as machine and load move both: only answers to the signal are subtracted.

The interval is the jackknife over slots (CR3), since errors of one slot depend on each other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from volbench.results.response.least_squares import CLUSTERS_MIN, CONDITION_MAX, Fit
from volbench.results.response.left_out import Floats, products
from volbench.results.response.samples import Rows

FOLLOWED_MIN = 3.0
"""Standard errors by which an await must answer its own signal; of awaits that do not, one in 370 seems to."""


@dataclass(frozen=True, kw_only=True)
class _Reduced:
    """Answers to k signals: of the latency, shape (..., k), of the free awaits, (..., k, k), of h counted ones."""

    latency: Floats
    free: Floats
    counted: Floats

    def slopes(self, held_waits: Floats) -> Floats | None:
        """Return the slopes of the free awaits, shape (..., k); None where the signals do not tell them."""
        if not np.isfinite(self.free).all() or np.any(
            np.linalg.cond(_scaled(self.free)) > math.sqrt(CONDITION_MAX)
        ):
            return None
        left = self.latency - (self.counted @ held_waits if held_waits.size else 0.0)
        return np.asarray(np.linalg.solve(self.free, left[..., None])[..., 0], dtype=np.float64)


def locked_fit(
    rows: Rows,
    free: Sequence[str],
    counted_terms: Sequence[str],
    held_waits: Floats,
    *,
    less_cpu_wait: bool = False,
) -> Fit | None:
    """Return the slopes of awaits that follow signals of their own; None where they do not, or slots are too few.

    Args:
        rows: of modulated cells; `block` numbers slots, `cycle` groups of slots.
        free: terms whose slopes are wanted, each with a signal that no other has.
        counted_terms: terms whose slopes stand at `held_waits`, shape (h,).
        held_waits: ms of latency per ms of each held await.
        less_cpu_wait: hold the wait for CPUs as well, each ms of which is one of the latency.
    """
    _, slot = np.unique(rows.block, return_inverse=True)
    cycles, cycle = np.unique(rows.cycle, return_inverse=True)
    slots = int(slot.max()) + 1
    freedom = slots - len(free) - len(cycles)
    if slots < CLUSTERS_MIN or freedom < 1:
        return None
    of_free, of_held = ([rows.terms.index(term) for term in terms] for terms in (free, counted_terms))
    awaits_ms = rows.awaits_ms[:, [*of_free, *of_held]]
    if less_cpu_wait:
        awaits_ms = np.column_stack([awaits_ms, rows.cpu_wait_ms])
        held_waits = np.append(held_waits, 1.0)
    client = np.column_stack([rows.signal[:, of_free], rows.latency_ms])
    sampler = np.column_stack([rows.seen_signal[:, of_free], awaits_ms])
    of_client, of_sampler = (products(columns, rows.weights, cycle, slot) for columns in (client, sampler))
    all_products, without = (_reduced(*sums, len(free)) for sums in zip(of_client, of_sampler, strict=True))
    if all_products is None or without is None:
        return None
    slopes, changed = all_products.slopes(held_waits), without.slopes(held_waits)
    if slopes is None or changed is None:
        return None
    changes = changed - slopes
    answers = np.diagonal(without.free - all_products.free, axis1=-2, axis2=-1)
    shrink = (slots - 1) / slots
    answer_errors = np.sqrt(shrink * (answers**2).sum(axis=0))
    if (np.diag(all_products.free) < FOLLOWED_MIN * answer_errors).any():
        return None
    return Fit(
        slopes=slopes,
        covariance=np.asarray(shrink * changes.T @ changes),
        freedom=freedom,
    )


def _reduced(client: Floats, sampler: Floats, count: int) -> _Reduced | None:
    """Return how latency and awaits answer `count` signals; None where a signal does not vary."""
    latency, awaits = _answers(client, count), _answers(sampler, count)
    if latency is None or awaits is None:
        return None
    return _Reduced(latency=latency[..., 0], free=awaits[..., :count], counted=awaits[..., count:])


def _answers(sums: Floats, count: int) -> Floats | None:
    """Return the coefficients of values over signals, shape (..., count, values), from the products of both."""
    signals = sums[..., :count, :count]
    if not (np.diagonal(signals, axis1=-2, axis2=-1) > 0).all():
        return None
    if np.any(np.linalg.cond(_scaled(signals)) > CONDITION_MAX):
        return None
    return np.asarray(np.linalg.solve(signals, sums[..., :count, count:]), dtype=np.float64)


def _scaled(matrices: Floats) -> Floats:
    """Return square matrices with rows of length 1, whose condition does not go with units."""
    lengths = np.linalg.norm(matrices, axis=-1)
    return np.asarray(matrices / np.where(lengths > 0, lengths, 1.0)[..., None], dtype=np.float64)
