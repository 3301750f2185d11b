"""The ddl step: thousands of tables, each a file: made, opened, changed, dropped; temporary ones; log rotation.

Names go into statements as they are: they are made here.
"""

# ruff: noqa: S608

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from volbench.errors import EnvironmentLacks
from volbench.plan.cost import ddl_statements, step_bytes
from volbench.records.base import Scalar
from volbench.records.metrics import metric
from volbench.records.steps import DDL_PHASES, DdlPhase, DdlStep
from volbench.workload.cold_files import make_cold
from volbench.workload.files import require_space
from volbench.workload.interface import StepContext, StepOutcome, StepPart
from volbench.workload.scratch import require_own_volume
from volbench.workload.timed import Timed, timed_operations

SCHEMA = "volbench_ddl"
_TABLE_DEFINITIONS_MIN = 400
"""MySQL takes no smaller table_definition_cache."""
_OPEN_FILES_MIN = 10
_TEMPORARY_ROWS = ", ".join(f"({number}, REPEAT('x', 200))" for number in range(20))
_ONE_AT_A_TIME = ("binlog_rotation",)


class Ddl:
    """Works in a schema of its own on the cell's server, and drops it."""

    def check(self, step: DdlStep, ctx: StepContext) -> None:
        """Before anything runs: a server of our own, room, a binary log where it is rotated.

        Raises EnvironmentLacks.
        """
        require_own_volume(step.name, ctx)
        require_space(ctx.volume_dir, step_bytes(step), what=f"the tables of step {step.name}")
        if "binlog_rotation" in step.phases and not _has_binlog(ctx):
            raise EnvironmentLacks(
                "the server has no binary log to rotate",
                where=f"step {step.name}",
                next_step="set engine.config.log_bin, or leave the phase binlog_rotation out",
            )

    def run(self, step: DdlStep, ctx: StepContext) -> StepOutcome:
        """Run the phases in their order. Raises StepFailed."""
        begun_s = ctx.clock.now_s()
        _drop_schema(step, ctx)
        ctx.server.query(f"CREATE DATABASE {SCHEMA}")
        try:
            parts = [_phase(phase, step, ctx) for phase in DDL_PHASES if phase in step.phases]
        finally:
            if ctx.server.alive():
                ctx.progress("dropping the tables", None)
                _drop_schema(step, ctx)
        total_s = sum(part.outcome.metrics["ddl_s"].value for part in parts)
        return StepOutcome(
            window_s=(begun_s, ctx.clock.now_s()),
            metrics={"ddl_total_s": metric("ddl_total_s", total_s)},
            details={"schema": SCHEMA},
            parts=tuple(parts),
        )


def _opening(step: DdlStep, ctx: StepContext) -> StepPart:
    """Opens every table once on a server whose caches of open tables are empty and small.

    The server is restarted for it and its files are evicted: FLUSH TABLES alone leaves InnoDB's files open.
    """
    ctx.progress("restarting the server with small table caches", None)
    ctx.server.stop()
    cold = make_cold(ctx.server.data_dir / SCHEMA)
    start_s = ctx.server.start(
        {
            "table_open_cache": step.table_open_cache,
            "table_definition_cache": max(_TABLE_DEFINITIONS_MIN, step.table_open_cache),
            "innodb_open_files": max(_OPEN_FILES_MIN, step.table_open_cache),
        }
    )
    part = _worked("open", step, ctx)
    ctx.server.stop()
    ctx.server.start()
    note = f"the server's start with {step.tables} tables more took {start_s:.2f} s"
    outcome = dataclasses.replace(
        part.outcome,
        metrics=part.outcome.metrics | {"server_start_s": metric("server_start_s", start_s)},
        notes=(note,),
        details={"files": len(cold.files), "resident_pages_before": cold.resident, "pages": cold.pages},
    )
    return dataclasses.replace(part, outcome=outcome)


def _phase(phase: DdlPhase, step: DdlStep, ctx: StepContext) -> StepPart:
    return _opening(step, ctx) if phase == "open" else _worked(phase, step, ctx)


def _worked(phase: DdlPhase, step: DdlStep, ctx: StepContext) -> StepPart:
    jobs = 1 if phase in _ONE_AT_A_TIME else step.threads
    with _connected(ctx, jobs, timeout_s=step.timeout_s) as cursors:
        timed = timed_operations(
            [_statements(phase, number) for number in range(ddl_statements(step, phase))],
            [_executing(cursor) for cursor in cursors],
            what=f"{step.name}: {phase}",
            timeout_s=step.timeout_s,
            cancelled=ctx.cancelled,
            seen=lambda share: ctx.progress(f"tables: {phase}", share),
        )
    for row in timed.histogram_rows(ctx.clock, step=f"{step.name}/{phase}"):
        ctx.record.histogram(row)
    return _part(phase, step, ctx, timed)


def _statements(phase: DdlPhase, number: int) -> tuple[str, ...]:  # noqa: PLR0911 - one for each phase
    """The statements of one operation."""
    table = f"t{number:06d}"
    match phase:
        case "create":
            columns = (
                "id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, k INT NOT NULL, c VARCHAR(120) NOT NULL, KEY k (k)"
            )
            return (f"CREATE TABLE {table} ({columns}) ENGINE=InnoDB",)
        case "open":
            return (f"SELECT id FROM {table} LIMIT 1",)
        case "alter_inplace":
            return (f"ALTER TABLE {table} ADD INDEX c (c), ALGORITHM=INPLACE",)
        case "alter_copy":
            return (f"ALTER TABLE {table} FORCE, ALGORITHM=COPY",)
        case "temporary":
            return (
                f"CREATE TEMPORARY TABLE temporary_{number} (id INT PRIMARY KEY, c VARCHAR(200)) ENGINE=InnoDB",
                f"INSERT INTO temporary_{number} VALUES {_TEMPORARY_ROWS}",
                f"DROP TEMPORARY TABLE temporary_{number}",
            )
        case "binlog_rotation":
            return ("INSERT INTO t000000 (k, c) VALUES (1, 'x')", "FLUSH BINARY LOGS")
        case "drop":
            return (f"DROP TABLE {table}",)


def _executing(cursor: Any) -> Callable[[tuple[str, ...]], object]:
    def execute(statements: tuple[str, ...]) -> None:
        for statement in statements:
            cursor.execute(statement)
            if cursor.description:
                cursor.fetchall()

    return execute


@contextlib.contextmanager
def _connected(ctx: StepContext, connections: int, *, timeout_s: float) -> Iterator[Sequence[Any]]:
    """A cursor of a connection of its own for each job."""
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(ctx.server.connect(SCHEMA, timeout_s=timeout_s)) for _ in range(connections)]
        yield [stack.enter_context(one.cursor()) for one in opened]


def _part(phase: DdlPhase, step: DdlStep, ctx: StepContext, timed: Timed) -> StepPart:
    values = {"ddl_per_s": len(timed.ends_s) / timed.seconds, "ddl_s": timed.seconds}
    parameters: dict[str, Scalar] = {"tables": step.tables, "threads": step.threads}
    return StepPart(
        suffix=phase,
        kind=step.kind,
        parameters=parameters,
        outcome=StepOutcome(
            window_s=(ctx.clock.at_s(timed.window_ns[0]), ctx.clock.at_s(timed.window_ns[1])),
            metrics={name: metric(name, value) for name, value in values.items()} | timed.latency_metrics(),
        ),
    )


def _has_binlog(ctx: StepContext) -> bool:
    rows = ctx.server.query("SELECT @@GLOBAL.log_bin")
    return bool(rows) and str(rows[0][0]) in ("1", "ON")


def _drop_schema(step: DdlStep, ctx: StepContext) -> None:
    with ctx.server.connect(timeout_s=step.timeout_s) as connection, connection.cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS {SCHEMA}")
