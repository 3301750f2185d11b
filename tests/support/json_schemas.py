"""Checks documents against JSON Schemas of files; each schema itself is checked once."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema.protocols import Validator
from jsonschema.validators import validator_for

RESULTS = Path(__file__).resolve().parents[2] / "results" / "schema"


@cache
def validator(path: Path) -> Validator:
    """The validator of a schema; its `validate` raises jsonschema.ValidationError.

    Raises jsonschema.SchemaError for a file that is no schema.
    """
    schema: dict[str, Any] = json.loads(path.read_bytes())
    of_version = validator_for(schema)
    of_version.check_schema(schema)
    return of_version(schema)


def check_record(name: str, document: Any) -> None:
    """Raises jsonschema.ValidationError for a document that the shipped schema of this record does not take."""
    validator(RESULTS / f"{name}.schema.json").validate(document)
