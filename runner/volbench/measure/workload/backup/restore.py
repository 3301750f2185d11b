"""The restore step: loads the cell's last dump into an empty schema, and compares it with its source."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from volbench.core.base.text import counted
from volbench.core.base.units import MIB
from volbench.core.records.metrics import metric
from volbench.core.records.steps.restore import RestoreStep
from volbench.errors import StepFailed
from volbench.machine.engine.connection import MemoryFile
from volbench.machine.engine.own_data.account import schema_account
from volbench.machine.engine.server import Server
from volbench.measure.workload.backup.dump import SQL_FILE
from volbench.measure.workload.backup.dump_tools import InstalledTool, installed, myloader_argv, mysql_argv
from volbench.measure.workload.failures import tool_failure, with_server_cause
from volbench.measure.workload.files import require_step_space, tree_bytes, visible_data_dir
from volbench.measure.workload.interface import StepContext, StepOutcome, Workload
from volbench.measure.workload.process import run_tool
from volbench.measure.workload.schema_data import TableSum, data_bytes, differences, sums_as_details, table_sums
from volbench.measure.workload.state import LAST_DUMP, LAST_WRITE, DumpFiles

_SPACE_FACTOR = 1.5
_DUMPED_BY = {"mysql": "mysqldump", "myloader": "mydumper"}
_SANDBOX_MARKS = (b"/*M!999999\\- ", b"/*!999999\\- ")


class Restore(Workload[RestoreStep]):
    """Runs mysql or myloader."""

    kind = "restore"

    def check(self, step: RestoreStep, ctx: StepContext) -> None:
        """Check the tool and the free space for a second copy. Raise MissingPrerequisite."""
        installed(step.tool)
        data_dir = visible_data_dir(ctx.server)
        if data_dir is not None:
            required_bytes = data_bytes(ctx.server, ctx.dataset.schema_name) * _SPACE_FACTOR
            require_step_space(data_dir, required_bytes, purpose=f"the schema that step {step.name} restores")

    def run(self, step: RestoreStep, ctx: StepContext) -> StepOutcome:
        """Load, compare, drop. Raise StepFailed if the load fails or the schemas differ."""
        dump = _dump_for(step, ctx)
        tool = installed(step.tool)
        schema = f"{dump.schema}_restored"
        with _fresh_schema(ctx, schema):
            begun_s = ctx.clock.now_s()
            argv = _load(step, ctx, tool, dump, schema)
            ended_s = ctx.clock.now_s()
            source = table_sums(ctx.server, dump.schema, ctx.progress)
            restored = table_sums(ctx.server, schema, ctx.progress)
        proven, note = _proof(step, ctx, dump, source, restored)
        return StepOutcome(
            window_s=(begun_s, ended_s),
            metrics={
                "restore_s": metric("restore_s", ended_s - begun_s),
                "restore_mib_per_s": metric("restore_mib_per_s", dump.size_bytes / MIB / (ended_s - begun_s)),
            },
            notes=(note, "restore_s ends with the last statement; the server may write dirty pages later"),
            details={
                "tool_version": tool.version,
                "command": [
                    tool.name,
                    *(argument for argument in argv[1:] if not argument.startswith("--defaults-file=")),
                ],
                "dump_bytes": dump.size_bytes,
                "equality": "proven" if proven else "not provable",
                "source": sums_as_details(source),
                "restored": sums_as_details(restored),
            },
        )


def _dump_for(step: RestoreStep, ctx: StepContext) -> DumpFiles:
    dump = ctx.state.get(LAST_DUMP)
    dump_tool = _DUMPED_BY[step.tool]
    if not isinstance(dump, DumpFiles) or dump.tool != dump_tool:
        raise StepFailed(
            f"this cell has no dump of {dump_tool} to restore",
            where=f"step {step.name}",
            next_step=f"put a dump step with `tool: {dump_tool}` and `to: volume` or `to: scratch` before it",
        )
    return dump


def _load(step: RestoreStep, ctx: StepContext, tool: InstalledTool, dump: DumpFiles, schema: str) -> list[str]:
    """Run the tool to its end and return its command line. Raise StepFailed."""
    with contextlib.ExitStack() as stack:
        option_file = stack.enter_context(_option_file(ctx, dump.schema, schema))
        report: Callable[[], None]
        stdin: IO[bytes] | None = None
        if step.tool == "mysql":
            argv = mysql_argv(tool, option_file, schema)
            sql = stack.enter_context((dump.directory / SQL_FILE).open("rb", buffering=0))
            _skip_sandbox_mark(sql)
            stdin = sql

            def report() -> None:
                ctx.progress(f"{tool.name}: restoring", min(0.99, sql.tell() / dump.size_bytes))
        else:
            argv = myloader_argv(
                tool,
                option_file,
                source=dump.schema,
                schema=schema,
                threads=step.threads,
                directory=dump.directory,
            )
            data_dir = visible_data_dir(ctx.server)

            def report() -> None:
                ctx.progress(f"{tool.name}: restoring", _share_loaded(data_dir, dump.schema, schema))

        child = stack.enter_context(
            run_tool(
                argv,
                timeout_s=step.timeout_s,
                cancelled=ctx.cancelled,
                cwd=ctx.scratch_dir,
                stdin=stdin,
                stdout=subprocess.DEVNULL,
            )
        )
        try:
            code = child.wait(report)
        except StepFailed as failure:
            raise with_server_cause(failure, ctx) from failure
        if code != 0:
            raise tool_failure(child, code, ctx, where=f"step {step.name}")
        return argv


@contextlib.contextmanager
def _option_file(ctx: StepContext, *schemas: str) -> Iterator[Path]:
    """Yield the option file of the load. Own data may name its tables so that their dump has other statements.

    So it is loaded as it was at first, with rights on its schemas only.
    """
    if not ctx.dataset.is_own or not isinstance(ctx.server, Server):
        yield ctx.server.option_file
        return
    trust = "log_bin_trust_function_creators"  # else a trigger takes rights on the whole server
    ((before,),) = ctx.server.query(f"SELECT @@GLOBAL.{trust}")
    ctx.server.query(f"SET GLOBAL {trust} = 1")
    try:
        with (
            schema_account(ctx.server.account, *schemas) as account,
            contextlib.closing(MemoryFile(account.option_file_text())) as file,
        ):
            yield file.path
    finally:
        if ctx.server.alive():
            ctx.server.query(f"SET GLOBAL {trust} = {int(before)}")


def _share_loaded(data_dir: Path | None, source: str, schema: str) -> float | None:
    if data_dir is None:
        return None
    return min(0.99, tree_bytes(data_dir / schema) / max(1, tree_bytes(data_dir / source)))


def _skip_sandbox_mark(sql: IO[bytes]) -> None:
    """Skip the first line of MariaDB's dumps, a command that no client knows in binary mode."""
    first = sql.readline(200)
    sql.seek(len(first) if first.startswith(_SANDBOX_MARKS) and first.endswith(b"\n") else 0)


def _proof(
    step: RestoreStep,
    ctx: StepContext,
    dump: DumpFiles,
    source: dict[str, TableSum],
    restored: dict[str, TableSum],
) -> tuple[bool, str]:
    """Return whether the restored schema is proven equal, with a note. Raise StepFailed if it differs."""
    mismatches = differences(source, restored)
    if not mismatches and source:
        return True, f"proven equal to its source: {counted(len(source), 'table')} by row count and checksum"
    if ctx.state.get(LAST_WRITE, -1.0) >= dump.begun_s and source.keys() == restored.keys():
        return False, "equality not provable: the source was written to after the dump began"
    raise StepFailed(
        "the restored data differs from the dumped data",
        where=f"step {step.name}",
        evidence="; ".join(mismatches[:10]) or "no table was restored",
        next_step="do not trust this backup path; compare the tables listed",
    )


@contextlib.contextmanager
def _fresh_schema(ctx: StepContext, schema: str) -> Iterator[None]:
    """Create an empty schema for the block; drop it afterwards if the server still runs."""
    ctx.server.query(f"DROP DATABASE IF EXISTS `{schema}`")
    ctx.server.query(f"CREATE DATABASE `{schema}`")
    try:
        yield
    finally:
        if ctx.server.alive():
            ctx.server.query(f"DROP DATABASE IF EXISTS `{schema}`")
