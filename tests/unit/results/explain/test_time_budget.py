"""A transaction's time by piece: sums, derived pieces, and recordings of a throttled server."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from kernel_throttle import case_of as recorded

from volbench.results.explain.accounts.time_budget import (
    TimeBudget,
    sessions_by_piece,
    statement_budget,
    time_budget,
)
from volbench.results.explain.case import Case
from volbench.results.explain.case_input import ConcurrentActivity
from volbench.results.stats.grid import Grid
from volbench.results.store.series import SeriesKey

SECONDS, TPS = 10, 100.0
Values = dict[tuple[str, str, str], float]
COMMIT: Values = {
    ("performance_schema", "query_s_per_s", "COMMIT"): 1.2,
    ("performance_schema", "query_cpu_s_per_s", "COMMIT"): 0.1,
}
SERVER: Values = {
    ("client", "tps", ""): TPS,
    ("performance_schema", "statement_s_per_s", ""): 4.0,
    ("performance_schema", "wait_s_per_s", "file_data"): 1.0,
    ("performance_schema", "file_read_s_per_s", "data"): 1.0,
    ("performance_schema", "wait_s_per_s", "file_redo"): 0.2,
    ("performance_schema", "wait_s_per_s", "file_binlog"): 0.3,
    ("performance_schema", "wait_s_per_s", "binlog_group"): 0.0,
    ("innodb", "row_lock_wait_s_per_s", ""): 0.4,
}


def case_of(values: Values, **known_values: object) -> Case:
    columns = {
        SeriesKey(source=source, metric=metric, entity=entity): np.full(SECONDS, value)
        for (source, metric, entity), value in values.items()
    }
    grid = Grid(t_s=np.arange(1.0, SECONDS + 1), width_s=1.0, columns=columns)
    return Case(name="load", grid=grid, cell_grid=grid, threads=8, cpus=2, **known_values)  # type: ignore[arg-type]


def budget_of(values: Values) -> TimeBudget:
    budget = time_budget(case_of(values))
    assert budget is not None
    return budget


def test_pieces_are_milliseconds_of_a_transaction_and_sum_to_its_statements() -> None:
    budget = budget_of(SERVER)
    assert budget.statement_ms == pytest.approx(40.0)  # 4 s of statements a second, 100 transactions
    assert sum(budget.pieces.values()) == pytest.approx(budget.statement_ms)
    assert budget.pieces["data_reads"] == pytest.approx(10.0)
    assert budget.pieces["row_locks"] == pytest.approx(4.0)
    assert budget.pieces["unaccounted"] == pytest.approx(21.0)


def test_a_statements_pieces_sum_to_its_time_also_beside_a_backup() -> None:
    neighbour = (ConcurrentActivity(name="mysqldump", t0_s=0.0, t1_s=SECONDS),)
    rate: Values = {("performance_schema", "statements_per_s", ""): 2000.0}
    budget = statement_budget(case_of(SERVER | rate, concurrent=neighbour))
    assert budget is not None
    assert budget.statement_ms == pytest.approx(2.0)  # 4 s of statements a second, 2,000 statements
    assert sum(budget.pieces.values()) == pytest.approx(2.0)
    assert statement_budget(case_of(SERVER)) is None


def test_sessions_over_time_are_the_budget() -> None:
    """4 s of statements in each second: four sessions are in a statement, one of them in a read."""
    case = case_of(SERVER | COMMIT)
    pieces = sessions_by_piece(case, time_budget(case))
    assert sum(pieces.values()) == pytest.approx(np.full(SECONDS, 4.0))
    assert pieces["data_reads"] == pytest.approx(np.full(SECONDS, 1.0))
    assert pieces["commit_log"] == pytest.approx(np.full(SECONDS, 0.6))
    assert "binlog_group" not in pieces
    assert sessions_by_piece(case_of({("client", "tps", ""): TPS}), None) == {}


@pytest.mark.parametrize("name", ["device-read-800", "device-write-300", "clean"])
def test_sessions_of_a_recorded_run_have_the_shares_of_its_budget(name: str) -> None:
    case = recorded(name)
    budget = time_budget(case)
    assert budget is not None
    pieces = sessions_by_piece(case, budget)
    total_s = sum(float(np.nansum(column)) for column in pieces.values())
    for piece, ms in budget.pieces.items():
        assert np.nansum(pieces[piece]) / total_s == pytest.approx(ms / budget.statement_ms, abs=0.02), piece


def test_an_interval_without_statement_times_has_no_sessions() -> None:
    case = case_of(SERVER)
    key = SeriesKey(source="performance_schema", metric="statement_s_per_s", entity="")
    case.grid.columns[key][3] = np.nan
    assert all(np.isnan(column[3]) for column in sessions_by_piece(case, None).values())


def test_commit_time_that_no_instrument_shows_is_the_wait_for_the_redo_log() -> None:
    budget = budget_of(SERVER | COMMIT)
    # 1.2 s in COMMIT, of which 0.1 s CPU, 0.2 s redo and 0.3 s binary log have instruments.
    assert budget.pieces["commit_log"] == pytest.approx(6.0)
    assert sum(budget.pieces.values()) == pytest.approx(budget.statement_ms)


def test_waiting_for_a_cpu_never_exceeds_what_is_left() -> None:
    busy = SERVER | COMMIT | {("tasks", "run_delay_s_per_s", "cell"): 50.0}
    budget = budget_of(busy)
    assert "unaccounted" not in budget.pieces
    assert sum(budget.pieces.values()) == pytest.approx(budget.statement_ms)


def test_statements_of_a_backup_are_not_the_loads() -> None:
    neighbour = (ConcurrentActivity(name="mysqldump", t0_s=2.0, t1_s=5.0),)
    assert time_budget(case_of(SERVER, concurrent=neighbour)) is None


def test_without_statement_times_there_is_no_budget() -> None:
    assert time_budget(case_of({("client", "tps", ""): TPS})) is None
    assert time_budget(case_of(SERVER | {("client", "tps", ""): 0.0})) is None


DEVICE: Values = {
    ("diskstats", "reads_per_s", "nvme1n1"): 500.0,
    ("diskstats", "writes_per_s", "nvme1n1"): 1.0,
    ("diskstats", "r_await_ms", "nvme1n1"): 0.4,
    ("performance_schema", "file_reads_per_s", "data"): 500.0,
}


def test_a_read_that_waits_for_a_cpu_is_no_wait_for_the_device() -> None:
    """The server's reads are under way 1 s a second, the device's 0.2 s; processes waited 3 s for CPUs."""
    budget = budget_of(SERVER | DEVICE | {("tasks", "run_delay_s_per_s", "cell"): 3.0})
    # 2.1 s are in no wait that is seen, so 0.9 s of the delay are left; 0.8 s of the reads are above the device.
    assert budget.pieces["data_reads"] == pytest.approx(2.0)
    assert budget.pieces["cpu_queue"] == pytest.approx(29.0)
    assert sum(budget.pieces.values()) == pytest.approx(budget.statement_ms)


def test_a_read_that_is_held_above_the_device_stays_a_read() -> None:
    """A control group's limit: nobody waits for a CPU meanwhile."""
    budget = budget_of(SERVER | DEVICE | {("tasks", "run_delay_s_per_s", "cell"): 0.1})
    assert budget.pieces["data_reads"] == pytest.approx(10.0)


WRITES: Values = {
    ("innodb", "data_fsyncs_per_s", ""): 50.0,
    ("cpu", "user_ratio", ""): 0.2,
    ("cpu", "system_ratio", ""): 0.05,
}


def test_what_no_cpu_can_be_on_a_server_without_instruments_is_the_way_of_writes() -> None:
    """MariaDB: 2.3 of 4 s are no wait that is seen, and both CPUs were used for half a second."""
    bare = {key: value for key, value in SERVER.items() if key[2] not in ("file_redo", "binlog_group")}
    budget = budget_of(bare | WRITES)
    assert budget.pieces["write_path"] == pytest.approx(18.0)
    assert sum(budget.pieces.values()) == pytest.approx(budget.statement_ms)
    reading = budget_of(bare | WRITES | {("innodb", "data_fsyncs_per_s", ""): 0.0})
    assert "write_path" not in reading.pieces
    instrumented = budget_of(SERVER | WRITES)
    assert "write_path" not in instrumented.pieces


FULL: Values = {("innodb", "checkpoint_age_ratio", ""): 0.8}


def test_what_is_left_while_the_redo_log_is_full_is_waiting_for_its_checkpoint() -> None:
    """A redo log of 48 MiB: half of the extra time of updates was not accounted for."""
    budget = budget_of(SERVER | COMMIT | FULL)
    assert budget.pieces["checkpoint"] == pytest.approx(14.0)  # 21 ms but 1 of CPU and 6 of commits
    assert "unaccounted" not in budget.pieces
    assert sum(budget.pieces.values()) == pytest.approx(budget.statement_ms)
    assert "checkpoint" not in budget_of(SERVER | COMMIT | {("innodb", "checkpoint_age_ratio", ""): 0.6}).pieces
    waits: Values = {("innodb", "buffer_pool_wait_free_per_s", ""): 30.0}
    assert budget_of(SERVER | COMMIT | waits).pieces["checkpoint"] == pytest.approx(14.0)
    few: Values = {("innodb", "buffer_pool_wait_free_per_s", ""): 3.0}
    assert "checkpoint" not in budget_of(SERVER | COMMIT | few).pieces


def test_what_may_be_cpu_time_is_no_wait_for_a_checkpoint() -> None:
    """A server on another host: nobody knows its CPU time."""
    assert budget_of(SERVER | FULL).pieces["unaccounted"] == pytest.approx(21.0)
    used: Values = {("tasks", "cpus_used", "server"): 0.1}
    assert budget_of(SERVER | FULL | used).pieces["checkpoint"] == pytest.approx(20.0)


def test_a_log_that_is_full_while_hardly_any_time_is_left_is_no_wait() -> None:
    computes: Values = {("performance_schema", "query_cpu_s_per_s", "UPDATE"): 1.6}
    assert "checkpoint" not in budget_of(SERVER | COMMIT | FULL | computes).pieces


def test_a_redo_log_that_is_full_for_a_while_explains_that_while_only() -> None:
    case = case_of(SERVER | COMMIT | FULL)
    key = SeriesKey(source="innodb", metric="checkpoint_age_ratio", entity="")
    age = np.where(np.arange(SECONDS) < 4, 0.9, 0.2)
    case = replace(case, grid=Grid(t_s=case.grid.t_s, width_s=1.0, columns={**case.grid.columns, key: age}))
    budget = time_budget(case)
    assert budget is not None
    assert budget.pieces["checkpoint"] == pytest.approx(0.4 * 14.0)
    assert budget.pieces["unaccounted"] == pytest.approx(0.6 * 14.0)
    sessions = sessions_by_piece(case, budget)
    assert sum(sessions.values()) == pytest.approx(np.full(SECONDS, 4.0))
    assert sessions["checkpoint"] == pytest.approx(np.where(np.arange(SECONDS) < 4, 1.4, 0.0))


def test_a_server_without_cpu_times_of_statements_has_that_of_its_processes() -> None:
    """MariaDB: a report's statements were "waiting for a CPU (at most)" for what the server computed."""
    busy: Values = {("tasks", "cpus_used", "server"): 0.7, ("tasks", "run_delay_s_per_s", "cell"): 3.0}
    budget = budget_of(SERVER | busy)
    assert budget.pieces["cpu_server"] == pytest.approx(7.0)
    assert budget.pieces["cpu_queue"] == pytest.approx(14.0)  # 21 ms are in no wait that is seen
    assert sum(budget.pieces.values()) == pytest.approx(budget.statement_ms)
    known_names = budget_of(SERVER | busy | COMMIT)
    assert "cpu_server" not in known_names.pieces


def test_what_is_between_statements_stays_an_upper_bound() -> None:
    values = SERVER | ON_CPUS | {("tasks", "cpus_used", "server"): 0.4}
    assert budget_of(values).pieces["cpu_server"] == pytest.approx(4.0)
    assert budget_of(values).outside_pieces(80.0)["cpu_between"] == pytest.approx(35.0)


ON_CPUS: Values = {("tasks", "cpus_used", "cell"): 0.5, ("tasks", "run_delay_s_per_s", "cell"): 3.0}


def test_what_the_client_waits_for_between_statements_is_bounded_by_the_run_queue() -> None:
    """8 clients, 100 transactions a second: 80 ms each, 40 ms of them statements; 35 ms are on or before a CPU."""
    budget = budget_of(SERVER | ON_CPUS)
    beyond = budget.outside_pieces(80.0)
    assert beyond["cpu_between"] == pytest.approx(35.0)
    assert beyond["outside"] == pytest.approx(5.0)
    assert budget.statement_ms + sum(beyond.values()) == pytest.approx(80.0)
    assert budget.outside_pieces(39.0) == {}


def test_waiting_for_a_cpu_is_counted_once() -> None:
    """All 30 ms of waiting lie between statements: within them, nothing waits for a CPU any more."""
    assert "cpu_queue" not in budget_of(SERVER | ON_CPUS).pieces
    long = budget_of(SERVER | ON_CPUS | {("performance_schema", "statement_s_per_s", ""): 7.6})
    # 76 of 80 ms are statements; 5 ms of CPU time fill the rest, so that all waiting may be within them.
    assert long.pieces["cpu_queue"] == pytest.approx(30.0)
    assert long.outside_pieces(80.0)["cpu_between"] == pytest.approx(4.0)


def test_a_load_at_a_rate_waits_for_a_client_thread_first() -> None:
    """20 transactions wait on average, 100 a second: 200 ms each (Little's law)."""
    case = case_of(SERVER | ON_CPUS | {("client", "queue_length", ""): 20.0}, rate=100.0)
    budget = time_budget(case)
    assert budget is not None
    beyond = budget.outside_pieces(260.0)
    assert beyond["client_queue"] == pytest.approx(200.0)
    assert beyond["cpu_between"] == pytest.approx(20.0)
    assert "outside" not in beyond
