"""sysbench's credentials: in a file in memory, never on a command line."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from volbench.engine.connection import MemoryFile
from volbench.errors import EnvironmentLacks

SYSBENCH_LINE_BYTES_MAX = 250  # sysbench 1.0 reads its configuration in pieces of 255 bytes


@contextlib.contextmanager
def sysbench_config_file(options: Mapping[str, str], schema: str) -> Iterator[Path]:
    """Yield a file in memory for sysbench's --config-file, readable by its owner only, removed after the block.

    Args:
        options: of a [client] section, as `read_option_file` and `Account.client_options` return them.

    Raises EnvironmentLacks if sysbench cannot use one of the values.
    """
    file = MemoryFile(sysbench_config(options, schema))
    try:
        yield file.path
    finally:
        file.close()


def sysbench_config(options: Mapping[str, str], schema: str) -> str:
    """Return the text for --config-file from the options of a [client] section. Raise EnvironmentLacks."""
    values = {
        "mysql-user": options.get("user", ""),
        "mysql-password": options.get("password", ""),
        "mysql-db": schema,
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
            f"sysbench cannot use this {name}: it is too long, has a line break, or both kinds of quotes",
            next_step=f"use a shorter {name} with at most one kind of quotes",
        )
    return f"{quote}{value}{quote}"
