"""A server that volbench does not run: it sends queries, and never starts, stops or configures the server."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn, Self

import mysql.connector
from mysql.connector import errorcode
from mysql.connector.abstracts import MySQLConnectionAbstract

from volbench.core.records.base import Scalar
from volbench.core.records.cell import AttachSpec, Failure
from volbench.core.records.facts import ServerFacts
from volbench.core.records.steps.kind import not_own_server
from volbench.core.records.tls import VERIFYING
from volbench.errors import MissingPrerequisite, StepFailed, UsageError, VolbenchError
from volbench.machine.engine.answers import parse_answer
from volbench.machine.engine.bounded import ANSWER_BYTES
from volbench.machine.engine.connection import (
    STATEMENT_TIMEOUT_S,
    Account,
    MemoryFile,
    connection,
    read_option_file,
    rows,
)
from volbench.machine.engine.facts import server_facts
from volbench.machine.engine.rds_tokens import RdsTokens, renewing
from volbench.machine.engine.tls import is_on, tls_failure, tls_of

_DISABLED_HINT = "; MariaDB also denies so where it requires TLS, and ssl-mode is DISABLED"
_ACCOUNT_REFUSED = {
    1820: "its password has expired",
    1862: "its password has expired",
    3118: "it is locked",
    4151: "it is locked",
}
"""Errors of MySQL and MariaDB that a right password does not help against."""
_CLIENT_ERRORS = range(2000, 3000)
"""The client's own errors; all others are a server's answer."""
_SOCKET_BYTES_MAX = 107
"""sun_path of unix(7), without its end."""
PASSWORD_VARIABLE = "VOLBENCH_MYSQL_PASSWORD"  # noqa: S105 - its name


class AttachedServer:
    """The interface of `Server` for a server that runs already; close it, or use it as a context manager.

    Args:
        attach: host and port or socket, user, and where the password is.

    Raises UsageError for a wrong password or option file, MissingPrerequisite if the server does not answer.
    """

    def __init__(self, attach: AttachSpec) -> None:
        self.account = account_of(attach, os.environ)
        self._address = self.account.address
        self._check()
        self.scratch_dir = Path(tempfile.mkdtemp(prefix="volbench-attach-"))
        self._options = MemoryFile(self.account.option_file_text())
        self._renewal = ExitStack()
        if self.account.tokens is not None:
            renewal = renewing(lambda: self._options.replace(self.account.option_file_text()))
            self._renewal.enter_context(renewal)
        self.option_file = self._options.path
        self.socket = Path(self.account.socket) if self.account.socket else None
        self.notes: tuple[str, ...] = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the option file, which is in memory, and the directory for files without secrets."""
        self._renewal.close()
        self._options.close()
        shutil.rmtree(self.scratch_dir, ignore_errors=True)

    @property
    def data_dir(self) -> Path:
        """Return the server's `datadir`. Raise MissingPrerequisite if that directory is not on this machine."""
        datadir_rows = self.query("SELECT @@GLOBAL.datadir")
        path = parse_answer(datadir_rows, _path_of, noun="its data directory", where="attached server")
        if not path.is_dir():
            raise MissingPrerequisite(
                "the data directory of the server is not on this machine",
                where="attached server",
                evidence=str(path),
                next_step="run volbench on the server's machine for storage metrics and file reads",
            )
        return path

    def start(self, config_overrides: Mapping[str, Scalar] | None = None) -> float:  # noqa: ARG002
        """Never. Raises MissingPrerequisite."""
        raise self._not_managed("start")

    def initialise(self) -> None:
        """Never. Raises MissingPrerequisite."""
        raise self._not_managed("initialise")

    def stop(self) -> None:
        """Never. Raises MissingPrerequisite."""
        raise self._not_managed("stop")

    def kill(self) -> None:
        """Never. Raises MissingPrerequisite."""
        raise self._not_managed("kill")

    def connect(
        self,
        database: str | None = None,
        *,
        timeout_s: float = STATEMENT_TIMEOUT_S,
        bytes_max: int | None = None,
    ) -> AbstractContextManager[MySQLConnectionAbstract]:
        """Return a connection in autocommit mode, closed at the end of the block. Raises StepFailed."""
        return self._with_cause(connection(self.account, database, timeout_s=timeout_s, bytes_max=bytes_max))

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Return all rows of one statement. Raises StepFailed."""
        with self.connect(bytes_max=ANSWER_BYTES) as opened, opened.cursor() as cursor:
            cursor.execute(sql)
            return [tuple(row) for row in cursor.fetchall()] if cursor.description else []

    def facts(self) -> ServerFacts:
        """Flavor, version, settings, and what this server cannot show, as it says itself."""
        return server_facts(self.query)

    def alive(self) -> bool:
        """Return whether the server answers a query."""
        try:
            rows(self.account, "SELECT 1", timeout_s=10.0)
        except mysql.connector.Error:
            return False
        return True

    def log_tail(self, lines: int = 20) -> str:  # noqa: ARG002
        """Return an empty text: volbench cannot read the log of an attached server."""
        return ""

    def log_since_start(self) -> str:
        """Return an empty text, as `log_tail`."""
        return ""

    def failure(self, where: str = "attached server", *, error: str = "") -> Failure | None:  # noqa: ARG002
        """Return why the server answers no query, else None: no log tells what is behind an error."""
        try:
            self._check()
        except VolbenchError as refused:
            return Failure(cause="server_gone", message=refused.what, where=where, evidence=refused.evidence)
        return None

    def has_failed(self) -> bool:
        """Return False: a server that does not keep up with a load may be late to answer."""
        return False

    def own(self, purpose: str, *, where: str) -> NoReturn:
        """Never. Raises MissingPrerequisite."""
        raise not_own_server(purpose, where=where, evidence=self._address)

    def why_down(self) -> str:
        """Return whether the server answers; volbench cannot see why it does not."""
        return "the server is running" if self.alive() else f"server_gone: no answer at {self._address}"

    def _check(self) -> None:
        """Raise UsageError if the server refuses the account or TLS, MissingPrerequisite if it does not answer."""
        try:
            rows(self.account, "SELECT 1", timeout_s=10.0)
        except mysql.connector.Error as error:
            if error.errno in _ACCOUNT_REFUSED:
                raise UsageError(
                    f"the server refuses the account {self.account.user!r}: {_ACCOUNT_REFUSED[error.errno]}",
                    where="attached server",
                    evidence=f"{self._address}: error {error.errno}: {error.msg}",
                    next_step="let the account connect, or use another one",
                ) from error
            if error.errno in {errorcode.ER_ACCESS_DENIED_ERROR, errorcode.ER_ACCESS_DENIED_NO_PASSWORD_ERROR}:
                if self.account.tokens is not None:
                    raise self._token_refused(error.errno) from error
                raise UsageError(
                    f"the server denied access to {self.account.shown_user} with this password",
                    where="attached server",
                    evidence=f"{self._address}: error {error.errno}",
                    next_step=f"set {PASSWORD_VARIABLE}, or name an option file with the right [client] section, "
                    "in which user and password are not swapped"
                    + _DISABLED_HINT
                    * (self.account.tls.mode == "DISABLED"),
                ) from error
            unencrypted = tls_failure(error, self.account.tls, address=self._address, where="attached server")
            if unencrypted is not None:
                raise unencrypted from error
            silent = error.errno in _CLIENT_ERRORS
            raise MissingPrerequisite(
                f"the server to attach to {'does not answer' if silent else 'refuses connections'}",
                where="attached server",
                evidence=f"{self._address}: {self.account.without_user(str(error.msg))}",
                next_step="check host, port or socket, and that the server runs" if silent else "",
            ) from error

    def _token_refused(self, number: int) -> UsageError:
        return UsageError(
            f"the server refuses the IAM token of {self.account.user!r}",
            where="attached server",
            evidence=f"{self._address}: error {number}",
            next_step="check that the account is identified with AWSAuthenticationPlugin, that the policy allows "
            "rds-db:connect for it, that the host is the endpoint's own name, and this machine's region and clock",
        )

    def _not_managed(self, operation: str) -> MissingPrerequisite:
        return MissingPrerequisite(
            f"volbench cannot {operation} a server that it did not start",
            where="attached server",
            evidence=self._address,
            next_step="leave out this step, or use --target local or docker",
        )

    @contextmanager
    def _with_cause(
        self, opened: AbstractContextManager[MySQLConnectionAbstract]
    ) -> Iterator[MySQLConnectionAbstract]:
        try:
            with opened as inner:
                yield inner
        except mysql.connector.Error as error:
            raise StepFailed(
                "a query failed", where="attached server", evidence=f"{self._address}: {error}"
            ) from error


def _path_of(answer: Sequence[Sequence[Any]]) -> Path:
    ((name,),) = answer
    if not name or "\0" in str(name):
        raise ValueError("no path")
    return Path(str(name))


def account_of(attach: AttachSpec, environment: Mapping[str, str]) -> Account:
    """Return user, password and address; the option file's [client] section wins over the environment's password.

    Raises UsageError for a host and a socket at once, MissingPrerequisite if the option file cannot be read.
    """
    if attach.host and attach.socket:
        raise UsageError("give a host or a socket, not both", where="attached server")
    options = read_option_file(Path(attach.option_file)) if attach.option_file else {}
    socket = attach.socket or ("" if attach.host else options.get("socket", ""))
    socket = _from_anywhere(socket)
    port = options.get("port", "")
    account = Account(
        user=options.get("user") or attach.user,
        password=options.get("password") or environment.get(PASSWORD_VARIABLE, ""),
        socket=socket,
        host="" if socket else attach.host or options.get("host", ""),
        port=None if socket else int(port) if port.isdecimal() and not attach.host else attach.port,
        tls=tls_of(options, over=attach, where=attach.option_file or "attached server"),
        password_unverified=attach.password_unverified or is_on(options, "password_unverified"),
        sends_clear=is_on(options, "enable_cleartext_plugin"),
        user_is_private=options.get("user", "") not in ("", attach.user),
    )
    return _with_tokens(account, attach.rds_iam_region) if attach.rds_iam_region else account


def _from_anywhere(socket: str) -> str:
    """Return a socket's absolute path, for processes that work in another directory; not if it is too long."""
    if not socket or socket.startswith("/"):
        return socket
    path = str(Path(socket).resolve())
    return path if len(os.fsencode(path)) <= _SOCKET_BYTES_MAX else socket


def _with_tokens(account: Account, region: str) -> Account:
    """Return the account with IAM tokens for a password. Raise UsageError without verified TLS or a host."""
    if account.socket or not account.host or account.tls.mode not in VERIFYING:
        lacks = "TLS with a verified certificate" if account.host else "the host of the endpoint"
        raise UsageError(
            f"IAM tokens of RDS need {lacks}",
            where="attached server",
            evidence=f"ssl-mode is {account.tls.mode}" if account.host else account.address,
            next_step="name the endpoint's host, and set ssl-mode=VERIFY_IDENTITY and ssl-ca, the file of RDS' CA",
        )
    tokens = RdsTokens(region=region, host=account.host, port=account.port or 3306, user=account.user)
    return replace(account, password="", tokens=tokens)
