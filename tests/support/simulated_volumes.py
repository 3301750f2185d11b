"""Runs of steady volumes whose loads differ in more than their waits, with every slope known in advance.

Nothing of what makes the volumes differ is drawn from what the estimate supposes: a shortage of CPU adds up to one
and a half times the CPU time, of which the tasks' counters see more than the transaction has; other differences are
factors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from simulated_response import Load, cell

from volbench.results.response.samples import CellSamples, WaitCount

_WINDOW_S = 7


@dataclass(frozen=True, kw_only=True)
class Differences:
    """What volumes of a run differ in.

    Args:
        cpu_shortage: of one volume, added to its transactions' CPU time, as a share of it, at most.
        unmeasured: relative deviation of what no wait explains, from volume to volume; no counter sees it.
        cell_noise: relative deviation of what no wait explains, from cell to cell.
        await_noise: relative error of the await that a sampler tells, for each second, and as much for each cell.
        is_cpu_counted: the tasks' counters were read.
        log_waits: with the reads move syncs of the logs, counted from 1.5 to 4 and waited for as often as drawn.
    """

    cpu_shortage: float = 0.0
    unmeasured: float = 0.0
    cell_noise: float = 0.03
    await_noise: float = 0.0
    is_cpu_counted: bool = True
    log_waits: bool = False


def run_of_volumes(
    seed: int, differences: Differences, *, volumes: int = 2, cells: int = 3
) -> tuple[list[CellSamples], float]:
    """Return the cells of a run, as short as those of a first look, and how many reads a transaction waits for.

    Args:
        seed: of all that is drawn: waits, awaits, CPU time and differences.
        differences: between volumes.
        volumes: of the run; the first is the fastest.
        cells: of each volume.
    """
    rng = np.random.default_rng(seed)
    reads, cpu_ms = rng.uniform(5, 30), rng.uniform(3, 15)
    awaits_ms = rng.uniform(0.05, 1.0) + np.concatenate([[0.0], np.cumsum(rng.uniform(1, 4, volumes - 1))])
    starved = rng.integers(volumes)
    background = rng.uniform(0, 0.5)
    syncs = rng.uniform(1.5, 4.0) if differences.log_waits else 0.0
    run = []
    for place, await_ms in enumerate(awaits_ms):
        lost_ms = cpu_ms * rng.uniform(0, differences.cpu_shortage) if place == starved else 0.0
        other_ms = cpu_ms * np.exp(rng.normal(0, differences.unmeasured)) - cpu_ms
        for number in range(cells):
            own_ms = (cpu_ms + lost_ms + other_ms) * rng.normal(1, differences.cell_noise)
            load = Load(waits={"read": reads, "log_sync": syncs}, cpu_ms=own_ms, threads=8, volume=f"v{place}")
            samples = _cell(load, await_ms, rng, differences, f"{number}-v{place}")
            counted_ms = (own_ms - other_ms) * (1 + background) * rng.normal(1, 0.05, len(samples))
            run.append(replace(samples, cpu_ms=counted_ms if differences.is_cpu_counted else None))
    return run, reads


def _cell(
    load: Load, await_ms: float, rng: np.random.Generator, differences: Differences, name: str
) -> CellSamples:
    steady = np.full(_WINDOW_S * 10, await_ms * rng.normal(1, 0.03))
    awaits = {"read": steady, "log_sync": 1.5 * steady} if differences.log_waits else {"read": steady}
    samples = cell(load, awaits, rng=rng, name=name)
    noise = rng.normal(1, differences.await_noise) * rng.normal(1, differences.await_noise, len(samples))
    counted = {
        "read": WaitCount(low=load.waits["read"], high=load.waits["read"]),
        "log_sync": WaitCount(low=1.5, high=4.0),
    }
    return replace(
        samples,
        awaits_ms={term: values * noise for term, values in samples.awaits_ms.items()},
        counted={term: counted[term] for term in samples.awaits_ms},
    )


def coverage(
    interval: Callable[[Sequence[CellSamples]], tuple[float, float] | None],
    differences: Differences,
    *,
    seeds: range,
    volumes: int = 2,
    cells: int = 3,
) -> tuple[float, float]:
    """Return the share of runs whose interval holds the number of reads, and the median width as a share of it.

    A run without an interval claims nothing, and counts as one that holds it, of infinite width.
    """
    holds, widths = [], []
    for seed in seeds:
        run, reads = run_of_volumes(seed, differences, volumes=volumes, cells=cells)
        ends = interval(run) or (-np.inf, np.inf)
        holds.append(ends[0] <= reads <= ends[1])
        widths.append((ends[1] - ends[0]) / reads)
    return float(np.mean(holds)), float(np.median(widths))
