"""What belongs to the namespace and not to the run: the owner that is left alone, quotas, claims of the user."""

from __future__ import annotations

import shutil
import signal

import cluster_run
import live_run
import pytest
from cluster_run import ClusterBench, kubectl

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(600)]
CLAIM = f"""
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: mine}}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: {cluster_run.STORAGE_CLASS}
  resources: {{requests: {{storage: 1Gi}}}}
"""


def volumes_of(cluster: ClusterBench) -> list[str]:
    """PersistentVolumes that belong to claims of the namespace, also to deleted ones."""
    columns = 'jsonpath={range .items[*]}{.spec.claimRef.namespace}{"\\n"}{end}'
    return [line for line in kubectl("get", "pv", "-o", columns).split() if line == cluster.namespace]


def test_a_lost_laptop_leaves_no_volume_for_ever(cluster: ClusterBench) -> None:
    """The orchestrator is killed under load and never resumed: when its time has passed, all of the run is gone.

    The claim that `pvc:` names stays, with its volume.
    """
    kubectl("apply", "-n", cluster.namespace, "-f", "-", stdin=CLAIM)
    volumes = {"a": f"storage-class:{cluster_run.STORAGE_CLASS}?size=1Gi", "b": "pvc:mine"}
    process = cluster.start("steps.0.duration=15s", options=["ttl=30s"], volumes=volumes)
    cluster.until(cluster.in_step, process)
    assert len(volumes_of(cluster)) == 2
    live_run.send(process, signal.SIGKILL)
    process.wait()
    kinds = {term.partition("/")[0] for term in cluster.everything()}
    assert {"configmap", "job.batch", "pod", "persistentvolumeclaim"} <= kinds
    cluster.until(lambda: cluster.everything() == {"persistentvolumeclaim/mine"})
    cluster.until(lambda: len(volumes_of(cluster)) == 1)
    phase = kubectl("get", "pvc", "mine", "-n", cluster.namespace, "-o", "jsonpath={.status.phase}")
    assert phase == "Bound"
    cluster.quote(
        "the orchestrator is killed under load and nobody comes back (ttl=30s); volumes of a class and of the user",
        live_run.Ended(code=137, output="left in the namespace after ttl: persistentvolumeclaim/mine, bound\n"),
    )


QUOTA = """
apiVersion: v1
kind: ResourceQuota
metadata: {name: sizes}
spec:
  hard: {requests.cpu: "4", requests.memory: 8Gi, limits.cpu: "8", limits.memory: 8Gi, pods: "4"}
"""
SIZES = ("server_cpu=500m", "server_memory=1Gi", "agent_cpu=500m", "agent_memory=512Mi")


def test_a_namespace_whose_quota_demands_sizes_is_told_and_works_with_them(cluster: ClusterBench) -> None:
    """Also the pod that erases the run's directories from a claim of the user has sizes."""
    kubectl("apply", "-n", cluster.namespace, "-f", "-", stdin=f"{QUOTA}---{CLAIM}")
    refused = cluster.end(cluster.start(volumes={"b": "pvc:mine"}))
    assert refused.code == 3, refused.output
    assert "ResourceQuota demands sizes" in refused.output
    assert "failed quota: sizes: must specify limits.cpu" in refused.output
    assert "server_cpu=2" in refused.output
    cluster.quote("the namespace's ResourceQuota demands sizes", refused)
    assert cluster.leftovers() == []
    shutil.rmtree(cluster.results)
    ended = cluster.end(cluster.start(options=SIZES, volumes={"b": "pvc:mine"}))
    assert ended.code == 0, ended.output
    cluster.assert_all_done_once()
    assert cluster.everything() == {"persistentvolumeclaim/mine", "resourcequota/sizes"}
