"""The purge step: pt-archiver deletes old rows of one table. Names are checked by the step's model."""

# ruff: noqa: S608

from __future__ import annotations

import re

import mysql.connector

from volbench.core.records.metrics import metric
from volbench.core.records.steps.purge import PurgeStep
from volbench.errors import MissingPrerequisite, StepFailed, UsageError
from volbench.machine.engine.connection import as_text
from volbench.measure.workload.failures import tool_failure, with_server_cause
from volbench.measure.workload.interface import StepContext, StepOutcome, Workload
from volbench.measure.workload.process import require_tool, run_tool, tool_version
from volbench.measure.workload.schema_data import rows_and_bytes
from volbench.measure.workload.state import LAST_WRITE

PT_ARCHIVER = "pt-archiver"
_DELETED = re.compile(r"DELETE (\d+)")
"""A line of `--statistics`."""
_INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint")


class Purge(Workload[PurgeStep]):
    """Runs pt-archiver --purge."""

    kind = "purge"

    def check(self, step: PurgeStep, ctx: StepContext) -> None:
        """Check that pt-archiver is installed, and that the server accepts the condition.

        Raises MissingPrerequisite, UsageError.
        """
        require_tool(PT_ARCHIVER)
        schema = ctx.dataset.schema_name
        if rows_and_bytes(ctx.server, schema, step.table) is None:
            raise UsageError(
                f"the dataset has no table {step.table}",
                where=f"step {step.name}",
                next_step="set the step's `table` to one of the dataset's tables",
            )
        try:
            ctx.server.query(f"SELECT 1 FROM `{schema}`.`{step.table}` WHERE {_condition(step, ctx)} LIMIT 1")
        except (StepFailed, mysql.connector.Error) as refused:
            raise UsageError(
                "the server refuses the condition",
                where=f"step {step.name}: where",
                evidence=refused.evidence if isinstance(refused, StepFailed) else str(refused),
            ) from refused

    def run(self, step: PurgeStep, ctx: StepContext) -> StepOutcome:
        """Delete the rows. Raises StepFailed with the tool's own words."""
        condition = _condition(step, ctx)
        dsn = f"F={ctx.server.option_file},D={ctx.dataset.schema_name},t={step.table},A=utf8mb4"
        options = [
            "--purge",
            "--where",
            condition,
            "--limit",
            f"{step.chunk}",
            "--bulk-delete",
            "--commit-each",
            "--primary-key-only",
            "--statistics",
            "--no-version-check",
            "--no-check-charset",
        ]
        argv = [require_tool(PT_ARCHIVER), "--config", "", "--source", dsn, *options]
        deleted = 0
        begun_s = ctx.clock.now_s()
        with run_tool(argv, timeout_s=step.timeout_s, cancelled=ctx.cancelled, cwd=ctx.scratch_dir) as tool:
            ctx.progress(f"{PT_ARCHIVER} deletes rows of {step.table}", None)
            try:
                for line in tool.lines():
                    if match := _DELETED.fullmatch(line.strip()):
                        deleted = int(match[1])
                code = tool.wait()
            except StepFailed as failure:
                raise with_server_cause(failure, ctx) from failure
            if code != 0:
                raise tool_failure(tool, code, ctx, where=f"step {step.name}")
            output = tool.error_output()
        ended_s = ctx.clock.now_s()
        ctx.state[LAST_WRITE] = ended_s
        if not deleted:  # it prints no statistics then
            raise StepFailed(
                f"{PT_ARCHIVER} deleted no row of {step.table}",
                where=f"step {step.name}",
                evidence=f"WHERE {condition}; {output}".strip("; "),
                next_step="set `where` or `share` so that rows of the table match",
            )
        return StepOutcome(
            window_s=(begun_s, ended_s),
            metrics={
                "purge_s": metric("purge_s", ended_s - begun_s),
                "purge_rows_per_s": metric("purge_rows_per_s", deleted / (ended_s - begun_s)),
            },
            details={
                "table": step.table,
                "rows": deleted,
                "command": [PT_ARCHIVER, *options],
                "tool_version": tool_version(PT_ARCHIVER),
            },
            notes=("the time includes the start of the tool",),
        )


def _condition(step: PurgeStep, ctx: StepContext) -> str:
    """Return the condition of the rows: the step's own, or the lowest part of the primary key's range."""
    if step.where:
        return step.where
    schema = ctx.dataset.schema_name
    key = ctx.server.query(
        "SELECT c.column_name, c.data_type FROM information_schema.statistics s JOIN information_schema.columns c "
        "ON c.table_schema = s.table_schema AND c.table_name = s.table_name AND c.column_name = s.column_name "
        f"WHERE s.table_schema = '{schema}' AND s.table_name = '{step.table}' AND s.index_name = 'PRIMARY'"
    )
    if len(key) != 1 or as_text(key[0][1]) not in _INTEGERS:
        columns = ", ".join(f"{as_text(name)} {as_text(kind)}" for name, kind in key) or "none"
        raise MissingPrerequisite(
            f"no part of {step.table} can be chosen by its primary key",
            where=f"step {step.name}: share",
            evidence=f"its primary key: {columns}",
            next_step="set `where` to a condition for the rows to delete",
        )
    column = as_text(key[0][0])
    ((lowest, highest),) = ctx.server.query(
        f"SELECT MIN(`{column}`), MAX(`{column}`) FROM `{schema}`.`{step.table}`"
    )
    if lowest is None:
        raise MissingPrerequisite(f"the table {step.table} is empty", where=f"step {step.name}")
    bound = int(lowest) + round(step.share * (int(highest) - int(lowest) + 1))
    return f"`{column}` < {bound}"
