"""Changes of a table on a real server: each method, what it refuses, and what a load beside it loses."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from empty_data import directory_in_memory
from live_run import FINISHED
from live_run import Bench as Run
from plain_server import DATASET, PlainServer, plain_server, run, values
from server_container import sysbench_of_tools_image
from supervised_engine import DOCKER, LOCAL, Engine, prepare

from volbench.core.records.steps.alter import AlterStep
from volbench.core.records.steps.oltp import OltpStep
from volbench.errors import MissingPrerequisite, StepFailed, UsageError
from volbench.machine.engine.server import Server
from volbench.measure.workload.interface import StepContext

SCHEMA = DATASET.schema_name
NEEDS_PT_OSC = pytest.mark.skipif(
    shutil.which("pt-online-schema-change") is None, reason="pt-online-schema-change is not installed"
)
METHODS = ["instant", "inplace", "copy", pytest.param("pt-osc", marks=NEEDS_PT_OSC)]


@contextlib.contextmanager
def server_in_container() -> Iterator[Server]:
    """MySQL with the dataset, as the docker target starts it; pt-online-schema-change is this machine's."""
    base = directory_in_memory(Path(tempfile.gettempdir()))
    (base / "t").mkdir()
    try:
        with sysbench_of_tools_image(base) as programs:
            engine = Engine(in_docker=True, base=base, flavor="mysql", programs=programs)
            with engine.bench() as bench:
                template = prepare(bench, DATASET)[0]
            with engine.seeded(template) as bench:
                server = bench.server()
                server.start()
                yield server
    finally:
        shutil.rmtree(base)


@pytest.fixture(scope="module", params=[LOCAL, DOCKER], name="server")
def servers(request: pytest.FixtureRequest) -> Iterator[PlainServer | Server]:
    with server_in_container() if request.param else plain_server() as server:
        yield server


def columns(server: PlainServer) -> list[str]:
    sql = (
        "SELECT column_name FROM information_schema.columns WHERE table_name = 'sbtest1' ORDER BY ordinal_position"
    )
    return [str(name) for (name,) in server.query(sql)]


@pytest.mark.parametrize("method", METHODS)
def test_a_column_is_added_by_each_method(
    server: PlainServer, make_context: Callable[..., StepContext], method: str
) -> None:
    """The rows stay, the column is there, and the next step of the same cell finds a free name."""
    before = columns(server)
    outcome = run(AlterStep(name="x", method=method), make_context())
    (name,) = set(columns(server)) - set(before)
    assert server.query(f"SELECT COUNT(*), SUM({name}) FROM {SCHEMA}.sbtest1") == [(DATASET.rows, 0)]
    metrics = values(outcome)
    begun_s, ended_s = outcome.window_s
    assert metrics["alter_s"] == pytest.approx(ended_s - begun_s)
    assert metrics["alter_s"] > 0
    assert metrics["alter_rows_per_s"] == pytest.approx(DATASET.rows / metrics["alter_s"], rel=0.2)
    assert not server.query("SELECT 1 FROM information_schema.tables WHERE table_name LIKE '%volbench_alter%'")


@pytest.mark.parametrize("method", METHODS[1:])
def test_an_index_is_added(server: PlainServer, make_context: Callable[..., StepContext], method: str) -> None:
    indexes = "SELECT COUNT(DISTINCT index_name) FROM information_schema.statistics WHERE table_name = 'sbtest1'"
    ((before,),) = server.query(indexes)
    run(AlterStep(name="x", method=method, change="add_index"), make_context())
    assert server.query(indexes) == [(before + 1,)]


def test_the_rows_of_a_table_that_has_just_grown_are_known(
    server: PlainServer, make_context: Callable[..., StepContext]
) -> None:
    """MySQL answers questions about a table's size with what it was when somebody asked before, for a day."""
    server.query(f"CREATE TABLE {SCHEMA}.grown (id INT AUTO_INCREMENT PRIMARY KEY, c INT)")
    try:
        server.query("SELECT table_rows FROM information_schema.tables WHERE table_name = 'grown'")
        with server.connect(SCHEMA) as opened, opened.cursor() as cursor:
            cursor.execute("INSERT INTO grown (c) SELECT k FROM sbtest1")
            opened.commit()
        outcome = run(AlterStep(name="x", table="grown", method="copy"), make_context())
    finally:
        server.query(f"DROP TABLE {SCHEMA}.grown")
    assert outcome.details["rows_about"] == pytest.approx(DATASET.rows, rel=0.2)


def test_what_the_server_refuses_is_said_before_anything_is_measured(
    server: PlainServer, make_context: Callable[..., StepContext]
) -> None:
    """Neither MySQL nor MariaDB adds a column instantly to a compressed table."""
    server.query(f"CREATE TABLE {SCHEMA}.packed (id INT PRIMARY KEY, c INT) ROW_FORMAT=COMPRESSED")
    try:
        with pytest.raises(
            MissingPrerequisite, match="refuses the change of packed by ALGORITHM=INSTANT"
        ) as refused:
            run(AlterStep(name="x", table="packed", method="instant"), make_context())
    finally:
        server.query(f"DROP TABLE {SCHEMA}.packed")
    assert "is not supported" in refused.value.evidence
    with pytest.raises(UsageError, match="no table absent"):
        run(AlterStep(name="x", table="absent"), make_context())
    with pytest.raises(ValueError, match="an index is never added instantly"):
        AlterStep(name="x", method="instant", change="add_index")


@NEEDS_PT_OSC
def test_pt_osc_is_not_begun_where_it_would_refuse(
    server: PlainServer, make_context: Callable[..., StepContext]
) -> None:
    """Foreign keys that refer to the table; triggers; and a table without a key, which the tool itself refuses."""
    server.query(f"CREATE TABLE {SCHEMA}.parent (id INT PRIMARY KEY)")
    server.query(
        f"CREATE TABLE {SCHEMA}.child (id INT PRIMARY KEY, p INT, CONSTRAINT of_parent FOREIGN KEY (p) REFERENCES "
        f"{SCHEMA}.parent (id))"
    )
    server.query(f"CREATE TABLE {SCHEMA}.keyless (id INT)")
    server.query(f"CREATE TRIGGER {SCHEMA}.noted BEFORE INSERT ON {SCHEMA}.child FOR EACH ROW SET NEW.id = NEW.id")
    try:
        for table, reason, evidence in (
            ("parent", "foreign keys that refer to it", "child.of_parent"),
            ("child", "triggers", "child.noted"),
        ):
            with pytest.raises(MissingPrerequisite, match=reason) as refused:
                run(AlterStep(name="x", table=table, method="pt-osc"), make_context())
            assert refused.value.evidence == evidence
        with pytest.raises(StepFailed, match="pt-online-schema-change ended with exit code") as failed:
            run(AlterStep(name="x", table="keyless", method="pt-osc"), make_context())
        assert "PRIMARY KEY" in failed.value.evidence
    finally:
        for table in ("child", "parent", "keyless"):
            server.query(f"DROP TABLE {SCHEMA}.{table}")


def test_a_statement_that_takes_too_long_is_killed(
    server: PlainServer, make_context: Callable[..., StepContext]
) -> None:
    """Another connection's transaction holds the table."""
    before = columns(server)
    with server.connect(SCHEMA) as blocking, blocking.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("SELECT * FROM sbtest1 LIMIT 1")
        cursor.fetchall()
        with pytest.raises(StepFailed, match="the ALTER TABLE took longer than 1 s"):
            run(AlterStep(name="x", method="copy", timeout_s=1), make_context())
        cursor.execute("ROLLBACK")
    assert columns(server) == before


@pytest.mark.parametrize("method", ["copy", pytest.param("pt-osc", marks=NEEDS_PT_OSC)])
def test_under_load_it_says_what_the_load_lost(
    server: PlainServer, make_context: Callable[..., StepContext], method: str
) -> None:
    """With rows for the load during the change and alone."""
    change = AlterStep(method=method, start_after_s=2)
    step = OltpStep(name="night", threads=(4,), rate=50, warmup_s=1, duration_s=8, concurrent=(change,))
    outcome = run(step, make_context())
    pieces = {piece.suffix: values(piece.outcome) for piece in outcome.sub_results}
    assert set(pieces) == {f"beside-alter-{method}", "during", "alone"}
    assert pieces[f"beside-alter-{method}"]["alter_s"] > 0
    assert pieces["during"]["transactions_lost"] >= 0
    assert pieces["during"]["stall_s_max"] >= 0
    assert "transactions_lost" not in pieces["alone"]


SUITE = """
schema: 2
name: alter
engine: {flavor: mysql, config: {innodb_buffer_pool_size: 32M}}
dataset: {tables: 1, rows: 5000}
steps:
  - {kind: alter, name: instant, method: instant}
  - {kind: alter, name: inplace, method: inplace, change: add_index}
  - {kind: alter, name: copy, method: copy, change: add_index, column: k}
  - {kind: oltp, name: load, threads: 2, rate: 50, warmup: 1s, duration: 6s, concurrent: [{kind: alter, method: pt-osc, start_after: 1s}]}
  - {kind: purge, name: old}
repeats: 1
replacements: 0
limits: {foreign_iops: 1000000, foreign_cpu: 100%, cpu_steal: 100%, client_cpu: 100%, rate_shortfall: 100%, missed_samples: 90%}
sampling: {interval: 500ms}
"""  # noqa: E501


@pytest.mark.docker
def test_mysql_in_a_container_is_changed_by_each_method_and_purged(docker_run: Run) -> None:
    """With the tools image's programs. Names count on, so each change was there for the next one."""
    docker_run.volumes.popitem()
    ((name, path),) = docker_run.volumes.items()
    file = docker_run.root / "alter.yaml"
    file.write_text(SUITE)
    process = docker_run.volbench(
        "run",
        str(file),
        "--target",
        "docker",
        "--volume",
        f"{name}=path:{path}",
        "--out",
        str(docker_run.results),
        "--yes",
    )
    ended = docker_run.end(process)
    assert ended.code in FINISHED, ended.output
    docker_run.assert_all_done_once()
    (result,) = docker_run.directory.results()
    rows = {row.step: row for row in result.steps}
    changes = ("instant", "inplace", "copy", "load/beside-alter-pt-osc")
    assert list(rows) == [*changes[:3], "load", changes[3], "load/during", "load/alone", "old"]
    assert all(row.valid for row in rows.values()), [row.invalid_reasons for row in rows.values()]
    for number, step in enumerate(changes, 1):
        assert f"volbench_{number} " in str(rows[step].details["command"])
        assert rows[step].details["rows_about"] == pytest.approx(5000, rel=0.2)
        assert rows[step].metrics["alter_s"].value > 0
    assert rows["old"].details["rows"] == pytest.approx(0.3 * 5000, abs=10)  # the load inserts rows again
    assert docker_run.leftovers() == []
