"""A volume that fills up, becomes read-only or goes, as the server sees it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import mysql.connector
import pytest
from mysql.connector import errorcode
from supervised_engine import ON_LOCAL, Engine

from volbench.errors import MissingPrerequisite, StepFailed
from volbench.machine.engine.connection import Account, connection
from volbench.machine.engine.template import (
    Template,
)


@pytest.fixture
def small_volume(engine: Engine, template: Template) -> Iterator[Path]:
    """A filesystem of its own, 24 MiB larger than the template."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    directory = Path(tempfile.mkdtemp(prefix="vol", dir=engine.base))
    size = template.record.data_bytes + (24 << 20)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(directory)], check=False, capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip(f"no right to mount: {mounted.stderr.decode().strip()}")
    yield directory
    if directory.is_mount():
        subprocess.run(["umount", "--lazy", str(directory)], check=True)


def fill_up(filler: Path) -> None:
    """Write until the filesystem is full."""
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def insert_until_refused(account: Account) -> None:
    """Insert 50 MB at most into `full.t`, rows of 5 KB: off-page columns crash MariaDB on a full volume."""
    with connection(account, "full", timeout_s=60) as opened, opened.cursor() as cursor:
        for _ in range(10_000):
            cursor.execute("INSERT INTO t (v) VALUES (REPEAT('a', 5000))")


@ON_LOCAL
class TestVolumeFaults:
    def test_a_volume_that_fills_up_is_named(self, engine: Engine, template: Template, small_volume: Path) -> None:
        with engine.seeded(template, small_volume / "data") as bench:
            server = bench.server(start_timeout=10)
            server.start()
            fill_up(small_volume / "filler")
            failure = server.failure()
            assert failure is not None
            assert failure.cause == "volume_full"
            server.kill()
            with pytest.raises(StepFailed) as caught:
                server.start()
            assert caught.value.cause == "volume_full"

    def test_a_volume_with_too_little_space_for_an_extension_is_named(
        self, engine: Engine, template: Template, small_volume: Path
    ) -> None:
        """A server may ask for more than is left: it goes on, and so little is used that the volume is not full."""
        filler = small_volume / "filler"
        with engine.seeded(template, small_volume / "data") as bench:
            server = bench.server(start_timeout=10)
            server.start()
            server.query("CREATE DATABASE full")
            server.query("CREATE TABLE full.t (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(5000))")
            fill_up(filler)
            os.truncate(filler, filler.stat().st_size - (3 << 20))  # the redo log and the binary log need some
            with pytest.raises(mysql.connector.Error) as caught:
                insert_until_refused(server.account)
            assert caught.value.errno == errorcode.ER_RECORD_FILE_FULL
            os.truncate(filler, filler.stat().st_size - (2 << 20))  # as after the rollback of an extension
            assert server.failure() is None
            failure = server.failure(error=str(caught.value))
            assert failure is not None
            assert failure.cause == "volume_full"
            server.kill()

    def test_a_volume_that_becomes_read_only_is_named(
        self, engine: Engine, template: Template, small_volume: Path
    ) -> None:
        with engine.seeded(template, small_volume / "data") as bench:
            server = bench.server()
            server.start()
            server.stop()
            subprocess.run(["mount", "-o", "remount,ro", str(small_volume)], check=True)
            with pytest.raises(MissingPrerequisite) as caught:
                server.start()
            assert caught.value.cause == "volume_read_only"

    def test_a_volume_that_disappears_is_named(
        self, engine: Engine, template: Template, small_volume: Path
    ) -> None:
        with engine.seeded(template, small_volume / "data") as bench:
            server = bench.server()
            server.start()
            subprocess.run(["umount", "--lazy", str(small_volume)], check=True)
            failure = server.failure()
            assert failure is not None
            assert failure.cause == "volume_gone"
