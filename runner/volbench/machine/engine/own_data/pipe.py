"""Runs the programs that load own data: as a pipe, bounded, with what they printed as the error's evidence."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

from volbench.core.base import programs, safe_files
from volbench.core.base.confinement import Confinement
from volbench.core.records.dataset import DatasetSpec
from volbench.errors import MissingPrerequisite, StepFailed, UsageError
from volbench.machine.engine.connection import Account, MemoryFile, check_client
from volbench.machine.engine.own_data.dump_filter import DumpFilter, LeftOut
from volbench.machine.engine.own_data.form import sql_of

Progress = Callable[[str, float | None], None]
Share = Callable[[], float | None]
Change = Callable[[Iterator[bytes]], Iterator[bytes]]

_POLL_FIRST_S, _POLL_S = 0.01, 0.5
_CHUNK_BYTES = 1 << 16
_TAIL_BYTES = 2000
_LAST_LINES = 5
_WARNING = re.compile(r"(?:[\w./-]+: )?\[Warning\]")
"""How a client's own warning begins; an error that quotes a statement may have the same word in it."""
_READER_GONE = ("Broken pipe", "errno 32")
"""What gzip, zstd and mysqldump print when the client before which they work has ended."""
WITHOUT_COMMANDS = ("--binary-mode", "--local-infile=0", "--loose-sandbox", "--loose-skip-system-command")
"""Options of either client with which a text of SQL is nothing but statements for the server."""
_DENIED = re.compile(r"^ERROR (1044|1142|1143|1227|1370|1396|1419|1410|4161) ", re.MULTILINE)
"""Errors of a server for a statement that the account has no right to."""
_NO_RIGHT = (
    "remove the statement: own data is loaded with rights on its schema only, and never changes the server; "
    "the volumes were not touched"
)
_CLIENT_BYTES_MAX, _DECOMPRESSOR_BYTES_MAX = 8 << 30, 4 << 30
"""Of address space: a statement of 1 GB several times; zstd's largest window is 2 GiB."""
_CPU_S_MAX = 24 * 3600
_THREADS_MAX = 64
_NO_PROGRAM = "/bin/false"
_DECOMPRESS = {".gz": ("gzip", "-dc"), ".zst": ("zstd", "-dcq"), ".bz2": ("bzip2", "-dc"), ".xz": ("xz", "-dc")}


@dataclass(frozen=True, kw_only=True)
class Loading:
    """One load: the server's account, the schema, and the bounds.

    Args:
        admin: may change the server's settings; None: `account` may.
        left_out: gets what of the dump was left out or changed.
    """

    account: Account
    dataset: DatasetSpec
    deadline_s: float
    cancelled: threading.Event
    progress: Progress
    admin: Account | None = None
    left_out: LeftOut = field(default_factory=LeftOut)


@dataclass(frozen=True, kw_only=True)
class Command:
    """A program of a pipe.

    Args:
        confined: it reads what somebody else wrote.
        descriptors: of files that it opens as /proc/self/fd/N.
    """

    argv: Sequence[str]
    confined: Confinement | None = None
    descriptors: tuple[int, ...] = ()


@contextmanager
def client(account: Account, schema: str, *options: str) -> Iterator[Command]:
    """Yield the command line client, which reads SQL for one schema from stdin. Raise MissingPrerequisite.

    A dump may come from somebody else. In binary mode the client takes no commands but `delimiter` and `\\C`
    (`find_command` in mysql.cc of both), wherever they stand: neither edit, system, source, tee, pager, connect nor
    their short forms. It sends the server no file. An older client warns of the other options. It is confined too:
    another user where this is root, who may start nothing, and gets the option file and the server's socket handed.
    """
    confined = Confinement(memory_bytes=_CLIENT_BYTES_MAX, cpu_s=_CPU_S_MAX)
    with ExitStack() as stack:
        descriptors = []
        if account.socket:
            descriptors.append(os.open(account.socket, os.O_PATH | os.O_CLOEXEC))
            stack.callback(os.close, descriptors[0])
            account = replace(account, socket=f"/proc/self/fd/{descriptors[0]}")
        file = stack.enter_context(closing(MemoryFile(account.option_file_text())))
        confined.give(file.descriptor)
        argv = [
            require_program("mariadb", "mysql"),
            f"--defaults-file=/proc/self/fd/{file.descriptor}",
            "--batch",
            "--default-character-set=utf8mb4",
            "--max-allowed-packet=1G",
            *WITHOUT_COMMANDS,
            f"--database={schema}",
            *options,
        ]
        yield Command(argv=argv, confined=confined, descriptors=(*descriptors, file.descriptor))


def load_sql(
    loading: Loading,
    source: IO[bytes],
    commands: Sequence[Command],
    *,
    doing: str,
    share: Share = lambda: None,
    before: Change = iter,
) -> None:
    """Feed SQL to the client, without what is not for the dataset's schema.

    Args:
        commands: between the source and the client, as a pipe.
        share: returns the part that is done, if known.
        before: changes the text first.
    """
    with client(loading.account, loading.dataset.schema_name) as reader:
        filtered = DumpFilter(loading.dataset.schema_name, loading.left_out)
        name = Path(loading.dataset.path).name
        run_pipe(
            [*commands, reader],
            loading,
            source=source,
            doing=doing,
            share=share,
            through=lambda chunks: filtered.filtered(sql_of(before(chunks), name, loading.left_out.recode)),
        )


def decompressor(path: Path, *, as_pipe: bool = False) -> list[Command]:
    """Return the program that decompresses a file from stdin to stdout, by its suffix; none where there is none.

    Args:
        as_pipe: also a file that is not compressed is read by a program, from which the next one has a pipe.

    Raises MissingPrerequisite without the program.
    """
    return programs_of(_DECOMPRESS.get(path.suffix, ("cat",) if as_pipe else ()))


def programs_of(command: Sequence[str]) -> list[Command]:
    """Return a program that reads what somebody else wrote, with its options; none for no words."""
    return [_confined(*command)] if command else []


def _confined(name: str, *arguments: str) -> Command:
    # zstd and xz have threads of their own for reading and writing.
    confined = Confinement(memory_bytes=_DECOMPRESSOR_BYTES_MAX, cpu_s=_CPU_S_MAX, processes=_THREADS_MAX)
    return Command(argv=[require_program(name), *arguments], confined=confined)


def run_pipe(
    commands: Sequence[Command],
    loading: Loading,
    *,
    source: IO[bytes],
    doing: str,
    share: Share = lambda: None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    through: Change | None = None,
) -> str:
    """Run commands as a pipe; return the end of the last one's output. Raise StepFailed with what one printed.

    Args:
        through: changes what the last command reads; its own errors are raised too.
    """
    for command in commands:
        check_client(command.argv)
    processes: list[programs.Popen] = []
    changing: list[_Changing] = []
    with ExitStack() as stack:
        outputs = [stack.enter_context(tempfile.TemporaryFile()) for _ in commands]
        try:
            stdin = source
            for command, output in zip(commands[:-1], outputs, strict=False):
                stdin = _started(processes, command, stdin, subprocess.PIPE, output, cwd=cwd, env=env)
            piped: IO[bytes] | int = stdin if through is None else subprocess.PIPE
            _started(processes, commands[-1], piped, outputs[-1], outputs[-1], cwd=cwd, env=env)
            if through is not None:
                changing = [_Changing(stdin, processes[-1].stdin, through, closes=len(commands) > 1)]
            _wait(processes, loading, doing, share)
        finally:
            for process in processes:
                process.end()
            for thread in changing:
                thread.join()
        texts = [_tail(output) for output in outputs]
    for thread in changing:
        if thread.error is not None:
            raise thread.error
    failed = _failed([process.returncode for process in processes], texts)
    if failed is not None:
        name, code = Path(commands[failed].argv[0]).name, processes[failed].returncode
        raise StepFailed(
            f"{doing} failed: {name} ended with exit code {code}",
            where="dataset",
            evidence=evidence_of(texts[failed]),
            cause="dataset_not_loaded",
            next_step=_NO_RIGHT
            if _DENIED.search(texts[failed])
            else "fix the source of the dataset; the volumes were not touched",
        )
    return texts[-1]


def _started(
    processes: list[programs.Popen],
    command: Command,
    stdin: IO[bytes] | int,
    stdout: IO[bytes] | int,
    stderr: IO[bytes],
    *,
    cwd: Path | None,
    env: Mapping[str, str] | None,
) -> IO[bytes]:
    """Start a program behind the others; return what it writes to."""
    if command.confined is not None and processes and not isinstance(stdin, int):
        command.confined.give(stdin.fileno())  # a pipe: it may open /dev/stdin
    process = programs.Popen(
        list(command.argv),
        confined=command.confined,
        pass_fds=command.descriptors,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        cwd=cwd or "/",
        env={**_environment(), **(env or {})},
        start_new_session=True,
    )
    if processes and not isinstance(stdin, int):
        stdin.close()  # else the writer would never learn that its reader is gone
    processes.append(process)
    return process.stdout if process.stdout is not None else stderr


class _Changing(threading.Thread):
    """Passes on what one program writes to the next one's stdin, changed; ends with either of them."""

    def __init__(
        self,
        source: IO[bytes],
        target: IO[bytes] | None,
        change: Change,
        *,
        closes: bool,
    ) -> None:
        super().__init__(daemon=True)
        assert target is not None
        self._source, self._target, self._change, self._closes = source, target, change, closes
        self.error: Exception | None = None
        self.start()

    def run(self) -> None:
        """Read, change, write."""
        chunks = iter(lambda: os.read(self._source.fileno(), _CHUNK_BYTES), b"")
        try:
            with suppress(BrokenPipeError), self._target, self._source if self._closes else nullcontext():
                for changed in self._change(chunks):
                    self._target.write(changed)
        except Exception as error:  # noqa: BLE001 - raised again by the thread that waits
            self.error = error


def _environment() -> dict[str, str]:
    """Return the variables of a program that reads a dump: it finds no editor, no pager and no home."""
    return programs.environment(
        TMPDIR=tempfile.gettempdir(),
        HOME="/",
        LC_ALL="C",
        EDITOR=_NO_PROGRAM,
        VISUAL=_NO_PROGRAM,
        PAGER=_NO_PROGRAM,
    )


def _failed(codes: Sequence[int], texts: Sequence[str]) -> int | None:
    """Return the first command of a pipe that failed by itself: not because its reader was gone."""
    failed = [number for number, code in enumerate(codes) if code]
    own = [
        number
        for number in failed
        if codes[number] > 0 and not any(texts_of_end in texts[number] for texts_of_end in _READER_GONE)
    ]
    return next(iter([*own, *failed]), None)


def _wait(processes: Sequence[subprocess.Popen[bytes]], loading: Loading, doing: str, share: Share) -> None:
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
        loading.progress(doing, share())
        loading.cancelled.wait(pause_s)
        pause_s = min(2 * pause_s, _POLL_S)


def _tail(output: IO[bytes]) -> str:
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - _TAIL_BYTES))
    return output.read().decode(errors="replace")


def evidence_of(text: str) -> str:
    """Return what a program that failed printed: its errors, else all but warnings, else all; never nothing."""
    printed = [line for line in text.splitlines() if line.strip()]
    lines = [line for line in printed if not _WARNING.match(line) and "unknown option '--loose-" not in line]
    errors = [line for line in lines if "ERROR" in line.upper() or "FATAL" in line]
    return "\n".join((errors or lines or printed)[:_LAST_LINES]) or "it printed nothing"


def opened(path: Path) -> IO[bytes]:
    """Return an open file of the dataset. Raise UsageError."""
    try:
        return safe_files.open_given(path)
    except OSError as error:
        raise UsageError("a file of the dataset cannot be read", where="dataset", evidence=str(error)) from error


def require_program(*names: str) -> str:
    """Return the path of the first of these programs that is installed. Raise MissingPrerequisite."""
    path = next(filter(None, map(programs.find_program, names)), None)
    if path is None:
        raise MissingPrerequisite(
            f"{names[-1]} is not installed", where="dataset", next_step=f"install the package that has {names[-1]}"
        )
    return path


def regular_names(path: Path) -> frozenset[str]:
    """Return the names of a dump's regular files: links, pipes and directories are none of it. Raise UsageError."""
    try:
        with os.scandir(path) as entries:
            return frozenset(entry.name for entry in entries if entry.is_file(follow_symlinks=False))
    except OSError as error:
        raise UsageError(
            "a directory of the dataset cannot be read", where="dataset.path", evidence=repr(error)
        ) from error


def tool_version(tool: str) -> str:
    """Return what a program prints for --version."""
    done = programs.run([tool, "--version"], capture_output=True, text=True, timeout=30, check=False)
    return done.stdout.strip()
