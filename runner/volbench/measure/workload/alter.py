"""The alter step: one change of one large table, timed. Names are checked by the step's model."""

# ruff: noqa: S608

from __future__ import annotations

import contextlib
from typing import Any

import mysql.connector

from volbench.core.records.metrics import metric
from volbench.core.records.steps.alter import AlterStep
from volbench.errors import MissingPrerequisite, StepFailed, UsageError
from volbench.measure.workload.failures import tool_failure, with_server_cause
from volbench.measure.workload.files import require_step_space
from volbench.measure.workload.interface import StepContext, StepOutcome, Workload
from volbench.measure.workload.long_statement import LongStatement
from volbench.measure.workload.process import require_tool, run_tool, tool_version
from volbench.measure.workload.schema_data import rows_and_bytes
from volbench.measure.workload.state import LAST_WRITE

PT_OSC = "pt-online-schema-change"
_SPACE_FACTOR = 1.5
_TRIAL = "volbench_alter_trial"
Run = tuple[tuple[float, float], dict[str, Any]]
"""The window and the details."""


class Alter(Workload[AlterStep]):
    """Runs ALTER TABLE, or pt-online-schema-change."""

    kind = "alter"

    def check(self, step: AlterStep, ctx: StepContext) -> None:
        """Check that the server or the tool accepts the change, and the free space for a copy of the table.

        The server's own answer counts: the change is tried on an empty copy of the table. Raises
        MissingPrerequisite, UsageError.
        """
        _, table_bytes = _rows_and_bytes(step, ctx)
        if step.method == "pt-osc":
            _check_pt_osc(step, ctx)
        else:
            _try_on_empty_copy(step, ctx)
        if step.method != "instant":
            needed = table_bytes * _SPACE_FACTOR
            require_step_space(
                ctx.volume_dir, needed, purpose=f"the copy of {step.table} that step {step.name} makes"
            )

    def run(self, step: AlterStep, ctx: StepContext) -> StepOutcome:
        """Change the table. Raises StepFailed with the server's or the tool's own words."""
        rows, _ = _rows_and_bytes(step, ctx)
        clause = _clause(step, ctx)
        if step.method == "pt-osc":
            window_s, details = _run_pt_osc(step, ctx, clause)
        else:
            window_s, details = _run_statement(step, ctx, clause)
        ctx.state[LAST_WRITE] = ctx.clock.now_s()
        seconds = window_s[1] - window_s[0]
        return StepOutcome(
            window_s=window_s,
            metrics={
                "alter_s": metric("alter_s", seconds),
                "alter_rows_per_s": metric("alter_rows_per_s", rows / seconds),
            },
            details={"table": step.table, "rows_about": rows, **details},
            notes=("rows are the server's estimate before the change",),
        )


def _run_statement(step: AlterStep, ctx: StepContext, clause: str) -> Run:
    sql = f"ALTER TABLE `{step.table}` {clause}, ALGORITHM={step.method.upper()}"
    statement = LongStatement(ctx, sql, timeout_s=step.timeout_s, database=ctx.dataset.schema_name)
    statement.run(lambda: ctx.progress(f"changing {step.table}", None), step_name=step.name, noun="ALTER TABLE")
    if statement.failure is not None:
        failure = StepFailed(
            f"the server did not change {step.table}", where=f"step {step.name}", evidence=statement.failure
        )
        raise with_server_cause(failure, ctx)
    return (statement.begun_s, statement.ended_s), {"command": sql}


def _run_pt_osc(step: AlterStep, ctx: StepContext, clause: str) -> Run:
    """Run the tool without its limits of Threads_running, which would stop it under the load to be measured."""
    begun_s = ctx.clock.now_s()
    options = [
        "--execute",
        "--no-version-check",
        "--alter",
        clause,
        "--recursion-method",
        "none",
        "--max-load",
        "",
        "--critical-load",
        "",
    ]
    dsn = f"F={ctx.server.option_file},D={ctx.dataset.schema_name},t={step.table},A=utf8mb4"
    argv = [require_tool(PT_OSC), "--config", "", *options, dsn]
    with run_tool(argv, timeout_s=step.timeout_s, cancelled=ctx.cancelled, cwd=ctx.scratch_dir) as tool:
        try:
            for line in tool.lines():
                ctx.progress(f"{PT_OSC}: {line[:80]}", None)
            code = tool.wait()
        except StepFailed as failure:
            raise with_server_cause(failure, ctx) from failure
        if code != 0:
            raise tool_failure(tool, code, ctx, where=f"step {step.name}")
    return (begun_s, ctx.clock.now_s()), {"command": [PT_OSC, *options], "tool_version": tool_version(PT_OSC)}


def _clause(step: AlterStep, ctx: StepContext) -> str:
    """Return the change with a name that the table does not have yet."""
    schema = ctx.dataset.schema_name
    where = f"table_schema = '{schema}' AND table_name = '{step.table}'"
    names = {
        str(name).lower()
        for source, column in (("columns", "column_name"), ("statistics", "index_name"))
        for (name,) in ctx.server.query(f"SELECT {column} FROM information_schema.{source} WHERE {where}")
    }
    name = next(free for number in range(1, len(names) + 2) if (free := f"volbench_{number}") not in names)
    if step.change == "add_index":
        return f"ADD INDEX {name} (`{step.column}`)"
    return f"ADD COLUMN {name} INT NOT NULL DEFAULT 0"


def _rows_and_bytes(step: AlterStep, ctx: StepContext) -> tuple[int, int]:
    """Return the table's rows and bytes as the server estimates them. Raise UsageError without the table."""
    estimate = rows_and_bytes(ctx.server, ctx.dataset.schema_name, step.table)
    if estimate is None:
        raise UsageError(
            f"the dataset has no table {step.table}",
            where=f"step {step.name}",
            next_step="set the step's `table` to one of the dataset's tables",
        )
    return estimate


def _try_on_empty_copy(step: AlterStep, ctx: StepContext) -> None:
    """Raise MissingPrerequisite with the server's reason if it refuses the change of a table of this form."""
    schema = ctx.dataset.schema_name
    clause = _clause(step, ctx)
    try:
        ctx.server.query(f"CREATE TABLE `{schema}`.`{_TRIAL}` LIKE `{schema}`.`{step.table}`")
        ctx.server.query(f"ALTER TABLE `{schema}`.`{_TRIAL}` {clause}, ALGORITHM={step.method.upper()}")
    except (StepFailed, mysql.connector.Error) as refused:
        raise MissingPrerequisite(
            f"the server refuses the change of {step.table} by ALGORITHM={step.method.upper()}",
            where=f"step {step.name}",
            evidence=refused.evidence if isinstance(refused, StepFailed) else str(refused),
            next_step="use another `method`: inplace, copy or pt-osc",
        ) from refused
    finally:
        with contextlib.suppress(StepFailed, mysql.connector.Error):
            ctx.server.query(f"DROP TABLE IF EXISTS `{schema}`.`{_TRIAL}`")


def _check_pt_osc(step: AlterStep, ctx: StepContext) -> None:
    """Raise MissingPrerequisite for what it refuses: foreign keys that refer to the table; triggers."""
    require_tool(PT_OSC)
    schema = ctx.dataset.schema_name
    references = ctx.server.query(
        "SELECT table_name, constraint_name FROM information_schema.key_column_usage "
        f"WHERE referenced_table_schema = '{schema}' AND referenced_table_name = '{step.table}'"
    )
    triggers = ctx.server.query(
        "SELECT event_object_table, trigger_name FROM information_schema.triggers "
        f"WHERE event_object_schema = '{schema}' AND event_object_table = '{step.table}'"
    )
    for kind, rows in (("foreign keys that refer to it", references), ("triggers", triggers)):
        if rows:
            raise MissingPrerequisite(
                f"{PT_OSC} refuses {step.table}: it has {kind}",
                where=f"step {step.name}",
                evidence=", ".join(f"{table}.{name}" for table, name in rows),
                next_step="use `method: inplace` or `copy`, or another table",
            )
