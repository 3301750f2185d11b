"""Fills a running server with a dataset: sysbench's prepare or own data, then statistics, rows and checksums."""

from __future__ import annotations

import os
import select
import subprocess
import threading
import time
from collections.abc import Callable, Iterator

from pydantic import Field

from volbench.core.base import programs
from volbench.core.records.base import Record
from volbench.core.records.dataset import DatasetSpec
from volbench.errors import StepFailed
from volbench.machine.engine.connection import quoted_name
from volbench.machine.engine.own_data.loading import load
from volbench.machine.engine.own_data.physical_copy import is_physical_copy
from volbench.machine.engine.own_data.pipe import Loading
from volbench.machine.engine.server import AttachedServer, Server
from volbench.machine.engine.sysbench.config import SysbenchFiles, sysbench_files, sysbench_program

PREPARE_SEED = 1
"""Seed of sysbench's random numbers. Threads, as many as CPUs, draw from them in no fixed order.

So two templates of a dataset have as many rows of the same kind, and other values."""
_TEST = "oltp_read_write"  # all oltp_* and select_* tests share its tables
_LINES_PER_TABLE = 3  # creating, inserting, indexing
_POLL_S = 0.5
_TAIL_BYTES = 4000
_FATAL_LINES = 3
_USER_TABLES = (
    "SELECT table_schema, table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE' "
    "AND table_schema NOT IN ('mysql', 'sys', 'performance_schema', 'information_schema') "
    "ORDER BY table_schema, table_name"
)

Progress = Callable[[str, float | None], None]


class TableRecord(Record):
    """A table's rows and checksum after the preparation."""

    rows: int
    checksum: int | None = Field(description="CHECKSUM TABLE; None if the server returns NULL.")


def sysbench_version() -> str:
    """Return the output of `sysbench --version`, e.g. `sysbench 1.0.20`. Raise MissingPrerequisite."""
    done = programs.run([sysbench_program(), "--version"], capture_output=True, text=True, timeout=30, check=False)
    return done.stdout.strip()


def fill(
    server: Server | AttachedServer,
    dataset: DatasetSpec,
    *,
    timeout_s: float,
    cancelled: threading.Event,
    progress: Progress,
    notes: list[str] | None = None,
) -> dict[str, TableRecord]:
    """Make the tables of a dataset on a running server and bring their statistics up to date.

    Args:
        notes: gets what of a dump was left out or changed.

    Raises MissingPrerequisite without sysbench, StepFailed when it fails, is cancelled or takes too long.
    """
    schema = dataset.schema_name
    server.query(f"CREATE DATABASE IF NOT EXISTS `{schema}` DEFAULT CHARACTER SET utf8mb4")
    if is_physical_copy(dataset):
        progress("the tables came with the physical copy", None)
    elif dataset.is_own:
        loading = Loading(
            account=server.account,
            dataset=dataset,
            deadline_s=time.monotonic() + timeout_s,
            cancelled=cancelled,
            progress=progress,
        )
        load(loading)
        (notes if notes is not None else []).extend(loading.left_out.notes())
    else:
        with sysbench_files(server.account, schema) as files:
            _run_sysbench(server, dataset, files, timeout_s=timeout_s, cancelled=cancelled, progress=progress)
    names = _table_names(server, dataset)
    progress("analyzing tables", None)
    for name in names:
        server.query(f"ANALYZE TABLE `{schema}`.{quoted_name(name)}")
    records = {}
    for done, name in enumerate(names):
        progress("reading checksums", done / len(names))
        records[name] = table_record(server, schema, name)
        if not dataset.is_own and records[name].rows != dataset.rows:
            raise StepFailed(
                f"sysbench made {records[name].rows} rows in {name}, not {dataset.rows}", where="dataset"
            )
    return records


def _table_names(server: Server | AttachedServer, dataset: DatasetSpec) -> list[str]:
    """Return the tables that the dataset has now. Raise StepFailed for own data without one."""
    if not dataset.is_own:
        return [f"sbtest{number}" for number in range(1, dataset.tables + 1)]
    elsewhere = []
    names = []
    for schema, table in server.query(_USER_TABLES):
        if str(schema) == dataset.schema_name:
            names.append(str(table))
        else:
            elsewhere.append(f"{schema}.{table}")
    if not names:
        raise StepFailed(
            f"the dataset made no table in the schema {dataset.schema_name}",
            where="dataset",
            evidence=f"tables in other schemas: {', '.join(elsewhere[:5]) or 'none'}",
            next_step="set dataset.schema to the schema that the dump names",
            cause="dataset_not_loaded",
        )
    return names


def table_record(server: Server | AttachedServer, schema: str, table: str) -> TableRecord:
    """Return row count and checksum of a table."""
    qualified_name = f"`{schema}`.{quoted_name(table)}"
    ((count,),) = server.query(f"SELECT COUNT(*) FROM {qualified_name}")  # noqa: S608 - a quoted name
    ((_, checksum),) = server.query(f"CHECKSUM TABLE {qualified_name}")
    return TableRecord(rows=int(count), checksum=None if checksum is None else int(checksum))


def _run_sysbench(
    server: Server | AttachedServer,
    dataset: DatasetSpec,
    files: SysbenchFiles,
    *,
    timeout_s: float,
    cancelled: threading.Event,
    progress: Progress,
) -> None:
    threads = min(dataset.tables, len(os.sched_getaffinity(0)))
    command = [
        sysbench_program(),
        _TEST,
        f"--config-file={files.config}",
        "--db-driver=mysql",
        f"--tables={dataset.tables}",
        f"--table-size={dataset.rows}",
        f"--threads={threads}",
        f"--rand-seed={PREPARE_SEED}",
        "--rand-type=uniform",
        "prepare",
    ]
    progress("making tables", 0.0)
    process = programs.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        cwd=files.directory,
        env=programs.environment(**files.environment),
    )
    output = b""
    try:
        for chunk in _output(process, time.monotonic() + timeout_s, cancelled):
            output += chunk
            done = output.count(b"\n") / (_LINES_PER_TABLE * dataset.tables)
            progress("making tables", min(done, 1.0))
        code = process.wait(timeout=30)
    finally:
        process.end()
    _check_prepared(server, code, output)


def _check_prepared(server: Server | AttachedServer, code: int, output: bytes) -> None:
    """Raise StepFailed if sysbench's prepare failed: it ends with 0 also when its threads could not connect."""
    lines = output.decode(errors="replace").splitlines()
    fatal = list(dict.fromkeys(line.removeprefix("FATAL: ") for line in lines if line.startswith("FATAL: ")))
    if code == 0 and not fatal:
        return
    evidence = "; ".join(fatal[:_FATAL_LINES]) or output[-_TAIL_BYTES:].decode(errors="replace").strip()
    if not server.alive():
        evidence += f"; {server.why_down()}"
    elif any(line.startswith("unable to connect") for line in fatal) and _refuses_plain_connections(server):
        raise StepFailed(
            "sysbench cannot connect: the server requires TLS",
            where="dataset",
            evidence=evidence,
            next_step="give ssl-mode=REQUIRED or VERIFY_IDENTITY, and ssl-ca",
            cause="tls_required",
        )
    raise StepFailed(f"sysbench prepare failed with exit code {code}", where="dataset", evidence=evidence)


def _refuses_plain_connections(server: Server | AttachedServer) -> bool:
    """Return whether sysbench connected without TLS to a server that requires it."""
    if server.account.socket or server.account.tls.encrypts:
        return False
    try:
        return bool(server.query("SELECT @@GLOBAL.require_secure_transport")[0][0])
    except StepFailed:  # a server without this variable
        return False


def _output(process: subprocess.Popen[bytes], deadline_s: float, cancelled: threading.Event) -> Iterator[bytes]:
    """Yield the process's output until it closes the pipe; empty chunks while there is no output."""
    assert process.stdout is not None
    with process.stdout as pipe:
        while True:
            if cancelled.is_set():
                raise StepFailed("preparing the dataset was cancelled", where="dataset", cause="cancelled")
            if time.monotonic() > deadline_s:
                raise StepFailed("preparing the dataset took too long", where="dataset")
            if not select.select([pipe], [], [], _POLL_S)[0]:
                yield b""
                continue
            chunk = os.read(pipe.fileno(), 1 << 16)
            if not chunk:
                return
            yield chunk
