"""A claim's backup by the snapshot API of a real cluster: real definitions, and a driver that is this test.

No CSI driver with snapshots could be had here. The test does what the documentation says of driver and controller:
it sets the status of a VolumeSnapshot. The claim that is restored gets an empty volume of the lab's provisioner.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime

import kubernetes_schemas
import pytest
from cluster_run import STORAGE_CLASS, ClusterBench, kubectl

from volbench.placement.docker.image_names import tools_image

pytestmark = [
    pytest.mark.kubernetes, pytest.mark.timeout(400), pytest.mark.usefixtures("lab_images"),
    pytest.mark.skipif("not __import__('cluster_run').with_lab()", reason="makes definitions of the whole cluster"),
]  # fmt: skip
KINDS = ("volumesnapshots", "volumesnapshotclasses", "volumesnapshotcontents")
SECURITY = {
    "runAsNonRoot": True, "runAsUser": 999, "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"},
}  # fmt: skip


@pytest.fixture
def claim(cluster: ClusterBench) -> str:
    """A claim with a volume, which a pod has used."""
    container = {
        "name": "writer", "image": tools_image(), "imagePullPolicy": "IfNotPresent", "securityContext": SECURITY,
        "command": ["sh", "-c", "echo some data >/data/file"],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }  # fmt: skip
    objects = [
        {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "mine"},
            "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": STORAGE_CLASS,
                     "resources": {"requests": {"storage": "1Gi"}}},
        },
        {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "writer"},
            "spec": {"restartPolicy": "Never", "containers": [container], "securityContext": {"fsGroup": 999},
                     "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "mine"}}]},
        },
    ]  # fmt: skip
    listed = {"apiVersion": "v1", "kind": "List", "items": objects}
    kubectl("apply", "-n", cluster.namespace, "-f", "-", stdin=json.dumps(listed))
    kubectl(
        "wait", "-n", cluster.namespace, "--for=jsonpath={.status.phase}=Succeeded", "--timeout=120s", "pod/writer"
    )
    kubectl("delete", "pod", "writer", "-n", cluster.namespace)
    return "mine"


@pytest.fixture
def snapshot_api() -> Iterator[None]:
    """The definitions of external-snapshotter in the cluster, for the test."""
    definitions = [kubernetes_schemas.snapshot_definition(kind) for kind in KINDS]
    names = [f"crd/{one['metadata']['name']}" for one in definitions]
    listed = {"apiVersion": "v1", "kind": "List", "items": definitions}
    kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(listed))
    kubectl("wait", "--for=condition=Established", "--timeout=60s", *names)
    yield
    kubectl("delete", *names, "--wait=false")


def snapshots(cluster: ClusterBench) -> list[str]:
    return kubectl("get", "volumesnapshots", "-n", cluster.namespace, "-o", "name").split()


def test_a_cluster_without_the_snapshot_api_is_told(cluster: ClusterBench, claim: str) -> None:
    ended = cluster.end(cluster.volbench("k8s", "snapshot", claim, "-n", cluster.namespace))
    assert ended.code == 3, ended.output
    assert "the cluster has no snapshot API" in ended.output
    assert cluster.everything() == {f"persistentvolumeclaim/{claim}"}
    cluster.quote("a snapshot is asked for in a cluster without the snapshot API", ended)


@pytest.mark.usefixtures("snapshot_api")
def test_a_snapshot_is_taken_restored_read_and_removed(cluster: ClusterBench, claim: str) -> None:
    """The API server accepts all objects; a snapshot on which nobody acts ends with that, and nothing stays."""
    command = ["k8s", "snapshot", claim, "-n", cluster.namespace]
    ended = cluster.end(cluster.volbench(*command, "--timeout", "3s"))
    assert ended.code == 5, ended.output
    assert "nobody has acted on it" in ended.output
    cluster.quote("no controller acts on a VolumeSnapshot", ended)
    cluster.until(lambda: cluster.everything() == {f"persistentvolumeclaim/{claim}"})

    process = cluster.volbench(*command, "--timeout", "3min", "--json")
    cluster.until(lambda: snapshots(cluster) != [], process)
    (name,) = snapshots(cluster)
    status = {
        "readyToUse": True, "restoreSize": "1Gi", "boundVolumeSnapshotContentName": "content",
        "creationTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }  # fmt: skip
    kubectl("patch", name, "-n", cluster.namespace, "--subresource=status", "--type=merge",
            "-p", json.dumps({"status": status}))  # fmt: skip
    ended = cluster.end(process)
    assert ended.code == 0, ended.output
    times = json.loads(ended.output[ended.output.rindex("\n{") :])
    assert 0 <= times["cut_s"] <= times["ready_s"] + 2
    assert 0 < times["restore_s"] < 120
    assert times["files"] == 0, "the lab's provisioner restores nothing"
    cluster.until(lambda: cluster.everything() == {f"persistentvolumeclaim/{claim}"})
