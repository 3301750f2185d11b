"""The ddl step: creates, opens, alters and drops thousands of tables; temporary tables; binary log rotation.

Statements contain names unquoted: this module makes them.
"""

# ruff: noqa: S608

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from volbench.core.records.base import Scalar
from volbench.core.records.metrics import metric
from volbench.core.records.steps.ddl import DDL_PHASES, DdlPhase, DdlStep
from volbench.errors import MissingPrerequisite
from volbench.measure.workload.cold.cold_files import make_cold
from volbench.measure.workload.files import require_step_space
from volbench.measure.workload.interface import StepContext, StepOutcome, SubResult, Workload
from volbench.measure.workload.scratch import require_own_volume
from volbench.measure.workload.timed import Timed, timed_operations

SCHEMA = "volbench_ddl"
_TABLE_DEFINITIONS_MIN = 400
"""MySQL's smallest table_definition_cache."""
_OPEN_FILES_MIN = 10
_TEMPORARY_ROWS = ", ".join(f"({number}, REPEAT('x', 200))" for number in range(20))
_ONE_AT_A_TIME = ("binlog_rotation",)


class Ddl(Workload[DdlStep]):
    """Works in a schema of its own on the cell's server, and drops the schema."""

    kind = "ddl"

    def check(self, step: DdlStep, ctx: StepContext) -> None:
        """Check that volbench started the server, the free space, and the binary log if it is rotated.

        Raises MissingPrerequisite.
        """
        require_own_volume(step.name, ctx)
        require_step_space(ctx.volume_dir, step.temporary_bytes(), purpose=f"the tables of step {step.name}")
        if "binlog_rotation" in step.phases and not _has_binlog(ctx):
            raise MissingPrerequisite(
                "the server has no binary log to rotate",
                where=f"step {step.name}",
                next_step="set engine.config.log_bin, or remove the phase binlog_rotation",
            )

    def run(self, step: DdlStep, ctx: StepContext) -> StepOutcome:
        """Run the phases in their order. Raises StepFailed."""
        begun_s = ctx.clock.now_s()
        _drop_schema(step, ctx)
        ctx.server.query(f"CREATE DATABASE {SCHEMA}")
        try:
            sub_results = [_phase(phase, step, ctx) for phase in DDL_PHASES if phase in step.phases]
        finally:
            if ctx.server.alive():
                ctx.progress("dropping the tables", None)
                _drop_schema(step, ctx)
        total_s = sum(sub_result.outcome.metrics["ddl_s"].value for sub_result in sub_results)
        return StepOutcome(
            window_s=(begun_s, ctx.clock.now_s()),
            metrics={"ddl_total_s": metric("ddl_total_s", total_s)},
            details={"schema": SCHEMA},
            sub_results=tuple(sub_results),
        )


def _open_phase(step: DdlStep, ctx: StepContext) -> SubResult:
    """Open every table once on a server whose caches of open tables are empty and small.

    The server is restarted and its files are evicted: FLUSH TABLES alone leaves InnoDB's files open.
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
    opened = _timed_phase("open", step, ctx)
    ctx.server.stop()
    ctx.server.start()
    note = f"the server's start with {step.tables} more tables took {start_s:.2f} s"
    outcome = dataclasses.replace(
        opened.outcome,
        metrics=opened.outcome.metrics | {"server_start_s": metric("server_start_s", start_s)},
        notes=(note,),
        details={"files": len(cold.files), "resident_pages_before": cold.resident, "pages": cold.pages},
    )
    return dataclasses.replace(opened, outcome=outcome)


def _phase(phase: DdlPhase, step: DdlStep, ctx: StepContext) -> SubResult:
    return _open_phase(step, ctx) if phase == "open" else _timed_phase(phase, step, ctx)


def _timed_phase(phase: DdlPhase, step: DdlStep, ctx: StepContext) -> SubResult:
    jobs = 1 if phase in _ONE_AT_A_TIME else step.threads
    with _connected(ctx, jobs, timeout_s=step.timeout_s) as cursors:
        timed = timed_operations(
            [_statements(phase, number) for number in range(step.statements(phase))],
            [_execute_job(cursor) for cursor in cursors],
            label=f"{step.name}: {phase}",
            timeout_s=step.timeout_s,
            cancelled=ctx.cancelled,
            on_progress=lambda share: ctx.progress(f"tables: {phase}", share),
        )
    for row in timed.histogram_rows(ctx.clock, step=f"{step.name}/{phase}"):
        ctx.record.histogram(row)
    return _sub_result(phase, step, ctx, timed)


def _statements(phase: DdlPhase, number: int) -> tuple[str, ...]:  # noqa: PLR0911 - one for each phase
    """Return the statements of one operation."""
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


def _execute_job(cursor: Any) -> Callable[[tuple[str, ...]], object]:
    def execute(statements: tuple[str, ...]) -> None:
        for statement in statements:
            cursor.execute(statement)
            if cursor.description:
                cursor.fetchall()

    return execute


@contextlib.contextmanager
def _connected(ctx: StepContext, connections: int, *, timeout_s: float) -> Iterator[Sequence[Any]]:
    """Yield a cursor for each job, each of its own connection."""
    with contextlib.ExitStack() as stack:
        connections_opened = [
            stack.enter_context(ctx.server.connect(SCHEMA, timeout_s=timeout_s)) for _ in range(connections)
        ]
        yield [stack.enter_context(connection.cursor()) for connection in connections_opened]


def _sub_result(phase: DdlPhase, step: DdlStep, ctx: StepContext, timed: Timed) -> SubResult:
    values = {"ddl_per_s": len(timed.ends_s) / timed.seconds, "ddl_s": timed.seconds}
    parameters: dict[str, Scalar] = {"tables": step.tables, "threads": step.threads}
    return SubResult(
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
