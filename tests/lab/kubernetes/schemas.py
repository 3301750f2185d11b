"""Takes the schemas of our objects out of Kubernetes' own API description, for the tests of manifests.

    python3 tests/lab/kubernetes/schemas.py v1.32.9 v1.33.5 v1.34.4
    python3 tests/lab/kubernetes/schemas.py snapshots v8.2.0

The second copies the custom resource definitions of the snapshot API from the module of external-snapshotter.

Downloads the Go module k8s.io/kubernetes of each version and writes tests/fixtures/kubernetes/VERSION.json:
JSON Schema, strict (an unknown field is a fault), without descriptions.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "kubernetes"
OBJECTS = {
    "v1/ConfigMap": "io.k8s.api.core.v1.ConfigMap",
    "v1/LimitRange": "io.k8s.api.core.v1.LimitRange",
    "v1/Namespace": "io.k8s.api.core.v1.Namespace",
    "v1/PersistentVolume": "io.k8s.api.core.v1.PersistentVolume",
    "v1/PersistentVolumeClaim": "io.k8s.api.core.v1.PersistentVolumeClaim",
    "v1/ServiceAccount": "io.k8s.api.core.v1.ServiceAccount",
    "apps/v1/DaemonSet": "io.k8s.api.apps.v1.DaemonSet",
    "batch/v1/Job": "io.k8s.api.batch.v1.Job",
    "networking.k8s.io/v1/NetworkPolicy": "io.k8s.api.networking.v1.NetworkPolicy",
    "policy/v1/PodDisruptionBudget": "io.k8s.api.policy.v1.PodDisruptionBudget",
    "rbac.authorization.k8s.io/v1/ClusterRole": "io.k8s.api.rbac.v1.ClusterRole",
    "rbac.authorization.k8s.io/v1/ClusterRoleBinding": "io.k8s.api.rbac.v1.ClusterRoleBinding",
    "rbac.authorization.k8s.io/v1/Role": "io.k8s.api.rbac.v1.Role",
    "rbac.authorization.k8s.io/v1/RoleBinding": "io.k8s.api.rbac.v1.RoleBinding",
    "storage.k8s.io/v1/CSIDriver": "io.k8s.api.storage.v1.CSIDriver",
    "storage.k8s.io/v1/StorageClass": "io.k8s.api.storage.v1.StorageClass",
    "storage.k8s.io/v1/VolumeAttributesClass": "io.k8s.api.storage.v1.VolumeAttributesClass",
}
"""Of those that a version does not have, it gets no schema: VolumeAttributesClass is v1 from 1.34 on."""
SNAPSHOTTER = "github.com/kubernetes-csi/external-snapshotter/client/v8"
_ANY = {"io.k8s.apimachinery.pkg.api.resource.Quantity", "io.k8s.apimachinery.pkg.util.intstr.IntOrString"}
_RETAINED = ("type", "required", "enum", "items", "properties", "additionalProperties", "$ref", "format")


def schema_of(swagger: dict[str, Any]) -> dict[str, Any]:
    """The schemas of OBJECTS and of all that they consist of."""
    definitions = swagger["definitions"]
    objects = {kind: name for kind, name in OBJECTS.items() if name in definitions}
    expected, used = list(objects.values()), {}
    while expected:
        name = expected.pop()
        if name not in used:
            used[name] = {} if name in _ANY else _strict(definitions[name])
            expected += _referenced(used[name])
    return {"objects": objects, "$defs": dict(sorted(used.items()))}


def _strict(schema: dict[str, Any]) -> dict[str, Any]:
    remaining = {key: schema[key] for key in _RETAINED if key in schema}
    if "$ref" in remaining:
        return {"$ref": remaining["$ref"].replace("#/definitions/", "#/$defs/")}
    if "properties" in remaining:
        remaining["properties"] = {name: _strict(value) for name, value in remaining["properties"].items()}
        remaining.setdefault("additionalProperties", False)
    for key in ("items", "additionalProperties"):
        if isinstance(remaining.get(key), dict):
            remaining[key] = _strict(remaining[key])
    return remaining


def _referenced(schema: Any) -> list[str]:
    if isinstance(schema, list):
        return [name for item in schema for name in _referenced(item)]
    if not isinstance(schema, dict):
        return []
    own = [schema["$ref"].removeprefix("#/$defs/")] if isinstance(schema.get("$ref"), str) else []
    return own + [name for item in schema.values() for name in _referenced(item)]


def copy_snapshot_definitions(version: str) -> None:
    """Copy the definitions of VolumeSnapshot and its class, as their module has them."""
    module = f"{SNAPSHOTTER}@{version}"
    answer = subprocess.run(["go", "mod", "download", "-json", module], capture_output=True, check=True)
    for kind in ("volumesnapshots", "volumesnapshotclasses", "volumesnapshotcontents"):
        name = f"snapshot.storage.k8s.io_{kind}.yaml"
        text = (Path(json.loads(answer.stdout)["Dir"]) / "config" / "crd" / name).read_text()
        (FIXTURES / "snapshots" / name).write_text(text)


def main() -> None:
    """Write the schemas of the versions on the command line."""
    FIXTURES.mkdir(parents=True, exist_ok=True)
    if sys.argv[1] == "snapshots":
        copy_snapshot_definitions(sys.argv[2])
        return
    for version in sys.argv[1:]:
        module = f"k8s.io/kubernetes@{version}"
        answer = subprocess.run(["go", "mod", "download", "-json", module], capture_output=True, check=True)
        swagger = Path(json.loads(answer.stdout)["Dir"]) / "api" / "openapi-spec" / "swagger.json"
        text = json.dumps(schema_of(json.loads(swagger.read_bytes())), separators=(",", ":"))
        (FIXTURES / f"{version}.json").write_text(f"{text}\n")


if __name__ == "__main__":
    main()
