"""Own data: what identifies it, and sources that cannot be loaded."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from volbench.core.records.dataset import DatasetSpec
from volbench.errors import StepFailed, UsageError
from volbench.machine.engine.connection import Account
from volbench.machine.engine.dataset import _check_prepared
from volbench.machine.engine.differences import ServerIdentity
from volbench.machine.engine.own_data.content import content_hash, hash_of_scripts
from volbench.machine.engine.own_data.loading import load, source_of
from volbench.machine.engine.own_data.physical_copy import check_physical_copy
from volbench.machine.engine.own_data.pipe import Loading, evidence_of

FAILED_PREPARE = b"""sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)

Initializing worker threads...

FATAL: unable to connect to MySQL server on host '127.0.0.1', port 33991, aborting...
FATAL: error 1045: Access denied for user 'bench'@'localhost' (using password: YES)
FATAL: `sysbench.cmdline.call_command' function failed: oltp_common.lua:83: connection creation failed
"""
"""Printed by sysbench 1.0.20, which ended with 0."""


class Server:
    """A server over TCP that requires TLS."""

    account = Account(user="bench", host="127.0.0.1")

    def alive(self) -> bool:
        return True

    def query(self, sql: str) -> list[tuple[object, ...]]:
        assert "require_secure_transport" in sql
        return [(1,)]


def dataset(**values: object) -> DatasetSpec:
    return DatasetSpec.model_validate(values)


def loading(spec: DatasetSpec) -> Loading:
    account = Account(user="root", socket="/none")
    return Loading(
        account=account,
        dataset=spec,
        deadline_s=time.monotonic() + 60,
        cancelled=threading.Event(),
        progress=lambda _text, _share: None,
    )


def test_a_prepare_that_ends_with_0_and_says_fatal_has_failed() -> None:
    with pytest.raises(StepFailed, match="the server requires TLS") as failed:
        _check_prepared(Server(), 0, FAILED_PREPARE)  # type: ignore[arg-type]
    assert "Access denied" in failed.value.evidence
    _check_prepared(Server(), 0, b"Creating table 'sbtest1'...\n")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("printed", "evidence"),
    [
        (
            "mysql: [Warning] Using a password\nERROR 1064 (42000) at line 1: near 'mysqldump: [Warning] Using'\n",
            "ERROR 1064 (42000) at line 1: near 'mysqldump: [Warning] Using'",
        ),
        ("mysql: [Warning] World-writable config file is ignored\n", "mysql: [Warning] World-writable config file"),
        ("gzip: stdin: not in gzip format\n", "gzip: stdin: not in gzip format"),
        ("", "it printed nothing"),
    ],
)
def test_a_program_that_failed_is_never_without_evidence(printed: str, evidence: str) -> None:
    assert evidence in evidence_of(printed)


def test_the_content_decides_not_the_place(tmp_path: Path) -> None:
    for name, text in (("a", "x"), ("b", "x"), ("c", "y")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "d.sql").write_text(text)
    a, b, c = (content_hash(dataset(kind="dump", path=str(tmp_path / name / "d.sql"))) for name in "abc")
    assert a == b != c
    assert content_hash(dataset(kind="dump", path=str(tmp_path / "a"))) != content_hash(
        dataset(kind="dump", path=str(tmp_path / "c"))
    )


def test_a_module_beside_a_script_counts_too(tmp_path: Path) -> None:
    (tmp_path / "own.lua").write_text("require('module')")
    (tmp_path / "module.lua").write_text("a = 1")
    before = hash_of_scripts(tmp_path / "own.lua")
    (tmp_path / "module.lua").write_text("a = 2")
    assert hash_of_scripts(tmp_path / "own.lua") != before


def test_a_directory_that_is_no_dump_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no dump of mydumper"):
        load(loading(dataset(kind="dump", path=str(tmp_path))))


def test_the_dsn_of_a_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VOLBENCH_MYSQL_PASSWORD", raising=False)
    account, schema = source_of(dataset(kind="schema", server="mysql://reader@db1:3307/shop?ssl-mode=REQUIRED"))
    assert (account.user, account.host, account.port, schema) == ("reader", "db1", 3307, "shop")
    assert account.tls.mode == "REQUIRED"
    with pytest.raises(UsageError):
        source_of(dataset(kind="schema", server="db1/shop"))
    for wrong in ("mysql://u:secret@db1/shop", "mysql://db1/shop?password=secret"):  # a suite of an older version
        with pytest.raises(UsageError) as refused:
            source_of(dataset(kind="schema", server="mysql://db1/shop").model_copy(update={"server": wrong}))
        assert "secret" not in str(refused.value)


@pytest.mark.parametrize("name", ["shop/t.isl", "shop/link.ibd"])
def test_a_physical_copy_with_a_file_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    """A server on it would open the file of the server that it was made of, or any other."""
    (tmp_path / "shop").mkdir()
    (tmp_path / "ibdata1").touch()
    (tmp_path / "shop" / "plain.ibd").touch()
    identity = ServerIdentity(flavor="mariadb", version="10.11.6-MariaDB")
    check_physical_copy(tmp_path, identity)
    if name.endswith(".isl"):
        (tmp_path / name).write_text("/var/lib/mysql-fast/shop/t.ibd")
    else:
        (tmp_path / name).symlink_to("/var/lib/mysql/shop/link.ibd")
    with pytest.raises(UsageError, match="has a file elsewhere") as refused:
        check_physical_copy(tmp_path, identity)
    assert refused.value.evidence == str(tmp_path / name)
