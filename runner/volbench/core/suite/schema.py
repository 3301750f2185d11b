"""The suite's JSON Schema: generated from the model, shipped as suites/suite.schema.json."""

from __future__ import annotations

from typing import Any

from volbench.core.suite.model import SuiteFile


def suite_schema() -> dict[str, Any]:
    """Return JSON Schema (draft 2020-12) of a suite file, keys as they stand in YAML."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **SuiteFile.model_json_schema()}
