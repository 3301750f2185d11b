"""The server whose power is cut, in the machine and after it, its clients, and their marks in the log of writes."""

from __future__ import annotations

import fcntl
import os
import random
import struct
import subprocess
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

import mysql.connector

from volbench.machine.engine.connection import Account, connection, rows
from volbench.measure.workload.crash.ledger import SCHEMA, TABLE, LedgerSpec, Writer

FILLER = f"{SCHEMA}.filler"
TREE = Path(__file__).resolve().parents[3]
COMMAND_LIMIT_S = 600.0
UMOUNT_LIMIT_S = 60.0
START_LIMIT_S, STOP_LIMIT_S = 600.0, 300.0
STATEMENT_LIMIT_S = 300.0
OPTIONS = {
    "log_bin": "binlog",
    "innodb_buffer_pool_size": "32M",
    "innodb_log_file_size": "16M",
    "innodb_buffer_pool_load_at_startup": "OFF",
    "innodb_buffer_pool_dump_at_shutdown": "OFF",
    "performance_schema": "OFF",
}
CUT = 1
"""Of the ledger's rows: all cuts are of one load."""
LOG_NAME = "logged"
DM_HEAD = struct.Struct("=3IIIIiIIIQ128s129s7x")
"""struct dm_ioctl of <linux/dm-ioctl.h>, 312 bytes; a struct dm_target_msg follows it."""
DM_TARGET_MSG = 0xC138FD0E


def bash(script: str, **environment: str) -> str:
    """Run a script that must succeed; return its output. Raises ServerFailure with its last lines."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        cwd=TREE,
        env={**os.environ, **environment},
        timeout=COMMAND_LIMIT_S,
    )
    if done.returncode:
        raise ServerFailure(f"{script.strip().splitlines()[0]}: {done.stdout.strip()[-300:]}")
    return done.stdout


def unmount(path: Path, script: str = "", **environment: str) -> None:
    """Unmount, then run a script. Raises TimeoutError where it stays busy."""
    deadline = time.monotonic() + UMOUNT_LIMIT_S
    while path.is_mount():
        subprocess.run(["umount", path], check=False, stderr=subprocess.DEVNULL)
        if time.monotonic() > deadline:
            raise TimeoutError(f"{path} stays busy")
        time.sleep(0.05)
    if script:
        bash(script, **environment)


class ServerFailure(Exception):
    """The server did not start, with what it said."""


class PowerServer:
    """MariaDB on a data directory, reached by a Unix socket.

    Args:
        options: variables of the server, with what OPTIONS has.
        place: a directory for its socket and its log.
        program: the command that starts it.
    """

    def __init__(
        self, data_dir: Path, options: Mapping[str, object], place: Path, program: Sequence[str] = ("mariadbd",)
    ) -> None:
        self._data_dir, self._options, self._program = data_dir, {**OPTIONS, **options}, program
        self._socket, self.log = place / "sock", place / "error.log"
        self._account = Account(user="root", socket=str(self._socket))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start, and wait until it answers. Raises ServerFailure."""
        for file in (self._socket, self.log):
            file.unlink(missing_ok=True)
        self._process = subprocess.Popen(
            [
                *self._program, "--no-defaults", "--user=root",
                f"--datadir={self._data_dir}", f"--socket={self._socket}",
                f"--pid-file={self._socket.with_name('pid')}", f"--log-error={self.log}", "--skip-networking",
                "--skip-grant-tables", *(f"--{name}={value}" for name, value in self._options.items()),
            ],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        deadline = time.monotonic() + START_LIMIT_S
        while time.monotonic() < deadline and self._process.poll() is None:
            with suppress(mysql.connector.Error):
                self.query("SELECT 1")
                return
            time.sleep(0.1)
        code = self._process.poll()
        self.kill()
        how = f"ended with {code}" if code is not None else f"did not answer within {START_LIMIT_S:g} s"
        raise ServerFailure(f"the server {how}")

    def connect(self, database: str | None = None, *, timeout_s: float = 0.0) -> AbstractContextManager[Any]:
        """A connection, as ServerHandle's: a server that a cut damaged may not answer."""
        return connection(self._account, database, timeout_s=min(timeout_s or STATEMENT_LIMIT_S, STATEMENT_LIMIT_S))

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Return all rows of one statement."""
        return rows(self._account, sql, timeout_s=STATEMENT_LIMIT_S)

    def stop(self) -> None:
        """Shut down cleanly."""
        assert self._process is not None
        self._process.terminate()
        self._process.wait(timeout=STOP_LIMIT_S)

    def kill(self) -> None:
        """End it by SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(timeout=STOP_LIMIT_S)


def fill(server: PowerServer, row_count: int) -> None:
    """Make the table whose rows transactions change."""
    server.query(
        f"CREATE TABLE {FILLER} (id INT PRIMARY KEY, changes INT NOT NULL, payload VARBINARY(1000) NOT NULL)"
        " ENGINE=InnoDB"
    )
    server.query(f"INSERT INTO {FILLER} SELECT seq, 0, REPEAT(MD5(seq), 31) FROM {SCHEMA}.seq_1_to_{row_count}")


def changed_and_present(server: PowerServer) -> tuple[int, int]:
    """Changes of the filler's rows, and transactions in the ledger: equal, as each transaction does both."""
    ((changes,),) = server.query(f"SELECT COALESCE(SUM(changes), 0) FROM {FILLER} WHERE LENGTH(payload) > 0")
    ((present,),) = server.query(f"SELECT COUNT(DISTINCT writer, number) FROM {TABLE}")
    return int(changes), int(present)


def mark(text: str) -> None:
    """Write a mark into the log of writes, as `dmsetup message logged 0 mark TEXT` does, without its time."""
    message = struct.pack("=Q", 0) + f"mark {text}".encode() + b"\0"
    size = DM_HEAD.size + len(message)
    head = DM_HEAD.pack(4, 0, 0, size, DM_HEAD.size, 0, 0, 0, 0, 0, 0, LOG_NAME.encode(), b"")
    control = os.open("/dev/mapper/control", os.O_RDWR)
    try:
        fcntl.ioctl(control, DM_TARGET_MSG, bytearray(head + message), True)
    finally:
        os.close(control)


def acknowledgement(writer: int, number: int) -> str:
    """The mark of an acknowledged transaction."""
    return f"ack:{writer}:{number}"


def commit_marked(
    server: PowerServer, spec: LedgerSpec, clients: int, commits: int, filler_rows: int
) -> list[Writer]:
    """Commit from several clients, each acknowledgement marked in the log. Raises what a client met."""
    writers = [Writer(number=number) for number in range(clients)]
    threads = [
        threading.Thread(target=_commit, args=(server, spec, writer, commits, filler_rows), daemon=True)
        for writer in writers
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors := [writer.ended_by for writer in writers if writer.ended_by]:
        raise ServerFailure(f"a client ended early: {errors[0]}")
    return writers


def _commit(server: PowerServer, spec: LedgerSpec, writer: Writer, commits: int, filler_rows: int) -> None:
    chance = random.Random(f"{spec.seed}/{writer.number}")
    insert = f"INSERT INTO {TABLE} VALUES (%s, %s, %s, %s, %s)"
    update = f"UPDATE {FILLER} SET changes = changes + 1, payload = REVERSE(payload) WHERE id = %s"
    try:
        with server.connect() as connected, connected.cursor() as cursor:
            connected.autocommit = False
            for number in range(1, commits + 1):
                writer.begun = number
                for row_number in range(spec.rows_per_commit):
                    row = (CUT, writer.number, number, row_number)
                    cursor.execute(insert, (*row, spec.payload(*row)))
                cursor.execute(update, (chance.randint(1, filler_rows),))
                connected.commit()
                mark(acknowledgement(writer.number, number))
                writer.acknowledged[number] = time.monotonic()
    except (mysql.connector.Error, OSError) as error:
        writer.ended_by = str(error) or type(error).__name__


def acknowledged_before(marks: Iterable[str], clients: int, commits: int) -> list[Writer]:
    """The clients as a cut leaves them: what was begun in all, and what was acknowledged by these marks."""
    writers = [Writer(number=number, begun=commits) for number in range(clients)]
    for position, text in enumerate(marks):
        if text.startswith("ack:"):
            _, writer, number = text.split(":")
            writers[int(writer)].acknowledged[int(number)] = float(position)
    return writers
