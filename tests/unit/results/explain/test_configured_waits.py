"""Waits that the server was told to make: each by its setting and a counter, none without time that it explains."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from kernel_throttle import case_of, with_columns

from volbench.results.explain.case import Case
from volbench.results.explain.findings import explain_case
from volbench.results.explain.rules.sleeps import CONFIGURED_WAIT, configured_waits, pool_waits

SET = {
    "group commit of MySQL": {"log_bin": "ON", "binlog_group_commit_sync_delay": "20000"},
    "group commit of MariaDB": {
        "log_bin": "ON",
        "binlog_commit_wait_usec": "20000",
        "binlog_commit_wait_count": "50",
    },
    "admission": {"innodb_thread_concurrency": "2"},
    "purge": {"innodb_max_purge_lag": "100", "innodb_max_purge_lag_delay": "20000"},
}


def waiting(variables: dict[str, str], *, unseen: bool = True, **columns: float) -> Case:
    """A real run whose 16 clients are in statements nearly all of the time, idle, and not waiting for files.

    Without `unseen`, their statements compute.
    """
    case = case_of("clean")
    grid = with_columns(
        case,
        {
            ("performance_schema", "statement_s_per_s", ""): 15.0,
            ("performance_schema", "statements_per_s", ""): 600.0,
            ("performance_schema", "wait_s_per_s", "file_data"): 0.1,
            ("performance_schema", "file_read_s_per_s", "data"): 0.1,
            ("performance_schema", "wait_s_per_s", "file_binlog"): 0.1,
            ("performance_schema", "file_syncs_per_s", "binlog"): 40.0,
            ("performance_schema", "file_sync_s_per_s", "binlog"): 0.1,
            ("innodb", "row_lock_wait_s_per_s", ""): 0.0,
            ("innodb", "commits_per_s", ""): 300.0,
            ("innodb", "history_list_length", ""): 5000.0,
            ("innodb", "threads_running", ""): 17.0,
            ("innodb", "checkpoint_age_ratio", ""): 0.1,
            ("tasks", "cpus_used", "server"): 0.2 if unseen else 15.0,
            ("tasks", "run_delay_s_per_s", "server"): 0.1,
            ("tasks", "cpus_used", "cell"): 0.3 if unseen else 15.0,
            ("tasks", "run_delay_s_per_s", "cell"): 0.1,
            ("cpu", "user_ratio", ""): 0.1,
            ("cpu", "system_ratio", ""): 0.05,
            **{("innodb", name, ""): value for name, value in columns.items()},
        },
    ).grid
    return replace(case, grid=grid, cell_grid=grid, variables={**case.variables, **variables})


@pytest.mark.parametrize("name", SET)
def test_the_setting_that_makes_the_wait_is_named_with_its_variable(name: str) -> None:
    case = waiting(SET[name])
    (finding,) = configured_waits(case)
    assert finding.cause == CONFIGURED_WAIT
    assert finding.evidence[0].metric in SET[name]
    assert explain_case(case).findings[0].cause == CONFIGURED_WAIT


@pytest.mark.parametrize("name", SET)
def test_a_setting_is_no_cause_where_statements_compute(name: str) -> None:
    assert not [*configured_waits(waiting(SET[name], unseen=False))]


def test_without_a_setting_nothing_is_named() -> None:
    assert not [*configured_waits(waiting({"log_bin": "ON", "innodb_thread_concurrency": "0"}))]


@pytest.mark.parametrize(
    ("variables", "columns"),
    [
        ({"log_bin": "OFF", "binlog_group_commit_sync_delay": "20000"}, {}),
        ({"log_bin": "ON", "binlog_group_commit_sync_delay": "50"}, {}),
        ({"log_bin": "ON", "binlog_commit_wait_usec": "20000", "binlog_commit_wait_count": "0"}, {}),
        ({"innodb_thread_concurrency": "64"}, {}),
        ({"innodb_max_purge_lag": "100000"}, {}),
        ({"innodb_max_purge_lag": "100", "innodb_max_purge_lag_delay": "20"}, {}),
    ],
)
def test_a_setting_that_cannot_make_the_wait_is_no_cause(
    variables: dict[str, str], columns: dict[str, float]
) -> None:
    assert not [*configured_waits(waiting(variables, unseen=True, **columns))]


@pytest.mark.parametrize(
    ("metric", "value", "named"),
    [
        ("semi_sync_wait_s_per_s", 9.0, True),
        ("semi_sync_wait_s_per_s", 1.0, False),
        ("flow_control_paused_ratio", 0.6, True),
        ("flow_control_paused_ratio", 0.1, False),
    ],
)
def test_waits_that_the_server_counts_need_no_setting(metric: str, value: float, named: bool) -> None:
    results = [*configured_waits(waiting({}, unseen=True, **{metric: value}))]
    assert [finding.decided_by for finding in results] == (["counted"] if named else [])
    assert not named or results[0].share == pytest.approx(np.clip(value / 15 if value > 1 else value, 0, 1))


POOL = {"thread_handling": "pool-of-threads", "thread_pool_max_threads": "6"}


@pytest.mark.parametrize(
    ("variables", "threads", "running", "named"),
    [
        (POOL, 24, 5.0, True),
        (POOL, 24, 4.4, False),
        (POOL, 24, 4.6, True),
        (POOL, 7, 5.0, False),
        (POOL, 8, 5.0, True),
        ({**POOL, "thread_handling": "one-thread-per-connection"}, 24, 5.0, False),
    ],
)
def test_clients_wait_for_a_thread_of_a_pool_that_is_full(
    variables: dict[str, str], threads: int, running: float, named: bool
) -> None:
    """Of 24 clients 18 wait before their statements, which no statement's time shows."""
    case = replace(waiting(variables, threads_running=running), threads=threads)
    results = [*pool_waits(case)]
    assert [finding.cause for finding in results] == ([CONFIGURED_WAIT] if named else [])
    assert not named or results[0].share == pytest.approx(1 - 6 / threads)


def test_a_load_with_a_rate_of_its_own_has_clients_that_do_not_ask() -> None:
    assert not [*pool_waits(replace(waiting(POOL, threads_running=6.0), threads=24, rate=50.0))]
