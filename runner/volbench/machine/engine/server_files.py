"""The files of a server that volbench starts: its directories, options and socket, with its own user or without."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

from volbench.core.records.base import Scalar
from volbench.core.records.cell import CellPlaces, Encryption
from volbench.core.records.layout import Role
from volbench.machine.engine.config import ServerPaths, check_socket_path, render_config
from volbench.machine.engine.connection import write_private
from volbench.machine.engine.differences import ServerIdentity
from volbench.machine.engine.encryption import EncryptedStart, Installation, encrypted_start
from volbench.machine.engine.roles import role_directories, server_directories
from volbench.machine.engine.server_user import enclosed, server_user
from volbench.machine.engine.supervisor import launched_supervisor

_INIT_FILE = "account.sql"
_USERS_DIR = "server"
_CONFIG_FILE, _SOCKET_FILE = "my.cnf", "mysqld.sock"


class ServerFiles:
    """Where a server's files are, as this process and as the server sees them.

    Args:
        paths: the cell's directories.

    Raises MissingPrerequisite if the socket's path is too long for a Unix socket.
    """

    def __init__(self, paths: CellPlaces) -> None:
        self._paths = paths
        self._data_dir = Path(paths.data_dir)
        self._control_dir = Path(paths.control_dir)
        for socket in (str(self.socket), self._as_the_server_sees(_SOCKET_FILE)):
            check_socket_path(socket)

    @cached_property
    def user(self) -> int | None:
        """The user of a server on this machine where this process is root; None: the same as the supervisor's."""
        return server_user(self._data_dir) if launched_supervisor(self._control_dir) is not None else None

    @property
    def directory(self) -> Path:
        """The directory of the server's socket and options: the control directory, or its user's own in it."""
        return self._control_dir if self.user is None else self._control_dir / _USERS_DIR

    @property
    def socket(self) -> Path:
        """The server's Unix socket."""
        return self.directory / _SOCKET_FILE

    @property
    def config_file(self) -> str:
        """The server's options, as the server sees them."""
        return f"{self._paths.server_control_dir or self._control_dir}/{_CONFIG_FILE}"

    @property
    def data_dirs(self) -> tuple[Path, ...]:
        """The data directory, and those of a layout's other volumes."""
        return (self._data_dir, *self._role_dirs.values())

    def enclosed(self, argv: Sequence[str]) -> list[str]:
        """Return the command for the supervisor. The server's directories are its user's then."""
        if self.user is None:
            return list(argv)
        directories = dict.fromkeys((self._tmp_dir, self.directory, *self._role_dirs.values()))
        return enclosed(self.user, self._data_dir, tuple(directories), argv)

    def write_init(self, statements: Sequence[str]) -> None:
        """Write what the first start executes."""
        self._make_directory()
        write_private(self.directory / _INIT_FILE, "\n".join(statements) + "\n")

    def remove_init(self) -> None:
        """Remove what a first start has executed."""
        (self.directory / _INIT_FILE).unlink(missing_ok=True)

    def init_has(self, text: str) -> bool:
        """Return whether a text is among what the first start executes."""
        try:
            return text in (self.directory / _INIT_FILE).read_text()
        except FileNotFoundError:
            return False

    def encrypted_start(
        self, identity: ServerIdentity, encryption: Encryption, installation: Installation
    ) -> EncryptedStart:
        """Return how the server is started with encryption, and make the links that it needs."""
        self._make_directory()
        return encrypted_start(
            identity,
            encryption,
            installation,
            directory=self.directory,
            server_directory=self._paths.server_control_dir or str(self.directory),
            server_data_dir=self._paths.server_data_dir or self._paths.data_dir,
        )

    def write_config(
        self,
        identity: ServerIdentity,
        options: Mapping[str, Scalar],
        *,
        port: int | None,
        with_init: bool,
        encryption: Mapping[str, Scalar] = MappingProxyType({}),
    ) -> tuple[str, ...]:
        """Make the directories that options name, write my.cnf, and return notes on options that do not exist.

        Args:
            port: of the loopback; None: no network.
            with_init: whether the start executes what `write_init` wrote.
            encryption: options of `encrypted_start`.
        """
        for directory in (self._tmp_dir, *self._role_dirs.values()):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._make_directory()
        data_dir = self._paths.server_data_dir or self._paths.data_dir
        roles = server_directories(self._paths.layout)
        rendered = render_config(
            identity=identity,
            paths=ServerPaths(
                data_dir=data_dir,
                control_dir=self._paths.server_control_dir or self._paths.control_dir,
                tmp_dir=roles.get("tmp", str(Path(data_dir).parent / "tmp")),
                roles=roles,
                socket_dir=self._paths.server_control_dir or str(self.directory),
                init_file=self._as_the_server_sees(_INIT_FILE) if with_init else "",
                port=port,
            ),
            options=options,
            as_root=os.geteuid() == 0 and self.user is None,
            encryption=encryption,
        )
        write_private(self.directory / _CONFIG_FILE, rendered.text)
        return rendered.notes

    def _as_the_server_sees(self, name: str) -> str:
        return f"{self._paths.server_control_dir or self.directory}/{name}"

    def _make_directory(self) -> None:
        """Make the directory of the server's user, with links to its files where they are for other users."""
        if self.user is None:
            return
        self.directory.mkdir(mode=0o711, exist_ok=True)
        for name in (_CONFIG_FILE, _SOCKET_FILE):
            with contextlib.suppress(FileExistsError):
                (self._control_dir / name).symlink_to(f"{_USERS_DIR}/{name}")

    @property
    def _tmp_dir(self) -> Path:
        tmp_dir = self._data_dir.parent / "tmp"  # on the volume, where a server's would be
        return self._role_dirs.get("tmp", tmp_dir)

    @cached_property
    def _role_dirs(self) -> dict[Role, Path]:
        return role_directories(self._paths.layout)
