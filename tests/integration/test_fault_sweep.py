"""The n-th call of the runner fails, for every n of a small run: nothing is lost, and `resume` completes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SHIM = Path(__file__).parents[1] / "support" / "faults" / "shim.c"
TIMEOUT_S = 3600


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that lets calls fail, compiled."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("cc is not there")
    path = tmp_path_factory.mktemp("shim") / "shim.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-Wall", "-o", path, SHIM], check=True)
    return path


def sweep(library: Path, directory: Path, *arguments: str) -> str:
    """What a sweep printed; it has to end without a fault that went wrong."""
    ended = subprocess.run(
        [sys.executable, "-m", "faults.sweep", str(directory), *arguments],
        env={**os.environ, "LD_PRELOAD": str(library), "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def test_some_calls_of_each_kind_fail(library: Path, tmp_path: Path) -> None:
    """A seeded sample of the sweep: the exit code is documented, there is one message, and nothing is left."""
    messages = sweep(library, tmp_path, "--most", "24")
    assert "24 faults, 0 wrong" in messages
    assert all(kind in messages.splitlines()[0] for kind in ("open", "write", "sync", "rename", "malloc"))


@pytest.mark.slow
@pytest.mark.timeout(TIMEOUT_S)
def test_every_call_fails_once(library: Path, tmp_path: Path) -> None:
    """Each n of opens, writes, syncs, renames, mkdirs, unlinks, reads; of allocations every n-th of 400."""
    assert " 0 wrong" in sweep(library, tmp_path)
