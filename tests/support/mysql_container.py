"""MySQL in a container, on a socket in a directory of the test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from server_container import QueryWaitStrategy, local_server_image, throwaway_container

from volbench.engine.connection import Account

_DATA = "--no-defaults --user=root --datadir=/var/tmp/data"
_SERVE = (
    f"mysqld {_DATA} --initialize-insecure && "
    f"exec mysqld {_DATA} --socket=/run/mysql/s --skip-networking --mysqlx=OFF"
)


@contextmanager
def mysql_container(directory: Path) -> Iterator[Account]:
    """Its root account, once it answers; the container is removed at the end of the block."""
    account = Account(user="root", socket=str(directory / "s"))
    container = throwaway_container(local_server_image(), ["-c", _SERVE], entrypoint="sh", network="none")
    container.with_volume_mapping(directory, "/run/mysql", "rw").waiting_for(QueryWaitStrategy(lambda _: account))
    with container:
        yield account
