"""The example reports that are shipped are readable and fit the shipped schema."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from volbench.records.report import Report

EXAMPLES = sorted(Path("results/examples").glob("*/report.json"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.parent.name)
def test_an_example_fits_the_schema_and_the_model(path: Path) -> None:
    content = json.loads(path.read_text())
    jsonschema.validate(content, json.loads(Path("results/schema/report.schema.json").read_text()))
    report = Report.model_validate(content)
    assert report.comparisons or report.effects or report.forecasts
