"""The replica step on real servers, MariaDB here and MySQL in a container: what it measures, and how it fails."""

# ruff: noqa: S608 - names of its own

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from empty_data import directory_in_memory
from live_run import DOCKER_IF_SLOW, FINISHED
from live_run import Bench as Run
from plain_server import Kept, values
from server_container import sysbench_of_tools_image
from supervised_engine import DATASET, DOCKER, LOCAL, LOCAL_FLAVOR, ON_LOCAL, Bench, Engine, prepare

from volbench.engine.connection import account_from, connection, read_option_file
from volbench.engine.server import Server
from volbench.engine.template import Template
from volbench.errors import EnvironmentLacks, StepFailed
from volbench.records.steps.replica import ReplicaStep
from volbench.volume.facts.discovery import discover
from volbench.workload.interface import Clock, StepContext, StepOutcome
from volbench.workload.replica.dialect import dialect_of
from volbench.workload.replica.heartbeat import Beats, Heartbeat
from volbench.workload.replica.replication import Replication
from volbench.workload.replica.series import lag_rows
from volbench.workload.replica.source import DIRECTORY, require_separate_place, running_source
from volbench.workload.replica.step import Replica

SMALL: dict[str, Any] = {
    "name": "r", "rate": 100, "threads": 4, "workers": 2, "warmup": 1, "duration": 4, "pause": 3, "timeout": 60,
}  # fmt: skip
DELAY_S = 2
_BOUND_S = 60.0


@pytest.fixture(scope="module", params=[LOCAL, DOCKER], name="engine")
def servers_in_memory(request: pytest.FixtureRequest) -> Iterator[Engine]:
    base = directory_in_memory(Path(tempfile.gettempdir()))
    (base / "t").mkdir()
    flavor = "mysql" if request.param else LOCAL_FLAVOR
    with sysbench_of_tools_image(base) if request.param else contextlib.nullcontext() as programs:  # for `prepare`
        yield Engine(in_docker=request.param, base=base, flavor=flavor, programs=programs)
    shutil.rmtree(base)


@pytest.fixture(scope="module")
def template(engine: Engine) -> Template:
    with engine.bench() as bench:
        return prepare(bench, DATASET)[0]


@pytest.fixture
def server(engine: Engine, template: Template) -> Iterator[Server]:
    """A running server with a copy of the template, which a target would have placed so."""
    with engine.seeded(template) as bench:
        place_like_a_target(bench)
        opened = bench.server()
        opened.start()
        yield opened


def place_like_a_target(bench: Bench) -> None:
    if bench.container:
        bench.places = bench.places.model_copy(update={"supervisor": "waiting"})


def context(server: Server) -> StepContext:
    volume = Path(server.paths.volume_dir)
    return StepContext(
        server=server,
        dataset=DATASET,
        volume_facts=discover(volume),
        volume_dir=volume,
        scratch_dir=Path(server.paths.scratch_dir),
        seed=42,
        clock=Clock(zero_monotonic_ns=time.clock_gettime_ns(time.CLOCK_MONOTONIC)),
        record=Kept(),
    )


def step(**changes: Any) -> ReplicaStep:
    return ReplicaStep.model_validate({**SMALL, **changes})


def until(condition: Callable[[], bool]) -> None:
    end_s = time.monotonic() + _BOUND_S
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.02)


@ON_LOCAL
def test_a_replica_lags_catches_up_and_equals_its_source(server: Server) -> None:
    """Lags, rates and times fit each other; the server is no replica afterwards; a second step starts over."""
    ctx = context(server)
    Replica().check(step(), ctx)
    outcome = Replica().run(step(), ctx)
    load, catch_up = outcome.sub_results
    assert [load.suffix, catch_up.suffix] == ["load", "catch_up"]
    assert values(outcome)["source_tps"] == pytest.approx(100, rel=0.3)
    assert outcome.invalid_reasons == ()
    lags = values(load.outcome)
    assert 0 < lags["lag_ms_p50"] <= lags["lag_ms_p95"] <= lags["lag_ms_max"] < 1000 * _BOUND_S
    begin_s, end_s = load.outcome.window_s
    assert end_s - begin_s == pytest.approx(4, abs=1)
    assert load.outcome.details["heartbeats"] == pytest.approx(10 * (end_s - begin_s), rel=0.3)

    assert_series_fit(ctx, load.outcome, catch_up.outcome)

    figures, details = values(catch_up.outcome), catch_up.outcome.details
    begin_s, end_s = catch_up.outcome.window_s
    assert 0 < figures["catch_up_s"] <= end_s - begin_s
    assert figures["applied_per_s"] == pytest.approx(details["applied"] / (end_s - begin_s), rel=0.05)
    assert details["behind_at_start"] > 100  # of 3 s at 100 a second, less the chance of arrivals
    assert details["applied"] > details["behind_at_start"] / 3  # all but the last second's, which may be left
    assert set(outcome.details["tables"]) == {"sbtest1", "sbtest2"}

    assert server.alive()
    status = "SHOW SLAVE STATUS" if server.identity.flavor == "mariadb" else "SHOW REPLICA STATUS"
    assert server.query(status) == []
    assert server.query("SHOW DATABASES LIKE 'volbench%'") == []
    assert not (server.control_dir / DIRECTORY).exists()
    assert Replica().run(step(pause=0), ctx).sub_results[0].suffix == "load"


def assert_series_fit(ctx: StepContext, load: StepOutcome, catch_up: StepOutcome) -> None:
    """Lag and rate of the load are in its seconds; in the pause, the lag rises with the clock."""
    assert isinstance(ctx.record, Kept)
    highest, tps = ctx.record.of("lag_ms_max"), ctx.record.of("source_tps")
    begin_s, end_s = load.window_s
    under_load = [value for t_s, value in highest.items() if begin_s < t_s < end_s + 1]
    assert max(under_load) >= values(load)["lag_ms_max"] - 1
    paused = {t_s: value for t_s, value in highest.items() if end_s + 1 < t_s <= catch_up.window_s[0]}
    rises = [after - before for before, after in itertools.pairwise(paused.values())]
    assert rises
    assert rises == pytest.approx([1000] * len(rises), abs=250)
    assert np.median([value for t_s, value in tps.items() if begin_s < t_s <= end_s]) == pytest.approx(100, rel=0.5)


def test_a_lag_is_what_the_servers_delay_makes_of_it(server: Server) -> None:
    """A delay of the replica is a lag of the server's own making, but for its rounding to seconds.

    A replica that connects takes `time(0)` less the source's UNIX_TIMESTAMP() for the difference of their clocks,
    and shifts the delay by it. `time(0)` is up to a tick late, so a second's beginning makes that difference -1 s.

    MySQL also says when each transaction was committed and applied: the lag of the same transactions, by its clock.
    """
    mariadb = server.identity.flavor == "mariadb"
    dialect, ctx = dialect_of(server.identity), context(server)
    options = {**dialect.options, **dialect.source_options}
    with running_source(server, ctx, options=options, replica_options=dialect.options) as source:
        replication = Replication(source, server, ctx, where="test")
        replication.begin(2)
        replication.stop()
        delay = "CHANGE MASTER TO MASTER_DELAY" if mariadb else "CHANGE REPLICATION SOURCE TO SOURCE_DELAY"
        server.query(f"{delay} = {DELAY_S}")
        until(lambda: 0.2 < time.time() % 1 < 0.5)
        replication.start()
        before = replication.committed()
        heartbeat = Heartbeat(source, server)
        of_server: dict[int, float] = {}
        behind_s: dict[float, float] = {}
        with heartbeat.running():
            end_s = time.monotonic() + 8
            while time.monotonic() < end_s:
                of_server |= {} if mariadb else applied_lags_ms(server)
                behind_s |= seconds_behind(server, dialect.status)
                time.sleep(0.02)
            heartbeat.stop_beating()
            until(heartbeat.all_shown)
        beats = heartbeat.beats()
        lags_ms = beats.lags_ms(0.0, np.inf)
        assert lags_ms.min() > 1000 * (DELAY_S - 1)
        assert lags_ms.max() < 1000 * (DELAY_S + 2) + 500
        assert_as_the_server_says(beats, behind_s)
        first = before + 4  # the schema dropped, the schema, the table, then beat 0
        differences_ms = [
            lags_ms[number - first] - lag_ms
            for number, lag_ms in of_server.items()
            if 0 <= number - first < len(lags_ms)
        ]
        if not mariadb:
            assert len(differences_ms) > 5
            assert abs(float(np.median(differences_ms))) < 50
        until(lambda: replication.applied() >= replication.committed())
        replication.end()


def seconds_behind(server: Server, status: str) -> dict[float, float]:
    """The server's own lag by the time of asking; empty while it says none."""
    with server.connect() as opened, opened.cursor(dictionary=True) as cursor:
        cursor.execute(status)
        answer: Any = cursor.fetchall()
    (row,) = answer
    now_s = time.monotonic()
    value = row.get("Seconds_Behind_Master", row.get("Seconds_Behind_Source"))
    return {} if value is None else {now_s: float(value)}


def assert_as_the_server_says(beats: Beats, behind_s: Mapping[float, float]) -> None:
    """Seconds in the middle of the delay: the server's lag is in whole seconds, of times in whole seconds."""
    rows = list(lag_rows(beats, Clock(zero_monotonic_ns=0)))
    highest = {row.t_s: row.value / 1e3 for row in rows if row.metric == "lag_ms_max"}
    pairs = [
        (lag_s, np.median(of_server))
        for t_s, lag_s in highest.items()
        if (of_server := [value for asked_s, value in behind_s.items() if t_s - 1 < asked_s <= t_s])
        and t_s - min(highest) > DELAY_S
    ]
    assert len(pairs) >= 3
    assert all(abs(lag_s - of_server) <= 1.5 for lag_s, of_server in pairs), pairs


def applied_lags_ms(server: Server) -> dict[int, float]:
    """The last transaction of each applier thread, by its number: from its commit on the source to its own end."""
    rows = server.query(
        "SELECT last_applied_transaction, TIMESTAMPDIFF(MICROSECOND, "
        "last_applied_transaction_original_commit_timestamp, last_applied_transaction_end_apply_timestamp) / 1000 "
        "FROM performance_schema.replication_applier_status_by_worker WHERE last_applied_transaction <> ''"
    )
    return {int(str(gtid).rpartition(":")[2]): float(lag_ms) for gtid, lag_ms in rows}


@ON_LOCAL
def test_a_replica_that_stops_fails_the_step_with_the_servers_words(server: Server) -> None:
    """A row that only the replica has, with a key that the source uses next: error 1062. No source is left."""

    def progress(text: str, _: float | None) -> None:
        if text == "load":
            put_in_the_way(server)

    ctx = dataclasses.replace(context(server), progress=progress)
    with pytest.raises(StepFailed, match="the replica stopped") as stopped:
        Replica().run(step(test="oltp_insert", duration=60), ctx)
    assert "error 1062: " in stopped.value.evidence
    assert "Duplicate entry" in stopped.value.evidence
    assert stopped.value.cause == "replica_stopped"
    assert not (server.control_dir / DIRECTORY).exists()


def put_in_the_way(server: Server) -> None:
    """Give each table a row that the source has not inserted yet; the binary log does not have it."""
    for table in ("sbtest1", "sbtest2"):
        with server.connect(DATASET.schema_name) as opened, opened.cursor() as cursor:
            cursor.execute("SET SESSION sql_log_bin = 0")
            cursor.execute(f"INSERT INTO {table} (id, k, c, pad) SELECT MAX(id) + 20, 1, 'x', 'y' FROM {table}")


def test_a_source_beside_the_data_is_refused(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both below one directory of a disk: its writes would be among those that are measured."""
    facts = discover(server.control_dir).model_copy(update={"memory_backed": False, "disk": "sda"})
    monkeypatch.setattr("volbench.workload.replica.source.discover", lambda _: facts)
    with pytest.raises(EnvironmentLacks, match="disk of the measured volume"):
        require_separate_place(server, facts, 0, where="step r")


SUITE = """
schema: 1
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
        bench.until(lambda seen=attempt: len(bench.events("cell_started")) == seen and under_load(bench), process)  # type: ignore[misc]
        put_in_the_way_of(bench)
        bench.until(lambda seen=attempt: len(bench.failed_causes()) == seen or process.poll() is not None)  # type: ignore[misc]
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
