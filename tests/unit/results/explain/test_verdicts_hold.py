"""What must never change a verdict: the clock, the order of size of a limit, a source that is missing."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic_cell import Load, Storage, columns

from volbench.results.explain.calibration import ONE_OF_TWO_MAX
from volbench.results.explain.case import Case
from volbench.results.explain.findings import Explanation, explain_case
from volbench.results.stats.grid import align
from volbench.results.store.series import Series, SeriesKey

CLEAN = Load(queue=1.2, threads=8, cpu_s_per_s=5.5, cpu_busy=0.7)
BUSY = Load(queue=24, threads=24)
MADE: Mapping[str, tuple[Load, Storage]] = {
    "none": (CLEAN, Storage(latency_ms=0.4)),
    "storage.iops_limit": (BUSY, Storage(iops=500.0)),
    "storage.throughput_limit": (Load(size_kib=256, queue=24), Storage(mib_per_s=60.0)),
    "storage.burst_exhausted": (
        Load(seconds=120, queue=31, threads=31),
        Storage(iops=lambda t_s: np.where(t_s <= 70, 3000, 150)),
    ),
    "storage.read_latency": (Load(queue=8, threads=8, read_part=0.9), Storage(latency_ms=9.0)),
    "storage.stall": (Load(queue=8, threads=8), Storage(latency_ms=0.5, stall_s=(20, 25))),
    "storage.degraded": (
        Load(queue=8, threads=8),
        Storage(latency_ms=lambda t_s: np.where(t_s <= 30, 0.8, 24.0)),
    ),
    "memory.buffer_pool_small": (Load(queue=6, threads=8, read_part=0.95, cpu_busy=0.5), Storage(latency_ms=0.2)),
    "cpu.server_saturated": (
        dataclasses.replace(CLEAN, cpu_busy=0.98, cpu_s_per_s=7.5),
        Storage(latency_ms=0.2),
    ),
    "lock.row_contention": (
        dataclasses.replace(CLEAN, row_lock_s_per_s=4.0, cpu_s_per_s=2.0),
        Storage(latency_ms=0.2),
    ),
}
SOURCES = ("client", "cpu", "diskstats", "innodb", "performance_schema", "psi")
POOL = {"innodb_buffer_pool_size": str(64 << 20)}


@cache
def made(cause: str) -> Mapping[SeriesKey, Series]:
    """Return the series of a cause; examples only read them."""
    return columns(*MADE[cause])


@cache
def explained_as_made(cause: str) -> Explanation:
    """Return what is said of these, which is the same for each example."""
    return explained(made(cause), cause)


def explained(observed: Mapping[SeriesKey, Series], cause: str) -> Explanation:
    grid = align(observed)
    pool = POOL if cause.startswith("memory.") else {}
    threads = MADE[cause][0].threads
    return explain_case(Case(name="load", grid=grid, cell_grid=grid, threads=threads, cpus=8, variables=pool))


@pytest.mark.parametrize("cause", MADE)
@settings(max_examples=8, deadline=None)
@given(origin=st.floats(-500, 500))
def test_another_origin_of_time_never_changes_the_verdict(cause: str, origin: float) -> None:
    """Only the times that are named move with it."""
    moved = {key: Series(t_s=origin + item.t_s, value=item.value) for key, item in made(cause).items()}
    first, again = explained_as_made(cause).findings, explained(moved, cause).findings
    assert first[0].cause == cause
    assert [finding.cause for finding in first] == [finding.cause for finding in again]
    assert [item.share for item in first] == pytest.approx([item.share for item in again])
    for result, later in zip(first, again, strict=True):
        assert later.window_s == pytest.approx([origin + end for end in result.window_s], abs=1e-6)


@pytest.mark.parametrize(
    "cause", ["none", "storage.iops_limit", "storage.throughput_limit", "storage.read_latency"]
)
@settings(max_examples=8, deadline=None)
@given(width=st.floats(0.1, 50), origin=st.floats(-500, 500))
def test_scaling_time_never_changes_the_verdict(cause: str, width: float, origin: float) -> None:
    """The same samples on another clock: rates and times of the volume in that clock's unit are the same."""
    moved = {key: Series(t_s=origin + width * item.t_s, value=item.value) for key, item in made(cause).items()}
    first, again = explained_as_made(cause).findings, explained(moved, cause).findings
    assert [finding.cause for finding in first] == [finding.cause for finding in again]
    assert [item.share for item in first] == pytest.approx([item.share for item in again])


@settings(max_examples=15, deadline=None)
@given(st.floats(2.0, 4.5))
def test_a_limit_is_one_at_any_order_of_size(exponent: float) -> None:
    """A hundred operations a second or thirty thousand: no rule knows how much a volume should give."""
    storage = Storage(iops=10.0**exponent)
    (first, *_) = explained(
        columns(dataclasses.replace(BUSY, queue=64, threads=64), storage), "storage.iops_limit"
    ).findings
    assert first.cause == "storage.iops_limit"
    assert next(row.value for row in first.evidence if row.metric == "iops") == pytest.approx(
        10.0**exponent, rel=0.05
    )


@pytest.mark.parametrize("without", SOURCES)
@pytest.mark.parametrize("cause", MADE)
def test_with_a_source_missing_the_cause_is_right_or_less_is_said(cause: str, without: str) -> None:
    """Never another cause as surely: without the volume's counters a queue at a limit looks like a slow volume."""
    observed = {key: item for key, item in made(cause).items() if key.source != without}
    result = explained(observed, cause)
    named = [finding.cause for finding in result.findings]
    if not named:
        assert result.notes
    elif named[0] != cause:
        beside_the_volume = named == ["none"] and not cause.startswith("storage.")  # and that is true
        assert beside_the_volume or result.findings[0].confidence <= ONE_OF_TWO_MAX
