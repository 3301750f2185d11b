"""What is the same with operations of another size is the limit: operations or bytes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from recorded_step import recorded_step

from volbench.results.explain.evidence.device import Device, Resource
from volbench.results.explain.evidence.levels_elsewhere import level_elsewhere
from volbench.results.explain.evidence.limits import plateaus
from volbench.results.explain.findings import explain_case
from volbench.results.stats.grid import Floats

SECONDS, NOW = 60, 30
"""Of the cell; the step has its last ones, and what lies before was another step."""
T_S = np.arange(1.0, SECONDS + 1)
QUEUE = np.array([3.0, 9.0, 20.0, 5.0, 14.0])[np.arange(SECONDS) % 5]
EVEN = np.array([0.5, -0.5, 1.0, -1.0, 0.0])[np.arange(SECONDS) % 5]


def cell_of(
    iops: tuple[float, float], kib: tuple[float, float], *, empty: float = 0.0, vary: float = 0.0
) -> Device:
    """A volume whose rates and sizes of operations change with the step: before, when sizes may vary, and now."""
    late = T_S > SECONDS - NOW
    sizes = np.where(late, kib[1], kib[0] * (1 + vary * np.array([1.0, -1.0, 0.5, -0.5])[np.arange(SECONDS) % 4]))
    served = np.where(late, iops[1], iops[0]) + EVEN
    rate: Floats = served + empty
    return Device(
        source="diskstats",
        entity="sda",
        iops=rate,
        mib_per_s=served * sizes / 1024,
        read_mib_per_s=None,
        write_mib_per_s=None,
        await_ms=1000 * QUEUE / rate,
        in_flight=QUEUE,
        empty_writes=np.full(SECONDS, empty),
        supposes_empty=True,
    )


def decided(device: Device, *, counts_flushes: bool = False) -> Resource | None:
    step = replace(
        device,
        iops=device.iops[-NOW:],
        mib_per_s=None if device.mib_per_s is None else device.mib_per_s[-NOW:],
        await_ms=None if device.await_ms is None else device.await_ms[-NOW:],
        in_flight=None if device.in_flight is None else device.in_flight[-NOW:],
        empty_writes=None if device.empty_writes is None else device.empty_writes[-NOW:],
    )
    now = {level.resource: level for level in plateaus(T_S[-NOW:], step)}
    assert set(now) == {"iops", "throughput"}
    found = level_elsewhere(now, T_S, device, counts_flushes=counts_flushes)
    return None if found is None else found.resource


@pytest.mark.parametrize(
    ("iops", "kib", "resource"),
    [
        ((200.0, 200.0), (8.0, 16.0), "iops"),
        ((400.0, 200.0), (8.0, 16.0), "throughput"),
        ((203.0, 200.0), (8.0, 16.0), "iops"),
        ((206.0, 200.0), (8.0, 16.0), None),
        ((250.0, 200.0), (8.0, 16.0), None),
        ((200.0, 200.0), (11.8, 16.0), "iops"),
        ((200.0, 200.0), (12.8, 16.0), None),
        ((200.0, 200.0), (16.0, 16.0), None),
    ],
)
def test_the_level_that_stays_is_the_limit(
    iops: tuple[float, float], kib: tuple[float, float], resource: Resource | None
) -> None:
    """Within 2 in a hundred, with operations of at least 1.3 times the size."""
    assert decided(cell_of(iops, kib)) == resource


@pytest.mark.parametrize(("vary", "resource"), [(0.0, None), (0.5, "iops")])
def test_operations_that_stay_while_their_size_varies_are_the_limit(vary: float, resource: Resource | None) -> None:
    """Of the same mean size as now; with one size, nothing was told then either."""
    assert decided(cell_of((200.0, 200.0), (16.0, 16.0), vary=vary)) == resource


@pytest.mark.parametrize(("counts_flushes", "resource"), [(False, None), (True, "iops")])
def test_a_level_with_flushes_that_are_supposed_decides_nothing(
    counts_flushes: bool, resource: Resource | None
) -> None:
    device = cell_of((200.0, 200.0), (8.0, 16.0), empty=10.0)
    assert decided(device, counts_flushes=counts_flushes) == resource


def test_reads_of_one_size_are_told_by_commits_in_another_step() -> None:
    """A member of an array gives 40.2 operations a second to commits and 40.2 to reads, which are larger."""
    first = explain_case(recorded_step("raid0-slow-member-reads")).findings[0]
    assert first.cause == "storage.iops_limit"
    assert not first.one_of_two
    assert first.confidence <= 0.85
    assert any(one.metric == "elsewhere" for one in first.evidence)
