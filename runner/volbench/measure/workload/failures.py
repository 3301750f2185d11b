"""Failures of a step, with the evidence of the tool and the server."""

from __future__ import annotations

import signal
import time

from volbench.errors import StepFailed, VolbenchError
from volbench.machine.engine.failure import as_error
from volbench.machine.volume.trouble import check_volume_state, trouble_error
from volbench.measure.workload.interface import StepContext
from volbench.measure.workload.process import Tool

_SERVER_DOWN_TIMEOUT_S = 1.0
_POLL_S = 0.05


def tool_failure(tool: Tool, code: int, ctx: StepContext, *, where: str) -> VolbenchError:
    """Return the failure of a tool with exit code `code`: the server's if it is down, else the tool's output."""
    ended = (
        f"{tool.name} was ended by {_signal_name(-code)}"
        if code < 0
        else f"{tool.name} ended with exit code {code}"
    )
    cause = "tool_killed" if code < 0 else "tool_failed"
    return with_server_cause(StepFailed(ended, where=where, evidence=tool.error_output(), cause=cause), ctx)


def with_server_cause(failure: StepFailed, ctx: StepContext) -> VolbenchError:
    """Return the failure, or what is wrong with the server or the volume if that caused the failure.

    A tool may notice a dead server a moment before the supervisor does, so this polls the server for a while.
    """
    until = time.monotonic() + _SERVER_DOWN_TIMEOUT_S
    error = f"{failure.what}; {failure.evidence}"
    while (server_failure := ctx.server.failure(failure.where, error=error)) is None:
        if time.monotonic() > until or ctx.cancelled.is_set():
            return _with_volume_trouble(failure, ctx)
        time.sleep(_POLL_S)
    return _with_evidence(as_error(server_failure), failure)


def _with_volume_trouble(failure: StepFailed, ctx: StepContext) -> VolbenchError:
    trouble = check_volume_state(ctx.volume_dir) or check_volume_state(ctx.scratch_dir)
    if trouble is None:
        return failure
    return _with_evidence(trouble_error(trouble, where=failure.where), failure)


def _with_evidence(error: VolbenchError, failure: StepFailed) -> VolbenchError:
    error.evidence = "; ".join(text for text in (failure.what, failure.evidence, error.evidence) if text)
    return error


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
