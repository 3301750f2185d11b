"""The objects of a measured snapshot: the VolumeSnapshot, the claim restored from it, the Job that reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from volbench.placement.kubernetes.manifests import (
    AGENT,
    VOLUME_ROOT,
    container_basics,
    labels_of_run,
    pod_basics,
)
from volbench.placement.kubernetes.options import KubernetesOptions
from volbench.volume.kinds.claim import object_name

Object = dict[str, Any]
GROUP = "snapshot.storage.k8s.io"
API_VERSION = f"{GROUP}/v1"
COMPONENT = "snapshot"
READER = AGENT
"""The container's name, by which its troubles are found."""
_SIZES = {"requests": {"cpu": "250m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}}


@dataclass(frozen=True, kw_only=True)
class SnapshotPlan:
    """What is measured.

    Args:
        run_id: names and labels all objects.
        claim: of the source.
        snapshot_class: VolumeSnapshotClass; empty: the default one of the source's driver.
        storage_class: of the restored claim; empty: the source's.
        image: with volbench, of the Job that reads.
        options: where the reader runs, and as which user.
        request: names the snapshot among those of the run; empty: the only one.
    """

    run_id: str
    claim: str
    snapshot_class: str = ""
    storage_class: str = ""
    image: str = ""
    options: KubernetesOptions
    request: str = ""

    @property
    def name(self) -> str:
        """Of snapshot, restored claim and Job."""
        return object_name("volbench", self.run_id.rsplit("-", 1)[-1], *filter(None, (self.request,)), COMPONENT)


def _metadata(plan: SnapshotPlan) -> Object:
    labels = {**labels_of_run(plan.run_id), "app.kubernetes.io/component": COMPONENT}
    return {"name": plan.name, "labels": labels}


def volume_snapshot(plan: SnapshotPlan) -> Object:
    """Return the snapshot of the source."""
    chosen = {"volumeSnapshotClassName": plan.snapshot_class} if plan.snapshot_class else {}
    return {
        "apiVersion": API_VERSION, "kind": "VolumeSnapshot", "metadata": _metadata(plan),
        "spec": {**chosen, "source": {"persistentVolumeClaimName": plan.claim}},
    }  # fmt: skip


def restored_claim(plan: SnapshotPlan, source: Object, restore_size: str = "") -> Object:
    """Return a claim with the snapshot's data.

    Args:
        source: the claim that the snapshot is of.
        restore_size: the least size, as the snapshot's status says; empty: the source's.
    """
    spec = source["spec"]
    size = restore_size or source.get("status", {}).get("capacity", {}).get("storage") or ""
    storage_class = plan.storage_class or spec.get("storageClassName")
    return {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": _metadata(plan),
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            **({"storageClassName": storage_class} if storage_class else {}),
            "dataSource": {"apiGroup": GROUP, "kind": "VolumeSnapshot", "name": plan.name},
            "resources": {"requests": {"storage": size or spec["resources"]["requests"]["storage"]}},
        },
    }  # fmt: skip


def reader_job(plan: SnapshotPlan) -> Object:
    """Return the Job that reads all files of the restored volume twice; it writes nothing there."""
    container = {
        **container_basics(plan.options, READER, plan.image, ["volbench", "cell", "first-touch", VOLUME_ROOT]),
        "resources": _SIZES,
        "volumeMounts": [
            {"name": "volume", "mountPath": VOLUME_ROOT, "readOnly": True}, {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - inside a container, of its own
        ],
    }  # fmt: skip
    metadata = _metadata(plan)
    spec = {
        **pod_basics(plan.options),
        "containers": [container],
        "volumes": [
            {"name": "volume", "persistentVolumeClaim": {"claimName": plan.name}},
            {"name": "tmp", "emptyDir": {}},
        ],
    }
    template = {"metadata": {"labels": metadata["labels"]}, "spec": spec}
    return {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": metadata,
        "spec": {"backoffLimit": 0, "template": template},
    }  # fmt: skip
