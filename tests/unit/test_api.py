"""The Python API on a synthetic run: what it returns equals what the files and the report hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from synthetic_run import build_run, two_volumes

import volbench
from volbench.api import METRICS_SCHEMA, SERIES_SCHEMA, Run
from volbench.errors import UsageError
from volbench.results.report.build import build_report
from volbench.results.store.run_directory import SERIES_FILE, RunDirectory


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    expected = two_volumes(repeats=3, invalid={("a", 1): "client CPU-bound"})
    return build_run(tmp_path_factory.mktemp("api"), expected)


@pytest.fixture(scope="module")
def run(directory: RunDirectory) -> Run:
    return volbench.open(str(directory.path))


def test_it_is_the_report(run: Run, directory: RunDirectory) -> None:
    report = build_report(directory)
    assert run.report == report
    assert (run.volumes, run.findings, run.summary) == (("a", "b"), report.findings, report.summary)
    assert json.loads(run.render("json"))["run_id"] == run.run_id
    assert repr(run) == f"<volbench run {run.run_id}: a, b>"


def test_metrics_are_those_of_valid_steps_unless_all_are_wanted(run: Run) -> None:
    valid, every = run.metrics(), run.metrics(valid_only=False)
    assert valid.schema == METRICS_SCHEMA
    assert set(valid["valid"].to_pylist()) == {True}
    expected = sum(len(cell.metrics) for cell in run.report.cells if cell.valid)
    assert len(valid) == expected
    assert len(every) > expected
    tps = [row for row in every.to_pylist() if row["metric"] == "tps"]
    assert {(row["unit"], row["better"]) for row in tps} == {("1/s", "higher")}
    assert len(tps) == 6


def test_series_are_the_rows_of_the_files(run: Run, directory: RunDirectory) -> None:
    first = run.report.cells[0].cell_id
    table = run.series(first)
    assert table.schema == SERIES_SCHEMA
    assert len(table) == pq.read_metadata(directory.cell_dir(first) / SERIES_FILE).num_rows
    assert set(run.series()["cell_id"].to_pylist()) == {cell.cell_id for cell in run.report.cells}
    with pytest.raises(UsageError, match="no cell nowhere"):
        run.series("nowhere")


def test_compare_names_what_there_is(run: Run) -> None:
    (row,) = run.compare("tps")
    assert (row.baseline, row.candidate, row.metric) == ("a", "b", "tps")
    assert run.compare("tps", step=row.step) == (row,)
    with pytest.raises(UsageError, match="compares no metric 'tsp'") as refusal:
        run.compare("tsp")
    assert "tps" in (refusal.value.evidence or "")


def test_a_directory_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a run's directory"):
        volbench.open(tmp_path)


NOTEBOOK = Path(__file__).parents[2] / "docs" / "results.ipynb"


def test_the_notebook_runs_from_its_first_cell_to_its_last(run: Run, directory: RunDirectory) -> None:
    """As a kernel does it, in one namespace; only the run is another, as papermill's `parameters` are."""
    cells = [cell for cell in json.loads(NOTEBOOK.read_bytes())["cells"] if cell["cell_type"] == "code"]
    parameters, *remaining = cells
    assert parameters["metadata"]["tags"] == ["parameters"]
    names: dict[str, Any] = {"run_directory": str(directory.path)}
    for cell in remaining:
        exec(compile("".join(cell["source"]), f"{NOTEBOOK.name}: {cell['id']}", "exec"), names)  # noqa: S102
    assert names["run"].run_id == run.run_id
    assert [row.verdict for row in names["rows"]] == [row.verdict for row in run.compare("tps")]
    assert {row["volume"] for row in names["medians"].to_pylist()} == {"a", "b"}
    assert names["samples"].num_rows > 0
    assert all(cell["outputs"] == [] for cell in cells), "outputs would be of another run"
