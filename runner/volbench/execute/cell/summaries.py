"""The pages of pt-summary and pt-mysql-summary on host and server, as support teams ask for them: raw/pt-*.txt.

They are taken after the last step, while the server still runs, in the first block alone: host and settings are the
same in the others, and each page costs a second.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from volbench.base.programs import Popen
from volbench.base.redact import redact

_log = logging.getLogger(__name__)
SUMMARIES = ("pt-summary", "pt-mysql-summary")
SLEEP_S = 1
"""Between the two readings of their counters; the tools' own default is 5 and 10."""
TIMEOUT_S = 30.0
KILL_TIMEOUT_S = 5.0


def write_summaries(directory: Path, *, option_file: Path, scratch_dir: Path) -> None:
    """Write a page of each tool that is installed. A tool that fails or takes too long leaves none, and a log line.

    Args:
        directory: for `pt-summary.txt` and `pt-mysql-summary.txt`; secrets are masked in them.
        option_file: of the server's account; the command line has no password.
        scratch_dir: for the tools' temporary files.
    """
    options = {"pt-summary": [], "pt-mysql-summary": ["--defaults-file", str(option_file)]}
    environment = {**os.environ, "LC_ALL": "C", "TMPDIR": str(scratch_dir)}
    directory.mkdir(parents=True, exist_ok=True)
    until_s = time.monotonic() + TIMEOUT_S
    with ExitStack() as running:
        processes = {
            name: running.enter_context(_started([path, *options[name], "--sleep", str(SLEEP_S)], environment))
            for name in SUMMARIES
            if (path := shutil.which(name))
        }
        for name, process in processes.items():
            page = _page(process, until_s - time.monotonic())
            if page:
                (directory / f"{name}.txt").write_text(redact(page), errors="replace")
            else:
                _log.info("%s left no page", name)


@contextmanager
def _started(command: Sequence[str], environment: Mapping[str, str]) -> Iterator[Popen[str]]:
    """Yield the running tool, a shell script; it and its children end with the block."""
    process = Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        errors="replace", env=environment, start_new_session=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:  # afterwards the number may be another group's
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        if process.stdout is not None:
            process.stdout.close()
        with suppress(subprocess.TimeoutExpired):  # a tool that waits for a device that hangs cannot be ended
            process.wait(KILL_TIMEOUT_S)


def _page(process: Popen[str], timeout_s: float) -> str:
    """Return what a tool printed; empty if it failed or took longer."""
    try:
        page, _ = process.communicate(timeout=max(timeout_s, 0.0))
    except subprocess.TimeoutExpired:
        return ""
    return page if process.returncode == 0 else ""
