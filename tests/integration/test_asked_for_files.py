"""A server that answers any query by asking for a file of this machine gets none, from no client of volbench's."""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import mysql.connector
import pytest
from file_asking_server import file_asking_server

from volbench.core.records.dataset import DatasetSpec
from volbench.core.records.facts import ServerFacts
from volbench.errors import VolbenchError
from volbench.machine.engine.connection import Account, MemoryFile, rows
from volbench.machine.engine.own_data.loading import load
from volbench.machine.engine.own_data.pipe import Loading, load_sql
from volbench.measure.workload.backup.dump_tools import installed, mydumper_argv, mysqldump_argv

TREASURE = "treasure"
DATASET = DatasetSpec(kind="dump", path="/shop.sql", schema_name="shop")
AS_IF_ANSWERED = (0, 1, 2, 5)
"""Queries that it answers first: some clients begin with settings."""


def requested(account: Account, tmp_path: Path) -> None:
    with suppress(mysql.connector.Error):
        rows(account, "SELECT 1", timeout_s=10)
    with suppress(mysql.connector.Error):
        rows(account, f"LOAD DATA LOCAL INFILE '{tmp_path}/secret' INTO TABLE t", timeout_s=10)


def fed(account: Account, tmp_path: Path) -> None:
    """Statements of a dump, at which MariaDB's client would send a file by default."""
    loading = Loading(
        account=account,
        dataset=DATASET,
        deadline_s=time.monotonic() + 60,
        cancelled=threading.Event(),
        progress=lambda _text, _share: None,
    )
    (tmp_path / "shop.sql").write_text(f"load data local infile '{tmp_path}/secret' into table t;\n")
    with suppress(VolbenchError), (tmp_path / "shop.sql").open("rb") as source:
        load_sql(loading, source, [], doing="loading")


def copied(account: Account, tmp_path: Path) -> None:
    dsn = f"mysql://{account.user}@127.0.0.1:{account.port}/shop"
    dataset = DatasetSpec(kind="schema", server=dsn, schema_name="shop")
    loading = Loading(
        account=account,
        dataset=dataset,
        deadline_s=time.monotonic() + 60,
        cancelled=threading.Event(),
        progress=lambda _text, _share: None,
    )
    with suppress(VolbenchError):
        load(loading)


def dumped(account: Account, tmp_path: Path) -> None:
    facts = ServerFacts(flavor="mysql", version="8.0.36")
    with closing(MemoryFile(account.option_file_text())) as options:
        commands = [mysqldump_argv(installed("mysqldump"), options.path, "shop", facts)]
        if shutil.which("mydumper"):
            directory = tmp_path / "dump"
            commands.append(
                mydumper_argv(installed("mydumper"), options.path, DATASET, threads=2, directory=directory)
            )
        for argv in commands:
            with suppress(subprocess.TimeoutExpired):
                subprocess.run(argv, capture_output=True, check=False, timeout=10)


@pytest.mark.mysqld
@pytest.mark.parametrize("skipped", AS_IF_ANSWERED)
@pytest.mark.parametrize("client", [requested, fed, copied, dumped])
def test_no_client_sends_a_file(client: Callable[[Account, Path], None], skipped: int, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(TREASURE)
    for path in (tmp_path, secret):
        path.chmod(0o755)
    with file_asking_server(secret, skipped=skipped) as rogue:
        client(Account(user="u", host="127.0.0.1", port=rogue.port), tmp_path)
    assert rogue.queries, "it was asked something"
    assert not any(rogue.files), rogue.files
