"""Rows of every section are of valid cells, or say that they are not."""

from __future__ import annotations

from pathlib import Path

import pytest
from synthetic_run import build_run, two_volumes

from volbench.core.records.report import Report
from volbench.core.records.steps.oltp import OltpStep
from volbench.results.explain.run import explain_run
from volbench.results.report.build import build_report
from volbench.results.report.formats.markdown import markdown
from volbench.results.report.render import render
from volbench.results.store.loaded_run import load_run
from volbench.results.store.run_directory import RunDirectory

REASON = "client CPU-bound"
LOAD = OltpStep(name="load", warmup_s=10, duration_s=60)


def run_with(directory: Path, *invalid: int) -> RunDirectory:
    """Four cells a volume; those repeats of volume a are invalid."""
    expected = two_volumes(steps=(LOAD,), repeats=4, invalid={("a", repeat): REASON for repeat in invalid})
    return build_run(directory, expected)


def cells_text(report: Report) -> list[str]:
    """What findings on volume a say of the number of cells."""
    rows = [row for finding in report.findings if finding.volume == "a" for row in finding.evidence]
    return [row.text for row in rows if row.metric in ("cells", "invalid_cells")]


def test_an_invalid_cell_is_in_no_finding_and_no_cost(tmp_path: Path) -> None:
    directory = run_with(tmp_path, 2)
    report = build_report(directory)
    (bad,) = (cell.cell_id for cell in report.cells if not cell.valid)
    findings = [row for row in report.findings if row.volume == "a"]
    assert findings
    assert not any(bad in row.cell_ids for row in findings)
    assert set(cells_text(report)) == {"found in 3 of 3 valid cells; 1 invalid left out"}
    assert {row.cells for row in report.transactions if row.volume == "a"} == {3}
    assert {row.cells for row in report.transactions if row.volume == "b"} == {4}
    assert bad not in {row.cell_id for row in report.associations}


def test_a_step_without_a_valid_cell_has_no_costs_and_its_causes_say_so(tmp_path: Path) -> None:
    directory = run_with(tmp_path, 1, 2, 3, 4)
    report = build_report(directory)
    assert {row.volume for row in report.transactions} == {"b"}
    assert {row.ratio for row in report.transactions} == {None}
    assert {row.volume for row in report.queries} <= {"b"}
    findings = [row for row in report.findings if row.volume == "a"]
    assert findings
    assert not any(row.valid for row in findings)
    assert all(row.valid for row in report.findings if row.volume == "b")
    assert f"no valid cell: {REASON}" in cells_text(report)
    assert f"no valid cell: {REASON}" in render(report, directory, "html")
    assert "the step or a part of it is invalid in every cell of this volume" in markdown(report)
    (notes,) = (notes for (volume, _), notes in explain_run(load_run(directory)).notes.items() if volume == "a")
    assert notes[-1] == f"4 of 4 cells invalid, so causes are of invalid cells, and costs are not given: {REASON}"


def test_a_cell_that_is_not_done_is_no_valid_one(tmp_path: Path) -> None:
    """Its steps may call themselves valid."""
    directory = run_with(tmp_path)
    (path,) = directory.path.glob("cells/*-a-r3/result.json")
    path.write_text(path.read_text().replace('"status": "done"', '"status": "interrupted"'))
    report = build_report(directory)
    assert {row.cells for row in report.transactions if row.volume == "a"} == {3}


@pytest.mark.parametrize("invalid", [(1,), (1, 2, 3, 4)])
def test_what_if_rests_on_valid_cells(tmp_path: Path, invalid: tuple[int, ...]) -> None:
    directory = run_with(tmp_path, *invalid)
    views = explain_run(load_run(directory)).views["a", "load"]
    assert sum(view.valid for view in views.values()) == 4 - len(invalid)
