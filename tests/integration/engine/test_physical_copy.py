"""Physical copies by the real tools as the data of a run: mariadb-backup of MariaDB, CLONE of MySQL."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from empty_data import directory_in_memory
from scratch_server import ScratchServer, scratch_server
from server_container import sysbench_of_tools_image
from supervised_engine import TINY, Bench, Engine, prepare

from volbench.core.records.dataset import DatasetSpec
from volbench.errors import MissingPrerequisite, StepFailed, UsageError

BACKUP = "mariadb-backup"
HAS_BACKUP = shutil.which(BACKUP) is not None and shutil.which("mariadbd") is not None
ON_MARIADB = [pytest.mark.mysqld, pytest.mark.skipif(not HAS_BACKUP, reason=f"{BACKUP} is not installed")]
SETUP = (
    "CREATE DATABASE shop",
    "CREATE DATABASE xtrabackup_notes",
    "CREATE TABLE shop.orders (id INT PRIMARY KEY AUTO_INCREMENT, total DECIMAL(8, 2), note VARCHAR(40))",
    "INSERT INTO shop.orders (total, note) SELECT seq / 7, CONCAT('note ', seq) FROM mysql.seq_1_to_5000",
    "CREATE EVENT shop.forget ON SCHEDULE EVERY 1 SECOND DO DELETE FROM shop.orders LIMIT 1",
    "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = 1, MASTER_USER = 'nobody'",
)


CLONED = (
    "SET GLOBAL event_scheduler = OFF",
    "CREATE EVENT sbtest.forget ON SCHEDULE EVERY 1 SECOND DO DELETE FROM sbtest.sbtest1 LIMIT 1",
    "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = 1",
    "INSTALL PLUGIN clone SONAME 'mysql_clone.so'",
    "SET PERSIST super_read_only = ON",
)


@pytest.fixture(scope="module")
def base() -> Iterator[Path]:
    directory = directory_in_memory(Path(tempfile.gettempdir()))
    (directory / "t").mkdir()
    yield directory
    shutil.rmtree(directory)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScratchServer]:
    """A MariaDB whose event deletes rows, and which shall replicate from somewhere."""
    with scratch_server(tmp_path_factory.mktemp("s")) as server:
        for statement in SETUP:
            server.query(statement)
        yield server


def backup(server: ScratchServer, directory: Path) -> Path:
    arguments = [f"--socket={server.socket}", "--user=root", f"--datadir={server.directory / 'data'}"]
    mariadb_backup("--backup", f"--target-dir={directory}", *arguments)
    return directory


def mariadb_backup(*arguments: str) -> None:
    subprocess.run([BACKUP, "--no-defaults", *arguments], check=True, capture_output=True, timeout=120)


@pytest.fixture(scope="module")
def prepared(source: ScratchServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = backup(source, tmp_path_factory.mktemp("c") / "copy")
    mariadb_backup("--prepare", f"--target-dir={directory}")
    shutil.copy(source.directory / "data" / "master.info", directory)  # as in a copy of all files
    return directory


def dump_of(path: Path, schema: str) -> DatasetSpec:
    return DatasetSpec.model_validate({"kind": "dump", "path": str(path), "schema": schema, "size": "64MiB"})


def digest(directory: Path) -> str:
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    return hashlib.sha256(b"".join(hashlib.sha256(path.read_bytes()).digest() for path in files)).hexdigest()


def on_mariadb(base: Path) -> contextlib.AbstractContextManager[Bench]:
    return Engine(in_docker=False, base=base, flavor="mariadb").bench()


class TestMariadbBackup:
    pytestmark = ON_MARIADB

    def test_each_cell_begins_with_its_rows_and_its_server_does_nothing_else(
        self, source: ScratchServer, prepared: Path, base: Path
    ) -> None:
        """The copy stays as it was; no event deletes rows, and nobody replicates."""
        before = digest(prepared)
        engine = Engine(in_docker=False, base=base, flavor="mariadb")
        with engine.bench() as bench:
            template, progress = prepare(bench, dump_of(prepared, "shop"))
        assert digest(prepared) == before
        assert template.record.tables["orders"].rows == 5000
        assert "1 event of the physical copy was disabled" in progress
        with engine.seeded(template) as bench:
            server = bench.server(config={"innodb_buffer_pool_size": "32M", "event_scheduler": "ON"})
            server.start()
            sums = [item.query("CHECKSUM TABLE shop.orders")[0][1] for item in (source, server)]
            assert sums[0] == sums[1]
            assert server.query("SELECT status FROM information_schema.events") == [("DISABLED",)]
            assert server.query("SHOW ALL SLAVES STATUS") == []
            assert not (template.data_dir / "master.info").exists()
            assert ("xtrabackup_notes",) in server.query("SHOW DATABASES")
            server.stop()

    def test_a_schema_that_it_lacks_names_those_that_it_has(self, prepared: Path, base: Path) -> None:
        with on_mariadb(base) as bench, pytest.raises(StepFailed, match="no table in the schema other") as failed:
            prepare(bench, dump_of(prepared, "other"))
        assert "shop.orders" in str(failed.value)

    def test_a_copy_that_is_not_prepared_is_refused(
        self, source: ScratchServer, base: Path, tmp_path: Path
    ) -> None:
        raw = backup(source, tmp_path / "raw")
        with on_mariadb(base) as bench, pytest.raises(UsageError, match="is not prepared") as refused:
            prepare(bench, dump_of(raw, "shop"))
        assert "--prepare" in refused.value.next_step

    def test_the_directory_of_a_running_server_is_refused(self, source: ScratchServer, base: Path) -> None:
        with on_mariadb(base) as bench, pytest.raises(UsageError, match="a server runs on this directory"):
            prepare(bench, dump_of((source.directory / "data").resolve(), "shop"))

    def test_a_copy_of_another_server_is_refused(self, prepared: Path, base: Path, tmp_path: Path) -> None:
        """Of MySQL's XtraBackup here by its words alone; packed files likewise."""
        second = tmp_path / "other"
        shutil.copytree(prepared, second)
        for name in ("xtrabackup_info", "mariadb_backup_info"):
            (second / name).unlink(missing_ok=True)
        (second / "xtrabackup_info").write_text("server_version = 8.0.36-28\n")
        with on_mariadb(base) as bench:
            with pytest.raises(MissingPrerequisite, match="another or a newer server") as refused:
                prepare(bench, dump_of(second, "shop"))
            assert "engine.flavor=mysql" in refused.value.next_step
            (second / "xtrabackup_info").unlink()
            (second / "shop" / "orders.ibd.zst").touch()
            with pytest.raises(UsageError, match="compressed"):
                prepare(bench, dump_of(second, "shop"))


@pytest.mark.docker
def test_a_clone_of_mysql(base: Path) -> None:
    with sysbench_of_tools_image(base) as programs:
        engine = Engine(in_docker=True, base=base, flavor="mysql", programs=programs)
        with engine.bench() as bench:
            template = prepare(bench, TINY)[0]
        with engine.seeded(template) as bench:
            server = bench.server()
            server.start()
            for statement in CLONED:
                server.query(statement)
            clone = Path(bench.places.data_dir).with_name("clone")
            server.query(f"CLONE LOCAL DATA DIRECTORY = '{clone}'")
            expected = server.query("CHECKSUM TABLE sbtest.sbtest1")
            with engine.bench() as second:
                copied, progress = prepare(second, dump_of(clone, "sbtest"))
            server.stop()
    assert "the physical copy was a replica, and is none any more" in progress
    with engine.seeded(copied) as bench:
        server = bench.server()
        server.start()
        assert server.query("CHECKSUM TABLE sbtest.sbtest1") == expected
        assert server.query("SELECT status FROM information_schema.events") == [("DISABLED",)]
        assert server.query("SHOW REPLICA STATUS") == []
        assert server.query("SELECT @@GLOBAL.super_read_only") == [(0,)]
        server.stop()
