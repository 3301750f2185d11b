"""What is off in a prediction by the measured response, by the load's demand, and by counts: on recorded runs.

    python tests/benchmarks/what_if_response.py RUN...

Each pair is a load on two volumes of one run. The slopes are estimated without the cells of one repeat on either
volume; the latency of the one cell that was left out is then predicted from the other one and both waiting times.
All three get the same waiting times, and none is told a limit. Percentiles of the left-out cell are predicted in
proportion to the mean and by convolution of the counted waits. Nothing is run.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

from volbench.results.explain.accounts.demand import Demand
from volbench.results.explain.accounts.what_if import OtherVolume, predict
from volbench.results.explain.run import StepView, explain_run
from volbench.results.response.estimate import estimate
from volbench.results.response.levels import LatencySlope, VolumeLoad, confirmed_costs, latency_at, levels_of
from volbench.results.store.loaded_run import load_run
from volbench.results.store.run_directory import RunDirectory

NEAR = 0.15
QUANTILES = {0.5: "p50", 0.95: "p95", 0.99: "p99"}
_STEPS = 4096
"""Points of the convolution's grid."""
_REACH = 40.0
"""Standard deviations above the mean that the grid reaches: beyond them nothing of such a sum is left."""


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Predicted latency by the measured response and by the demand against the measured one, all in ms."""

    measured_ms: float
    response_ms: float
    response_interval: tuple[float, float]
    counted_ms: float
    demand_ms: float | None
    demand_interval: tuple[float, float] | None
    tails: dict[str, tuple[float, float, float]]


def pairs(views: dict[str, list[StepView]]) -> Iterator[Pair]:
    """Yield every pair of cells of one repeat on two volumes, of which the response is estimated from the others.

    Args:
        views: by volume, of one step, in the order of repeats.
    """
    for source, target in ((a, b) for a in views for b in views if a != b):
        for number in range(min(len(views[source]), len(views[target]))):
            training = [
                view.waits for cells in views.values() for place, view in enumerate(cells) if place != number
            ]
            costs = confirmed_costs(estimate([one for one in training if one is not None]))
            origin, goal = (_level(views[name][number], costs) for name in (source, target))
            if costs and origin is not None and goal is not None:
                yield _pair(views[source][number], origin, goal, costs)


def _level(view: StepView, costs: Sequence[LatencySlope]) -> VolumeLoad | None:
    if view.waits is None:
        return None
    return next(iter(levels_of([view.waits], [cost.term for cost in costs])), None)


def _pair(view: StepView, origin: VolumeLoad, goal: VolumeLoad, costs: Sequence[LatencySlope]) -> Pair:
    by_response = latency_at(origin, costs, goal.awaits_ms)
    counts = _counts(view, costs)
    changes = {term: goal.awaits_ms[term] - origin.awaits_ms[term] for term in counts}
    demand_ms, demand_interval = _by_demand(view, goal)
    return Pair(
        measured_ms=goal.latency_ms,
        response_ms=by_response.value_ms,
        response_interval=(by_response.low_ms, by_response.high_ms),
        counted_ms=origin.latency_ms + sum(counts[term] * change for term, change in changes.items()),
        demand_ms=demand_ms,
        demand_interval=demand_interval,
        tails=_tails(origin, goal, counts, by_response.value_ms),
    )


def _counts(view: StepView, costs: Sequence[LatencySlope]) -> dict[str, float]:
    """Return the server's counts of the cell that is predicted from, in the middle of their range."""
    counted = {} if view.waits is None else view.waits.counted
    middles = {term: (count.low + count.high) / 2 for term, count in counted.items()}
    both = middles.get("redo_sync", 0.0) + middles.get("binlog_sync", 0.0)
    return {cost.term: both if cost.term == "log_sync" else middles.get(cost.term, 0.0) for cost in costs}


def _by_demand(view: StepView, goal: VolumeLoad) -> tuple[float | None, tuple[float, float] | None]:
    read_ms = goal.awaits_ms.get("read", 0.0)
    write_ms = next((ms for term, ms in goal.awaits_ms.items() if term.endswith("_sync")), read_ms)
    volume = OtherVolume(name="", read_s=read_ms / 1000, write_s=write_ms / 1000, caps=())
    outlooks = predict([view.demand], volume).outlooks
    if not outlooks or not isinstance(view.demand, Demand):
        return None, None
    clients, first = 1000 * view.demand.clients, outlooks[0]
    return clients / first.tps, (clients / first.tps_interval[1], clients / first.tps_interval[0])


def _tails(
    origin: VolumeLoad, goal: VolumeLoad, counts: dict[str, float], mean_ms: float
) -> dict[str, tuple[float, float, float]]:
    """Return by percentile: measured, predicted in proportion, predicted by convolution."""
    predictions = {}
    waits = [(count, goal.awaits_ms[term]) for term, count in counts.items()]
    waited_ms = sum(count * await_ms for count, await_ms in waits)
    for quantile, name in QUANTILES.items():
        if quantile in origin.quantiles_ms and quantile in goal.quantiles_ms:
            in_proportion = origin.quantiles_ms[quantile] * mean_ms / origin.latency_ms
            convolved = convolved_ms(quantile, constant_ms=max(0.0, mean_ms - waited_ms), waits=waits)
            predictions[name] = (goal.quantiles_ms[quantile], in_proportion, convolved)
    return predictions


def convolved_ms(quantile: float, *, constant_ms: float, waits: Sequence[tuple[float, float]]) -> float:
    """Return a percentile of a transaction's time, in ms: a constant, and waits that do not depend on each other.

    A sum of a Poisson number (mean n) of exponential times (mean w) has the Laplace transform
    exp(-n x s w / (1 + s w)); that of all waits is the product. It is inverted on a grid by a fast Fourier
    transform (Grübel and Hermesmeier 1999).

    Args:
        quantile: from 0 to 1, such as 0.95.
        constant_ms: what does not wait.
        waits: of each kind, how many of them a transaction makes on average, and their mean time in ms.
    """
    mean_ms = sum(count * await_ms for count, await_ms in waits)
    deviation_ms = math.sqrt(sum(2 * count * await_ms**2 for count, await_ms in waits))
    if mean_ms <= 0:
        return constant_ms
    reach_ms = mean_ms + _REACH * deviation_ms
    step_ms = reach_ms / _STEPS
    frequencies = 2j * math.pi * np.fft.rfftfreq(_STEPS, step_ms)
    exponent = sum(-count * frequencies * await_ms / (1 + frequencies * await_ms) for count, await_ms in waits)
    below = np.cumsum(np.fft.irfft(np.exp(exponent), _STEPS))
    return constant_ms + step_ms * int(np.argmax(below >= quantile))


def errors_text(name: str, errors: Sequence[float]) -> str:
    """Return how large errors are, in a line."""
    if not errors:
        return f"{name}: none"
    near = sum(error <= NEAR for error in errors)
    return (
        f"{name}: median {median(errors):.0%}, largest {max(errors):.0%}, {near} of {len(errors)} within {NEAR:.0%}"
    )


def report(predictions: Sequence[Pair]) -> Iterator[str]:
    """Yield the errors of each way: of the pairs that all three predict, then of all."""
    both = [pair for pair in predictions if pair.demand_ms is not None and pair.demand_interval is not None]
    for title, some in (("pairs that both predict", both), ("all pairs", predictions)):
        yield f"{title}: {len(some)}"
        yield errors_text("  response", [abs(pair.response_ms / pair.measured_ms - 1) for pair in some])
        yield errors_text("  counts", [abs(pair.counted_ms / pair.measured_ms - 1) for pair in some])
    yield errors_text("  demand", [abs((pair.demand_ms or 0.0) / pair.measured_ms - 1) for pair in both])
    inside = (
        sum(low <= pair.measured_ms <= high for pair, (low, high) in of)
        for of in (
            [(pair, pair.response_interval) for pair in both],
            [(pair, pair.demand_interval or (0.0, 0.0)) for pair in both],
        )
    )
    yield "  interval held of {}: response {}, demand {}".format(len(both), *inside)
    for name in QUANTILES.values():
        tails = [pair.tails[name] for pair in predictions if name in pair.tails]
        yield errors_text(
            f"{name} in proportion", [abs(ratio / measured_ms - 1) for measured_ms, ratio, _ in tails]
        )
        yield errors_text(f"{name} by convolution", [abs(sums / measured_ms - 1) for measured_ms, _, sums in tails])


def main() -> int:
    """Read the runs, predict, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    predictions: list[Pair] = []
    for path in parser.parse_args().runs:
        explained = explain_run(load_run(RunDirectory.open(path)))
        for step in dict.fromkeys(name for _, name in explained.views):
            of_step = {
                volume: list(cells.values()) for (volume, name), cells in explained.views.items() if name == step
            }
            of_one = list(pairs(of_step))
            print(f"{path.name} {step}: {len(of_one)} pairs")
            predictions += of_one
    print("\n".join(report(predictions)))
    return 0 if predictions else 1


if __name__ == "__main__":
    sys.exit(main())
