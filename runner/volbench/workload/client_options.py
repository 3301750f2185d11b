"""Credentials: read from the server's option file, given to tools in 0600 files, never on a command line."""

from __future__ import annotations

import configparser
import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from volbench.errors import EnvironmentLacks

SYSBENCH_LINE_BYTES_MAX = 250  # sysbench 1.0 reads its configuration in pieces of 255 bytes


@dataclass(frozen=True, kw_only=True)
class ClientOptions:
    """The [client] section of an option file; empty strings and None are not set."""

    user: str = ""
    password: str = field(default="", repr=False)
    socket: str = ""
    host: str = ""
    port: int | None = None


def read_client_options(option_file: Path) -> ClientOptions:
    """The [client] section. Raises EnvironmentLacks when the file cannot be read or parsed."""
    parser = configparser.ConfigParser(
        interpolation=None, allow_no_value=True, strict=False, delimiters=("=",), comment_prefixes=("#", ";", "!")
    )
    try:
        parser.read_string(option_file.read_text())
    except (OSError, configparser.Error) as error:
        raise EnvironmentLacks(f"the option file {option_file} cannot be read: {error}") from error
    given = dict(parser["client"]) if parser.has_section("client") else {}
    values = {name.replace("_", "-"): _unquoted(value or "") for name, value in given.items()}
    return ClientOptions(
        user=values.get("user", ""),
        password=values.get("password", ""),
        socket=values.get("socket", ""),
        host=values.get("host", ""),
        port=int(values["port"]) if values.get("port", "").isdecimal() else None,
    )


def _unquoted(value: str) -> str:
    quoted = len(value) >= 2 and value[0] == value[-1] and value[0] in "'\""
    text = value[1:-1] if quoted else value
    return text.replace("\\\\", "\\").replace('\\"', '"') if quoted else text


def sysbench_config(options: ClientOptions, database: str) -> str:
    """The text for sysbench's --config-file. Raises EnvironmentLacks for a value that it cannot hold."""
    values = {
        "mysql-user": options.user,
        "mysql-password": options.password,
        "mysql-db": database,
        "mysql-socket": options.socket,
    }
    if not options.socket:
        values["mysql-host"] = options.host or "127.0.0.1"
        values["mysql-port"] = str(options.port or 3306)
    return "".join(f"{name}={_sysbench_quoted(name, value)}\n" for name, value in values.items() if value)


def _sysbench_quoted(name: str, value: str) -> str:
    quote = "'" if "'" not in value else '"'
    if quote in value or "\n" in value or len(name) + len(value.encode()) > SYSBENCH_LINE_BYTES_MAX:
        raise EnvironmentLacks(
            f"sysbench cannot be given this {name}: too long, or both kinds of quotes are in it",
            next_step="use a shorter one with at most one kind of quotes",
        )
    return f"{quote}{value}{quote}"


@contextlib.contextmanager
def private_file(path: Path, text: str) -> Iterator[Path]:
    """A new file that only its owner can read, gone at the end of the block. Raises FileExistsError."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        yield path
    finally:
        path.unlink(missing_ok=True)
