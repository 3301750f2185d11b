"""SQL over a results directory: DuckDB in memory, with a view for each kind of record."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from volbench.errors import UsageError
from volbench.results.store.query_rows import FILES, RESULTS_COUNT, SCHEMAS, RunRows
from volbench.results.store.query_tables import PROTOCOL, QueryTables, all_of
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
_OF_THE_TEXT = (
    duckdb.BinderException,
    duckdb.CatalogException,
    duckdb.ConversionException,
    duckdb.ParserException,
    duckdb.PermissionException,
)
"""Errors of what was asked, and of no table."""
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
    """Return the answer of one SELECT over all runs below `results`. Only what it needs is read.

    DuckDB may open no file of the machine, for reading or writing: it reads the runs' tables by names of a file
    system of ours, which cannot write. Files that are truncated or not ours are left out and named in `warnings`.

    A table that turns out to be damaged is left out too, and the query is asked again.

    Raises UsageError for anything but one SELECT (or EXPLAIN of one, DESCRIBE, SHOW) and for SQL that DuckDB
    refuses.
    """
    if not results.is_dir():
        raise UsageError("no such directory of results", where=str(results))
    damaged: dict[str, str] = {}
    while True:
        tables = QueryTables(damaged)
        with tempfile.TemporaryDirectory(prefix="volbench-query-") as scratch:
            try:
                with closing(_fenced(scratch, tables)) as connection:
                    return _answered(connection, _Views(connection, results.resolve(), tables), sql)
            except (duckdb.Error, UnicodeDecodeError) as error:  # a message of DuckDB with bytes of a file in it
                if not (unreadable := _damaged_tables(scratch, tables, error)):
                    raise UsageError(
                        "the query cannot be answered",
                        evidence=_evidence(error),
                        next_step=f"views: {', '.join([*VIEWS, *DERIVED])}; columns: DESCRIBE <view>",
                    ) from error
                damaged |= unreadable


def _fenced(scratch: str, tables: QueryTables) -> duckdb.DuckDBPyConnection:
    """Return a database in memory that may open these tables and nothing else."""
    connection = duckdb.connect(config={**_SETTINGS, "temp_directory": scratch})
    connection.register_filesystem(tables)
    connection.execute(f"SET allowed_directories = ['{PROTOCOL}://']")
    connection.execute("SET enable_external_access = false")
    return connection


def _answered(connection: duckdb.DuckDBPyConnection, views: _Views, sql: str) -> QueryResult:
    _check_only_reads(connection, sql)
    views.read(views.named_in(sql))
    if views.are_of_small_tables:
        connection.execute("SET threads = 1")  # others would wait for Python's lock, which each opening takes
    connection.execute("SET lock_configuration = true")
    return _answer(connection, views, sql)


def _damaged_tables(scratch: str, tables: QueryTables, error: Exception) -> dict[str, str]:
    """Return the tables that DuckDB cannot read to their end, and why, where an error may be of one of them."""
    damaged: dict[str, str] = {}
    if isinstance(error, _OF_THE_TEXT):
        return damaged
    connection = _fenced(scratch, tables)
    for name in tables.names():
        try:
            connection.execute(f"SELECT bit_xor(hash(COLUMNS(*))) FROM read_parquet('{name}')").fetchall()  # noqa: S608
        except (duckdb.Error, UnicodeDecodeError) as fault:
            damaged[name] = _evidence(fault)
            connection.close()
            connection = _fenced(scratch, tables)  # some faults end a database
    connection.close()
    return damaged


def _evidence(error: Exception) -> str:
    """Return what DuckDB says, without the traceback that it adds to an error of ours."""
    text = str(error)
    if text.startswith("Traceback"):
        text = next((line for line in text.splitlines()[1:] if not line.startswith(" ")), text)
    return text


def _check_only_reads(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    if explained := _EXPLAIN.match(sql):  # its type does not tell what is explained, and ANALYZE executes that
        sql = sql[explained.end() :]
    statements = connection.extract_statements(sql)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise UsageError("results are only read: give one SELECT", evidence=sql[:200])


def _answer(connection: duckdb.DuckDBPyConnection, views: _Views, sql: str) -> QueryResult:
    """Execute with the views that were read, and again with each further one that the SQL turns out to need."""
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

    def __init__(self, connection: duckdb.DuckDBPyConnection, results: Path, tables: QueryTables) -> None:
        self._connection, self._results, self._tables = connection, results, tables
        self._read: set[str] = set()
        self._warnings: list[str] = []
        for name, schema in SCHEMAS.items():
            connection.register(f"{name}_rows", schema.empty_table())
            self._define(name, _unread_rows(name, f"{name}_rows"))
        self._define("metrics", "SELECT * FROM all_metrics WHERE valid")
        for name in FILES:
            connection.register(f"{name}_empty", _empty_table(FILES[name][1]))
            self._define(f"{name}_read", _unread_rows(name, f"{name}_empty"))
            self._define(name, _with_validity(name))

    @property
    def are_of_small_tables(self) -> bool:
        """Whether tables were read that take longer to open than to read."""
        return self._tables.are_small

    @property
    def warnings(self) -> tuple[str, ...]:
        """What could not be read, each once."""
        return tuple(dict.fromkeys(self._warnings))

    def named_in(self, sql: str) -> set[str]:
        """Return names of views and late columns that a text has as words, and what those are made from."""
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
        """Return what an error says that was not read; empty for other errors."""
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
        rows = RunRows(names, self._tables)
        rows.read(self._results)
        self._warnings += rows.warnings
        self._read |= names
        for name, tables in rows.tables.items():
            self._connection.register(f"{name}_rows", pa.concat_tables(tables))
            self._define(name, self._rows_of(name))
        for name in rows.kinds:
            self._define(f"{name}_read", self._rows_of_tables(name))
        for name in FILES:
            if _validity_of(name) in names:
                self._define(name, _with_validity(name, of_cells=True))

    def _rows_of(self, name: str) -> str:
        if name != "runs" or RESULTS_COUNT in self._read:
            return f"SELECT * FROM {name}_rows"  # noqa: S608 - a name of ours
        return f"SELECT * REPLACE ({_unread(RESULTS_COUNT, 'BIGINT')} AS {RESULTS_COUNT}) FROM runs_rows"  # noqa: S608

    def _rows_of_tables(self, name: str) -> str:
        """Return SQL of the rows of all tables of a kind.

        Columns and rows that a query does not want are not read.
        """
        if not self._tables.names(name):
            return f"SELECT * FROM {name}_empty"  # noqa: S608 - a name of ours
        columns = ", ".join(f'"{column}"' for column in FILES[name][1].names)
        options = "hive_partitioning = true, hive_types_autocast = false"
        return f"SELECT run_id, cell_id, {columns} FROM read_parquet('{all_of(name)}/*', {options})"  # noqa: S608

    def _define(self, name: str, select: str) -> None:
        self._connection.execute(f"CREATE OR REPLACE VIEW {name} AS {select}")


def _validity_of(name: str) -> str:
    return f"the validity of {name}"


def _unread(name: str, kind: str) -> str:
    """Return SQL that raises an error where its value is asked for."""
    return f"CAST(error('{_UNREAD} {name}.') AS {kind})"


def _unread_rows(name: str, empty: str) -> str:
    """Return SQL with the columns of an empty table that raises an error where a row is asked for."""
    return (
        f"SELECT columns.* FROM (SELECT 1 WHERE {_unread(name, 'BIGINT')} IS NULL) AS unread"  # noqa: S608
        f" LEFT JOIN {empty} AS columns ON true"
    )


def _with_validity(name: str, *, of_cells: bool = False) -> str:
    """Return sQL of the rows of all files of a kind, and whether their cells are valid.

    For that, cells are read.
    """
    of_files = ", ".join(f'files."{column}"' for column in FILES[name][1].names)
    valid = "coalesce(cells.valid, false)" if of_cells else _unread(_validity_of(name), "BOOLEAN")
    joined = " LEFT JOIN cells USING (run_id, cell_id)" if of_cells else ""
    return f"SELECT files.run_id, files.cell_id, {valid} AS valid, {of_files} FROM {name}_read AS files{joined}"  # noqa: S608


def _empty_table(columns: pa.Schema) -> pa.Table:
    ids = [pa.field("run_id", pa.string()), pa.field("cell_id", pa.string())]
    return pa.schema([*ids, *(pa.field(field.name, _plain(field.type)) for field in columns)]).empty_table()


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind
