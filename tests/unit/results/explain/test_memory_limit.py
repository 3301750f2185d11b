"""A memory limit of the server's control group: named where tasks wait at it, not where it is merely met."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from synthetic_cell import Load, Storage, columns

from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.rules.host.memory_limit import limit_findings
from volbench.results.stats.grid import align

Floats = NDArray[np.float64]
LOAD = Load(queue=1.2, threads=6, cpu_s_per_s=5.5, cpu_busy=0.99)
RECORDED_EVENTS = (255, 136, 3.3, 6.41, 9.17, 4.29, 2.11, 3.65, 0.969, 1.03, 0, 0, 1.02, 0, 0, 0, 0, 0, 0, 0, 0, 0)
RECORDED_SOME = (0.37, 0.391, 0.149, 0.0976, 0.0679, 0.0943, 0.0028, 0.021, 0.0171, 0.0171, 0, 0.0216, *(0,) * 10)


def named(events: Floats | float | None, some: Floats | float, full: Floats | float = 0.0) -> list[Cause]:
    """What the rule names: a minute of a load, or as many seconds as were recorded."""
    seconds = len(some) if isinstance(some, np.ndarray) else 60
    values = {("psi", "memory_some_ratio", ""): some, ("psi", "memory_full_ratio", ""): full}
    if events is not None:
        values |= {
            ("cgroup_memory", "high_events_per_s", "server"): events,
            ("cgroup_memory", "max_events_per_s", "server"): 0.0,
            ("cgroup_memory", "limit_mib", "server"): 380.9,
            ("cgroup_memory", "reclaimed_mib_per_s", "server"): 16.9,
            ("cgroup_memory", "refaults_per_s", "server"): 117.0,
        }
    extra = {key: np.broadcast_to(np.asarray(value, dtype=float), (seconds,)) for key, value in values.items()}
    load = Load(seconds=seconds, queue=LOAD.queue, threads=LOAD.threads, cpu_busy=LOAD.cpu_busy)
    grid = align(columns(load, Storage(latency_ms=0.4, extra=extra)))
    return [*limit_findings(Case(name="load", grid=grid, cell_grid=grid, threads=load.threads, cpus=2))]


def test_a_limit_at_which_tasks_waited_for_1_of_22_seconds_is_not_what_the_load_waits_for() -> None:
    """Recorded after memory.high was set in a real kernel: 370 MiB of cache went within 2 s."""
    assert not named(np.array(RECORDED_EVENTS, dtype=float), np.array(RECORDED_SOME))


@pytest.mark.parametrize(("some", "is_named"), [(0.14, False), (0.16, True)])
def test_it_explains_as_much_as_a_cause_must(some: float, is_named: bool) -> None:
    assert bool(named(9.0, some, 0.1)) == is_named


@pytest.mark.parametrize(("full", "share", "one_of_two"), [(0.14, 0.4, True), (0.16, 0.16, False)])
def test_what_all_tasks_wait_is_lost_and_what_some_wait_may_be(full: float, share: float, one_of_two: bool) -> None:
    (found,) = named(9.0, 0.4, full)
    assert found.cause == "memory.reclaim"
    assert (found.share, found.one_of_two) == (pytest.approx(share), one_of_two)
    assert found.confidence < 0.9
    assert "381 MiB" in found.evidence[0].text


@pytest.mark.parametrize(("met", "is_named"), [(27, False), (33, True)])
def test_the_limit_is_met_in_most_of_the_time_in_which_tasks_wait(met: int, is_named: bool) -> None:
    """Memory of the host that is short makes tasks wait, too."""
    events = np.where(np.arange(60) < met, 5.0, 0.0)
    assert bool(named(events, 0.4, 0.3)) == is_named


def test_waits_for_memory_without_a_counted_limit_name_no_limit() -> None:
    assert not named(None, 0.4, 0.3)
