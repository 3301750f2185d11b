"""git clone of a local repository: what a checkout costs a volume, with git itself and without a network.

The repository is bare, lies on the agent's disk, and is made of the step's tree with a fixed seed: the same names,
sizes and bytes in every cell. `file://` makes git send a pack, index it and check the files out, as from a server.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from volbench.errors import StepFailed
from volbench.measure.workload.file_steps.file_tree import Content, SmallFile
from volbench.measure.workload.interface import StepContext
from volbench.measure.workload.process import require_tool, run_tool

_COMMITTER = b"committer volbench <volbench@example.invalid> 1451606400 +0000\n"  # 2016-01-01
_MAKE_TIMEOUT_S = 600.0


def make_repository(
    files: Sequence[SmallFile], content: Content, directory: Path, *, below: str, ctx: StepContext
) -> None:
    """Make a bare repository whose only commit has the files, in one pack. Raise StepFailed.

    Args:
        below: the part of the files' paths that is not in the repository.
    """
    shutil.rmtree(directory, ignore_errors=True)
    stream = directory.with_suffix(".stream")
    try:
        with stream.open("wb") as target:
            target.writelines(_fast_import(files, content, below=below))
        _git(["init", "--quiet", "--bare", "--initial-branch=main", str(directory)], ctx)
        with stream.open("rb") as source:
            _git([f"--git-dir={directory}", "fast-import", "--quiet"], ctx, stdin=source)
    finally:
        stream.unlink(missing_ok=True)


def clone(repository: Path, target: Path, ctx: StepContext, *, timeout_s: float) -> None:
    """Clone with a work tree, as from a server. Raise StepFailed."""
    _git(["clone", "--quiet", f"file://{repository}", str(target)], ctx, timeout_s=timeout_s)


def require_git() -> None:
    """Raise MissingPrerequisite without git."""
    require_tool("git")


def _fast_import(files: Iterable[SmallFile], content: Content, *, below: str) -> Iterator[bytes]:
    yield b"commit refs/heads/main\nmark :1\n" + _COMMITTER + b"data 4\ntree\n"
    for file in files:
        path = file.path.removeprefix(below).lstrip("/")
        yield f"M 100644 inline {path}\ndata {file.size}\n".encode()
        yield bytes(content.of(file))
        yield b"\n"
    yield b"\n"


def _git(
    arguments: Sequence[str], ctx: StepContext, *, stdin: object = None, timeout_s: float = _MAKE_TIMEOUT_S
) -> None:
    environment = {
        "HOME": str(ctx.scratch_dir),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "safe.directory",
        "GIT_CONFIG_VALUE_0": "*",
    }
    with run_tool(
        ["git", *arguments],
        timeout_s=timeout_s,
        cancelled=ctx.cancelled,
        cwd=ctx.scratch_dir,
        stdin=stdin,  # type: ignore[arg-type]
        stdout=subprocess.DEVNULL,
        env=environment,
    ) as git:
        if git.wait() != 0:
            raise StepFailed(f"git {arguments[0]} failed", evidence=git.error_output())
