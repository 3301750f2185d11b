"""Queries that take milliseconds on rows in memory, and the log of them that a real server writes."""

from __future__ import annotations

import random

from volbench.machine.engine.connection import Account, connection
from volbench.measure.workload.replay.schedule import Schedule, ScheduledStatement
from volbench.measure.workload.replay.sending import send

SCHEMA = "sales"
STATES = 4
_CUSTOMERS, _ROWS = 30, 240_000
_NUMBERS = "(SELECT 0 n" + "".join(f" UNION SELECT {number}" for number in range(1, 10)) + ")"
TABLES: tuple[str, ...] = (
    f"CREATE DATABASE {SCHEMA}",
    f"CREATE TABLE {SCHEMA}.sold (id INT NOT NULL PRIMARY KEY, customer_id INT NOT NULL, state TINYINT NOT NULL, "
    "total DECIMAL(12,2) NOT NULL, note VARCHAR(80), KEY of_customer (customer_id, state))",
    f"INSERT INTO {SCHEMA}.sold SELECT i, i % {_CUSTOMERS}, i DIV {_CUSTOMERS} % {STATES}, i / 7, "
    "CONCAT('note ', i) FROM (SELECT a.n + 10 * b.n + 100 * c.n + 1000 * d.n + 10000 * e.n + 100000 * f.n AS i "
    f"FROM {_NUMBERS} a JOIN {_NUMBERS} b JOIN {_NUMBERS} c JOIN {_NUMBERS} d JOIN {_NUMBERS} e "
    f"JOIN (SELECT 0 n UNION SELECT 1 UNION SELECT 2) f) numbers WHERE i < {_ROWS}",
)
LOST_COLUMN = f"ALTER TABLE {SCHEMA}.sold DROP KEY of_customer, ADD KEY of_customer (customer_id)"
"""Then a query of one customer's sales in one of four states reads all four. That takes about three times as long,
since rows that are not added up cost less."""
OF_A_STATE = "select sum(total) from sold where customer_id = ? and state = ?"
_QUERIES = (
    (30, "SELECT SUM(total) FROM sold WHERE customer_id = {customer} AND state = {state}"),
    (30, "SELECT COUNT(*), MAX(total) FROM sold WHERE id BETWEEN {row} AND {row} + 5000"),
    (20, "SELECT id, note FROM sold WHERE id BETWEEN {row} AND {row} + 3000 ORDER BY total DESC LIMIT 10"),
    (20, "SELECT note FROM sold WHERE id = {row}"),
)


def arrivals(*, seconds: float, per_s: float, connections: int, seed: int = 1) -> Schedule:
    """Random arrivals at a rate, over so many connections."""
    draw = random.Random(seed)
    lanes: list[list[ScheduledStatement]] = [[] for _ in range(connections)]
    at_s = 0.0
    while (at_s := at_s + draw.expovariate(per_s)) < seconds:
        lane = draw.randrange(connections)
        text = draw.choices([sql for _, sql in _QUERIES], [weight for weight, _ in _QUERIES])[0]
        sql = text.format(
            customer=draw.randrange(_CUSTOMERS), state=draw.randrange(STATES), row=draw.randrange(_ROWS - 6000)
        )
        lanes[lane].append(
            ScheduledStatement(at_s=at_s, connection=lane, schema=SCHEMA, sql=sql, class_index=0, logged_s=0.0)
        )
    return Schedule(
        connections=tuple(tuple(lane) for lane in lanes if lane),
        fingerprints=("any",),
        skipped={},
        log_s=seconds,
        shared_connections=0,
        whole_seconds=False,
    )


def fill(account: Account) -> None:
    """The tables, with their statistics, and all rows in memory."""
    run(account, *TABLES, f"ANALYZE TABLE {SCHEMA}.sold", f"CHECK TABLE {SCHEMA}.sold")


def run(account: Account, *statements: str) -> None:
    """Each statement, and all that it answers."""
    with connection(account, timeout_s=120) as opened, opened.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
            if cursor.description:
                cursor.fetchall()


def production(account: Account, load: Schedule, log: str) -> None:
    """Send the load, and let the server log it to a file that is named as the server sees it."""
    run(
        account,
        "SET GLOBAL log_output = 'FILE'",
        f"SET GLOBAL slow_query_log_file = '{log}'",
        "SET GLOBAL long_query_time = 0",
        "SET GLOBAL slow_query_log = ON",
    )
    shares = send(account, load, writes=False, progress=lambda *_: None)
    run(account, "SET GLOBAL slow_query_log = OFF")
    assert not any(share.error_messages for share in shares)
