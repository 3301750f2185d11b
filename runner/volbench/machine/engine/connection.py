"""Credentials in 0600 option files, and connections that use them."""

from __future__ import annotations

import configparser
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mysql.connector.abstracts import MySQLConnectionAbstract

from volbench.core.base import safe_files
from volbench.core.base.environment import find_program
from volbench.core.base.redact import without_literals
from volbench.core.records.tls import VERIFYING, TlsOptions
from volbench.errors import MissingPrerequisite, UsageError
from volbench.machine.engine.authentication import NO_PLUGINS, Authenticator, is_of_mysql
from volbench.machine.engine.bounded import ANSWER_BYTES
from volbench.machine.engine.rds_tokens import RdsTokens
from volbench.machine.engine.tls import (
    Connection,
    TlsConnection,
    client_options,
    connector_arguments,
    is_on,
    mariadb_client_options,
    password_withheld,
    tls_of,
)

_log = logging.getLogger(__name__)
_STATEMENT_CHARACTERS = 500
CONNECT_TIMEOUT_S = 10
OPTION_BYTES_MAX = 1 << 20
_OWN_SECTION = "volbench"
"""Of an option file: what no client program knows."""
STATEMENT_TIMEOUT_S = 24 * 3600
"""No statement may take longer than a cell; a dead server closes the socket long before."""


@dataclass(frozen=True, kw_only=True)
class Account:
    """User and password, and the server's address: a Unix socket, else host, port and TLS.

    With `tokens`, a token that is signed when it is needed takes the place of the password. `password_unverified`
    gives the password to a server over TCP whose certificate is not verified; `sends_clear` allows
    mysql_clear_password with a verified one. `user_is_private`: the user stands in an option file alone, perhaps in
    the password's place, so that no message about a refused login shows it.
    """

    user: str
    password: str = field(default="", repr=False)
    socket: str = ""
    host: str = ""
    port: int | None = None
    tls: TlsOptions = field(default_factory=TlsOptions)
    tokens: RdsTokens | None = None
    password_unverified: bool = False
    sends_clear: bool = False
    user_is_private: bool = False

    @property
    def secret(self) -> str:
        """The password, or a token that is valid for some minutes.

        Raises MissingPrerequisite if none can be signed.
        """
        return self.tokens.current() if self.tokens else self.password

    @property
    def shown_user(self) -> str:
        """The user, as a message about a refused login may show it."""
        return "the user of the option file" if self.user_is_private else repr(self.user)

    def without_user(self, text: str) -> str:
        """Return a server's message about a refused login without a private user."""
        return text.replace(self.user, "***") if self.user_is_private and self.user else text

    @property
    def guards_password(self) -> bool:
        """Whether the server, which could be anybody, gets no password, but a challenge's answer alone."""
        return not (self.socket or self.tls.mode in VERIFYING or self.password_unverified)

    @property
    def address(self) -> str:
        """The socket, or host and port, as messages name it."""
        return self.socket or f"{self.host or '127.0.0.1'}:{self.port or 3306}"

    def client_options(self) -> dict[str, str]:
        """Return the options of a [client] section."""
        values = {"user": self.user, "password": self.secret, "socket": self.socket}
        values |= {"loose-enable-cleartext-plugin": "1"} if self.tokens or self.sends_clear else {}
        if not self.socket:
            values |= {"host": self.host or "127.0.0.1", "port": str(self.port or 3306)}
            values |= {"protocol": "tcp"} if self.host == "localhost" else {}  # else programs look for a socket
            values |= client_options(self.tls)
        return values

    def option_file_text(self) -> str:
        """Return a [client] section for the client tools. Raise UsageError for a value with a line break."""
        lines = ["[client]", *(_option_line(name, value) for name, value in self.client_options().items())]
        lines += ["[client-mariadb]", *mariadb_client_options(TlsOptions() if self.socket else self.tls)]
        if self.guards_password:  # in a section that MariaDB's programs read, and MySQL's do not
            lines += ["[client-server]", f"plugin-dir={NO_PLUGINS}"]
        if self.password_unverified:
            lines += [f"[{_OWN_SECTION}]", "password-unverified=1"]
        return "\n".join(lines) + "\n"


def _option_line(name: str, value: str) -> str:
    if "\n" in value or "\r" in value:
        raise UsageError(f"the {name} of the server contains a line break", where="option file")
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'{name}="{escaped}"'


def account_from(options: Mapping[str, str], *, socket: str = "") -> Account:
    """Return the account of a [client] section, as `read_option_file` returns it; `socket` wins over its own."""
    port = options.get("port", "")
    return Account(
        user=options.get("user", "root"),
        password=options.get("password", ""),
        socket=socket or options.get("socket", ""),
        host=options.get("host", ""),
        port=int(port) if port.isdigit() else None,
        tls=tls_of(options),
        password_unverified=is_on(options, "password_unverified"),
        sends_clear=is_on(options, "enable_cleartext_plugin") or is_on(options, "loose_enable_cleartext_plugin"),
    )


def check_client(argv: Sequence[str]) -> None:
    """Raise UsageError for a client program that would give the password to a server that could be anybody.

    MariaDB's programs are kept from it by what is in their option file, MySQL's by nothing.
    """
    options = next((argument.partition("=")[2] for argument in argv if argument.startswith("--defaults-file=")), "")
    if options:
        check_program(argv[0], account_from(read_option_file(Path(options))))


def check_program(program: str, account: Account) -> None:
    """Raise UsageError for a program with MySQL's client library and an account that guards its password."""
    path = find_program(program)
    if path and account.guards_password and account.secret and is_of_mysql(Path(path).resolve()):
        raise password_withheld(
            evidence=f"{account.address}: {path} has MySQL's client library, which gives the password to any "
            f"server with TLS that asks for it; ssl-mode is {account.tls.mode}",
            where=Path(path).name,
        )


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, replacing it atomically."""
    with safe_files.held_directory(path.parent.resolve()) as directory:
        safe_files.write_new(directory, path.name, text.encode(), sync=False)


class MemoryFile:
    """A file in memory for a password: the kernel removes it with this process, also when the process is killed.

    Only this user can read it, by `path`, also from child processes.
    """

    def __init__(self, text: str) -> None:
        self._descriptor = _in_memory(text)
        self.path = Path(f"/proc/{os.getpid()}/fd/{self._descriptor}")

    @property
    def descriptor(self) -> int:
        """Of the file, to hand it to a program as /proc/self/fd/N."""
        return self._descriptor

    def replace(self, text: str) -> None:
        """Put another text in place of the file's at once: a reader sees the old one or the new one, whole."""
        descriptor = _in_memory(text)
        try:
            os.dup2(descriptor, self._descriptor, inheritable=False)
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Free the memory. Safe to call twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _in_memory(text: str) -> int:
    """Return the descriptor of a new file in memory that only this user can read."""
    descriptor = os.memfd_create("volbench-options", os.MFD_CLOEXEC)
    os.fchmod(descriptor, 0o600)  # client programs ignore world-writable option files
    with os.fdopen(os.dup(descriptor), "w") as file:
        file.write(text)
    return descriptor


def read_option_file(path: Path) -> dict[str, str]:
    """Return the [client] section of an option file. Raise MissingPrerequisite if it cannot be read."""
    parser = configparser.ConfigParser(interpolation=None, allow_no_value=True, strict=False, delimiters=("=",))
    try:
        parser.read_string(safe_files.read_given(path, bytes_max=OPTION_BYTES_MAX).decode())
    except (OSError, UnicodeDecodeError) as error:
        raise MissingPrerequisite(f"the option file {path} cannot be read", evidence=str(error)) from error
    except (
        configparser.Error,
        AttributeError,
    ) as error:  # its text would show a line of the file, possibly with the password
        raise MissingPrerequisite(
            f"the option file {path} cannot be parsed", evidence=type(error).__name__
        ) from error
    section = {
        name: value
        for title in ("client", _OWN_SECTION)
        if parser.has_section(title)
        for name, value in parser[title].items()
    }
    return {name.replace("-", "_"): _unquoted((value or "").strip()) for name, value in section.items()}


def _unquoted(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
        return value[1:-1].replace('\\"', '"').replace("\\\\", "\\")
    return value


@contextmanager
def connection(
    account: Account,
    database: str | None = None,
    *,
    timeout_s: float = STATEMENT_TIMEOUT_S,
    bytes_max: int | None = None,
) -> Iterator[MySQLConnectionAbstract]:
    """Yield a connection in autocommit mode, closed at the end of the block.

    Args:
        timeout_s: bound of each statement; connecting itself is bounded by CONNECT_TIMEOUT_S.
        bytes_max: bound of each answer; None for the statements of a load, whose answers are not kept.

    Raises mysql.connector.Error.
    """
    address: dict[str, Any] = (
        {"unix_socket": account.socket}
        if account.socket
        else {"host": account.host or "127.0.0.1", "port": account.port or 3306, **connector_arguments(account.tls)}
    )
    _log.debug("connect to %s as %s, schema %s", account.address, account.user, database)
    requires_tls = account.tls.encrypts and not account.socket
    authenticator = Authenticator(
        is_trusted=not account.guards_password,
        over_tcp=not account.socket,
        sends_clear=bool(account.tokens or account.sends_clear) and account.tls.mode in VERIFYING,
    )
    opened = (TlsConnection if requires_tls else Connection).opened(
        authenticator,
        user=account.user,
        password=account.secret,
        database=database,
        autocommit=True,
        charset="utf8mb4",
        collation="utf8mb4_general_ci",  # MariaDB does not know MySQL's default
        connection_timeout=CONNECT_TIMEOUT_S,
        read_timeout=round(timeout_s),
        write_timeout=round(timeout_s),
        **address,
    )
    opened.bound_answers(seconds=timeout_s, bytes_max=bytes_max)
    try:
        yield opened
    finally:
        opened.close()


def rows(account: Account, sql: str, *, timeout_s: float = STATEMENT_TIMEOUT_S) -> list[tuple[Any, ...]]:
    """Return all rows of one statement on a connection of its own. Raise mysql.connector.Error."""
    with connection(account, timeout_s=timeout_s, bytes_max=ANSWER_BYTES) as opened, opened.cursor() as cursor:
        _log.debug("query: %s", without_literals(sql[: 20 * _STATEMENT_CHARACTERS])[:_STATEMENT_CHARACTERS])
        cursor.execute(sql)
        return [tuple(row) for row in cursor.fetchall()] if cursor.description else []


def quoted_name(name: object) -> str:
    """Return a name of a schema, table or the like as SQL has it: a dump may give a table any name."""
    return "`" + as_text(name).replace("`", "``") + "`"


def as_text(value: object) -> str:
    """Return a value of a row as text: some servers give the names of the system schemas as bytes."""
    return value.decode() if isinstance(value, bytes | bytearray) else str(value)
