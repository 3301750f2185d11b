"""Every format of a report holds what the report holds, whole and inert."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import get_args
from xml.etree import ElementTree

import jsonschema
import pytest
from json_schemas import check_record
from record_schemas import MODELS, schema_text
from structured.outputs import check_csv, check_markdown
from synthetic_run import build_run, two_volumes

from volbench.cli.tables import table_text
from volbench.core.base.text import escape_bars
from volbench.core.records.report import REPORT_SCHEMA, Report
from volbench.core.records.steps import STEP_KINDS
from volbench.core.records.steps.idle import IdleStep
from volbench.results.report.build import build_report
from volbench.results.report.formats.gate import escaped as gate_escaped
from volbench.results.report.formats.terminal import terminal_summary
from volbench.results.report.render import Format, render, write_reports
from volbench.results.store.run_directory import RunDirectory

ROOT = Path(__file__).resolve().parents[4]


@pytest.mark.parametrize("name", MODELS)
def test_shipped_schemas_are_those_of_the_models(name: str) -> None:
    """After a change of a model: make docs."""
    assert (ROOT / f"results/schema/{name}.schema.json").read_text() == schema_text(name)


@pytest.mark.parametrize("run", ["pair", "troubled", "hostile_run", "single"])
def test_files_fit_their_schemas(run: str, request: pytest.FixtureRequest) -> None:
    """report.json, run.json, every cell.json, result.json and line of the journal."""
    directory: RunDirectory = request.getfixturevalue(run)
    report: Report = request.getfixturevalue(f"{run}_report")
    check_record("report", json.loads(render(report, directory, "json")))
    check_record("run", json.loads((directory.path / "run.json").read_text()))
    for name in ("cell", "result"):
        for path in directory.path.glob(f"cells/*/{name}.json"):
            check_record(name, json.loads(path.read_text()))
    for line in (directory.path / "journal.jsonl").read_text().splitlines():
        check_record("journal", json.loads(line))


def test_the_schema_lets_later_versions_add_keys(pair: RunDirectory, pair_report: Report) -> None:
    """Readers must not fall over a new key; they must over a changed one."""
    document = json.loads(render(pair_report, pair, "json"))
    check_record("report", {**document, "new_key": 1})
    with pytest.raises(jsonschema.ValidationError):
        check_record("report", {**document, "cells": "none"})


def test_json_is_read_back(pair: RunDirectory, pair_report: Report) -> None:
    """Unrounded, with `schema` under its own name."""
    text = render(pair_report, pair, "json")
    assert json.loads(text)["schema"] == REPORT_SCHEMA
    assert Report.model_validate_json(text) == pair_report


def test_markdown_fits_a_pull_request(pair: RunDirectory, pair_report: Report) -> None:
    """Verdict first, a table of verdicts, how to reproduce, below 65 lines."""
    lines = render(pair_report, pair, "md").splitlines()
    assert len(lines) < 65
    assert lines[2].startswith("**b is better than a: transactions/s ")
    first = next(number for number, line in enumerate(lines) if line.startswith("| step"))
    table = itertools.takewhile(lambda line: line.startswith("|"), lines[first:])
    assert len(list(table)) == 2 + 8
    assert "volbench run suites/synthetic.yaml" in "\n".join(lines)


def test_markdown_of_a_large_run_still_fits(tmp_path: Path) -> None:
    """Many failures and metrics are counted, not listed."""
    invalid = {("a", repeat): f"reason {repeat}" for repeat in range(1, 9)}
    directory = build_run(tmp_path, two_volumes(repeats=8, invalid=invalid))
    text = render(build_report(directory), directory, "md")
    assert len(text.splitlines()) <= 64
    assert "more are in report.json" in text


def test_markdown_escapes_names(hostile_run: RunDirectory, hostile_run_report: Report) -> None:
    """No tag and no table cell comes from a name."""
    text = render(hostile_run_report, hostile_run, "md")
    outside_code = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    assert re.search(r"(?<!\\)<(script|img)", outside_code) is None
    tables = [list(of) for is_row, of in itertools.groupby(text.splitlines(), _is_row) if is_row]
    assert tables
    for rows in tables:
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) == 1


def _is_row(line: str) -> bool:
    return line.startswith("|")


def test_junit_counts_what_ci_shall_see(troubled: RunDirectory, troubled_report: Report) -> None:
    """Invalid steps are errors, failed cells failures, open comparisons skipped."""
    root = ElementTree.fromstring(render(troubled_report, troubled, "junit"))  # noqa: S314 - our own text
    cells, failures, comparisons = root.findall("testsuite")
    assert (cells.get("tests"), cells.get("errors")) == ("17", "5")
    assert failures.get("failures") == "1"
    assert comparisons.get("skipped") == comparisons.get("tests") == "8"


def test_junit_fails_when_the_candidate_is_worse(tmp_path: Path) -> None:
    """That is what a CI asks for."""
    a, b = reversed(two_volumes().volumes)
    directory = build_run(tmp_path, two_volumes(volumes=(a, b)))
    root = ElementTree.fromstring(render(build_report(directory), directory, "junit"))  # noqa: S314 - our own text
    assert root.findall("testsuite")[2].get("failures") == "8"


def test_junit_is_xml_whatever_the_names(hostile_run: RunDirectory, hostile_run_report: Report) -> None:
    """Also with characters that XML cannot hold."""
    report = hostile_run_report.model_copy(update={"suite": "a\x00b\x1bc\ud800"})
    ElementTree.fromstring(render(report, hostile_run, "junit"))  # noqa: S314 - our own text


def test_csv_has_a_line_for_each_value(pair: RunDirectory, pair_report: Report) -> None:
    """Unrounded, as text that reads back to the same number."""
    rows = list(csv.DictReader(io.StringIO(render(pair_report, pair, "csv"))))
    assert len(rows) == sum(len(cell.metrics) for cell in pair_report.cells)
    first = pair_report.cells[0]
    assert float(rows[0]["value"]) == first.metrics[rows[0]["metric"]].value
    assert json.loads(rows[0]["parameters"]) == first.parameters


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(1)", "\t=1", "\r=1"])
def test_text_in_csv_is_no_formula_and_numbers_stay_numbers(
    pair: RunDirectory, pair_report: Report, text: str
) -> None:
    """A spreadsheet would execute it, or ask a server of the attacker's."""
    cell = pair_report.cells[0]
    metric = next(iter(cell.metrics.values())).model_copy(update={"value": -5.0})
    hostile = cell.model_copy(update={"volume": text, "invalid_reasons": (text,), "metrics": {"tps": metric}})
    report = pair_report.model_copy(update={"cells": (hostile,)})
    (row,) = csv.DictReader(io.StringIO(render(report, pair, "csv"), newline=""))
    assert row["volume"] == row["invalid_reasons"] == f"'{text}"
    assert row["value"] == "-5.0"


def test_write_reports_leaves_three_whole_files(tmp_path: Path) -> None:
    """And nothing else; a second time replaces them."""
    directory = build_run(tmp_path, two_volumes(repeats=1))
    for _ in range(2):
        report, paths = write_reports(directory)
        assert [path.name for path in paths] == ["report.json", "report.md", "report.html"]
        assert json.loads(paths[0].read_text())["run_id"] == report.run_id
    assert not list(directory.path.glob(".*partial*"))


@pytest.mark.parametrize("expected", get_args(Format))
@pytest.mark.parametrize("run", ["troubled", "hostile_run", "single"])
def test_every_format_of_every_run(run: str, expected: Format, request: pytest.FixtureRequest) -> None:
    """No combination fails."""
    report: Report = request.getfixturevalue(f"{run}_report")
    assert render(report, request.getfixturevalue(run), expected).strip()


@pytest.mark.parametrize("kind", STEP_KINDS)
@pytest.mark.parametrize("volumes", [1, 2])
def test_a_step_without_a_figure_of_its_own_has_a_report(tmp_path: Path, kind: str, volumes: int) -> None:
    """`idle` never has one; a step of another kind may have measured the volume alone."""
    expected = two_volumes(repeats=2, steps=(IdleStep(name="s"),))
    directory = build_run(tmp_path, replace(expected, volumes=expected.volumes[:volumes]))
    for path in directory.path.glob("cells/*/result.json"):
        path.write_text(path.read_text().replace('"kind": "idle"', f'"kind": "{kind}"'))
    report = build_report(directory)
    assert {cell.kind for cell in report.cells} == {kind}
    for wanted_format in get_args(Format):
        assert render(report, directory, wanted_format).strip()
    assert terminal_summary(report).verdict


@pytest.mark.parametrize("text", ["\\|", "a\\\\|b", "|", "\x1b[31m|\u202e", "<script>|`"])
def test_a_strangers_text_stays_in_its_cell_and_has_no_control_characters(text: str) -> None:
    """A bar with backslashes before it ended a cell, and an ESC reached the terminal that showed the file."""
    for cell in (gate_escaped(text), escape_bars(text)):
        assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", f"| {cell} |")) == 2
    table = table_text(("a",), [(text,)], "md")
    check_markdown(table)
    check_csv(table_text(("a",), [(text,)], "csv"))
    assert "\x1b" not in table
