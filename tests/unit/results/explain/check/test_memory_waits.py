"""CPUs that are full of a kernel that looks for memory are not surely too few: literal cases on both sides."""

from __future__ import annotations

import numpy as np
import pytest

from volbench.results.explain.case import Case
from volbench.results.explain.check.memory_waits import memory_objections
from volbench.results.explain.findings import explain_case
from volbench.results.stats.grid import Grid
from volbench.results.store.series import SeriesKey

SECONDS = 20
Figures = dict[tuple[str, str, str], float]


def case_of(waits: float | None, user: float = 0.4, kernel: float = 0.55) -> Case:
    """Eight clients of a server that has both CPUs; most of their time is no wait that an instrument shows."""
    figures: Figures = {
        ("cpu", "user_ratio", ""): user,
        ("cpu", "system_ratio", ""): kernel,
        ("psi", "cpu_some_ratio", ""): 0.9,
        ("client", "tps", ""): 50.0,
        ("performance_schema", "statement_s_per_s", ""): 8.0,
        ("performance_schema", "wait_s_per_s", "file_data"): 0.4,
        ("tasks", "cpus_used", "cell"): 1.8,
        ("tasks", "run_delay_s_per_s", "cell"): 5.0,
        ("tasks", "cpus_used", "server"): 1.7,
        ("tasks", "run_delay_s_per_s", "server"): 4.8,
    }
    if waits is not None:
        figures["psi", "memory_some_ratio", ""] = waits
    columns = {
        SeriesKey(source=source, metric=metric, entity=entity): np.full(SECONDS, value)
        for (source, metric, entity), value in figures.items()
    }
    grid = Grid(t_s=np.arange(1.0, SECONDS + 1), width_s=1.0, columns=columns)
    return Case(name="load", grid=grid, cell_grid=grid, threads=8, cpus=2)


@pytest.mark.parametrize(
    ("waits", "user", "kernel", "objects"),
    [
        (0.045, 0.40, 0.55, False),
        (0.055, 0.40, 0.55, True),
        (0.300, 0.48, 0.46, False),  # programs have more of the CPUs
        (0.300, 0.46, 0.48, True),
        (None, 0.40, 0.55, False),
    ],
)
def test_memory_that_tasks_wait_for(waits: float | None, user: float, kernel: float, objects: bool) -> None:
    result = [*memory_objections(case_of(waits, user, kernel), np.ones(SECONDS, dtype=np.bool_))]
    assert [item.law for item in result] == ["sufficiency"] * objects
    assert not any(item.refutes for item in result)


@pytest.mark.parametrize(("waits", "sure"), [(0.0, True), (0.4, False)])
def test_a_server_that_its_memory_limit_holds_back_does_not_surely_lack_cpus(waits: float, sure: bool) -> None:
    """`memory.high` of the server's group made the kernel reclaim all along: 0.98 for too few CPUs (recorded)."""
    (named,) = (item for item in explain_case(case_of(waits)).findings if item.cause == "cpu.server_saturated")
    assert (named.confidence > 0.7) is sure
    assert bool(named.objections) is not sure
