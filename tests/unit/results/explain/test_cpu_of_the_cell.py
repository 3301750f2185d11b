"""CPU time and run delay of the cell's own processes: what a busy machine did to this load, and what it did not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from kernel_throttle import case_of, with_columns

from volbench.results.explain.case import Case
from volbench.results.explain.findings import explain_case
from volbench.results.stats.grid import Grid
from volbench.results.store.series import SeriesKey


def with_tasks(case: Case, cpus_used: float, run_delay: float) -> Case:
    """A real run on a machine of two busy CPUs, with an account of its processes set by hand."""
    columns = {
        SeriesKey(source="tasks", metric=metric, entity="cell"): np.full(len(case.grid), value)
        for metric, value in (("cpus_used", cpus_used), ("run_delay_s_per_s", run_delay))
    }
    return replace(case, grid=replace(case.grid, columns={**case.grid.columns, **columns}))


def causes(case: Case) -> list[str]:
    return [finding.cause for finding in explain_case(case).findings]


def test_clients_that_wait_for_cpus_most_of_their_time_lack_cpus() -> None:
    """10 of 16 clients: their reads are done by the device, and wait for a CPU."""
    assert causes(with_tasks(case_of("clean"), 1.0, 10.0))[0] == "cpu.server_saturated"


def test_a_busy_machine_whose_cpus_this_load_hardly_waits_for_is_no_cause() -> None:
    named = causes(with_tasks(case_of("device-write-300"), 0.05, 0.1))
    assert "cpu.server_saturated" not in named
    assert named[0] == "storage.iops_limit"


def test_a_load_that_gets_its_rate_lacks_nothing() -> None:
    """A rate of 5 a second, statements take a tenth of the clients' time: the CPUs are busy with something else."""
    case = with_tasks(case_of("clean"), 1.0, 10.0)
    columns = dict(case.grid.columns)
    key = SeriesKey(source="performance_schema", metric="statement_s_per_s", entity="")
    columns[key] = columns[key] * 0 + 1.6
    slow = replace(case, rate=5.0, grid=replace(case.grid, columns=columns))
    assert slow.is_served
    assert "cpu.server_saturated" not in causes(slow)


@pytest.mark.parametrize(("server_cpus", "named"), [(0.11, False), (0.29, False), (0.31, True), (1.8, True)])
def test_the_servers_own_cpu_decides_whether_it_lacks_cpus(server_cpus: float, named: bool) -> None:
    """A recording of a machine whose 2 CPUs are busy, and top's account of the server (pt-stalk)."""
    values = {
        ("cpu", "user_ratio", ""): 0.8,
        ("cpu", "system_ratio", ""): 0.18,
        ("tasks", "cpus_used", "server"): server_cpus,
        ("diskstats", "reads_per_s", "sda"): 20.0,
        ("diskstats", "writes_per_s", "sda"): 20.0,
        ("diskstats", "r_await_ms", "sda"): 0.5,
        ("diskstats", "w_await_ms", "sda"): 0.5,
        ("diskstats", "aqu_sz", "sda"): 0.02,
    }
    columns = {SeriesKey(source=s, metric=m, entity=e): np.full(30, value) for (s, m, e), value in values.items()}
    grid = Grid(t_s=np.arange(1.0, 31.0), width_s=1.0, columns=columns)
    causes = [
        finding.cause
        for finding in explain_case(Case(name="load", grid=grid, cell_grid=grid, cpus=2, recorded=True)).findings
    ]
    assert ("cpu.server_saturated" in causes) is named


@pytest.mark.parametrize(("counted", "share"), [(True, 0.653), (False, 0.895)])
def test_what_the_sampler_runs_and_waits_is_no_time_of_the_clients(counted: bool, share: float) -> None:
    """Recorded on emulated CPUs, where the sampler takes a quarter of the cell's time on and before CPUs."""
    case = replace(with_tasks(case_of("clean"), 1.196, 2.386), threads=4)
    sampler = {("tasks", "cpus_used", "sampler"): 0.362, ("tasks", "run_delay_s_per_s", "sampler"): 0.609}
    of_cell = with_columns(case, sampler) if counted else case
    assert of_cell.cpu_cycle_share == pytest.approx(share, abs=0.002)
