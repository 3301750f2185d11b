"""Slopes by a known signal, latency and awaits each on its own clock: the volume was slow in slots that we chose.

The client cuts time at other moments than the samplers do, so an interval of one is in two of the other. But the
signal is known on both clocks: `z` is the share of one of the client's intervals in which the volume was slow, and
`z'` what the same await's samples saw of it. Two reduced forms, each exact on its own clock,

    latency = intercept of its cycle + sum over signals of p x z
    await   = intercept of its cycle + sum over signals of q x z'

give the slopes b of `latency = a + sum of b x await` by `q b = p` (indirect least squares; of as many signals as
awaits it is two-stage least squares). What is not in step with the signal averages out of both: other programs,
checkpoints, measurement noise. A cycle is four slots, one in each state, so that slow drifts fall out as well.

The interval is the jackknife over slots (CR3), since errors of one slot depend on each other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from volbench.results.response.least_squares import CLUSTERS_MIN, CONDITION_MAX, Fit, Floats, Ints
from volbench.results.response.samples import Rows

FOLLOWED_MIN = 3.0
"""Standard errors by which an await must answer its own signal; of awaits that do not, one in 370 seems to."""


@dataclass(frozen=True, kw_only=True)
class _Reduced:
    """Answers to k signals: of the latency, shape (k,), of the free awaits, (k, k), of the held ones, (k, h)."""

    latency: Floats
    free: Floats
    held: Floats

    def slopes(self, held_waits: Floats) -> Floats | None:
        """Return the slopes of the free awaits, shape (k,); None where the signals do not tell them."""
        if not np.isfinite(self.free).all() or np.linalg.cond(_scaled(self.free)) > math.sqrt(CONDITION_MAX):
            return None
        left = self.latency - (self.held @ held_waits if held_waits.size else 0.0)
        return np.asarray(np.linalg.solve(self.free, left), dtype=np.float64)


def locked_fit(rows: Rows, free: Sequence[str], held: Sequence[str], held_waits: Floats) -> Fit | None:
    """Return the slopes of awaits that follow signals of their own; None where they do not, or slots are too few.

    Args:
        rows: of modulated cells; `block` numbers slots, `cycle` groups of slots.
        free: terms whose slopes are wanted, each with a signal that no other has.
        held: terms whose slopes stand at `held_waits`, shape (h,).
        held_waits: ms of latency per ms of each held await.
    """
    clusters = np.unique(rows.block)
    freedom = len(clusters) - len(free) - len(np.unique(rows.cycle))
    everything = np.ones(len(rows), np.bool_)
    whole = _reduced(rows.where(everything), free, held)
    slopes = None if whole is None else whole.slopes(held_waits)
    if whole is None or slopes is None or len(clusters) < CLUSTERS_MIN or freedom < 1:
        return None
    changes, answers = np.empty((len(clusters), len(free))), np.empty((len(clusters), len(free)))
    for number, cluster in enumerate(clusters):
        without = _reduced(rows.where(rows.block != cluster), free, held)
        found = None if without is None else without.slopes(held_waits)
        if without is None or found is None:
            return None
        changes[number], answers[number] = found - slopes, np.diag(without.free - whole.free)
    shrink = (len(clusters) - 1) / len(clusters)
    answer_errors = np.sqrt(shrink * (answers**2).sum(axis=0))
    if (np.diag(whole.free) < FOLLOWED_MIN * answer_errors).any():
        return None
    share = rows.weights / rows.weights.sum()
    numbers = [rows.terms.index(term) for term in (*free, *held)]
    known = float(share @ rows.awaits_ms[:, numbers] @ np.concatenate([slopes, held_waits]))
    return Fit(
        slopes=slopes,
        covariance=np.asarray(shrink * changes.T @ changes),
        freedom=freedom,
        intercept=float(share @ rows.latency_ms) - known,
        clusters=len(clusters),
    )


def _reduced(rows: Rows, free: Sequence[str], held: Sequence[str]) -> _Reduced | None:
    """Return how latency and awaits answer the signals of the free terms; None where a signal does not vary."""
    of_free, of_held = ([rows.terms.index(term) for term in terms] for terms in (free, held))
    client, sampler = rows.signal[:, of_free], rows.seen[:, of_free]
    latency = _answers(client, rows.latency_ms[:, None], rows.weights, rows.cycle)
    awaits = _answers(sampler, rows.awaits_ms[:, [*of_free, *of_held]], rows.weights, rows.cycle)
    if latency is None or awaits is None:
        return None
    return _Reduced(latency=latency[:, 0], free=awaits[:, : len(free)], held=awaits[:, len(free) :])


def _answers(signals: Floats, values: Floats, weights: Floats, groups: Ints) -> Floats | None:
    """Return the coefficients of values over signals with an intercept for each group, shape (k, columns)."""
    _, group = np.unique(groups, return_inverse=True)
    totals = np.bincount(group, weights)

    def less_mean(columns: Floats) -> Floats:
        means = [np.bincount(group, weights * column) / totals for column in columns.T]
        return np.asarray(columns - np.stack(means, axis=1)[group], dtype=np.float64)

    left, right = less_mean(signals), less_mean(values)
    products = (weights[:, None] * left).T @ left
    if not (np.diag(products) > 0).all() or np.linalg.cond(_scaled(products)) > CONDITION_MAX:
        return None
    return np.asarray(np.linalg.solve(products, (weights[:, None] * left).T @ right), dtype=np.float64)


def _scaled(matrix: Floats) -> Floats:
    """Return a square matrix with rows of length 1, whose condition does not go with units."""
    lengths = np.linalg.norm(matrix, axis=1)
    return np.asarray(matrix / np.where(lengths > 0, lengths, 1.0)[:, None], dtype=np.float64)
