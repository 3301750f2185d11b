"""MySQL 9.7 in a container, on a socket in a directory of the test."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import docker
import mysql.connector

from volbench.engine.connection import Account, rows

START_BOUND_S = 120.0
_DATA = "--no-defaults --user=root --datadir=/var/tmp/data"
_SERVE = (
    f"mysqld {_DATA} --initialize-insecure && "
    f"exec mysqld {_DATA} --socket=/run/mysql/s --skip-networking --mysqlx=OFF"
)


@contextmanager
def mysql_container(directory: Path) -> Iterator[Account]:
    """Its root account, once it answers; the container is removed at the end of the block."""
    container = docker.from_env().containers.run(
        "volbench/mysql:9.7", ["-c", _SERVE], entrypoint="sh", detach=True, network_mode="none",
        labels={"volbench-test": "validation"}, volumes={str(directory): {"bind": "/run/mysql", "mode": "rw"}},
    )  # fmt: skip
    try:
        account = Account(user="root", socket=str(directory / "s"))
        deadline = time.monotonic() + START_BOUND_S
        while not _answers(account):
            assert time.monotonic() < deadline, container.logs().decode()[-2000:]
            time.sleep(0.2)
        yield account
    finally:
        container.remove(force=True)


def _answers(account: Account) -> bool:
    try:
        rows(account, "SELECT 1", timeout_s=5)
    except mysql.connector.Error:
        return False
    return True
