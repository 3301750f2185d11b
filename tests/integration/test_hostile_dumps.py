"""Dumps of strangers that root loads: they run no command, and reach nothing beyond their schema."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import hostile_user
import pytest
from hostile_user import TREASURE, plant_link, plant_pipe
from mysql_container import mysql_container
from scratch_server import ScratchServer, scratch_server
from shell_dump_writer import write_shell_dump

from volbench.core.records.dataset import DatasetSpec
from volbench.errors import StepFailed, UsageError, VolbenchError
from volbench.machine.engine.connection import Account, connection, rows
from volbench.machine.engine.own_data.loading import load
from volbench.machine.engine.own_data.pipe import Loading

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="root is attacked")


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory that the stranger may write to."""
    with hostile_user.shared_place() as shared:
        yield shared


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScratchServer]:
    with scratch_server(tmp_path_factory.mktemp("m"), "--skip-symbolic-links") as started:
        yield started


def loaded(server: ScratchServer | Account, path: Path) -> None:
    root = server if isinstance(server, Account) else Account(user="root", socket=str(server.socket))
    rows(root, "DROP DATABASE IF EXISTS shop")
    rows(root, "CREATE DATABASE shop")
    load(
        Loading(
            account=root,
            dataset=DatasetSpec.model_validate({"kind": "dump", "path": str(path), "schema": "shop"}),
            deadline_s=time.monotonic() + 120,
            cancelled=threading.Event(),
            progress=lambda _text, _share: None,
        )
    )


ATTACKS = (
    "\\! echo gone > {victim}",
    "system echo gone > {victim}",
    "DELIMITER ;;\n\\! echo gone > {victim}\n",
    "tee {victim}\nSELECT 1;\nnotee\n",
    "SELECT 'a\n\\! echo gone > {victim}\n';\n\\! echo gone > {victim}",
    "CREATE TABLE leak (line TEXT);\nLOAD DATA LOCAL INFILE '{victim}' INTO TABLE leak;",
    "CREATE TABLE leak (line TEXT);\nsource {victim}",
)


@pytest.mark.mysqld
@pytest.mark.parametrize("form", ["sql", "sql.gz", "shell"])
@pytest.mark.parametrize("attack", ATTACKS)
def test_a_dump_runs_no_command_and_reads_no_file_of_this_machine(
    server: ScratchServer, directory: Path, victim: Path, attack: str, form: str
) -> None:
    """Statements are for the server of the cell; the client's own commands are root's."""
    text = f"{attack.format(victim=victim)}\nCREATE TABLE last (id INT);\n"
    path = directory / f"shop.{form}"
    if form == "shell":
        write_shell_dump(path, "shop", {"t": ("CREATE TABLE t (id INT PRIMARY KEY);", ("id",), [(1,)])})
        (path / "shop@t.sql").write_text(f"CREATE TABLE t (id INT PRIMARY KEY);\n{text}")
    else:
        path.write_text(text)
        if form == "sql.gz":
            path.rename(directory / "shop.sql")
            subprocess.run(["gzip", str(directory / "shop.sql")], check=True, timeout=60)
    with contextlib.suppress(VolbenchError):
        loaded(server, path)
    assert victim.read_text() == TREASURE
    tables = {str(name) for (name,) in server.query("SHOW TABLES FROM shop")}
    assert "leak" not in tables or server.query("SELECT COUNT(*) FROM shop.leak") == [(0,)]


COMMANDS_OF_A_CLIENT = (
    "edit",
    "edit;",
    "\\e",
    "EDIT",
    "\tedit",
    "system sh -c 'date > {ran}'",
    "\\! date > {ran}",
    "\\!date > {ran}",
    "source {sql}",
    "\\. {sql}",
    "tee {ran}",
    "\\T {ran}",
    "pager tee {ran}",
    "\\P tee {ran}",
    "connect test 127.0.0.1",
    "\\r test 127.0.0.1",
    "\\u mysql",
    "prompt x",
    "\\R x",
    "\\- ",
    "nopager",
    "\\n",
    "warnings",
    "\\W",
    "status",
    "\\s",
    "resetconnection",
    "\\x",
    "ssl_session_data_print {ran}",
    "query_attributes a b",
    "help",
    "? x",
    "sandbox",
)
POSITIONS = (
    "{}\n",
    "SELECT 1; {}\n",
    "SELECT 1\n{}\n;\n",
    "DELIMITER ;;\nSELECT 1;;\n{}\n;;\nDELIMITER ;\n",
    "\r\n{}\r\n",
    "/* a */ {}\n",
    "/*!40000 {} */;\n",
    "SELECT 'a\n';\n{}\n",
    "\xef\xbb\xbf{}\n",
    "/*M!999999\\- mark */ \n{}\n",
    "delimiter {}\n",
)


@pytest.mark.mysqld
@pytest.mark.parametrize("position", POSITIONS)
def test_no_command_of_a_client_does_anything(
    server: ScratchServer, directory: Path, monkeypatch: pytest.MonkeyPatch, position: str
) -> None:
    """Wherever it stands. What is no statement either is the server's error, or the client's, with its line."""
    ran, programs = directory / "ran", directory / "programs"
    programs.mkdir()
    for name in ("vi", "editor"):
        (programs / name).write_text(f"#!/bin/sh\ndate >{ran}\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    for name in ("EDITOR", "VISUAL"):
        monkeypatch.delenv(name, raising=False)
    (directory / "further.sql").write_text("CREATE TABLE further (id INT);")
    for command in COMMANDS_OF_A_CLIENT:
        text = position.format(command.format(ran=ran, sql=directory / "further.sql"))
        (directory / "shop.sql").write_text(f"SELECT 1;\n{text}", encoding="latin-1")
        with contextlib.suppress(VolbenchError):
            loaded(server, directory / "shop.sql")
        assert not ran.exists(), command
        assert server.query("SHOW TABLES FROM shop") == [], command


STATEMENTS = (
    "SELECT 1 INTO OUTFILE '{place}/made'",
    "SELECT 'x' INTO DUMPFILE '{place}/made'",
    "CREATE TABLE x AS SELECT LOAD_FILE('{victim}') AS text",
    "LOAD DATA INFILE '{victim}' INTO TABLE t (text)",
    "LOAD DATA LOCAL INFILE '{victim}' INTO TABLE t (text)",
    "LOAD XML LOCAL INFILE '{victim}' INTO TABLE t (text)",
    "SET GLOBAL general_log_file = '{place}/made'",
    "SET GLOBAL general_log = 1",
    "SET GLOBAL slow_query_log = 1",
    "SET GLOBAL slow_query_log_file = '{place}/made'",
    "SET @@global.log_output = 'TABLE'",
    "SET PERSIST max_connections = 7",
    "SET PERSIST_ONLY max_connections = 7",
    "SET GLOBAL init_connect = 'SELECT 1'",
    "CREATE TABLE x (id INT) DATA DIRECTORY = '{place}'",
    "CREATE TABLE x (id INT) ENGINE=MyISAM INDEX DIRECTORY = '{place}'",
    "CREATE TABLE x (id INT) PARTITION BY HASH(id) (PARTITION p DATA DIRECTORY = '{place}')",
    "ALTER TABLE t PARTITION BY HASH(id) (PARTITION p DATA DIRECTORY = '{place}')",
    "CREATE TABLESPACE x ADD DATAFILE '{place}/made.ibd'",
    "INSTALL PLUGIN x SONAME 'ha_federatedx.so'",
    "INSTALL SONAME 'ha_connect'",
    "INSTALL COMPONENT 'file://component_x'",
    "CREATE FUNCTION sys_exec RETURNS INT SONAME 'lib_mysqludf_sys.so'",
    "CREATE SERVER x FOREIGN DATA WRAPPER mysql OPTIONS (HOST '127.0.0.1', DATABASE 'x', USER 'root')",
    "SHUTDOWN",
    "FLUSH TABLES WITH READ LOCK",
    "CREATE USER x@localhost",
    "SET PASSWORD FOR root@localhost = 'x'",
    "GRANT ALL ON *.* TO x@localhost IDENTIFIED BY 'x'",
    "GRANT SELECT ON shop.* TO root@localhost",
    "ALTER USER root@localhost IDENTIFIED BY 'x'",
    "DROP USER root@localhost",
    "RENAME USER root@localhost TO x@localhost",
    "INSERT INTO mysql.plugin VALUES ('x', 'x.so')",
    "UPDATE mysql.global_priv SET Priv = ''",
    "CREATE DATABASE further",
    "CREATE TABLE mysql.x (id INT)",
    "RENAME TABLE shop.t TO mysql.t",
    "CREATE /* a */ DEFINER = root@localhost PROCEDURE x() SET GLOBAL general_log = 1",
    "CREATE /* a */ DEFINER = root@localhost SQL SECURITY DEFINER VIEW x AS SELECT 1",
    "CREATE /* a */ DEFINER = root@localhost TRIGGER x BEFORE INSERT ON t FOR EACH ROW SET @a = 1",
    "CREATE /* a */ DEFINER = root@localhost EVENT x ON SCHEDULE EVERY 1 SECOND DO SET GLOBAL general_log = 1",
    "CREATE DEFINER = root@localhost TRIGGER x BEFORE INSERT ON t FOR EACH ROW SET GLOBAL general_log = 1; "
    "INSERT INTO t VALUES (1, '')",
    "CREATE DEFINER = root@localhost PROCEDURE x() SET GLOBAL general_log = 1; CALL x()",
    "PREPARE x FROM 'SET GLOBAL general_log = 1'; EXECUTE x",
    "EXECUTE IMMEDIATE 'SET GLOBAL general_log = 1'",
    "/*!99999 SET */ SET GLOBAL general_log = 1",
    "/*M!100000 SET GLOBAL general_log = 1 */; SELECT x",
    "SET SESSION sql_log_bin = 0, GLOBAL general_log = 1",
    "BINLOG 'x'",
    "RESET MASTER",
    "PURGE BINARY LOGS TO 'x'",
    "SET ROLE root",
    "CHANGE MASTER TO MASTER_HOST='x'\x00; SET GLOBAL general_log = 1",
    "HANDLER mysql.global_priv OPEN",
    "USE mysql\n;SELECT 1 /* of another schema */; USE shop; SELECT * FROM mysql.user",
    "CREATE TABLE x (id INT) ENGINE=FEDERATED CONNECTION='mysql://root@127.0.0.1/x/x'",
    "CREATE TABLE x (id INT) ENGINE=CONNECT TABLE_TYPE=DOS FILE_NAME='{victim}'",
    "KILL {connection}",
    "SELECT SLEEP(0) FROM mysql.user",
)


OBSERVED = (
    "SHOW GLOBAL VARIABLES WHERE Variable_name NOT LIKE '%timestamp%' AND Variable_name NOT LIKE 'gtid%'",
    "SELECT user, host, priv FROM mysql.global_priv WHERE user <> 'volbench_loader' ORDER BY 1, 2",
    "SHOW DATABASES",
    "SELECT * FROM mysql.plugin",
    "SELECT * FROM mysql.func",
    "SELECT * FROM mysql.servers",
)


@pytest.mark.mysqld
@pytest.mark.parametrize("statement", STATEMENTS)
def test_no_statement_of_a_dump_reaches_beyond_its_schema(
    server: ScratchServer, directory: Path, victim: Path, statement: str
) -> None:
    """Neither files nor settings nor accounts.

    The server is closed by nothing else but --skip-symbolic-links: MariaDB asks no right for DATA DIRECTORY.
    """
    directory.chmod(0o777)
    victim.chmod(0o644)
    (directory / "shop.sql").write_text("SELECT 1;\n")
    loaded(server, directory / "shop.sql")  # makes the account
    before = [server.query(question) for question in OBSERVED]
    with connection(Account(user="root", socket=str(server.socket))) as second:
        text = statement.format(place=directory, victim=victim, connection=second.connection_id)
        (directory / "shop.sql").write_text(f"CREATE TABLE t (id INT, text TEXT);\n{text};\n")
        with contextlib.suppress(StepFailed):
            loaded(server, directory / "shop.sql")
        assert second.is_connected()
    assert [server.query(question) for question in OBSERVED] == before
    assert [path.name for path in directory.iterdir()] == ["shop.sql"]
    for (table,) in server.query("SHOW TABLES FROM shop"):
        assert TREASURE.strip() not in str(server.query(f"SELECT * FROM shop.`{table}`"))


OF_MYSQL = (
    *OBSERVED[:1],
    *OBSERVED[2:],
    "SELECT * FROM mysql.component",
    "SELECT user, host, Super_priv FROM mysql.user WHERE user <> 'volbench_loader' ORDER BY 1, 2",
)


@pytest.mark.docker
def test_no_statement_of_a_dump_reaches_beyond_its_schema_in_mysql(directory: Path) -> None:
    """The same, of a MySQL in a container."""
    server_directory = directory / "server"
    server_directory.mkdir()
    server_directory.chmod(0o777)
    with mysql_container(server_directory) as root:
        for statement in ("SELECT 1", *STATEMENTS):
            text = statement.format(place="/made", victim="/etc/passwd", connection=1)
            (directory / "shop.sql").write_text(f"CREATE TABLE t (id INT, text TEXT);\n{text};\n")
            with contextlib.suppress(StepFailed):
                loaded(root, directory / "shop.sql")
            if statement == "SELECT 1":  # makes the account
                before = [rows(root, question) for question in OF_MYSQL]
            assert [rows(root, question) for question in OF_MYSQL] == before, statement
            for (table,) in rows(root, "SHOW TABLES FROM shop"):
                assert "root:x" not in str(rows(root, f"SELECT * FROM shop.`{table}`")), statement


@pytest.mark.mysqld
def test_what_the_account_may_not_do_is_one_message(server: ScratchServer, directory: Path) -> None:
    """With the line of the dump, the server's error and the next step."""
    text = "SET SQL_LOG_BIN=0;\nUSE other;\nSELECT 1;\nUSE shop;\nCREATE TABLE t (id INT);\nSHUTDOWN;\n"
    (directory / "shop.sql").write_text(text)
    with pytest.raises(StepFailed) as failed:
        loaded(server, directory / "shop.sql")
    assert "at line 6" in failed.value.evidence
    assert "remove the statement" in failed.value.next_step


HARMS = {
    "@.json": "pipe",
    "@.done.json": "none",
    "shop.json": "zero",
    "shop@t.json": "pipe",
    "shop@t@@0.tsv.zst": "link",
    "shop@t.sql": "pipe",
}


@pytest.mark.mysqld
@pytest.mark.parametrize("name", HARMS)
def test_a_shell_dump_with_something_else_than_a_file_is_refused(
    server: ScratchServer, directory: Path, victim: Path, name: str
) -> None:
    """Neither waited for nor followed."""
    path = directory / "dump"
    write_shell_dump(path, "shop", {"t": ("CREATE TABLE t (id INT PRIMARY KEY);", ("id",), [(1,)])})
    path.chmod(0o777)
    (path / name).unlink()
    if HARMS[name] == "pipe":
        plant_pipe(path / name)
    elif HARMS[name] != "none":
        plant_link(path / name, Path("/dev/zero") if HARMS[name] == "zero" else victim)
    with pytest.raises(VolbenchError):
        loaded(server, path)


@pytest.mark.mysqld
@pytest.mark.parametrize("base", ["../shop@t", "/etc/shop@t", "x/../../shop@t"])
def test_names_in_a_shell_dump_lead_nowhere(server: ScratchServer, directory: Path, base: str) -> None:
    """They are names of the dump's own files."""
    path = directory / "dump"
    write_shell_dump(path, "shop", {"t": ("CREATE TABLE t (id INT PRIMARY KEY);", ("id",), [(1,)])})
    for file in path.glob("shop@t*"):
        shutil.copy(file, directory)
    described = json.loads((path / "shop.json").read_text())
    (path / "shop.json").write_text(json.dumps({**described, "basenames": {"t": base}}))
    with pytest.raises(UsageError, match="cannot be read"):
        loaded(server, path)
    assert server.query("SHOW TABLES FROM shop") == []
