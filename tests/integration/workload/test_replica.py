"""The replica step on real servers, MariaDB here and MySQL in a container: what it measures, and how it fails."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from empty_data import directory_in_memory
from plain_server import Kept, values
from server_container import sysbench_of_tools_image
from supervised_engine import DATASET, DOCKER, LOCAL, LOCAL_FLAVOR, ON_LOCAL, Bench, Engine, prepare

from volbench.core.records.steps.replica import ReplicaStep
from volbench.errors import MissingPrerequisite, StepFailed
from volbench.machine.engine.server import Server
from volbench.machine.engine.template import Template
from volbench.machine.volume.facts.discovery import discover
from volbench.measure.workload.interface import Clock, StepContext, StepOutcome
from volbench.measure.workload.replica.dialect import dialect_of
from volbench.measure.workload.replica.heartbeat import Beats, Heartbeat
from volbench.measure.workload.replica.replication import Replication
from volbench.measure.workload.replica.series import lag_rows
from volbench.measure.workload.replica.source import DIRECTORY, require_separate_place, running_source
from volbench.measure.workload.replica.step import Replica

SMALL: dict[str, Any] = {
    "name": "r",
    "rate": 100,
    "threads": 4,
    "workers": 2,
    "warmup": 1,
    "duration": 4,
    "pause": 3,
    "timeout": 60,
}
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

    assert_no_replica(server)
    assert Replica().run(step(pause=0), ctx).sub_results[0].suffix == "load"


def assert_no_replica(server: Server) -> None:
    assert server.alive()
    assert server.query(dialect_of(server.identity).status) == []
    assert server.query("SHOW DATABASES LIKE 'volbench%'") == []
    assert not (server.control_dir / DIRECTORY).exists()


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
        server.query(delay_statement(server, DELAY_S))
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


def delay_statement(server: Server, seconds: int) -> str:
    mariadb = server.identity.flavor == "mariadb"
    return f"CHANGE {'MASTER TO MASTER' if mariadb else 'REPLICATION SOURCE TO SOURCE'}_DELAY = {seconds}"


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


@ON_LOCAL
def test_a_replica_that_is_too_slow_shows_its_lag_when_the_load_has_ended(server: Server) -> None:
    """The server's own read lock keeps the applier threads from committing while the load runs."""
    with contextlib.ExitStack() as lock:

        def progress(text: str, _: float | None) -> None:
            if text == "load":
                lock.enter_context(server.connect()).cmd_query("FLUSH TABLES WITH READ LOCK")
            elif text.startswith("waiting"):
                lock.close()

        ctx = dataclasses.replace(context(server), progress=progress)
        outcome = Replica().run(step(), ctx)
    load, catch_up = outcome.sub_results
    lags = values(load.outcome)
    assert lags["lag_ms_max"] > 4000
    assert lags["lag_ms_max"] - lags["lag_ms_p50"] < 5000
    assert lags["applied_per_s"] < 50
    assert load.outcome.details["heartbeats_not_shown"] == 0
    lagged, behind = load.outcome.notes
    assert lagged.startswith("the replica lagged by")
    assert behind.startswith("the replica did not keep up: in 4 s more under load")
    assert (catch_up.suffix, catch_up.outcome.metrics) == ("catch_up", {})
    assert catch_up.outcome.notes[0].startswith("no pause and no catch-up")
    assert outcome.window_s[1] == load.outcome.window_s[1]
    assert outcome.details["transactions_left"] == 0
    assert set(outcome.details["tables"]) == {"sbtest1", "sbtest2"}
    assert_no_replica(server)


@ON_LOCAL
def test_a_replica_that_never_applies_the_load_has_no_lags(server: Server) -> None:
    """A delay of an hour, by the server's option: no table is compared, and the server is no replica afterwards."""
    dialect = dialect_of(server.identity)

    def progress(text: str, _: float | None) -> None:
        if text == "load":
            for statement in (dialect.stop, delay_statement(server, 3600), dialect.start):
                server.query(statement)

    outcome = Replica().run(step(timeout=3), dataclasses.replace(context(server), progress=progress))
    load, _ = outcome.sub_results
    details = load.outcome.details
    assert details["heartbeats_not_shown"] == details["heartbeats"] > 20
    assert values(load.outcome).keys() == {"applied_per_s"}
    (oldest,) = [note for note in load.outcome.notes if "never showed" in note]
    assert int(oldest.partition("the oldest ")[2].partition(" s old")[0]) >= 4 + 3
    assert outcome.details["transactions_left"] > 100
    assert outcome.details["tables"] == {}
    assert any("were not compared" in note for note in outcome.notes)
    assert_no_replica(server)


def test_a_source_beside_the_data_is_refused(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both below one directory of a disk: its writes would be among those that are measured."""
    facts = discover(server.control_dir).model_copy(update={"memory_backed": False, "disk": "sda"})
    monkeypatch.setattr("volbench.measure.workload.replica.source.discover", lambda _: facts)
    with pytest.raises(MissingPrerequisite, match="disk of the measured volume"):
        require_separate_place(server, facts, 0, where="step r")
