"""Who is acquitted on saturated CPUs, and who is not: figures of a harmless recorded run, and faults added to them.

The faults are constructed: what clients, server and device would show by Little's law. None was recorded.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from volbench.results.explain.case import Case
from volbench.results.explain.findings import explain_case
from volbench.results.explain.rules.host.syncs_on_cpus import short_sync
from volbench.results.stats.grid import Floats, Grid
from volbench.results.store.series import SeriesKey

SECONDS, CLIENTS = 20, 12
READS, SYNCS = 180.0, 15.0
Values = Mapping[tuple[str, str, str], float | Floats]


def step(
    *,
    read_ms: float = 0.17,
    write_ms: float = 1.2,
    flush_ms: float = 0.6,
    sync_ms: float = 8.1,
    wakeup_ms: float = 1.1,
    delay: float = 0.6,
    more: Values | None = None,
    **metrics: float,
) -> Case:
    """A load of 15 transactions a second that gets its rate, on two CPUs that others keep busy.

    Args:
        read_ms, write_ms, flush_ms: of the device.
        sync_ms: of an fsync of the binary log, as the server sees it.
        wakeup_ms: that a read waits between device and server.
        delay: seconds a second that tasks wait for a CPU.
        more: other columns.
        metrics: latencies of the step in ms.
    """
    read_s, sync_s = READS * (read_ms + wakeup_ms) / 1000, SYNCS * sync_ms / 1000
    values: dict[tuple[str, str, str], float | Floats] = {
        ("client", "tps", ""): 15.0,
        ("client", "latency_ms_p50", ""): 41.0,
        ("client", "latency_ms_p95", ""): 100.0,
        ("client", "latency_ms_max", ""): 140.0,
        ("cpu", "user_ratio", ""): 0.7,
        ("cpu", "system_ratio", ""): 0.3,
        ("psi", "cpu_some_ratio", ""): 1.0,
        ("tasks", "cpus_used", "cell"): 0.2,
        ("tasks", "run_delay_s_per_s", "cell"): delay,
        ("tasks", "cpus_used", "server"): 0.1,
        ("tasks", "run_delay_s_per_s", "server"): delay / 2,
        ("diskstats", "reads_per_s", "sda"): READS,
        ("diskstats", "writes_per_s", "sda"): 115.0,
        ("diskstats", "flushes_per_s", "sda"): 44.0,
        ("diskstats", "read_mib_per_s", "sda"): READS / 64,
        ("diskstats", "write_mib_per_s", "sda"): 1.0,
        ("diskstats", "r_await_ms", "sda"): read_ms,
        ("diskstats", "w_await_ms", "sda"): write_ms,
        ("diskstats", "f_await_ms", "sda"): flush_ms,
        ("diskstats", "aqu_sz", "sda"): (READS * read_ms + 115 * write_ms + 44 * flush_ms) / 1000,
        ("diskstats", "util_ratio", "sda"): 0.2,
        ("performance_schema", "statement_s_per_s", ""): read_s + sync_s + 0.16,
        ("performance_schema", "statement_cpu_s_per_s", ""): 0.1,
        ("performance_schema", "wait_s_per_s", "file_data"): read_s,
        ("performance_schema", "wait_s_per_s", "file_binlog"): sync_s,
        ("performance_schema", "wait_s_per_s", "file_redo"): 0.0,
        ("performance_schema", "file_reads_per_s", "data"): READS,
        ("performance_schema", "file_read_s_per_s", "data"): read_s,
        ("performance_schema", "file_read_mib_per_s", "data"): READS / 64,
        ("performance_schema", "file_writes_per_s", "data"): 20.0,
        ("performance_schema", "file_write_mib_per_s", "data"): 0.6,
        ("performance_schema", "file_syncs_per_s", "binlog"): SYNCS,
        ("performance_schema", "file_sync_s_per_s", "binlog"): sync_s,
        **(more or {}),
    }
    columns = {
        SeriesKey(source=source, metric=metric, entity=entity): np.full(SECONDS, value)
        for (source, metric, entity), value in values.items()
    }
    grid = Grid(t_s=np.arange(1.0, SECONDS + 1), width_s=1.0, columns=columns)
    latency = {"latency_ms_mean": 45.0, "latency_ms_p95": 103.0, "latency_ms_p99": 138.0, "latency_ms_max": 157.0}
    return Case(
        name="load",
        grid=grid,
        cell_grid=grid,
        threads=CLIENTS,
        rate=15.0,
        cpus=2,
        disk="sda",
        variables={"innodb_flush_method": "O_DIRECT"},
        latency_ms={**latency, **{f"latency_ms_{name}": value for name, value in metrics.items()}},
    )


def is_acquitted(case: Case) -> bool:
    return "none" in [finding.cause for finding in explain_case(case).findings]


def once(usual: float, second: float, at: int = 10) -> Floats:
    """A column with one other second."""
    values = np.full(SECONDS, usual)
    values[at] = second
    return values


def test_syncs_that_wait_for_cpus_alone_clear_the_volume() -> None:
    """An fsync of 8.1 ms, of which a write and a flush of the volume are 1.8: the rest is six waits for a CPU."""
    explained = explain_case(step())
    assert [finding.cause for finding in explained.findings] == ["none"]
    assert any("waiting for them" in piece.text for piece in explained.findings[0].evidence)


FAULTS = {
    "one read of a hundred takes 280 ms": step(read_ms=0.17 + 2.8, p95=330.0, p99=420.0, max=560.0),
    "six of a hundred reads take 45 ms": step(read_ms=0.94 * 0.17 + 2.7, p95=150.0, p99=190.0, max=230.0),
    "a stand of 0.7 s, once": step(more={("client", "latency_ms_max", ""): once(140.0, 740.0)}, max=740.0),
    "a second without an end": step(more={("client", "tps", ""): once(15.0, 0.0)}),
    "the log's writes take 3 ms": step(write_ms=3.0, sync_ms=14.0),
    "the log's flushes take 3 ms": step(write_ms=0.9, flush_ms=3.0, sync_ms=14.0),
    "the log is on a slow device of its own": step(sync_ms=13.0),
    "the log is on another device": step(more={("diskstats", "writes_per_s", "sda"): 25.0}),
    "tasks hardly waited for CPUs": step(delay=0.05),
    "p99 is many times what the pieces make": step(p99=520.0, max=540.0),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_no_fault_is_acquitted(fault: str) -> None:
    assert not is_acquitted(FAULTS[fault])


# Each figure that decides, just below and just above it.
@pytest.mark.parametrize(("sync_ms", "is_short"), [(10.5, True), (10.7, False)])
def test_eight_waits_for_a_cpu_are_the_most_that_an_fsync_has(sync_ms: float, is_short: bool) -> None:
    """1.8 ms of the volume and 8 times 1.1 ms are 10.6 ms."""
    assert (short_sync(step(sync_ms=sync_ms)) is not None) is is_short


@pytest.mark.parametrize(("write_ms", "is_short"), [(2.4, True), (2.6, False)])
def test_no_write_of_a_short_sync_is_slow(write_ms: float, is_short: bool) -> None:
    assert (short_sync(step(write_ms=write_ms)) is not None) is is_short


@pytest.mark.parametrize(("flush_ms", "is_short"), [(1.9, True), (2.1, False)])
def test_a_write_and_a_flush_of_a_short_sync_are_less_than_a_slow_sync(flush_ms: float, is_short: bool) -> None:
    """2.0 ms for a write: 4 ms together."""
    case = step(write_ms=2.0, flush_ms=flush_ms, sync_ms=10.4)
    assert (short_sync(case) is not None) is is_short


@pytest.mark.parametrize(("writes", "is_short"), [(26.0, False), (27.0, True)])
def test_the_device_writes_what_the_server_writes(writes: float, is_short: bool) -> None:
    """20 pages and 15 syncs a second: three quarters of them are 26.25 writes."""
    case = step(more={("diskstats", "writes_per_s", "sda"): writes})
    assert (short_sync(case) is not None) is is_short


@pytest.mark.parametrize(("reads", "is_short"), [(4.8, False), (5.2, True)])
def test_a_hundred_reads_say_what_a_wait_for_a_cpu_takes(reads: float, is_short: bool) -> None:
    more = {
        ("performance_schema", "file_reads_per_s", "data"): reads,
        ("performance_schema", "file_read_s_per_s", "data"): reads * 1.27 / 1000,
    }
    assert (short_sync(step(more=more)) is not None) is is_short


@pytest.mark.parametrize(("slowest_ms", "cleared"), [(490.0, True), (530.0, False)])
def test_a_slowest_transaction_of_half_a_second_that_no_piece_has_acquits_nothing(
    slowest_ms: float, cleared: bool
) -> None:
    """Transactions of 25 ms with one wait, 300 of them: the slowest takes some 160 ms."""
    assert is_acquitted(step(max=slowest_ms, mean=25.0, p95=70.0, p99=110.0)) is cleared


@pytest.mark.parametrize(("slowest_ms", "cleared"), [(560.0, True), (740.0, False)])
def test_a_slowest_transaction_counts_from_twice_what_the_pieces_rebuild(slowest_ms: float, cleared: bool) -> None:
    """Transactions of 50 ms with one wait: the slowest of 300 takes 320 ms."""
    assert is_acquitted(step(max=slowest_ms, mean=50.0)) is cleared
