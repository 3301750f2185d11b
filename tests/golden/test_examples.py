"""The example reports that are shipped are readable and fit the shipped schema."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from json_schemas import check_record
from stored_files import REPORT, stored_text

from volbench.core.records.report import Report
from volbench.core.records.validation.result import Validation
from volbench.results.report.formats.validation import validation_markdown

EXAMPLES = sorted(Path("results/examples").glob(f"*/{REPORT}"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.parent.name)
def test_an_example_fits_the_schema_and_the_model(path: Path) -> None:
    content = json.loads(stored_text(path))
    check_record("report", content)
    report = Report.model_validate(content)
    assert report.comparisons or report.effects or report.forecasts


VALIDATIONS = sorted(Path("results/examples/validation").glob("*/validation.json"))


@pytest.mark.parametrize("path", VALIDATIONS, ids=lambda path: path.parent.name)
def test_an_example_of_a_validation_fits_the_model_and_its_pages(path: Path) -> None:
    result = Validation.model_validate_json(path.read_text())
    assert result.decision == {"clean": "go", "planted": "no-go"}[path.parent.name]
    assert validation_markdown(result) == path.with_suffix(".md").read_text()
