"""Replication in the words of MySQL and of MariaDB, with GTIDs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from volbench.core.records.base import Scalar
from volbench.machine.engine.differences import ServerIdentity

_GTID_INTERVAL = re.compile(r"(\d+)(?:-(\d+))?")
_GTID_MARIADB = re.compile(r"\d+-\d+-(\d+)")


@dataclass(frozen=True, kw_only=True)
class ReplicationDialect:
    """The statements of one flavor.

    Args:
        start, stop, reset, status: of the replica.
        reset_binlog: removes a server's binary logs and its GTIDs; needs a binary log.
        position, source_position: statements for the GTIDs that a replica has applied and that a source has
            committed.
        workers: names the variable of the applier threads.
        options: my.cnf options of both servers.
        worker_errors: a statement for number and message of failed applier threads; empty: `status` has them.
    """

    start: str
    stop: str
    reset: str
    status: str
    reset_binlog: tuple[str, ...]
    position: str
    source_position: str
    workers: str
    options: Mapping[str, Scalar]
    source_options: Mapping[str, Scalar]
    worker_errors: str = ""


_MARIADB = ReplicationDialect(
    start="START SLAVE",
    stop="STOP SLAVE",
    reset="RESET SLAVE ALL",
    status="SHOW SLAVE STATUS",
    reset_binlog=("RESET MASTER",),
    position="SELECT @@GLOBAL.gtid_slave_pos",
    source_position="SELECT @@GLOBAL.gtid_binlog_pos",
    workers="slave_parallel_threads",
    options={},
    source_options={},
)


def dialect_of(identity: ServerIdentity) -> ReplicationDialect:
    """Return the statements that a server understands: MariaDB, or MySQL 8.0.26 and later."""
    if identity.flavor == "mariadb":
        return _MARIADB
    old = identity.number < (8, 4)
    return ReplicationDialect(
        start="START REPLICA",
        stop="STOP REPLICA",
        reset="RESET REPLICA ALL",
        status="SHOW REPLICA STATUS",
        reset_binlog=("RESET MASTER" if old else "RESET BINARY LOGS AND GTIDS",),
        position="SELECT @@GLOBAL.gtid_executed",
        source_position="SELECT @@GLOBAL.gtid_executed",
        workers="replica_parallel_workers",
        options={"gtid_mode": "ON", "enforce_gtid_consistency": "ON"},
        # Later versions always know which rows a transaction wrote; without that, what may be applied in parallel
        # would depend on the group commits of a source that never syncs.
        source_options={
            "caching_sha2_password_auto_generate_rsa_keys": True,
            **({"binlog_transaction_dependency_tracking": "WRITESET"} if old else {}),
        },
        worker_errors="SELECT last_error_number, last_error_message "
        "FROM performance_schema.replication_applier_status_by_worker WHERE last_error_number <> 0 LIMIT 1",
    )


def change_source(flavor: str, *, port: int, user: str, password: str) -> str:
    """Return the statement that points a replica at a server of its own machine; Unix sockets cannot replicate."""
    options: dict[str, str] = {
        "HOST": "'127.0.0.1'",
        "PORT": str(port),
        "USER": f"'{user}'",
        "PASSWORD": f"'{password}'",
        "CONNECT_RETRY": "1",
        "SSL": "0",
    }
    prefix, statement = (
        ("MASTER", "CHANGE MASTER TO") if flavor == "mariadb" else ("SOURCE", "CHANGE REPLICATION SOURCE TO")
    )
    clauses = [f"{prefix}_{name}={value}" for name, value in options.items()]
    if flavor == "mariadb":
        clauses += ["MASTER_SSL_VERIFY_SERVER_CERT=0", "MASTER_USE_GTID=slave_pos"]
    else:
        clauses += ["GET_SOURCE_PUBLIC_KEY=1", "SOURCE_AUTO_POSITION=1"]
    return f"{statement} {', '.join(clauses)}"


def transactions(gtids: str) -> int:
    """Return how many transactions a set of GTIDs has, counted from a reset binary log.

    `UUID:1-7:9,UUID2:1` (MySQL) has 9. `0-2-7` (MariaDB, the last of each domain) has 7.
    """
    if _GTID_MARIADB.match(gtids.strip()):
        return sum(int(number) for number in _GTID_MARIADB.findall(gtids))
    return sum(_in_one_set(text) for text in gtids.split(",") if text.strip())


def _in_one_set(text: str) -> int:
    intervals = (_GTID_INTERVAL.fullmatch(interval.strip()) for interval in text.split(":")[1:])
    return sum(int(match[2] or match[1]) - int(match[1]) + 1 for match in intervals if match)


@dataclass(frozen=True, kw_only=True)
class ReplicaStatus:
    """The state of both threads of a replica, and the error that stopped one; empty: none did.

    Args:
        applies: the applier thread runs.
        failure: error number and message of the applier or of the connection.
    """

    applies: bool
    failure: str


def replica_status(row: Mapping[str, Any]) -> ReplicaStatus:
    """Return what a row of SHOW REPLICA STATUS or SHOW SLAVE STATUS says.

    A connection error counts only if the receiver has given up: it tries again by itself.
    """
    values = {name.replace("Slave_", "Replica_"): value for name, value in row.items()}
    failure = _error(values, "SQL")
    if not failure and str(values.get("Replica_IO_Running")) == "No":
        failure = _error(values, "IO")
    return ReplicaStatus(applies=str(values.get("Replica_SQL_Running")) == "Yes", failure=failure)


def connection_error(row: Mapping[str, Any]) -> str:
    """Return the receiver's last error, also if it still tries; empty without one."""
    return _error(row, "IO")


def _error(values: Mapping[str, Any], thread: str) -> str:
    number = int(values.get(f"Last_{thread}_Errno") or 0)
    return f"error {number}: {values.get(f'Last_{thread}_Error')}" if number else ""
