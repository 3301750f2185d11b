"""Runs in Python: `run = volbench.run("suites/quick.yaml", volumes={...})`, `run = volbench.open("results/...")`.

A run is read when it is opened and does not change afterwards. Tables are pyarrow Tables: `.to_pandas()` makes a
pandas DataFrame, `polars.from_arrow(table)` a polars one; neither is a dependency of volbench. CONTRIBUTING.md
says what stays compatible from version to version.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa

from volbench.core.base.text import ignore_messages
from volbench.core.records.report import (
    ComparisonRow,
    FigureRow,
    FindingRow,
    Report,
    ResponseRow,
    Summary,
    TimeBudgetRow,
    TimeDifferenceRow,
)
from volbench.errors import UsageError
from volbench.measure.session.caveats import budget_caveats
from volbench.measure.session.ladder import with_reached_threads
from volbench.measure.session.planner import Planned, budget_seconds, check_budget, make_plan, until_settings
from volbench.measure.session.progress import ProgressLines
from volbench.measure.session.runner import Invocation, create, execute
from volbench.measure.session.servers import TargetRequest
from volbench.results.report.build import report_of
from volbench.results.report.formats.html import html
from volbench.results.report.formats.terminal import summary_lines
from volbench.results.report.page_data import page_data
from volbench.results.report.render import Format, text_of
from volbench.results.response.prediction import Predicted, predicted_by
from volbench.results.store.loaded_run import LoadedRun, load_run
from volbench.results.store.run_directory import RunDirectory
from volbench.results.store.run_names import run_path

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
    """One run's results, as `volbench.run` and `volbench.open` return them."""

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
    def figures(self) -> tuple[FigureRow, ...]:
        """Each volume's figure of each metric, and of which cells it is."""
        return self.report.figures

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

    @property
    def responses(self) -> tuple[ResponseRow, ...]:
        """What a millisecond of the volume costs transactions and queries, with the server's count of waits."""
        return self.report.responses

    def predict(self, awaits_ms: Mapping[str, float]) -> tuple[Predicted, ...]:
        """Return each load's latency, and a closed loop's rate, as they would be with other waiting times.

        Args:
            awaits_ms: by term of `responses`, such as {"read": 0.3, "log_sync": 1.0}; others stay as they are.

        Raises UsageError where no load has a slope of every term.
        """
        return predicted_by(self.report.responses, awaits_ms)

    def metrics(self, *, valid_only: bool = True) -> pa.Table:
        """Return one row for each metric of each step of each cell, with the columns of METRICS_SCHEMA.

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
        """Return the samples of some cells, or of all.

        The columns of SERIES_SCHEMA, `t_s` in seconds from a cell's zero.

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
        """Return the comparisons of one metric against the baseline.

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

    def _repr_html_(self) -> str:
        """Return what a notebook shows of a run: the lines that the command line prints."""
        return f"<pre>{escape(chr(10).join(summary_lines(self.report)))}</pre>"

    def render(self, format_name: Format) -> str:
        """Return the report as text: `html`, `md`, `json`, `junit` or `csv`."""
        if format_name == "html":
            return html(self.report, page_data(self.report, self._loaded))
        return text_of(self.report, format_name)

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
    """Return the run in a directory such as `results/20260131T120000Z-quick-1a2b3c`.

    A run's id, and `latest` for the newest one, are looked for below results/, as on the command line.

    Raises UsageError when the directory is not a run's, RunUnreadable when it is damaged.
    """
    return Run(RunDirectory.open(run_path(Path(path))))


def run(
    suite: str | os.PathLike[str],
    volumes: Mapping[str, str | os.PathLike[str]] | None = None,
    *,
    settings: Mapping[str, object] | None = None,
    target: str | TargetRequest = "auto",
    results: str | os.PathLike[str] = "results",
    until: Literal["decided", "all_cells"] | None = None,
    budget: str = "",
    progress: Callable[[str], None] | None = None,
    time_limit_s: float | None = None,
) -> Run:
    """Run a suite on volumes as `volbench run` does, and return the run, with or without a verdict.

    An interruption (Ctrl-C, also of a notebook's kernel) ends the cell and removes what it made;
    `volbench resume RUN` continues the run.

    Args:
        suite: a suite's file, or a shipped one such as "suites/quick.yaml".
        volumes: name to SPEC, directory, or DSN of a server that runs already (`mysql://...`); the first is the
            baseline. None: those of the suite.
        settings: keys of the suite, such as {"repeats": 3, "steps.0.duration": "5s"}.
        target: auto, local, docker, kubernetes or attach; a TargetRequest has its options, too.
        results: where the run's directory goes.
        until: `decided`: stop when every pair of volumes has a verdict; None: as the suite says.
        budget: begin no block of cells that would not end within this time, such as "10m"; implies `decided`.
        progress: gets a line for each step of the work, such as `print`.
        time_limit_s: after which the run is interrupted and fails.

    Raises the errors of the command line: UsageError, MissingPrerequisite, Refused, StepFailed; KeyboardInterrupt.
    """
    say = progress or ignore_messages
    servers = {name: str(spec) for name, spec in (volumes or {}).items() if str(spec).startswith("mysql://")}
    specs = [f"{name}={_spec_of(spec)}" for name, spec in (volumes or {}).items() if name not in servers]
    request = target if isinstance(target, TargetRequest) else TargetRequest(target=target)
    request = replace(request, servers=(*request.servers, *(f"{name}={dsn}" for name, dsn in servers.items())))
    budget_s = budget_seconds(budget, until)
    values = [
        f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in (settings or {}).items()
    ]
    values = until_settings("decided" if budget_s is not None else until, values)
    command = _command(suite, specs, request, values)
    planned = make_plan(Path(suite), specs, request, settings=values, command=command, say=say)
    check_budget(planned.run, budget_s)
    for caveat in budget_caveats(planned.run, planned.cost.wall_s, budget_s) if budget_s is not None else ():
        say(f"caveat: {caveat}")

    def run_all(cells: Planned, budget_s: float | None = None) -> RunDirectory:
        directory = create(cells, Path(results), say)
        say(f"results: {directory.path}")
        lines = ProgressLines(directory, say)
        invocation = Invocation(
            attached=cells.attached, watch=lines, say=say, budget_s=budget_s, time_limit_s=time_limit_s
        )
        execution = execute(directory, invocation)
        lines.report_finished()
        if execution.error is not None:
            raise execution.error
        return directory

    return Run(run_all(with_reached_threads(planned, run_all, say), budget_s))


def _spec_of(volume: str | os.PathLike[str]) -> str:
    """Return the SPEC of a volume; a path object is a directory."""
    return volume if isinstance(volume, str) else f"path:{Path(volume).absolute()}"


def _command(
    suite: str | os.PathLike[str], specs: Sequence[str], request: TargetRequest, values: Sequence[str]
) -> list[str]:
    """Return the command line that does the same, for the run's record and its report."""
    options = {
        "--volume": specs,
        "--set": values,
        "--server": request.servers,
        "--option-file": request.option_files,
        "--target-option": request.options,
        "--tools-image": [request.tools] if request.tools else [],
        "--target": [request.target],
    }
    return ["volbench", "run", os.fspath(suite), *(f"{o}={v}" for o, texts in options.items() for v in texts)]
