"""SQL over a results directory: DuckDB in memory, with a view for each kind of record."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from pyarrow import dataset
from pyarrow.fs import LocalFileSystem

from volbench.core.records.cell import CellResult
from volbench.core.records.report import REPORT_SCHEMA, Report
from volbench.core.records.run import RunRecord
from volbench.errors import EnvironmentLacks, RunUnreadable, UsageError
from volbench.results.store.files import read_record
from volbench.results.store.histograms import HISTOGRAM_COLUMNS
from volbench.results.store.query_views import VIEWS
from volbench.results.store.references import check_result
from volbench.results.store.run_directory import HISTOGRAMS_FILE, RESULT_FILE, SERIES_FILE, RunDirectory, find_runs
from volbench.results.store.series import SERIES_COLUMNS
from volbench.results.store.tables import check_table

_SCHEMAS = {name: pa.schema(list(columns.items())) for name, columns in VIEWS.items()}
DERIVED = ("metrics", "series", "histograms")
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
Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class QueryResult:
    """Column names, rows as tuples, and the files that could not be read."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    warnings: tuple[str, ...]


def query(results: Path, sql: str) -> QueryResult:
    """The answer of one SELECT over all runs below `results`.

    DuckDB may open no file at all, for reading or writing: Arrow reads the runs' tables for it. Files that are
    truncated or not ours are left out and named in `warnings`.

    Raises UsageError for anything but one SELECT (or EXPLAIN of one, DESCRIBE, SHOW) and for SQL that DuckDB
    refuses.
    """
    if not results.is_dir():
        raise UsageError("no such directory of results", where=str(results))
    warnings: list[str] = []
    with (
        tempfile.TemporaryDirectory(prefix="volbench-query-") as scratch,
        closing(duckdb.connect(config={**_SETTINGS, "temp_directory": scratch})) as connection,
    ):
        try:
            _check_only_reads(connection, sql)
            _make_views(connection, results.resolve(), warnings)
            connection.execute("SET lock_configuration = true")
            answer = connection.execute(sql)
            columns = tuple(column[0] for column in answer.description or ())
            return QueryResult(columns=columns, rows=answer.fetchall(), warnings=tuple(warnings))
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


def _make_views(connection: duckdb.DuckDBPyConnection, results: Path, warnings: list[str]) -> None:
    tables = {name: [schema.empty_table()] for name, schema in _SCHEMAS.items()}
    files: dict[str, list[str]] = {"series": [], "histograms": []}
    for directory in find_runs(results):
        _tolerant(lambda d=directory: _take_run(d, tables, files, warnings), warnings)  # type: ignore[misc]
    connection.execute("SET enable_external_access = false")
    for name in VIEWS:
        connection.register(name, pa.concat_tables(tables[name]))
    connection.execute("CREATE VIEW metrics AS SELECT * FROM all_metrics WHERE valid")
    for name, schema in (("series", SERIES_COLUMNS), ("histograms", HISTOGRAM_COLUMNS)):
        connection.register(f"{name}_files", _table_of_files(results, schema, files[name]))
        of_files = ", ".join(f'files."{column}"' for column in schema.names)
        connection.execute(
            f"CREATE VIEW {name} AS SELECT files.run_id, files.cell_id, coalesce(cells.valid, false) AS valid,"  # noqa: S608
            f" {of_files} FROM {name}_files AS files LEFT JOIN cells USING (run_id, cell_id)"
        )


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


def _tolerant(collect: Callable[[], None], warnings: list[str]) -> None:
    try:
        collect()
    except (RunUnreadable, EnvironmentLacks) as error:
        warnings.append(f"{error.where}: {error.what}")


def _take_run(
    directory: RunDirectory, tables: dict[str, list[pa.Table]], files: dict[str, list[str]], warnings: list[str]
) -> None:
    """Take all rows of a run or none. Raise RunUnreadable for a number that is in no column of its kind."""
    rows: dict[str, list[Row]] = {name: [] for name in VIEWS}
    of_run: dict[str, list[str]] = {name: [] for name in files}
    _collect_run(directory, rows, of_run, warnings)
    try:
        converted = {name: pa.Table.from_pylist(rows[name], schema=schema) for name, schema in _SCHEMAS.items()}
    except (pa.ArrowException, OverflowError) as error:
        raise RunUnreadable(
            "the run has a number that no measurement gives", where=str(directory.path), evidence=str(error)[:200]
        ) from error
    for name, table in converted.items():
        tables[name].append(table)
    for name, paths in of_run.items():
        files[name] += paths


def _collect_run(
    directory: RunDirectory, tables: dict[str, list[Row]], files: dict[str, list[str]], warnings: list[str]
) -> None:
    run, results_read = directory.run, 0
    report = _report(directory, warnings)
    judged = {} if report is None else _judged(report)
    for cell in run.cells:
        cell_dir = directory.cell_dir(cell.cell_id)

        def collect(cell_id: str = cell.cell_id) -> None:
            nonlocal results_read
            results_read += _collect_cell(directory, run, cell_id, judged.get(cell_id, ()), tables)

        _tolerant(collect, warnings)
        for name, file, schema in (
            ("series", SERIES_FILE, SERIES_COLUMNS),
            ("histograms", HISTOGRAMS_FILE, HISTOGRAM_COLUMNS),
        ):
            if (path := cell_dir / file).exists():
                _tolerant(lambda n=name, p=path, s=schema: _take_file(files[n], p, s), warnings)  # type: ignore[misc]
    tables["runs"].append(
        {
            **run.model_dump(include={"run_id", "started_at", "target", "volbench_version"}),
            "suite": run.suite.name,
            "volumes": [volume.name for volume in run.volumes],
            "cells_planned": len(run.cells),
            "cells_with_result": results_read,
        }
    )
    if report is not None:
        tables["comparisons"].extend(_comparisons(report, run))
        tables["time_budgets"].extend({**row.model_dump(), "run_id": run.run_id} for row in report.time_budgets)
        tables["responses"].extend(_responses(report, run))
        tables["time_differences"].extend(_differences(report, run))


def _responses(report: Report, run: RunRecord) -> Iterator[Row]:
    for row in report.responses:
        low, high = row.ci or (None, None)
        counted_low, counted_high = row.counted or (None, None)
        values = row.model_dump(exclude={"ci", "counted", "moved_ms", "notes"})
        bounds = {"ci_low": low, "ci_high": high, "counted_low": counted_low, "counted_high": counted_high}
        yield {**values, **bounds, "run_id": run.run_id}


def _report(directory: RunDirectory, warnings: list[str]) -> Report | None:
    path = directory.path / "report.json"
    try:
        return read_record(path, Report, schema=REPORT_SCHEMA) if path.exists() else None
    except (RunUnreadable, EnvironmentLacks) as error:
        warnings.append(f"{error.where}: {error.what}")
        return None


def _judged(report: Report) -> dict[str, list[tuple[str, ...]]]:
    """By cell, why each of its steps is invalid: the report also knows cells whose server was set otherwise."""
    judged: dict[str, list[tuple[str, ...]]] = {}
    for cell in report.cells:
        judged.setdefault(cell.cell_id, []).append(cell.invalid_reasons)
    return judged


def _take_file(files: list[str], path: Path, schema: pa.Schema) -> None:
    check_table(path, schema)
    files.append(str(path))


def _collect_cell(
    directory: RunDirectory,
    run: RunRecord,
    cell_id: str,
    judged: Sequence[tuple[str, ...]],
    tables: dict[str, list[Row]],
) -> int:
    result = directory.result(cell_id)
    if result is None:
        return 0
    check_result(run, result, directory.cell_dir(cell_id) / RESULT_FILE)
    planned = next(cell for cell in run.cells if cell.cell_id == cell_id)
    shared = {
        "run_id": directory.path.name,
        "cell_id": cell_id,
        "volume": planned.volume,
        "repeat": planned.repeat,
    }
    reasons = _invalid_reasons(result, judged)
    tables["cells"].append(
        {
            **shared,
            "valid": not any(reasons),
            **result.model_dump(include={"attempt", "status", "zero_utc", "wall_s"}),
            "block": planned.block,
            "cause": result.failure.cause if result.failure else None,
            "parameters": json.dumps(planned.parameters),
            "filesystem": result.volume_facts.filesystem,
            "device": result.volume_facts.device,
            "server_version": result.server.version if result.server else None,
        }
    )
    for step, step_reasons in zip(result.steps, reasons, strict=True):
        about = {**shared, "step": step.step, "kind": step.kind, "valid": not step_reasons}
        about["invalid_reasons"] = "; ".join(step_reasons)
        about["parameters"] = json.dumps({**planned.parameters, **step.parameters})
        tables["all_metrics"] += [
            {**about, "metric": name, **metric.model_dump()} for name, metric in step.metrics.items()
        ]
    return 1


def _invalid_reasons(result: CellResult, judged: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Why each step is invalid, by its own result and, where report.json has the same steps, by that."""
    undone = () if result.status == "done" else (f"the cell is {result.status}, not done",)
    own = [
        (*(step.invalid_reasons or (() if step.valid else ("no reason was recorded",))), *undone)
        for step in result.steps
    ]
    if len(judged) != len(own):
        return own
    return [
        tuple(dict.fromkeys((*of_result, *of_report))) for of_result, of_report in zip(own, judged, strict=True)
    ]


def _comparisons(report: Report, run: RunRecord) -> Iterable[Row]:
    for row in report.comparisons:
        low, high = row.ci or (None, None)
        yield {
            **row.model_dump(include=set(VIEWS["comparisons"]) - {"run_id", "parameters"}),
            "run_id": run.run_id,
            "parameters": json.dumps(row.parameters),
            "ci_low": low,
            "ci_high": high,
            "runs_baseline": row.runs[0],
            "runs_candidate": row.runs[1],
            "is_primary": row.primary,
        }


def _differences(report: Report, run: RunRecord) -> Iterable[Row]:
    for row in report.time_differences:
        low, high = row.ci or (None, None)
        yield {**row.model_dump(exclude={"ci"}), "run_id": run.run_id, "ci_low": low, "ci_high": high}
