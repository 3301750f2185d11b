"""Checks manifests against the API of several Kubernetes versions, see tests/lab/kubernetes/schemas.py."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema

FIXTURES = Path(__file__).parents[1] / "fixtures" / "kubernetes"
VERSIONS = sorted(path.stem for path in FIXTURES.glob("*.json"))


@cache
def _schemas(version: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FIXTURES / f"{version}.json").read_bytes())
    return found


def check(manifest: dict[str, Any], version: str) -> None:
    """Raises jsonschema.ValidationError for a manifest that this version does not take."""
    schemas = _schemas(version)
    name = schemas["objects"][f"{manifest['apiVersion']}/{manifest['kind']}"]
    jsonschema.Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": schemas["$defs"]}).validate(manifest)
