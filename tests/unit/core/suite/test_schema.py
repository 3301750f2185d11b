"""The JSON Schema that editors use is the model's own."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from json_schemas import validator
from ruamel.yaml import YAML

from volbench.core.suite.schema import suite_schema

SHIPPED = Path("suites/suite.schema.json")


def test_the_shipped_schema_is_the_generated_one() -> None:
    """After a change of the model: `volbench suite schema > suites/suite.schema.json`."""
    assert json.loads(SHIPPED.read_text()) == suite_schema()


@pytest.mark.parametrize("path", sorted(Path("suites").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_shipped_suite_fits_the_schema(path: Path) -> None:
    validator(SHIPPED).validate(YAML(typ="safe").load(path.read_text()))


def test_the_schema_refuses_what_the_loader_refuses() -> None:
    with pytest.raises(jsonschema.ValidationError):
        validator(SHIPPED).validate({"name": "s", "steps": [{"kind": "oltp", "thread": 3}]})
