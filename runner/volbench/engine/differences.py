"""What MySQL 8.0, 8.4, 9.x and MariaDB 10.11+ do not have in common, as data."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from volbench.records.base import Scalar, parse_size_bytes

Flavor = Literal["mysql", "mariadb"]


@dataclass(frozen=True, kw_only=True)
class ServerIdentity:
    """Which server it is, as its binary says."""

    flavor: Flavor
    version: str
    binary: str = "mysqld"

    @property
    def number(self) -> tuple[int, ...]:
        """The version as numbers: (8, 4, 3)."""
        return tuple(int(part) for part in re.findall(r"\d+", self.version)[:3])


@dataclass(frozen=True, kw_only=True)
class Option:
    """Where an option exists: per flavor from a version on and, exclusive, until one; a missing flavor has none."""

    mysql: tuple[int, ...] | None = (0,)
    mariadb: tuple[int, ...] | None = (0,)
    mysql_until: tuple[int, ...] = (999,)
    mariadb_until: tuple[int, ...] = (999,)

    def exists(self, identity: ServerIdentity) -> bool:
        """Whether that server has it."""
        since = self.mysql if identity.flavor == "mysql" else self.mariadb
        until = self.mysql_until if identity.flavor == "mysql" else self.mariadb_until
        return since is not None and since <= identity.number < until


_MYSQL_ONLY = Option(mariadb=None)
_MARIADB_ONLY = Option(mysql=None)
OPTIONS: dict[str, Option] = {
    "aria_pagecache_buffer_size": _MARIADB_ONLY,
    "auto_generate_certs": _MYSQL_ONLY,
    "binlog_transaction_compression": Option(mysql=(8, 0, 20), mariadb=None),
    "caching_sha2_password_auto_generate_rsa_keys": _MYSQL_ONLY,
    "default_authentication_plugin": Option(mysql_until=(8, 4), mariadb=None),
    "innodb_buffer_pool_instances": Option(mariadb=None),
    "innodb_change_buffering": Option(mariadb_until=(11,)),
    "innodb_data_file_buffering": Option(mysql=None, mariadb=(11,)),
    "innodb_ddl_threads": Option(mysql=(8, 0, 27), mariadb=None),
    "innodb_dedicated_server": _MYSQL_ONLY,
    "innodb_doublewrite_batch_size": Option(mysql=(8, 0, 20), mariadb=None),
    "innodb_doublewrite_files": Option(mysql=(8, 0, 20), mariadb=None),
    "innodb_doublewrite_pages": Option(mysql=(8, 0, 20), mariadb=None),
    "innodb_extend_and_initialize": Option(mysql=(8, 0, 22), mariadb=None),
    "innodb_log_file_buffering": Option(mysql=None, mariadb=(10, 8)),
    "innodb_log_files_in_group": Option(mariadb=None),
    "innodb_log_writer_threads": Option(mysql=(8, 0, 22), mariadb=None),
    "innodb_page_cleaners": Option(mariadb=None),
    "innodb_parallel_read_threads": Option(mysql=(8, 0, 14), mariadb=None),
    "innodb_redo_log_capacity": Option(mysql=(8, 0, 30), mariadb=None),
    "innodb_use_fdatasync": Option(mysql=(8, 0, 26), mariadb=None),
    "temptable_max_mmap": Option(mysql=(8, 0, 23), mariadb=None),
    "temptable_max_ram": _MYSQL_ONLY,
}
"""Options that not every server has; all others are passed on, and a server that lacks one says so at its start."""


def _redo_as_log_file(value: Scalar, identity: ServerIdentity) -> tuple[str, Scalar]:
    """MySQL before 8.0.30 has two redo files of equal size, MariaDB since 10.5 one."""
    files = 2 if identity.flavor == "mysql" else 1
    return "innodb_log_file_size", parse_size_bytes(value) // files


_REPLACED: dict[str, Callable[[Scalar, ServerIdentity], tuple[str, Scalar]]] = {
    "innodb_redo_log_capacity": _redo_as_log_file,
}


@dataclass(frozen=True, kw_only=True)
class FittedOptions:
    """Options that a server has; `notes` say of each left out or replaced one, by its name, what became of it."""

    options: dict[str, Scalar]
    notes: dict[str, str] = field(default_factory=dict)


def fit_options(options: Mapping[str, Scalar], identity: ServerIdentity) -> FittedOptions:
    """Leave out, or replace, the options that this server does not have."""
    fitted: dict[str, Scalar] = {}
    notes: dict[str, str] = {}
    server = f"{identity.flavor} {identity.version}"
    for name, value in options.items():
        known = OPTIONS.get(name)
        if known is None or known.exists(identity):
            fitted[name] = value
        elif name in _REPLACED:
            other, other_value = _REPLACED[name](value, identity)
            fitted.setdefault(other, other_value)
            notes[name] = f"{server} has no {name}: set {other} = {other_value} instead"
        else:
            notes[name] = f"{server} has no {name}: left out"
    return FittedOptions(options=fitted, notes=notes)


def identify(version_output: str, binary: str) -> ServerIdentity | None:
    """Flavor and version from `mysqld --version`; None when that is not a server's answer.

    `/usr/sbin/mysqld  Ver 8.4.3 for Linux on x86_64 (MySQL Community Server - GPL)`,
    `mariadbd  Ver 10.11.6-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)`
    """
    match = re.search(r"\bVer\s+(?P<version>\d+\.\d+\.\d+\S*)", version_output)
    if match is None:
        return None
    flavor: Flavor = "mariadb" if "mariadb" in match["version"].lower() else "mysql"
    return ServerIdentity(flavor=flavor, version=match["version"], binary=binary)
