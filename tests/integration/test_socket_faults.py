"""The n-th call of a socket fails, for every n of a capture on a real server: one message, the right exit code."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from scratch_server import ScratchServer, scratch_server

SHIM = Path(__file__).parents[1] / "support" / "faults" / "shim.c"
TIMEOUT_S = 3600
pytestmark = pytest.mark.mysqld


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScratchServer]:
    with scratch_server(tmp_path_factory.mktemp("server")) as running:
        running.query("CREATE DATABASE shop")
        yield running


def sweep(server: ScratchServer, directory: Path, *arguments: str) -> str:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("cc is not there")
    library, work = directory / "shim.so", directory / "work"
    work.mkdir()
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-Wall", "-o", library, SHIM], check=True)
    dsn = f"mysql://bench@localhost/shop?socket={server.socket}"
    ended = subprocess.run(
        [sys.executable, "-m", "faults.sockets", str(work), dsn, str(server.option_file), *arguments],
        env={**os.environ, "LD_PRELOAD": str(library), "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def test_some_calls_fail(server: ScratchServer, tmp_path: Path) -> None:
    assert " 0 wrong" in sweep(server, tmp_path, "--every", "40")


@pytest.mark.slow
@pytest.mark.timeout(TIMEOUT_S)
def test_every_call_fails_once(server: ScratchServer, tmp_path: Path) -> None:
    assert " 0 wrong" in sweep(server, tmp_path)
