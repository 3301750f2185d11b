"""Pairs of causes of which one makes the other's evidence: constructed steps, each with what refutes the pair.

The series are our own construction: two causes in one step, as counters would show them.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from volbench.results.explain.case import Case
from volbench.results.explain.causes import CAUSES
from volbench.results.explain.findings import Explanation, explain_case
from volbench.results.stats.grid import Floats, Grid
from volbench.results.store.series import SeriesKey

SECONDS, BEGIN = 40, 14
LATE = np.arange(SECONDS) >= BEGIN
NOISE = 1 + 0.01 * np.array([0.0, 1.0, -1.0, 2.0, -2.0])[np.arange(SECONDS) % 5]
Values = Mapping[tuple[str, str, str], Floats | float]


def explained(values: Values, **facts: object) -> Explanation:
    columns = {
        SeriesKey(source=source, metric=metric, entity=entity): np.full(SECONDS, 1.0) * value
        for (source, metric, entity), value in values.items()
    }
    grid = Grid(t_s=np.arange(1.0, SECONDS + 1), width_s=1.0, columns=columns)
    case = Case(name="load", grid=grid, cell_grid=grid, **{"threads": 8, "cpus": 2, **facts})  # type: ignore[arg-type]
    return explain_case(case)


def since(before: float, then: float) -> Floats:
    """One level up to a second, and another one from it on."""
    return np.where(LATE, then, before) * NOISE


def cache_taken(busy_before: float) -> dict[tuple[str, str, str], Floats | float]:
    """A server that reads through the page cache, which the kernel takes back; its CPUs are full from then on."""
    tps = since(400.0, 120.0)
    reads, device_reads = 10 * tps, since(200.0, 1150.0)
    read_ms = since(0.1, 4.0)
    return {
        ("client", "tps", ""): tps,
        ("client", "latency_ms_p50", ""): 8000 / tps,
        ("client", "latency_ms_p95", ""): 16000 / tps,
        ("performance_schema", "statement_s_per_s", ""): 8.0,
        ("performance_schema", "wait_s_per_s", "file_data"): reads * read_ms / 1000,
        ("performance_schema", "file_read_s_per_s", "data"): reads * read_ms / 1000,
        ("performance_schema", "file_reads_per_s", "data"): reads,
        ("performance_schema", "file_read_mib_per_s", "data"): reads / 64,
        ("diskstats", "reads_per_s", "sda"): device_reads,
        ("diskstats", "read_mib_per_s", "sda"): device_reads / 64,
        ("diskstats", "writes_per_s", "sda"): 5.0,
        ("diskstats", "r_await_ms", "sda"): since(0.5, 3.5),
        ("diskstats", "util_ratio", "sda"): since(0.1, 0.9),
        ("psi", "memory_some_ratio", ""): since(0.001, 0.2),
        ("psi", "cpu_some_ratio", ""): since(0.9 if busy_before > 0.9 else 0.1, 0.9),
        ("cpu", "user_ratio", ""): since(busy_before - 0.1, 0.25),
        ("cpu", "system_ratio", ""): since(0.1, 0.74),
    }


@pytest.mark.parametrize(("busy_before", "stands"), [(0.3, False), (0.97, True)])
def test_cpus_that_are_full_only_while_memory_is_taken_back_are_its_doing(busy_before: float, stands: bool) -> None:
    """Reclaim burns the CPU. CPUs that were full before lack by themselves."""
    result = explained(cache_taken(busy_before))
    names = [item.cause for item in result.findings]
    assert "memory.reclaim" in names
    assert ("cpu.server_saturated" in names) is stands
    reasons = [item.text for item in result.refuted if item.cause.cause == "cpu.server_saturated"]
    assert bool(reasons) is not stands
    assert all("without memory.reclaim: it is that one's doing" in text for text in reasons)


def test_reads_of_a_cache_that_was_taken_back_are_no_slow_volume() -> None:
    names = {item.cause for item in explained(cache_taken(0.3)).findings}
    assert not names & {
        "storage.read_latency",
        "storage.iops_limit",
        "storage.degraded",
        "memory.buffer_pool_small",
    }


def test_sessions_that_wait_for_locks_are_none_that_wait_for_cpus() -> None:
    """A hot row: its waiters keep CPUs busy (deadlock search, spinning), and wait for each other."""
    result = explained(
        {
            ("client", "tps", ""): 50.0 * NOISE,
            ("performance_schema", "statement_s_per_s", ""): 8.0,
            ("performance_schema", "wait_s_per_s", "file_data"): 0.1,
            ("innodb", "row_lock_wait_s_per_s", ""): 5.6,
            ("innodb", "row_lock_waits_per_s", ""): 50.0,
            ("cpu", "user_ratio", ""): 0.9,
            ("cpu", "system_ratio", ""): 0.08,
            ("psi", "cpu_some_ratio", ""): 0.95,
            ("tasks", "cpus_used", "cell"): 1.9,
            ("tasks", "run_delay_s_per_s", "cell"): 5.0,
            ("tasks", "cpus_used", "server"): 1.8,
            ("tasks", "run_delay_s_per_s", "server"): 4.8,
        }
    )
    shares = {item.cause: item.share for item in result.findings}
    assert next(iter(shares)) == "lock.row_contention"
    assert shares["lock.row_contention"] == pytest.approx(0.7)
    assert (shares.get("cpu.server_saturated") or 0.0) <= 0.3 + 1e-9


def test_packets_that_are_sent_again_are_no_distance() -> None:
    """Each statement of a client waits 200 ms now and then; the shortest round trip is as short as ever."""
    result = explained(
        {
            ("client", "tps", ""): 40.0 * NOISE,
            ("performance_schema", "statements_per_s", ""): 800.0,
            ("performance_schema", "statement_s_per_s", ""): 1.6,
            ("round_trip", "round_trip_ms_min", ""): np.where(np.arange(SECONDS) == 20, 210.0, 0.1),
            ("round_trip", "round_trip_ms", ""): 6.0,
            ("round_trip", "round_trip_ms_max", ""): 210.0,
            ("round_trip", "round_trips_per_s", ""): 9.0,
            ("tcp", "timeouts_per_s", ""): 20.0,
            ("tcp", "probed_losses_per_s", ""): 5.0,
            ("cpu", "user_ratio", ""): 0.2,
            ("cpu", "system_ratio", ""): 0.05,
        }
    )
    assert [item.cause for item in result.findings if item.cause.startswith("network.")] == ["network.stalls"]


@pytest.mark.parametrize(("throttled", "named"), [(0.8, "cpu.server_saturated"), (0.0, "interference.cpu")])
def test_tasks_that_a_quota_stops_wait_for_no_other_program(throttled: float, named: str) -> None:
    """A throttled group's tasks are runnable without a CPU, as if others had it; others fill the CPUs here."""
    result = explained(
        {
            ("client", "tps", ""): 50.0 * NOISE,
            ("performance_schema", "statement_s_per_s", ""): 8.0,
            ("performance_schema", "wait_s_per_s", "file_data"): 0.1,
            ("cpu", "user_ratio", ""): 0.9,
            ("cpu", "system_ratio", ""): 0.08,
            ("cpu", "runnable_threads", ""): 8.0,
            ("psi", "cpu_some_ratio", ""): 0.95,
            ("cgroup_cpu", "throttled_ratio", "server"): throttled,
            ("cgroup_cpu", "cpus_used", "server"): 0.4,
            ("cgroup_cpu", "cpus_used", "client"): 0.1,
            ("tasks", "cpus_used", "cell"): 0.5,
            ("tasks", "run_delay_s_per_s", "cell"): 5.0,
        }
    )
    assert result.findings[0].cause == named
    assert {item.cause for item in result.findings} & {"cpu.server_saturated", "interference.cpu"} == {named}


def test_pages_that_a_full_redo_log_flushes_are_no_slow_volume() -> None:
    """Writers wait for a checkpoint while the volume writes pages as fast as ever, in a long queue of its own."""
    result = explained(
        {
            ("client", "tps", ""): since(400.0, 150.0),
            ("client", "latency_ms_p95", ""): since(40.0, 110.0),
            ("performance_schema", "statement_s_per_s", ""): 8.0,
            ("performance_schema", "statement_cpu_s_per_s", ""): 0.4,
            ("performance_schema", "wait_s_per_s", "file_data"): 0.1,
            ("performance_schema", "wait_s_per_s", "file_redo"): 0.2,
            ("innodb", "checkpoint_age_ratio", ""): since(0.5, 0.88),
            ("innodb", "os_log_written_mib_per_s", ""): 2.0,
            ("diskstats", "reads_per_s", "sda"): 10.0,
            ("diskstats", "writes_per_s", "sda"): since(800.0, 3000.0),
            ("diskstats", "r_await_ms", "sda"): 0.6,
            ("diskstats", "w_await_ms", "sda"): since(0.6, 0.9),
            ("diskstats", "util_ratio", "sda"): since(0.3, 0.8),
            ("cpu", "user_ratio", ""): 0.2,
            ("cpu", "system_ratio", ""): 0.05,
        },
        variables={"innodb_redo_log_capacity": str(100 << 20)},
    )
    names = [item.cause for item in result.findings]
    assert names[:1] == ["redo.checkpoint_stall"]
    assert not any(name.startswith("storage.") for name in names)


def test_what_makes_what_is_data() -> None:
    assert {name: set(item.effect_of) for name, item in CAUSES.items() if item.effect_of} == {
        "host.io_wait": {"host.io_limit", "interference.backup", "interference.io"},
        "cpu.server_saturated": {"memory.reclaim"},
        "server.stall": {"interference.io", "interference.backup", "lock.metadata_contention"},
        "storage.stall": {"interference.io", "interference.backup"},
    }
