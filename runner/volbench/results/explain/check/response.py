"""What the response of a load to its volume has against a cause that claims waits for the device.

Latency moves by b milliseconds with each millisecond of an await w, whatever moves it (`results/response`). So
waits of the volume take b x w of a transaction's latency L, and no more than the upper end of b says. A cause that
claims a larger share S of the time for waits at the device contradicts what the load did when the volume changed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from volbench.results.explain import thresholds as limit
from volbench.results.explain.check.objections import HOLDS_TIMES
from volbench.results.explain.objection import Objection
from volbench.results.explain.wording import percent
from volbench.results.response.estimate import with_one_log
from volbench.results.response.model import CONTRADICTION, NoResponse, Response, Slope
from volbench.results.response.samples import CellSamples


def volume_share_max(response: Response | NoResponse | None, cells: Sequence[CellSamples]) -> float | None:
    """Return the part of the latency that waits of the volume take at most; None where the run does not tell it.

    It tells where every await of the cells has a slope of its own, by a known signal or inside cells: between
    volumes, other things may hide what a millisecond costs.

    Args:
        response: of the load.
        cells: of one volume.
    """
    if not isinstance(response, Response) or response.method == "between":
        return None
    slopes = {slope.term: slope for slope in response.slopes}
    shares = []
    for cell in cells:
        samples = cell if set(cell.awaits_ms) <= set(slopes) else with_one_log(cell)
        terms = [term for term in samples.awaits_ms if term in slopes or not term.endswith("_sync")]
        if any(term not in slopes or slopes[term].is_held for term in terms):
            return None
        used = np.isfinite(samples.latency_ms) & (samples.finished > 0)
        if not used.any():
            continue
        latency_ms = float(np.average(samples.latency_ms[used], weights=samples.finished[used]))
        waits_ms = sum(_cost_max(slopes[term]) * float(np.nanmean(samples.awaits_ms[term])) for term in terms)
        shares.append(min(1.0, waits_ms / latency_ms))
    return max(shares, default=None)


def _cost_max(slope: Slope) -> float:
    """Return what a millisecond costs at most: as far beyond the slope as contradicts a count.

    No wait makes a transaction faster: a slope below zero is none, and its error is as large as it was.
    """
    return max(0.0, slope.value) + CONTRADICTION * (slope.high - slope.value)


def without_response(claimed: float | None, most: float | None) -> Objection | None:
    """Return what speaks against a claimed share of waits at the device; None where nothing does.

    Args:
        claimed: part of the latency.
        most: by `volume_share_max`.
    """
    if claimed is None or most is None or claimed <= HOLDS_TIMES * most or claimed - most < limit.SHARE_MIN:
        return None
    text = (
        f"when the volume's waiting time changed, the latency hardly did: waits for it take at most {percent(most)}"
        f" of a transaction, and not {percent(claimed)}"
    )
    return Objection(law="sufficiency", text=text, claimed=claimed, recorded=most)
