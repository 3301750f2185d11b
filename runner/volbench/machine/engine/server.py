"""The server of a cell: initialised, started, queried, stopped and killed through its supervisor."""

from __future__ import annotations

import contextlib
import json
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

import mysql.connector
from mysql.connector import errorcode
from mysql.connector.abstracts import MySQLConnectionAbstract

from volbench.core.base import safe_files
from volbench.core.base.parse import parse_json
from volbench.core.records.base import Scalar
from volbench.core.records.cell import CellPlaces, Failure, ServerSpec
from volbench.core.records.facts import ServerFacts
from volbench.errors import MissingPrerequisite, Refused, StepFailed
from volbench.machine.engine import failure as failures
from volbench.machine.engine.attached import AttachedServer
from volbench.machine.engine.connection import STATEMENT_TIMEOUT_S, Account, connection, rows, write_private
from volbench.machine.engine.differences import ServerIdentity, identify, require_version
from volbench.machine.engine.encryption import (
    INSTALLATION,
    EncryptedStart,
    check_encryption,
    read_installation,
    write_key,
)
from volbench.machine.engine.facts import server_facts
from volbench.machine.engine.server_files import ServerFiles
from volbench.machine.engine.supervisor import Supervisor
from volbench.machine.volume.trouble import VolumeTrouble, check_volume_state, exit_code_of

__all__ = ["ACCOUNT_FILE", "AttachedServer", "Server"]

ACCOUNT_FILE = "volbench-account"
"""In the data directory, 0600: the password of its root account. Copies of the directory include the file."""
_BINARIES = {"any": ("mysqld", "mariadbd"), "mysql": ("mysqld",), "mariadb": ("mariadbd", "mysqld")}
_ASKING_TIMEOUT_S = 60.0
_INITIALISE_TIMEOUT_S = 600.0
_READY_POLL_S = 0.02
_OWN_FILE_BYTES_MAX = 4096
_IDENTITY_FILE = "identity.json"


class Server:
    """One server process with one data directory.

    Args:
        spec: flavor, required version, options and time-outs.
        paths: directories, as this process and as the server sees them.
        supervisor: of `paths.control_dir`; must run already.
        port: of the loopback, on which the server listens too; None: on its socket only.

    Raises MissingPrerequisite if the socket's path is too long for a Unix socket.
    """

    def __init__(
        self, *, spec: ServerSpec, paths: CellPlaces, supervisor: Supervisor, port: int | None = None
    ) -> None:
        self.port = port
        self.spec = spec
        self.paths = paths
        self.supervisor = supervisor
        self.data_dir = Path(paths.data_dir)
        self.control_dir = Path(paths.control_dir)
        self.option_file = self.control_dir / "client.cnf"
        self.notes: tuple[str, ...] = ()
        self._files = ServerFiles(paths)
        self._log_mark = 0
        self._killed_by_agent = False
        self._oom_kills_before: int | None = None

    @property
    def user(self) -> int | None:
        """The user of a server on this machine where this process is root; None: the same as the supervisor's."""
        return self._files.user

    @property
    def socket(self) -> Path:
        """The server's Unix socket."""
        return self._files.socket

    @cached_property
    def identity(self) -> ServerIdentity:
        """Flavor and version, from the binary.

        Raises MissingPrerequisite if there is no server, or not the one that the suite requires.
        """
        # A second agent cannot run the binary while the server runs.
        identity_file = self.control_dir / _IDENTITY_FILE
        if identity_file.exists():
            text = safe_files.read_beside(identity_file, bytes_max=_OWN_FILE_BYTES_MAX)
            return require_version(self.spec, ServerIdentity(**parse_json(text)))
        output = ""
        for binary in _BINARIES[self.spec.flavor]:
            ran = self.supervisor.run(
                [binary, "--no-defaults", "--version"],
                timeout_s=_ASKING_TIMEOUT_S,
                doing=f"asking {binary} for its version",
            )
            output = ran.output.strip()
            identity = identify(output, binary) if ran.exit_code == 0 else None
            if identity is not None:
                write_private(identity_file, json.dumps(asdict(require_version(self.spec, identity))))
                return identity
        raise MissingPrerequisite(
            f"there is no {self.spec.flavor} server to run",
            where="server",
            evidence=output[-500:],
            next_step="install one, or use --target docker; see `volbench doctor`",
        )

    def initialise(self) -> None:
        """Initialise a data directory with volbench's account, in an empty or missing directory.

        Raises Refused if the directory is not empty, StepFailed with the log's last lines.
        """
        self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        if any(self.data_dir.iterdir()):
            raise Refused(
                "the data directory is not empty", where="server initialisation", evidence=str(self.data_dir)
            )
        self._files.remove_init()
        self._write_config({})
        if self._encrypted_start is not None:
            write_key(self.data_dir, self.identity.flavor)
        self._mark_start()
        ran = self.supervisor.run(
            self._files.enclosed(self._initialise_argv()),
            timeout_s=_INITIALISE_TIMEOUT_S,
            doing="initialising the data directory",
        )
        if ran.exit_code != 0:
            raise failures.as_error(self._diagnose(ran.exit_code, "server initialisation"))
        self.adopt()

    def adopt(self) -> None:
        """Take the data directory for volbench: the first start makes root@localhost its account."""
        password = secrets.token_hex(16)
        write_private(self.data_dir / ACCOUNT_FILE, password)
        account = "'root'@'localhost'"
        statements = (
            f"CREATE USER IF NOT EXISTS {account};",
            f"ALTER USER {account} IDENTIFIED BY '{password}';",
            f"GRANT ALL ON *.* TO {account} WITH GRANT OPTION;",
        )
        self._files.write_init(statements)

    def start(self, config_overrides: Mapping[str, Scalar] | None = None) -> float:
        """Start, wait until the server answers a query, and return the seconds from the start to the answer.

        Args:
            config_overrides: [mysqld] options for this start; they win over the suite's.

        Raises StepFailed if the server exits or does not answer in time; UsageError for its options.
        """
        if self.alive():
            raise StepFailed("the server runs already", where="server start")
        self._write_config(config_overrides or {})
        write_private(self.option_file, self.account.option_file_text())
        self._mark_start()
        since = time.monotonic()
        argv = [self._program, f"--defaults-file={self._files.config_file}"]
        self.supervisor.start(self._files.enclosed(argv))
        self._wait_ready(since)
        seconds = time.monotonic() - since
        self._files.remove_init()
        return seconds

    def stop(self) -> None:
        """Shut down cleanly. Raise StepFailed if that takes too long or fails."""
        if not self.alive():
            return
        state = self.supervisor.stop(self.spec.stop_timeout_s)
        if state.exit_code != 0:
            raise failures.as_error(self._diagnose(state.exit_code, "server shutdown"))

    def kill(self) -> None:
        """SIGKILL, as in a crash; the process is gone when this returns."""
        self._killed_by_agent = True
        self.supervisor.kill()

    def alive(self) -> bool:
        """Return whether the server's process runs; False if its supervisor is gone."""
        try:
            return self.supervisor.state().running
        except StepFailed:
            return False

    @property
    def account(self) -> Account:
        """volbench's account on this server. Raises StepFailed if `initialise` did not make the data directory."""
        try:
            own = safe_files.read_beside(self.data_dir / ACCOUNT_FILE, bytes_max=_OWN_FILE_BYTES_MAX)
            password = own.decode().strip()
        except (OSError, ValueError) as error:
            raise StepFailed(
                "the data directory has no account of volbench",
                where="server start",
                evidence=str(error),
                next_step="seed the data directory from a template, or initialise it",
            ) from error
        return Account(user="root", password=password, socket=str(self.socket))

    def connect(
        self, database: str | None = None, *, timeout_s: float = STATEMENT_TIMEOUT_S
    ) -> AbstractContextManager[MySQLConnectionAbstract]:
        """Yield a connection in autocommit mode, closed at the end of the block; `timeout_s` bounds each statement.

        Raises StepFailed with the cause if the server is down.
        """
        return self._with_cause(connection(self.account, database, timeout_s=timeout_s))

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Return all rows of one statement. Raise StepFailed with the cause if the server is down."""
        with self.connect() as opened, opened.cursor() as cursor:
            cursor.execute(sql)
            return [tuple(row) for row in cursor.fetchall()] if cursor.description else []

    def facts(self) -> ServerFacts:
        """Flavor, version, settings, and what this server cannot show, as it says itself."""
        return server_facts(self.query)

    def check_encryption(self) -> str:
        """Return a note on what the server says is encrypted; empty for a suite that asks for nothing.

        Raises StepFailed if the suite asks for more.
        """
        if self.spec.encryption == "none":
            return ""
        return check_encryption(self.query, self.identity, self.spec.encryption)

    def log_tail(self, lines: int = 20) -> str:
        """Return the last lines of the error log."""
        return self.supervisor.log_tail(lines)

    def failure(self, where: str = "server", *, error: str = "") -> Failure | None:
        """Return why the server is down, or what is wrong with its volume while it runs; None if both are well.

        Args:
            error: what a client was told; after an error of storage the log tells the trouble of the volume.
        """
        try:
            state = self.supervisor.state()
        except StepFailed as gone:
            return Failure(cause=gone.cause, message=gone.what, where=where, evidence=gone.evidence)
        if state.running and not self._volume_trouble():
            return failures.diagnose_storage_error(error, self._circumstances(None), where=where)
        if not state.running and state.exit_code is None:
            return Failure(cause="server_not_started", message="the server was not started", where=where)
        return self._diagnose(state.exit_code, where)

    def has_failed(self) -> bool:
        """Return whether the server is down, or its volume in trouble."""
        return self.failure() is not None

    def own(self, purpose: str, *, where: str) -> Server:  # noqa: ARG002 - an attached server refuses with both
        """Return this server: volbench started it, and may do with it what a step needs."""
        return self

    def log_since_start(self) -> str:
        """Return the log's text since the last start."""
        return self.supervisor.log_since(self._log_mark)

    def why_down(self) -> str:
        """Return why the server is not running, in a sentence with the evidence."""
        failure = self.failure()
        return (
            "the server is running"
            if failure is None
            else f"{failure.cause}: {failure.message} ({failure.evidence})"
        )

    @contextlib.contextmanager
    def _with_cause(
        self, opened: AbstractContextManager[MySQLConnectionAbstract]
    ) -> Iterator[MySQLConnectionAbstract]:
        try:
            with opened as inner:
                yield inner
        except mysql.connector.Error as error:
            failure = self.failure("server connection", error=str(error))
            if failure is not None:
                raise failures.as_error(failure) from error
            raise StepFailed("a query failed", where="server connection", evidence=str(error)) from error

    def _write_config(self, overrides: Mapping[str, Scalar]) -> None:
        self.notes = self._files.write_config(
            self.identity,
            {**self.spec.config, **overrides},
            port=self.port,
            with_init=self._account_is_pending(),
            encryption=self._encrypted_start.options if self._encrypted_start else {},
        )

    @cached_property
    def _encrypted_start(self) -> EncryptedStart | None:
        """How the server starts with encryption; asked before its first start. Raises UsageError if it cannot."""
        if self.spec.encryption == "none":
            return None
        ran = self.supervisor.run(
            ["sh", "-c", INSTALLATION, "sh", self.identity.binary],
            timeout_s=_ASKING_TIMEOUT_S,
            doing="asking the server for its plugins",
        )
        installation = read_installation(ran.output, self.identity)
        return self._files.encrypted_start(self.identity, self.spec.encryption, installation)

    @property
    def _program(self) -> str:
        return self._encrypted_start.program if self._encrypted_start else self.identity.binary

    def _account_is_pending(self) -> bool:
        """Return whether the first start still has to make the account of this data directory."""
        try:
            return self._files.init_has(self.account.password)
        except StepFailed:
            return False

    def _initialise_argv(self) -> list[str]:
        config = f"--defaults-file={self._files.config_file}"
        if self.identity.flavor == "mysql":
            return [self._program, config, "--initialize-insecure"]
        return ["mariadb-install-db", config, "--auth-root-authentication-method=normal", "--skip-test-db"]

    def _mark_start(self) -> None:
        self.socket.unlink(missing_ok=True)
        self._log_mark = self.supervisor.log_size()
        self._killed_by_agent = False
        self._oom_kills_before = failures.oom_kills()

    def _wait_ready(self, since: float) -> None:
        account, last = self.account, ""
        while True:
            state = self.supervisor.state()
            if not state.running:
                raise failures.as_error(self._diagnose(state.exit_code, "server start"))
            if self.socket.exists():
                try:
                    rows(account, "SELECT 1", timeout_s=10.0)
                except mysql.connector.Error as error:
                    last = str(error)
                    if error.errno == errorcode.ER_ACCESS_DENIED_ERROR:
                        self.kill()
                        raise StepFailed(
                            "the server does not know the account of its data directory",
                            where="server start",
                            evidence=last,
                        ) from error
                else:
                    return
            if time.monotonic() - since > self.spec.start_timeout_s:
                self._raise_start_timeout(last)
            time.sleep(_READY_POLL_S)

    def _volume_trouble(self) -> VolumeTrouble | None:
        """Return what is wrong with the volume of the data, or else with one of the layout's others."""
        directories = self._files.data_dirs
        return next(
            (trouble for directory in directories if (trouble := check_volume_state(directory)) is not None), None
        )

    def _raise_start_timeout(self, last: str) -> None:
        trouble = self._volume_trouble()
        evidence = [str(self.supervisor.state()), f"last answer: {last or 'none'}"]
        evidence += [] if trouble is None else [trouble.evidence]
        log = self.supervisor.log_tail(15)
        self.kill()
        failure = StepFailed(
            f"the server answered no query within {self.spec.start_timeout_s:g} s of its start; it was killed",
            where="server start",
            evidence=f"{'; '.join(evidence)}; last log lines:\n{log}",
            next_step="raise engine.start_timeout if the log shows that the server was still working",
            cause="start_timeout" if trouble is None else trouble.cause,
        )
        failure.exit_code = exit_code_of(failure.cause)
        raise failure

    def _diagnose(self, exit_code: int | None, where: str) -> Failure:
        return failures.diagnose(self._circumstances(exit_code), where=where)

    def _circumstances(self, exit_code: int | None) -> failures.Circumstances:
        before, now = self._oom_kills_before, failures.oom_kills()
        return failures.Circumstances(
            exit_code=exit_code,
            log=self.supervisor.log_since(self._log_mark),
            volume=self._volume_trouble(),
            oom_kills=None if before is None or now is None else now - before,
            by_agent=self._killed_by_agent,
        )
