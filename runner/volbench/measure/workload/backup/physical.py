"""A physical backup while the server runs: MySQL clones itself, MariaDB is read by mariadb-backup."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from pathlib import Path

from volbench.core.records.facts import ServerFacts
from volbench.core.records.steps.dump import DumpStep
from volbench.errors import MissingPrerequisite, StepFailed, UsageError, VolbenchError
from volbench.measure.workload.backup.dump_tools import InstalledTool, installed
from volbench.measure.workload.failures import with_server_cause
from volbench.measure.workload.interface import StepContext
from volbench.measure.workload.long_statement import LongStatement

BACKUP_TOOL = "mariadb-backup"
_CLONE_PLUGIN = "SELECT plugin_status FROM information_schema.plugins WHERE plugin_name = 'clone'"


def check_physical(step: DumpStep, ctx: StepContext) -> None:
    """Check the prerequisites for the server's flavor. Raise MissingPrerequisite, UsageError."""
    facts = ctx.server.facts()
    if step.to == "nowhere":
        raise UsageError(
            "a physical backup writes files and cannot be discarded",
            where=f"step {step.name}",
            next_step="use `to: volume`",
        )
    if not ctx.server.data_dir.is_dir():
        raise MissingPrerequisite(
            "the server's data directory is not visible from here, so it cannot be copied",
            where=f"step {step.name}",
            evidence=str(ctx.server.data_dir),
        )
    if facts.flavor == "mysql":
        _check_clone(step, ctx)
    else:
        _check_backup_tool(step, facts)


def _check_clone(step: DumpStep, ctx: StepContext) -> None:
    if step.to != "volume":
        raise UsageError(
            "MySQL clones into a directory that the server itself can write, which is on its volume",
            where=f"step {step.name}",
            next_step="use `to: volume`",
        )
    if ctx.server.query(_CLONE_PLUGIN) == [("ACTIVE",)]:
        return
    try:
        ctx.server.query("INSTALL PLUGIN clone SONAME 'mysql_clone.so'")
    except StepFailed as error:
        raise MissingPrerequisite(
            "this MySQL has no clone plugin, so it cannot make a physical backup of itself",
            where=f"step {step.name}",
            evidence=error.evidence,
            next_step="leave the step out, or use a server of version 8.0.17 or later with mysql_clone.so",
        ) from error


def _check_backup_tool(step: DumpStep, facts: ServerFacts) -> None:
    tool = installed(BACKUP_TOOL)
    made_for, runs = _series(tool.version), _series(facts.version)
    if made_for != runs:
        raise MissingPrerequisite(
            f"{BACKUP_TOOL} must be of the server's own version",
            where=f"step {step.name}",
            evidence=f"it is {tool.version}; the server is {facts.version}",
            next_step=f"install the {BACKUP_TOOL} that comes with this server",
        )


def _series(version: str) -> str:
    """Return `10.11` of `mariadb-backup based on MariaDB server 10.11.19-MariaDB`; empty when there is none."""
    match = re.search(r"(\d+\.\d+)\.\d+", version)
    return match[1] if match else ""


def backup_argv(step: DumpStep, ctx: StepContext, tool: InstalledTool, directory: Path) -> list[str]:
    """Return mariadb-backup's command line: it copies the data directory and the redo written meanwhile."""
    return [
        tool.path,
        f"--defaults-file={ctx.server.option_file}",
        "--backup",
        f"--target-dir={directory}",
        f"--datadir={ctx.server.data_dir}",
        f"--parallel={step.threads}",
    ]


def clone(step: DumpStep, ctx: StepContext, directory: Path, report: Callable[[int], None]) -> list[str]:
    """Let MySQL clone its data directory to `directory`, which it creates. Return the statement as a command.

    Raises StepFailed if the server refuses, at the timeout, or if the step is cancelled.
    """
    ((data_dir,),) = ctx.server.query("SELECT @@GLOBAL.datadir")
    server_path = Path(str(data_dir)).parent / directory.name
    statement = f"CLONE LOCAL DATA DIRECTORY = '{server_path}'"
    cloning = LongStatement(ctx, statement, timeout_s=step.timeout_s)
    cloning.run(lambda: report(_bytes_cloned(ctx)), step_name=step.name, noun="clone")
    if cloning.failure is not None:
        failure = StepFailed("MySQL could not clone itself", where=f"step {step.name}", evidence=cloning.failure)
        raise with_server_cause(failure, ctx)
    return ["mysql", "-e", "CLONE LOCAL DATA DIRECTORY = ..."]


def _bytes_cloned(ctx: StepContext) -> int:
    """Return MySQL's own count: the size of the files is their final one from the start."""
    with contextlib.suppress(VolbenchError):
        ((done,),) = ctx.server.query("SELECT COALESCE(SUM(data), 0) FROM performance_schema.clone_progress")
        return int(done)
    return 0
