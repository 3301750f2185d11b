"""Loads the user's own data into a running server: a dump, a script, or the schema of another server."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from volbench.base import programs
from volbench.engine.attached import account_of
from volbench.engine.connection import Account, MemoryFile
from volbench.engine.sysbench_config import option_names, option_text, sysbench_files, sysbench_program
from volbench.errors import EnvironmentLacks, StepFailed, UsageError
from volbench.records.cell import AttachSpec, DatasetSpec

Progress = Callable[[str, float | None], None]

_POLL_S = 0.5
_TAIL_BYTES = 2000
_LAST_LINES = 5
_DECOMPRESS = {".gz": ("gzip", "-dc"), ".zst": ("zstd", "-dcq"), ".bz2": ("bzip2", "-dc"), ".xz": ("xz", "-dc")}
_PHYSICAL = ("ibdata1", "xtrabackup_checkpoints", "mariadb_backup_checkpoints")
_DSN = re.compile(
    r"mysql://(?:(?P<user>[^@/]+)@)?(?P<host>[^:/?]+)(?::(?P<port>\d+))?/(?P<schema>[A-Za-z0-9_]{1,64})"
)


@dataclass(frozen=True, kw_only=True)
class Loading:
    """One load: the server's account, the schema, and the bounds."""

    account: Account
    dataset: DatasetSpec
    deadline_s: float
    cancelled: threading.Event
    progress: Progress


def load(loading: Loading) -> None:
    """Load the dataset into its schema, which exists and is empty.

    Raises UsageError for a source of an unknown form, EnvironmentLacks for a missing program, StepFailed with the
    program's own message if the source does not load.
    """
    dataset, path = loading.dataset, Path(loading.dataset.path)
    if dataset.kind == "schema":
        _copy_schema(loading)
    elif dataset.kind == "script" and path.suffix == ".lua":
        _run_lua(loading, path)
    elif path.is_dir():
        _load_directory(loading, path)
    else:
        _load_sql(loading, path)


def _load_sql(loading: Loading, path: Path) -> None:
    """Read a file of SQL, compressed or not, with the command line client."""
    with ExitStack() as stack:
        source = stack.enter_context(_opened(path))
        decompress = _DECOMPRESS.get(path.suffix)
        options = stack.enter_context(closing(MemoryFile(loading.account.option_file_text())))
        client = _client_argv(options.path, loading.dataset.schema_name)
        if decompress is None:
            size = path.stat().st_size or 1

            def read_share() -> float:
                return min(1.0, os.lseek(source.fileno(), 0, os.SEEK_CUR) / size)

            _run([client], loading, source=source, share=read_share, what=f"loading {path.name}")
        else:
            unpack = [_require(decompress[0]), *decompress[1:]]
            _run([unpack, client], loading, source=source, what=f"loading {path.name}")


def _load_directory(loading: Loading, path: Path) -> None:
    """Load a directory of mydumper or MySQL Shell; a physical copy is not supported."""
    if any((path / name).exists() for name in _PHYSICAL):
        raise UsageError(
            "the dump is a physical copy of a server, which a dataset cannot be", where="dataset.path",
            evidence=str(path),
            next_step="start a server on the copy, and dump the schema with mysqldump or mydumper",
        )  # fmt: skip
    if not ((path / "@.json").exists() or (path / "metadata").exists()):
        raise UsageError(
            "the directory is no dump of mydumper or MySQL Shell", where="dataset.path", evidence=str(path),
            next_step="name the directory that has the file `metadata` or `@.json`",
        )  # fmt: skip
    with closing(MemoryFile(loading.account.option_file_text())) as options:
        shell = (path / "@.json").exists()
        argv = _mysqlsh_argv(loading, path) if shell else _myloader_argv(loading, path, options.path)
        password = f"{loading.account.password}\n".encode() if shell else b""
        with tempfile.TemporaryFile() as stdin:
            stdin.write(password)
            stdin.seek(0)
            _run([argv], loading, source=stdin, what=f"loading {path.name}")


def _run_lua(loading: Loading, path: Path) -> None:
    """Run `prepare` of the user's own sysbench script."""
    dataset = loading.dataset
    options = {"db-driver": "mysql", "threads": dataset.threads, "rand-seed": 1, **option_names(dataset.options)}
    with sysbench_files(loading.account, dataset.schema_name) as files, tempfile.TemporaryFile() as nothing:
        words = [f"--{name}={option_text(value)}" for name, value in options.items()]
        argv = [sysbench_program(), str(path), f"--config-file={files.config}", *words, "prepare"]
        environment = {"LUA_PATH": f"{path.parent}/?.lua;;"}
        output = _run(
            [argv],
            loading,
            source=nothing,
            what=f"preparing with {path.name}",
            cwd=files.directory,
            env=environment,
        )
    fatal = [line.removeprefix("FATAL: ") for line in output.splitlines() if line.startswith("FATAL: ")]
    if fatal:  # sysbench ends with 0 when its threads fail
        raise StepFailed(
            f"the script {path.name} failed", where="dataset", evidence="; ".join(dict.fromkeys(fatal)),
            next_step=f"fix the script; to try it alone: sysbench {path} prepare", cause="own_script",
        )  # fmt: skip


def _copy_schema(loading: Loading) -> None:
    """Dump one schema of another server in one snapshot, and load it while it arrives."""
    source_account, schema = source_of(loading.dataset)
    with (
        closing(MemoryFile(source_account.option_file_text())) as source,
        closing(MemoryFile(loading.account.option_file_text())) as target,
        tempfile.TemporaryFile() as nothing,
    ):
        dump = _dump_argv(source.path, schema)
        _run(
            [dump, _client_argv(target.path, loading.dataset.schema_name)], loading, source=nothing,
            what=f"copying {schema} from {source_account.address}",
        )  # fmt: skip


def source_of(dataset: DatasetSpec) -> tuple[Account, str]:
    """Return the account and the schema of a dataset of kind `schema`. Raises UsageError."""
    place, _, query = dataset.server.partition("?")
    match = _DSN.fullmatch(place)
    if match is None or (match["user"] and ":" in match["user"]):
        raise UsageError(
            "the DSN of the dataset cannot be used", where="dataset.server",
            next_step="for example mysql://reader@db1:3306/shop; the password belongs in dataset.option_file",
        )  # fmt: skip
    pairs = dict(word.partition("=")[::2] for word in query.split("&") if word)
    values = {name.replace("-", "_"): value for name, value in pairs.items()}
    unknown = values.keys() - {"socket", "ssl_mode", "ssl_ca", "ssl_cert", "ssl_key"}
    if unknown:
        raise UsageError(f"the DSN has an unknown option {min(unknown)}", where="dataset.server")
    attach = AttachSpec(
        host="" if values.get("socket") else match["host"], port=int(match["port"] or 3306),
        user=match["user"] or "root", option_file=dataset.option_file, **values,
    )  # fmt: skip
    return account_of(attach, os.environ), match["schema"]


def _client_argv(option_file: Path, schema: str) -> list[str]:
    client = _require("mariadb", "mysql")
    return [
        client, f"--defaults-file={option_file}", "--batch", "--default-character-set=utf8mb4",
        "--max-allowed-packet=1G", f"--database={schema}",
    ]  # fmt: skip


def _dump_argv(option_file: Path, schema: str) -> list[str]:
    tool = _require("mysqldump", "mariadb-dump")
    mariadb = "MariaDB" in _version(tool)
    return [
        tool, f"--defaults-file={option_file}", "--single-transaction", "--quick",
        "--no-tablespaces", "--skip-lock-tables",
        "--routines", "--triggers", "--default-character-set=utf8mb4",
        *([] if mariadb else ["--set-gtid-purged=OFF", "--column-statistics=0"]), schema,
    ]  # fmt: skip


def _myloader_argv(loading: Loading, path: Path, option_file: Path) -> list[str]:
    return [
        _require("myloader"), f"--defaults-file={option_file}", f"--directory={path}",
        f"--database={loading.dataset.schema_name}", f"--threads={loading.dataset.threads}", "--overwrite-tables",
    ]  # fmt: skip


def _mysqlsh_argv(loading: Loading, path: Path) -> list[str]:
    options = {
        "schema": loading.dataset.schema_name, "threads": loading.dataset.threads, "ignoreVersion": True,
        "resetProgress": True, "progressFile": "",
    }  # fmt: skip
    script = f"util.loadDump({json.dumps(str(path))}, {json.dumps(options)})"
    address = f"--socket={loading.account.socket}" if loading.account.socket else f"--host={loading.account.host}"
    return [
        _require("mysqlsh"), "--mysql", "--js", f"--user={loading.account.user}", address, "--passwords-from-stdin",
        "--execute", script,
    ]  # fmt: skip


def _run(
    commands: Sequence[Sequence[str]],
    loading: Loading,
    *,
    source: IO[bytes],
    what: str,
    share: Callable[[], float | None] = lambda: None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> str:
    """Run commands as a pipe and return the end of their output. Raises StepFailed with what they printed."""
    processes: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryFile() as output:
        try:
            stdin: IO[bytes] = source
            for number, argv in enumerate(commands):
                is_last = number == len(commands) - 1
                process = programs.Popen(
                    list(argv), stdin=stdin, stdout=output if is_last else subprocess.PIPE, stderr=output, cwd=cwd,
                    env={**os.environ, "LC_ALL": "C", **(env or {})}, start_new_session=True,
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
        text = _tail(output)
    failed = next((process for process in processes if process.returncode), None)
    if failed is not None:
        raise StepFailed(
            f"{what} failed: {Path(str(_argv_of(failed)[0])).name} ended with exit code {failed.returncode}",
            where="dataset", evidence=_last_lines(text), cause="dataset_not_loaded",
            next_step="fix the source of the dataset; the volumes were not touched",
        )  # fmt: skip
    return text


def _wait(
    processes: Sequence[subprocess.Popen[bytes]], loading: Loading, what: str, share: Callable[[], float | None]
) -> None:
    """Wait for all; once one failed, the others have a moment to end."""
    while any(process.poll() is None for process in processes):
        if loading.cancelled.is_set():
            raise StepFailed("loading the dataset was cancelled", where="dataset", cause="cancelled")
        if time.monotonic() > loading.deadline_s:
            raise StepFailed("loading the dataset took too long", where="dataset")
        if any(process.poll() for process in processes):
            for process in processes:
                process.terminate()
        loading.progress(what, share())
        loading.cancelled.wait(_POLL_S)


def _argv_of(process: subprocess.Popen[bytes]) -> Sequence[str]:
    return process.args if isinstance(process.args, list) else [str(process.args)]


def _tail(output: IO[bytes]) -> str:
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - _TAIL_BYTES))
    return output.read().decode(errors="replace")


def _last_lines(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip() and "[Warning]" not in line]
    errors = [line for line in lines if "ERROR" in line.upper() or "FATAL" in line]
    return "\n".join((errors or lines)[:_LAST_LINES])


def _opened(path: Path) -> IO[bytes]:
    try:
        return path.open("rb")
    except OSError as error:
        raise UsageError("a file of the dataset cannot be read", where="dataset", evidence=str(error)) from error


def _require(*names: str) -> str:
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        raise EnvironmentLacks(
            f"{names[-1]} is not installed", where="dataset", next_step=f"install the package that has {names[-1]}"
        )
    return path


def _version(tool: str) -> str:
    done = programs.run([tool, "--version"], capture_output=True, text=True, timeout=30, check=False)
    return done.stdout
