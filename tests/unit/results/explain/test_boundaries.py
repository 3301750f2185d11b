"""Figures that decide, each from just below and just above: literals, so that a figure that changes is noticed.

Steps are constant series of 30 seconds; what a case does not mention is absent.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from constant_steps import MIB, PS, SECONDS, Series, Value, case_of, disk, reads_of, statements, syncs_of

from volbench.core.records.named_metrics import (
    CPU,
    PSI,
    CgroupCpu,
    Client,
    Diskstats,
    Innodb,
    RoundTrip,
)
from volbench.results.explain.case_input import ConcurrentActivity
from volbench.results.explain.causes import findings_of_rules
from volbench.results.explain.evidence.device import Device
from volbench.results.explain.evidence.plateau_checks import (
    PlateauCheck,
    absorption_check,
    compensation,
    elasticity_check,
    exceeded_check,
    inflation_check,
)
from volbench.results.explain.evidence.stalls import Stall, without_stalls
from volbench.results.explain.rules.advice import pool_text
from volbench.results.explain.rules.host.above_device import limit_met
from volbench.results.stats.grid import Grid


def finds(series: Series, **facts: Any) -> set[str]:
    """What rules find, each by itself."""
    case = case_of(series, **facts)
    return {finding.cause for finding in findings_of_rules({"volume": case, "step": case})}


@pytest.mark.parametrize(("each_ms", "slow"), [(2.4, False), (2.6, True)])
def test_a_read_is_slow_from_two_and_a_half_ms_on(each_ms: float, slow: bool) -> None:
    assert ("storage.read_latency" in finds(reads_of(0.6, each_ms))) is slow


@pytest.mark.parametrize(("each_ms", "slow"), [(3.8, False), (4.2, True)])
def test_an_fsync_is_slow_from_four_ms_on(each_ms: float, slow: bool) -> None:
    assert ("storage.sync_latency" in finds(syncs_of(0.6, each_ms))) is slow


@pytest.mark.parametrize(("share", "named"), [(0.28, False), (0.32, True)])
def test_waits_for_files_matter_from_three_tenths_on(share: float, named: bool) -> None:
    assert ("storage.read_latency" in finds(reads_of(share, 10.0))) is named


@pytest.mark.parametrize(("share", "named"), [(0.14, False), (0.16, True)])
def test_reads_matter_from_fifteen_per_cent_on(share: float, named: bool) -> None:
    """Where waits for all files are enough."""
    series = {**reads_of(share, 10.0), (PS.wait_s_per_s, "file_redo"): 0.3 * 8.0}
    assert ("storage.read_latency" in finds(series)) is named


def few(even: bool = False, /, **changed: Value) -> Series:
    """A volume that is slow at few operations for the last third of a step; at an uneven rate, as no meter has."""
    late = np.arange(SECONDS) >= 20
    figures: dict[str, Any] = {"reads": 50.0, "r_await": 200.0, "util_ratio": 0.9, "read_mib_per_s": 1.0, **changed}
    if not even and figures["reads"] >= 20:
        uneven = np.array([1.0, 0.8, 0.9, 0.7])[np.arange(SECONDS) % 4]
        figures |= {name: figures[name] * uneven for name in ("reads", "read_mib_per_s")}
    before = {"reads": 50.0, "r_await": changed.get("before_ms", 2.0), "util_ratio": 0.1, "read_mib_per_s": 1.0}
    return disk(**{name: np.where(late, figures[name], before[name]) for name in before})


def before_and_after(series: Series) -> bool:
    """Whether the volume is found slow at few operations."""
    case = case_of(series)
    return any(
        finding.rule == "slow at few operations" for finding in findings_of_rules({"volume": case, "step": case})
    )


@pytest.mark.parametrize(
    ("changed", "slow"),
    [
        ({"r_await": 48.0}, False),
        ({"r_await": 52.0}, True),
        ({"util_ratio": 0.18}, False),
        ({"util_ratio": 0.22}, True),
        ({"reads": 78.0}, False),
        ({"reads": 72.0}, True),
        ({"reads": 2.8}, False),
        ({"reads": 3.2}, True),
        ({"read_mib_per_s": 8.4}, False),
        ({"read_mib_per_s": 7.6}, True),
    ],
)
def test_slow_at_few_operations(changed: dict[str, Value], slow: bool) -> None:
    """From 50 ms on at a fifth of the time busy, with at most 75 operations and 8 MiB a second, and 30 in all."""
    assert before_and_after(few(**changed)) is slow


@pytest.mark.parametrize(("reads", "slow"), [(28.0, True), (32.0, False)])
def test_a_rate_as_even_as_a_meter_is_a_limit_however_low(reads: float, slow: bool) -> None:
    """QEMU's throttle at 40 and 80 IOPS was called a broken volume; below 30 operations whole numbers decide."""
    assert before_and_after(few(True, reads=reads)) is slow


@pytest.mark.parametrize(("before_ms", "decided_by"), [(44.0, "level"), (36.0, "before and after")])
def test_five_times_as_slow_is_a_change(before_ms: float, decided_by: str) -> None:
    case = case_of(few(before_ms=before_ms))
    (slow,) = (
        finding for finding in findings_of_rules({"volume": case}) if finding.rule == "slow at few operations"
    )
    assert slow.decided_by == decided_by


@pytest.mark.parametrize(
    ("busy", "waited", "bound"), [(0.88, 0.9, False), (0.92, 0.9, True), (0.99, 0.45, False), (0.99, 0.55, True)]
)
def test_cpus_are_saturated(busy: float, waited: float, bound: bool) -> None:
    """At nine tenths, and where tasks wait for one half of the time."""
    series: Series = {CPU.user_ratio: busy, CPU.system_ratio: 0.0, PSI.cpu_some_ratio: waited}
    assert case_of(series).cpu_bound is bound


@pytest.mark.parametrize(("cpu_share", "named"), [(0.46, False), (0.54, True)])
def test_cpus_are_the_cause_from_half_of_the_time_on(cpu_share: float, named: bool) -> None:
    series = {**statements(file_data=1 - cpu_share), CPU.user_ratio: 0.99, CPU.system_ratio: 0.0}
    assert ("cpu.server_saturated" in finds(series)) is named


@pytest.mark.parametrize(("used", "named"), [(0.88, False), (0.92, True)])
def test_a_client_is_saturated_at_nine_tenths(used: float, named: bool) -> None:
    assert ("cpu.client_saturated" in finds({Client.tps: 1.0}, client_cpu_ratio=used)) is named


@pytest.mark.parametrize(("share", "named"), [(0.46, False), (0.54, True)])
def test_a_quota_holds_back_in_half_of_its_periods(share: float, named: bool) -> None:
    series: Series = {Client.tps: 1.0, (CgroupCpu.throttled_ratio, "client"): share}
    assert ("cpu.client_saturated" in finds(series)) is named


@pytest.mark.parametrize(("share", "named"), [(0.18, False), (0.22, True)])
def test_row_locks_from_a_fifth_of_statement_time_on(share: float, named: bool) -> None:
    series: Series = {**statements(), Innodb.row_lock_wait_s_per_s: share * 8.0, Innodb.row_lock_waits_per_s: 5.0}
    assert ("lock.row_contention" in finds(series)) is named


@pytest.mark.parametrize(("share", "named"), [(0.18, False), (0.22, True)])
def test_other_locks_from_a_fifth_of_statement_time_on(share: float, named: bool) -> None:
    assert ("lock.metadata_contention" in finds(statements(lock_metadata=share))) is named


@pytest.mark.parametrize(
    ("missed", "share", "named"), [(0.009, 0.7, False), (0.011, 0.7, True), (0.05, 0.46, False), (0.05, 0.54, True)]
)
def test_a_pool_is_small(missed: float, share: float, named: bool) -> None:
    """From one page in a hundred on, where reads are half of statement time."""
    series: Series = {
        **reads_of(share, 1.0),
        Innodb.buffer_pool_miss_ratio: missed,
        Innodb.pages_read_per_s: 5000.0,
    }
    variables = {"innodb_buffer_pool_size": str(64 * MIB), "innodb_page_size": "16384"}
    assert ("memory.buffer_pool_small" in finds(series, variables=variables)) is named
    for kind in ("cold_read", "dump", "restored"):
        assert "memory.buffer_pool_small" not in finds(series, variables=variables, kind=kind), "read once"


@pytest.mark.parametrize(("age", "named"), [(0.66, False), (0.74, True)])
def test_a_redo_log_is_full(age: float, named: bool) -> None:
    series: Series = {
        **statements(),
        Innodb.checkpoint_age_ratio: age,
        Innodb.os_log_written_mib_per_s: 1.0,
        CPU.user_ratio: 0.1,
        CPU.system_ratio: 0.0,
    }
    variables = {"innodb_redo_log_capacity": str(100 * MIB)}
    assert ("redo.checkpoint_stall" in finds(series, variables=variables)) is named


@pytest.mark.parametrize(("during", "named"), [(92.0, False), (88.0, True)])
def test_what_ran_meanwhile_took_a_tenth(during: float, named: bool) -> None:
    late = np.arange(SECONDS) >= 15
    series: Series = {Client.tps: np.where(late, during, 100.0) + 0.1 * (np.arange(SECONDS) % 3)}
    backup = ConcurrentActivity(name="mysqldump", t0_s=15.0, t1_s=30.0)
    assert ("interference.backup" in finds(series, concurrent=(backup,))) is named


@pytest.mark.parametrize(("seconds", "named"), [(2, False), (4, True)])
def test_what_ran_meanwhile_has_three_intervals(seconds: int, named: bool) -> None:
    late = np.arange(SECONDS) >= SECONDS - seconds
    series: Series = {Client.tps: np.where(late, 20.0, 100.0) + 0.1 * (np.arange(SECONDS) % 3)}
    backup = ConcurrentActivity(name="mysqldump", t0_s=float(SECONDS - seconds), t1_s=float(SECONDS))
    assert ("interference.backup" in finds(series, concurrent=(backup,))) is named


@pytest.mark.parametrize(("shortest_ms", "named"), [(0.45, False), (0.55, True)])
def test_a_server_is_far_away_from_half_a_millisecond_on(shortest_ms: float, named: bool) -> None:
    series: Series = {
        PS.statements_per_s: 10_000.0,
        PS.statement_s_per_s: 1.0,
        Client.tps: 500.0,
        Client.latency_ms_p50: 16.0,
        RoundTrip.round_trip_ms_min: shortest_ms,
        RoundTrip.round_trip_ms: shortest_ms,
        RoundTrip.round_trip_ms_max: shortest_ms,
        RoundTrip.round_trips_per_s: 10.0,
    }
    assert ("network.latency" in finds(series)) is named


@pytest.mark.parametrize(("share", "holds"), [(0.18, None), (0.22, True), (0.022, None), (0.018, False)])
def test_a_limit_is_counted_as_exceeded(share: float, holds: bool | None) -> None:
    assert exceeded_check(np.full(5, share)).holds is holds


@pytest.mark.parametrize(("slope", "holds"), [(0.33, True), (0.37, None), (0.63, None), (0.67, False)])
def test_a_longer_queue_brings_nothing(slope: float, holds: bool | None) -> None:
    assert elasticity_check(slope).holds is holds


@pytest.mark.parametrize(("times", "holds"), [(3.1, True), (2.9, None), (1.6, None), (1.4, False)])
def test_operations_wait_longer_than_without_a_queue(times: float, holds: bool | None) -> None:
    assert inflation_check(times, 1.0).holds is holds


@pytest.mark.parametrize(("deviation", "is_known"), [(2.8, False), (3.2, True)])
def test_a_mix_varies_enough_to_say_something(deviation: float, is_known: bool) -> None:
    """Three in a hundred of all operations."""
    reads = 50 + deviation * np.array([1, -1, 1, -1, 1, -1, 1, -1.0])
    assert (compensation(reads, 100 - reads) is not None) is is_known


def absorbed(value: float, queue: float, *, cpu_bound: bool = False) -> PlateauCheck:
    """A rate whose logarithm varies `value` times as much as that of the time."""
    wave = np.array([1, -1, 1, -1, 1, -1, 1, -1, 1, -1.0]) * 0.2
    time, rate = wave, np.sqrt(value) * np.roll(np.repeat(wave[:5], 2), 1)
    return absorption_check(np.exp(rate) * 100, np.exp(time + rate) * queue, cpu_bound=cpu_bound)


@pytest.mark.parametrize(("queue", "holds"), [(5.0, None), (7.5, True)])
def test_a_long_queue_is_the_volumes_on_saturated_cpus(queue: float, holds: bool | None) -> None:
    assert absorbed(0.0, queue, cpu_bound=True).holds is holds


@pytest.mark.parametrize(("spread", "holds"), [(0.022, None), (0.028, False)])
def test_a_queue_that_hardly_varies_refutes_no_limit(spread: float, holds: bool | None) -> None:
    """The rate follows it, and operations take many times as long as without a queue: a fixed depth, or a limit."""
    wave = np.array([1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 0.5, -0.5]) * spread / 1.4826
    check = absorption_check(100 * np.exp(0.9 * wave), 5 * np.exp(wave), cpu_bound=False, inflated=True)
    assert check.holds is holds
    assert (check.value or 0.0) > 2.5


@pytest.mark.parametrize(("left", "count"), [(7, 30), (8, 8)])
def test_with_less_than_a_quarter_left_stalls_are_what_a_step_is(left: int, count: int) -> None:
    grid = Grid(t_s=np.arange(1.0, SECONDS + 1), width_s=1.0, columns={})
    assert len(without_stalls(grid, (Stall(t0_s=float(left), t1_s=30.0),))) == count


@pytest.mark.parametrize(("rate", "met"), [(0.90, False), (0.95, True)])
def test_a_configured_limit_is_met(rate: float, met: bool) -> None:
    assert bool(limit_met(np.full(5, 100 * rate), np.full(5, 100.0)).all()) is met


@pytest.mark.parametrize(("miss", "says"), [(0.3, False), (0.36, True)])
def test_a_bound_that_says_something(miss: float, says: bool) -> None:
    """A pool of 1 page miss in a hundred needs (1 - 0.01) / (1 - miss) times as much at least: 1.41 and 1.55."""
    assert ("at least" in pool_text(64 * MIB, miss)) is says


def test_the_bound_of_a_pool_is_for_one_miss_in_a_hundred() -> None:
    """0.99 / 0.5 of 100 MiB."""
    assert "For a miss rate of 1 % it needs at least 198 MiB" in pool_text(100 * MIB, 0.5)


def test_a_device_is_known() -> None:
    assert isinstance(case_of(disk()).device, Device)
    assert Diskstats.reads_per_s.source == "diskstats"
