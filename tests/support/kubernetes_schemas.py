"""Checks manifests against the API of several Kubernetes versions, see tests/lab/kubernetes/schemas.py."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
from ruamel.yaml import YAML

FIXTURES = Path(__file__).parents[1] / "fixtures" / "kubernetes"
VERSIONS = sorted(path.stem for path in FIXTURES.glob("*.json"))


def snapshot_definition(kind: str) -> dict[str, Any]:
    """The custom resource definition of a kind of the snapshot API, such as `volumesnapshots`."""
    file = FIXTURES / "snapshots" / f"snapshot.storage.k8s.io_{kind}.yaml"
    document: dict[str, Any] = json.loads(json.dumps(YAML(typ="safe").load(file.read_text()), default=str))
    return document


def check_snapshot(manifest: dict[str, Any]) -> None:
    """Raises jsonschema.ValidationError for a VolumeSnapshot that its definition does not take; strict, no CEL."""
    (schema,) = [
        version["schema"]["openAPIV3Schema"]
        for version in snapshot_definition("volumesnapshots")["spec"]["versions"]
        if version["name"] == manifest["apiVersion"].rpartition("/")[2]
    ]
    jsonschema.Draft202012Validator(_strict(schema)).validate(manifest)


def _strict(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with unknown fields forbidden, but in metadata, which the definition leaves to Kubernetes."""
    properties = schema.get("properties")
    if not properties:
        return schema
    return {
        **schema,
        "properties": {name: _strict(value) for name, value in properties.items()},
        "additionalProperties": False,
    }


@cache
def _schemas(version: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((FIXTURES / f"{version}.json").read_bytes())
    return document


def has_kind(manifest: dict[str, Any], version: str) -> bool:
    """Whether this version has the manifest's kind."""
    return f"{manifest['apiVersion']}/{manifest['kind']}" in _schemas(version)["objects"]


def check(manifest: dict[str, Any], version: str) -> None:
    """Raises jsonschema.ValidationError for a manifest that this version does not take."""
    schemas = _schemas(version)
    name = schemas["objects"][f"{manifest['apiVersion']}/{manifest['kind']}"]
    jsonschema.Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": schemas["$defs"]}).validate(manifest)
