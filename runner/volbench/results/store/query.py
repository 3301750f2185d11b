"""SQL over a results directory: DuckDB in memory, with a view for each kind of record."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from pyarrow import dataset
from pyarrow.fs import LocalFileSystem

from volbench.errors import UsageError
from volbench.results.store.query_rows import FILES, RESULTS_COUNT, SCHEMAS, RunRows
from volbench.results.store.query_views import VIEWS

DERIVED = ("metrics", *FILES)
"""Views over the others and the Parquet files; `metrics` has the rows of `all_metrics` whose step is valid."""

_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "memory_limit": "768MB",
    "max_temp_directory_size": "8GB",
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "allow_persistent_secrets": False,
    "python_enable_replacements": False,  # a name in the SQL is a view, never a variable of this program
}
_EXPLAIN = re.compile(r"\s*EXPLAIN(?:\s+ANALYZE)?(?:\s*\([^()']*\))?\s+", re.IGNORECASE)
_UNREAD = "volbench has not read"
"""How the error begins of a view or column that was not read: the answer needs it, and the query is asked again."""
_ALL = re.compile(r"\btry\b", re.IGNORECASE)
"""TRY makes NULL of an error, also of that one: then everything is read."""


@dataclass(frozen=True, kw_only=True)
class QueryResult:
    """Column names, rows as tuples, and the files that could not be read."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    warnings: tuple[str, ...]


def query(results: Path, sql: str) -> QueryResult:
    """The answer of one SELECT over all runs below `results`. Only what it needs is read.

    DuckDB may open no file at all, for reading or writing: Arrow reads the runs' tables for it. Files that are
    truncated or not ours are left out and named in `warnings`.

    Raises UsageError for anything but one SELECT (or EXPLAIN of one, DESCRIBE, SHOW) and for SQL that DuckDB
    refuses.
    """
    if not results.is_dir():
        raise UsageError("no such directory of results", where=str(results))
    with (
        tempfile.TemporaryDirectory(prefix="volbench-query-") as scratch,
        closing(duckdb.connect(config={**_SETTINGS, "temp_directory": scratch})) as connection,
    ):
        try:
            _check_only_reads(connection, sql)
            connection.execute("SET enable_external_access = false")
            connection.execute("SET lock_configuration = true")
            return _answer(connection, _Views(connection, results.resolve()), sql)
        except duckdb.Error as error:
            raise UsageError(
                "the query cannot be answered",
                evidence=str(error),
                next_step=f"views: {', '.join([*VIEWS, *DERIVED])}; columns: DESCRIBE <view>",
            ) from error


def _check_only_reads(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    if explained := _EXPLAIN.match(sql):  # its type does not tell what is explained, and ANALYZE executes that
        sql = sql[explained.end() :]
    statements = connection.extract_statements(sql)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise UsageError("results are only read: give one SELECT", evidence=sql[:200])


def _answer(connection: duckdb.DuckDBPyConnection, views: _Views, sql: str) -> QueryResult:
    """Execute with the views that the SQL names, and again with each further one that it turns out to need."""
    views.read(views.named_in(sql))
    while True:
        try:
            answer = connection.execute(sql)
            columns = tuple(column[0] for column in answer.description or ())
            return QueryResult(columns=columns, rows=answer.fetchall(), warnings=views.warnings)
        except duckdb.Error as error:
            needed = views.needed_by(str(error))
            if not needed:
                raise
        views.read(needed)


class _Views:
    """The views of a connection: all are there, and each is filled when it is read.

    A view or column that was not read raises an error when a row of it is asked for, never an empty answer.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, results: Path) -> None:
        self._connection, self._results = connection, results
        self._read: set[str] = set()
        self._warnings: list[str] = []
        for name, schema in SCHEMAS.items():
            connection.register(f"{name}_rows", schema.empty_table())
            self._define(name, _unread_rows(name, f"{name}_rows"))
        self._define("metrics", "SELECT * FROM all_metrics WHERE valid")
        for name in FILES:
            connection.register(f"{name}_files", _table_of_files(results, FILES[name][1], ()))
            self._define(f"{name}_read", _unread_rows(name, f"{name}_files"))
            self._define(name, _with_validity(name))

    @property
    def warnings(self) -> tuple[str, ...]:
        """What could not be read, each once."""
        return tuple(dict.fromkeys(self._warnings))

    def named_in(self, sql: str) -> set[str]:
        """Names of views and late columns that a text has as words, and what those are made from."""
        tokens = {token.lower() for token in re.findall(r"\w+", sql)}
        names = {*VIEWS, *FILES, RESULTS_COUNT}
        if _ALL.search(sql):
            return names | set(map(_validity_of, FILES))
        named = tokens & names
        if "metrics" in tokens:
            named.add("all_metrics")
        if "valid" in tokens:
            named.update(_validity_of(name) for name in FILES if name in tokens)
        return named

    def needed_by(self, message: str) -> set[str]:
        """What an error says that was not read; empty for other errors."""
        names = {*VIEWS, *FILES, RESULTS_COUNT, *map(_validity_of, FILES)}
        return {name for name in names - self._read if f"{_UNREAD} {name}." in message.splitlines()[0]}

    def read(self, names: Iterable[str]) -> None:
        """Read what has these names from all runs, and fill their views."""
        names = set(names) - self._read
        if names & set(map(_validity_of, FILES)) and "cells" not in self._read:
            names.add("cells")
        if RESULTS_COUNT in names:
            names.add("runs")
        if not names:
            return
        rows = RunRows(names)
        rows.read(self._results)
        self._warnings += rows.warnings
        self._read |= names
        for name, tables in rows.tables.items():
            self._connection.register(f"{name}_rows", pa.concat_tables(tables))
            self._define(name, self._rows_of(name))
        for name, files in rows.files.items():
            table = _table_of_files(self._results, FILES[name][1], files)
            self._connection.register(f"{name}_files", table)
            self._define(f"{name}_read", f"SELECT * FROM {name}_files")  # noqa: S608 - a name of ours
        for name in FILES:
            if _validity_of(name) in names:
                self._define(name, _with_validity(name, of_cells=True))

    def _rows_of(self, name: str) -> str:
        if name != "runs" or RESULTS_COUNT in self._read:
            return f"SELECT * FROM {name}_rows"  # noqa: S608 - a name of ours
        return f"SELECT * REPLACE ({_unread(RESULTS_COUNT, 'BIGINT')} AS {RESULTS_COUNT}) FROM runs_rows"  # noqa: S608

    def _define(self, name: str, select: str) -> None:
        self._connection.execute(f"CREATE OR REPLACE VIEW {name} AS {select}")


def _validity_of(name: str) -> str:
    return f"the validity of {name}"


def _unread(name: str, kind: str) -> str:
    """SQL that raises an error where its value is asked for."""
    return f"CAST(error('{_UNREAD} {name}.') AS {kind})"


def _unread_rows(name: str, empty: str) -> str:
    """SQL with the columns of an empty table that raises an error where a row is asked for."""
    return (
        f"SELECT columns.* FROM (SELECT 1 WHERE {_unread(name, 'BIGINT')} IS NULL) AS unread"  # noqa: S608
        f" LEFT JOIN {empty} AS columns ON true"
    )


def _with_validity(name: str, *, of_cells: bool = False) -> str:
    """SQL of the rows of all files of a kind, and whether their cells are valid: for that, cells are read."""
    of_files = ", ".join(f'files."{column}"' for column in FILES[name][1].names)
    valid = "coalesce(cells.valid, false)" if of_cells else _unread(_validity_of(name), "BOOLEAN")
    joined = " LEFT JOIN cells USING (run_id, cell_id)" if of_cells else ""
    return f"SELECT files.run_id, files.cell_id, {valid} AS valid, {of_files} FROM {name}_read AS files{joined}"  # noqa: S608


def _table_of_files(results: Path, schema: pa.Schema, files: Sequence[str]) -> pa.Table | dataset.Dataset:
    """The files as one table with run_id and cell_id in front, read by Arrow: DuckDB itself opens no file.

    Columns and rows that a query does not want are not read.
    """
    columns = [pa.field(field.name, _plain(field.type)) for field in schema]
    schema_of_all = pa.schema([pa.field("run_id", pa.string()), pa.field("cell_id", pa.string()), *columns])
    if not files:
        return schema_of_all.empty_table()
    directories = pa.schema(
        [pa.field("run_id", pa.string()), pa.field("cells", pa.string()), pa.field("cell_id", pa.string())]
    )
    options = dataset.FileSystemFactoryOptions(
        partition_base_dir=str(results),
        partitioning=dataset.DirectoryPartitioning(directories, segment_encoding="none"),
    )
    factory = dataset.FileSystemDatasetFactory(
        LocalFileSystem(), list(files), dataset.ParquetFileFormat(), options=options
    )
    return factory.finish(schema_of_all)


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind
