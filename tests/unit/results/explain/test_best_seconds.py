"""CPUs that are as busy all along do not explain why a load is slow at times.

Series are constructed; and a step of a real kernel, in which a delay of the volume grows beside busy programs.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from recorded_step import recorded_step

from volbench.core.records.named_metrics import Diskstats, NamedMetric
from volbench.results.explain.evidence.best_seconds import best_seconds_share
from volbench.results.explain.evidence.device import device_of
from volbench.results.explain.evidence.layers import flush_ms
from volbench.results.explain.evidence.processors import CpuAccount
from volbench.results.explain.findings import explain_case
from volbench.results.stats.grid import Floats, Grid
from volbench.results.store.series import SeriesKey

SECONDS = 20
EARLY = np.arange(SECONDS) < 4
GROWS = "delay-grows-commits"


def share(*, best: float = 100.0, rest: float = 20.0, others_early: float = 1.2, busy_early: float = 2.0) -> float:
    """Of a load that does more in its first four seconds; 1 where nothing bounds it."""

    def early(value: float, later: float) -> Floats:
        return np.where(EARLY, value, later)

    account = CpuAccount(cpus=2, own=early(busy_early - others_early, 0.8), foreign=early(others_early, 1.2))
    bound = best_seconds_share(early(best, rest), account, early(busy_early, 2.0), 1.0)
    return 1.0 if bound is None else bound


def test_cpus_are_no_more_than_a_whole_transaction_of_the_best_seconds() -> None:
    """36 transactions a second on average, and 100 on CPUs that were as busy."""
    assert share() == pytest.approx(0.36)


@pytest.mark.parametrize(
    ("changed", "bounded"),
    [
        ({"others_early": 0.95}, True),
        ({"others_early": 0.8}, False),  # others came later, and may be why
        ({"busy_early": 1.85}, True),
        ({"busy_early": 1.75}, False),
        ({"rest": 36.0}, True),
        ({"rest": 39.0}, False),  # loads vary
        ({"best": 16.0, "rest": 2.0}, True),
        ({"best": 14.0, "rest": 2.0}, False),  # few come by chance
    ],
)
def test_the_best_seconds_are_clearly_better_on_cpus_as_busy(changed: dict[str, float], bounded: bool) -> None:
    assert (share(**changed) < 1.0) is bounded


def test_a_delay_that_grows_comes_before_programs_that_are_there_all_along() -> None:
    """26 transactions a second for two seconds, then 7; ten busy programs from the begin to the end."""
    case = recorded_step(GROWS)
    first, second = explain_case(case).findings[:2]
    assert (first.cause, second.cause) == ("storage.sync_latency", "interference.cpu")
    assert case.best_seconds_share == pytest.approx(0.36, abs=0.01)
    assert (second.share or 1.0) <= (case.best_seconds_share or 0.0)


def test_a_load_with_a_rate_of_its_own_has_no_best_seconds() -> None:
    assert replace(recorded_step(GROWS), rate=10.0).best_seconds_share is None


@pytest.mark.parametrize(
    ("name", "flushes_below", "expected_ms"),
    [("dm-0", 0.0, 0.0), ("dm-0", 5.0, 30.0), ("loop0", 5.0, 0.0), ("nbd0", 5.0, 0.0)],
)
def test_a_flush_of_a_mapped_device_is_counted_among_its_writes(
    name: str, flushes_below: float, expected_ms: float
) -> None:
    """Device mapper counts no flush; where the disk below it has some, one takes what a write does.

    A loop device counts its own. The disk that holds its file has the flushes of all that use this disk.
    """
    figures = {
        (Diskstats.reads_per_s, name): 1.0,
        (Diskstats.writes_per_s, name): 20.0,
        (NamedMetric("diskstats", "w_await_ms"), name): 30.0,
        (Diskstats.flushes_per_s, "sda"): flushes_below,
    }
    columns = {
        SeriesKey(source=metric.source, metric=metric.name, entity=entity): np.full(SECONDS, value)
        for (metric, entity), value in figures.items()
    }
    grid = Grid(t_s=np.arange(1.0, SECONDS + 1), width_s=1.0, columns=columns)
    device = device_of(grid, name)
    assert device is not None
    assert flush_ms(grid, device, ("sda",)) == pytest.approx(expected_ms)
    assert flush_ms(grid, device) == 0.0
