"""A server without a supervisor, and what steps on it record, for tests of workloads."""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import mysql.connector
from empty_data import copy_of_local

from volbench.core.records.base import Scalar
from volbench.core.records.cell import Failure
from volbench.core.records.dataset import DatasetSpec
from volbench.core.records.facts import ServerFacts
from volbench.core.records.series import HistogramRow, SeriesRow
from volbench.core.records.steps import Step
from volbench.machine.engine.connection import Account, account_from, connection, read_option_file
from volbench.machine.engine.sysbench.config import sysbench_config
from volbench.measure.workload.interface import StepContext, StepOutcome
from volbench.measure.workload.registry import workload_for

DATASET = DatasetSpec(tables=2, rows=20_000)
PASSWORD = "se cret,#1"
START_BOUND_S = 180.0
MARIADBD = "mariadbd"
EXTRA = [] if shutil.which(MARIADBD) else ["--mysqlx=OFF"]


class PlainServer:
    """A mariadbd of the test's own: no supervisor, a socket only."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.data_dir = directory / "data"
        self.option_file = directory / "client.cnf"
        self.socket = directory / "s"
        self.process: subprocess.Popen[bytes] | None = None

    def create(self) -> None:
        """An empty server with one user, and the dataset in it."""
        copy_of_local(self.data_dir)
        self._write_options("root", "")
        self.start()
        with self.connect() as opened:
            cursor = opened.cursor()
            cursor.execute(f"CREATE DATABASE {DATASET.schema_name}")
            cursor.execute(f"CREATE USER bench@localhost IDENTIFIED BY '{PASSWORD}'")
            cursor.execute("GRANT ALL ON *.* TO bench@localhost")
        self._write_options("bench", PASSWORD)
        config = self.directory / "prepare.conf"
        config.write_text(sysbench_config(account_from(read_option_file(self.option_file)), DATASET.schema_name))
        subprocess.run(
            [
                "sysbench",
                f"--config-file={config}",
                "oltp_read_write",
                f"--tables={DATASET.tables}",
                f"--table-size={DATASET.rows}",
                "--threads=2",
                "prepare",
            ],
            check=True,
            capture_output=True,
            timeout=120,
        )

    def _write_options(self, user: str, password: str) -> None:
        self.option_file.touch(mode=0o600)
        self.option_file.write_text(f'[client]\nuser={user}\npassword="{password}"\nsocket={self.socket}\n')

    @contextlib.contextmanager
    def connect(self, database: str | None = None, *, timeout_s: float = 60.0) -> Iterator[Any]:
        options = read_option_file(self.option_file)
        account = Account(user=options["user"], password=options["password"], socket=options["socket"])
        with connection(account, database, timeout_s=timeout_s) as opened:
            yield opened

    def query(self, sql: str) -> list[Any]:
        with self.connect() as opened:
            cursor = opened.cursor()
            cursor.execute(sql)
            return list(cursor.fetchall()) if cursor.description else []

    def start(self, config_overrides: Mapping[str, Scalar] | None = None) -> float:
        begun = time.monotonic()
        overrides = [f"--{name}={value}" for name, value in (config_overrides or {}).items()]
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    shutil.which(MARIADBD) or "mysqld",
                    "--no-defaults",
                    f"--datadir={self.data_dir}",
                    f"--tmpdir={self.directory}",
                    f"--socket={self.socket}",
                    *EXTRA,
                    "--skip-networking",
                    "--user=root",
                    "--innodb-buffer-pool-size=64M",
                    *overrides,
                ],
                stdout=log,
                stderr=log,
            )
        while time.monotonic() - begun < START_BOUND_S:
            with contextlib.suppress(mysql.connector.Error):
                self.query("SELECT 1")
                return time.monotonic() - begun
            assert self.alive(), self.log_tail(20)
            time.sleep(0.05)
        raise AssertionError(f"no answer in {START_BOUND_S} s: {self.log_tail(20)}")

    def stop(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            self.process.wait(60)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(60)

    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def log_tail(self, lines: int) -> str:
        return "\n".join((self.directory / "log").read_text(errors="replace").splitlines()[-lines:])

    def facts(self) -> ServerFacts:
        version = self.query("SELECT version()")[0][0]
        return ServerFacts(flavor="mariadb" if "MariaDB" in version else "mysql", version=version)

    def failure(self, where: str = "server", *, error: str = "") -> Failure | None:  # noqa: ARG002
        if self.alive():
            return None
        code = self.process.returncode if self.process is not None else None
        return Failure(cause="server_killed", message=f"the server ended with {code}", where=where)

    def has_failed(self) -> bool:
        return not self.alive()

    def own(self, _purpose: str, *, where: str) -> Any:  # noqa: ARG002
        return self


@contextlib.contextmanager
def plain_server() -> Iterator[PlainServer]:
    """A running server with the dataset, removed at the end of the block."""
    # A short path: a Unix socket's name has at most 107 bytes.
    directory = Path(subprocess.run(["mktemp", "-d"], check=True, capture_output=True, text=True).stdout.strip())
    server = PlainServer(directory)
    try:
        server.create()
        yield server
    finally:
        server.stop()
        shutil.rmtree(directory)


class Kept:
    """A recorder that keeps everything."""

    def __init__(self) -> None:
        self.rows: list[SeriesRow] = []
        self.histograms: list[HistogramRow] = []

    def series(self, rows: Iterable[SeriesRow]) -> None:
        self.rows.extend(rows)

    def histogram(self, row: HistogramRow) -> None:
        self.histograms.append(row)

    def of(self, metric: str) -> dict[float, float]:
        return {row.t_s: row.value for row in self.rows if row.metric == metric}


def run(step: Step, ctx: StepContext) -> StepOutcome:
    workload = workload_for(step)
    workload.check(step, ctx)
    return workload.run(step, ctx)


def values(outcome: StepOutcome) -> dict[str, float]:
    return {name: metric.value for name, metric in outcome.metrics.items()}


def after(delay_s: float, action: Callable[[], None]) -> threading.Timer:
    timer = threading.Timer(delay_s, action)
    timer.start()
    return timer


def freeze_(server: PlainServer) -> None:
    assert server.process is not None
    server.process.send_signal(signal.SIGSTOP)


def thaw_(server: PlainServer) -> None:
    assert server.process is not None
    server.process.send_signal(signal.SIGCONT)
