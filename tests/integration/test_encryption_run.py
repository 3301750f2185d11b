"""`volbench run` with encryption at rest as a factor: proven in each cell, no key in the results, refusals."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import live_run
import pytest

from volbench.machine.engine.encryption import KEY_FILE

SWEEP = "sweep={factors: {engine.encryption: {base: none, levels: [all]}}}"
LOGS = ("innodb_redo_log_encrypt", "innodb_undo_log_encrypt", "binlog_encryption")


@pytest.mark.docker
def test_a_sweep_proves_what_is_encrypted_and_no_file_of_it_has_a_key(tmp_path: Path) -> None:
    """MySQL 9.7 in containers: two templates, a cell of each, with the same rows."""
    with live_run.bench("docker", tmp_path, tmp_path / "cache") as bench:
        bench.volumes.pop("b")
        ended = bench.end(bench.start(SWEEP))
        assert ended.code in live_run.FINISHED, ended.output
        variables = {}
        for result in bench.directory.results():
            cell = json.loads((bench.directory.cell_dir(result.cell_id) / "cell.json").read_bytes())
            encryption = cell["parameters"]["engine.encryption"]
            assert result.server is not None
            variables[encryption] = [result.server.variables[name] for name in LOGS]
            proven = [note for note in result.notes if note.startswith("encrypted at rest, says the server:")]
            assert len(proven) == (encryption == "all"), result.notes
        assert variables == {"none": ["OFF"] * 3, "all": ["ON"] * 3}
        (key_file,) = (bench.cache / "templates").rglob(KEY_FILE)
        keys = [element["data"] for element in json.loads(key_file.read_text())["elements"]]
        assert keys
        for path in (path for path in tmp_path.rglob("*") if path.is_file() and bench.cache not in path.parents):
            content = path.read_bytes()
            for key in keys:
                assert key.lower().encode() not in content.lower(), path
                assert bytes.fromhex(key) not in content, path
        assert bench.leftovers() == []


@pytest.mark.mysqld
@pytest.mark.skipif(
    not shutil.which("mariadbd") or Path("/usr/lib/mysql/plugin/file_key_management.so").exists(),
    reason="does not apply: for a MariaDB without file_key_management",
)
def test_a_server_that_cannot_encrypt_ends_the_run_before_its_first_cell(tmp_path: Path) -> None:
    with live_run.bench("local", tmp_path, tmp_path / "cache") as bench:
        ended = bench.end(bench.start("engine.encryption=tables"))
        assert ended.code == 2, ended.output
        assert "cannot encrypt: it has no file_key_management.so" in ended.output
        assert bench.cells_started() <= {"template"}
        assert bench.leftovers() == []
