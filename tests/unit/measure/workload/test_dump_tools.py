"""Command lines of dump tools, and the proof of equality."""

from __future__ import annotations

from pathlib import Path

from volbench.core.records.facts import ServerFacts
from volbench.measure.workload.backup.dump_tools import InstalledTool, mysql_argv, mysqldump_argv
from volbench.measure.workload.schema_data import TableSum, differences

MARIADB_DUMP = InstalledTool(
    path="/usr/bin/mysqldump",
    version="mysqldump  Ver 10.19 Distrib 10.11.19-MariaDB, for debian-linux-gnu (x86_64)",
)
MYSQL_DUMP = InstalledTool(
    path="/usr/bin/mysqldump", version="mysqldump  Ver 9.7.4-2 for Linux on x86_64 ((Debian))"
)
MYSQL = ServerFacts(flavor="mysql", version="9.7.4")
MARIADB = ServerFacts(flavor="mariadb", version="10.11.14-MariaDB")
OPTIONS = Path("/x/client.cnf")


def test_the_option_file_comes_first() -> None:
    """The tools read it only as their first option; no credential is on the command line."""
    for tool in (MARIADB_DUMP, MYSQL_DUMP):
        argv = mysqldump_argv(tool, OPTIONS, "sbtest", MYSQL)
        assert argv[:2] == [tool.path, "--defaults-file=/x/client.cnf"]
        assert argv[-1] == "sbtest"
        assert {"--single-transaction", "--quick"} <= set(argv)
        assert not any("password" in argument for argument in argv)
    assert mysql_argv(MYSQL_DUMP, OPTIONS, "s")[1] == "--defaults-file=/x/client.cnf"


def test_each_builds_own_options() -> None:
    """MariaDB's client knows no --set-gtid-purged; MySQL's asks a MariaDB for statistics that it does not have."""
    assert "--set-gtid-purged=OFF" not in mysqldump_argv(MARIADB_DUMP, OPTIONS, "s", MYSQL)
    assert "--set-gtid-purged=OFF" in mysqldump_argv(MYSQL_DUMP, OPTIONS, "s", MYSQL)
    assert "--column-statistics=0" in mysqldump_argv(MYSQL_DUMP, OPTIONS, "s", MARIADB)
    assert "--column-statistics=0" not in mysqldump_argv(MYSQL_DUMP, OPTIONS, "s", MYSQL)


def test_differences_are_told_by_table() -> None:
    """Missing tables, other counts, other contents; equal schemas have none."""
    item, two = TableSum(rows=1, checksum=7), TableSum(rows=1, checksum=8)
    assert differences({"a": item}, {"a": item}) == []
    assert differences({"a": item}, {"a": two}) == ["a has checksum 7, restored 8"]
    assert differences({"a": item}, {}) == ["a is only in the source schema"]
    assert differences({}, {"a": item}) == ["a is only in the restored schema"]
    assert differences({"a": item}, {"a": TableSum(rows=2, checksum=7)}) == ["a has 1 rows, restored 2"]
