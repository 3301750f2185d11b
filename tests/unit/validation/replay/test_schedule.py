"""What a replay sends, and when: the log's times and connections, and nothing that could do harm."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some
from slow_log_writer import Shop, read_slow_log, slow_log

from volbench.errors import UsageError
from volbench.measure.workload.replay.logged_statement import LoggedStatement
from volbench.measure.workload.replay.schedule import Schedule, schedule


def logged(sql: str, at_s: float = 0.5, *, connection: int = 1, query_s: float = 0.01) -> LoggedStatement:
    return LoggedStatement(
        at_s=at_s,
        connection=connection,
        user="app",
        schema="shop",
        query_s=query_s,
        lock_s=0,
        rows_sent=0,
        rows_examined=0,
        sql=sql,
    )


def due(*statements: LoggedStatement, writes: bool = False, speed: float = 1.0, connections: int = 128) -> Schedule:
    return schedule(
        statements, schemas=["shop"], writes=writes, speed=speed, seconds=3600, connections_max=connections
    )


@pytest.mark.parametrize(
    "sql",
    [
        "SET GLOBAL read_only = 0",
        "SET PERSIST max_connections = 1",
        "SET @a = 1, GLOBAL read_only = 0",
        "SET @@global.read_only = 0",
        "GRANT ALL ON *.* TO x",
        "DROP TABLE orders",
        "DROP DATABASE shop",
        "SELECT 1 INTO OUTFILE '/tmp/x'",
        "SHUTDOWN",
        "LOAD DATA INFILE 'x' INTO TABLE t",
        "FLUSH TABLES",
        "PURGE BINARY LOGS TO 'x'",
        "DO 1; DROP TABLE orders",
        "KILL 1",
        "CREATE USER x",
        "SELECT 'a #'; DROP TABLE orders",
        "SELECT '/*'; DROP TABLE orders; SELECT '*/'",
        "SET PASSWORD = 'x'",
        "ALTER TABLE orders ENGINE = MyISAM",
        "XA START 'x'",
    ],
)
def test_what_could_do_harm_is_never_sent_even_where_writes_are(sql: str) -> None:
    result = due(logged("SELECT 1"), logged(sql), writes=True)
    assert [item.sql for lane in result.connections for item in lane] == ["SELECT 1"]


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO a VALUES (1)",
        "BEGIN",
        "COMMIT",
        "SELECT * FROM a FOR UPDATE",
        "CALL close_old(3)",
        "SET @a = 1",
    ],
)
def test_writes_and_transactions_are_sent_only_where_they_may(sql: str) -> None:
    assert due(logged("SELECT 1"), logged(sql), writes=True).statements == 2
    result = due(logged("SELECT 1"), logged(sql))
    assert (result.statements, result.skipped) == (1, {"that do more than read": 1})


def test_times_are_kept_and_divided_by_the_speed() -> None:
    result = due(logged("SELECT 1", 7.25), logged("SELECT 2", 9.25, connection=2), speed=2.0)
    assert sorted(item.at_s for lane in result.connections for item in lane) == [0.0, 1.0]
    assert (result.log_s, result.planned_s, result.whole_seconds) == (2.0, 1.0, False)


def test_whole_seconds_are_spread_evenly_in_the_order_of_the_log() -> None:
    result = due(*(logged(f"SELECT {n}", 100.0, connection=n) for n in range(4)), logged("SELECT 9", 101.0))
    assert sorted(item.at_s for lane in result.connections for item in lane) == [0.0, 0.25, 0.5, 0.75, 1.375]
    assert result.whole_seconds


def test_a_connection_is_not_asked_before_the_log_says_that_it_was_free() -> None:
    result = due(logged("SELECT COUNT(*) FROM t", 100.0, query_s=2.0), logged("SELECT 2", 101.0))
    assert [item.at_s for item in result.connections[0]] == [0.0, 2.0]


def test_a_connection_that_ended_makes_room_for_the_next() -> None:
    result = due(
        logged("SELECT 1", 1.5), logged("SELECT 2", 2.5, connection=2), logged("SELECT 3", 2.5, connection=3)
    )
    assert [[item.connection for item in lane] for lane in result.connections] == [[1, 2], [3]]
    assert result.shared_connections == 0


def test_beyond_the_bound_connections_are_shared_and_counted() -> None:
    result = due(*(logged("SELECT 1", 1.5 + n / 1000, connection=n, query_s=5) for n in range(5)), connections=2)
    assert (len(result.connections), result.shared_connections) == (2, 3)


def test_nothing_to_send_is_said_with_what_was_left_out() -> None:
    with pytest.raises(UsageError, match="no statement to replay") as raised:
        due(logged("INSERT INTO a VALUES (1)"))
    assert raised.value.evidence == "skipped: 1 that do more than read"


@given(seed=some.integers(0, 50), connections=some.integers(1, 60), flavor=some.sampled_from(("mysql", "mariadb")))
def test_no_statement_is_lost_or_sent_twice_and_each_connection_keeps_its_order(
    seed: int, connections: int, flavor: str
) -> None:
    shop = Shop(statements=80, seed=seed, per_s=200, flavor="mysql" if flavor == "mysql" else "mariadb")
    statements = list(read_slow_log(slow_log(shop), name="log"))
    assert len(statements) == 80
    result = due(*statements, writes=True, connections=connections)
    assert result.statements == 80
    assert len(result.connections) <= connections
    for lane in result.connections:
        assert [item.at_s for item in lane] == sorted(item.at_s for item in lane)
    sent = sorted((item.connection, item.sql) for lane in result.connections for item in lane)
    assert sent == sorted((statement.connection, statement.sql) for statement in statements)
