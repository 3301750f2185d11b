"""What waits cost a load, as far as predictions use it: confirmed costs, measured levels, checks of percentiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from volbench.results.response.levels import LatencySlope, VolumeLoad, confirmed_costs, levels_of
from volbench.results.response.model import NoResponse, Response
from volbench.results.response.samples import CellSamples
from volbench.results.response.tails import TAIL_LEVELS, TailCheck, tail_check


@dataclass(frozen=True, kw_only=True)
class MeasuredResponse:
    """A response that the server's counts confirm.

    Args:
        costs: ms of latency per ms of each await.
        levels: what was measured, on each volume with each number of threads.
        tails: by quantile (0.95), how far off it was where it could be looked up.
    """

    costs: tuple[LatencySlope, ...]
    levels: tuple[VolumeLoad, ...]
    tails: Mapping[float, TailCheck]

    def level(self, volume: str, threads: int | None) -> VolumeLoad | None:
        """Return what was measured on one volume."""
        return next((level for level in self.levels if (level.volume, level.threads) == (volume, threads)), None)


def measured_response(
    response: Response | NoResponse | None, cells: Sequence[CellSamples]
) -> MeasuredResponse | None:
    """Return the response of a load as far as predictions use it; None where no count confirms it.

    Args:
        response: of the load.
        cells: that it was estimated from.
    """
    costs = confirmed_costs(response)
    if not costs:
        return None
    levels = levels_of(cells, [cost.term for cost in costs])
    tails = {quantile: tail_check(levels, costs, quantile) for quantile in TAIL_LEVELS}
    return MeasuredResponse(costs=costs, levels=levels, tails=tails)
