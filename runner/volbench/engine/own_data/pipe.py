"""Runs the programs that load own data: as a pipe, bounded, with what they printed as the error's evidence."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from volbench.base import programs, safe_files
from volbench.engine.connection import Account, check_client
from volbench.errors import EnvironmentLacks, StepFailed, UsageError
from volbench.records.cell import DatasetSpec

Progress = Callable[[str, float | None], None]

_POLL_FIRST_S, _POLL_S = 0.01, 0.5
_TAIL_BYTES = 2000
_LAST_LINES = 5
_READER_GONE = ("Broken pipe", "errno 32")
"""What gzip, zstd and mysqldump print when the client before which they work has ended."""
WITHOUT_COMMANDS = ("--binary-mode", "--local-infile=0", "--loose-sandbox", "--loose-skip-system-command")
"""Options of either client with which a text of SQL is nothing but statements for the server."""
_NO_PROGRAM = "/bin/false"
_DECOMPRESS = {".gz": ("gzip", "-dc"), ".zst": ("zstd", "-dcq"), ".bz2": ("bzip2", "-dc"), ".xz": ("xz", "-dc")}


@dataclass(frozen=True, kw_only=True)
class Loading:
    """One load: the server's account, the schema, and the bounds."""

    account: Account
    dataset: DatasetSpec
    deadline_s: float
    cancelled: threading.Event
    progress: Progress


def client_argv(option_file: Path, schema: str) -> list[str]:
    """Return the command line client, which reads SQL for one schema from stdin. Raise EnvironmentLacks.

    A dump may come from somebody else. In binary mode the client takes no commands but `delimiter` and `\\C`
    (`find_command` in mysql.cc of both), wherever they stand: neither edit, system, source, tee, pager, connect nor
    their short forms. It sends the server no file. An older client warns of the other options.
    """
    client = require_program("mariadb", "mysql")
    return [
        client, f"--defaults-file={option_file}", "--batch", "--default-character-set=utf8mb4",
        "--max-allowed-packet=1G", *WITHOUT_COMMANDS, f"--database={schema}",
    ]  # fmt: skip


def decompress_argv(path: Path) -> list[str] | None:
    """Return the program that decompresses a file from stdin to stdout, by its suffix; None: it is not compressed.

    Raises EnvironmentLacks without the program.
    """
    words = _DECOMPRESS.get(path.suffix)
    return [require_program(words[0]), *words[1:]] if words else None


def run_pipe(
    commands: Sequence[Sequence[str]],
    loading: Loading,
    *,
    source: IO[bytes],
    what: str,
    share: Callable[[], float | None] = lambda: None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> str:
    """Run commands as a pipe; return the end of the last one's output. Raise StepFailed with what one printed."""
    for argv in commands:
        check_client(argv)
    processes: list[programs.Popen] = []
    with ExitStack() as stack:
        outputs = [stack.enter_context(tempfile.TemporaryFile()) for _ in commands]
        try:
            stdin: IO[bytes] = source
            for number, (argv, output) in enumerate(zip(commands, outputs, strict=True)):
                is_last = number == len(commands) - 1
                process = programs.Popen(
                    list(argv), stdin=stdin, stdout=output if is_last else subprocess.PIPE, stderr=output,
                    cwd=cwd or "/", env={**_environment(), **(env or {})}, start_new_session=True,
                )  # fmt: skip
                if number:
                    stdin.close()  # else the writer would never learn that its reader is gone
                processes.append(process)
                if process.stdout is not None:
                    stdin = process.stdout
            _wait(processes, loading, what, share)
        finally:
            for process in processes:
                process.kill()
                process.wait()
        texts = [_tail(output) for output in outputs]
    failed = _failed([process.returncode for process in processes], texts)
    if failed is not None:
        raise StepFailed(
            f"{what} failed: {Path(commands[failed][0]).name} ended with exit code {processes[failed].returncode}",
            where="dataset", evidence=_last_lines(texts[failed]), cause="dataset_not_loaded",
            next_step="fix the source of the dataset; the volumes were not touched",
        )  # fmt: skip
    return texts[-1]


def _environment() -> dict[str, str]:
    """Return the variables of a program that reads a dump: of the caller's, PATH and TMPDIR alone."""
    return {
        "PATH": os.environ.get("PATH", os.defpath), "TMPDIR": tempfile.gettempdir(), "HOME": "/", "LC_ALL": "C",
        "EDITOR": _NO_PROGRAM, "VISUAL": _NO_PROGRAM, "PAGER": _NO_PROGRAM,
    }  # fmt: skip


def _failed(codes: Sequence[int], texts: Sequence[str]) -> int | None:
    """Return the first command of a pipe that failed by itself: not because its reader was gone."""
    failed = [number for number, code in enumerate(codes) if code]
    own = [
        number for number in failed
        if codes[number] > 0 and not any(words in texts[number] for words in _READER_GONE)
    ]  # fmt: skip
    return next(iter([*own, *failed]), None)


def _wait(
    processes: Sequence[subprocess.Popen[bytes]], loading: Loading, what: str, share: Callable[[], float | None]
) -> None:
    """Wait for all; once one failed, the others have a moment to end."""
    pause_s = _POLL_FIRST_S
    while any(process.poll() is None for process in processes):
        if loading.cancelled.is_set():
            raise StepFailed("loading the dataset was cancelled", where="dataset", cause="cancelled")
        if time.monotonic() > loading.deadline_s:
            raise StepFailed("loading the dataset took too long", where="dataset")
        if any(process.poll() for process in processes):
            for process in processes:
                process.terminate()
        loading.progress(what, share())
        loading.cancelled.wait(pause_s)
        pause_s = min(2 * pause_s, _POLL_S)


def _tail(output: IO[bytes]) -> str:
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - _TAIL_BYTES))
    return output.read().decode(errors="replace")


def _last_lines(text: str) -> str:
    lines = [
        line for line in text.splitlines()
        if line.strip() and "[Warning]" not in line and "unknown option '--loose-" not in line
    ]  # fmt: skip
    errors = [line for line in lines if "ERROR" in line.upper() or "FATAL" in line]
    return "\n".join((errors or lines)[:_LAST_LINES])


def opened(path: Path) -> IO[bytes]:
    """Return an open file of the dataset. Raise UsageError."""
    try:
        return safe_files.open_given(path)
    except OSError as error:
        raise UsageError("a file of the dataset cannot be read", where="dataset", evidence=str(error)) from error


def require_program(*names: str) -> str:
    """Return the path of the first of these programs that is installed. Raise EnvironmentLacks."""
    path = next(filter(None, map(programs.find_program, names)), None)
    if path is None:
        raise EnvironmentLacks(
            f"{names[-1]} is not installed", where="dataset", next_step=f"install the package that has {names[-1]}"
        )
    return path


def first_bytes(path: Path, count: int) -> bytes:
    """Return the first bytes of a file, decompressed. Raises UsageError for a file that cannot be read."""
    unpack = decompress_argv(path)
    with opened(path) as source:
        if unpack is None:
            return source.read(count)
        process = programs.Popen(unpack, stdin=source, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            return process.stdout.read(count) if process.stdout else b""
        finally:
            process.kill()
            process.communicate()


def tool_version(tool: str) -> str:
    """Return what a program prints for --version."""
    done = programs.run([tool, "--version"], capture_output=True, text=True, timeout=30, check=False)
    return done.stdout.strip()
