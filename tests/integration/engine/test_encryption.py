"""Servers encrypt as the suite asks: MySQL in a container; the server of this machine where it has the library."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from supervised_engine import DATASET, IN_DOCKER, ON_LOCAL, Engine, prepare

from volbench.core.base.programs import run
from volbench.core.records.dataset import DatasetSpec
from volbench.errors import StepFailed, UsageError
from volbench.machine.engine.encryption import INSTALLATION, KEY_FILE
from volbench.machine.engine.template import Template

PAGE_BYTES = 16384
SYSBENCH_VALUE = re.compile(rb"\d{11}-\d{11}-")
LIBRARIES = {"mysql": "component_keyring_file.so", "mariadb": "file_key_management.so"}


def has_library(engine: Engine) -> bool:
    """Whether the server of this machine can encrypt; that of the image can."""
    if engine.in_docker:
        return True
    program = "mariadbd" if engine.flavor == "mariadb" else "mysqld"
    listed = run(["sh", "-c", INSTALLATION, "sh", program], capture_output=True, text=True, timeout=60).stdout
    return f"plugin {LIBRARIES[engine.flavor]}" in listed.splitlines()


@pytest.fixture
def encrypted(engine: Engine) -> Iterator[Template]:
    """The template of the dataset, all encrypted."""
    if not has_library(engine):
        pytest.skip("needs a server that encrypts")
    with engine.bench() as bench:
        yield prepare(bench, DATASET, encryption="all")[0]


def keys_of(path: Path) -> list[str]:
    """The keys in a file of keys, as hexadecimal digits."""
    text = path.read_text()
    if text.startswith("{"):
        return [element["data"] for element in json.loads(text)["elements"]]
    return [text.strip().partition(";")[2]]


def compressed_share(file: Path) -> float:
    """What zlib leaves of the pages of a file that have data."""
    content = file.read_bytes()
    pages = [content[at : at + PAGE_BYTES] for at in range(4 * PAGE_BYTES, len(content), PAGE_BYTES)]
    used = [page for page in pages if any(page)]
    return sum(len(zlib.compress(page)) for page in used) / (PAGE_BYTES * len(used))


def test_a_copy_of_the_template_starts_and_all_is_encrypted(
    engine: Engine, template: Template, encrypted: Template
) -> None:
    """By the server's own word and by the bytes, also after a crash; another template than that of plain tables."""
    assert encrypted.path != template.path
    assert encrypted.record.rows == template.record.rows
    with engine.seeded(encrypted) as bench:
        server = bench.server(encryption="all")
        server.start()
        assert "2 tablespaces of tables, redo log, undo log, binary log" in server.check_encryption()
        server.query("INSERT INTO sbtest.sbtest1 (k, c, pad) VALUES (1, 'PLAINPLAIN', 'PLAINPLAIN')")
        server.kill()
        server.start()
        assert server.query("SELECT COUNT(*) FROM sbtest.sbtest1") == [(DATASET.rows + 1,)]
        server.stop()
        data = [path.read_bytes() for path in server.data_dir.rglob("*") if path.is_file()]
        assert not any(b"PLAINPLAIN" in content or SYSBENCH_VALUE.search(content) for content in data)
    assert SYSBENCH_VALUE.search((template.data_dir / "sbtest" / "sbtest1.ibd").read_bytes())


def test_encrypted_pages_do_not_compress(template: Template, encrypted: Template) -> None:
    """What a file system or a device below could save is gone."""
    assert compressed_share(template.data_dir / "sbtest" / "sbtest1.ibd") < 0.7
    assert compressed_share(encrypted.data_dir / "sbtest" / "sbtest1.ibd") > 0.98


def test_the_key_is_in_the_data_directory_alone(engine: Engine, encrypted: Template) -> None:
    with engine.seeded(encrypted) as bench:
        server = bench.server(encryption="all")
        server.start()
        server.stop()
        key_file = server.data_dir / KEY_FILE
        assert (encrypted.data_dir / KEY_FILE).stat().st_mode & 0o007 == 0
        keys = keys_of(key_file)
        assert keys
        written = [path for path in server.control_dir.rglob("*") if path.is_file() and not path.is_symlink()]
        assert server.control_dir / "mysqld.log" in written
        for path in written:
            content = path.read_text(errors="replace").lower()
            assert not any(key.lower() in content or bytes.fromhex(key).hex() in content for key in keys), path


def test_a_table_without_encryption_fails_the_cell(engine: Engine, encrypted: Template) -> None:
    with engine.seeded(encrypted) as bench:
        server = bench.server(encryption="tables")
        server.start()
        assert server.check_encryption()
        option = "ENCRYPTED = NO" if engine.flavor == "mariadb" else "ENCRYPTION = 'N'"
        server.query(f"CREATE TABLE sbtest.plain (id INT PRIMARY KEY) {option}")
        with pytest.raises(StepFailed, match="not all tables are encrypted") as caught:
            server.check_encryption()
        assert "sbtest/plain" in caught.value.evidence


def test_a_server_without_its_library_is_refused_before_anything_is_made(engine: Engine) -> None:
    if has_library(engine):
        pytest.skip("does not apply: this server has the library")
    with engine.bench() as bench, pytest.raises(UsageError, match=LIBRARIES[engine.flavor]) as caught:
        prepare(bench, DATASET, encryption="tables")
    assert caught.value.exit_code == 2
    assert list((engine.base / "t").rglob(KEY_FILE)) == []


@ON_LOCAL
def test_a_physical_copy_is_refused(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "ibdata1").write_bytes(b"pages")
    copy = DatasetSpec(kind="dump", path=str(tmp_path))
    with engine.bench() as bench, pytest.raises(UsageError, match="a physical copy stays as it is") as caught:
        prepare(bench, copy, encryption="tables")
    assert caught.value.exit_code == 2


@IN_DOCKER
def test_a_server_that_lost_its_key_does_not_start(engine: Engine, encrypted: Template) -> None:
    with engine.seeded(encrypted) as bench:
        server = bench.server(encryption="all", start_timeout="60s")
        (server.data_dir / KEY_FILE).write_text("")
        with pytest.raises(StepFailed):
            server.start()
