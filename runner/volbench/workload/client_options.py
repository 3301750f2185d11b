"""sysbench's credentials: from the server's option file into a 0600 file, never on a command line."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from volbench.engine.connection import MemoryFile, read_option_file
from volbench.errors import EnvironmentLacks

SYSBENCH_LINE_BYTES_MAX = 250  # sysbench 1.0 reads its configuration in pieces of 255 bytes


@contextlib.contextmanager
def sysbench_config_file(option_file: Path, database: str) -> Iterator[Path]:
    """Yield a file in memory for sysbench's --config-file, readable by its owner only, removed after the block.

    Raises EnvironmentLacks if the option file cannot be read or sysbench cannot use one of its values.
    """
    text = sysbench_config(read_option_file(option_file), database)
    file = MemoryFile(text)
    try:
        yield file.path
    finally:
        file.close()


def sysbench_config(options: Mapping[str, str], database: str) -> str:
    """The text for --config-file, of an option file's [client] section. Raises EnvironmentLacks."""
    values = {
        "mysql-user": options.get("user", ""),
        "mysql-password": options.get("password", ""),
        "mysql-db": database,
        "mysql-socket": options.get("socket", ""),
    }
    if not values["mysql-socket"]:
        values["mysql-host"] = options.get("host") or "127.0.0.1"
        values["mysql-port"] = options.get("port") or "3306"
    return "".join(f"{name}={_quoted(name, value)}\n" for name, value in values.items() if value)


def _quoted(name: str, value: str) -> str:
    quote = "'" if "'" not in value else '"'
    if quote in value or "\n" in value or len(name) + len(value.encode()) > SYSBENCH_LINE_BYTES_MAX:
        raise EnvironmentLacks(
            f"sysbench cannot be given this {name}: too long, or both kinds of quotes are in it",
            next_step="use a shorter one with at most one kind of quotes",
        )
    return f"{quote}{value}{quote}"
