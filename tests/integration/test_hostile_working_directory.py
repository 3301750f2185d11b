"""Root's commands in a directory where an unprivileged user has planted modules and programs: none of them runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import hostile_user
import live_run
import pytest
from hostile_user import as_nobody
from planted_modules import imported_from, plant_modules
from scratch_server import PASSWORD, ScratchServer, scratch_server
from waiting import wait_for

from volbench.observe.ring import segments_in

pytestmark = [pytest.mark.mysqld, pytest.mark.skipif(os.geteuid() != 0, reason="root is attacked")]
PROGRAMS = (
    "sh",
    "setpriv",
    "prlimit",
    "sysbench",
    "mysqld",
    "mariadbd",
    "mysql",
    "mariadb",
    "mysqldump",
    "mariadb-dump",
    "git",
    "docker",
    "pt-summary",
    "pt-mysql-summary",
    "fio",
    "cat",
    "uname",
    "mariadb-install-db",
    "python3",
)
CONSOLE_SCRIPT = "from volbench.cli.main import main\nmain()\n"


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory as /tmp, with what an attacker leaves there: modules, programs, libraries' configuration."""
    with hostile_user.shared_place() as directory:
        plant_modules(directory)
        code = """
import os, sys
directory, imported, *names = sys.argv[1:]
for name in names:
    path = directory + "/" + name
    if os.path.isdir(path):
        continue
    with open(path, "w") as file:
        file.write("#!/bin/sh\\necho program " + name + " >> " + imported + "\\n")
    os.chmod(path, 0o755)
for name in (".my.cnf", "my.cnf", ".mylogin.cnf", ".gitconfig"):
    with open(directory + "/" + name, "w") as file:
        file.write("[client]\\npager=sh\\n[core]\\nfsmonitor=./sh\\n")
"""
        as_nobody(code, directory, directory / "imported", *PROGRAMS)
        yield directory


def command(directory: Path, script: Path, *arguments: object) -> subprocess.Popen[str]:
    """volbench's command as it is installed, with an empty entry in PATH, which means the working directory."""
    script.write_text(CONSOLE_SCRIPT)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment |= {"PYTHONPATH": str(hostile_user.RUNNER), "PATH": f":{os.environ['PATH']}", "EDITOR": "./sh"}
    return subprocess.Popen(
        [sys.executable, str(script), *map(str, arguments)],
        cwd=directory,
        env=environment,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def test_a_run_starts_nothing_of_the_working_directory(
    directory: Path, local: live_run.Bench, tmp_path: Path
) -> None:
    volumes = [argument for name, path in local.volumes.items() for argument in ("--volume", f"{name}=path:{path}")]
    flavor = ["engine.flavor=mariadb"] if ScratchServer(tmp_path).mariadb else []
    settings = [argument for setting in (*live_run.SMALL, *flavor) for argument in ("--set", setting)]
    running = command(
        directory,
        tmp_path / "script",
        "run",
        live_run.SUITE,
        "--target",
        "local",
        *volumes,
        *settings,
        "--yes",
        "--out",
        local.results,
    )
    output, _ = running.communicate(timeout=live_run.BOUND_S)
    assert running.returncode in live_run.FINISHED, output
    assert imported_from(directory) == []
    local.assert_all_done_once()


def test_an_observation_starts_nothing_of_the_working_directory(directory: Path, tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory() as short, scratch_server(Path(short)) as server:  # a short path
        server.query(f"CREATE USER watch@localhost IDENTIFIED BY '{PASSWORD}'")
        server.query("GRANT SELECT ON performance_schema.* TO watch@localhost")
        server.query("GRANT PROCESS ON *.* TO watch@localhost")
        options = tmp_path / "watch.cnf"
        options.touch(mode=0o600)
        options.write_text(f'[client]\nuser=watch\npassword="{PASSWORD}"\n')
        socket = os.path.relpath(server.socket, directory)
        running = command(
            directory,
            tmp_path / "script",
            "observe",
            "--server",
            f"mysql://watch@localhost?socket={socket}",
            "--option-file",
            os.path.relpath(options, directory),
            "--out",
            os.path.relpath(tmp_path / "out", directory),
        )
        try:
            wait_for(
                lambda: running.poll() is not None or any(segments_in(tmp_path / "out" / "ring")),
                "nothing was read",
            )
        finally:
            running.send_signal(signal.SIGINT)
            output, _ = running.communicate(timeout=60)
    assert running.returncode == 0, output
    assert imported_from(directory) == []
