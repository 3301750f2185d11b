"""A server in a directory of its own, for tests and benchmarks: mariadbd, else mysqld, on a Unix socket only."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import mysql.connector
from empty_data import copy_of_local, directory_in_memory

from volbench.machine.engine.connection import Account, rows

START_BOUND_S = 180.0
PASSWORD = "open, sesame#1"


class ScratchServer:
    """Has a user with a password, which is in `option_file` only.

    Args:
        data_on: an empty directory for its data; by default one in memory.
    """

    def __init__(self, directory: Path, *options: str, data_on: Path | None = None) -> None:
        self.directory = directory
        self.socket = directory / "s"
        self.option_file = directory / "client.cnf"
        self.mariadb = shutil.which("mariadbd") is not None
        self._options = options if self.mariadb else (*options, "--mysqlx=OFF")
        self._process: subprocess.Popen[bytes] | None = None
        self._place = directory_in_memory(directory) if data_on is None else data_on

    def create(self) -> None:
        """Make the data directory."""
        copy_of_local(self._place / "data")
        (self.directory / "data").symlink_to(self._place / "data")

    def start(self) -> None:
        """Start, and wait until a query is answered."""
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    shutil.which("mariadbd") or "mysqld",
                    "--no-defaults",
                    "--user=root",
                    "--skip-networking",
                    f"--datadir={self.directory / 'data'}",
                    f"--socket={self.socket}",
                    f"--tmpdir={self.directory}",
                    "--innodb-buffer-pool-size=64M",
                    "--performance-schema=ON",
                    *self._options,
                ],
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + START_BOUND_S
        while True:
            try:
                self.query("SELECT 1")
            except mysql.connector.Error as error:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    log_text = (self.directory / "log").read_text(errors="replace")
                    raise AssertionError(f"no server: {error}; {log_text[-2000:]}") from error
                time.sleep(0.05)
            else:
                return

    def pause(self, seconds: float) -> None:
        """Stop all of the server's threads for so long, as a paused container or machine does."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            time.sleep(seconds)  # the length of the stand is what is made
        finally:
            self._process.send_signal(signal.SIGCONT)

    def secure(self) -> None:
        """Give a user a password, and write the option file."""
        self.query(f"CREATE USER bench@localhost IDENTIFIED BY '{PASSWORD}'")
        self.query("GRANT ALL ON *.* TO bench@localhost")
        account = Account(user="bench", password=PASSWORD, socket=str(self.socket))
        self.option_file.touch(mode=0o600)
        self.option_file.write_text(account.option_file_text())

    def query(self, sql: str) -> list[tuple[object, ...]]:
        """All rows of one statement, as root."""
        return rows(Account(user="root", socket=str(self.socket)), sql, timeout_s=30)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, such as SIGSTOP for a server that hangs."""
        assert self._process is not None
        self._process.send_signal(number)

    def stop(self) -> None:
        """Shut it down."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)
            self._process.terminate()
            self._process.wait(60)

    def remove(self) -> None:
        """Remove its data."""
        shutil.rmtree(self._place)


@contextmanager
def scratch_server(directory: Path, *options: str) -> Iterator[ScratchServer]:
    """A running server with its option file, stopped at the end of the block."""
    server = ScratchServer(directory, *options)
    server.create()
    server.start()
    try:
        server.secure()
        yield server
    finally:
        server.stop()
        server.remove()
