"""The JSON Schema that editors use is the model's own."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from ruamel.yaml import YAML

from volbench.suite.schema import suite_schema

SHIPPED = Path("suites/suite.schema.json")


def test_the_shipped_schema_is_the_generated_one() -> None:
    """After a change of the model: `volbench suite schema > suites/suite.schema.json`."""
    assert json.loads(SHIPPED.read_text()) == suite_schema()


@pytest.mark.parametrize("path", sorted(Path("suites").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_shipped_suite_fits_the_schema(path: Path) -> None:
    jsonschema.validate(YAML(typ="safe").load(path.read_text()), suite_schema())


def test_the_schema_refuses_what_the_loader_refuses() -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"name": "s", "steps": [{"kind": "oltp", "thread": 3}]}, suite_schema())
