"""MySQL in a container, on a socket in a directory of the test."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from empty_data import copy_of_container, directory_in_memory
from server_container import local_server_image, throwaway_container

from volbench.machine.engine.connection import Account
from volbench.testing.containers import QueryWaitStrategy

_OPTIONS = [
    "--no-defaults",
    "--user=root",
    "--datadir=/made/data",
    "--socket=/run/mysql/s",
    "--skip-networking",
    "--mysqlx=OFF",
]


@contextmanager
def mysql_container(directory: Path) -> Iterator[Account]:
    """Its root account, once it answers; the container is removed at the end of the block."""
    account = Account(user="root", socket=str(directory / "s"))
    data_dir = directory_in_memory(directory)
    copy_of_container(data_dir / "data")
    container = throwaway_container(local_server_image(), _OPTIONS, entrypoint="mysqld", network="none")
    container.with_volume_mapping(directory, "/run/mysql", "rw").with_volume_mapping(data_dir, "/made", "rw")
    try:
        with container.waiting_for(QueryWaitStrategy(lambda _: account)):
            yield account
    finally:
        shutil.rmtree(data_dir, ignore_errors=True)
