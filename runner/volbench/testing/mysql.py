"""MySQL or MariaDB in a container of testcontainers whose data directory is on an emulated volume."""

from __future__ import annotations

import atexit
import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from docker.errors import DockerException, NotFound
from testcontainers.community.mysql import MySqlContainer
from testcontainers.core.container import DockerContainer
from testcontainers.core.waiting_utils import WaitStrategyTarget

from volbench.core.base import docker_engine, programs
from volbench.core.base.nearest import suggestion
from volbench.core.records.base import Scalar
from volbench.core.records.cell import ServerSpec
from volbench.errors import MissingPrerequisite, StepFailed, UsageError
from volbench.machine.engine.connection import Account
from volbench.machine.placement.docker.images import server_image
from volbench.testing.containers import QueryWaitStrategy, container_options
from volbench.testing.leftovers import data_directory, remove_data
from volbench.testing.volumes import MountedVolume

DATA_IN_CONTAINER = "/var/lib/mysql"
RECOVERY_S_MAX = 600.0
"""A server on an exhausted volume needs minutes to recover; one that ended is noticed at once."""
_USER = "999:999"
_ACCOUNT = ("username", "password", "root_password", "dbname", "dialect")
_PREPARE_S_MAX = 300.0
_LOG_CHARACTERS = 1500
_NOT_MOUNTED = 66
_INITIALISE = f"""
set -eu
if command -v mariadbd >/dev/null; then
  exec mariadb-install-db --no-defaults --datadir={DATA_IN_CONTAINER} \\
    --auth-root-authentication-method=normal --skip-test-db
fi
exec mysqld --no-defaults --datadir={DATA_IN_CONTAINER} --initialize-insecure
"""
_SERVE = f"""
set -eu
[ -f {DATA_IN_CONTAINER}/ibdata1 ] || exit {_NOT_MOUNTED}
umask 077
printf '%s' "$VOLBENCH_ACCOUNTS" >/tmp/accounts.sql
server=mysqld
! command -v mariadbd >/dev/null || server=mariadbd
exec $server --no-defaults --datadir={DATA_IN_CONTAINER} --init-file=/tmp/accounts.sql \\
  --socket=/tmp/mysqld.sock --pid-file=/tmp/mysqld.pid "$@"
"""


class VolumeMySqlContainer(MySqlContainer):
    """testcontainers' MySqlContainer with its data directory on a volume; any image with mysqld or mariadbd.

    The image's entrypoint is not called: the data directory was initialised before, and the accounts are made at
    each start. So a restart after a power cut recovers what the volume has.

    Args:
        volume: the volume that it loses its power with.
        data: the initialised data directory on it.
        image: name of an image of the local engine.
        options: of the server, such as {"innodb_buffer_pool_size": "64M"}.
        account: `username`, `password`, `root_password`, `dbname`, `dialect` of MySqlContainer.
    """

    def __init__(
        self,
        volume: MountedVolume,
        data: Path,
        image: str,
        *,
        options: Mapping[str, Scalar],
        **account: Any,
    ) -> None:
        super().__init__(image, **account)
        self.volume = volume
        arguments = [f"--{name.replace('_', '-')}={_option_text(value)}" for name, value in options.items()]
        self.with_command(["-c", _SERVE, "sh", *arguments]).with_volume_mapping(data, DATA_IN_CONTAINER, "rw")
        self.with_kwargs(**container_options(entrypoint="sh", user=_USER, init=True))
        self._readiness = QueryWaitStrategy(self._root, timeout_s=RECOVERY_S_MAX)

    @property
    def account(self) -> Account:
        """Its root account over TCP, at the port that it has now: another one after a restart."""
        return self._root(self)

    def cut_power(self) -> None:
        """End by SIGKILL, as with its volume's power."""
        with contextlib.suppress(NotFound):
            self.get_wrapped_container().kill()

    def power_on(self) -> None:
        """Start on the data that the volume has now, and wait for the end of the recovery. Raise StepFailed."""
        container = self.get_wrapped_container()
        container.wait(timeout=RECOVERY_S_MAX)  # killed, but perhaps not yet ended
        container.start()
        self._connect()

    def remove(self) -> None:
        """End and remove the container. Safe to call twice."""
        self.volume.detach(self)
        with contextlib.suppress(NotFound):
            self.stop()

    def _configure(self) -> None:
        self.with_env("VOLBENCH_ACCOUNTS", self._accounts())

    def _connect(self) -> None:
        """Wait for an answer. Raise MissingPrerequisite where the engine sees no volume, else StepFailed."""
        try:
            self._readiness.wait_until_ready(self)
        except TimeoutError as error:
            container = self.get_wrapped_container()
            container.reload()
            if container.attrs["State"]["ExitCode"] == _NOT_MOUNTED:
                raise MissingPrerequisite(
                    "the Docker engine does not see the volume's mount",
                    where=f"mysql_on {self.volume.spec}",
                    evidence=f"{DATA_IN_CONTAINER} is empty in the container",
                    next_step="use an engine on the machine and in the mount namespace of the tests",
                ) from error
            raise StepFailed(
                "the server does not answer",
                where=f"mysql_on {self.volume.spec}, {self.image}",
                evidence=container.logs(tail=30).decode(errors="replace")[-_LOG_CHARACTERS:],
            ) from error

    def _root(self, container: WaitStrategyTarget) -> Account:
        host, port = container.get_container_host_ip(), container.get_exposed_port(self.port)
        # A server of this test's own, at a port of the engine's machine.
        return Account(user="root", password=self.root_password, host=host, port=port, password_unverified=True)

    def _accounts(self) -> str:
        """Return statements for --init-file, one a line: MySQL reads no statement over several lines there."""
        root, database = _quoted(self.root_password), "`" + self.dbname.replace("`", "``") + "`"
        lines = [
            f"CREATE DATABASE IF NOT EXISTS {database};",
            f"CREATE USER IF NOT EXISTS root@'%' IDENTIFIED BY {root};",
            "GRANT ALL ON *.* TO root@'%' WITH GRANT OPTION;",
            f"ALTER USER root@localhost IDENTIFIED BY {root};",
        ]
        if self.username != "root":
            user = f"{_quoted(self.username)}@'%'"
            lines += [
                f"CREATE USER IF NOT EXISTS {user} IDENTIFIED BY {_quoted(self.password)};",
                f"GRANT ALL ON {database}.* TO {user};",
            ]
        return "\n".join(lines) + "\n"


@contextlib.contextmanager
def mysql_on(
    volume: MountedVolume,
    image: str | None = None,
    *,
    options: Mapping[str, Scalar] | None = None,
    **account: str,
) -> Iterator[VolumeMySqlContainer]:
    """Start a server whose data directory is on a volume; it is removed at the end of the block.

    It is prepared and started without the volume's limits, which apply from the first statement of the block on.

    Args:
        volume: from `emulated_volume`.
        image: with mysqld or mariadbd, such as "mysql:8.4"; None: the newest MySQL image of the engine, or
            mysql:8.4 where it has none.
        options: of the server, such as {"innodb_buffer_pool_size": "64M"}.
        account: `username`, `password`, `root_password`, `dbname` and `dialect` of MySqlContainer; "test" each.

    Raises MissingPrerequisite without a Docker engine on this machine or without the image, StepFailed with the
    server's log where it does not start.
    """
    check_account(account)
    chosen = _image(image)
    data = Path(tempfile.mkdtemp(prefix="mysql-", dir=volume.path)) / "data"
    with contextlib.ExitStack() as steps:
        with volume.unlimited():
            copy_data(initialised_data(chosen), data)
            container = VolumeMySqlContainer(volume, data, chosen, options=options or {}, **account)
            steps.callback(container.remove)
            volume.attach(container)
            container.start()
            _run(["sync", "-f", str(volume.path)])  # a power cut in the block takes nothing of the preparation back
        yield container


def check_account(account: Mapping[str, str]) -> None:
    """Raise UsageError for an option of MySqlContainer that would be ignored, and for a line break."""
    for name, value in account.items():
        if name not in _ACCOUNT:
            raise UsageError(f"there is no option {name!r}", where="mysql_on", next_step=suggestion(name, _ACCOUNT))
        if "\n" in value or "\0" in value:
            raise UsageError(f"{name} contains a line break", where="mysql_on")


def _image(name: str | None) -> str:
    """Return the image's name once the engine has it. Raise MissingPrerequisite."""
    host = os.environ.get("DOCKER_HOST", "")
    if host and not host.startswith("unix://"):
        raise MissingPrerequisite(
            "the Docker engine is on another machine, which does not see the volume",
            where="mysql_on",
            evidence=f"DOCKER_HOST={host}",
            next_step="unset DOCKER_HOST",
        )
    try:
        client = docker_engine.connect()
    except DockerException as error:
        raise MissingPrerequisite(
            "no Docker engine answers",
            where="mysql_on",
            evidence=str(error)[:300],
            next_step="start Docker; `volbench doctor` says what is missing",
        ) from error
    try:
        return server_image(client, ServerSpec(image=name or ""))
    finally:
        client.close()


def _discard(directory: Path) -> None:
    with contextlib.suppress(OSError):  # what is left, the next session removes
        remove_data(directory)


@cache
def initialised_data(image: str) -> Path:
    """Return the data directory that a server of the image makes; it is removed when this process ends.

    Raises StepFailed with the server's log.
    """
    directory = data_directory()
    atexit.register(_discard, directory)
    data = directory / "data"
    data.mkdir()
    os.chown(data, *map(int, _USER.split(":")))
    container = DockerContainer(image).with_command(["-c", _INITIALISE])
    container.with_kwargs(**container_options(entrypoint="sh", user=_USER, network_mode="none"))
    with container.with_volume_mapping(data, DATA_IN_CONTAINER, "rw"):
        code = container.get_wrapped_container().wait(timeout=_PREPARE_S_MAX)["StatusCode"]
        log = b"".join(container.get_logs()).decode(errors="replace")
    if code != 0 or not (data / "ibdata1").exists():
        raise StepFailed(
            "the server makes no data directory",
            where=f"mysql_on, {image}",
            evidence=f"exit code {code}: {log[-_LOG_CHARACTERS:]}",
        )
    return data


def copy_data(initialised: Path, data: Path) -> None:
    """Copy a data directory; zeros of a redo log become holes, and a server makes an identity of its own."""
    _run(["cp", "-a", "--sparse=always", str(initialised), str(data)])
    (data / "auto.cnf").unlink(missing_ok=True)


def _run(argv: list[str]) -> None:
    """Run a program to its end. Raise StepFailed with its message."""
    try:
        programs.run(
            argv, capture_output=True, text=True, timeout=_PREPARE_S_MAX, stdin=subprocess.DEVNULL, check=True
        )
    except (subprocess.SubprocessError, OSError) as error:
        raise StepFailed(
            f"{argv[0]} failed", where=" ".join(argv), evidence=str(getattr(error, "stderr", "") or error)[-300:]
        ) from error


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def _option_text(value: Any) -> str:
    return {True: "ON", False: "OFF"}.get(value, str(value)) if isinstance(value, bool) else str(value)
