"""fio as a child process: one load, its output, and its failure."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path

from volbench.errors import StepFailed
from volbench.machine.volume.probe.fio import FioJob, fio_arguments
from volbench.measure.workload.process import run_tool

FIO = "fio"


def fio_output(job: FioJob, *, where: str, cwd: Path, cancelled: threading.Event, timeout_s: float) -> str:
    """Run fio with one load; return its output. Raise StepFailed with its error output, MissingPrerequisite."""
    lines: list[str] = []
    with run_tool(
        [FIO, *fio_arguments(job)], timeout_s=timeout_s, cancelled=cancelled, cwd=cwd, stdout=subprocess.PIPE
    ) as tool:
        lines += tool.lines()
        code = tool.wait()
        if code != 0:
            raise StepFailed(
                f"fio ended with exit code {code}",
                where=where,
                evidence=tool.error_output(),
                next_step="look for errors of the device in dmesg"
                if job.direct
                else "look for errors of the volume in the server's log and dmesg",
            )
    return "\n".join(lines)
