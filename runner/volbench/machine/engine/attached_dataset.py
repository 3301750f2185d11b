"""The dataset on an attached server: in a schema of its own, marked, and removed again."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from volbench.core.base.text import counted
from volbench.core.records.cell import AttachSpec
from volbench.core.records.dataset import DatasetSpec
from volbench.errors import Refused, StepFailed, VolbenchError
from volbench.machine.engine.answers import reads_answers, whole_number
from volbench.machine.engine.attached import AttachedServer
from volbench.machine.engine.dataset import Progress, fill

MARK_TABLE = "volbench_owned"
"""Has the run's id, and whether volbench made the schema; a schema without this table is not volbench's."""
FILL_TIMEOUT_S = 6 * 3600.0
_LOCK_WAIT_S = 5
_DATASET_TABLE = re.compile(r"sbtest[0-9]+")
_RUN_ID = re.compile(r"[A-Za-z0-9_.-]{1,120}")


@contextmanager
def attached_dataset(
    server: AttachedServer, dataset: DatasetSpec, *, run_id: str, progress: Progress
) -> Iterator[None]:
    """Make fresh tables in the dataset's schema for the block; tables of an earlier attempt are replaced.

    Raises Refused for a schema with tables that volbench did not make, or that another volbench uses.
    """
    schema = dataset.schema_name
    with _locked(server, schema):
        _claim(server, schema, run_id)
        try:
            fill(
                server,
                dataset,
                timeout_s=FILL_TIMEOUT_S,
                cancelled=threading.Event(),
                progress=progress,
            )
            yield
        except BaseException:
            with suppress(VolbenchError):  # the cell's own failure matters more than a failure of the cleanup
                remove_attached_dataset(server, schema)
            raise
        remove_attached_dataset(server, schema)


@reads_answers("tables")
def remove_attached_dataset(server: AttachedServer, schema: str, *, run_id: str = "") -> None:
    """Drop the tables that volbench made, and the schema if volbench made that too; without the mark, nothing.

    Args:
        run_id: drop only the tables of that run; empty: of any run.
    """
    tables = _tables(server, schema)
    if MARK_TABLE not in tables:
        return
    marks = server.query(f"SELECT run_id, made_schema FROM `{schema}`.`{MARK_TABLE}`")  # noqa: S608 - checked names
    if run_id and marks and str(marks[0][0]) != run_id:
        return
    for table in tables:
        if _DATASET_TABLE.fullmatch(table):
            server.query(f"DROP TABLE `{schema}`.`{table}`")
    server.query(f"DROP TABLE `{schema}`.`{MARK_TABLE}`")
    if marks and whole_number(marks[0][1]) and not _tables(server, schema):
        server.query(f"DROP DATABASE `{schema}`")


def remove_from_server(attach: AttachSpec, *, run_id: str) -> None:
    """Connect, and drop what a run made. Raises StepFailed where that is impossible, and so may still be there."""
    try:
        with AttachedServer(attach) as server:
            remove_attached_dataset(server, attach.schema_name, run_id=run_id)
    except VolbenchError as error:
        raise StepFailed(
            f"the run's tables may still be in the schema {attach.schema_name}; `volbench resume RUN` removes them",
            where="attached server",
            evidence=f"{error.what}: {error.evidence}",
        ) from error


@reads_answers("tables")
def _claim(server: AttachedServer, schema: str, run_id: str) -> None:
    """Mark the schema as volbench's: a new one, an empty one, or one that is marked already."""
    if not _RUN_ID.fullmatch(run_id):
        raise ValueError(f"{run_id!r} is no id of a run, and would be a part of a statement")
    remove_attached_dataset(server, schema)
    tables = _tables(server, schema)
    if tables:
        raise Refused(
            f"the schema {schema} has tables that volbench did not make",
            where="attached server",
            evidence=f"{counted(len(tables), 'table')}, no {MARK_TABLE}: {', '.join(tables[:5])}",
            next_step="name a new schema: --server mysql://user@host/NEW_NAME; nothing was touched",
        )
    made = not server.query(
        f"SELECT 1 FROM information_schema.schemata WHERE schema_name = '{schema}'"  # noqa: S608 - checked name
    )
    server.query(f"CREATE DATABASE IF NOT EXISTS `{schema}` DEFAULT CHARACTER SET utf8mb4")
    server.query(f"CREATE TABLE `{schema}`.`{MARK_TABLE}` (run_id VARCHAR(120), made_schema TINYINT) ENGINE=InnoDB")
    server.query(f"INSERT INTO `{schema}`.`{MARK_TABLE}` VALUES ('{run_id}', {int(made)})")  # noqa: S608


def _tables(server: AttachedServer, schema: str) -> list[str]:
    table_rows = server.query(
        "SELECT table_name FROM information_schema.tables "  # noqa: S608 - checked name
        f"WHERE table_schema = '{schema}' ORDER BY table_name"
    )
    return [str(row[0]) for row in table_rows]


@contextmanager
def _locked(server: AttachedServer, schema: str) -> Iterator[None]:
    """Take a lock of the server (GET_LOCK) for the block; the server releases it with the connection."""
    with server.connect() as opened, opened.cursor() as cursor:
        cursor.execute("SET SESSION wait_timeout = 604800")
        cursor.execute(f"SELECT GET_LOCK('volbench.{schema}', {_LOCK_WAIT_S})")
        if [tuple(row) for row in cursor.fetchall()] != [(1,)]:
            raise Refused(
                f"another volbench uses the schema {schema}",
                where="attached server",
                next_step="wait for it, or name another schema in --server",
            )
        yield
