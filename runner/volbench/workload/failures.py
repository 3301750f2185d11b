"""Failures of a step, told with what the tool and the server said."""

from __future__ import annotations

import signal

from volbench.errors import StepFailed
from volbench.workload.interface import StepContext
from volbench.workload.process import Tool

_LOG_LINES = 15


def tool_failure(tool: Tool, code: int, ctx: StepContext, *, where: str) -> StepFailed:
    """The failure of a tool that ended with `code`: the server's when it is down, else the tool's own words."""
    ended = (
        f"{tool.name} was ended by {_signal_name(-code)}"
        if code < 0
        else f"{tool.name} ended with exit code {code}"
    )
    return server_or(StepFailed(ended, where=where, evidence=tool.last_words()), ctx)


def server_or(failure: StepFailed, ctx: StepContext) -> StepFailed:
    """The failure itself, or the server's death when that is what is behind it."""
    if ctx.server.alive():
        return failure
    return StepFailed(
        f"the server went away: {ctx.server.why_down()}",
        where=failure.where,
        evidence=f"{failure.what}: {failure.evidence}\n{ctx.server.log_tail(_LOG_LINES)}".strip(),
        next_step="see the server's error log in the cell's raw/ directory",
    )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
