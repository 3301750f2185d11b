"""An unprivileged user beside root, who plants things in places that everybody may write to."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import command_line

NOBODY = 65534
TREASURE = "treasure\n"
"""What only root may read."""
RUNNER = Path(__file__).parents[2] / "runner"
MARKER_TEXT = '{"schema": 1, "created_at": "2026-01-01T00:00:00+00:00", "purpose": "x", "run_id": "", "token": "0"}'


_DROP = f"""
import ctypes, json, os, sys, time
os.setgroups([])
os.setresgid({NOBODY}, {NOBODY}, {NOBODY})
os.setresuid({NOBODY}, {NOBODY}, {NOBODY})
"""
"""What the attacker imports is imported before: the interpreter itself may lie where only root reads."""


def as_nobody(code: str, *arguments: str | Path) -> None:
    """Run Python code as the unprivileged user; `arguments` are its sys.argv[1:]. AssertionError when it fails."""
    command = [sys.executable, "-I", "-c", _DROP + code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, cwd="/")
    assert done.returncode == 0, done.stderr


@contextmanager
def attacking(code: str, *arguments: str | Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run Python code as the unprivileged user for the time of the block, then end it."""
    command = [sys.executable, "-I", "-c", _DROP + code, *map(str, arguments)]
    process = subprocess.Popen(command, cwd="/", stdin=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait(60)


@contextmanager
def shared_place(mode: int = 0o1777) -> Iterator[Path]:
    """A directory on a real disk in which every user may make files, as in /tmp."""
    path = Path(tempfile.mkdtemp(prefix="vbhostile", dir="/var/tmp"))
    path.chmod(mode)
    try:
        yield path
    finally:
        subprocess.run(["rm", "-rf", "--one-file-system", str(path)], check=True, timeout=60)


def plant(directory: Path, links: dict[str, Path], *, marker: bool = True) -> None:
    """Make a directory as the unprivileged user, with a forged marker and symbolic links."""
    code = """
directory, marker, *pairs = sys.argv[1:]
os.makedirs(directory, exist_ok=True)
os.chmod(directory, 0o777)
if marker:
    with open(directory + "/.volbench-owned.json", "w") as file:
        file.write(marker)
for name, victim in zip(pairs[::2], pairs[1::2]):
    os.makedirs(os.path.dirname(directory + "/" + name), exist_ok=True)
    os.symlink(victim, directory + "/" + name)
"""
    pairs = [str(term) for pair in links.items() for term in pair]
    as_nobody(code, directory, MARKER_TEXT if marker else "", *pairs)


def volbench(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A command of root's, in a process of its own, as a user gives it."""
    environment = {**os.environ, "PYTHONPATH": str(RUNNER), "COLUMNS": "200", **variables}
    return subprocess.run(
        [sys.executable, "-m", "volbench", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=environment,
        stdin=subprocess.DEVNULL,
    )


def volbench_in_process(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A command of root's in this process: what is refused is refused here too, without a second of imports."""
    return command_line.volbench(*arguments, environment={"COLUMNS": "200"})


_PARENT = "import os, sys; os.makedirs(os.path.dirname(sys.argv[1]), exist_ok=True)"


def plant_pipe(path: Path) -> None:
    as_nobody(f"{_PARENT}; os.mkfifo(sys.argv[1])", path)


def plant_link(path: Path, target: Path) -> None:
    as_nobody(f"{_PARENT}; os.symlink(*sys.argv[:0:-1])", path, target)
