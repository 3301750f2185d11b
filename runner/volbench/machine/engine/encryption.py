"""Encryption at rest (TDE): a server's options for it, its key, and what the server says is encrypted.

MySQL loads component_keyring_file by a manifest next to its program, and the component reads its configuration in
the plugin directory: both are a directory of links of volbench's own, so that no installation is changed. MariaDB
has the plugin file_key_management. The key is in the data directory, as the password of volbench's account is: each
copy of the directory has it, and it is removed with the directory.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from volbench.core.base import ownership
from volbench.core.base.text import counted
from volbench.core.records.base import Scalar
from volbench.core.records.cell import Encryption
from volbench.errors import StepFailed, UsageError
from volbench.machine.engine.connection import write_private
from volbench.machine.engine.differences import Flavor, ServerIdentity

KEY_FILE = ".volbench-keyring"
"""In the data directory, 0600. Of such a name, because MySQL initialises no directory with any other file in it."""
LINKS = "keyring"
"""In the server's directory: links to MySQL's program and plugins, its manifest, and the key's configuration."""
INSTALLATION = (
    'echo "program $(command -v "$1")"; "$1" --no-defaults --verbose --help 2>/dev/null |'
    " while read -r name value; do"
    ' case $name in basedir) echo "basedir $value" ;;'
    ' plugin-dir) echo "plugin-dir $value"; ls "$value" 2>/dev/null | sed "s/^/plugin /" ;; esac; done'
)
"""Prints where the program of $1, its files and its plugins are."""
_PROGRAM = "mysqld"
_LIBRARIES: dict[Flavor, str] = {"mysql": "component_keyring_file", "mariadb": "file_key_management"}
_TABLE_OPTIONS: dict[Flavor, dict[str, Scalar]] = {
    "mysql": {"default_table_encryption": True},
    "mariadb": {"innodb_encrypt_tables": True},
}
_LOG_OPTIONS: dict[Flavor, dict[str, Scalar]] = {
    "mysql": {"innodb_redo_log_encrypt": True, "innodb_undo_log_encrypt": True, "binlog_encryption": True},
    "mariadb": {"innodb_encrypt_log": True, "encrypt_binlog": True},
}
ENCRYPTION_OPTIONS = frozenset(
    name for options in (*_TABLE_OPTIONS.values(), *_LOG_OPTIONS.values()) for name in options
)
"""Options that a suite sets by `engine.encryption` alone: without a key, a server does not start with them."""
_KEY_BYTES = 32
_SYSTEM_SCHEMAS = ("mysql", "sys")
"""Those that have tablespaces."""
_TABLES = (
    "SELECT engine, table_schema, table_name, data_length FROM information_schema.tables WHERE table_type ="
    " 'BASE TABLE' AND table_schema NOT IN ('mysql', 'sys', 'performance_schema', 'information_schema')"
)
"""Their length is read so that MariaDB opens them: it lists the tablespaces of open tables alone."""
_TABLESPACES: dict[Flavor, str] = {
    "mysql": "SELECT name, encryption = 'Y' FROM information_schema.innodb_tablespaces",
    "mariadb": "SELECT name, encryption_scheme = 1 AND min_key_version > 0"
    " FROM information_schema.innodb_tablespaces_encryption",
}
_UNDO: dict[Flavor, tuple[str, ...]] = {"mysql": ("innodb_undo",), "mariadb": ("innodb_system", "innodb_undo")}
"""How names of tablespaces with undo logs begin."""
_BINARY_LOGS = "SHOW BINARY LOGS"
_POLL_S = 0.2

Query = Callable[[str], Sequence[Sequence[Any]]]


@dataclass(frozen=True, kw_only=True)
class Installation:
    """Where a server's program, its files and its plugins are, as the server sees them."""

    program: str
    base_dir: str
    plugin_dir: str
    plugins: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class EncryptedStart:
    """What a server with encryption is started by: its program, and its options."""

    program: str
    options: Mapping[str, Scalar]


def read_installation(output: str, identity: ServerIdentity) -> Installation:
    """Return what INSTALLATION prints. Raise UsageError for a server without the library that reads keys."""
    pairs = [line.partition(" ")[::2] for line in output.splitlines()]
    values = {name: value.strip() for name, value in pairs}
    installation = Installation(
        program=values.get("program", ""),
        base_dir=values.get("basedir", ""),
        plugin_dir=values.get("plugin-dir", ""),
        plugins=tuple(value for name, value in pairs if name == "plugin" and value.endswith(".so")),
    )
    library = f"{_LIBRARIES[identity.flavor]}.so"
    if library not in installation.plugins:
        raise UsageError(
            f"this {identity.flavor} {identity.version} cannot encrypt: it has no {library}",
            where="engine.encryption",
            evidence=f"plugin_dir is {installation.plugin_dir or 'unknown'}",
            next_step="use a server with it, such as MySQL from 8.0.24 on or MariaDB's complete package, or set"
            " engine.encryption: none",
        )
    return installation


def encrypted_start(
    identity: ServerIdentity,
    encryption: Encryption,
    installation: Installation,
    *,
    directory: Path,
    server_directory: str,
    server_data_dir: str,
) -> EncryptedStart:
    """Return how a server with encryption is started, and make the links that MySQL needs.

    Args:
        directory: the server's own, and `server_directory`, the same as the server sees it.
        server_data_dir: the data directory as the server sees it.
    """
    options = dict(_TABLE_OPTIONS[identity.flavor])
    if encryption == "all":
        options |= _LOG_OPTIONS[identity.flavor]
    key_file = f"{server_data_dir}/{KEY_FILE}"
    if identity.flavor == "mariadb":
        library = {"plugin_load_add": _LIBRARIES["mariadb"], "file_key_management_filename": key_file}
        return EncryptedStart(program=identity.binary, options={**library, **options})
    _write_links(directory / LINKS, installation, key_file)
    links = f"{server_directory}/{LINKS}"
    directories = {"basedir": installation.base_dir, "plugin_dir": links}
    return EncryptedStart(program=f"{links}/{_PROGRAM}", options={**directories, **options})


def _write_links(directory: Path, installation: Installation, key_file: str) -> None:
    """Make a directory of links, with a manifest next to the program and a configuration next to the plugins."""
    ownership.discard(directory)
    directory.mkdir(mode=0o755)
    (directory / _PROGRAM).symlink_to(installation.program)
    for name in installation.plugins:
        (directory / name).symlink_to(f"{installation.plugin_dir.rstrip('/')}/{name}")
    library = _LIBRARIES["mysql"]
    write_private(directory / f"{_PROGRAM}.my", json.dumps({"components": f"file://{library}"}))
    write_private(directory / f"{library}.cnf", json.dumps({"path": key_file, "read_only": False}))


def write_key(data_dir: Path, flavor: Flavor) -> None:
    """Make the file of the key: MySQL writes keys of its own into it, MariaDB reads one of random bytes."""
    key = f"1;{secrets.token_hex(_KEY_BYTES)}\n" if flavor == "mariadb" else ""
    write_private(data_dir / KEY_FILE, key)


def encrypt_undo(query: Query, identity: ServerIdentity, *, timeout_s: float) -> None:
    """Let MariaDB encrypt the tablespaces of its undo logs, which its threads alone do. Raise StepFailed."""
    if identity.flavor == "mysql":
        return
    query("SET GLOBAL innodb_encryption_threads = 1")
    until = time.monotonic() + timeout_s
    while not _undo_is_encrypted(identity.flavor, _tablespaces(query, identity.flavor)):
        if time.monotonic() > until:
            raise _not_encrypted("MariaDB did not encrypt its system tablespace in time", f"{timeout_s:g} s")
        time.sleep(_POLL_S)
    query("SET GLOBAL innodb_encryption_threads = 0")


def check_encryption(query: Query, identity: ServerIdentity, encryption: Encryption) -> str:
    """Return a note on what the server says is encrypted. Raise StepFailed if the suite asks for more."""
    tables = query(_TABLES)
    tablespaces = _tablespaces(query, identity.flavor)
    plain = [f"{schema}.{table}" for engine, schema, table, _ in tables if engine != "InnoDB"]
    own = {name: is_encrypted for name, is_encrypted in tablespaces.items() if _is_own(name)}
    plain += [name for name, is_encrypted in own.items() if not is_encrypted]
    if plain or len(own) < len(tables) or not tables:
        raise _not_encrypted(
            "not all tables are encrypted",
            f"{counted(len(tables), 'table')}, {counted(sum(own.values()), 'encrypted tablespace')};"
            f" not encrypted: {', '.join(plain[:5]) or 'those without a tablespace of their own'}",
        )
    logs = _check_logs(query, identity.flavor, tablespaces) if encryption == "all" else ""
    return f"encrypted at rest, says the server: {counted(len(own), 'tablespace')} of tables{logs}"


def _check_logs(query: Query, flavor: Flavor, tablespaces: Mapping[str, bool]) -> str:
    """Return what the server says of its logs. Raise StepFailed if one is not encrypted."""
    names = list(_LOG_OPTIONS[flavor])
    (values,) = query(f"SELECT {', '.join(f'@@GLOBAL.{name}' for name in names)}")
    off = [name for name, value in zip(names, values, strict=True) if int(value) != 1]
    if not _undo_is_encrypted(flavor, tablespaces):
        off.append("a tablespace of undo logs")
    ((has_binary_log,),) = query("SELECT @@GLOBAL.log_bin")
    if flavor == "mysql" and int(has_binary_log):  # MariaDB lists no encryption of them
        off += [str(file) for file, _, is_encrypted in query(_BINARY_LOGS) if is_encrypted != "Yes"]
    if off:
        raise _not_encrypted("not all logs are encrypted", f"not encrypted: {', '.join(off[:5])}")
    return f", redo log, undo log{', binary log' if int(has_binary_log) else ''}"


def _tablespaces(query: Query, flavor: Flavor) -> dict[str, bool]:
    return {str(name): bool(is_encrypted) for name, is_encrypted in query(_TABLESPACES[flavor])}


def _undo_is_encrypted(flavor: Flavor, tablespaces: Mapping[str, bool]) -> bool:
    undo = [is_encrypted for name, is_encrypted in tablespaces.items() if name.startswith(_UNDO[flavor])]
    return bool(undo) and all(undo)


def _is_own(name: str) -> bool:
    """Return whether a tablespace is of a user's table: SCHEMA/TABLE."""
    schema, slash, _ = name.partition("/")
    return bool(slash) and schema not in _SYSTEM_SCHEMAS


def _not_encrypted(what: str, evidence: str) -> StepFailed:
    return StepFailed(
        what,
        where="engine.encryption",
        evidence=evidence,
        next_step="load data whose statements do not switch encryption off, or set engine.encryption: none",
        cause="not_encrypted",
    )
