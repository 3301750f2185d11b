"""Rows of the views of `volbench query`: what a query names is read from each run, and nothing else."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from volbench.core.base import safe_files
from volbench.core.records.cell import CellResult
from volbench.core.records.report import REPORT_SCHEMA, Report
from volbench.core.records.run import PlannedCell, RunRecord
from volbench.errors import MissingPrerequisite, RunUnreadable
from volbench.results.store.files import CELLS, read_record
from volbench.results.store.histograms import HISTOGRAM_COLUMNS
from volbench.results.store.query_tables import QueryTables, TableState, held_run
from volbench.results.store.query_views import VIEWS
from volbench.results.store.references import check_result
from volbench.results.store.run_directory import HISTOGRAMS_FILE, RESULT_FILE, SERIES_FILE, RunDirectory, find_runs
from volbench.results.store.series import SERIES_COLUMNS
from volbench.results.store.tables import check_table, unreadable

SCHEMAS = {name: pa.schema(list(columns.items())) for name, columns in VIEWS.items()}
FILES = {"series": (SERIES_FILE, SERIES_COLUMNS), "histograms": (HISTOGRAMS_FILE, HISTOGRAM_COLUMNS)}
"""Views whose rows are in the cells' own tables, and the name and columns of those."""
RESULTS_COUNT = "cells_with_result"
"""The column of `runs` for which every result is read: it can be wanted besides the view."""
_OF_CELLS = frozenset({"cells", "all_metrics"})
_OF_REPORT = frozenset({"figures", "comparisons", "time_budgets", "responses", "time_differences"})
_ROWS_AT_ONCE = 4_000
"""Rows that become Arrow's at once: a table for each run costs more than its rows."""
Row = dict[str, Any]


@dataclass
class _Run:
    """What was read of a run."""

    directory: RunDirectory
    rows: dict[str, list[Row]]


@dataclass
class RunRows:
    """What is read of all runs below a directory of results, by views that a query names.

    `tables` has the rows of each wanted view, `of_cells` the cells' tables of each of the wanted `kinds`, and
    `warnings` what could not be read.
    """

    names: Collection[str]
    of_cells: QueryTables
    tables: dict[str, list[pa.Table]] = field(default_factory=dict)
    kinds: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    _descriptions: dict[str, set[bytes]] = field(default_factory=lambda: {name: set() for name in FILES})
    _pending: list[_Run] = field(default_factory=list)
    _pending_rows: int = 0

    def read(self, results: Path) -> None:
        """Read all runs below `results`; one that cannot be read is named in `warnings`, and left out."""
        self.tables = {name: [SCHEMAS[name].empty_table()] for name in VIEWS if name in self.names}
        self.kinds = [name for name in FILES if name in self.names]
        for directory in find_runs(results):
            self._tolerant(lambda d=directory: self._take(d))  # type: ignore[misc]
        self._convert_pending()

    def _take(self, directory: RunDirectory) -> None:
        run = _Run(directory, {name: [] for name in self.tables})
        self._collect(run)
        self._pending.append(run)
        self._pending_rows += sum(map(len, run.rows.values()))
        if self._pending_rows >= _ROWS_AT_ONCE:
            self._convert_pending()

    def _convert_pending(self) -> None:
        """Take all rows of a run or none: where a number is in no column of its kind, that run is left out."""
        pending, self._pending, self._pending_rows = self._pending, [], 0
        try:
            self._convert(pending)
        except RunUnreadable:
            for run in pending:
                self._tolerant(lambda r=run: self._convert([r]))  # type: ignore[misc]

    def _convert(self, runs: Sequence[_Run]) -> None:
        """Add the rows and files of runs. Raises RunUnreadable for a number that is in no column of its kind."""
        try:
            converted = {
                name: pa.Table.from_pylist([row for run in runs for row in run.rows[name]], schema=SCHEMAS[name])
                for name in self.tables
            }
        except (pa.ArrowException, OverflowError) as error:
            raise RunUnreadable(
                "the run has a number that no measurement gives",
                where=str(runs[0].directory.path),
                evidence=str(error)[:200],
            ) from error
        for name, table in converted.items():
            self.tables[name].append(table)

    def _collect(self, loaded: _Run) -> None:
        directory, run, results_read = loaded.directory, loaded.directory.run, None
        of_cells = _OF_CELLS.intersection(self.names)
        report = self._report(directory) if of_cells or _OF_REPORT.intersection(self.names) else None
        if of_cells or RESULTS_COUNT in self.names:
            results_read = self._collect_cells(directory, run, report, loaded.rows)
        if self.kinds:
            self._check_tables(directory, run)
        if "runs" in self.names:
            loaded.rows["runs"].append(_run_row(run, results_read))
        for name, rows_of in _REPORT_ROWS.items():
            if report is not None and name in loaded.rows:
                loaded.rows[name] += rows_of(report, run)

    def _collect_cells(
        self, directory: RunDirectory, run: RunRecord, report: Report | None, rows: dict[str, list[Row]]
    ) -> int:
        """Add the rows of all cells that have a result, and return how many have."""
        judged = {} if report is None else _judged(report)
        read = 0
        for cell in run.cells:

            def collect(cell: PlannedCell = cell) -> None:
                nonlocal read
                read += _collect_cell(directory, run, cell, judged.get(cell.cell_id, ()), rows)

            self._tolerant(collect)
        return read

    def _check_tables(self, directory: RunDirectory, run: RunRecord) -> None:
        """Check the tables of all cells and add those that can be read."""
        with held_run(directory.path) as opened:
            for kind in self.kinds:
                for cell in run.cells:
                    self._tolerant(lambda k=kind, c=cell.cell_id: self._check_table(directory, opened, k, c))  # type: ignore[misc]

    def _check_table(self, directory: RunDirectory, opened: int, kind: str, cell_id: str) -> None:
        """Check a cell's table, if it has one. Raises RunUnreadable."""
        file, schema = FILES[kind]
        inside = f"{CELLS}/{cell_id}/{file}"
        try:
            descriptor = safe_files.open_regular(opened, inside)
        except FileNotFoundError:
            return
        except OSError as error:
            raise unreadable(directory.path / inside, error) from error
        try:
            content = check_table(directory.path / inside, descriptor, schema, self._descriptions[kind])
            state = TableState.of(descriptor)
        finally:
            os.close(descriptor)
        self.of_cells.add(kind, directory.path, cell_id, inside, state, content)

    def _report(self, directory: RunDirectory) -> Report | None:
        path = directory.path / "report.json"
        reports: list[Report] = []
        if path.exists():
            self._tolerant(lambda: reports.append(read_record(path, Report, schema=REPORT_SCHEMA)))
        return next(iter(reports), None)

    def _tolerant(self, collect: Callable[[], None]) -> None:
        try:
            collect()
        except (RunUnreadable, MissingPrerequisite) as error:
            self.warnings.append(f"{error.where}: {error.what}")


def _run_row(run: RunRecord, results_read: int | None) -> Row:
    return {
        **run.model_dump(include={"run_id", "started_at", "target", "volbench_version"}),
        "suite": run.suite.name,
        "volumes": [volume.name for volume in run.volumes],
        "cells_planned": len(run.cells),
        RESULTS_COUNT: results_read,
    }


def _collect_cell(
    directory: RunDirectory,
    run: RunRecord,
    planned: PlannedCell,
    judged: Sequence[tuple[str, ...]],
    rows: dict[str, list[Row]],
) -> int:
    cell_id = planned.cell_id
    result = directory.result(cell_id)
    if result is None:
        return 0
    check_result(run, result, directory.cell_dir(cell_id) / RESULT_FILE)
    shared = {
        "run_id": directory.path.name,
        "cell_id": cell_id,
        "volume": planned.volume,
        "repeat": planned.repeat,
    }
    reasons = _invalid_reasons(result, judged)
    if "cells" in rows:
        rows["cells"].append({**shared, "valid": not any(reasons), **_cell_row(planned, result)})
    if "all_metrics" in rows:
        for step, step_reasons in zip(result.steps, reasons, strict=True):
            about = {**shared, "step": step.step, "kind": step.kind, "valid": not step_reasons}
            about["invalid_reasons"] = "; ".join(step_reasons)
            about["parameters"] = json.dumps({**planned.parameters, **step.parameters})
            rows["all_metrics"] += [
                {**about, "metric": name, **metric.model_dump()} for name, metric in step.metrics.items()
            ]
    return 1


def _cell_row(planned: PlannedCell, result: CellResult) -> Row:
    return {
        **result.model_dump(include={"attempt", "status", "zero_utc", "wall_s"}),
        "block": planned.block,
        "cause": result.failure.cause if result.failure else None,
        "parameters": json.dumps(planned.parameters),
        "filesystem": result.volume_facts.filesystem,
        "device": result.volume_facts.device,
        "server_version": result.server.version if result.server else None,
    }


def _judged(report: Report) -> dict[str, list[tuple[str, ...]]]:
    """Return by cell why each of its steps is invalid: the report also knows cells whose server differed."""
    judged: dict[str, list[tuple[str, ...]]] = {}
    for cell in report.cells:
        judged.setdefault(cell.cell_id, []).append(cell.invalid_reasons)
    return judged


def _invalid_reasons(result: CellResult, judged: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return why each step is invalid, by its own result and, where report.json has the same steps, by that."""
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


def _figures(report: Report, run: RunRecord) -> Iterable[Row]:
    for row in report.figures:
        yield {
            **row.model_dump(exclude={"parameters", "excluded"}),
            "run_id": run.run_id,
            "parameters": json.dumps(row.parameters),
            "excluded_cells": sum(entry.cells for entry in row.excluded),
            "excluded_low": min((entry.low for entry in row.excluded), default=None),
            "excluded_high": max((entry.high for entry in row.excluded), default=None),
        }


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


def _budgets(report: Report, run: RunRecord) -> Iterable[Row]:
    for row in report.time_budgets:
        yield {**row.model_dump(), "run_id": run.run_id}


def _responses(report: Report, run: RunRecord) -> Iterator[Row]:
    for row in report.responses:
        low, high = row.ci or (None, None)
        counted_low, counted_high = row.counted or (None, None)
        less_low, less_high = row.less_cpu_wait_ci or (None, None)
        values = row.model_dump(exclude={"ci", "counted", "less_cpu_wait_ci", "moved_ms", "notes"})
        bounds = {"ci_low": low, "ci_high": high, "counted_low": counted_low, "counted_high": counted_high}
        bounds |= {"less_cpu_wait_low": less_low, "less_cpu_wait_high": less_high}
        yield {**values, **bounds, "run_id": run.run_id}


_REPORT_ROWS: dict[str, Callable[[Report, RunRecord], Iterable[Row]]] = {
    "figures": _figures,
    "comparisons": _comparisons,
    "time_budgets": _budgets,
    "responses": _responses,
    "time_differences": _differences,
}
