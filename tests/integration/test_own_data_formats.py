"""Dumps as the real programs write them, loaded on a real server: each has the tables and checksums of its source.

MySQL Shell is in no distribution: its dump is our own construction here (`shell_dump_writer`).
"""

from __future__ import annotations

import gzip
import io
import shutil
import subprocess
import tarfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import film_shop
import pytest
from film_shop import SCHEMA
from scratch_server import ScratchServer, scratch_server
from shell_dump_writer import write_shell_dump

from volbench.core.records.dataset import DatasetSpec
from volbench.errors import StepFailed, UsageError
from volbench.machine.engine.connection import Account
from volbench.machine.engine.own_data.dump_filter import LeftOut
from volbench.machine.engine.own_data.form import check_sql_file
from volbench.machine.engine.own_data.loading import load
from volbench.machine.engine.own_data.pipe import Loading

pytestmark = pytest.mark.mysqld
ROWS = 1200
DUMP = next(filter(None, map(shutil.which, ("mysqldump", "mariadb-dump"))), "")
CLIENT = next(filter(None, map(shutil.which, ("mariadb", "mysql"))), "")
EXTRAS = (
    "CREATE VIEW recent AS SELECT film_id, title FROM film",
    "CREATE PROCEDURE films() SELECT COUNT(*) FROM film",
    "CREATE TRIGGER paid BEFORE INSERT ON payment FOR EACH ROW SET NEW.amount = NEW.amount",
    "CREATE TABLE picture (id INT PRIMARY KEY, png BLOB, name VARCHAR(40), at TIMESTAMP NULL)",
    "INSERT INTO picture VALUES (1, X'00090A5C27FF', 'Grüße \U0001f600\\t\\\\N', '2026-03-29 01:30:00'), "
    "(2, NULL, '', NULL)",
)
TABLES = ("customer", "film", "payment", "picture", "rental")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScratchServer]:
    """A server with the film shop, a view, a routine, a trigger, and a table of bytes."""
    directory = tmp_path_factory.mktemp("a")
    dump = film_shop.write_dump(directory / "shop.sql", ROWS)
    with scratch_server(directory) as server:
        server.query(f"CREATE DATABASE {SCHEMA} DEFAULT CHARACTER SET utf8mb4")
        with dump.open("rb") as sql:
            subprocess.run([*client(server), SCHEMA], stdin=sql, check=True, timeout=120)
        for statement in EXTRAS:
            subprocess.run([*client(server), SCHEMA, "-e", statement], check=True, timeout=60)
        yield server


@pytest.fixture(scope="module")
def empty_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScratchServer]:
    """A server that is not the dumps' source."""
    with scratch_server(tmp_path_factory.mktemp("b")) as server:
        yield server


@pytest.fixture
def target(empty_server: ScratchServer) -> ScratchServer:
    """The server with the schema to load into, which is empty."""
    empty_server.query(f"DROP DATABASE IF EXISTS {SCHEMA}")
    empty_server.query(f"CREATE DATABASE {SCHEMA} DEFAULT CHARACTER SET utf8mb4")
    return empty_server


def client(server: ScratchServer) -> list[str]:
    return [CLIENT, "--no-defaults", "--default-character-set=utf8mb4", f"--socket={server.socket}", "-uroot"]


def piped(server: ScratchServer, arguments: list[str], compress: list[str], path: Path) -> Path:
    dump = [DUMP, "--no-defaults", f"--socket={server.socket}", "-uroot", "--routines", *arguments]
    with path.open("wb") as out, subprocess.Popen(dump, stdout=subprocess.PIPE) as dumping:
        subprocess.run(compress, stdin=dumping.stdout, stdout=out, check=True, timeout=120)
    assert dumping.returncode == 0
    return path


def mydumper(server: ScratchServer, path: Path, *arguments: str) -> Path:
    subprocess.run(
        [
            "mydumper",
            f"--defaults-file={server.option_file}",
            f"--outputdir={path}",
            "--triggers",
            "--routines",
            *arguments,
        ],
        check=True,
        timeout=120,
        capture_output=True,
    )
    return path


def loaded(server: ScratchServer, path: Path, schema: str = SCHEMA) -> LeftOut:
    loading = Loading(
        account=Account(user="root", socket=str(server.socket)),
        dataset=DatasetSpec.model_validate({"kind": "dump", "path": str(path), "schema": schema}),
        deadline_s=time.monotonic() + 120,
        cancelled=threading.Event(),
        progress=lambda _text, _share: None,
    )
    load(loading)
    return loading.left_out


def sums(server: ScratchServer, schema: str = SCHEMA) -> list[tuple[object, ...]]:
    return [server.query(f"CHECKSUM TABLE `{schema}`.`{table}`")[0][1:] for table in TABLES]


def extras(server: ScratchServer) -> tuple[object, ...]:
    counted = (
        ("views", "table_schema"),
        ("routines", "routine_schema"),
        ("triggers", "trigger_schema"),
    )
    return tuple(
        server.query(f"SELECT COUNT(*) FROM information_schema.{kind} WHERE {column} = '{SCHEMA}'")[0][0]
        for kind, column in counted
    )


def needs(*names: str) -> None:
    if missing := [name for name in names if shutil.which(name) is None]:
        pytest.skip(f"needs {', '.join(missing)}")


@pytest.mark.parametrize(
    ("suffix", "compress"),
    [
        (".sql", ["cat"]),
        (".sql.gz", ["gzip"]),
        (".sql.zst", ["zstd", "-q"]),
        (".sql.bz2", ["bzip2"]),
        (".sql.xz", ["xz", "-0"]),
    ],
)
@pytest.mark.parametrize(
    "arguments", [[SCHEMA], ["--databases", SCHEMA]], ids=["one schema", "with its CREATE DATABASE"]
)
def test_a_dump_of_mysqldump(
    source: ScratchServer,
    target: ScratchServer,
    tmp_path: Path,
    suffix: str,
    compress: list[str],
    arguments: list[str],
) -> None:
    """As the program writes it, through the compressor as a user pipes it."""
    needs(compress[0])
    loaded(target, piped(source, arguments, compress, tmp_path / f"shop{suffix}"))
    assert sums(target) == sums(source)
    assert extras(target) == extras(source) == (1, 1, 1)


@pytest.mark.parametrize("arguments", [(), ("--compress", "--rows=300")], ids=["plain", "gzip in chunks"])
def test_a_dump_of_mydumper(
    source: ScratchServer, target: ScratchServer, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    needs("mydumper")
    path = mydumper(source, tmp_path / "shop", "--database", SCHEMA, *arguments)
    assert any(file.suffix == (".gz" if arguments else ".sql") for file in path.iterdir())
    loaded(target, path)
    assert sums(target) == sums(source)
    assert extras(target) == (1, 1, 1)


def test_the_file_of_all_triggers_that_a_current_mydumper_writes_is_loaded(
    source: ScratchServer, target: ScratchServer, tmp_path: Path
) -> None:
    """mydumper 1.0.1 writes one file for a schema, which myloader 0.10 passes over without a word."""
    needs("mydumper")
    path = mydumper(source, tmp_path / "shop", "--database", SCHEMA)
    (each,) = path.glob("*-schema-triggers.sql")
    each.rename(path / f"{SCHEMA}-schema-triggers.sql")
    loaded(target, path)
    assert extras(target) == (1, 1, 1)


def test_of_a_dump_with_several_schemas_only_the_datasets_is_loaded(
    source: ScratchServer, target: ScratchServer, tmp_path: Path
) -> None:
    """myloader alone would put the tables of all schemas into it."""
    needs("mydumper")
    source.query("CREATE DATABASE IF NOT EXISTS other")
    source.query("CREATE TABLE IF NOT EXISTS other.stranger (id INT PRIMARY KEY)")
    try:
        path = mydumper(source, tmp_path / "all", "--regex", "^(shop|other)\\.")
    finally:
        source.query("DROP DATABASE other")
    loaded(target, path)
    assert sums(target) == sums(source)
    assert not target.query("SELECT 1 FROM information_schema.tables WHERE table_name = 'stranger'")
    with pytest.raises(UsageError, match="the dump has no schema third") as refused:
        loaded(target, path, "third")
    assert "other, shop" in refused.value.evidence


def tar_of(mode: str) -> Callable[[Path, bytes], None]:
    def write(path: Path, dump: bytes) -> None:
        with tarfile.open(path, mode) as archive:  # type: ignore[call-overload] # of these tests' parameters
            for name, content in (("backup/README.txt", b"of today"), ("backup/shop.sql", dump)):
                member = tarfile.TarInfo(name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))

    return write


def write_zip(path: Path, dump: bytes) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("__MACOSX/._shop.sql", b"\0\5\x16\7")
        archive.writestr("backup/shop.sql", dump)


MARKS = (b"/*!999999\\- enable the sandbox mode */ \n", b"/*M!999999\\- enable the sandbox mode */ \n")
WARNED = b"mysqldump: [Warning] Using a password on the command line interface can be insecure.\n"
FORMS: dict[str, tuple[str, Callable[[Path, bytes], object]]] = {
    "zip": ("shop.sql.zip", write_zip),
    "tar": ("shop.tar", tar_of("w")),
    "tar.gz": ("shop.tar.gz", tar_of("w:gz")),
    "tar.xz": ("shop.tar.xz", tar_of("w:xz")),
    "gzip without its suffix": ("shop.sql", lambda path, dump: path.write_bytes(gzip.compress(dump))),
    "SQL with the suffix of gzip": ("shop.sql.gz", lambda path, dump: path.write_bytes(dump)),
    "a byte order mark": ("shop.sql", lambda path, dump: path.write_bytes(b"\xef\xbb\xbf" + dump)),
    "CRLF": ("shop.sql", lambda path, dump: path.write_bytes(dump.replace(b"\n", b"\r\n"))),
    "UTF-16": (
        "shop.sql",
        lambda path, dump: path.write_bytes(
            b"\xff\xfe" + dump.replace(b"\n", b"\r\n").decode().encode("utf-16-le")
        ),
    ),
    "UTF-16 in a zip": ("shop.zip", lambda path, dump: write_zip(path, dump.decode().encode("utf-16"))),
    "MariaDB's first mark": ("shop.sql", lambda path, dump: path.write_bytes(MARKS[0] + dump)),
    "MariaDB's second mark and a warning": (
        "shop.sql",
        lambda path, dump: path.write_bytes(WARNED + MARKS[1] + dump),
    ),
    "a warning, a mark and CRLF": (
        "shop.sql",
        lambda path, dump: path.write_bytes((WARNED + MARKS[0] + dump).replace(b"\n", b"\r\n")),
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_dump_in_the_form_that_it_came_in(
    source: ScratchServer, target: ScratchServer, tmp_path: Path, form: str
) -> None:
    """Its triggers need `DELIMITER ;;`, whose line may end in CRLF."""
    tables = [table for table in TABLES if table != "picture"]  # bytes that are no text, which UTF-16 cannot have
    dump = piped(source, [SCHEMA, f"--ignore-table={SCHEMA}.picture"], ["cat"], tmp_path / "plain.sql").read_bytes()
    mark = MARKS[1]
    name, write = FORMS[form]
    path = tmp_path / "given" / name
    path.parent.mkdir()
    write(path, dump.removeprefix(mark))
    check_sql_file(path)
    left_out = loaded(target, path)
    assert [target.query(f"CHECKSUM TABLE {SCHEMA}.{table}")[0][1] for table in tables] == [
        source.query(f"CHECKSUM TABLE {SCHEMA}.{table}")[0][1] for table in tables
    ]
    assert extras(target) == (1, 1, 1)
    assert ("UTF-16" in " ".join(left_out.notes())) == ("UTF-16" in form)


def test_a_dump_of_mydumper_that_is_packed_with_zstd(
    source: ScratchServer, target: ScratchServer, tmp_path: Path
) -> None:
    """Debian's mydumper writes none, and its myloader reads none; a current one does."""
    needs("mydumper", "zstd")
    path = mydumper(source, tmp_path / "shop", "--database", SCHEMA)
    subprocess.run(["zstd", "-q", "--rm", *path.glob("*.sql")], check=True, timeout=60)
    loaded(target, path)
    assert sums(target) == sums(source)
    assert extras(target) == (1, 1, 1)


def test_a_dump_that_mydumper_did_not_finish(target: ScratchServer, tmp_path: Path) -> None:
    (tmp_path / "metadata.partial").touch()
    with pytest.raises(UsageError, match="mydumper did not finish"):
        loaded(target, tmp_path)


def test_a_dump_of_all_schemas_with_accounts_events_and_positions(
    source: ScratchServer, target: ScratchServer, tmp_path: Path
) -> None:
    """Of which the dataset's schema is loaded, and the server's own accounts and settings stay as they are."""
    before = target.query("SELECT user, host FROM mysql.user ORDER BY 1, 2")
    arguments = ["--all-databases", "--events", "--triggers", "--flush-privileges", "--add-drop-database"]
    path = piped(source, arguments, ["cat"], tmp_path / "all.sql")
    text = path.read_text(errors="surrogateescape")
    path.write_text(
        "SET @@SESSION.SQL_LOG_BIN= 0;\nSET @@GLOBAL.GTID_PURGED=/*!80000 '+'*/ 'a:1-5';\n"
        f"CHANGE MASTER TO MASTER_LOG_FILE='b.000001', MASTER_LOG_POS=4;\n{text}",
        errors="surrogateescape",
    )
    left_out = loaded(target, path)
    assert sums(target) == sums(source)
    assert extras(target) == (1, 1, 1)
    assert left_out.kinds["the schema mysql"] > 10
    assert left_out.kinds["the server's GTIDs"] == left_out.kinds["its place in replication"] == 1
    assert left_out.definers == 3
    after = target.query("SELECT user, host FROM mysql.user WHERE user <> 'volbench_loader' ORDER BY 1, 2")
    assert after == [row for row in before if row[0] != "volbench_loader"]


def test_triggers_views_and_routines_run_with_rights_on_the_schema_only(
    source: ScratchServer, target: ScratchServer, tmp_path: Path
) -> None:
    """Root's statements fire triggers: each has the loading account as its definer, which can log in no more."""
    path = piped(source, [SCHEMA, "--events"], ["cat"], tmp_path / "shop.sql")
    loaded(target, path)
    for kind, column in (("views", "table_schema"), ("routines", "routine_schema"), ("triggers", "trigger_schema")):
        definers = target.query(f"SELECT definer FROM information_schema.{kind} WHERE {column} = '{SCHEMA}'")
        assert definers == [("volbench_loader@localhost",)], kind
    target.query(f"DELETE FROM {SCHEMA}.payment")
    target.query(f"INSERT INTO {SCHEMA}.payment VALUES (1, 1, 1.5, '2026-01-01')")
    grants = [str(row[0]) for row in target.query("SHOW GRANTS FOR volbench_loader@localhost")]
    assert [grant.split(" TO ")[0] for grant in grants if "USAGE" not in grant] == [
        f"GRANT ALL PRIVILEGES ON `{SCHEMA}`.*"
    ]
    assert "ACCOUNT LOCK" in str(target.query("SHOW CREATE USER volbench_loader@localhost"))


def test_a_dump_of_two_files_of_mariadb_in_one(
    source: ScratchServer, target: ScratchServer, tmp_path: Path
) -> None:
    """Each begins with MariaDB's mark for its own client."""
    path = piped(source, [SCHEMA, "customer", "film"], ["cat"], tmp_path / "shop.sql")
    mark = b"/*M!999999\\- enable the sandbox mode */ \n"
    first = path.read_bytes().removeprefix(mark)
    second = piped(source, [SCHEMA, "payment", "picture", "rental"], ["cat"], tmp_path / "b.sql").read_bytes()
    path.write_bytes(mark + first + mark + second.removeprefix(mark))
    loaded(target, path)
    assert sums(target) == sums(source)


def test_a_dump_of_mysql_shell(target: ScratchServer, tmp_path: Path) -> None:
    """Chunks in order, bytes as base64, NULL, tabs, a name with a blank, and a mode that MySQL 8 lacks."""
    needs("zstd")
    rows = [
        (1, bytes(range(256)), "a\tb\\N"),
        (2, None, "Grüße \U0001f600\n"),
        (3, b"", None),
        (4, b"\\\t", "'"),
        (5, b"x", ""),
    ]
    definition = (
        "CREATE TABLE IF NOT EXISTS `the films` (id INT PRIMARY KEY, b BLOB, t VARCHAR(40)) CHARSET utf8mb4;\n"
    )
    tables = {
        "the films": (definition, ("id", "b", "t"), rows),
        "none": ("CREATE TABLE `none` (id INT);", ("id",), []),
    }
    write_shell_dump(tmp_path / "d", SCHEMA, tables)
    loaded(target, tmp_path / "d")
    read: list[Any] = target.query(f"SELECT id, b, t FROM {SCHEMA}.`the films` ORDER BY id")
    assert [(id_, None if b is None else bytes(b), t) for id_, b, t in read] == rows
    assert target.query(f"SELECT COUNT(*) FROM {SCHEMA}.`none`") == [(0,)]
    assert target.query(f"SELECT {SCHEMA}.vat(4)") == [(8,)]
    assert target.query("SELECT @@GLOBAL.local_infile") == [(0,)]


@pytest.mark.parametrize(
    ("harm", "fault"),
    [
        (lambda d: (d / "@.done.json").unlink(), "did not finish"),
        (lambda d: (d / "shop@t@0.tsv.zst").unlink(), "a file of the dump is missing"),
        (lambda d: (d / "shop@t@@1.tsv.zst").write_bytes(b"no zstd"), "zstd ended with exit code 1"),
        (lambda d: (d / "shop@t.json").write_text("{}"), "description in the dump cannot be read"),
        (lambda d: (d / "@.json").write_text("["), "cannot be read"),
        (lambda d: (d / "shop@t.sql").write_text("CREATE TABLE t (id TINYINT);"), "lost or changed rows"),
    ],
)
def test_a_damaged_dump_of_mysql_shell_is_refused(
    target: ScratchServer, tmp_path: Path, harm: Callable[[Path], object], fault: str
) -> None:
    needs("zstd")
    rows = [(number * 100,) for number in range(4)]
    write_shell_dump(tmp_path / "d", SCHEMA, {"t": ("CREATE TABLE t (id INT PRIMARY KEY);", ("id",), rows)})
    harm(tmp_path / "d")
    with pytest.raises((UsageError, StepFailed), match=fault):
        loaded(target, tmp_path / "d")


def test_what_is_damaged_is_named_and_not_the_program_behind_it(
    source: ScratchServer, target: ScratchServer, tmp_path: Path
) -> None:
    """A cut-off archive is gzip's message; an error of SQL is the client's, although gzip dies of it."""
    needs("gzip")
    path = piped(source, [SCHEMA], ["gzip"], tmp_path / "shop.sql.gz")
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(StepFailed, match="gzip ended with exit code 1") as cut:
        loaded(target, path)
    assert "unexpected end of file" in cut.value.evidence
    wrong = subprocess.run(
        ["gzip", "-1"],
        input=b"SELECT nothing;\n" + b"SELECT 1; -- of many\n" * 400_000,
        capture_output=True,
        check=True,
    ).stdout
    path.write_bytes(wrong)
    with pytest.raises(StepFailed, match=r"(mysql|mariadb) ended with exit code 1") as failed:
        loaded(target, path)
    assert "Unknown column" in failed.value.evidence
