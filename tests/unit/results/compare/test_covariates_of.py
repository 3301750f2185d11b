"""The shares that other work took, where they are no consequence of the load itself."""

from __future__ import annotations

import pytest

from volbench.core.records.cell import ValidityLimits
from volbench.results.compare.disturbance import CpuUse
from volbench.results.compare.validity.observation import CellObservation
from volbench.results.compare.validity.reasons import covariates_of

LIMITS = ValidityLimits()


def shares(*, foreign: float, own: float, steal: float | None = None) -> dict[str, float]:
    cpu = CpuUse(cpus=4, foreign=foreign, own=own, run_delay=None)
    return covariates_of(CellObservation(cpu=cpu, cpus=4, steal_ratio=steal), LIMITS)


def test_stolen_time_counts_as_taken() -> None:
    assert shares(foreign=0.4, own=1.0, steal=0.05) == {"cpu_taken": pytest.approx(0.15)}


def test_with_all_cpus_in_use_the_share_of_others_says_nothing() -> None:
    assert shares(foreign=2.0, own=1.9) == {}


def test_io_at_rest_counts_beyond_its_limit() -> None:
    assert covariates_of(CellObservation(foreign_iops=40.0, device_iops=400.0), LIMITS) == {"io_taken": 0.0}
    assert covariates_of(CellObservation(foreign_iops=100.0, device_iops=400.0), LIMITS) == {"io_taken": 0.25}
    assert covariates_of(CellObservation(), LIMITS) == {}


def test_on_busy_cpus_the_threads_that_want_them_count() -> None:
    """12 runnable of which one reads the counter, one of the cell runs and four wait: 6 others beside 4 CPUs."""
    cpu = CpuUse(cpus=4, foreign=3.0, own=1.0, run_delay=4.0, runnable=12.0)
    assert covariates_of(CellObservation(cpu=cpu, cpus=4), LIMITS) == {"cpu_wanted": pytest.approx(0.6)}
    alone = CpuUse(cpus=4, foreign=0.0, own=1.0, run_delay=0.5, runnable=2.2)
    assert covariates_of(CellObservation(cpu=alone, cpus=4), LIMITS) == {"cpu_taken": 0.0, "cpu_wanted": 0.0}


@pytest.mark.parametrize(
    ("own", "run_delay", "runnable"),
    [(0.58, 0.31, 5.6), (1.3, 3.8, 10.0)],
    ids=["waits for the volume", "fills the CPUs by itself"],
)
def test_threads_that_wake_with_the_reading_are_no_other_work(
    own: float, run_delay: float, runnable: float
) -> None:
    """Figures of two cells of the demo, with nothing else on the machine: others used a twentieth of a CPU."""
    cpu = CpuUse(cpus=2, foreign=0.05, own=own, run_delay=run_delay, runnable=runnable)
    assert covariates_of(CellObservation(cpu=cpu, cpus=2), LIMITS)["cpu_wanted"] < 0.1
