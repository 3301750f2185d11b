"""Encryption at rest: a server's options, MySQL's links, what is encrypted. Answers of servers are invented."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from volbench.core.records.cell import ServerSpec
from volbench.core.records.dataset import DatasetSpec
from volbench.errors import StepFailed, UsageError
from volbench.machine.engine.config import ServerPaths, checked_options, render_config
from volbench.machine.engine.differences import ServerIdentity
from volbench.machine.engine.encryption import (
    ENCRYPTION_OPTIONS,
    KEY_FILE,
    EncryptedStart,
    Installation,
    check_encryption,
    encrypt_undo,
    encrypted_start,
    read_installation,
    write_key,
)
from volbench.machine.engine.template_key import template_key

MYSQL = ServerIdentity(flavor="mysql", version="9.7.0")
MARIADB = ServerIdentity(flavor="mariadb", version="11.8.6-MariaDB", binary="mariadbd")
INSTALLED = Installation(
    program="/usr/sbin/mysqld",
    base_dir="/usr/",
    plugin_dir="/usr/lib/mysql/plugin/",
    plugins=("component_keyring_file.so", "component_reference_cache.so"),
)
Answers = dict[str, list[tuple[Any, ...]]]
TABLES = [("InnoDB", "sbtest", "sbtest1", 16384), ("InnoDB", "sbtest", "sbtest2", 16384)]
ENCRYPTED = [
    ("sbtest/sbtest1", 1),
    ("sbtest/sbtest2", 1),
    ("mysql", 0),
    ("sys/sys_config", 0),
    ("innodb_undo_001", 1),
]


def answering(answers: Answers) -> Callable[[str], list[tuple[Any, ...]]]:
    """A server that answers by the first of these words that a statement has."""

    def query(sql: str) -> list[tuple[Any, ...]]:
        return next((rows for word, rows in answers.items() if word in sql), [])

    return query


def start(identity: ServerIdentity, encryption: Any, directory: Path) -> EncryptedStart:
    return encrypted_start(
        identity,
        encryption,
        INSTALLED,
        directory=directory,
        server_directory="/inside",
        server_data_dir="/volume/data",
    )


def test_tables_are_encrypted_and_only_all_encrypts_logs(tmp_path: Path) -> None:
    for identity, tables, logs in (
        (
            MYSQL,
            "default_table_encryption",
            {"innodb_redo_log_encrypt", "innodb_undo_log_encrypt", "binlog_encryption"},
        ),
        (MARIADB, "innodb_encrypt_tables", {"innodb_encrypt_log", "encrypt_binlog"}),
    ):
        for encryption, names in (("tables", {tables}), ("all", {tables} | logs)):
            options = start(identity, encryption, tmp_path).options
            assert {name for name, value in options.items() if value is True} == names


def test_mysql_starts_by_a_link_with_its_manifest_and_configuration_around_it(tmp_path: Path) -> None:
    for _ in range(2):  # a control directory may be used again
        started = start(MYSQL, "tables", tmp_path)
    links = tmp_path / "keyring"
    assert started.program == "/inside/keyring/mysqld"
    assert (links / "mysqld").readlink() == Path("/usr/sbin/mysqld")
    assert (links / "component_reference_cache.so").readlink().parent == Path("/usr/lib/mysql/plugin")
    assert json.loads((links / "mysqld.my").read_text()) == {"components": "file://component_keyring_file"}
    configuration = json.loads((links / "component_keyring_file.cnf").read_text())
    assert configuration == {"path": f"/volume/data/{KEY_FILE}", "read_only": False}
    assert (started.options["plugin_dir"], started.options["basedir"]) == ("/inside/keyring", "/usr/")


def test_mariadb_loads_its_plugin_and_reads_a_key_of_random_bytes(tmp_path: Path) -> None:
    started = start(MARIADB, "all", tmp_path)
    assert started.program == "mariadbd"
    assert started.options["plugin_load_add"] == "file_key_management"
    assert started.options["file_key_management_filename"] == f"/volume/data/{KEY_FILE}"
    keys = set()
    for _ in range(2):
        write_key(tmp_path, "mariadb")
        number, _, key = (tmp_path / KEY_FILE).read_text().strip().partition(";")
        assert (number, len(bytes.fromhex(key))) == ("1", 32)
        keys.add(key)
    assert len(keys) == 2
    assert (tmp_path / KEY_FILE).stat().st_mode & 0o777 == 0o600


def test_the_key_is_in_no_option(tmp_path: Path) -> None:
    write_key(tmp_path, "mariadb")
    started = start(MARIADB, "all", tmp_path)
    paths = ServerPaths(data_dir=str(tmp_path), control_dir="/c", tmp_dir="/t")
    text = render_config(identity=MARIADB, paths=paths, options={}, as_root=False, encryption=started.options).text
    assert "innodb_encrypt_tables = ON" in text
    assert (tmp_path / KEY_FILE).read_text().strip().partition(";")[2] not in text


def test_an_installation_is_read() -> None:
    output = (
        "program /usr/sbin/mysqld\nbasedir /usr/\nplugin auth_socket.so\nplugin component_keyring_file.so\n"
        "plugin debug\nplugin-dir /usr/lib/mysql/plugin/\n"
    )
    installation = read_installation(output, MYSQL)
    assert installation.program == "/usr/sbin/mysqld"
    assert installation.plugins == ("auth_socket.so", "component_keyring_file.so")


@pytest.mark.parametrize("output", ["", "program /usr/sbin/mysqld\nplugin-dir /p/\nplugin auth_socket.so\n"])
@pytest.mark.parametrize("identity", [MYSQL, MARIADB])
def test_a_server_without_its_library_is_refused(identity: ServerIdentity, output: str) -> None:
    with pytest.raises(UsageError, match="cannot encrypt: it has no") as caught:
        read_installation(output, identity)
    assert caught.value.exit_code == 2
    assert caught.value.where == "engine.encryption"


@pytest.mark.parametrize("name", [*sorted(ENCRYPTION_OPTIONS), "loose_binlog_encryption", "innodb-encrypt-tables"])
def test_a_suite_sets_these_options_by_one_key(name: str) -> None:
    with pytest.raises(UsageError, match="only volbench may set") as caught:
        checked_options({name: True})
    assert "engine.encryption" in caught.value.next_step


def test_a_template_of_another_encryption_is_another() -> None:
    keys = {
        template_key(DatasetSpec(), ServerSpec.model_validate({"encryption": encryption}), MYSQL)
        for encryption in ("none", "tables", "all")
    }
    assert len(keys) == 3
    assert template_key(DatasetSpec(), ServerSpec(), MYSQL) in keys


def test_encrypted_tables_are_counted() -> None:
    query = answering({"information_schema.tables": TABLES, "innodb_tablespaces": ENCRYPTED})
    assert "2 tablespaces of tables" in check_encryption(query, MYSQL, "tables")


@pytest.mark.parametrize(
    ("tables", "tablespaces", "evidence"),
    [
        (TABLES, [("sbtest/sbtest1", 1), ("sbtest/sbtest2", 0)], "not encrypted: sbtest/sbtest2"),
        (TABLES, [("sbtest/sbtest1", 1)], "without a tablespace of their own"),
        ([*TABLES, ("MyISAM", "app", "old", 0)], ENCRYPTED, "not encrypted: app.old"),
        ([], ENCRYPTED, "0 tables"),
    ],
)
def test_a_table_that_is_not_encrypted_is_a_failure(
    tables: list[tuple[Any, ...]], tablespaces: list[tuple[Any, ...]], evidence: str
) -> None:
    query = answering({"information_schema.tables": tables, "innodb_tablespaces": tablespaces})
    with pytest.raises(StepFailed, match="not all tables are encrypted") as caught:
        check_encryption(query, MYSQL, "tables")
    assert evidence in caught.value.evidence
    assert caught.value.cause == "not_encrypted"


@pytest.mark.parametrize(
    ("changes", "evidence"),
    [
        ({}, ""),
        ({"innodb_redo_log_encrypt": [(0, 1, 1)]}, "innodb_redo_log_encrypt"),
        ({"SHOW BINARY LOGS": [("binlog.000001", 1, "No")]}, "binlog.000001"),
        ({"innodb_tablespaces": [*ENCRYPTED, ("innodb_undo_002", 0)]}, "undo"),
    ],
)
def test_a_log_that_is_not_encrypted_is_a_failure(changes: Answers, evidence: str) -> None:
    answers: Answers = {
        "information_schema.tables": TABLES,
        "innodb_tablespaces": ENCRYPTED,
        "innodb_redo_log_encrypt": [(1, 1, 1)],
        "@@GLOBAL.log_bin": [(1,)],
        "SHOW BINARY LOGS": [("binlog.000001", 1, "Yes")],
    }
    query = answering(answers | changes)
    if not changes:
        assert "redo log, undo log, binary log" in check_encryption(query, MYSQL, "all")
        return
    with pytest.raises(StepFailed, match="not all logs are encrypted") as caught:
        check_encryption(query, MYSQL, "all")
    assert evidence in caught.value.evidence


def test_mariadb_is_waited_for_until_its_undo_logs_are_encrypted() -> None:
    statements: list[str] = []

    def query(sql: str) -> list[tuple[Any, ...]]:
        statements.append(sql)
        asked = sum("tablespaces_encryption" in statement for statement in statements)
        return [("innodb_system", int(asked > 1))] if "tablespaces_encryption" in sql else []

    encrypt_undo(query, MARIADB, timeout_s=60)
    assert statements[0].endswith("innodb_encryption_threads = 1")
    assert statements[-1].endswith("innodb_encryption_threads = 0")
    with pytest.raises(StepFailed, match="in time"):
        encrypt_undo(answering({"tablespaces_encryption": [("innodb_system", 0)]}), MARIADB, timeout_s=0)
