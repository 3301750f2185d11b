"""Cleanup of what a run has opened, in reverse order; a failed cleanup never hides why the run ended."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType

from volbench.errors import VolbenchError


def push_cleanup(stack: ExitStack, action: Callable[[], object]) -> None:
    """Call `action` when the stack is closed; its failure is raised, or attached to the error that ends the run."""

    def close(_kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None) -> None:
        try:
            action()
        except VolbenchError as cleanup_error:
            if error is None:
                raise
            attach_cleanup_error(error, cleanup_error)

    stack.push(close)


def attach_cleanup_error(error: BaseException, cleanup_error: VolbenchError) -> None:
    """Add a failure of the cleanup to the evidence of the error that came before it."""
    if isinstance(error, VolbenchError):
        text = f"{cleanup_error.where}: {cleanup_error.what}" + (
            f" ({cleanup_error.evidence})" if cleanup_error.evidence else ""
        )
        error.evidence = "; ".join(filter(None, (error.evidence, f"when cleaning up: {text}")))
