"""The server's files by role: options, names of files, and their copies."""

from __future__ import annotations

from pathlib import Path

import pytest

from volbench.core.records.layout import Role
from volbench.errors import UsageError
from volbench.machine.engine.config import ServerPaths, checked_options, render_config
from volbench.machine.engine.differences import ServerIdentity
from volbench.machine.engine.roles import role_of_file
from volbench.machine.engine.seeding import seed_roles

MYSQL = ServerIdentity(flavor="mysql", version="9.7.0")
MARIADB = ServerIdentity(flavor="mariadb", version="11.8.6")
DIRECTORIES: dict[Role, str] = {
    "redo": "/r/redo",
    "binlog": "/l/binlog",
    "doublewrite": "/w/doublewrite",
    "undo": "/u/undo",
    "tmp": "/t/tmp",
}


def options_of(identity: ServerIdentity, roles: dict[Role, str], **options: bool) -> dict[str, str]:
    paths = ServerPaths(data_dir="/d/data", control_dir="/c", tmp_dir=roles.get("tmp", "/d/tmp"), roles=roles)
    text = render_config(identity=identity, paths=paths, options=options, as_root=False).text
    return dict(line.split(" = ", 1) for line in text.splitlines() if " = " in line)


def test_each_role_has_its_option() -> None:
    options = options_of(MYSQL, DIRECTORIES)
    assert options["datadir"] == "/d/data"
    assert options["innodb_log_group_home_dir"] == "/r/redo"
    assert options["log_bin"] == "/l/binlog/binlog"
    assert options["log_bin_index"] == "/l/binlog/binlog.index"
    assert options["innodb_doublewrite_dir"] == "/w/doublewrite"
    assert options["innodb_undo_directory"] == "/u/undo"
    assert options["tmpdir"] == options["innodb_temp_tablespaces_dir"] == "/t/tmp"
    assert options["innodb_temp_data_file_path"] == "../../t/tmp/ibtmp1:12M:autoextend"


def test_a_role_with_the_data_has_no_option() -> None:
    names = options_of(MYSQL, {}).keys()
    assert not {"innodb_log_group_home_dir", "innodb_undo_directory", "innodb_doublewrite_dir"} & names
    assert "log_bin_index" not in names


@pytest.mark.parametrize(
    ("identity", "role", "options", "named"),
    [
        (MARIADB, "doublewrite", {}, "into the system tablespace"),
        (ServerIdentity(flavor="mysql", version="8.0.19"), "doublewrite", {}, "until 8.0.19"),
        (MYSQL, "doublewrite", {"innodb_doublewrite": False}, "innodb_doublewrite is off"),
        (MYSQL, "binlog", {"log_bin": False}, "log_bin is off"),
    ],
)
def test_a_role_that_the_server_has_no_files_of_is_refused(
    identity: ServerIdentity, role: Role, options: dict[str, bool], named: str
) -> None:
    with pytest.raises(UsageError, match=named):
        options_of(identity, {role: DIRECTORIES[role]}, **options)


@pytest.mark.parametrize(
    ("name", "component"),
    [
        ("innodb_log_group_home_dir", "redo"),
        ("innodb-doublewrite-dir", "doublewrite"),
        ("innodb_undo_directory", "undo"),
        ("tmpdir", "tmp"),
        ("log_bin_index", "binlog"),
    ],
)
def test_a_suite_that_places_files_is_told_how_a_layout_does(name: str, component: str) -> None:
    with pytest.raises(UsageError) as refused:
        checked_options({name: "x"})
    assert f"--volume a=data:SPEC,{component}:SPEC" in refused.value.next_step


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("#innodb_redo", "redo"),
        ("ib_logfile0", "redo"),
        ("undo_001", "undo"),
        ("undo001", "undo"),
        ("#ib_16384_0.dblwr", "doublewrite"),
        ("#ib_16384_1.bdblwr", "doublewrite"),
        ("binlog.000001", "binlog"),
        ("ibdata1", None),
        ("undo_log_of_mine.ibd", None),
        ("sbtest", None),
    ],
)
def test_names_of_files_tell_their_role(name: str, role: Role | None) -> None:
    assert role_of_file(name) == role


def test_the_files_of_a_role_are_copied_to_its_directory_alone(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "#innodb_redo").mkdir(parents=True)
    for name in ("ibdata1", "undo_001", "undo_002", "#innodb_redo/#ib_redo6"):
        (data / name).write_bytes(b"x")
    seed_roles(data, {"redo": tmp_path / "redo", "undo": tmp_path / "undo", "tmp": tmp_path / "tmp"})
    copied = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()} - {
        str(path.relative_to(tmp_path)) for path in data.rglob("*")
    }
    assert copied == {"redo/#innodb_redo/#ib_redo6", "undo/undo_001", "undo/undo_002"}
    assert (tmp_path / "tmp").is_dir()


def test_a_server_without_undo_tablespaces_is_named(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "ibdata1").write_bytes(b"x")
    with pytest.raises(UsageError, match="no undo tablespaces outside the system tablespace"):
        seed_roles(data, {"undo": tmp_path / "undo"})
