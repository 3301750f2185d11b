"""Runs of root, whose servers do not run as root: where a mount namespace can be made, and where none can."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from waiting import wait_for

from volbench.core.base.confinement import USERS
from volbench.errors import MissingPrerequisite

pytestmark = [pytest.mark.mysqld, pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")]
ROOT = Path(__file__).parents[2]
SMALL = (
    "repeats=1",
    "comparison.until=all_cells",
    "dataset.rows=1000",
    "dataset.tables=1",
    "steps=[{kind: idle, duration: 2s}]",
)
AS_IN_A_CONTAINER = ["setpriv", "--bounding-set=-sys_admin"]
"""Without the capability that a mount namespace takes, as Docker starts a container by default."""
RUN_BOUND_S = 300.0


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory that every user may enter, below /var/tmp; paths of sockets are short."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="vbu") as name:
        directory = Path(name)
        directory.chmod(0o755)
        for piece in ("volume", "tmp"):
            (directory / piece).mkdir()
        yield directory


def started(directory: Path, guards: list[str]) -> subprocess.Popen[str]:
    flavor = "mariadb" if shutil.which("mariadbd") else "mysql"
    settings = [argument for text in (*SMALL, f"engine.flavor={flavor}") for argument in ("--set", text)]
    argv = [
        *guards,
        sys.executable,
        "-m",
        "volbench",
        "run",
        str(ROOT / "suites/quick.yaml"),
        *settings,
        "--target",
        "local",
        "--volume",
        f"a=path:{directory}/volume",
        "--out",
        str(directory / "results"),
        "--yes",
    ]
    environment = {**os.environ, "TMPDIR": str(directory / "tmp"), "VOLBENCH_CACHE": str(directory / "cache")}
    return subprocess.Popen(
        argv, env=environment, cwd="/", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def server_users(directory: Path) -> set[int]:
    """Of running servers of this run, past what becomes them."""
    users = set()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            argv = (path / "cmdline").read_bytes().split(b"\0")
            if argv[0].endswith((b"mariadbd", b"mysqld")) and str(directory).encode() in b"".join(argv):
                users.add(path.stat().st_uid)
        except OSError:
            continue
    return users


@pytest.mark.parametrize("guards", [[], AS_IN_A_CONTAINER], ids=["namespace", "as in a container"])
def test_the_servers_of_a_run_of_root_are_another_users(directory: Path, guards: list[str]) -> None:
    """While the template is prepared and while the cell runs; nothing is left on the volume."""
    with started(directory, guards) as process:
        try:
            observed: set[int] = set()

            def ended() -> bool:
                observed.update(server_users(directory))
                return process.poll() is not None

            wait_for(ended, "the run does not end", within_s=RUN_BOUND_S)
        finally:
            process.kill()
        output = process.stdout.read() if process.stdout else ""
    assert process.returncode in (0, 6), output
    assert observed, "a server ran"
    assert observed <= set(USERS)
    assert list((directory / "volume").iterdir()) == []
    assert list((directory / "tmp").iterdir()) == []
    assert all(path.stat().st_uid == 0 for path in (directory / "cache").rglob("*"))


def test_a_closed_directory_that_is_not_volbenchs_stays_closed(directory: Path) -> None:
    """One message names it and says how to go on."""
    (directory / "volume").chmod(0o700)
    with started(directory, AS_IN_A_CONTAINER) as process:
        output, _ = process.communicate(timeout=RUN_BOUND_S)
    assert process.returncode == MissingPrerequisite.exit_code, output
    assert f"may not enter {directory}/volume, and no server runs as root" in output
    assert "run volbench as another user than root" in output
    assert (directory / "volume").stat().st_mode & 0o777 == 0o700


def test_a_kill_of_a_server_leaves_no_mount(directory: Path) -> None:
    with started(directory, []) as process:
        try:
            wait_for(lambda: bool(server_users(directory)) or process.poll() is not None, within_s=RUN_BOUND_S)
        finally:
            process.send_signal(signal.SIGINT)
        process.communicate(timeout=RUN_BOUND_S)
    assert str(directory) not in Path("/proc/self/mountinfo").read_text()
    assert list((directory / "volume").iterdir()) == []
