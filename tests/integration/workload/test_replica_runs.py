"""Runs with a replica step: what fails one, its message, and that nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest
from live_run import DOCKER_IF_SLOW, FINISHED
from live_run import Bench as Run
from supervised_engine import LOCAL_FLAVOR

from volbench.machine.engine.connection import account_from, connection, read_option_file
from volbench.measure.workload.replica.source import DIRECTORY

SUITE = """
schema: 2
name: replica
engine: {flavor: any, config: {innodb_buffer_pool_size: 32M}}
dataset: {tables: 1, rows: 2000}
steps:
  - {kind: replica, name: r, test: oltp_insert, rate: 100, threads: 2, warmup: 1s, duration: 40s, pause: 3s}
limits: {foreign_iops: 1000000, foreign_cpu: 100%, cpu_steal: 100%, missed_samples: 90%}
sampling: {interval: 500ms}
repeats: 1
replacements: 0
"""


def start(run: Run, suite: str) -> subprocess.Popen[bytes]:
    """`volbench run` of a suite on one volume, in memory."""
    run.volumes.popitem()
    ((name, path),) = run.volumes.items()
    file = run.root / "replica.yaml"
    flavor = "mariadb" if run.target == "local" and LOCAL_FLAVOR == "mariadb" else "mysql"
    file.write_text(suite.replace("flavor: any", f"flavor: {flavor}"))
    volume = f"{name}=path:{path}"
    return run.volbench(
        "run", str(file), "--target", run.target, "--volume", volume, "--out", str(run.results), "--yes"
    )


@pytest.mark.parametrize("bench", DOCKER_IF_SLOW, indirect=True)
def test_a_run_whose_replica_stops_ends_with_one_message(bench: Run) -> None:
    """Each attempt meets the row; exit code 5, the server's words once a cell, and nothing is left anywhere."""
    process = start(bench, SUITE)
    for attempt in (1, 2):
        bench.until(lambda count=attempt: len(bench.events("cell_started")) == count and under_load(bench), process)  # type: ignore[misc]
        put_in_the_way_of(bench)
        bench.until(lambda count=attempt: len(bench.failed_causes()) == count or process.poll() is not None)  # type: ignore[misc]
    ended = bench.end(process)
    assert ended.code == 5, ended.output
    assert set(bench.failed_causes().values()) == {"replica_stopped"}
    assert "the replica stopped" in ended.output
    assert "error 1062" in ended.output
    assert "Traceback" not in ended.output
    assert bench.leftovers() == []


@pytest.mark.docker
def test_a_replica_in_a_container_is_measured(docker_run: Run) -> None:
    """Both servers are in the server's container, which has no network but its loopback."""
    ended = docker_run.end(start(docker_run, SUITE.replace("40s", "5s")))
    assert ended.code in FINISHED, ended.output
    assert_measured(docker_run)


def under_load(run: Run) -> bool:
    try:
        return '"load"' in (run.current_cell() / "progress.json").read_text()
    except FileNotFoundError:
        return False


def put_in_the_way_of(run: Run) -> None:
    control = run.control_dir()  # the option file of a container has the socket's path there
    account = account_from(read_option_file(control / "client.cnf"), socket=str(control / "mysqld.sock"))
    with connection(account, "sbtest", timeout_s=30) as opened, opened.cursor() as cursor:
        cursor.execute("SET SESSION sql_log_bin = 0")
        cursor.execute("INSERT INTO sbtest1 (id, k, c, pad) SELECT MAX(id) + 50, 1, 'x', 'y' FROM sbtest1")


@pytest.mark.mysqld
def test_a_source_that_is_killed_fails_the_cell_and_leaves_nothing(local: Run) -> None:
    """SIGKILL to the second server: the cause is the source's, and the second attempt measures."""
    process = start(local, SUITE.replace("40s", "8s"))
    local.until(lambda: len(local.events("cell_started")) == 1 and under_load(local), process)
    pid = local.process(f"--defaults-file={local.control_dir()}/{DIRECTORY}/my.cnf")
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    ended = local.end(process)
    assert list(local.failed_causes().values()) == ["server_killed"], ended.output
    assert "step r: source" in (next(iter(local.results.glob("*/cells/*attempt*/result.json"))).read_text())
    assert ended.code in FINISHED, ended.output
    assert_measured(local)


def assert_measured(run: Run) -> None:
    run.assert_all_done_once()
    (result,) = run.directory.results()
    assert [row.step for row in result.steps] == ["r", "r/load", "r/catch_up"]
    assert all(row.valid for row in result.steps), [row.invalid_reasons for row in result.steps]
    load, catch_up = result.steps[1:]
    assert load.metrics["lag_ms_p95"].value > 0
    assert catch_up.metrics["applied_per_s"].value > 0
