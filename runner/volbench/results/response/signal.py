"""The known signal that a volume followed, on the intervals of a load."""

from __future__ import annotations

import numpy as np

from volbench.core.records.modulation import Modulation, SignalKind
from volbench.results.response.left_out import Floats


def slow_share(modulation: Modulation, kind: SignalKind, edges_s: Floats) -> Floats | None:
    """Return the share of each interval in which a kind was slow; None for one that was never modulated.

    Time between two slots, while a change was under way, counts as half.

    Args:
        modulation: with at least one slot.
        kind: what was slowed.
        edges_s: ends of the intervals, the first one's begin before them: shape (n + 1,), n > 0.
    """
    states = [float(kind in slot.slow) for slot in modulation.slots]
    if min(states) == max(states):
        return None
    times, shares = [modulation.slots[0].t0_s], []
    for number, (slot, state) in enumerate(zip(modulation.slots, states, strict=True)):
        if number and slot.t0_s > times[-1]:
            times.append(slot.t0_s)
            shares.append(0.5)
        times.append(max(slot.t1_s, times[-1]))
        shares.append(state)
    slow_s = np.concatenate([[0.0], np.cumsum(np.diff(times) * np.asarray(shares))])
    within = np.diff(np.interp(edges_s, np.asarray(times), slow_s))
    return np.asarray(np.clip(within / np.diff(edges_s), 0.0, 1.0), dtype=np.float64)
