"""Who else is on a claim and on a node: two runs, an application, a laptop that does not come back."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import cluster_run
import live_run
import pytest
from cluster_run import ClusterBench, kubectl

from volbench.machine.placement.docker.image_names import tools_image
from volbench.machine.volume.kinds.run_owner import this_user

pytestmark = [pytest.mark.kubernetes, pytest.mark.usefixtures("lab_images"), pytest.mark.timeout(600)]
ONE_VOLUME = {"a": f"storage-class:{cluster_run.STORAGE_CLASS}"}
APP_SECURITY = {
    "runAsNonRoot": True,
    "runAsUser": 999,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


def apart(cluster: ClusterBench, directory: Path) -> ClusterBench:
    """The same namespace, for a second run with results of its own."""
    root = directory / "other"
    root.mkdir()
    return replace(cluster, root=root)


@pytest.fixture
def shared_claim(cluster: ClusterBench) -> str:
    """A claim of the user that an application's pod mounts, whose node may run the cells of a run as well."""
    container = {
        "name": "app",
        "image": tools_image(),
        "imagePullPolicy": "IfNotPresent",
        "command": ["sleep", "600"],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "shared"}}]
    manifests = [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "shared"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": cluster_run.STORAGE_CLASS,
                "resources": {"requests": {"storage": "1Gi"}},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "app"},
            "spec": {
                "containers": [{**container, "securityContext": APP_SECURITY}],
                "volumes": volumes,
                "terminationGracePeriodSeconds": 1,
            },
        },
    ]
    items = {"apiVersion": "v1", "kind": "List", "items": manifests}
    kubectl("apply", "-n", cluster.namespace, "-f", "-", stdin=json.dumps(items))
    kubectl("wait", "-n", cluster.namespace, "--for=condition=Ready", "--timeout=60s", "pod/app")
    return "shared"


def test_a_claim_in_use_is_refused_with_the_other_runs_name_and_an_applications_pod_is_a_caveat(
    cluster: ClusterBench, shared_claim: str, tmp_path: Path
) -> None:
    """The first run has the lease until its end, the second one is told at once, and the report names the pod."""
    volumes = {"a": f"pvc:{shared_claim}"}
    first = cluster.start("sampling.summaries=false", volumes=volumes)
    cluster.until(lambda: bool(cluster.objects("pods", "app.kubernetes.io/component=cell")), first)
    second = apart(cluster, tmp_path)
    refused = second.end(second.start(volumes=volumes))
    assert refused.code == 3, refused.output
    run_id = cluster.directory.run.run_id
    assert f"run {run_id} uses the volume of claim {shared_claim}" in refused.output
    assert f"started by {this_user()}, until" in refused.output
    second.quote("another run measures the same claim (`pvc:`)", refused)
    ended = cluster.end(first)
    assert ended.code in live_run.FINISHED, ended.output
    report = json.loads((cluster.directory.path / "report.json").read_text())
    caveats = report["summary"]["caveats"]
    cluster.quote("an application's pod mounts the measured claim too", ended)
    assert any("pod app mounts it too" in caveat for caveat in caveats)
    left = cluster.everything()
    assert left == {f"persistentvolumeclaim/{shared_claim}", "pod/app"}, "the lease goes with the run"


@pytest.mark.slow
def test_a_lost_laptops_pod_says_whose_it_is_until_when_and_what_to_do(
    cluster: ClusterBench, tmp_path: Path
) -> None:
    """Its cell has ended and its results wait for it: the next run's cell waits, and says so."""
    lost = cluster.start(options=["ttl=1h"], volumes=ONE_VOLUME)
    cluster.until(lambda: bool(cluster.objects("pods", "volbench.org/cell")), lost)
    run_id = cluster.directory.run.run_id
    lost.kill()
    lost.wait()

    def keeps() -> bool:
        statuses = [
            status
            for pod in cluster.objects("pods", "volbench.org/cell")
            for status in pod["status"].get("containerStatuses", [])
        ]
        return any(status["name"] == "agent" and "terminated" in status["state"] for status in statuses)

    second = apart(cluster, tmp_path)
    cluster_run.until(keeps, "the agent has ended")
    waiting = second.end(second.start(options=["queue_timeout=20s"], volumes=ONE_VOLUME))
    assert waiting.code == 3, waiting.output
    assert f"run {run_id} (started by {this_user()}) only keeps results that nobody has collected" in waiting.output
    assert f"volbench k8s clean -n {cluster.namespace} {run_id} --force" in waiting.output
    second.quote("a lost laptop's pod, which only keeps results, is on the only node", waiting)
