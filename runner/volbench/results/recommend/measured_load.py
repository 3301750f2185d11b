"""The loads of a run as evidence for a choice: each closed loop of a run keeps p95 on another volume, or breaks it.

The forecast is `explain --what-if`'s. Two checks share nothing with it: the transactions simulated one by one, and
what the run itself measured on its other volumes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from volbench.core.base.text import duration, number, percent
from volbench.core.profile.limits import latency_s
from volbench.errors import Undecided
from volbench.results.credits.work import Work, constant
from volbench.results.explain.accounts.demand import Demand, PredictionUnavailable
from volbench.results.explain.accounts.what_if import OtherVolume, Outlook, VolumeOutlooks, other_volume, predict
from volbench.results.explain.accounts.what_if_response import P95
from volbench.results.recommend.catalogue import Candidate
from volbench.results.recommend.evidence import IndependentCheck, Setting
from volbench.results.recommend.goal import MODEL_DOUBT, Chance, Goal, chance_below
from volbench.results.recommend.loop_simulation import Service, simulated_p95_s
from volbench.results.recommend.recorded_load import backup_chance
from volbench.results.recommend.server import ServerFigures, server_settings
from volbench.results.recommend.settings import volume_settings
from volbench.results.response.measured import MeasuredResponse

WIDENED = 1.2
"""Times an interval of p95: of 392 pairs of loads and volumes (results/examples/what-if), 91 % lay in theirs."""
READS_ERROR = 0.18
"""Of a load that hardly writes: deviation of the logarithm of p95 from its forecast. It was 0.13 and 0.05 in two
files of pairs that have such loads (results/examples/what-if, 60 pairs)."""
CHECK_DOUBT = 1.25
"""Times the objective, within which a simulation says nothing: it knows no purge, no flushing and no locks."""
CALIBRATION_MAX = 3.0
"""Times that a simulation of what was measured may be off; beyond it the load is none that it knows."""
_SIGMA = 0.8
"""Deviation of the logarithm of a measured volume's times, queue included: between constant and exponential."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One load on one volume. `spec`: of an emulated volume, for checks against it; empty where it is not known.

    `response`: what waits cost the load, where the server's counts confirm it.
    """

    volume: str
    step: str
    demands: tuple[Demand | PredictionUnavailable, ...]
    spec: str = ""
    response: MeasuredResponse | None = None

    @property
    def predictable(self) -> tuple[Demand, ...]:
        """The demands that say something about other volumes."""
        return tuple(demand for demand in self.demands if isinstance(demand, Demand))

    @property
    def p95_s(self) -> float | None:
        """Median over cells of p95, as measured."""
        values = [demand.p95_s for demand in self.predictable if demand.p95_s is not None]
        return median(values) if values else None


@dataclass(frozen=True, kw_only=True)
class MeasuredLoad:
    """A run's loads as evidence; see `evidence.Evidence`.

    Args:
        loads: each step, on the volume that it is predicted from.
        elsewhere: the same steps on the run's other volumes.
        server: what the server wrote and how it was set.
    """

    name: str
    loads: tuple[Measured, ...]
    elsewhere: tuple[Measured, ...] = ()
    server: ServerFigures
    more_notes: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What was read, assumed and left out."""
        about = [f"{load.step} on {load.volume}" for load in self.loads]
        by_demand = (text for load in self.loads if (text := _why_by_demand(load)))
        return (f"read: {', '.join(about)}; p95 is of transactions", *by_demand, *self.more_notes)

    def require_known(self) -> None:
        """Raise Undecided where a load says nothing of other volumes, or the run itself refutes the forecast."""
        for load in self.loads:
            if not load.predictable:
                reasons = [demand.reason for demand in load.demands if isinstance(demand, PredictionUnavailable)]
                raise Undecided(
                    "this load says nothing about another volume",
                    where=f"{self.name}, {load.step} on {load.volume}",
                    evidence=reasons[0] if reasons else "no valid cell",
                    next_step="run it as a closed loop with samples: volbench run suites/oltp.yaml, or give --step",
                )
        for text in self._misses():
            raise Undecided(
                "the forecast is refuted by this run's own volumes, so no volume is recommended by it",
                where=self.name,
                evidence=text,
                next_step="measure the volumes in question: volbench run SUITE --volume NAME=SPEC",
            )

    def chances(self, candidate: Candidate, goal: Goal) -> tuple[Chance, ...]:
        """Return how likely each part of the goal is kept: of several loads that of the worst."""
        verdicts = []
        if goal.p95_s is not None:
            each = [self._p95(load, candidate, goal.p95_s) for load in self.loads]
            verdicts.append(min(each, key=lambda chance: chance.keeps))
        if goal.backup is not None and goal.window_s is not None:
            each = [backup_chance(candidate, goal, _work(load, candidate)) for load in self.loads]
            verdicts.append(min(each, key=lambda chance: chance.keeps))
        if goal.recovery_s is not None:
            verdicts.append(self.server.recovery_chance(candidate, goal.recovery_s))
        return tuple(verdicts)

    def checks(self, candidate: Candidate, goal: Goal) -> Sequence[IndependentCheck]:
        """Return each load's transactions simulated one by one on the volume."""
        if goal.p95_s is None:
            return ()
        return tuple(_simulated(load, candidate, goal.p95_s) for load in self.loads)

    def settings(self, candidate: Candidate, goal: Goal) -> tuple[Setting, ...]:
        """Return options that follow from the volume, and from what the server wrote."""
        reads = [_work(load, candidate).reads_per_s[0] for load in self.loads]
        del goal
        return (*volume_settings(candidate, reads_per_s=float(max(reads))), *server_settings(self.server))

    def measurement(self, candidate: Candidate) -> str:
        """Return the run that would decide."""
        return f'volbench run SUITE --volume "v=emulated:{candidate.spec}", or on the volume itself'

    def _p95(self, load: Measured, candidate: Candidate, p95_s: float) -> Chance:
        outlook = _worst(predict(load.demands, other_volume(candidate.spec)))
        if outlook is None or outlook.p95_interval is None:
            raise Undecided(
                "p95 on another volume cannot be predicted",
                where=f"{self.name}, {load.step}",
                evidence="the CPUs limit, and whose time it was is not known, or the client kept no latencies",
                next_step="run the load on a machine of its own",
            )
        low, high = expected_interval(outlook) or outlook.p95_interval
        return Chance(
            objective="p95",
            keeps=min(chance_below(1000 * p95_s, (low, high)), 1 - MODEL_DOUBT),
            text=f"{load.step}: p95 {number(low)} to {number(high)} ms, {outlook.bound} limits first",
            value=math.sqrt(low * high),
            interval=(low, high),
        )

    def _misses(self) -> Iterator[str]:
        """Yield where the forecast misses what this run measured on volumes whose limits are known."""
        for load in self.loads:
            for volume_elsewhere in self.elsewhere:
                if (
                    volume_elsewhere.step != load.step
                    or not volume_elsewhere.spec
                    or volume_elsewhere.p95_s is None
                ):
                    continue
                outlooks = [
                    outlook
                    for outlook in predict(load.demands, other_volume(volume_elsewhere.spec)).outlooks
                    if outlook.p95_interval
                ]
                if not outlooks:
                    continue
                intervals = [each for outlook in outlooks if (each := expected_interval(outlook)) is not None]
                low, high = min(each[0] for each in intervals), max(each[1] for each in intervals)
                measured = 1000 * volume_elsewhere.p95_s
                if not low <= measured <= high:
                    yield (
                        f"from {load.volume}, {load.step} on {volume_elsewhere.volume} would have p95 of"
                        f" {number(low)} to {number(high)} ms; measured: {number(measured)} ms"
                    )


def _why_by_demand(load: Measured) -> str:
    """Return why a load whose response was measured is forecast from its demand; empty where none was measured."""
    check = None if load.response is None else load.response.tails.get(P95)
    if check is None:
        return ""
    reason = check.reason or (
        f"p95 by it was off by at most {percent(check.error_max)} on this run, and no recommendation by it was"
        " ever held against a measured volume"
    )
    return (
        f"{load.step}: p95 is forecast from the load's demand; the measured response, by which explain --what-if"
        f" tells the mean, is not used for it: {reason}"
    )


def expected_interval(outlook: Outlook) -> tuple[float, float] | None:
    """Return the 95 % interval of p95 in ms, by what forecasts were measured to miss by; None without one."""
    if outlook.p95_interval is None:
        return None
    low, high = outlook.p95_interval
    middle, half = math.sqrt(low * high), math.sqrt(high / low) ** WIDENED
    if outlook.states_p95 and outlook.p95_ms is not None:
        middle, half = outlook.p95_ms, math.exp(1.96 * READS_ERROR)
    return middle / half, middle * half


def _worst(prediction: VolumeOutlooks) -> Outlook | None:
    """Return the outlook with the longest p95: a load goes on when credits are spent."""
    outlooks = [outlook for outlook in prediction.outlooks if outlook.p95_interval is not None]
    return max(outlooks, key=lambda outlook: (outlook.p95_interval or (0.0, 0.0))[1], default=None)


def _work(load: Measured, candidate: Candidate) -> Work:
    """Return what the load asks of the volume at the rate that is forecast there."""
    demand = load.predictable[0]
    outlook = _worst(predict(load.demands, other_volume(candidate.spec)))
    tps = demand.tps if outlook is None else outlook.tps
    return constant(
        reads_per_s=tps * demand.reads,
        writes_per_s=tps * demand.writes,
        read_bytes=demand.read_bytes,
        write_bytes=demand.write_bytes,
    )


def _simulated(load: Measured, candidate: Candidate, p95_s: float) -> IndependentCheck:
    """Return what the simulated transactions of a load say of the volume."""
    demand = load.predictable[len(load.predictable) // 2]
    name = f"simulation of {load.step}"
    measured_s = demand.p95_s
    own_s = _own_p95_s(load, demand)
    if measured_s is None or own_s is None:
        return IndependentCheck(
            name=name, keeps=None, text="transactions of this load have too many operations to simulate"
        )
    off = measured_s / own_s
    if not 1 / CALIBRATION_MAX <= off <= CALIBRATION_MAX:
        return IndependentCheck(
            name=name,
            keeps=None,
            text=f"simulated where it was measured, p95 is {duration(own_s)} and not {duration(measured_s)}:"
            " the simulation does not know this load",
        )
    other_volume_of = other_volume(candidate.spec)
    there_s = _p95_there(demand, other_volume_of, candidate, off)
    if there_s is None:
        return IndependentCheck(
            name=name, keeps=None, text="transactions of this load have too many operations to simulate"
        )
    is_kept = None if p95_s / CHECK_DOUBT < there_s <= p95_s * CHECK_DOUBT else there_s <= p95_s
    return IndependentCheck(
        name=name, keeps=is_kept, text=f"{load.step} simulated: p95 {number(1000 * there_s)} ms"
    )


def _own_p95_s(load: Measured, demand: Demand) -> float | None:
    """Return p95 of the simulated load where it was measured."""
    if load.spec:
        volume = other_volume(load.spec)
        service = Service(read_s=volume.read_s, write_s=volume.write_s, sigma=0.4)
        return simulated_p95_s(demand, service, (*volume.caps, *volume.buckets), dry=_runs_dry(demand, volume))
    service = Service(read_s=demand.read_s, write_s=demand.write_s, sigma=_SIGMA)
    return simulated_p95_s(demand, service, (), dry=False)


def _p95_there(demand: Demand, other_volume_of: OtherVolume, candidate: Candidate, off: float) -> float | None:
    legs = candidate.volume.model["latency"]["read"]["parts"]
    service = Service(
        read_s=latency_s(candidate.volume, "read", demand.read_bytes),
        write_s=other_volume_of.write_s,
        sigma=max(leg["sigma"] for leg in legs),
    )
    limits = (*other_volume_of.caps, *other_volume_of.buckets)
    p95_s = simulated_p95_s(demand, service, limits, dry=bool(other_volume_of.buckets))
    return None if p95_s is None else p95_s * off


def _runs_dry(demand: Demand, volume: OtherVolume) -> bool:
    """Return whether the measured load had no credits left, or spent them for ever."""
    return any(bucket.start <= 0 for bucket in volume.buckets) and demand.reads + demand.writes > 0
