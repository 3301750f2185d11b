"""One code path for MySQL 8.0 .. 9.x and MariaDB 10.11+: what is told apart, and how options are fitted."""

from __future__ import annotations

import pytest

from volbench.errors import UsageError
from volbench.machine.engine.differences import ServerIdentity, fit_options, identify

MYSQL_80_OLD = ServerIdentity(flavor="mysql", version="8.0.28")
MYSQL_80 = ServerIdentity(flavor="mysql", version="8.0.40")
MYSQL_84 = ServerIdentity(flavor="mysql", version="8.4.3")
MARIADB = ServerIdentity(flavor="mariadb", version="10.11.6-MariaDB")

VERSION_LINES = [
    ("/usr/sbin/mysqld  Ver 8.0.40 for Linux on x86_64 (MySQL Community Server - GPL)", "mysql", "8.0.40"),
    ("/usr/sbin/mysqld  Ver 8.4.3 for Linux on aarch64 (MySQL Community Server - GPL)", "mysql", "8.4.3"),
    ("/usr/sbin/mysqld  Ver 9.7.4-2 for Linux on x86_64 ((Debian))", "mysql", "9.7.4-2"),
    (
        "mariadbd  Ver 10.11.19-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)",
        "mariadb",
        "10.11.19-MariaDB-0+deb12u1",
    ),
    (
        "mariadbd  Ver 11.4.4-MariaDB-ubu2404 for debian-linux-gnu on x86_64 (mariadb.org binary distribution)",
        "mariadb",
        "11.4.4-MariaDB-ubu2404",
    ),
]


@pytest.mark.parametrize(("line", "flavor", "version"), VERSION_LINES)
def test_flavor_and_version_are_read_from_the_binarys_answer(line: str, flavor: str, version: str) -> None:
    result = identify(line, "mysqld")
    assert result is not None
    assert (result.flavor, result.version) == (flavor, version)


def test_an_answer_without_version_is_nobody() -> None:
    assert identify("sh: 1: mysqld: not found", "mysqld") is None


def test_numbers_of_a_distributions_version_are_its_first_three() -> None:
    assert ServerIdentity(flavor="mysql", version="9.7.4-2").number == (9, 7, 4)


def test_options_of_the_server_pass_unchanged_and_without_notes() -> None:
    fitted = fit_options({"innodb_redo_log_capacity": "1G", "sync_binlog": 0}, MYSQL_84)
    assert fitted.options == {"innodb_redo_log_capacity": "1G", "sync_binlog": 0}
    assert not fitted.notes


@pytest.mark.parametrize(("server", "file_bytes"), [(MARIADB, 1 << 30), (MYSQL_80_OLD, 1 << 29)])
def test_redo_capacity_becomes_the_log_file_size_of_servers_that_have_that(
    server: ServerIdentity, file_bytes: int
) -> None:
    """MariaDB has one redo file, MySQL before 8.0.30 two."""
    fitted = fit_options({"innodb_redo_log_capacity": "1GiB"}, server)
    assert fitted.options == {"innodb_log_file_size": file_bytes}
    assert "innodb_log_file_size" in fitted.notes["innodb_redo_log_capacity"]
    assert fit_options({"innodb_redo_log_capacity": "1g"}, server).options == fitted.options
    with pytest.raises(UsageError, match="'much' is not a size"):
        fit_options({"innodb_redo_log_capacity": "much"}, server)


def test_an_option_given_for_this_server_wins_over_a_replaced_one() -> None:
    both = {"innodb_log_file_size": "96M", "innodb_redo_log_capacity": "1G"}
    assert fit_options(both, MARIADB).options == {"innodb_log_file_size": "96M"}
    assert fit_options(dict(reversed(both.items())), MARIADB).options == {"innodb_log_file_size": "96M"}


@pytest.mark.parametrize(
    ("option", "has", "lacks"),
    [
        ("innodb_use_fdatasync", MYSQL_84, MARIADB),
        ("innodb_redo_log_capacity", MYSQL_80, MYSQL_80_OLD),
        ("default_authentication_plugin", MYSQL_80, MYSQL_84),
        ("aria_pagecache_buffer_size", MARIADB, MYSQL_84),
    ],
)
def test_what_a_server_lacks_is_left_out_with_a_note(
    option: str, has: ServerIdentity, lacks: ServerIdentity
) -> None:
    assert option in fit_options({option: 1}, has).options
    fitted = fit_options({option: 1}, lacks)
    assert option not in fitted.options
    assert f"{lacks.flavor} {lacks.version} has no {option}" in fitted.notes[option]
