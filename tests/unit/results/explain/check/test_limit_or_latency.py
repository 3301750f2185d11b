"""Whether anything tells a slow volume from a limit on saturated CPUs; figures of thresholds are literals here.

Steps are constructed: eight reads in flight all along, at a rate that is as uneven as saturated CPUs make it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from constant_steps import PS, SECONDS, Series, Value, case_of, disk, statements

from volbench.core.records.named_metrics import CPU, PSI, Client, EbsNvme, Tasks
from volbench.results.explain.arbitration import arbitrate
from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.causes import CAUSES
from volbench.results.explain.check.contrast import grows_with_depth
from volbench.results.explain.check.limit_or_latency import squared_variation
from volbench.results.explain.check.objections import objections
from volbench.results.explain.evidence.size_contrasts import ContrastLevel
from volbench.results.explain.objection import Objection
from volbench.results.stats.grid import Floats

UNEVEN = np.array([1.0, 0.8, 0.9, 0.7, 0.95])[np.arange(SECONDS) % 5]
DEEP = np.array([0.5, 0.8, 1.2, 2.0, 1.0])[np.arange(SECONDS) % 5]
BUSY: Series = {CPU.user_ratio: 0.7, CPU.system_ratio: 0.3, PSI.cpu_some_ratio: 0.9}


def waiting(rate: Value = 100 * UNEVEN, queue: Value = 8.0, each_ms: Value | None = None, **more: Any) -> Series:
    """Sessions that wait for reads, so many in flight."""
    used = 1000 * np.asarray(queue) / rate if each_ms is None else each_ms
    return {
        **BUSY,
        **statements(8.0, file_data=0.9),
        (PS.file_read_s_per_s, "data"): 7.2,
        (PS.file_reads_per_s, "data"): rate,
        **disk(reads=rate, r_await=used, **{"aqu_sz": queue, "util_ratio": 1.0, **more}),
    }


def slow(cause: str = "storage.read_latency", **fields: Any) -> Cause:
    fields = {"checks": (True, True, True), "evidence": (), "advice": "", "share": 0.9, **fields}
    return Cause(cause=cause, window_s=(0.0, float(SECONDS)), **fields)


def against(case: Case, cause: Cause | None = None) -> tuple[Objection, ...]:
    return objections(case, slow() if cause is None else cause, frozenset({"no limit"}))


def is_doubted(series: Series, **facts: Any) -> bool:
    return bool(against(case_of(series, **facts)))


@pytest.mark.parametrize("cause", ["storage.read_latency", "storage.sync_latency"])
def test_a_latency_that_a_limit_makes_as_well_is_not_sure(cause: str) -> None:
    """Limits of operations or bytes and empty buckets were a slow volume with 0.90 and 0.98 (five runs)."""
    (left,) = arbitrate(case_of(waiting()), [slow(cause)], CAUSES).findings
    assert left.confidence <= 0.75
    (objection,) = (cause for cause in left.objections if "no figure tells" in cause.text)
    assert "a limit of 90/s" in objection.text
    assert not objection.refutes


@pytest.mark.parametrize(("busy", "expected"), [(0.88, False), (0.92, True)])
def test_only_saturated_cpus_make_any_rate_uneven(busy: float, expected: bool) -> None:
    assert is_doubted({**waiting(), CPU.user_ratio: busy - 0.3}) is expected


@pytest.mark.parametrize(("util", "expected"), [(0.88, False), (0.92, True)])
def test_a_limit_that_is_not_used_up_holds_nothing_back(util: float, expected: bool) -> None:
    assert is_doubted(waiting(util_ratio=util)) is expected


@pytest.mark.parametrize(("slope", "expected"), [(0.62, True), (0.68, False)])
def test_a_rate_that_follows_the_depth_is_no_limit(slope: float, expected: bool) -> None:
    assert is_doubted(waiting(100 * DEEP**slope, 8 * DEEP)) is expected


@pytest.mark.parametrize(("alone_ms", "expected"), [(52.0, True), (55.0, False)])
def test_what_takes_as_long_without_a_queue_waits_in_none(alone_ms: float, expected: bool) -> None:
    """A read takes 80 ms with eight in flight, elsewhere in the cell alone_ms with one."""
    case = case_of(waiting(100.0))
    quiet = case_of(waiting(10.0, 0.5, alone_ms, util_ratio=0.5))
    assert bool(against(replace(case, cell_grid=quiet.grid))) is expected


@pytest.mark.parametrize(
    ("writes", "write_ms", "expected"),
    [(10.0, 28.0, True), (10.0, 26.0, False), (5.0, 1.0, True), (6.0, 1.0, False)],
)
def test_writes_that_pass_meanwhile_wait_in_no_queue(writes: float, write_ms: float, expected: bool) -> None:
    """A read takes 80 ms. One write of twenty operations may be chance."""
    assert is_doubted(waiting(100.0, writes=writes, w_await_ms=write_ms)) is expected


def test_reads_that_pass_meanwhile_say_nothing() -> None:
    """Writes come many at a time, from the page cleaner or a journal, and wait for each other."""
    assert is_doubted(waiting(100.0, writes=50.0, w_await_ms=800.0))


@pytest.mark.parametrize("late", [124.0, 300.0])
def test_a_rate_that_rises_says_nothing_on_saturated_cpus(late: float) -> None:
    """The limit is higher than it seemed, and a bucket that was full before makes the same."""
    rate = np.full(SECONDS, 100.0)
    rate[20:23] = late
    assert is_doubted(waiting(rate))
    assert is_doubted(waiting(rate[::-1]))


@pytest.mark.parametrize(("iops", "grows"), [(153.0, False), (161.0, True)])
def test_a_longer_queue_of_smaller_reads_tells(iops: float, grows: bool) -> None:
    """100 reads of 16 KiB with eight in flight, and of 4 KiB with sixteen: slopes of 0.61 and of 0.69."""
    case = case_of(waiting(100.0, read_mib_per_s=100 / 64, write_mib_per_s=0.0))
    load = ContrastLevel(
        iops=iops, mib_per_s=iops / 256, in_flight=16.0, mix="read", window_s=(40.0, 44.0), follows=True
    )
    assert case.device is not None
    assert grows_with_depth(case.device, np.ones(SECONDS, dtype=np.bool_), [load]) is grows


def transactions(times: float, waits: float) -> Series:
    """The client's: p95 is so many times the median, and each waits for so many reads."""
    return {
        **waiting(100.0),
        Client.tps: 100 / waits,
        Client.latency_ms_p50: 100.0,
        Client.latency_ms_p95: 100 * times,
    }


@pytest.mark.parametrize(
    ("times", "waits", "expected"),
    [(1.98, 10.0, True), (2.06, 10.0, False), (1.72, 100.0, True), (1.78, 100.0, False)],
)
def test_waits_that_differ_by_more_than_those_of_a_queue_do(times: float, waits: float, expected: bool) -> None:
    """A squared variation of a wait of 2, and 1.75 times the median: few reads of a slow region wait long."""
    assert is_doubted(transactions(times, waits)) is expected


@pytest.mark.parametrize(("delay", "expected"), [(1.5, False), (1.7, True)])
def test_transactions_that_wait_for_cpus_differ_by_these(delay: float, expected: bool) -> None:
    """A fifth of eight clients' time."""
    assert is_doubted({**transactions(3.0, 10.0), (Tasks.run_delay_s_per_s, "cell"): delay}) is expected


def test_a_p95_of_so_many_medians_has_that_variation() -> None:
    """A normal logarithm with a standard deviation of 1: p95 is 5.18 medians, the squared variation e - 1."""
    assert squared_variation(5.1802) == pytest.approx(1.7183, rel=1e-3)


@pytest.mark.parametrize(
    "more",
    [
        {(EbsNvme.volume_exceeded_iops_ratio, "nvme1n1"): 0.0},
        {(EbsNvme.volume_exceeded_throughput_ratio, "nvme1n1"): 0.0},
    ],
)
def test_a_volume_that_counts_its_limits_tells(more: Series) -> None:
    assert not is_doubted({**waiting(), **more})


@pytest.mark.parametrize(("flush_ms", "expected"), [(8.0, True), (9.0, False)])
def test_writes_that_come_as_flushes_end_tell(flush_ms: float, expected: bool) -> None:
    """A hundred flushes a second: one is under way in 80 and in 90 % of the time."""
    series = {
        **BUSY,
        **statements(8.0, file_redo=0.9),
        **disk(
            reads=0.0,
            writes=100 * UNEVEN,
            w_await_ms=8000 / (100 * UNEVEN),
            aqu_sz=8.0,
            util_ratio=1.0,
            flushes_per_s=100.0,
            f_await_ms=flush_ms,
        ),
    }
    assert bool(against(case_of(series), slow("storage.sync_latency"))) is expected


def test_what_is_one_of_two_already_is_not_doubted_again() -> None:
    assert against(case_of(waiting()), slow(one_of_two=True)) == ()


def test_a_rate_that_varies_less_than_the_waits_suggests_the_limit_itself() -> None:
    """Then both are named as one of two, and the weaker doubt is not repeated."""
    even: Floats = np.full(SECONDS, 100.0)
    assert against(case_of(waiting(even, 8 * DEEP))) == ()


def test_a_change_within_the_step_is_judged_by_its_before() -> None:
    """What began has a time before it, see `limit that began`."""
    assert "no limit" not in CAUSES["storage.degraded"].claims
