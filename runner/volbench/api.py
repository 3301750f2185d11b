"""Results in Python: `run = volbench.open("results/...")`.

A run is read when it is opened and does not change afterwards. Tables are pyarrow Tables: `.to_pandas()` makes a
pandas DataFrame, `polars.from_arrow(table)` a polars one; neither is a dependency of volbench. What this module and
the records of `volbench.records.report` name stays compatible within a major version.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa

from volbench.errors import UsageError
from volbench.records.report import ComparisonRow, FindingRow, Report, Summary, TimeBudgetRow, TimeDifferenceRow
from volbench.report.build import report_of
from volbench.report.formats.html import html
from volbench.report.page_data import page_data
from volbench.report.render import Format, text_of
from volbench.store.loaded_run import LoadedRun, load_run
from volbench.store.run_directory import RunDirectory

METRICS_SCHEMA = pa.schema(
    [
        ("cell_id", pa.string()),
        ("volume", pa.string()),
        ("step", pa.string()),
        ("kind", pa.string()),
        ("block", pa.int64()),
        ("repeat", pa.int64()),
        ("valid", pa.bool_()),
        ("metric", pa.string()),
        ("value", pa.float64()),
        ("unit", pa.string()),
        ("better", pa.string()),
    ]
)
SERIES_SCHEMA = pa.schema(
    [
        ("cell_id", pa.string()),
        ("t_s", pa.float64()),
        ("source", pa.string()),
        ("metric", pa.string()),
        ("entity", pa.string()),
        ("value", pa.float64()),
    ]
)


class Run:
    """One run's results. Made by `open_run`."""

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory

    def __repr__(self) -> str:
        return f"<volbench run {self.run_id}: {', '.join(self.volumes)}>"

    @property
    def path(self) -> Path:
        """The run's directory."""
        return self._directory.path

    @cached_property
    def _loaded(self) -> LoadedRun:
        return load_run(self._directory)

    @cached_property
    def report(self) -> Report:
        """Everything that report.json holds.

        Raises RunUnreadable naming a file that is damaged or foreign.
        """
        return report_of(self._loaded)

    @property
    def run_id(self) -> str:
        """Its name: UTC time, suite, random digits."""
        return self._directory.path.name

    @property
    def volumes(self) -> tuple[str, ...]:
        """Names of the volumes, the baseline first."""
        return tuple(volume.name for volume in self.report.volumes)

    @property
    def summary(self) -> Summary:
        """The verdict, its sentence and its caveats."""
        return self.report.summary

    @property
    def findings(self) -> tuple[FindingRow, ...]:
        """Named causes with their evidence, the one that explains most first."""
        return self.report.findings

    @property
    def time_budgets(self) -> tuple[TimeBudgetRow, ...]:
        """Where a transaction's time goes on each volume."""
        return self.report.time_budgets

    @property
    def time_differences(self) -> tuple[TimeDifferenceRow, ...]:
        """Where the extra time of each other volume against the baseline goes."""
        return self.report.time_differences

    def metrics(self, *, valid_only: bool = True) -> pa.Table:
        """One row for each metric of each step of each cell, with the columns of METRICS_SCHEMA.

        Args:
            valid_only: leave out steps that are invalid, as comparisons do.
        """
        rows = [
            {
                **cell.model_dump(include={"cell_id", "volume", "step", "kind", "block", "repeat", "valid"}),
                "metric": name,
                "value": metric.value,
                "unit": metric.unit,
                "better": metric.better,
            }
            for cell in self.report.cells
            if cell.valid or not valid_only
            for name, metric in cell.metrics.items()
        ]
        return pa.Table.from_pylist(rows, schema=METRICS_SCHEMA)

    def series(self, *cell_ids: str) -> pa.Table:
        """The samples of some cells, or of all: the columns of SERIES_SCHEMA, `t_s` in seconds from a cell's zero.

        Raises UsageError for a cell that the run does not have.
        """
        cell_ids_of_run = [cell.cell_id for cell in self._loaded.run.cells]
        unknown = sorted(set(cell_ids) - set(cell_ids_of_run))
        if unknown:
            raise UsageError(
                f"the run has no cell {', '.join(unknown)}",
                where=str(self.path),
                evidence=f"it has {', '.join(cell_ids_of_run)}",
            )
        return pa.concat_tables([SERIES_SCHEMA.empty_table(), *self._series(cell_ids or cell_ids_of_run)])

    def compare(self, metric: str, *, step: str | None = None) -> tuple[ComparisonRow, ...]:
        """The comparisons of one metric against the baseline.

        Raises UsageError where the run compares no such metric.
        """
        rows = [row for row in self.report.comparisons if row.metric == metric and step in (None, row.step)]
        if not rows:
            metrics = sorted({row.metric for row in self.report.comparisons if step in (None, row.step)})
            raise UsageError(
                f"the run compares no metric {metric!r}" + (f" of step {step!r}" if step else ""),
                where=str(self.path),
                evidence=f"it compares {', '.join(metrics) or 'nothing'}",
            )
        return tuple(rows)

    def render(self, wanted: Format) -> str:
        """The report as text: `html`, `md`, `json`, `junit` or `csv`."""
        if wanted == "html":
            return html(self.report, page_data(self.report, self._loaded))
        return text_of(self.report, wanted)

    def _series(self, cell_ids: Sequence[str]) -> Iterator[pa.Table]:
        for cell_id in cell_ids:
            for key, series in self._loaded.series(cell_id).items():
                size = len(series.t_s)
                columns = {
                    "cell_id": pa.repeat(cell_id, size),
                    "t_s": np.asarray(series.t_s, dtype=np.float64),
                    "source": pa.repeat(key.source, size),
                    "metric": pa.repeat(key.metric, size),
                    "entity": pa.repeat(key.entity, size),
                    "value": np.asarray(series.value, dtype=np.float64),
                }
                yield pa.table(columns, schema=SERIES_SCHEMA)


def open_run(path: str | os.PathLike[str]) -> Run:
    """The run in a directory such as `results/20260131T120000Z-quick-1a2b3c`.

    Raises UsageError when the directory is not a run's, RunUnreadable when it is damaged.
    """
    return Run(RunDirectory.open(Path(path)))
