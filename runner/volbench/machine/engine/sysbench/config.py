"""sysbench's credentials: in a file in memory, never on a command line."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from volbench.core.base.environment import find_program
from volbench.core.records.base import Scalar
from volbench.core.records.tls import TlsOptions
from volbench.errors import MissingPrerequisite
from volbench.machine.engine.authentication import NO_PLUGINS
from volbench.machine.engine.connection import Account, MemoryFile, check_program
from volbench.machine.engine.sysbench.tls import SysbenchTls, installed_tls, place_files, tls_notes, tls_options

SYSBENCH_LINE_BYTES_MAX = 250  # sysbench 1.0 reads its configuration in pieces of 255 bytes

_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, kw_only=True)
class SysbenchFiles:
    """What a run of sysbench needs.

    Args:
        config: the file for --config-file.
        directory: where to start it.
        notes: on its TLS.
        environment: variables for it; one with a password that sysbench's configuration has no room for.
    """

    config: Path
    directory: Path
    notes: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)


@contextlib.contextmanager
def sysbench_files(account: Account, schema: str) -> Iterator[SysbenchFiles]:
    """Yield the files of one run of sysbench, removed after the block; the one with the password is in memory.

    Raises MissingPrerequisite if sysbench is not installed, cannot use one of the values, or cannot use TLS like
    this.
    """
    tls = TlsOptions() if account.socket else account.tls
    build = installed_tls(sysbench_program()) if tls.encrypts else SysbenchTls(modes=False, named_files=False)
    with contextlib.ExitStack() as stack:
        directory = Path("/")
        if tls.encrypts:  # a directory only where there are files: a killed process leaves it behind
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="volbench-sysbench-")))
            place_files(tls, build, directory)
        check_program(sysbench_program(), account)
        account, environment = _with_token_apart(account)
        if account.guards_password:
            environment |= {"MARIADB_PLUGIN_DIR": NO_PLUGINS}
        with contextlib.closing(MemoryFile(sysbench_config(account, schema, tls_options(tls, build)))) as file:
            notes = tls_notes(tls, build)
            yield SysbenchFiles(config=file.path, directory=directory, notes=notes, environment=environment)


def _with_token_apart(account: Account) -> tuple[Account, dict[str, str]]:
    """Return the account without an IAM token, and the variables that give it to the client library.

    sysbench 1.0 has no room for a token in its configuration. Its environment is readable by this user and by root,
    as the option files are. MySQL's library sends a token only with the second variable, MariaDB's also without it.
    """
    if not account.tokens and len(account.password) <= SYSBENCH_LINE_BYTES_MAX:
        return account, {}
    variables = {"MYSQL_PWD": account.secret}
    if account.tokens or account.sends_clear:
        variables |= {"LIBMYSQL_ENABLE_CLEARTEXT_PLUGIN": "1"}
    return replace(account, password="", tokens=None), variables


def sysbench_program() -> str:
    """Return the path of sysbench. Raise MissingPrerequisite if it is not installed."""
    path = find_program("sysbench")
    if path is None:
        raise MissingPrerequisite(
            "sysbench is not installed",
            where="dataset",
            next_step="apt-get install sysbench; see `volbench doctor`",
        )
    return path


def option_names(options: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Return options under sysbench's spelling, with hyphens."""
    return {name.replace("_", "-"): value for name, value in options.items()}


def option_text(value: Scalar) -> str:
    """Return an option's value as sysbench reads it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def sysbench_config(account: Account, schema: str, tls: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return the text for --config-file. Raise MissingPrerequisite."""
    values = {
        "mysql-user": account.user,
        "mysql-password": account.secret,
        "mysql-db": schema,
        "mysql-socket": account.socket,
    }
    if not account.socket:
        # For `localhost` the client library takes a socket, which this account does not name.
        values["mysql-host"] = _LOOPBACK if account.host in ("", "localhost") else account.host
        values["mysql-port"] = str(account.port or 3306)
        values |= tls
    return "".join(f"{name}={_quoted(name, value)}\n" for name, value in values.items() if value)


def _quoted(name: str, value: str) -> str:
    quote = "'" if "'" not in value else '"'
    if quote in value or "\n" in value or len(name) + len(value.encode()) > SYSBENCH_LINE_BYTES_MAX:
        raise MissingPrerequisite(
            f"sysbench cannot use this {name}: it is too long, has a line break, or both kinds of quotes",
            next_step=f"use a shorter {name} with at most one kind of quotes",
        )
    return f"{quote}{value}{quote}"
