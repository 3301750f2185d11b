"""Every process is started by the launcher, `volbench.core.base.programs` and `volbench.core.base.workers`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from process_starts import process_starts

RUNNER = Path(__file__).parents[2] / "runner"
LAUNCHER = "the launcher"
SET_UP = "runs in the checkout before anything is installed, to install it"
RELEASE = "runs in the checkout, by who makes a release"
ALLOWED = {
    "volbench/core/base/environment.py": LAUNCHER,
    "volbench/core/base/programs.py": LAUNCHER,
    "volbench/core/base/workers.py": LAUNCHER,
    "volbench/machine/engine/enclosure.py": "becomes the server, in the place that the supervisor started",
    "bootstrap/command.py": SET_UP,
    "bootstrap/engine.py": SET_UP,
    "bootstrap/images.py": SET_UP,
    "bootstrap/offline.py": SET_UP,
    "bootstrap/packages.py": SET_UP,
    "release/artifacts.py": RELEASE,
    "release/trial.py": RELEASE,
    "release/wheels.py": RELEASE,
    "wheel.py": "compiles a crate for its wheel",
}


def test_every_process_is_started_by_the_launcher() -> None:
    starts = {str(path.relative_to(RUNNER)): process_starts(path.read_text()) for path in RUNNER.rglob("*.py")}
    assert len(starts) > 500
    past_the_launcher = [f"{name}: {result}" for name, result in starts.items() if result and name not in ALLOWED]
    assert past_the_launcher == []
    assert [name for name in ALLOWED if not starts[name]] == [], "such an exception needs no reason any more"


@pytest.mark.parametrize(
    "source",
    [
        "import subprocess; subprocess.run(['ls'])",
        "import subprocess as s; s.Popen(['ls'])",
        "from subprocess import check_output as ask; ask(['ls'])",
        "from subprocess import Popen as P\nclass Mine(P): ...",
        "import subprocess; start = subprocess.call",
        "import subprocess; getattr(subprocess, 'r' + 'un')(['ls'])",
        "import subprocess; print(subprocess.getoutput('ls'))",
        "__import__('subprocess').run(['ls'])",
        "import importlib; importlib.import_module('multiprocessing.pool')",
        "import os; os.system('ls')",
        "import os; os.popen('ls')",
        "from os import execv; execv('/bin/ls', [])",
        "import os as o; o.spawnlp(o.P_WAIT, 'ls')",
        "import os; os.posix_spawnp('ls', [], {})",
        "from os import posix_spawn",
        "from posix import system as s",
        "import os\nif os.fork() == 0: ...",
        "import os; os.forkpty()",
        "import pty; pty.spawn('sh')",
        "from multiprocessing import Process",
        "from multiprocessing import *",
        "from subprocess import *",
        "import multiprocessing as mp; mp.get_context('fork').Pool()",
        "import multiprocessing.pool",
        "from concurrent.futures import ProcessPoolExecutor as Pool; Pool()",
        "import concurrent.futures as f; f.ProcessPoolExecutor()",
        "from concurrent import futures; futures.ProcessPoolExecutor()",
        "import asyncio\nasync def run(): await asyncio.create_subprocess_exec('ls')",
        "async def run(loop): await loop.subprocess_shell(object, 'ls')",
        "import ctypes; ctypes.CDLL(None).system(b'ls')",
        "import ctypes; libc = ctypes.CDLL(None); start = libc.execve",
        "run(['ls'], shell=True)",
        "run(['ls'], shell=bool(1))",
        "run(['ls'], preexec_fn=print)",
        "import shutil; shutil.which('ls')",
        "from shutil import which",
        "import webbrowser; webbrowser.open('x')",
        "import typer; typer.launch('x')",
        "import click; click.edit()",
        "from rich.console import Console\nwith Console().pager(): ...",
        "import sys; sys.modules['subprocess'].run(['ls'])",
        "import os; os.__dict__['system']('ls')",
        "import os; vars(os)['system']('ls')",
        "import ctypes; ctypes.CDLL(None)['execve'](b'ls')",
        "from os import *; system('ls')",
    ],
)
def test_a_start_past_the_launcher_is_found(source: str) -> None:
    assert process_starts(source) != []


@pytest.mark.parametrize(
    "source",
    [
        "import subprocess\ndef end(process: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]: ...",
        "from subprocess import Popen\nclass A:\n    process: Popen[bytes] | None = None",
        "import subprocess\ntry: ...\nexcept subprocess.TimeoutExpired: subprocess.DEVNULL",
        "from volbench.core.base import programs; programs.run(['ls'], stdin=None)",
        "from concurrent.futures import ThreadPoolExecutor, ProcessPoolExecutor",
        "import platform; platform.system()",
        "import os; a = os.times(); b = a.system + 1",
        "run(['ls'], shell=False)",
        "re.run('x')",
    ],
)
def test_what_starts_nothing_is_not(source: str) -> None:
    assert process_starts(source) == []


@pytest.mark.parametrize(
    ("source", "rule"),
    [
        ("import subprocess\n\nsubprocess.run(argv)\n", "S603"),
        ('import subprocess\n\nsubprocess.run(["ls"])\n', "S607"),
        ('import subprocess\n\nsubprocess.run(f"ls {name}", shell=True)\n', "S602"),
        ("import pickle\n\npickle.loads(text)\n", "S301"),
        ("eval(text)\n", "S307"),
        ("import tarfile\n\ntarfile.open(name).extractall()\n", "S202"),
        ('cursor.execute(f"SELECT a FROM {table}")\n', "S608"),
    ],
)
def test_the_linter_names_what_is_unsafe(source: str, rule: str) -> None:
    """The rules of bandit, as ruff has them: `make check` fails on a new fault."""
    ruff = [sys.executable, "-m", "ruff", "check", "--output-format=concise"]
    done = subprocess.run(
        [*ruff, "--stdin-filename=runner/volbench/x.py", "-"],
        input=source,
        capture_output=True,
        text=True,
        check=False,
        cwd=RUNNER.parent,
        timeout=60,
    )
    assert rule in done.stdout, done.stdout + done.stderr
