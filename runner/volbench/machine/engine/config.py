"""my.cnf: volbench's pinned options, the suite's options on top, and options that a suite must not set."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from volbench.core.base.nearest import nearest_match
from volbench.core.records.base import Scalar, parse_size_bytes
from volbench.core.records.layout import Role
from volbench.errors import MissingPrerequisite, UsageError
from volbench.machine.engine.allowed_options import ALLOWED_OPTIONS, SLASH_ALLOWED
from volbench.machine.engine.differences import ServerIdentity, fit_options
from volbench.machine.engine.encryption import ENCRYPTION_OPTIONS
from volbench.machine.engine.roles import role_options

PINNED: dict[str, Scalar] = {
    # These make two servers equally durable, whatever their defaults; a suite may set each of them.
    "innodb_flush_log_at_trx_commit": 1,
    "sync_binlog": 1,
    "log_bin": True,
    "innodb_doublewrite": True,
    "innodb_flush_method": "O_DIRECT",
    "innodb_file_per_table": True,
    # A start must neither warm the buffer pool nor read what a measurement is about to read.
    "innodb_buffer_pool_load_at_startup": False,
    "innodb_buffer_pool_dump_at_shutdown": False,
    "performance_schema": True,
    "skip_name_resolve": True,
    "server_id": 1,
    # MySQL only.
    "auto_generate_certs": False,
    "caching_sha2_password_auto_generate_rsa_keys": False,
}
SOCKET_BYTES_MAX = 107
_CPU_CONSUMER = "performance_schema_consumer_events_statements_cpu"

_SET_ELSEWHERE = {
    **dict.fromkeys(ENCRYPTION_OPTIONS, "set engine.encryption: tables or all; volbench makes the key"),
    **{
        option: f"name the volume of its files: --volume a=data:SPEC,{component}:SPEC"
        for option, component in {
            "innodb_doublewrite_dir": "doublewrite",
            "innodb_log_group_home_dir": "redo",
            "innodb_temp_tablespaces_dir": "tmp",
            "innodb_tmpdir": "tmp",
            "innodb_undo_directory": "undo",
            "log_bin_basename": "binlog",
            "log_bin_index": "binlog",
            "tmpdir": "tmp",
        }.items()
    },
}
"""Options that `engine.encryption` and a layout set, and what to do."""
# Without skip_, enable_ and the like, which are stripped before the lookup.
_HARNESS = frozenset(
    {
        *ENCRYPTION_OPTIONS,
        "admin_address",
        "admin_port",
        "aria_log_dir_path",
        "basedir",
        "bind_address",
        "chroot",
        "console",
        "core_file",
        "daemonize",
        "datadir",
        "defaults_extra_file",
        "defaults_file",
        "defaults_group_suffix",
        "extra_port",
        "gdb",
        "general_log_file",
        "init_connect",
        "init_file",
        "initialize",
        "initialize_insecure",
        "innodb_data_home_dir",
        "innodb_directories",
        "innodb_doublewrite_dir",
        "innodb_force_recovery",
        "innodb_log_group_home_dir",
        "innodb_temp_tablespaces_dir",
        "innodb_tmpdir",
        "innodb_undo_directory",
        "log_bin_basename",
        "log_bin_index",
        "log_error",
        "log_error_services",
        "mysqlx",
        "mysqlx_port",
        "mysqlx_socket",
        "no_defaults",
        "pid_file",
        "plugin_dir",
        "port",
        "print_defaults",
        "relay_log",
        "relay_log_index",
        "replica_load_tmpdir",
        "slave_load_tmpdir",
        "secure_file_priv",
        "grant_tables",
        "networking",
        "slow_query_log_file",
        "socket",
        "tmpdir",
        "upgrade",
        "user",
        "version",
    }
)
_COMPLETE_NAMES = frozenset({*PINNED, "general_log", "slow_query_log"})
"""Complete option names that are also the beginning of a name above."""
_PREFIXES = ("loose_", "skip_", "enable_", "disable_", "maximum_")
_NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)?")
_BINARY_SIZE = re.compile(r"\d+(\.\d+)?\s*[KMGT]iB")
"""As suites write sizes; a server knows K, M and G only."""
_PLAIN_VALUE = re.compile(r"[A-Za-z0-9_.,:/+=%@-]*")


@dataclass(frozen=True, kw_only=True)
class ServerPaths:
    """The server's directories, as the server sees them."""

    data_dir: str
    control_dir: str
    tmp_dir: str
    socket_dir: str = ""
    """Where socket and pid file are; empty: in the control directory."""
    init_file: str = ""
    port: int | None = None
    """Of the loopback, for a replica of this machine; None: no network."""
    roles: Mapping[Role, str] = field(default_factory=dict)
    """Of a layout: the directory of each role that is not with the data."""

    @property
    def socket(self) -> str:
        """The Unix socket; without a port the server's only listener."""
        return f"{self.socket_dir or self.control_dir}/mysqld.sock"


@dataclass(frozen=True, kw_only=True)
class RenderedConfig:
    """The text of my.cnf, and notes on the suite's options that this server does not have."""

    text: str
    notes: tuple[str, ...] = field(default=())


_INSTRUMENTS = (
    "wait/io/file/%",
    "statement/%",
    "wait/synch/cond/sql/MYSQL_BIN_LOG::COND%",
    "wait/lock/metadata/sql/mdl",
)
"""Switched on: `COND` are waits for another's group commit, one a transaction at most; `mdl` are waits for metadata
locks, which MySQL has on by default and MariaDB has not."""


def render_config(
    *,
    identity: ServerIdentity,
    paths: ServerPaths,
    options: Mapping[str, Scalar],
    as_root: bool,
    encryption: Mapping[str, Scalar] = MappingProxyType({}),
) -> RenderedConfig:
    """Return my.cnf of one server.

    Args:
        options: the suite's [mysqld] options; they win over volbench's pinned ones.
        as_root: the server runs as root, which needs `user = root`.
        encryption: volbench's own options of a server that encrypts.

    Raises UsageError for options that the harness itself sets, and for invalid names and values.
    """
    suite_options = checked_options(options)
    fitted = fit_options({**PINNED, **suite_options}, identity)
    harness_options: list[tuple[str, Scalar]] = [
        ("datadir", paths.data_dir),
        ("socket", paths.socket),
        ("pid_file", f"{paths.socket_dir or paths.control_dir}/mysqld.pid"),
        ("tmpdir", paths.tmp_dir),
        *(
            [("skip_networking", True)]
            if paths.port is None
            else [("bind_address", "127.0.0.1"), ("port", paths.port)]
        ),
    ]
    harness_options += role_options(identity, paths.roles, data_dir=paths.data_dir, options=fitted.options)
    harness_options += [*_closed_to_files(identity), *encryption.items()]
    if identity.flavor == "mysql":
        harness_options.append(("mysqlx", False))
    if paths.init_file:
        harness_options.append(("init_file", paths.init_file))
        # A copy of a replica must not connect to its source. MySQL before 8.0.26 knows one of these, 9 the other.
        harness_options += [("loose_skip_slave_start", True), ("loose_skip_replica_start", True)]
    if as_root:
        harness_options.append(("user", "root"))
    if fitted.options.get("performance_schema") is True:
        harness_options += [("performance_schema_instrument", f"{name}=ON") for name in _INSTRUMENTS]
        if identity.flavor == "mysql" and _CPU_CONSUMER not in suite_options:  # loose: not in servers before 8.0.28
            harness_options.append((f"loose_{_CPU_CONSUMER}", True))
    lines = ["[mysqld]", *(_line(name, value) for name, value in (*fitted.options.items(), *harness_options))]
    notes = tuple(note for name, note in fitted.notes.items() if name in suite_options)
    return RenderedConfig(text="\n".join(lines) + "\n", notes=notes)


def _closed_to_files(identity: ServerIdentity) -> list[tuple[str, Scalar]]:
    """Return options with which no statement reads or writes a file outside the data directory.

    MariaDB has no `secure_file_priv = NULL`, but allows only files whose real path begins with this one
    (`is_secure_file_path` of its mysqld.cc), and below a device there are none, for root neither.
    """
    closed = "NULL" if identity.flavor == "mysql" else os.devnull
    return [("secure_file_priv", closed), ("local_infile", False), ("loose_symbolic_links", False)]


def checked_options(options: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Return the suite's options under their plain names (lower case, underscores). Raise UsageError."""
    checked: dict[str, Scalar] = {}
    for spelling, value in options.items():
        name = spelling.strip().lower().replace("-", "_")
        if not _NAME.fullmatch(name):
            raise UsageError(f"{spelling!r} is not the name of a server option", where="engine.config")
        _refuse_harness_option(name, spelling)
        if isinstance(value, str) and any(ord(character) < 32 or ord(character) == 127 for character in value):
            raise UsageError(f"the value of {spelling} contains a control character", where="engine.config")
        _refuse_unknown_option(name, spelling)
        if isinstance(value, str) and "/" in value and _bare(name) not in SLASH_ALLOWED:
            raise UsageError(
                f"{spelling} must not name a path outside the data directory", where="engine.config", evidence=value
            )
        if checked.setdefault(name, value) != value:
            raise UsageError(f"{name} is set twice, with different values", where="engine.config")
    return checked


def _bare(name: str) -> str:
    """Return an option's name without the prefixes that a server strips."""
    bare = name
    while (prefix := next((p for p in _PREFIXES if bare.startswith(p)), None)) is not None:
        bare = bare.removeprefix(prefix)
    return bare


def _refuse_unknown_option(name: str, spelling: str) -> None:
    if name in ALLOWED_OPTIONS or _bare(name) in ALLOWED_OPTIONS:
        return
    nearest = nearest_match(_bare(name), ALLOWED_OPTIONS)
    raise UsageError(
        f"{spelling} is not a server option that a suite may set",
        where="engine.config",
        evidence=f"perhaps you meant {nearest}" if nearest else "",
        next_step="use one that tunes the server; options that place files, load plugins or open ports are refused",
    )


def _refuse_harness_option(name: str, spelling: str) -> None:
    bare = _bare(name)
    match = next((option for option in sorted(_HARNESS) if bare and _abbreviates(bare, option)), None)
    if match is not None:
        raise UsageError(
            f"only volbench may set the server option {spelling}",
            where="engine.config",
            evidence="" if match == bare else f"the server would read {spelling} as {match}",
            next_step=_SET_ELSEWHERE.get(
                match, "remove the option from the suite; volbench sets directories, socket and logs of each cell"
            ),
        )


def _abbreviates(bare: str, option: str) -> bool:
    """Return whether a server would read the name as that option: it accepts unambiguous prefixes."""
    return option == bare or (len(bare) >= 3 and option.startswith(bare) and bare not in _COMPLETE_NAMES)


def _line(name: str, value: Scalar) -> str:
    if name == "log_bin" and isinstance(value, bool):
        return "log_bin = binlog" if value else "skip_log_bin"
    if isinstance(value, bool):
        return f"{name} = {'ON' if value else 'OFF'}"
    text = str(value)
    if _BINARY_SIZE.fullmatch(text):
        text = str(parse_size_bytes(text))
    if not _PLAIN_VALUE.fullmatch(text):
        escaped = text.replace("\\", "\\\\").replace('"', '\\"')
        text = f'"{escaped}"'
    return f"{name} = {text}"


def check_socket_path(socket: str) -> None:
    """Raise MissingPrerequisite for a path that is too long for a Unix socket."""
    length = len(os.fsencode(socket))
    if length > SOCKET_BYTES_MAX:
        raise MissingPrerequisite(
            f"the path of the server's Unix socket has {length} bytes; the kernel's limit is {SOCKET_BYTES_MAX}",
            where="server control",
            evidence=socket,
            next_step="set TMPDIR to a directory with a short path",
        )
