"""Writes slow query logs of any length as MySQL and MariaDB do: a shop, with bursts and connections that end.

For how many statements come when, not for what a log may look like: that is in logs of real servers
(slow_log_recorder). `use` is written as servers do it, when the schema is another than that of the last entry.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from volbench.measure.workload.replay.slowlog import SlowLog

Flavor = Literal["mysql", "mariadb"]
SCHEMA = "shop"
BEGAN_S = 1_795_263_000.0
_READS = (
    (60, "SELECT name, email FROM customers WHERE id = {customer}"),
    (15, "SELECT id, total FROM orders WHERE customer_id = {customer} ORDER BY id"),
    (10, "SELECT COUNT(*), SUM(price) FROM items WHERE order_id BETWEEN {order} AND {order_to}"),
    (5, "SELECT v FROM settings WHERE k = '{key}'"),
    (3, "SELECT o.id, c.name FROM orders o JOIN customers c ON c.id = o.customer_id WHERE o.id = {order}"),
    (4, "SELECT id, name FROM customers WHERE email = 'u{customer}@example.org'"),
    (1, "SELECT vat({order}.00)"),
)
_WRITES = (
    (5, "INSERT INTO audit (what) VALUES ('seen {customer}')"),
    (2, "UPDATE orders SET state = 'paid' WHERE id = {order}"),
)


@dataclass(frozen=True, kw_only=True)
class Shop:
    """What is written: `writes` or reads only, so many statements, at so many a second on average."""

    statements: int
    per_s: float = 1000.0
    flavor: Flavor = "mysql"
    writes: bool = True
    connections: int = 40
    seed: int = 1
    query_s: Mapping[str, float] = field(default_factory=dict)
    """Median time of statements that begin so; 10 ms for all others."""


def slow_log(shop: Shop) -> Iterator[str]:
    """The lines of the log, each with its line feed."""
    draw = random.Random(shop.seed)
    kinds = (*_READS, *(_WRITES if shop.writes else ()))
    weights = [weight for weight, _ in kinds]
    yield from head(shop.flavor)
    last_use = ""
    now, free, ids = BEGAN_S, [0.0] * shop.connections, list(range(10, 10 + shop.connections))
    second = ""
    for _ in range(shop.statements):
        # Every tenth second has three times the statements of the others.
        now += draw.expovariate(shop.per_s / 1.2 * (3 if int(now) % 10 == 0 else 1))
        lane = (
            min(range(shop.connections), key=free.__getitem__) if draw.random() < 0.3 else draw.randrange(len(free))
        )
        if draw.random() < 0.002:  # the connection ended, and another began
            ids[lane] = max(ids) + 1
        sql = _filled(draw.choices([text for _, text in kinds], weights)[0], draw)
        median_s = next((s for begin, s in shop.query_s.items() if sql.startswith(begin)), 0.01)
        query_s = median_s * draw.lognormvariate(0, 0.2)
        began = max(now, free[lane])
        free[lane] = began + query_s
        lines = entry(shop.flavor, ids[lane], began, query_s, sql, last_use=last_use)
        last_use = SCHEMA
        for line in lines:
            if line.startswith("# Time:") and shop.flavor == "mariadb":
                if line == second:
                    continue
                second = line
            yield line


def _filled(text: str, draw: random.Random) -> str:
    order = draw.randint(1, 2600)
    return text.format(
        customer=draw.randint(1, 900), order=order, order_to=order + 40, key=draw.choice(("colour", "empty"))
    )


def head(flavor: Flavor) -> Iterator[str]:
    """What a server writes first."""
    version = "9.7.0" if flavor == "mysql" else "10.11.16-MariaDB"
    yield f"/usr/sbin/mysqld, Version: {version} (made for a test). started with:\n"
    yield "Tcp port: 0  Unix socket: /run/s\n"
    yield "Time\t\t    Id Command\tArgument\n"


def entry(
    flavor: Flavor, connection: int, began: float, query_s: float, sql: str, *, schema: str = SCHEMA, last_use: str
) -> Iterator[str]:
    """The lines of one statement; `last_use` is the schema of the last entry before it, on any connection."""
    ended = datetime.fromtimestamp(began + query_s, UTC)
    if flavor == "mysql":
        yield f"# Time: {ended.isoformat(timespec='microseconds').replace('+00:00', 'Z')}\n"
        yield f"# User@Host: app[app] @ localhost []  Id: {connection:5d}\n"
        yield f"# Query_time: {query_s:.6f}  Lock_time: 0.000002 Rows_sent: 1  Rows_examined: 1\n"
    else:
        yield f"# Time: {ended:%y%m%d %H:%M:%S}\n"
        yield "# User@Host: app[app] @ localhost []\n"
        yield f"# Thread_id: {connection}  Schema: {schema}  QC_hit: No\n"
        yield f"# Query_time: {query_s:.6f}  Lock_time: 0.000002  Rows_sent: 1  Rows_examined: 1\n"
        yield "# Rows_affected: 0  Bytes_sent: 60\n"
    if schema != last_use:
        yield f"use {schema};\n"
    yield f"SET timestamp={int(began)};\n"
    yield f"{sql};\n"


def read_slow_log(lines: Iterable[str], *, name: str) -> SlowLog:
    """The log of lines with or without line feeds."""
    return SlowLog((line if line.endswith("\n") else f"{line}\n" for line in lines), name=name)
