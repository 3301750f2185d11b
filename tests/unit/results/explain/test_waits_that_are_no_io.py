"""Operations that wait for something else than the device: a CPU quota, a paused server, a log on another device.

Constant series with one thing changed; the figures are literals.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from volbench.core.records.named_metrics import (
    CPU,
    CgroupCpu,
    Client,
    Diskstats,
    Innodb,
    NamedMetric,
    PerformanceSchema,
    Tasks,
)
from volbench.results.explain.case import Case
from volbench.results.explain.causes import RULES
from volbench.results.stats.grid import Floats, Grid
from volbench.results.store.series import SeriesKey

PS = PerformanceSchema
SECONDS = 60
UNEVEN = np.where(np.arange(SECONDS) % 3, 0.7, 1.6)
"""No meter lets operations through so unevenly."""
Series = dict[tuple[NamedMetric, str], float | Floats]


def case_of(series: Series, **facts: Any) -> Case:
    columns = {
        SeriesKey(source=metric.source, metric=metric.name, entity=entity): np.broadcast_to(
            np.asarray(value, dtype=np.float64), (SECONDS,)
        ).copy()
        for (metric, entity), value in series.items()
    }
    grid = Grid(t_s=np.arange(1.0, SECONDS + 1), width_s=1.0, columns=columns)
    return Case(name="step", grid=grid, cell_grid=grid, **{"threads": 10, "cpus": 8, **facts})


def named(case: Case, *causes: str) -> list[str]:
    """Which of some causes the rules name that can name them."""
    rules = [rule for rule in RULES if not rule.causes.isdisjoint(causes)]
    return [finding.cause for rule in rules for finding in rule.find(case) if finding.cause in causes]


def reads(rate: float | Floats, in_server_ms: float, at_device_ms: float, statements: float | Floats) -> Series:
    """Reads of data files past the page cache: their time in the server, and at the device."""
    spent = np.asarray(rate) * in_server_ms / 1000
    return {
        (PS.statement_s_per_s, ""): statements,
        (PS.wait_s_per_s, "file_data"): spent,
        (PS.file_read_s_per_s, "data"): spent,
        (PS.file_reads_per_s, "data"): rate,
        (Diskstats.reads_per_s, "sda"): rate,
        (Diskstats.writes_per_s, "sda"): 0.0,
        (Diskstats.read_mib_per_s, "sda"): np.asarray(rate) / 64,
        (Diskstats.r_await_ms, "sda"): at_device_ms,
        (Diskstats.aqu_sz, "sda"): np.asarray(rate) * at_device_ms / 1000,
        (Diskstats.util_ratio, "sda"): np.minimum(1.0, np.asarray(rate) * at_device_ms / 1000),
        (CPU.user_ratio, ""): 0.2,
        (CPU.system_ratio, ""): 0.05,
    }


@pytest.mark.parametrize(("throttled", "pool"), [(0.49, True), (0.51, False)])
def test_a_quotas_waits_are_no_work_for_a_larger_pool(throttled: float, pool: bool) -> None:
    """Reads of 2 ms take 80 % of the time, and are at the device for 0.3 ms."""
    series = reads(4000.0 * UNEVEN, 2.0, 0.3, 10.0 * UNEVEN) | {
        (Innodb.buffer_pool_miss_ratio, ""): 0.1,
        (Innodb.pages_read_per_s, ""): 4000.0,
        (CgroupCpu.throttled_ratio, "server"): throttled,
    }
    case = case_of(series, variables={"innodb_buffer_pool_size": str(64 << 20)})
    assert named(case, "memory.buffer_pool_small") == ["memory.buffer_pool_small"] * pool


@pytest.mark.parametrize(
    ("throttled", "used", "wait"),
    [(0.49, 5.0, True), (0.51, 5.0, False), (0.51, 1.0, True)],
)
def test_a_quotas_waits_are_no_wait_above_the_volume(throttled: float, used: float, wait: bool) -> None:
    """Reads of 20 ms, of which the device has 0.3, take 60 % of the time; tasks are at CPUs in 50 or 10 % of it."""
    series = reads(300.0 * UNEVEN, 20.0, 0.3, 10.0 * UNEVEN) | {
        (CgroupCpu.throttled_ratio, "server"): throttled,
        (Tasks.cpus_used, "server"): 0.4,
        (Tasks.run_delay_s_per_s, "server"): used - 0.4,
    }
    case = case_of(series, variables={"innodb_flush_method": "O_DIRECT"})
    assert named(case, "host.io_wait") == ["host.io_wait"] * wait


STOPPED = slice(28, 31)


def paused(each_ms: float, asked: float | None) -> Case:
    """Twenty transactions a second, of a read each; for 3 s nothing at all, then all go on."""
    rate = 20.0 * UNEVEN
    series = reads(rate, each_ms, 0.5, rate * (each_ms + 1) / 1000)
    tps, slowest = rate.copy(), np.full(SECONDS, 2 * each_ms)
    for key in (PS.statement_s_per_s, PS.wait_s_per_s, PS.file_read_s_per_s):
        (entity,) = (entity for metric, entity in series if metric == key)
        spent = np.array(series[key, entity])
        spent[STOPPED] = 0.0
        spent[31] += 24.0
        series[key, entity] = spent
    tps[STOPPED], slowest[31] = 0.0, 3000.0
    done = np.where(tps > 0, rate, 0.0)
    series |= {
        (Client.tps, ""): tps,
        (Client.latency_ms_max, ""): slowest,
        (PS.file_reads_per_s, "data"): done,
        (Diskstats.reads_per_s, "sda"): done,
        (Diskstats.aqu_sz, "sda"): done * 0.0005,
        (Diskstats.util_ratio, "sda"): done * 0.0005,
    }
    return case_of(series, threads=8, rate=asked, variables={"innodb_flush_method": "O_DIRECT"})


@pytest.mark.parametrize(("each_ms", "wait"), [(0.5, False), (20.0, True)])
def test_reads_that_are_long_while_the_server_is_paused_are_no_wait_above_the_volume(
    each_ms: float, wait: bool
) -> None:
    """Reads that ended with the pause have nearly all of the time; else they are as long as at the device."""
    case = paused(each_ms, 20.0)
    assert named(case, "server.stall") == ["server.stall"]
    assert named(case, "host.io_wait") == ["host.io_wait"] * wait


@pytest.mark.parametrize(("rate", "share"), [(20.0, 0.92), (None, 0.05)])
def test_a_pause_has_the_part_of_the_clients_time_that_they_spent_in_it(rate: float | None, share: float) -> None:
    """A pause of 3 s in a minute: clients with a rate of their own are hardly at anything else, a loop's are."""
    (stand,) = (rule for rule in RULES if rule.name == "all clients stand")
    (finding,) = stand.find(paused(0.5, rate))
    assert finding.share == pytest.approx(share, abs=0.03)


def syncs_of_logs(writes: float, write_ms: float) -> Case:
    """The binary log is synced 400 times a second, 10 ms each; this device writes so often."""
    series: Series = {
        (PS.statement_s_per_s, ""): 10.0,
        (PS.wait_s_per_s, "file_binlog"): 4.0,
        (PS.file_syncs_per_s, "binlog"): 400.0,
        (PS.file_sync_s_per_s, "binlog"): 4.0,
        (PS.file_sync_ms, "binlog"): 10.0,
        (Diskstats.reads_per_s, "sda"): 10.0,
        (Diskstats.writes_per_s, "sda"): writes * UNEVEN,
        (Diskstats.r_await_ms, "sda"): 0.2,
        (Diskstats.w_await_ms, "sda"): write_ms,
        (Diskstats.aqu_sz, "sda"): writes * UNEVEN * write_ms / 1000,
        (CPU.user_ratio, ""): 0.2,
        (CPU.system_ratio, ""): 0.05,
    }
    return case_of(series)


@pytest.mark.parametrize(("writes", "elsewhere"), [(99.0, True), (101.0, False)])
@pytest.mark.parametrize(("cause", "write_ms"), [("host.io_wait", 0.2), ("storage.sync_latency", 3.0)])
def test_syncs_of_a_log_that_this_device_does_not_write_say_little_of_it(
    cause: str, write_ms: float, writes: float, elsewhere: bool
) -> None:
    """No mount option states that the log has another device: one write for four syncs is none of its writes."""
    case = syncs_of_logs(writes, write_ms)
    rules = [rule for rule in RULES if cause in rule.causes]
    (finding,) = (item for rule in rules for item in rule.find(case) if item.cause == cause)
    assert finding.one_of_two is elsewhere
    texts = f"{finding.advice} {' '.join(piece.text for piece in finding.evidence)}"
    assert ("synced 400 times a second and the device writes 99 times" in texts) is elsewhere
    assert not (elsewhere and finding.volume_advice)
