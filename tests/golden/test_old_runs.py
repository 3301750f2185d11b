"""A run that was written once is read for ever, and its report stays what it was.

`run-schema-1` holds the JSON files of ten cells (without Parquet tables) as schema 1 writes them. When a record
gains a field, these files stay as they are. The expected reports change only with the analysis: look at what
differs, then write them anew with `volbench report tests/golden/run-schema-1 --format json`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from json_schemas import check_record, validator
from record_schemas import MODELS, VERSIONS

from volbench.records.report import REPORT_SCHEMA, Report
from volbench.report.build import build_report
from volbench.report.render import render
from volbench.store.files import read_record
from volbench.store.run_directory import RunDirectory

HERE = Path(__file__).parent


def same(found: Any, expected: Any, place: str = "report") -> None:
    """Every key and value that was expected; further keys may have come since. Floats to the last few bits."""
    if isinstance(expected, dict):
        assert isinstance(found, dict), place
        for key, value in expected.items():
            assert key in found, f"{place}.{key}"
            same(found[key], value, f"{place}.{key}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), place
        for number, (one, other) in enumerate(zip(found, expected, strict=True)):
            same(one, other, f"{place}[{number}]")
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-9), place
    else:
        assert found == expected, place


@pytest.mark.parametrize("version", [1, 2])
def test_report_json_of_every_schema(version: int) -> None:
    """The contract with programs: the report of an old run says what it said, under today's names."""
    directory = RunDirectory.open(HERE / "run-schema-1")
    report = json.loads(render(build_report(directory), directory, "json"))
    older = read_record(HERE / f"report-schema-{version}.json", Report, schema=REPORT_SCHEMA)
    same(report, json.loads(older.model_dump_json(by_alias=True, exclude_unset=True)))


def test_the_latest_report_json_has_todays_names_and_no_others() -> None:
    latest = HERE / f"report-schema-{REPORT_SCHEMA}.json"
    directory = RunDirectory.open(HERE / "run-schema-1")
    same(json.loads(render(build_report(directory), directory, "json")), json.loads(latest.read_text()))


FILES = {
    "report": [HERE / "report-schema-1.json"],
    "run": [HERE / "run-schema-1/run.json"],
    "cell": sorted(HERE.glob("run-schema-1/cells/*/cell.json")),
    "result": sorted(HERE.glob("run-schema-1/cells/*/result.json")),
}


@pytest.mark.parametrize("name", FILES)
def test_files_of_schema_1_are_read_and_have_todays_keys_when_they_are_written_again(name: str) -> None:
    """Older files lack newer keys, and have older names of some."""
    older = validator(HERE / f"schema-1/{name}.schema.json")
    assert FILES[name]
    for path in FILES[name]:
        older.validate(json.loads(path.read_text()))
        record = read_record(path, MODELS[name], schema=VERSIONS[name])
        check_record(name, json.loads(record.model_dump_json(by_alias=True)))


def test_markdown_of_schema_1() -> None:
    """What people see in a pull request."""
    directory = RunDirectory.open(HERE / "run-schema-1")
    assert render(build_report(directory), directory, "md") == (HERE / "report-schema-1.md").read_text()
