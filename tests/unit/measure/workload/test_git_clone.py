"""git clone of a repository made with a fixed seed: real git, on this machine's disk."""

from __future__ import annotations

import shutil
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import ValidationError

from volbench.core.records.steps.small_files import FILE_PHASES, SmallFilesStep
from volbench.measure.workload.file_steps.file_tree import Content, planned_tree
from volbench.measure.workload.file_steps.git_clone import clone, make_repository
from volbench.measure.workload.files import CpuMeter
from volbench.measure.workload.interface import StepContext

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@dataclass
class Context:
    scratch_dir: Path
    cancelled: threading.Event


def made(directory: Path, *, seed: int) -> tuple[Path, StepContext, SmallFilesStep]:
    directory.mkdir()
    ctx = cast(StepContext, cast(Any, Context(directory, threading.Event())))
    step = SmallFilesStep(files=120, total_size="300kB", phases=("clone",))  # type: ignore[call-arg]
    files = planned_tree(step, directory / "tree", seed=seed)
    content = Content(max(file.size for file in files), seed=seed)
    make_repository(files, content, directory / "r.git", below=f"{directory}/tree", ctx=ctx)
    return directory / "r.git", ctx, step


def head(repository: Path) -> str:
    argv = ["git", "-c", "safe.directory=*", f"--git-dir={repository}", "rev-parse", "main"]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()


def test_the_clone_holds_every_file_with_its_planned_bytes(tmp_path: Path) -> None:
    repository, ctx, step = made(tmp_path / "a", seed=1)
    clone(repository, tmp_path / "work", ctx, timeout_s=60)
    files = planned_tree(step, tmp_path / "work", seed=1)
    content = Content(max(file.size for file in files), seed=1)
    assert (
        len([path for path in (tmp_path / "work").rglob("*") if path.is_file() and ".git" not in path.parts]) == 120
    )
    assert all(Path(file.path).read_bytes() == bytes(content.of(file)) for file in files)
    assert list((tmp_path / "work/.git/objects/pack").glob("*.pack"))


def test_one_seed_makes_one_commit_and_another_seed_another(tmp_path: Path) -> None:
    first, second, result = (
        head(made(tmp_path / name, seed=seed)[0]) for name, seed in (("a", 1), ("b", 1), ("c", 2))
    )
    assert first == second
    assert first != result


def test_clone_needs_no_other_phase_and_is_no_default() -> None:
    assert "clone" in FILE_PHASES
    assert "clone" not in SmallFilesStep().phases
    with pytest.raises(ValidationError, match="create"):
        SmallFilesStep(phases=("clone", "copy"))


def test_cpu_time_counts_this_process_and_its_children() -> None:
    meter = CpuMeter()
    subprocess.run(["sh", "-c", "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done"], check=True)
    assert meter.metrics()["cpu_user_s"] > 0
