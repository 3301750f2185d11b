"""Limits and neighbours that the kernel and other programs made: recorded runs, see the fixtures' README."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kernel_throttle import case_of

from volbench.results.explain.cause import Cause
from volbench.results.explain.findings import explain_case

STORAGE = ("storage.", "host.", "interference.")


def storage_causes(name: str) -> list[Cause]:
    """What is named outside the server; the machine's CPUs were busy with other work in all runs."""
    return [cause for cause in explain_case(case_of(name)).findings if cause.cause.startswith(STORAGE)]


def value(cause: Cause, metric: str) -> float:
    (number,) = (row.value for row in cause.evidence if row.metric == metric)
    assert isinstance(number, int | float)
    return float(number)


def text(cause: Cause) -> str:
    return "\n".join(row.text for row in cause.evidence)


def test_a_limit_of_reads_is_named_beside_free_writes() -> None:
    """The sum of reads and writes varies; only the reads' own rate is flat."""
    first = storage_causes("device-read-800")[0]
    assert first.cause == "storage.iops_limit"
    assert value(first, "iops") == pytest.approx(800, rel=0.03)
    assert "reads" in text(first)


def test_a_limit_of_writes_is_named_beside_free_reads() -> None:
    (first, *_) = storage_causes("device-write-300")
    assert first.cause == "storage.iops_limit"
    assert value(first, "iops") == pytest.approx(300, rel=0.05)
    assert "writes" in text(first)


def test_a_limit_of_bytes_met_with_pages_of_one_size_is_one_of_two_and_mib_are_told() -> None:
    causes = {cause.cause: cause for cause in storage_causes("device-read-12mib")}
    assert set(causes) >= {"storage.iops_limit", "storage.throughput_limit"}
    assert all(cause.one_of_two for cause in causes.values())
    assert "768 IOPS (12 MiB/s) of reads" in text(causes["storage.iops_limit"])
    assert "fio --name=decide" in text(causes["storage.iops_limit"])
    assert value(causes["storage.throughput_limit"], "throughput") == pytest.approx(12, rel=0.03)


def test_a_limit_above_the_device_is_named_where_the_time_is_lost() -> None:
    """The device answers in 0.5 ms, and the server's reads take 17: a fast volume is not the answer."""
    (first, *_) = storage_causes("above-read-800")
    assert first.cause == "host.io_limit"
    assert value(first, "read_iops") == pytest.approx(800, rel=0.03)
    assert value(first, "above_device_ms") > 10
    assert "memory.buffer_pool_small" not in {
        cause.cause for cause in explain_case(case_of("above-read-800")).findings
    }


def test_reads_that_this_server_never_sent_are_a_neighbours() -> None:
    (first, *_) = storage_causes("neighbour")
    assert first.cause == "interference.io"
    assert first.window_s[0] == pytest.approx(20, abs=2), "fio writes its file for 2 s first, then it reads"


@pytest.mark.parametrize("name", ["clean"])
def test_nobody_is_accused_where_nothing_was_set(name: str) -> None:
    assert storage_causes(name) == []


def test_time_lost_above_the_device_is_named_of_the_seconds_in_which_the_load_collapsed() -> None:
    """A limit of reads for 4 s of 15: no median of the step shows it, and its gauge is not sampled here."""
    (first, *_) = storage_causes("above-read-290-episode")
    assert first.cause == "host.io_wait"
    assert first.window_s == pytest.approx((14, 17), abs=1)
    assert value(first, "loss") > 0.9


def test_a_limit_of_writes_that_comes_and_goes_is_named_though_commits_have_no_instrument() -> None:
    (first, *_) = storage_causes("above-write-106-periodic")
    assert first.cause == "host.io_wait"


def test_what_waits_while_a_known_limit_comes_and_goes_is_no_second_cause() -> None:
    """In its worst stretch the limit is there all along: what waits above the device there waits for the limit."""
    causes = [cause.cause for cause in storage_causes("above-write-108-periodic")]
    assert causes == ["host.io_limit"]


def test_a_scan_under_a_limit_above_the_device_is_no_acquittal() -> None:
    """Its reads are sent ahead: nobody is seen waiting, and neither CPUs nor the device take its time."""
    (first, *_) = storage_causes("above-dump-10mib")
    assert first.cause == "host.io_limit"
    assert value(first, "read_throughput") == pytest.approx(10.02, rel=0.03)


def test_a_limit_in_the_device_for_some_seconds_is_no_stall_and_no_latency_of_the_volume() -> None:
    """311 operations of each direction a second instead of 40,000: each is done within the interval."""
    causes = {cause.cause: cause.one_of_two for cause in storage_causes("device-both-311-episode")}
    assert causes == {"storage.degraded": True, "storage.iops_limit": True}


def test_a_page_cache_that_was_taken_back_is_named_and_no_slower_volume() -> None:
    """The kernel's memory limit of the server's group: the device serves what the page cache had, 3 ms each."""
    first, *_ = explain_case(case_of("page-cache-reclaimed")).findings
    assert first.cause == "memory.reclaim"
    assert first.window_s == pytest.approx((14, 21), abs=1)
    assert value(first, "device_share") > 0.9
    assert value(first, "memory_some_ratio") > 0.01


def test_a_limit_that_reads_of_a_lost_cache_meet_is_no_cause_of_its_own() -> None:
    """The volume has 16 threads, and so a limit, which the load reached when its page cache was taken back."""
    causes = [cause.cause for cause in explain_case(case_of("page-cache-reclaimed-for-a-while")).findings]
    assert causes[0] == "memory.reclaim"
    assert "storage.iops_limit" not in causes


def test_a_page_cache_that_is_lost_without_pressure_was_dropped_or_read_over() -> None:
    """Nobody waits for memory then. The device serves what memory served all the same: it is no slow volume."""
    case = case_of("page-cache-reclaimed")
    keys = [key for key in case.grid.columns if key.source == "psi" and key.metric == "memory_some_ratio"]
    quiet = {**case.grid.columns, **{key: 0.0 * case.grid.columns[key] for key in keys}}
    calm = replace(case, grid=replace(case.grid, columns=quiet))
    reclaimed, dropped = (explain_case(item).findings[0] for item in (case, calm))
    assert dropped.cause == "memory.reclaim"
    assert "the cache was dropped" in text(dropped)
    assert dropped.confidence < reclaimed.confidence


def test_reads_are_named_beside_slow_syncs_that_have_a_smaller_share() -> None:
    """Three quarters of the time are reads that are fast each, one sixth syncs: one does not hide the other."""
    (first, second) = explain_case(case_of("reads-and-slow-syncs")).findings
    assert (first.cause, second.cause) == ("memory.buffer_pool_small", "storage.sync_latency")
    assert first.share == pytest.approx(0.76, abs=0.02)
    assert second.share == pytest.approx(0.16, abs=0.02)


def test_a_limit_that_is_met_in_bursts_is_not_the_mean_of_its_intervals() -> None:
    """The volume gives 3,000 IOPS; a load at an even rate sends 1,600 in bursts, and meets that now and then."""
    (first, *_) = explain_case(case_of("limit-in-bursts", "replica/load")).findings
    assert first.cause == "storage.iops_limit"
    assert (
        "1,601 IOPS (32.8 MiB/s) on average, in bursts that meet its limit, which is higher, with 15 operations"
        in text(first)
    )
    assert "and no more" not in text(first)
    assert "more than 1" not in first.advice
    assert first.advice.startswith("Provision more IOPS, or move to a volume that gives more; or ")


def test_a_limit_that_is_met_all_the_time_is_the_level() -> None:
    (first, *_) = storage_causes("device-read-800")
    assert "and no more" in text(first)
    assert (
        "more than 79" in first.advice or "more than 80" in first.advice or "provisioned would lift" in first.advice
    )
