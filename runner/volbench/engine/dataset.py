"""Fills a running server with a dataset: sysbench's prepare, then statistics, row counts and checksums."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from pydantic import Field

from volbench.base import programs
from volbench.engine.server import AttachedServer, Server
from volbench.engine.sysbench_config import sysbench_config_file
from volbench.errors import EnvironmentLacks, StepFailed
from volbench.records.base import Record
from volbench.records.cell import DatasetSpec

PREPARE_SEED = 1
"""Seed of sysbench's random numbers: the same dataset has the same rows on every machine."""
_TEST = "oltp_read_write"  # all oltp_* and select_* tests share its tables
_LINES_PER_TABLE = 3  # creating, inserting, indexing
_POLL_S = 0.5
_TAIL_BYTES = 4000

Progress = Callable[[str, float | None], None]


class TableRecord(Record):
    """A table's rows and checksum after the preparation."""

    rows: int
    checksum: int | None = Field(description="CHECKSUM TABLE; None if the server returns NULL.")


def sysbench_program() -> str:
    """Return the path of sysbench. Raise EnvironmentLacks if it is not installed."""
    path = shutil.which("sysbench")
    if path is None:
        raise EnvironmentLacks(
            "sysbench is not installed",
            where="dataset",
            next_step="apt-get install sysbench; see `volbench doctor`",
        )
    return path


def sysbench_version() -> str:
    """Return the output of `sysbench --version`, e.g. `sysbench 1.0.20`. Raise EnvironmentLacks."""
    done = programs.run([sysbench_program(), "--version"], capture_output=True, text=True, timeout=30, check=False)
    return done.stdout.strip()


def fill(
    server: Server | AttachedServer,
    dataset: DatasetSpec,
    *,
    timeout_s: float,
    cancelled: threading.Event,
    progress: Progress,
) -> dict[str, TableRecord]:
    """Make the tables of a dataset on a running server and bring their statistics up to date.

    Raises EnvironmentLacks without sysbench, StepFailed when it fails, is cancelled or takes too long.
    """
    schema = dataset.schema_name
    server.query(f"CREATE DATABASE IF NOT EXISTS `{schema}` DEFAULT CHARACTER SET utf8mb4")
    with sysbench_config_file(server.account.client_options(), schema) as config:
        _run_sysbench(server, dataset, config, timeout_s=timeout_s, cancelled=cancelled, progress=progress)
    progress("analyzing tables", None)
    names = [f"sbtest{number}" for number in range(1, dataset.tables + 1)]
    for name in names:
        server.query(f"ANALYZE TABLE `{schema}`.`{name}`")
    records = {}
    for done, name in enumerate(names):
        progress("reading checksums", done / len(names))
        records[name] = table_record(server, schema, name)
        if records[name].rows != dataset.rows:
            raise StepFailed(
                f"sysbench made {records[name].rows} rows in {name}, not {dataset.rows}", where="dataset"
            )
    return records


def table_record(server: Server | AttachedServer, schema: str, table: str) -> TableRecord:
    """Return row count and checksum of a table."""
    ((count,),) = server.query(f"SELECT COUNT(*) FROM `{schema}`.`{table}`")  # noqa: S608 - names are checked
    ((_, checksum),) = server.query(f"CHECKSUM TABLE `{schema}`.`{table}`")
    return TableRecord(rows=int(count), checksum=None if checksum is None else int(checksum))


def _run_sysbench(
    server: Server | AttachedServer,
    dataset: DatasetSpec,
    config: Path,
    *,
    timeout_s: float,
    cancelled: threading.Event,
    progress: Progress,
) -> None:
    threads = min(dataset.tables, len(os.sched_getaffinity(0)))
    command = [
        sysbench_program(),
        _TEST,
        f"--config-file={config}",
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
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    output = b""
    try:
        for chunk in _output(process, time.monotonic() + timeout_s, cancelled):
            output += chunk
            done = output.count(b"\n") / (_LINES_PER_TABLE * dataset.tables)
            progress("making tables", min(done, 1.0))
        code = process.wait(timeout=30)
    finally:
        process.kill()
        process.wait()
    if code != 0:
        log_text = output[-_TAIL_BYTES:].decode(errors="replace").strip()
        server_state = "" if server.alive() else f"; {server.why_down()}"
        raise StepFailed(
            f"sysbench prepare failed with exit code {code}", where="dataset", evidence=log_text + server_state
        )


def _output(process: subprocess.Popen[bytes], deadline_s: float, cancelled: threading.Event) -> Iterator[bytes]:
    """Yield the process's output until it closes the pipe; empty chunks while there is no output."""
    assert process.stdout is not None  # noqa: S101 - it was started with a pipe
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
