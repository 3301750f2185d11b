"""Checksums of a validation: seconds of a gigabyte on a server, and both servers at once.

    python tests/benchmarks/checksums.py [--rows 400000] [--rounds 3] [--mysql]

Two servers with the same table of sysbench's columns, once in latin1 and once in utf8mb4: of this machine, or, with
--mysql, MySQL in containers. A gigabyte is of the columns' text. Seconds are CPU time of a server's process, of
this code's query, of the query before it (two passes over a converted text), and of pt-table-checksum, in turn; the
best round of each counts. Wall time is of both servers together against one after the other. Ends with 1 when a
limit is missed: of ratios, since a busy machine adds up to a quarter to CPU times.

Four connections against one: each answer takes a fifth of a second longer than this machine's CPUs need, as that of
a server elsewhere does whose volume or network it waits for; on two CPUs that both servers share with this program,
nothing else could show what connections give.

Two cores, s CPU of a GB: MariaDB 10.11 latin1 2.7 (before 9.6, pt-table-checksum 3.7), utf8mb4 3.5 (5.9, 1.6), at
load 2; MySQL 9.7 latin1 6.5 (11.4, 4.3), utf8mb4 5.7 (10.8, 4.0), at load 10. Both servers at once take 0.5 to 0.65
of one after the other. With MySQL 9.7 on idle CPUs (now 5.85 and 5.45, pt-table-checksum 4.39 and 4.26) joining the
columns' text takes 3.9 and 3.6 by itself, and a scan 1.9 and 2.1: no checksum by SQL takes less than 4 s of a GB.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import docker
from mysql_container import mysql_container
from scratch_server import scratch_server

from volbench.machine.engine.connection import Account, rows
from volbench.measure.workload.process import process_cpu_s
from volbench.validation.catalog.inventory import read_inventory
from volbench.validation.data import checksums
from volbench.validation.data.checksums import compare_tables, tables_of
from volbench.validation.data.chunk_sums import chunk_sessions, on_both
from volbench.validation.data.chunks import Pace
from volbench.validation.data.row_sql import chunk_query
from volbench.validation.data.table import ComparedTable
from volbench.validation.source.server import Rows, SqlReader, read_only

TIMES_FASTER_MIN = 1.4
"""Than the query before."""
TOGETHER_SHARE_MAX = 0.75
"""Wall time of both servers at once, as a share of one after the other: half, on CPUs that are free for both."""
CONNECTIONS = 4
TIMES_FASTER_EACH_MIN = 0.8
"""What each of so many connections gives of one alone."""
ANSWER_S = 0.2
CHUNKS = 48
ROW_BYTES = 4 + 4 + 120 + 60
SCHEMA = "bench"
_TEN = "(SELECT 0 d" + "".join(f" UNION SELECT {digit}" for digit in range(1, 10)) + ")"


def main() -> int:
    """Fill, measure, judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--mysql", action="store_true")
    expected = parser.parse_args()
    with contextlib.ExitStack() as stack:
        sides = [stack.enter_context(_server(mysql=expected.mysql)) for _ in range(2)]
        for account, _ in sides:
            _fill(account, expected.rows)
        source, candidate = (stack.enter_context(read_only(account)) for account, _ in sides)
        inventories = [read_inventory(side, [SCHEMA]) for side in (source, candidate)]
        missed = False
        for table in tables_of(*inventories):
            missed |= _judged(table, source.query, sides[0][1], expected.rows, expected.rounds)
            missed |= _judged_together(table, source, candidate, expected.rounds)
        tables = tables_of(*inventories)
        missed |= _judged_connections(tables[:1], (source, candidate), (sides[0][0], sides[1][0]), expected.rows)
    return int(missed)


def _judged(table: ComparedTable, query: Callable[[str], Any], pid: int, row_count: int, rounds: int) -> bool:
    queries = {
        "now": chunk_query(table, "TRUE"),
        "before": f"SELECT COUNT(*), BIT_XOR({_bits(_BEFORE)}), SUM(CRC32({_BEFORE})) FROM {table.quoted}",
        "pt-table-checksum": f"SELECT COUNT(*), LOWER(CONV(BIT_XOR(CAST(CRC32({_PT}) AS UNSIGNED)), 10, 16)) "
        f"FROM {table.quoted}",
    }
    best = dict.fromkeys(queries, float("inf"))
    for _ in range(rounds):
        for name, sql in queries.items():
            begun_s = _cpu_s(pid)
            query(sql)
            best[name] = min(best[name], (_cpu_s(pid) - begun_s) / (row_count * ROW_BYTES) * 1e9)
    figures = ", ".join(f"{name} {seconds:.2f}" for name, seconds in best.items())
    times = best["before"] / best["now"]
    print(f"{table.name}: s CPU of a GB: {figures}; {times:.1f} times as fast (at least {TIMES_FASTER_MIN:g})")
    return times < TIMES_FASTER_MIN


def _judged_together(table: ComparedTable, source: Any, candidate: Any, rounds: int) -> bool:
    sql, shares = chunk_query(table, "TRUE"), []
    for _ in range(rounds):
        begun_s = time.monotonic()
        answers = [side.query(sql) for side in (source, candidate)]
        between_s = time.monotonic()
        assert on_both(source, candidate, sql) == tuple(answers)
        shares.append((time.monotonic() - between_s) / (between_s - begun_s))
    share = min(shares)
    print(f"{table.name}: both at once take {share:.2f} of one after the other (at most {TOGETHER_SHARE_MAX:g})")
    return share > TOGETHER_SHARE_MAX


class _Elsewhere:
    """A session whose answers take longer than the server's CPU time."""

    def __init__(self, session: SqlReader) -> None:
        self._session = session

    def query(self, sql: str) -> Rows:
        answer = self._session.query(sql)
        time.sleep(ANSWER_S)
        return answer


class _Even(Pace):
    """Chunks of as many rows, however long they take."""

    def adapt(self, seconds: float, *, rows: int) -> None:
        pass


def _judged_connections(
    tables: Sequence[ComparedTable],
    own: tuple[SqlReader, SqlReader],
    accounts: tuple[Account, Account],
    row_count: int,
) -> bool:
    seconds = {}
    with chunk_sessions(*accounts, CONNECTIONS) as sessions, mock.patch.object(checksums, "Pace") as pace:
        pace.side_effect = lambda: _Even(rows=row_count // CHUNKS)
        pairs = [(_Elsewhere(source), _Elsewhere(candidate)) for source, candidate in sessions]
        for count in (1, CONNECTIONS):
            begun_s = time.monotonic()
            [compared] = compare_tables(*own, tables, lambda *_: None, pairs=pairs[:count])
            seconds[count] = time.monotonic() - begun_s
            assert compared.equal
            assert compared.source_rows == row_count
    times = seconds[1] / seconds[CONNECTIONS]
    least = TIMES_FASTER_EACH_MIN * CONNECTIONS
    print(f"{CONNECTIONS} connections: {times:.2f} times as fast as one (at least {least:g})")
    return times < least


@contextlib.contextmanager
def _server(*, mysql: bool) -> Iterator[tuple[Account, int]]:
    """A server's root account and its process."""
    with tempfile.TemporaryDirectory(prefix="vb") as directory:
        if not mysql:
            with scratch_server(Path(directory), "--innodb-buffer-pool-size=1G") as server:
                account = Account(user="root", socket=str(server.socket))
                yield account, int((Path(directory) / "data" / _pid_file(account)).read_text())
            return
        client = docker.from_env()
        before = {container.id for container in client.containers.list()}
        with mysql_container(Path(directory)) as account:
            [container] = [item for item in client.containers.list() if item.id not in before]
            yield account, int(container.attrs["State"]["Pid"])
        client.close()


def _pid_file(account: Account) -> str:
    [(path,)] = rows(account, "SELECT @@pid_file")
    return str(path)


def _fill(account: Account, row_count: int) -> None:
    """Make both tables, and read them once."""
    _run(account, f"CREATE DATABASE {SCHEMA}")
    numbers = " + ".join(f"{10**location} * n{location}.d" for location in range(7))
    joined = " JOIN ".join(f"{_TEN} n{location}" for location in range(7))
    for charset in ("latin1", "utf8mb4"):
        table = f"{SCHEMA}.{charset}"
        _run(
            account,
            f"CREATE TABLE {table} (id INT NOT NULL PRIMARY KEY, k INT NOT NULL, c CHAR(120) NOT NULL, "
            f"pad CHAR(60) NOT NULL) CHARSET {charset}",
            f"INSERT INTO {table} SELECT n, 7 * n, REPEAT(LPAD(n, 10, '-'), 12), REPEAT(LPAD(n, 10, '='), 6) "
            f"FROM (SELECT {numbers} AS n FROM {joined}) numbers WHERE n < {row_count}",
        )
        rows(account, f"SELECT SUM(LENGTH(pad)) FROM {table}")


def _run(account: Account, *statements: str) -> None:
    for statement in statements:
        rows(account, statement)


def _bits(text: str) -> str:
    return f"CAST(CONV(LEFT(SHA2({text}, 256), 16), 16, 10) AS UNSIGNED)"


def _cpu_s(pid: int) -> float:
    seconds = process_cpu_s(pid)
    assert seconds is not None
    return seconds


_BEFORE = (
    "CONCAT_WS('#', COALESCE(`id`, ''), COALESCE(`k`, ''), COALESCE(CONVERT(`c` USING utf8mb4), ''), "
    "COALESCE(CONVERT(`pad` USING utf8mb4), ''), CONCAT(ISNULL(`id`), ISNULL(`k`), ISNULL(`c`), ISNULL(`pad`)))"
)
_PT = "CONCAT_WS('#', `id`, `k`, CONVERT(`c` USING utf8mb4), CONVERT(`pad` USING utf8mb4))"

if __name__ == "__main__":
    sys.exit(main())
