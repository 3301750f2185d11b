"""A claim's backup by the snapshot API of a real cluster, as a command and as a step of a suite.

The short tests have real definitions, and a driver that is the test: it sets the status of a VolumeSnapshot, and
the claim that is restored gets an empty volume of the lab's provisioner. The slow ones have a real driver with the
real controllers: kubernetes-csi's, from checkouts of their repositories in the directory that VOLBENCH_CSI names.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from subprocess import Popen

import kubernetes_schemas
import pytest
from cluster_run import STORAGE_CLASS, ClusterBench, kubectl, lab
from live_run import FINISHED

from volbench.machine.placement.docker.image_names import tools_image

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.timeout(400),
    pytest.mark.usefixtures("lab_images"),
    pytest.mark.skipif("not __import__('cluster_run').with_lab()", reason="makes definitions of the whole cluster"),
]
KINDS = ("volumesnapshots", "volumesnapshotclasses", "volumesnapshotcontents")
SECURITY = {
    "runAsNonRoot": True,
    "runAsUser": 999,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


STEPS = """\
name: snapshots
dataset: {tables: 1, rows: 2000}
steps:
  - {kind: oltp, name: load, test: oltp_read_only, threads: 2, rate: 50, warmup: 0s, duration: 2s,
     concurrent: [{kind: snapshot, restore: false, window: 1h}]}
"""
RESTORED = "  - {kind: snapshot, name: backup, timeout: 3min}\n"
"""The load only reads: the hostpath driver's snapshot is a tar archive, which fails on files that change. It leaves
the cluster, which is on the same machine, CPU time to act."""
SHORT = "steps.0.duration=10s"
"""Long enough for a snapshot beside it: the agent's request is read every two seconds."""


@pytest.fixture
def claim(cluster: ClusterBench) -> str:
    """A claim with a volume, which a pod has used."""
    return claim_with_data(cluster, STORAGE_CLASS, "echo some data >/data/file")


def claim_with_data(cluster: ClusterBench, storage_class: str, script: str) -> str:
    container = {
        "name": "writer",
        "image": tools_image(),
        "imagePullPolicy": "IfNotPresent",
        "securityContext": SECURITY,
        "command": ["sh", "-c", script],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    objects = [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "mine"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": storage_class,
                "resources": {"requests": {"storage": "1Gi"}},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "writer"},
            "spec": {
                "restartPolicy": "Never",
                "containers": [container],
                "securityContext": {"fsGroup": 999},
                "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "mine"}}],
            },
        },
    ]
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
    names = [f"crd/{definition['metadata']['name']}" for definition in definitions]
    listed = {"apiVersion": "v1", "kind": "List", "items": definitions}
    kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(listed))
    kubectl("wait", "--for=condition=Established", "--timeout=60s", *names)
    yield
    kubectl("delete", *names)


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
    act_as_driver(cluster, process)
    ended = cluster.end(process)
    assert ended.code == 0, ended.output
    times = json.loads(ended.output[ended.output.rindex("\n{") :])
    assert 0 <= times["cut_s"] <= times["ready_s"] + 2
    assert 0 < times["restored"]["restore_s"] < 120
    assert times["restored"]["files"] == 0, "the lab's provisioner restores nothing"
    cluster.until(lambda: cluster.everything() == {f"persistentvolumeclaim/{claim}"})


def act_as_driver(cluster: ClusterBench, process: Popen[bytes]) -> None:
    """Set the status of a snapshot that comes."""
    cluster.until(lambda: snapshots(cluster) != [], process)
    (name,) = snapshots(cluster)
    status = {
        "readyToUse": True,
        "restoreSize": "1Gi",
        "boundVolumeSnapshotContentName": "content",
        "creationTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    kubectl(
        "patch",
        name,
        "-n",
        cluster.namespace,
        "--subresource=status",
        "--type=merge",
        "-p",
        json.dumps({"status": status}),
    )


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    path = tmp_path / "snapshots.yaml"
    path.write_text(STEPS, encoding="utf-8")
    return path


@pytest.fixture
def suite_with_restore(tmp_path: Path) -> Path:
    path = tmp_path / "restored.yaml"
    path.write_text(STEPS + RESTORED, encoding="utf-8")
    return path


def rows_of(cluster: ClusterBench) -> dict[str, dict[str, float]]:
    """Return row -> metric -> value of the run's only cell."""
    (result,) = cluster.directory.results()
    valid = [step for step in result.steps if step.valid]
    return {step.step: {name: value.value for name, value in step.metrics.items()} for step in valid}


@pytest.mark.usefixtures("snapshot_api")
def test_a_step_takes_a_snapshot_beside_a_load(cluster: ClusterBench, suite: Path) -> None:
    """The agent asks, the orchestrator acts: real pods, API and definitions; the driver is this test."""
    process = cluster.start(SHORT, suite=suite, volumes={"a": f"storage-class:{STORAGE_CLASS}?size=1Gi"})
    act_as_driver(cluster, process)
    ended = cluster.end(process)
    assert ended.code in FINISHED, ended.output
    rows = rows_of(cluster)
    assert rows["load/beside-snapshot"]["snapshot_ready_s"] > 0
    assert "snapshot_restore_s" not in rows["load/beside-snapshot"]
    assert rows["load/during"]["tps"] > 0
    cluster.until(lambda: cluster.everything() == set())


def test_a_run_with_snapshots_is_refused_before_anything_is_made_without_the_api(
    cluster: ClusterBench, suite: Path
) -> None:
    ended = cluster.end(cluster.start(suite=suite, volumes={"a": f"storage-class:{STORAGE_CLASS}?size=1Gi"}))
    assert ended.code == 3, ended.output
    assert "the cluster has no snapshot API" in ended.output
    assert cluster.everything() == set()


@pytest.fixture(scope="module")
def csi_class() -> Iterator[str]:
    """The storage class of a real driver with snapshots."""
    lab("csi", "add", os.environ["VOLBENCH_CSI"], timeout_s=1800)
    yield "csi-hostpath"
    lab("csi", "remove")


needs_csi = [
    pytest.mark.slow,
    pytest.mark.skipif("VOLBENCH_CSI" not in os.environ, reason="VOLBENCH_CSI names no checkouts of a CSI driver"),
]


class TestRealDriver:
    """kubernetes-csi's hostpath driver, external-provisioner, external-snapshotter and its controller."""

    pytestmark = needs_csi

    def test_a_claim_comes_back_with_its_data(self, cluster: ClusterBench, csi_class: str) -> None:
        script = "cd /data; head -c 50M /dev/urandom >large; mkdir d; for n in 1 2 3; do echo $n >d/$n; done"
        claim = claim_with_data(cluster, csi_class, script)
        ended = cluster.end(cluster.volbench("k8s", "snapshot", claim, "-n", cluster.namespace, "--json"))
        assert ended.code == 0, ended.output
        times = json.loads(ended.output[ended.output.rindex("\n{") :])
        assert times["restored"]["files"] == 4
        assert times["restored"]["bytes"] == 50 * 2**20 + 6
        assert 0 <= times["cut_s"] <= times["ready_s"] + 1
        assert times["restored"]["first_read_s"] > 0
        cluster.until(lambda: cluster.everything() == {f"persistentvolumeclaim/{claim}"})

    def test_a_run_has_the_restored_server_files(
        self, cluster: ClusterBench, csi_class: str, suite_with_restore: Path
    ) -> None:
        volumes = {"a": f"storage-class:{csi_class}?size=2Gi"}
        ended = cluster.end(cluster.start(SHORT, suite=suite_with_restore, volumes=volumes))
        assert ended.code in FINISHED, ended.output
        (result,) = cluster.directory.results()
        backup = next(step for step in result.steps if step.step == "backup")
        restored = backup.details["restored"]
        assert restored["bytes"] > 20e6, "MySQL's own files"
        assert restored["unreadable"] == 0
        assert backup.metrics["first_touch_mib_per_s"].value > 0
        assert rows_of(cluster)["load/during"]["tps"] > 0
        cluster.until(lambda: cluster.everything() == set())
        contents = kubectl("get", "volumesnapshotcontents", "-o", "name").split()
        assert contents == [], "the driver's snapshots are gone"
