"""Rows of the fuzzer's table: own data, suites with own files and prices, captures, observations, pods, servers.

The names in a directory of mydumper are those of the real 0.10.0; volbench reads no more of it, its `metadata` is
myloader's. The JSON of MySQL Shell, which is in no distribution, is our own writer's, in the layout of its 8.0.21.
"""

from __future__ import annotations

import atexit
import gzip
import hashlib
import io
import json
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

import mutations
import synthetic_observation
from pydantic import ValidationError
from shell_dump_writer import write_shell_dump

from fuzzed.reader import ROOT, JsonReader, Reader, of_text, texts
from volbench.core.plan.volume_check import forecast_faults
from volbench.core.records.dataset import DatasetSpec
from volbench.core.records.pack import PACK_FILE
from volbench.core.records.validation.plan import GrowthPlan
from volbench.core.suite.load import load_suite
from volbench.core.suite.own_files import missing_files, with_absolute_paths
from volbench.errors import UsageError
from volbench.machine.engine.differences import ServerIdentity
from volbench.machine.engine.own_data.dump_filter import DumpFilter, LeftOut
from volbench.machine.engine.own_data.form import check_sql_file, is_zip, sql_of, zip_of_sql
from volbench.machine.engine.own_data.loading import source_of
from volbench.machine.engine.own_data.mydumper import dump_files, end_statements_at_lines, source_schema
from volbench.machine.engine.own_data.physical_copy import check_physical_copy
from volbench.machine.engine.own_data.shell_dump import read_shell_dump
from volbench.machine.placement.kubernetes.collect import unpack
from volbench.measure.execute.node_helper import Node
from volbench.observe.report import report_of
from volbench.results.pack.check import check_pack
from volbench.results.pack.make import make_pack
from volbench.results.site.build import INDEX_FILE, build_site
from volbench.results.store.run_directory import RunDirectory
from volbench.validation.catalog.accounts import login_plugins
from volbench.validation.forecast.growth import forecast_growth
from volbench.validation.source.upgrade import parse_report, upgrade_row

SCHEMA = "shop"


def _directory(prefix: str) -> Path:
    """A directory that is gone with this process."""
    path = Path(tempfile.mkdtemp(prefix=prefix))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


# Own data


@cache
def _shell_dump() -> Path:
    """A dump of two tables, one in chunks, made once for each process."""
    directory = _directory("volbench-fuzz-dump-") / "dump"
    tables = {
        "film": ("CREATE TABLE film (id INT, b BLOB);", ("id", "b"), [(n, bytes([n])) for n in range(5)]),
        "the rest": ("CREATE TABLE `the rest` (id INT);", ("id",), []),
    }
    write_shell_dump(directory, SCHEMA, tables)
    return directory


def _dump_with(name: str) -> Callable[[Path], object]:
    def read(path: Path) -> None:
        parent = path.parent / "dump"
        shutil.copytree(_shell_dump(), parent)
        path.replace(parent / name)
        read_shell_dump(parent, SCHEMA)

    return read


def _of_dump(name: str) -> Callable[[], Sequence[bytes]]:
    return lambda: ((_shell_dump() / name).read_bytes(),)


MYDUMPER = (
    "metadata\nshop-schema-create.sql\nshop.customer-schema.sql\nshop.customer.sql\n"
    "shop.payment-schema-triggers.sql\nshop.payment-schema.sql\nshop.payment.sql\nshop.recent-schema-view.sql\nshop.recent-schema.sql\n",
    "metadata\nshop-schema-create.sql.gz\nshop.film-schema.sql.gz\nshop.film.00000.sql.gz\nshop.film.00001.sql.gz\n",
    "metadata\nshop-schema-create.sql.zst\nshop-schema-triggers.sql.zst\nshop.film-schema.sql.zst\n"
    "shop.film.00000.sql.zst\n",
)


PHYSICAL = """backup_type = log-applied
from_lsn = 0
to_lsn = 44878
recover_binlog_info = 0
tool_name = mariadb-backup
tool_version = 10.11.19-MariaDB
server_version = 10.11.19-MariaDB-0+deb12u1
innodb_to_lsn = 44878
compressed = N
"""
"""Lines of both files of the real mariadb-backup 10.11.19."""


def _physical(path: Path) -> None:
    for name in ("xtrabackup_checkpoints", "xtrabackup_info"):
        shutil.copy(path, path.with_name(name))
    check_physical_copy(path.parent, ServerIdentity(flavor="mariadb", version="10.11.6", binary=""))


def _mydumper(text: str) -> None:
    names = text.split("\n")
    source_schema(names, SCHEMA)
    dump_files(frozenset(names), SCHEMA)
    list(end_statements_at_lines([text.encode()]))


def _dump(path: Path) -> None:
    """In chunks of 7 bytes: what is passed on has the lines of the dump."""
    text = path.read_bytes()
    chunks = (text[start : start + 7] for start in range(0, len(text), 7))
    passed = b"".join(DumpFilter(SCHEMA, LeftOut()).filtered(chunks))
    assert passed.count(b"\n") == text.count(b"\n")


def _sql_file(path: Path) -> None:
    """As a plan looks at it, then as a load reads it."""
    with suppress(UsageError):
        check_sql_file(path)
    content = path.read_bytes()
    chunks = (content[start : start + 700] for start in range(0, len(content), 700))
    with path.open("rb") as file:
        argument = zip_of_sql(file, path.name) if is_zip(content) else chunks
        for _ in sql_of(argument, path.name, lambda _encoding: None):
            pass


def _sql_files() -> Sequence[bytes]:
    sql = _dump_seeds()[0]
    zipped, tarred = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("shop.sql"), sql, zipfile.ZIP_DEFLATED)  # of 1980, whenever it is made
    with tarfile.open(fileobj=tarred, mode="w", format=tarfile.PAX_FORMAT) as tar:
        entry = tarfile.TarInfo("Gr\u00f6\u00dfe/shop.sql")
        entry.size = len(sql)
        tar.addfile(entry, io.BytesIO(sql))
    return (
        zipped.getvalue(),
        tarred.getvalue(),
        gzip.compress(tarred.getvalue(), mtime=0),
        sql.decode().encode("utf-16"),
    )


def _dump_seeds() -> Sequence[bytes]:
    sql = (
        b"/*M!999999\\- enable the sandbox mode */ \n-- MariaDB dump\nSET SQL_LOG_BIN=0;\nUSE `other`;\nSELECT 1;\n"
        b"USE `shop`;\nCREATE TABLE t (id INT);\nDELIMITER ;;\n"
        b"/*!50003 CREATE*/ /*!50017 DEFINER=`a`@`b`*/ /*!50003 TRIGGER x BEFORE INSERT ON t FOR EACH ROW "
        b"SET @a = ';\\''*/;;\n"
    )
    return (sql, sql.replace(b"\n", b"\r\n"))


def _dataset_dsn(text: str) -> None:
    server = text.replace("\x00", "").strip("\n") or "-"
    with suppress(ValidationError):  # of which the reader of the suite makes its error
        source_of(DatasetSpec.model_validate({"kind": "schema", "server": server}))


SUITES = (
    """schema: 2
name: own
dataset: {kind: dump, path: /var/dumps/shop.sql.zst, schema: shop, size: 50GiB, threads: 4}
steps:
  - {kind: alter, table: film, change: add_index, column: title, method: pt-osc, timeout: 1h, start_after: 10s}
  - {kind: replay, log: /var/log/slow.log, late_max: 5%}
  - {kind: oltp, name: load, test: /opt/own.lua, threads: 8, duration: 30s}
pricing: {step: load, volumes: {fast: "ebs-io2?iops=6000", slow: "ebs-gp2?size=50GiB"}}
""",
    """schema: 2
name: copy
dataset:
  {kind: schema, server: "mysql://reader@db1:3306/shop?ssl-mode=REQUIRED", option_file: /etc/x.cnf, size: 5GiB}
steps:
  - {kind: oltp, name: rw, test: /opt/own.lua, threads: 4, concurrent: [{kind: alter, table: t, method: inplace}]}
pricing: {step: rw}
""",
)


def _suite(path: Path) -> None:
    suite = with_absolute_paths(load_suite(path)[0], path.parent)
    for _ in (*forecast_faults(suite), *missing_files(suite)):
        pass


# What volbench wrote on another day, or on another machine

CAPTURES = [
    json.dumps(
        {
            "schema": 1,
            "kind": "capture",
            "flavor": "mysql",
            "version": "8.4.0",
            "started_at": f"2026-01-{day:02d}T00:00:00Z",
            "seconds": 60.0,
            "statements_per_s": 5.0,
            "threads_running_max": 3,
            "unclassified": 0,
            "masked": True,
            "files": {"shop/orders": 10**9 * day, "shop/customers": 10**8},
            "binlog_bytes": 10**8,
            "classes": [],
        }
    )
    for day in (1, 2, 3)
]


def _growth(path: Path) -> None:
    with_names = [path.with_name(f"other-{number}") for number in range(2)]
    for alternative, text in zip(with_names, CAPTURES[1:], strict=True):
        alternative.write_text(text)
    captures = tuple(str(file) for file in (path, *with_names))
    forecast_growth(GrowthPlan(volume="ebs-gp3?size=100GiB", captures=captures))


@cache
def _observation() -> Path:
    directory = _directory("volbench-fuzz-observation-") / "o"
    synthetic_observation.build(directory, 40, lambda second: (50.0, 1.0 if second < 20 else 9.0, 1.0))
    synthetic_observation.add_incident(directory, 20.0, 30.0)
    return directory


def _observation_with(name: str) -> Callable[[Path], object]:
    def read(path: Path) -> None:
        parent = path.parent / "o"
        shutil.copytree(_observation(), parent)
        path.replace(min(parent.glob(name)))
        report_of(parent)

    return read


def _of_observation(name: str) -> Callable[[], Sequence[bytes]]:
    return lambda: (min(_observation().glob(name)).read_bytes(),)


@cache
def _site() -> Path:
    location = _directory("volbench-fuzz-site-")
    shutil.copytree(ROOT / "tests" / "golden" / "run", location / "results" / "20260131T120000Z-quick-1a2b3c")
    build_site(location / "results", location / "site")
    return location


def _site_index(path: Path) -> None:
    site = path.parent / "site"
    shutil.copytree(_site() / "site", site)
    path.replace(site / INDEX_FILE)
    build_site(_site() / "results", site)


@cache
def _pack() -> bytes:
    location = _directory("volbench-fuzz-pack-")
    return make_pack(RunDirectory.open(ROOT / "tests" / "golden" / "run"), location / "a.zip").path.read_bytes()


def _pack_record(path: Path) -> None:
    with (
        zipfile.ZipFile(io.BytesIO(_pack())) as file,
        zipfile.ZipFile(path.with_name("changed.zip"), "w") as changed,
    ):
        for name in file.namelist():
            changed.writestr(name, path.read_bytes() if name == PACK_FILE else file.read(name))
    check_pack(path.with_name("changed.zip"))


def _pack_records() -> Sequence[bytes]:
    with zipfile.ZipFile(io.BytesIO(_pack())) as archive:
        return (archive.read(PACK_FILE),)


# Pods, servers, other programs


def _pod_archive(path: Path) -> None:
    parent = path.parent / "out"
    parent.mkdir()
    with path.open("rb") as archive:
        unpack(archive, parent)


def _pod_archives() -> Sequence[bytes]:
    contents = {"result.json": b"{}", "logs/agent.log": b"begun\nended\n"}
    sums = "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in contents.items()).encode()
    seeds = []
    for format_number in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w", format=format_number) as tar:
            for name, data in (*contents.items(), ("collect.sums", sums)):
                entry = tarfile.TarInfo(name)
                entry.size = len(data)
                tar.addfile(entry, io.BytesIO(data))
        seeds.append(stream.getvalue())
    return tuple(seeds)


def _node_request(path: Path) -> None:
    blocks = path.parent / "sys"
    (blocks / "nvme1n1" / "device").mkdir(parents=True)
    (blocks / "nvme1n1" / "device" / "model").write_text("Another disk\n")
    node = Node(devices=path.parent, blocks=blocks, drop_caches=path.parent / "drop", drop_every_s=0.0)
    json.dumps(node.answer(path.read_bytes()))


MYSQLSH = json.dumps(
    {
        "serverAddress": "db-old:3307",
        "serverVersion": "8.0.45",
        "targetVersion": "9.7.0",
        "errorCount": 1,
        "checksPerformed": [
            {"id": "old", "title": "Old types", "status": "OK", "detectedProblems": []},
            {
                "id": "words",
                "title": "Reserved words",
                "status": "ERROR",
                "description": "Names.",
                "detectedProblems": [{"level": "Error", "dbObject": "shop.manual", "description": "Column name"}],
            },
        ],
        "manualChecks": [{"id": "plugin", "title": "New default authentication plugin"}],
    }
)


def _upgrade(text: str) -> None:
    report = parse_report(text)
    if report is not None:
        upgrade_row(report)


READERS: tuple[Reader, ...] = (
    *(
        JsonReader(name=f"shell-dump {name}", read=_dump_with(name), seeds=_of_dump(name), share=6)
        for name in ("@.json", "shop.json", "shop@film.json")
    ),
    Reader(name="mydumper-names", read=of_text(_mydumper), seeds=texts(*MYDUMPER), share=10),
    Reader(name="physical-copy", read=_physical, seeds=texts(PHYSICAL), share=5),
    Reader(name="dump", read=_dump, seeds=_dump_seeds, share=0.6),
    Reader(name="form-of-a-dump", read=_sql_file, seeds=_sql_files, share=2),
    Reader(
        name="dataset-dsn",
        read=of_text(_dataset_dsn),
        share=20,
        seeds=texts("mysql://reader@db1:3306/shop?ssl-mode=REQUIRED", "mysql://localhost/shop?socket=/run/s"),
    ),
    Reader(name="suite-of-own-data", read=_suite, seeds=texts(*SUITES), share=2, file="suite.yaml"),
    JsonReader(name="growth", read=_growth, seeds=texts(*CAPTURES[:1]), share=8),
    *(
        Reader(
            name=f"observation {name}",
            read=_observation_with(pattern),
            seeds=_of_observation(pattern),
            share=share,
            mutate=mutate,
        )
        for name, pattern, share, mutate in (
            ("record", "observation.json", 0.3, mutations.mutated_json),
            ("incident", "incidents/*/incident.json", 0.3, mutations.mutated_json),
            ("ring", "ring/*", 0.3, mutations.mutated_lines),
        )
    ),
    JsonReader(
        name="site-index",
        read=_site_index,
        seeds=lambda: ((_site() / "site" / INDEX_FILE).read_bytes(),),
        share=0.5,
    ),
    Reader(name="pack", read=check_pack, seeds=lambda: (_pack(),), share=0.5, cpu_s=4),
    JsonReader(name="pack-record", read=_pack_record, seeds=_pack_records, share=0.5, cpu_s=4),
    Reader(name="pod-archive", read=_pod_archive, seeds=_pod_archives, share=10),
    JsonReader(
        name="node-request",
        read=_node_request,
        share=8,
        seeds=texts('{"do": "log_page", "device": "nvme1n1"}', '{"do": "drop_caches"}'),
    ),
    JsonReader(name="mysqlsh-upgrade", read=of_text(_upgrade), seeds=texts(MYSQLSH), share=10),
    JsonReader(
        name="login-plugins",
        read=of_text(lambda text: login_plugins("caching_sha2_password", text)),
        share=10,
        seeds=texts('["mysql_native_password", "ed25519"]', "[]"),
    ),
)
