"""The data directory of a new server, made once per test process and copied for each server that a test starts."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from server_container import local_server_image

from volbench.testing.mysql import copy_data, initialised_data

MAKE_BOUND_S = 300.0
ROOM_BYTES = 2 << 30


def copy_of_local(data_dir: Path) -> None:
    """What the local server's own program makes of an empty directory: mariadbd's, else mysqld's."""
    copy_data(_of_local(), data_dir)


def copy_of_container(data_dir: Path) -> None:
    """What the server of `local_server_image` makes."""
    copy_data(initialised_data(local_server_image()), data_dir)


def directory_in_memory(otherwise: Path) -> Path:
    """A new directory where no statement waits for a disk that other tests use; below `otherwise` without room."""
    memory = Path("/dev/shm")
    roomy = memory.is_dir() and shutil.disk_usage(memory).free > ROOM_BYTES
    return Path(tempfile.mkdtemp(prefix="volbench-test-", dir=memory if roomy else otherwise))


@cache
def _of_local() -> Path:
    data_dir = _directory() / "data"
    create = (
        ["mariadb-install-db", "--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"]
        if shutil.which("mariadbd")
        else ["mysqld", "--no-defaults", "--initialize-insecure"]
    )
    argv = [*create, f"--datadir={data_dir}", "--user=root"]
    # A server that starts removes the temporary tables of its directory: another server's, were it /tmp.
    environment = {**os.environ, "TMPDIR": str(data_dir.parent)}
    subprocess.run(argv, check=True, capture_output=True, timeout=MAKE_BOUND_S, env=environment)
    return data_dir


def _directory() -> Path:
    """Removed when the process ends."""
    path = Path(tempfile.mkdtemp(prefix="volbench-data-", dir="/var/tmp"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path
