"""Moments that findings speak of: in report.json, and as marks of the page that lead back to the findings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from synthetic_run import build_run, two_volumes
from timeline_data import timeline_data

from volbench.core.records.report import Report
from volbench.core.records.steps.oltp import OltpStep
from volbench.results.report.build import build_report
from volbench.results.report.render import render
from volbench.results.store.run_directory import RunDirectory


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """Volume a stalls for five seconds in each of its cells, b does not."""
    steps = (OltpStep(name="load", warmup_s=10, duration_s=60),)
    return build_run(tmp_path_factory.mktemp("run"), two_volumes(steps=steps, repeats=2))


@pytest.fixture(scope="module")
def report(directory: RunDirectory) -> Report:
    return build_report(directory)


def test_each_cell_has_its_own_moment(report: Report) -> None:
    """At the begin of the cell's own stall, not at that of the cell whose evidence the finding shows."""
    stalls = [moment for moment in report.moments if moment.cause == "storage.stall"]
    assert {moment.volume for moment in stalls} == {"a"}
    (finding,) = [row for row in report.findings if row.cause == "storage.stall"]
    assert {moment.cell_id for moment in stalls} == set(finding.cell_ids)
    moments = next(moment for moment in stalls if moment.cell_id == finding.cell_ids[0])
    assert finding.window_s == (moments.t_s, moments.end_s)


def test_marks_of_the_page_lead_to_findings_that_are_on_it(directory: RunDirectory, report: Report) -> None:
    page = render(report, directory, "html")
    data = timeline_data(page)
    assert data is not None
    cells = data["cells"]
    marks = [mark for cell in cells for mark in cell["moments"]]
    assert [text for _, text, _ in marks] == ["the volume stalls"] * 2
    for _, _, finding in marks:
        assert f'id="finding-{finding}"' in page
        assert report.findings[finding].cause == "storage.stall"


def test_a_report_of_an_earlier_version_has_no_marks(directory: RunDirectory, report: Report) -> None:
    stored = report.model_dump(mode="json", by_alias=True)
    del stored["moments"]
    page = render(Report.model_validate(stored), directory, "html")
    assert '"moments":[[' not in page


def test_a_dump_beside_the_load_is_marked(tmp_path: Path) -> None:
    """What the run itself began has no finding to lead to."""
    built = build_run(tmp_path, two_volumes(steps=(OltpStep(name="load", warmup_s=10, duration_s=60),), repeats=1))
    for file in built.path.glob("cells/*/result.json"):
        result = json.loads(file.read_text())
        load = result["steps"][0]
        dump = {**load, "step": "load/beside-mysqldump", "kind": "dump", "parameters": {"tool": "mysqldump"}}
        dump["window_s"] = [load["window_s"][0] + 20, load["window_s"][0] + 30]
        result["steps"].append(dump)
        file.write_text(json.dumps(result))
    moments = [moment for moment in build_report(RunDirectory.open(built.path)).moments if not moment.cause]
    assert {moment.text for moment in moments} == {"mysqldump begins"}
    assert {moment.step for moment in moments} == {"load"}
    assert all(moment.end_s == moment.t_s + 10 for moment in moments)
