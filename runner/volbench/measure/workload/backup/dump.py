"""The dump step: a logical or physical backup, timed until its files are on stable storage."""

from __future__ import annotations

import contextlib
import math
import secrets
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO

from volbench.core.base.s3 import StoredObject
from volbench.core.base.units import MIB
from volbench.core.records.metrics import metric
from volbench.core.records.steps.dump import DumpStep
from volbench.errors import StepFailed, UsageError
from volbench.measure.workload.backup.dump_tools import InstalledTool, installed, mydumper_argv, mysqldump_argv
from volbench.measure.workload.backup.physical import BACKUP_TOOL, backup_argv, check_physical, clone
from volbench.measure.workload.backup.to_s3 import S3Object
from volbench.measure.workload.failures import tool_failure, with_server_cause
from volbench.measure.workload.files import require_step_space, sync_tree, tree_bytes
from volbench.measure.workload.interface import StepContext, StepOutcome, Workload
from volbench.measure.workload.process import run_tool
from volbench.measure.workload.schema_data import data_bytes
from volbench.measure.workload.state import LAST_DUMP, DumpFiles

SQL_FILE = "dump.sql"
_SPACE_FACTOR = 1.1


class Dump(Workload[DumpStep]):
    """Runs mysqldump or mydumper, or copies the server's files."""

    kind = "dump"

    def check(self, step: DumpStep, ctx: StepContext) -> None:
        """Check the tool and the free space for the dump. Raise MissingPrerequisite, UsageError."""
        if step.tool == "physical":
            check_physical(step, ctx)
        else:
            installed(step.tool)
        directory = _target_directory(step, ctx)
        if step.to == "s3":
            _s3_object(step, ctx).check()
        elif directory is not None:
            required_bytes = _expected_bytes(step, ctx) * _SPACE_FACTOR
            require_step_space(directory, required_bytes, purpose=f"the dump of step {step.name}")
        elif step.tool == "mydumper":
            raise UsageError(
                "mydumper writes files and cannot discard its dump",
                where=f"step {step.name}",
                next_step="use `to: volume` or `to: scratch`, or mysqldump",
            )

    def run(self, step: DumpStep, ctx: StepContext) -> StepOutcome:
        """Dump; the time ends when all files are synced, or the bucket has the object. Raises StepFailed."""
        tool = _tool(step, ctx)
        parent = _target_directory(step, ctx)
        directory = (
            None
            if parent is None
            else _empty_directory(parent / f"dump-{step.name or step.tool}", make=tool is not None)
        )
        expected = max(1, _expected_bytes(step, ctx))

        def report(written: int) -> None:
            name = tool.name if tool else "clone"
            ctx.progress(f"{name}: {written / MIB:.0f} MiB", min(0.99, written / expected))

        s3_object, stored = _s3_object(step, ctx) if step.to == "s3" else None, None
        begun_s = ctx.clock.now_s()
        if tool is None:
            assert directory is not None
            argv, written = clone(step, ctx, directory, report), 0
        else:
            argv = _argv(step, ctx, tool, directory)
            if s3_object is not None:
                stored = _dump_to_s3(step, ctx, argv, s3_object, report)
                written = stored.size_bytes
            else:
                written = _dump(step, ctx, argv, directory, report)
        dumped_s = ctx.clock.now_s()
        if directory is not None:
            sync_tree(directory)
            written = tree_bytes(directory)
        ended_s = ctx.clock.now_s()
        if directory is not None and step.tool != "physical":
            ctx.state[LAST_DUMP] = DumpFiles(
                tool=step.tool,
                directory=directory,
                size_bytes=written,
                schema=ctx.dataset.schema_name,
                begun_s=begun_s,
            )
        killed = step.stop_after_s is not None and ended_s - begun_s >= step.stop_after_s
        finished = {
            "dump_s": metric("dump_s", ended_s - begun_s),
            "dump_mib_per_s": metric("dump_mib_per_s", written / MIB / (ended_s - begun_s)),
        }
        note = f"the dump was killed after {ended_s - begun_s:.1f} s" if killed else "the dump was discarded"
        if s3_object is not None and stored is not None:
            note = _removal_note(s3_object, stored)
        return StepOutcome(
            window_s=(begun_s, ended_s),
            metrics={"dump_bytes": metric("dump_bytes", written)} | ({} if killed else finished),
            notes=("dump_s includes the fsync of all files", *_on_one_device(step, ctx)) if directory else (note,),
            details={
                "tool_version": tool.version if tool else f"MySQL {ctx.server.facts().version}",
                "command": [
                    Path(argv[0]).name,
                    *(argument for argument in argv[1:] if not argument.startswith("--defaults-file=")),
                ],
                "window_s": step.window_s,
                "fsync_s": None if directory is None else ended_s - dumped_s,
                "data_bytes": expected,
                "to": step.to,
            },
        )


def _dump(
    step: DumpStep, ctx: StepContext, argv: list[str], directory: Path | None, report: Callable[[int], None]
) -> int:
    """Run the tool; return the discarded bytes, 0 if files were written. Raise StepFailed."""
    dropped = 0
    with contextlib.ExitStack() as stack:
        stdout: IO[bytes] | int = subprocess.PIPE if directory is None else subprocess.DEVNULL
        if directory is not None and step.tool == "mysqldump":
            stdout = stack.enter_context((directory / SQL_FILE).open("wb"))
        tool = stack.enter_context(
            run_tool(argv, timeout_s=step.timeout_s, cancelled=ctx.cancelled, cwd=ctx.scratch_dir, stdout=stdout)
        )
        if step.stop_after_s is not None:
            killer = threading.Timer(step.stop_after_s, tool.process.kill)
            killer.start()
            stack.callback(killer.cancel)
        try:
            if directory is None:
                dropped = tool.drain(report, rate_limit_bytes_per_s=step.rate_limit_bytes_per_s or math.inf)
                code = tool.wait()
            else:
                code = tool.wait(lambda: report(tree_bytes(directory)))
        except StepFailed as failure:
            raise with_server_cause(failure, ctx) from failure
        if code != 0 and not (step.stop_after_s is not None and code == -signal.SIGKILL):
            raise tool_failure(tool, code, ctx, where=f"step {step.name}")
        if step.tool == "mydumper" and directory is not None and not (directory / "metadata").exists():
            raise StepFailed(
                "mydumper left no metadata file: the dump is incomplete",
                where=f"step {step.name}",
                evidence=tool.error_output(),
            )
    return dropped


def _dump_to_s3(
    step: DumpStep, ctx: StepContext, argv: list[str], s3_object: S3Object, report: Callable[[int], None]
) -> StoredObject:
    """Stream the dump into an object. Raise StepFailed, without an object."""
    expected = _expected_bytes(step, ctx)
    with run_tool(argv, timeout_s=step.timeout_s, cancelled=ctx.cancelled, cwd=ctx.scratch_dir) as tool:
        try:
            stored = s3_object.upload(tool, expected, report)
            code = tool.wait()
        except StepFailed as failure:
            raise with_server_cause(failure, ctx) from failure
        if code != 0:
            with contextlib.suppress(StepFailed):  # what the tool says is the cause
                s3_object.remove(stored)
            raise tool_failure(tool, code, ctx, where=f"step {step.name}")
    return stored


def _removal_note(s3_object: S3Object, stored: StoredObject) -> str:
    """Remove the measured dump; return what became of it."""
    try:
        s3_object.remove(stored)
    except StepFailed as failure:
        return f"{failure.what}: {failure.evidence}"
    return "dump_s ends when the bucket has the whole object, which volbench then removed"


def _s3_object(step: DumpStep, ctx: StepContext) -> S3Object:
    """Return an object of this dump's own: two may run at a time."""
    name = f"{ctx.dump_folder}/{step.name or step.tool}-{secrets.token_hex(4)}.sql"
    return S3Object(url=step.url, name=name, where=f"step {step.name}")


def _tool(step: DumpStep, ctx: StepContext) -> InstalledTool | None:
    """Return the program for the dump; None: the server copies its files itself."""
    if step.tool != "physical":
        return installed(step.tool)
    return None if ctx.server.facts().flavor == "mysql" else installed(BACKUP_TOOL)


def _expected_bytes(step: DumpStep, ctx: StepContext) -> int:
    """Return the approximate bytes to back up: one schema, or the whole server."""
    if step.tool == "physical":
        return tree_bytes(ctx.server.data_dir)
    return data_bytes(ctx.server, ctx.dataset.schema_name)


def _on_one_device(step: DumpStep, ctx: StepContext) -> tuple[str, ...]:
    """Return a note where the directory of another volume is on the volume itself."""
    volume = Path(ctx.volume_facts.path)
    if step.to != "directory" or not volume.exists() or volume.stat().st_dev != Path(step.directory).stat().st_dev:
        return ()
    return (f"{step.directory} is on the same device as the server's volume",)


def _argv(step: DumpStep, ctx: StepContext, tool: InstalledTool, directory: Path | None) -> list[str]:
    if step.tool == "physical" and directory is not None:
        return backup_argv(step, ctx, tool, directory)
    if step.tool == "mydumper" and directory is not None:
        return mydumper_argv(tool, ctx.server.option_file, ctx.dataset, threads=step.threads, directory=directory)
    return mysqldump_argv(tool, ctx.server.option_file, ctx.dataset.schema_name, ctx.server.facts())


def _target_directory(step: DumpStep, ctx: StepContext) -> Path | None:
    if step.to == "directory":
        return Path(step.directory) / ctx.dump_folder
    return {"volume": ctx.volume_dir, "scratch": ctx.scratch_dir}.get(step.to)


def _empty_directory(directory: Path, *, make: bool) -> Path:
    """Return an empty directory, or a free name for the server; an existing one is from an earlier dump."""
    if directory.exists():
        shutil.rmtree(directory)
    if make:
        directory.mkdir()
    return directory
