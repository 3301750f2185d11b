"""What sysbench and the server must be able to do for an OLTP step, before anything runs."""

from __future__ import annotations

from volbench.core.base import programs
from volbench.core.records.steps.oltp import OltpStep
from volbench.errors import MissingPrerequisite, UsageError
from volbench.measure.workload.interface import StepContext
from volbench.measure.workload.process import require_tool, tool_version

_STATEMENTS_EACH_TABLE = {
    "oltp_read_write": 9,
    "oltp_read_only": 5,
    "oltp_write_only": 4,
    "oltp_insert": 0,
    "select_random_points": 0,
    "select_random_ranges": 0,
}
"""Prepared statements of each thread for each table; 1 for other tests."""


def check_sysbench(step: OltpStep) -> None:
    """Raise MissingPrerequisite for a sysbench that cannot run the step, UsageError for what none can."""
    version = tool_version("sysbench")
    if not version.startswith("sysbench 1."):
        raise MissingPrerequisite(f"sysbench 1.0 is needed; installed is {version!r}", where=f"step {step.name}")
    if len(step.threads) != 1:
        raise UsageError("one number of threads at a time", where=f"step {step.name}")
    if step.rate is not None and (step.rate < 1 or step.rate != round(step.rate)):
        raise UsageError(
            f"sysbench offers whole transactions per second, not {step.rate}", where=f"step {step.name}"
        )
    if step.rand_type not in _rand_types():
        raise MissingPrerequisite(
            f"{version} has no rand_type {step.rand_type}",
            where=f"step {step.name}",
            evidence=f"{version} offers {', '.join(sorted(_rand_types()))}",
        )


def _rand_types() -> frozenset[str]:
    """Return the distributions of the installed sysbench: 1.0 has no zipfian."""
    help_text = programs.run(
        [require_tool("sysbench"), "--help"], capture_output=True, text=True, timeout=20, check=False
    ).stdout
    line = next((line for line in help_text.splitlines() if "--rand-type" in line), "")
    return frozenset(line.partition("{")[2].partition("}")[0].replace(" ", "").split(","))


def check_prepared_statements(step: OltpStep, ctx: StepContext) -> None:
    """Raise MissingPrerequisite if the threads may prepare more statements than the server allows."""
    if step.script or step.options.get("db-ps-mode", step.options.get("db_ps_mode")) == "disable":
        return
    needed = step.threads[0] * (ctx.dataset.tables * _STATEMENTS_EACH_TABLE.get(step.test, 1) + 2)
    allowed = int(ctx.server.query("SELECT @@global.max_prepared_stmt_count")[0][0])
    if needed > allowed:
        raise MissingPrerequisite(
            f"{step.threads[0]} threads may prepare {needed} statements, the server allows {allowed}",
            where=f"step {step.name}",
            next_step=f"set max_prepared_stmt_count: {needed} in engine.config, or the option db-ps-mode: disable",
        )
