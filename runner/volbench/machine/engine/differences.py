"""Options in which MySQL 8.0, 8.4, 9.x and MariaDB 10.11+ differ, as data."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from volbench.core.records.base import Scalar, parse_server_size_bytes
from volbench.core.records.cell import ServerSpec
from volbench.errors import MissingPrerequisite, UsageError

Flavor = Literal["mysql", "mariadb"]


@dataclass(frozen=True, kw_only=True)
class ServerIdentity:
    """Flavor and version of a server, from its binary."""

    flavor: Flavor
    version: str
    binary: str = "mysqld"

    @property
    def number(self) -> tuple[int, ...]:
        """The version as numbers: (8, 4, 3)."""
        return tuple(int(number_text) for number_text in re.findall(r"\d+", self.version)[:3])


@dataclass(frozen=True, kw_only=True)
class Option:
    """The versions that have an option: per flavor the first and, exclusive, the last; None: not this flavor."""

    mysql: tuple[int, ...] | None = (0,)
    mariadb: tuple[int, ...] | None = (0,)
    mysql_until: tuple[int, ...] = (999,)
    mariadb_until: tuple[int, ...] = (999,)

    def exists(self, identity: ServerIdentity) -> bool:
        """Return whether that server has the option."""
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
"""Options that not every server has. All others are passed on; a server rejects an unknown one at its start."""


def _redo_as_log_file(value: Scalar, identity: ServerIdentity) -> tuple[str, Scalar]:
    """MySQL before 8.0.30 has two redo files of equal size, MariaDB since 10.5 one. Raise UsageError."""
    files = 2 if identity.flavor == "mysql" else 1
    try:
        return "innodb_log_file_size", parse_server_size_bytes(value) // files
    except ValueError as error:
        raise UsageError(str(error), where="engine.config: innodb_redo_log_capacity") from error


_REPLACEMENTS: dict[str, Callable[[Scalar, ServerIdentity], tuple[str, Scalar]]] = {
    "innodb_redo_log_capacity": _redo_as_log_file,
}


@dataclass(frozen=True, kw_only=True)
class FittedOptions:
    """Options that a server has; `notes`: name of an omitted or replaced option -> what was done."""

    options: dict[str, Scalar]
    notes: dict[str, str] = field(default_factory=dict)


def fit_options(options: Mapping[str, Scalar], identity: ServerIdentity) -> FittedOptions:
    """Omit or replace the options that this server does not have."""
    fitted: dict[str, Scalar] = {}
    notes: dict[str, str] = {}
    server = f"{identity.flavor} {identity.version}"
    for name, value in options.items():
        option = OPTIONS.get(name)
        if option is None or option.exists(identity):
            fitted[name] = value
        elif name in _REPLACEMENTS:
            replacement, replacement_value = _REPLACEMENTS[name](value, identity)
            fitted.setdefault(replacement, replacement_value)
            notes[name] = f"{server} has no {name}: set {replacement} = {replacement_value} instead"
        else:
            notes[name] = f"{server} has no {name}: left out"
    return FittedOptions(options=fitted, notes=notes)


def identify(version_output: str, binary: str) -> ServerIdentity | None:
    """Return flavor and version from `mysqld --version`; None if that is not a server's output.

    `/usr/sbin/mysqld  Ver 8.4.3 for Linux on x86_64 (MySQL Community Server - GPL)`,
    `mariadbd  Ver 10.11.6-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)`
    """
    match = re.search(r"\bVer\s+(?P<version>\d+\.\d+\.\d+\S*)", version_output)
    if match is None:
        return None
    flavor: Flavor = "mariadb" if "mariadb" in match["version"].lower() else "mysql"
    return ServerIdentity(flavor=flavor, version=match["version"], binary=binary)


def require_version(spec: ServerSpec, identity: ServerIdentity) -> ServerIdentity:
    """Return the identity of a server. Raise MissingPrerequisite if it is not the one that the suite requires."""
    version = spec.version
    fits = (
        not version
        or f"{identity.version}.".startswith(f"{version}.")
        or identity.version.startswith(f"{version}-")
    )
    if spec.flavor in {"any", identity.flavor} and fits:
        return identity
    raise MissingPrerequisite(
        f"the suite requires {spec.flavor} {version}".rstrip(),
        where="server",
        evidence=f"{identity.binary} is {identity.flavor} {identity.version}",
        next_step=f"install that server, use --target docker, or --set engine.flavor={identity.flavor}",
    )
