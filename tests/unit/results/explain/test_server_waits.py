"""Causes in the server's own waits: opens that no filesystem counts, fsyncs that wait for a CPU or keep locks."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from volbench.results.explain.case import Case
from volbench.results.explain.findings import explain_case
from volbench.results.explain.rules import locks
from volbench.results.stats.grid import Grid
from volbench.results.store.series import SeriesKey

SECONDS = 30
Values = dict[tuple[str, str, str], float]
STATEMENTS: Values = {("client", "tps", ""): 100.0, ("performance_schema", "statement_s_per_s", ""): 10.0}
IDLE: Values = {
    ("cpu", "user_ratio", ""): 0.2,
    ("cpu", "system_ratio", ""): 0.05,
    ("psi", "cpu_some_ratio", ""): 0.0,
}
BUSY: Values = {
    ("cpu", "user_ratio", ""): 0.7,
    ("cpu", "system_ratio", ""): 0.3,
    ("psi", "cpu_some_ratio", ""): 0.9,
}


def case_of(values: Values) -> Case:
    noise = 1 + np.random.default_rng(1).normal(0, 0.02, SECONDS)
    columns = {
        SeriesKey(source=source, metric=metric, entity=entity): value * noise
        for (source, metric, entity), value in values.items()
    }
    grid = Grid(t_s=np.arange(1.0, SECONDS + 1), width_s=1.0, columns=columns)
    return Case(name="load", grid=grid, cell_grid=grid, kind="oltp", threads=10, cpus=2)


def opens(per_s: float, each_ms: float, fsyncs_per_s: float) -> Values:
    """Data files that are opened and closed all the time, as performance_schema's MISC has it; reads are short."""
    pfs, spent = "performance_schema", per_s * each_ms / 1000
    return {
        **STATEMENTS,
        **IDLE,
        (pfs, "file_syncs_per_s", "data"): per_s,
        (pfs, "file_sync_s_per_s", "data"): spent,
        (pfs, "file_read_s_per_s", "data"): 0.1,
        (pfs, "file_write_s_per_s", "data"): 0.0,
        (pfs, "wait_s_per_s", "file_data"): spent + 0.1,
        ("innodb", "data_fsyncs_per_s", ""): fsyncs_per_s,
    }


def syncs(sync_ms: float, volume_ms: float) -> Values:
    """Commits that wait for the binary log's fsync half of the time."""
    pfs = "performance_schema"
    return {
        **STATEMENTS,
        (pfs, "wait_s_per_s", "file_binlog"): 1.0,
        (pfs, "wait_s_per_s", "binlog_group"): 4.0,
        (pfs, "wait_s_per_s", "file_data"): 0.0,
        (pfs, "file_sync_ms", "binlog"): sync_ms,
        (pfs, "file_sync_ms", "redo"): sync_ms / 2,
        ("diskstats", "reads_per_s", "sda"): 1.0,
        ("diskstats", "writes_per_s", "sda"): 200.0,
        ("diskstats", "r_await_ms", "sda"): 0.5,
        ("diskstats", "w_await_ms", "sda"): volume_ms / 2,
        ("diskstats", "f_await_ms", "sda"): volume_ms / 2,
        ("diskstats", "aqu_sz", "sda"): 0.4,
    }


def hot_rows(sync_ms: float, *, syncing: float, waiting: float) -> Values:
    """Sessions that wait for the lock of a few rows, and those that commit, of ten in all."""
    pfs, volume = "performance_schema", syncs(sync_ms, sync_ms / 2)
    return {
        **volume,
        **IDLE,
        (pfs, "wait_s_per_s", "file_binlog"): syncing / 4,
        (pfs, "wait_s_per_s", "binlog_group"): 3 * syncing / 4,
        ("innodb", "row_lock_wait_s_per_s", ""): waiting,
        ("innodb", "row_lock_waits_per_s", ""): 50.0,
    }


def causes(values: Values) -> list[str]:
    return [finding.cause for finding in explain_case(case_of(values)).findings]


def test_opens_that_take_the_time_are_named_without_counters_of_the_filesystem() -> None:
    (result,) = explain_case(case_of(opens(150.0, 18.0, 0.0))).findings
    assert result.cause == "storage.metadata_latency"
    assert result.share == pytest.approx(0.27, abs=0.03)
    assert any("18" in row.text and "opens and closes" in row.text for row in result.evidence)


@pytest.mark.parametrize(
    "values",
    [opens(150.0, 18.0, 149.0), opens(150.0, 0.05, 0.0)],
    ids=["fsyncs, not opens", "opens that are short"],
)
def test_what_is_no_slow_open_is_not_called_one(values: Values) -> None:
    assert "storage.metadata_latency" not in causes(values)


def test_fsyncs_that_wait_for_a_cpu_are_no_fault_of_the_volume() -> None:
    """Of 12 ms the volume takes 3; other work fills the CPUs."""
    findings = explain_case(case_of({**syncs(12.0, 3.0), **BUSY})).findings
    assert [finding.cause for finding in findings] == ["cpu.server_saturated"]
    assert any("waiting for a CPU" in row.text for row in findings[0].evidence)


@pytest.mark.parametrize(
    "values",
    [{**syncs(12.0, 3.0), **IDLE}, {**syncs(12.0, 9.0), **BUSY}],
    ids=["CPUs are idle", "the volume is slow on busy CPUs too"],
)
def test_slow_fsyncs_are_the_volumes_where_cpus_do_not_explain_them(values: Values) -> None:
    assert causes(values) == ["storage.sync_latency"]


def test_slow_syncs_are_named_beside_the_lock_waits_that_they_make_longer() -> None:
    """A holder keeps its locks while it commits: those who wait for them wait for the sync."""
    explained = explain_case(case_of(hot_rows(18.0, syncing=2.4, waiting=7.0)))
    assert [finding.cause for finding in explained.findings] == ["lock.row_contention", "storage.sync_latency"]
    sync = explained.findings[1]
    assert sync.share == pytest.approx(0.24, abs=0.01)  # lock waits are told once, with the locks
    evidence = next(item for item in sync.evidence if item.metric == "holders_share")
    assert evidence.value == pytest.approx(0.8, abs=0.02)
    assert "2.4 sessions" in evidence.text


@pytest.mark.parametrize(
    "values",
    [
        hot_rows(1.5, syncing=2.4, waiting=7.0),
        hot_rows(18.0, syncing=0.05, waiting=9.9),
        hot_rows(18.0, syncing=1.4, waiting=7.0),
    ],
    ids=["syncs are fast", "holders are idle", "holders do something else for longer"],
)
def test_locks_alone_are_named_where_syncs_do_not_explain_the_holding(values: Values) -> None:
    assert causes(values) == ["lock.row_contention"]


def unseen_waits(*, syncing: float) -> Values:
    """Ten sessions of MariaDB, which shows no redo log and no group commits: nearly all of their time is unseen.

    One job at a time commits; its fsync takes 6 ms, and `syncing` of each second one is under way.
    """
    pfs = "performance_schema"
    return {
        **STATEMENTS,
        **IDLE,
        ("tasks", "cpus_used", "cell"): 0.1,
        ("tasks", "run_delay_s_per_s", "cell"): 0.0,
        (pfs, "wait_s_per_s", "file_data"): 0.0,
        (pfs, "wait_s_per_s", "file_binlog"): syncing,
        (pfs, "file_sync_ms", "binlog"): 6.0,
        (pfs, "file_sync_s_per_s", "binlog"): syncing,
        (pfs, "file_syncs_per_s", "binlog"): syncing / 0.006,
        ("innodb", "data_fsyncs_per_s", ""): syncing / 0.006,
    }


def test_unseen_time_is_no_commits_beyond_the_time_in_which_a_log_is_synced() -> None:
    """A lock of the application's own (GET_LOCK) holds the sessions; logs are synced in 6 % of the time."""
    assert causes(unseen_waits(syncing=0.03)) == []


def test_unseen_time_may_be_commits_where_a_log_is_synced_all_the_time() -> None:
    assert causes(unseen_waits(syncing=0.5)) == ["storage.sync_latency"]


def table_locks(seconds: float) -> Values:
    """Of ten sessions, those that wait for a table or a metadata lock; the rest of the time is theirs."""
    return {
        **STATEMENTS,
        **IDLE,
        ("performance_schema", "wait_s_per_s", "file_data"): 0.1,
        ("performance_schema", "wait_s_per_s", "lock_metadata"): seconds,
    }


def test_waits_for_metadata_locks_are_named() -> None:
    (result,) = explain_case(case_of(table_locks(8.0))).findings
    assert result.cause == "lock.metadata_contention"
    assert result.share == pytest.approx(0.8, abs=0.02)
    assert "performance_schema.metadata_locks" in result.advice


def test_a_few_waits_for_metadata_locks_are_no_cause() -> None:
    assert "lock.metadata_contention" not in causes(table_locks(1.0))


def beside_a_neighbour(*, queue_ms: float) -> Case:
    """A pool that is small, whose pages are read from a device that a neighbour reads as often.

    A read takes 1 ms, and `queue_ms` more in all but the first seconds, since the neighbour makes a queue.
    """
    pfs, disk = "performance_schema", "sda"
    values: Values = {
        **STATEMENTS,
        **IDLE,
        (pfs, "statement_s_per_s", ""): 2.0,
        (pfs, "wait_s_per_s", "file_data"): 1.4,
        (pfs, "file_reads_per_s", "data"): 700.0,
        (pfs, "file_read_s_per_s", "data"): 1.4,
        (pfs, "file_read_mib_per_s", "data"): 700 * 16 / 1024,
        ("innodb", "pages_read_per_s", ""): 700.0,
        ("innodb", "buffer_pool_miss_ratio", ""): 0.1,
        ("diskstats", "reads_per_s", disk): 1400.0,
        ("diskstats", "read_mib_per_s", disk): 1400 * 16 / 1024,
        ("diskstats", "writes_per_s", disk): 0.0,
        ("diskstats", "r_await_ms", disk): 1.0,
        ("diskstats", "aqu_sz", disk): 1.4,
    }
    case = case_of(values)
    late = np.arange(SECONDS) >= 5
    await_ms, in_flight = (
        SeriesKey(source="diskstats", metric=name, entity=disk) for name in ("r_await_ms", "aqu_sz")
    )
    columns = {**case.grid.columns}
    columns[await_ms] = columns[await_ms] + queue_ms * late
    columns[in_flight] = columns[in_flight] + 1.4 * queue_ms * late
    grid = dataclasses.replace(case.grid, columns=columns)
    variables = {"innodb_flush_method": "O_DIRECT", "innodb_buffer_pool_size": str(16 << 20)}
    return dataclasses.replace(case, grid=grid, cell_grid=grid, threads=2, variables=variables)


def test_a_neighbour_for_whom_nobody_waits_is_not_the_cause() -> None:
    """A read takes what it takes on an idle device: the other reads, half of all, cost this server nothing."""
    findings = explain_case(beside_a_neighbour(queue_ms=0.0)).findings
    assert findings[0].cause == "memory.buffer_pool_small"
    assert all((finding.share or 0.0) < 0.1 for finding in findings if finding.cause == "interference.io")


def test_a_neighbour_who_makes_a_queue_is_the_cause() -> None:
    assert explain_case(beside_a_neighbour(queue_ms=1.2)).findings[0].cause == "interference.io"


def test_a_neighbour_on_an_idle_device_is_not_the_cause_where_its_waiting_times_vary() -> None:
    """As recorded: MariaDB at a rate beside fio, 0.15 operations in flight, half of all reads are fio's.

    An operation takes three times its least now and then, and finds another one there in a seventh of the cases.
    """
    disk = "vda"
    recorded = {
        ("performance_schema", "statement_s_per_s", ""): [0.35, 0.32, 0.22, 0.21, 0.18, 0.21, 0.16, 0.28, 0.16],
        ("performance_schema", "wait_s_per_s", "file_data"): [0.29, 0.29, 0.19, 0.17, 0.14, 0.17, 0.12, 0.23, 0.11],
        ("performance_schema", "file_read_s_per_s", "data"): [0.29, 0.29, 0.19, 0.17, 0.14, 0.17, 0.12, 0.23, 0.11],
        ("performance_schema", "file_reads_per_s", "data"): [1267, 1402, 1318, 1366, 1366, 1342, 1339, 1405, 1384],
        ("performance_schema", "file_read_mib_per_s", "data"): [20, 22, 21, 21, 21, 21, 21, 22, 22],
        ("diskstats", "reads_per_s", disk): [2017, 2271, 2027, 2096, 2328, 2437, 2289, 2092, 2105],
        ("diskstats", "read_mib_per_s", disk): [31.3, 35.2, 32.8, 34.0, 33.3, 33.5, 37.6, 39.3, 34.8],
        ("diskstats", "writes_per_s", disk): [2, 2, 1, 1, 4, 1, 1, 350, 2904],
        ("diskstats", "discards_per_s", disk): [1098, 156, 1, 1, 896, 1370, 778, 7, 17],
        ("diskstats", "r_await_ms", disk): [0.026, 0.163, 0.024, 0.027, 0.04, 0.055, 0.049, 0.119, 0.038],
        ("diskstats", "aqu_sz", disk): [0.078, 0.375, 0.053, 0.059, 0.145, 0.201, 0.155, 5.94, 0.175],
        ("innodb", "pages_read_per_s", ""): [1267, 1402, 1318, 1366, 1366, 1342, 1339, 1405, 1384],
        ("innodb", "buffer_pool_miss_ratio", ""): [0.4] * 9,
    }
    columns = {SeriesKey(source=a, metric=b, entity=c): np.array(v, float) for (a, b, c), v in recorded.items()}
    grid = Grid(t_s=np.arange(1.0, 10.0), width_s=1.0, columns=columns)
    variables = {"innodb_flush_method": "O_DIRECT", "innodb_buffer_pool_size": str(6 << 20)}
    case = Case(
        name="load", grid=grid, cell_grid=grid, kind="oltp", threads=2, rate=1360, cpus=2, variables=variables
    )
    assert [finding.cause for finding in explain_case(case).findings] == ["memory.buffer_pool_small"]


def standing(metric: str, waiting: float, *, from_s: int, threads: int | None = 10) -> Case:
    """A load whose sessions wait for a lock from some second on, and none of whose waits ends."""
    case = case_of({**STATEMENTS, **IDLE, ("innodb", "threads_running", ""): 9.0})
    late = case.grid.t_s > from_s
    columns = dict(case.grid.columns)
    columns[SeriesKey(source="innodb", metric=metric)] = np.where(late, waiting, np.nan)
    for source, name in (("client", "tps"), ("performance_schema", "statement_s_per_s")):
        key = SeriesKey(source=source, metric=name)
        columns[key] = np.where(late, 0.0, columns[key])
    grid = dataclasses.replace(case.grid, columns=columns)
    return dataclasses.replace(case, grid=grid, cell_grid=grid, threads=threads)


@pytest.mark.parametrize(
    ("metric", "cause"),
    [
        ("metadata_lock_current_waits", "lock.metadata_contention"),
        ("row_lock_current_waits", "lock.row_contention"),
    ],
)
def test_a_lock_that_nobody_gets_is_named_with_its_time(metric: str, cause: str) -> None:
    """8 of 10 sessions wait in 18 of 30 seconds; their statements have not ended, so no statement time has them."""
    (first, *_) = explain_case(standing(metric, 8.0, from_s=12)).findings
    assert first.cause == cause
    assert first.share == pytest.approx(0.8 * 18 / 30, abs=0.01)
    assert first.window_s == pytest.approx((12.0, 30.0))


def test_sessions_of_an_observed_server_count_as_far_as_they_run() -> None:
    """No number of clients is known: 8 of 8 that run, less the one that asks, for 60 % of the time."""
    case = standing("metadata_lock_current_waits", 8.0, from_s=12, threads=None)
    shares = {finding.cause: finding.share for finding in explain_case(case).findings}
    assert shares["lock.metadata_contention"] == pytest.approx(0.6, abs=0.02)


@pytest.mark.parametrize(("waiting", "from_s"), [(1.0, 12), (8.0, 28)])
def test_few_or_short_waits_for_a_lock_are_no_cause(waiting: float, from_s: int) -> None:
    findings = explain_case(standing("metadata_lock_current_waits", waiting, from_s=from_s)).findings
    assert all(finding.cause != "lock.metadata_contention" for finding in findings)


def test_gaps_of_the_server_are_no_sessions() -> None:
    """The server answered for 6 of 30 s, and in all of them both sessions that ran waited."""
    case = standing("metadata_lock_current_waits", 2.0, from_s=24, threads=None)
    running = SeriesKey(source="innodb", metric="threads_running")
    columns = {**case.grid.columns, running: np.where(case.grid.t_s > 24, 3.0, np.nan)}
    gaps = dataclasses.replace(case, grid=dataclasses.replace(case.grid, columns=columns))
    (finding,) = locks.sessions_at_metadata(gaps)
    assert finding.share == pytest.approx(1.0)


@pytest.mark.parametrize("metric", ["metadata_lock_current_waits", "row_lock_current_waits"])
def test_waiting_sessions_are_a_share_of_the_clients_time_over_a_network_too(metric: str) -> None:
    """No statement ends meanwhile: those who wait are in statements, and not on the way."""
    case = standing(metric, 8.0, from_s=12)
    trips = {"round_trip_ms_min": 0.3, "round_trip_ms": 0.4, "round_trip_ms_max": 0.9, "round_trips_per_s": 10.0}
    columns = {
        SeriesKey(source="round_trip", metric=name): np.full(SECONDS, value) for name, value in trips.items()
    }
    columns[SeriesKey(source="performance_schema", metric="statements_per_s")] = np.full(SECONDS, 500.0)
    grid = dataclasses.replace(case.grid, columns={**case.grid.columns, **columns})
    (first, *_) = explain_case(dataclasses.replace(case, grid=grid, cell_grid=grid)).findings
    assert first.share == pytest.approx(0.48, abs=0.01)


@pytest.mark.parametrize("metric", ["metadata_lock_current_waits", "row_lock_current_waits"])
def test_a_lock_that_nobody_gets_explains_why_the_load_stands_still(metric: str) -> None:
    findings = explain_case(standing(metric, 8.0, from_s=18)).findings
    assert all(row.metric != "unexplained_s" for finding in findings for row in finding.evidence)
