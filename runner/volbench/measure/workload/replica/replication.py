"""A replica that follows its source by GTIDs: begun, paused, watched, and compared with the source at the end."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Mapping
from typing import Any

import mysql.connector

from volbench.errors import StepFailed, VolbenchError
from volbench.machine.engine.server import Server
from volbench.measure.workload.failures import with_server_cause
from volbench.measure.workload.interface import StepContext
from volbench.measure.workload.replica.dialect import (
    change_source,
    connection_error,
    dialect_of,
    replica_status,
    transactions,
)
from volbench.measure.workload.schema_data import differences, sums_as_details, table_sums

USER = "volbench_replica"
_TIMEOUT_S = 120.0


class Replication:
    """One replica and its source.

    Args:
        ctx: of the step, whose server is the replica.
        where: for messages.
    """

    def __init__(self, source: Server, replica: Server, ctx: StepContext, *, where: str) -> None:
        self._source = source
        self._replica = replica
        self._ctx = ctx
        self._where = where
        self._dialect = dialect_of(replica.identity)
        self._paused = True

    def begin(self, workers: int) -> None:
        """Point the replica at the source, which has the same data and no transaction yet, and start it."""
        password = secrets.token_hex(16)
        self._make_account(password)
        for server in (self._source, self._replica):
            self._forget_transactions(server)
        if self._replica.identity.flavor == "mariadb":
            self._replica.query("SET GLOBAL gtid_slave_pos = ''")
        self._replica.query(f"SET GLOBAL {self._dialect.workers} = {workers}")
        port = self._source.port
        assert port is not None
        flavor = self._replica.identity.flavor
        self._replica.query(change_source(flavor, port=port, user=USER, password=password))
        self.start()

    def start(self) -> None:
        """Start both threads of the replica."""
        self._replica.query(self._dialect.start)
        self._paused = False

    def stop(self) -> None:
        """Stop both threads; what is being applied ends first."""
        self._paused = True
        self._replica.query(self._dialect.stop)

    def end(self) -> None:
        """Stop the replica for good: it is no replica any more."""
        self.stop()
        self._replica.query(self._dialect.reset)

    def applied(self) -> int:
        """Return how many transactions of the source the replica has applied."""
        return _count(self._replica, self._dialect.position)

    def committed(self) -> int:
        """Return how many transactions the source has committed."""
        return _count(self._source, self._dialect.source_position)

    def check(self) -> None:
        """Raise StepFailed with the server's own words if the replica has stopped by itself."""
        if self._paused:
            return
        status = replica_status(self._status())
        if status.failure or not status.applies:
            evidence = self._worker_error() or status.failure or "the applier thread does not run"
            failure = StepFailed(
                "the replica stopped",
                where=self._where,
                evidence=evidence,
                cause="replica_stopped",
                next_step="keep other writers off the server; if there are none, report the server's error",
            )
            raise with_server_cause(failure, self._ctx)

    def connection_error(self) -> str:
        """Return the last error of the replica's connection to its source; empty without one."""
        return connection_error(self._status())

    def compare(self) -> dict[str, dict[str, int]]:
        """Return rows and checksums of all tables. Raise StepFailed if source and replica differ."""
        schema = self._ctx.dataset.schema_name
        source, replica = (
            table_sums(server, schema, self._ctx.progress) for server in (self._source, self._replica)
        )
        different = differences(source, replica, copy="replica")
        if different:
            raise StepFailed(
                "the replica has other data than its source",
                where=self._where,
                evidence="; ".join(different),
                cause="replica_differs",
            )
        return sums_as_details(replica)

    def _make_account(self, password: str) -> None:
        """Make an account that may only replicate, on the source alone: it is not logged."""
        account = f"{USER}@'127.0.0.1'"
        with self._source.connect(timeout_s=_TIMEOUT_S) as opened, opened.cursor() as cursor:
            cursor.execute("SET SESSION sql_log_bin = 0")
            cursor.execute(f"CREATE USER {account} IDENTIFIED BY '{password}'")
            cursor.execute(f"GRANT REPLICATION SLAVE ON *.* TO {account}")

    def _forget_transactions(self, server: Server) -> None:
        if str(server.query("SELECT @@GLOBAL.log_bin")[0][0]) in ("1", "ON"):
            for statement in self._dialect.reset_binlog:
                server.query(statement)

    def _status(self) -> Mapping[str, Any]:
        with (
            self._replica.connect(timeout_s=_TIMEOUT_S) as opened,
            opened.cursor(dictionary=True) as cursor,
        ):
            cursor.execute(self._dialect.status)
            rows = cursor.fetchall()
        return {str(name): value for name, value in rows[0].items()} if rows else {}  # type: ignore[union-attr]

    def _worker_error(self) -> str:
        """Return what stopped an applier thread, which MySQL's status only refers to; empty if unknown."""
        if not self._dialect.worker_errors:
            return ""
        with contextlib.suppress(VolbenchError, mysql.connector.Error):
            for number, message in self._replica.query(self._dialect.worker_errors):
                return f"error {number}: {message}"
        return ""


def _count(server: Server, statement: str) -> int:
    return transactions(str(server.query(statement)[0][0] or ""))
