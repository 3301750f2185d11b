"""Commands that may hang in the kernel, and conditions that are waited for: each with a limit."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from volbench.core.base import programs

STEP_S_MAX = 30.0
_POLL_S = 0.02
_OUTPUT_BYTES_MAX = 4000


@dataclass(frozen=True, kw_only=True)
class CompletedCommand:
    """Exit code of a command, None if it did not end in time, and its output."""

    code: int | None
    output: str


def run(argv: Sequence[str], *, timeout_s: float = STEP_S_MAX) -> CompletedCommand:
    """Run a command and wait for it, at most `timeout_s`.

    A command that hangs in the kernel cannot be killed; this does not wait for it.
    """
    with tempfile.TemporaryFile() as output:
        process = programs.Popen(argv, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        try:
            code: int | None = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.end()
            code = None
        output.seek(0)
        return CompletedCommand(code=code, output=output.read(_OUTPUT_BYTES_MAX).decode(errors="replace").strip())


def wait_until(condition: Callable[[], bool], *, timeout_s: float) -> bool:
    """Poll until a condition is true; return False at the timeout."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_S)
    return True
