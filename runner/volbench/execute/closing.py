"""Ends what a run has opened, in reverse order; a fault in that never hides why the run ended."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType

from volbench.errors import VolbenchError


def at_end(stack: ExitStack, action: Callable[[], object]) -> None:
    """Do `action` when the stack is closed. Its failure is told with the one that ends the run, or is the one."""

    def close(_kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None) -> None:
        try:
            action()
        except VolbenchError as trouble:
            if error is None:
                raise
            told_with(error, trouble)

    stack.push(close)


def told_with(error: BaseException, trouble: VolbenchError) -> None:
    """Add a fault of cleaning up to the evidence of the failure that came before it."""
    if isinstance(error, VolbenchError):
        seen = f"{trouble.where}: {trouble.what}" + (f" ({trouble.evidence})" if trouble.evidence else "")
        error.evidence = "; ".join(part for part in (error.evidence, f"when cleaning up: {seen}") if part)
