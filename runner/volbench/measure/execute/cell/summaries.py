"""The pages of pt-summary and pt-mysql-summary on host and server, as support teams ask for them: raw/pt-*.txt.

They are taken after the last step, while the server still runs, in the first block alone: host and settings are the
same in the others, and each page costs a second.
"""

from __future__ import annotations

import logging
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from volbench.core.base.programs import Popen, environment, find_program
from volbench.core.base.redact import redact

_log = logging.getLogger(__name__)
SUMMARIES = ("pt-summary", "pt-mysql-summary")
SLEEP_S = 1
"""Between the two readings of their counters; the tools' own default is 5 and 10."""
_CONFIGURATION = re.compile(r"^# Configuration File #+\n.*?(?=^# )", re.MULTILINE | re.DOTALL)
TIMEOUT_S = 30.0


def write_summaries(directory: Path, *, option_file: Path, scratch_dir: Path) -> None:
    """Write a page of each tool that is installed. A tool that fails or takes too long leaves none, and a log line.

    Args:
        directory: for `pt-summary.txt` and `pt-mysql-summary.txt`; secrets are masked in them.
        option_file: of the server's account; the command line has no password.
        scratch_dir: for the tools' temporary files.
    """
    options = {"pt-summary": [], "pt-mysql-summary": ["--defaults-file", str(option_file)]}
    variables = environment(LC_ALL="C", TMPDIR=str(scratch_dir))
    until_s = time.monotonic() + TIMEOUT_S
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with ExitStack() as running:
            pages = {
                name: running.enter_context(
                    _started([path, *options[name], "--sleep", str(SLEEP_S)], variables, scratch_dir)
                )
                for name in SUMMARIES
                if (path := find_program(name))
            }
            for name, (process, output) in pages.items():
                if page := _page(process, output, until_s - time.monotonic()):
                    (directory / f"{name}.txt").write_text(redact(_without_configuration(page)))
                else:
                    _log.info("%s left no page", name)
    except OSError as error:
        _log.info("no page on host or server: %s", error)


@contextmanager
def _started(
    command: Sequence[str], environment: Mapping[str, str], scratch_dir: Path
) -> Iterator[tuple[Popen, IO[bytes]]]:
    """Yield the running tool, a shell script, and the file that it prints to; its children end with the block."""
    with tempfile.TemporaryFile(dir=scratch_dir) as output:
        process = Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
        try:
            yield process, output
        finally:
            process.end(group=True)


def _page(process: Popen, output: IO[bytes], timeout_s: float) -> str:
    """Return what a tool printed; empty if it failed or took longer."""
    try:
        process.wait(max(timeout_s, 0.0))
    except subprocess.TimeoutExpired:
        return ""
    output.seek(0)
    return output.read().decode(errors="replace") if process.returncode == 0 else ""


def _without_configuration(page: str) -> str:
    """Leave out the section on option files: those of the machine, which the measured server does not read."""
    return _CONFIGURATION.sub("", page)
