"""pt-archiver deletes rows of a real server: those that it should, what it refuses, and a load beside it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator

import pytest
from plain_server import DATASET, PlainServer, plain_server, run, values

from volbench.core.records.steps.oltp import OltpStep
from volbench.core.records.steps.purge import PurgeStep
from volbench.errors import MissingPrerequisite, StepFailed, UsageError
from volbench.measure.workload.interface import StepContext

SCHEMA = DATASET.schema_name
pytestmark = pytest.mark.skipif(shutil.which("pt-archiver") is None, reason="pt-archiver is not installed")


@pytest.fixture(scope="module", name="server")
def server_with_dataset() -> Iterator[PlainServer]:
    with plain_server() as server:
        yield server


@pytest.fixture
def table(server: PlainServer) -> Iterator[str]:
    """A table of 5,000 rows whose keys begin at 101."""
    server.query(f"CREATE TABLE {SCHEMA}.log (id INT UNSIGNED PRIMARY KEY, c INT)")
    with server.connect(SCHEMA) as opened, opened.cursor() as cursor:
        rows = ", ".join(f"({number}, {number % 7})" for number in range(101, 5101))
        cursor.execute(f"INSERT INTO log VALUES {rows}")
        opened.commit()
    yield "log"
    server.query(f"DROP TABLE {SCHEMA}.log")


def test_the_lowest_part_of_the_keys_is_deleted_and_nothing_else(
    server: PlainServer, table: str, make_context: Callable[..., StepContext]
) -> None:
    outcome = run(PurgeStep(name="x", table=table, share=0.25, chunk=100), make_context())
    assert server.query(f"SELECT COUNT(*), MIN(id), MAX(id) FROM {SCHEMA}.{table}") == [(3750, 1351, 5100)]
    begun_s, ended_s = outcome.window_s
    assert outcome.details["rows"] == 1250
    assert values(outcome)["purge_s"] == pytest.approx(ended_s - begun_s)
    assert values(outcome)["purge_rows_per_s"] == pytest.approx(1250 / (ended_s - begun_s))


def test_a_transaction_has_one_chunk(
    server: PlainServer, table: str, make_context: Callable[..., StepContext]
) -> None:
    """By the server's own count of COMMIT: 10 of rows, and few of the tool itself."""
    before = commits(server)
    run(PurgeStep(name="x", table=table, share=0.2, chunk=100), make_context())
    assert 10 <= commits(server) - before <= 14


def commits(server: PlainServer) -> int:
    ((_, count),) = server.query("SHOW GLOBAL STATUS LIKE 'Com_commit'")
    return int(count)


def test_a_condition_of_the_users_own(
    server: PlainServer, table: str, make_context: Callable[..., StepContext]
) -> None:
    outcome = run(PurgeStep(name="x", table=table, where="c = 3 AND id < 5000"), make_context())
    matching = [number for number in range(101, 5101) if number % 7 == 3]
    later = sum(number >= 5000 for number in matching)
    assert server.query(f"SELECT COUNT(*) FROM {SCHEMA}.{table} WHERE c = 3") == [(later,)]
    assert outcome.details["rows"] == len(matching) - later


def test_what_cannot_be_purged_is_said_before_anything_is_measured(
    server: PlainServer, table: str, make_context: Callable[..., StepContext]
) -> None:
    with pytest.raises(UsageError, match="no table absent"):
        run(PurgeStep(name="x", table="absent"), make_context())
    with pytest.raises(UsageError, match="refuses the condition") as refused:
        run(PurgeStep(name="x", table=table, where="nope = 1"), make_context())
    assert "nope" in refused.value.evidence
    server.query(f"CREATE TABLE {SCHEMA}.named (a INT, b VARCHAR(9), PRIMARY KEY (a, b))")
    server.query(f"CREATE TABLE {SCHEMA}.bare (a INT PRIMARY KEY)")
    try:
        with pytest.raises(MissingPrerequisite, match="by its primary key") as lacks:
            run(PurgeStep(name="x", table="named"), make_context())
        assert "a int, b varchar" in lacks.value.evidence
        with pytest.raises(MissingPrerequisite, match="is empty"):
            run(PurgeStep(name="x", table="bare"), make_context())
    finally:
        server.query(f"DROP TABLE {SCHEMA}.named, {SCHEMA}.bare")


def test_a_condition_that_no_row_meets_is_no_purge(
    server: PlainServer, table: str, make_context: Callable[..., StepContext]
) -> None:
    with pytest.raises(StepFailed, match="deleted no row"):
        run(PurgeStep(name="x", table=table, where="c = 99"), make_context())
    assert server.query(f"SELECT COUNT(*) FROM {SCHEMA}.{table}") == [(5000,)]


def test_a_row_that_somebody_locks_ends_it_with_the_tools_words(
    server: PlainServer, table: str, make_context: Callable[..., StepContext]
) -> None:
    server.query("SET GLOBAL innodb_lock_wait_timeout = 1")
    try:
        with server.connect(SCHEMA) as blocking, blocking.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute(f"SELECT * FROM {table} WHERE id = 150 FOR UPDATE")
            cursor.fetchall()
            with pytest.raises(StepFailed, match="pt-archiver ended with exit code") as failed:
                run(PurgeStep(name="x", table=table), make_context())
            cursor.execute("ROLLBACK")
    finally:
        server.query("SET GLOBAL innodb_lock_wait_timeout = 50")
    assert "Exhausted retries while bulk_deleting" in failed.value.evidence


def test_under_load_it_says_what_the_load_lost(
    server: PlainServer, make_context: Callable[..., StepContext]
) -> None:
    assert server.alive()
    purge = PurgeStep(start_after_s=1, chunk=50)
    step = OltpStep(name="night", threads=(2,), rate=50, warmup_s=1, duration_s=6, concurrent=(purge,))
    outcome = run(step, make_context())
    pieces = {piece.suffix: values(piece.outcome) for piece in outcome.sub_results}
    assert set(pieces) == {"beside-pt-archiver", "during", "alone"}
    assert pieces["beside-pt-archiver"]["purge_rows_per_s"] > 0
    assert pieces["during"]["transactions_lost"] >= 0
