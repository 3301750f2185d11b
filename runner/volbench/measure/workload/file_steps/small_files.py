"""The small_files step: operations on thousands of small files, phase by phase."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from volbench.core.base.units import MIB
from volbench.core.records.base import Scalar
from volbench.core.records.metrics import MetricValue, metric
from volbench.core.records.steps.small_files import FILE_PHASES, FilePhase, SmallFilesStep
from volbench.errors import StepFailed
from volbench.machine.volume.deleted_inodes import concerns, forget_deleted_inodes, sync_filesystem
from volbench.measure.workload.cold.cold_files import cold_details, difference, label_of, make_cold, why_not_cold
from volbench.measure.workload.file_steps.file_tree import (
    Content,
    SmallFile,
    copy_job,
    create_job,
    folders_of,
    objects_of,
    planned_tree,
    publish_job,
    read_job,
    remove_job,
    stat_job,
)
from volbench.measure.workload.file_steps.git_clone import clone, make_repository, require_git
from volbench.measure.workload.files import CpuMeter, require_step_space
from volbench.measure.workload.interface import StepContext, StepOutcome, SubResult, Workload
from volbench.measure.workload.process import tool_version
from volbench.measure.workload.scratch import require_own_volume, scratch_on_volume
from volbench.measure.workload.timed import Timed, timed_operations

_WITHOUT_CONTENT = ("stat", "delete")
_WRITING = ("clone", "create", "copy", "objects", "delete")


@dataclass(frozen=True, kw_only=True)
class _Tree:
    """The tree of one run of the step: its files, and the directories of their copies."""

    step: SmallFilesStep
    directory: Path
    files: list[SmallFile]
    objects: list[SmallFile]
    content: Content

    @property
    def source(self) -> str:
        return f"{self.directory}/tree"

    @property
    def target(self) -> str:
        return f"{self.directory}/copy"

    @property
    def size_bytes(self) -> int:
        return sum(file.size for file in self.files)


@dataclass(frozen=True, kw_only=True)
class _PhaseWork:
    """The work of a phase: `make` returns an operation for each job; `begin` and `finish` count for its time."""

    items: list[SmallFile]
    make: Callable[[], Callable[[SmallFile], object]]
    begin: Callable[[], object] = lambda: None
    finish: Callable[[], object] = lambda: None


class SmallFiles(Workload[SmallFilesStep]):
    """Creates a tree next to the data directory, works on it and removes it while the server is idle."""

    kind = "small_files"

    def check(self, step: SmallFilesStep, ctx: StepContext) -> None:
        """Check that volbench started the server, and the free space. Raise MissingPrerequisite."""
        require_own_volume(step.name, ctx)
        if "clone" in step.phases:
            require_git()
        require_step_space(ctx.volume_dir, step.temporary_bytes(), purpose=f"the files of step {step.name}")

    def run(self, step: SmallFilesStep, ctx: StepContext) -> StepOutcome:
        """Run the phases in their order. Raises StepFailed."""
        begun_s = ctx.clock.now_s()
        sub_results: list[SubResult] = []
        with scratch_on_volume(ctx, step.name) as directory:
            tree = _planned(step, directory, seed=ctx.seed)
            try:
                notes = ("the server was idle", *_after_deletions(ctx))
                if "clone" in step.phases:
                    sub_results.append(_clone(tree, ctx))
                sub_results += [_phase(phase, tree, ctx) for phase in FILE_PHASES[1:] if phase in step.phases]
            except OSError as error:
                raise StepFailed(
                    "an operation on a small file failed", where=f"step {step.name}", evidence=str(error)
                ) from error
            ended_s = ctx.clock.now_s()
            ctx.progress("removing the files", None)
        total_s = sum(
            sub_result.outcome.metrics["files_s"].value
            for sub_result in sub_results
            if sub_result.suffix != "read_warm"
        )
        return StepOutcome(
            window_s=(begun_s, ended_s),
            metrics={"files_total_s": metric("files_total_s", total_s)},
            notes=notes,
            details={"files": step.files, "size_bytes": tree.size_bytes},
            sub_results=tuple(sub_results),
        )


def _after_deletions(ctx: StepContext) -> tuple[str, ...]:
    """Keep files that were deleted before from slowing down new ones. Return a note where it is not permitted."""
    filesystem = ctx.volume_facts.filesystem
    if not concerns(filesystem, emulated=ctx.emulator_socket is not None):
        return ()
    if forget_deleted_inodes(ctx.volume_dir) or filesystem != "ext4":
        return ()
    return (
        "new files are slower on ext4 for some time after many were deleted; the machine's caches can be dropped"
        " against that between cells, by root, but not within a container",
    )


def _planned(step: SmallFilesStep, directory: Path, *, seed: int) -> _Tree:
    files = planned_tree(step, directory / "tree", seed=seed)
    return _Tree(
        step=step,
        directory=directory,
        files=files,
        objects=objects_of(files, directory / "objects", seed=seed),
        content=Content(max(file.size for file in files), seed=seed),
    )


def _clone(tree: _Tree, ctx: StepContext) -> SubResult:
    """git clone of the tree; only the clone itself is measured, not the making of its repository."""
    step, repository = tree.step, ctx.scratch_dir / "repository.git"
    ctx.progress("making a git repository", None)
    make_repository(tree.files, tree.content, repository, below=tree.source, ctx=ctx)
    ctx.progress("git clone", None)
    cpu, begun_ns = CpuMeter(), time.monotonic_ns()
    try:
        clone(repository, tree.directory / "clone", ctx, timeout_s=step.timeout_s)
        if step.sync != "none":
            sync_filesystem(tree.directory)
    finally:
        shutil.rmtree(repository, ignore_errors=True)
    ended_ns = time.monotonic_ns()
    seconds = (ended_ns - begun_ns) / 1e9
    values = {"files_s": seconds, "files_per_s": len(tree.files) / seconds} | cpu.metrics()
    return SubResult(
        suffix="clone",
        kind=step.kind,
        parameters=_parameters(step),
        outcome=StepOutcome(
            window_s=(ctx.clock.at_s(begun_ns), ctx.clock.at_s(ended_ns)),
            metrics={name: metric(name, value) for name, value in values.items()},
            notes=_notes("clone", step),
            details={"git": tool_version("git")},
        ),
    )


def _phase(phase: FilePhase, tree: _Tree, ctx: StepContext) -> SubResult:
    step, work = tree.step, _work(phase, tree)
    cold = make_cold(Path(tree.source)) if phase in ("read_cold", "stat") else None
    delivered_before = ctx.device_read_bytes()
    cpu = CpuMeter()
    timed = timed_operations(
        work.items,
        [work.make() for _ in range(step.jobs)],
        label=f"{step.name}: {phase}",
        timeout_s=step.timeout_s,
        cancelled=ctx.cancelled,
        on_progress=lambda share: ctx.progress(f"small files: {phase}", share),
        begin=work.begin,
        finish=work.finish,
    )
    cpu_metrics = {name: metric(name, value) for name, value in cpu.metrics().items()}
    delivered = difference(delivered_before, ctx.device_read_bytes())
    for row in timed.histogram_rows(ctx.clock, step=f"{step.name}/{phase}"):
        ctx.record.histogram(row)
    notes = list(_notes(phase, step))
    invalid: tuple[str, ...] = ()
    details: dict[str, Any] = {}
    if cold is not None and phase == "stat":
        dropped = "dropped" if cold.caches_dropped else "not dropped (no permission): some may be cached"
        notes.append(f"the machine's cached names and attributes were {dropped}")
    elif cold is not None:
        label = label_of(cold, ctx.volume_facts, read_bytes=tree.size_bytes, device_bytes=delivered)
        notes.append(f"reading small files: {label.label} ({label.reason})")
        invalid = why_not_cold(label, subject="reading small files")
        details = cold_details(
            cold, label, read_bytes=tree.size_bytes, device_bytes=delivered, relative_to=tree.directory
        )
    return _sub_result(
        phase, tree, timed, ctx, cpu_metrics=cpu_metrics, notes=tuple(notes), invalid=invalid, details=details
    )


def _work(phase: FilePhase, tree: _Tree) -> _PhaseWork:
    step, files = tree.step, tree.files
    fsync = step.sync == "each"
    end = _syncing(tree) if step.sync == "end" and phase in _WRITING else lambda: None
    match phase:
        case "create":
            return _PhaseWork(
                items=files,
                make=lambda: create_job(tree.content, fsync=fsync),
                begin=lambda: _make_folders(files),
                finish=end,
            )
        case "read_cold" | "read_warm":
            return _PhaseWork(items=files, make=read_job)
        case "stat":
            return _PhaseWork(items=files, make=stat_job)
        case "copy":
            return _PhaseWork(
                items=files,
                make=lambda: copy_job(tree.source, tree.target, fsync=fsync),
                begin=lambda: _make_folders(files, tree.source, tree.target),
                finish=end,
            )
        case "objects":
            return _PhaseWork(
                items=tree.objects,
                make=lambda: publish_job(tree.content, by=step.objects_publish, fsync=fsync),
                begin=lambda: _make_folders(tree.objects),
                finish=end,
            )
        case "clone":
            raise AssertionError("git works on the whole tree, not file by file")
        case "delete":
            return _PhaseWork(items=files, make=remove_job, finish=lambda: _remove_folders(files, end))


def _syncing(tree: _Tree) -> Callable[[], object]:
    return lambda: sync_filesystem(tree.directory)


def _make_folders(files: list[SmallFile], source: str = "", target: str = "") -> None:
    for folder in folders_of(files):
        Path(target + folder.removeprefix(source)).mkdir(parents=True)


def _remove_folders(files: list[SmallFile], end: Callable[[], object]) -> None:
    for folder in folders_of(files):
        os.rmdir(folder)
    end()


def _sub_result(
    phase: FilePhase,
    tree: _Tree,
    timed: Timed,
    ctx: StepContext,
    *,
    cpu_metrics: dict[str, MetricValue],
    notes: tuple[str, ...],
    invalid: tuple[str, ...],
    details: dict[str, Any],
) -> SubResult:
    per_s, mib_per_s = len(timed.ends_s) / timed.seconds, tree.size_bytes / MIB / timed.seconds
    values = {"files_s": timed.seconds}
    if phase == "read_warm":
        values |= {"warm_files_per_s": per_s, "warm_read_mib_per_s": mib_per_s}
    else:
        values |= {"files_per_s": per_s} | ({} if phase in _WITHOUT_CONTENT else {"files_mib_per_s": mib_per_s})
    return SubResult(
        suffix=phase,
        kind=tree.step.kind,
        parameters=_parameters(tree.step),
        outcome=StepOutcome(
            window_s=(ctx.clock.at_s(timed.window_ns[0]), ctx.clock.at_s(timed.window_ns[1])),
            metrics={name: metric(name, value) for name, value in values.items()}
            | cpu_metrics
            | timed.latency_metrics(),
            notes=notes,
            details=details,
            invalid_reasons=invalid,
        ),
    )


def _parameters(step: SmallFilesStep) -> dict[str, Scalar]:
    return {"files": step.files, "jobs": step.jobs, "sync": step.sync}


def _notes(phase: FilePhase, step: SmallFilesStep) -> tuple[str, ...]:
    if phase == "read_warm":
        return ("a second read: data come from the page cache, and only open and close may ask the server",)
    if phase in _WRITING and step.sync == "none":
        return ("nothing was synced: some data may be in memory only",)
    if phase in _WRITING and step.sync == "end":
        return ("the time includes the writeback of all files at the end",)
    return ()
