"""The files below k8s/: fit for three versions of Kubernetes, deleted with what they made, alike in the chart."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_schemas
import pytest
from kubernetes.client import ApiClient
from manifests import ROOT, documents, rendered

from volbench.machine.placement.kubernetes.rights import NEEDED

OVERLAYS = sorted(path.name for path in (ROOT / "k8s" / "overlays").iterdir())
OTHERS_KINDS = {"CephBlockPool"}  # Rook's, not Kubernetes' own


@pytest.mark.parametrize("version", kubernetes_schemas.VERSIONS)
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_overlays_fit_the_api(overlay: str, version: str) -> None:
    """Each names the claim or class that its comment tells to run on."""
    text = (ROOT / "k8s" / "overlays" / overlay / "storage.yaml").read_text()
    result = documents(text)
    for manifest in result:
        if manifest["kind"] not in OTHERS_KINDS and kubernetes_schemas.has_kind(manifest, version):
            kubernetes_schemas.check(manifest, version)
    names = {manifest["metadata"]["name"] for manifest in result}
    assert f"volbench-{overlay}" in names
    assert f"pvc:volbench-{overlay}" in text or f"storage-class:volbench-{overlay}" in text


def test_all_ebs_classes_are_encrypted_alike() -> None:
    """A volume that is encrypted beside one that is not would be a difference that nobody asked for."""
    classes = [
        document
        for overlay in OVERLAYS
        if overlay.startswith("ebs-")
        for document in documents((ROOT / "k8s" / "overlays" / overlay / "storage.yaml").read_text())
        if document["kind"] == "StorageClass"
    ]
    assert len(classes) == 5
    assert {item["parameters"].get("encrypted") for item in classes} == {"true"}


def test_a_kind_that_no_version_has_would_be_found() -> None:
    """Only the kind of an optional API may be missing in earlier versions; the last one knows all of ours."""
    newest = kubernetes_schemas.VERSIONS[-1]
    own = [
        document
        for name in OVERLAYS
        for document in documents((ROOT / f"k8s/overlays/{name}/storage.yaml").read_text())
    ]
    missing = {our["kind"] for our in own if not kubernetes_schemas.has_kind(our, newest)}
    assert missing == OTHERS_KINDS


def test_fsx_makes_no_backups_and_its_json_parameters_are_json() -> None:
    (made, _) = documents((ROOT / "k8s/overlays/fsx-openzfs/storage.yaml").read_text())
    parameters = made["parameters"]
    assert {"SecurityGroupIds", "RouteTableIds"} <= set(parameters), "two zones need them"
    assert parameters["AutomaticBackupRetentionDays"] == "0"
    for name, value in parameters.items():
        if name != "ResourceType":
            json.loads(value)


def test_the_buckets_policy_is_of_one_bucket_and_its_prefix() -> None:
    policy = json.loads((ROOT / "k8s/results-bucket/policy.json").read_text())
    assert {item["Resource"] for item in policy["Statement"]} == {
        "arn:aws:s3:::BUCKET",
        "arn:aws:s3:::BUCKET/PREFIX/*",
    }
    actions = {action for item in policy["Statement"] for action in item["Action"]}
    assert not any("*" in action for action in actions)
    trust = json.loads((ROOT / "k8s/results-bucket/trust.json").read_text())
    assert trust["Statement"][0]["Principal"] == {"Service": "pods.eks.amazonaws.com"}


DELETED = {
    "ebs-attributes": {
        "VolumeAttributesClass volbench-ebs-attributes",
        "StorageClass volbench-ebs-attributes",
        "PersistentVolumeClaim volbench/volbench-ebs-attributes",
    },
    "ebs-auto": {"StorageClass volbench-ebs-auto"},
    "ebs-gp2": {"StorageClass volbench-ebs-gp2"},
    "ebs-gp3": {"StorageClass volbench-ebs-gp3"},
    "ebs-io2": {"StorageClass volbench-ebs-io2"},
    "efs": {"StorageClass volbench-efs"},
    "fargate-efs": {
        "PersistentVolume volbench-fargate-efs",
        "PersistentVolumeClaim volbench/volbench-fargate-efs",
    },
    "fsx-openzfs": {
        "StorageClass volbench-fsx-openzfs",
        "PersistentVolumeClaim volbench/volbench-fsx-openzfs",
    },
    "instance-store": {"StorageClass volbench-instance-store"},
    "local-path": {"PersistentVolumeClaim volbench/volbench-local-path"},
    "rook-ceph-rbd": {"CephBlockPool rook-ceph/volbench", "StorageClass volbench-rook-ceph-rbd"},
}
"""All that `kubectl delete -k` of an overlay removes: no namespace, no driver, no results, no other run."""


def built(directory: Path) -> list[dict[str, Any]]:
    """Return what `kubectl kustomize` builds, or where there is no kubectl, what the resources of the file are."""
    if shutil.which("kubectl") is not None:
        command = ["kubectl", "kustomize", str(directory)]
        return documents(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    (kustomization,) = documents((directory / "kustomization.yaml").read_text())
    assert set(kustomization) <= {"apiVersion", "kind", "resources", "components", "namespace"}
    made = [item for name in kustomization.get("components", []) for item in built(directory / name)]
    for file in kustomization.get("resources", []):
        made += documents((directory / file).read_text())
    for result in made:
        if "namespace" in kustomization:
            result["metadata"]["namespace"] = kustomization["namespace"]
    return made


def deleted_with(directory: Path) -> set[str]:
    return {
        f"{item['kind']} {'/'.join(filter(None, (item['metadata'].get('namespace'), item['metadata']['name'])))}"
        for item in built(directory)
    }


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_an_overlay_deletes_what_it_made_and_nothing_else(overlay: str) -> None:
    """A claim is part of it only where its own comment runs on that claim."""
    directory = ROOT / "k8s" / "overlays" / overlay
    assert deleted_with(directory) == DELETED[overlay]
    claims = [manifest for manifest in built(directory) if manifest["kind"] == "PersistentVolumeClaim"]
    text = (directory / "storage.yaml").read_text()
    assert all(f"pvc:{claim['metadata']['name']}" in text for claim in claims)


def test_overlays_can_be_composed(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "k8s", tmp_path / "k8s")
    both = {"kind": "Kustomization", "components": ["../overlays/ebs-gp2", "../overlays/ebs-gp3"]}
    (tmp_path / "k8s" / "both").mkdir()
    (tmp_path / "k8s" / "both" / "kustomization.yaml").write_text(json.dumps(both))
    assert deleted_with(tmp_path / "k8s" / "both") == DELETED["ebs-gp2"] | DELETED["ebs-gp3"]


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl's kustomize")
def test_the_runner_s_deletion_leaves_its_results_and_its_rights() -> None:
    assert deleted_with(ROOT / "k8s" / "runner") == {
        "Job volbench/volbench-runner",
        "ConfigMap volbench/volbench-runner",
    }


def node_helper() -> list[dict[str, Any]]:
    return documents((ROOT / "k8s" / "node-helper" / "node-helper.yaml").read_text())


@pytest.mark.parametrize("version", kubernetes_schemas.VERSIONS)
def test_the_nodes_helper_fits_the_api(version: str) -> None:
    for manifest in node_helper():
        kubernetes_schemas.check(manifest, version)


def test_the_nodes_helper_is_apart_from_the_cells_and_has_no_rights_in_the_cluster() -> None:
    """Privileged on labelled nodes only, in a namespace of its own; no token, no role, no port, no network."""
    results = {manifest["kind"]: manifest for manifest in node_helper()}
    assert set(results) == {"Namespace", "DaemonSet", "NetworkPolicy"}
    (cells,) = [manifest for manifest in base() if manifest["kind"] == "Namespace"]
    assert cells["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    assert results["Namespace"]["metadata"]["name"] != cells["metadata"]["name"]
    pod = results["DaemonSet"]["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"volbench.org/node-helper": "allowed"}
    assert pod["automountServiceAccountToken"] is False
    assert not pod.keys() & {"hostNetwork", "hostPID", "hostIPC", "serviceAccountName"}
    (container,) = pod["containers"]
    assert "ports" not in container
    assert {volume["hostPath"]["path"] for volume in pod["volumes"] if "hostPath" in volume} == {
        "/var/lib/kubelet/pods",
        "/dev",
    }


def base() -> list[dict[str, Any]]:
    return [
        document
        for name in ("namespace", "rights")
        for document in documents((ROOT / f"k8s/base/{name}.yaml").read_text())
    ]


@pytest.mark.parametrize("version", kubernetes_schemas.VERSIONS)
def test_the_base_fits_the_api(version: str) -> None:
    for manifest in base():
        kubernetes_schemas.check(manifest, version)


def test_the_charts_namespace_is_as_strict_as_the_bases() -> None:
    (of_base,) = documents((ROOT / "k8s/base/namespace.yaml").read_text())
    chart = (ROOT / "k8s/chart/templates/namespace.yaml").read_text()
    for name, value in of_base["metadata"]["labels"].items():
        assert f"    {name}: {value}\n" in chart
        assert f'index (default dict $namespace.metadata.labels) "{name}"' in chart or name.endswith("warn")


CELLS_ONLY = {"app.kubernetes.io/name": "volbench", "app.kubernetes.io/component": "cell"}


def base_and_chart(name: str) -> list[dict[str, Any]]:
    """The base's object and the chart's, whose metadata is a template."""
    chart = (ROOT / f"k8s/chart/templates/{name}.yaml").read_text()
    (of_base,) = documents((ROOT / f"k8s/base/{name}.yaml").read_text())
    spec = "\n".join(line for line in chart[chart.index("\nspec:") :].splitlines() if not line.startswith("{{"))
    return [of_base, {**of_base, "spec": documents(spec)[0]["spec"]}]


@pytest.mark.parametrize("version", kubernetes_schemas.VERSIONS)
def test_the_network_policy_fits_the_api(version: str) -> None:
    for policy in base_and_chart("network"):
        kubernetes_schemas.check(policy, version)


@pytest.mark.parametrize("version", kubernetes_schemas.VERSIONS)
def test_no_cell_is_evicted_while_it_measures(version: str) -> None:
    """The budget selects cells alone, and lets a pod go that is not ready because its agent has ended."""
    pods = [
        manifest["spec"]["template"]["metadata"]["labels"] for manifest in rendered() if manifest["kind"] == "Job"
    ]
    for budget in base_and_chart("disruptions"):
        kubernetes_schemas.check(budget, version)
        assert budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
        assert isinstance(budget["spec"]["minAvailable"], int), "pods of Jobs have no scale"
        selected = budget["spec"]["selector"]["matchLabels"].items()
        assert {labels["app.kubernetes.io/component"] for labels in pods if selected <= labels.items()} == {"cell"}


def is_selected(policy: dict[str, Any], labels: dict[str, str]) -> bool:
    """Whether a NetworkPolicy selects a pod, by the API's rules of matchLabels and matchExpressions."""
    selector = policy["spec"]["podSelector"]
    answers = {
        "In": lambda key, values: labels.get(key) in values,
        "NotIn": lambda key, values: labels.get(key) not in values,
        "Exists": lambda key, _: key in labels,
        "DoesNotExist": lambda key, _: key not in labels,
    }
    return selector.get("matchLabels", {}).items() <= labels.items() and all(
        answers[match_expression["operator"]](match_expression["key"], match_expression.get("values", []))
        for match_expression in selector.get("matchExpressions", [])
    )


def test_the_network_policy_denies_cells_everything_and_leaves_the_runner_alone() -> None:
    """Both directions are named and no rule allows any; the labels are those of the manifests that a run makes."""
    pods = [manifest["spec"]["template"] for manifest in rendered() if manifest["kind"] == "Job"]
    assert {pod["metadata"]["labels"]["app.kubernetes.io/component"] for pod in pods} >= {"cell"}
    for policy in base_and_chart("network"):
        assert set(policy["spec"]["policyTypes"]) == {"Ingress", "Egress"}
        assert not policy["spec"].keys() & {"ingress", "egress"}
        for pod in pods:
            labels = pod["metadata"]["labels"]
            assert is_selected(policy, labels) is (labels["app.kubernetes.io/component"] == "cell"), labels
        assert is_selected(policy, {**CELLS_ONLY, "app.kubernetes.io/component": "eraser"})
        assert not is_selected(policy, {**CELLS_ONLY, "app.kubernetes.io/component": "runner"})
        assert not is_selected(policy, {**CELLS_ONLY, "volbench.org/network": "ebs-csi"})
        assert not is_selected(policy, {"app": "something-else"})


def test_the_limit_range_sets_requests_and_never_a_limit() -> None:
    """A CPU limit would throttle the measured server. The official client's model knows each of its keys."""
    for made in base_and_chart("limits"):
        for version in kubernetes_schemas.VERSIONS:
            kubernetes_schemas.check(made, version)
        answer = type("Answer", (), {"data": json.dumps(made)})
        model = ApiClient().deserialize(answer, "V1LimitRange")
        assert ApiClient().sanitize_for_serialization(model) == made
        (limit,) = made["spec"]["limits"]
        assert limit.keys() == {"type", "defaultRequest"}
        assert limit["type"] == "Container"


def test_the_base_has_both_and_every_container_of_a_cell_has_requests_of_its_own() -> None:
    resources = documents((ROOT / "k8s/base/kustomization.yaml").read_text())[0]["resources"]
    assert {"network.yaml", "limits.yaml", "disruptions.yaml"} <= set(resources)
    for job in [manifest for manifest in rendered() if manifest["kind"] == "Job"]:
        pod = job["spec"]["template"]["spec"]
        for container in (*pod.get("initContainers", []), *pod["containers"]):
            assert container["resources"]["requests"].keys() >= {"cpu", "memory"}, container["name"]


def test_the_base_grants_what_a_run_asks_for_and_nothing_else() -> None:
    (role,) = [manifest for manifest in base() if manifest["kind"] == "Role"]
    granted = {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert granted == {(group, resource, verb) for group, resource, verbs in NEEDED for verb in verbs}
