"""The objects of a measured snapshot: the VolumeSnapshot, the claim restored from it, the Job that reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from volbench.core.records.base import parse_size_bytes
from volbench.machine.cluster.names import object_name
from volbench.machine.placement.kubernetes.affinity import near_cells_of
from volbench.machine.placement.kubernetes.cell_objects import labels_of_run
from volbench.machine.placement.kubernetes.manifests import (
    AGENT,
    NO_DISRUPTION,
    TMP_LIMIT,
    VOLUME_ROOT,
    container_basics,
    pod_basics,
    with_storage,
)
from volbench.machine.placement.kubernetes.options import KubernetesOptions

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
        request: the name of snapshot, restored claim and Job, one for each request; empty: a run's only one.
        directory: on the volume, of the files that are read; relative.
        near_cell: the reader is on the node of the run's cell, if that has room.
    """

    run_id: str
    claim: str
    snapshot_class: str = ""
    storage_class: str = ""
    image: str = ""
    options: KubernetesOptions
    request: str = ""
    directory: str = ""
    near_cell: bool = False

    @property
    def name(self) -> str:
        """Of snapshot, restored claim and Job."""
        return self.request or object_name("volbench", self.run_id.rsplit("-", 1)[-1], COMPONENT)


def _metadata(plan: SnapshotPlan) -> Object:
    labels = {**labels_of_run(plan.run_id), "app.kubernetes.io/component": COMPONENT}
    return {"name": plan.name, "labels": labels}


def volume_snapshot(plan: SnapshotPlan) -> Object:
    """Return the snapshot of the source."""
    chosen = {"volumeSnapshotClassName": plan.snapshot_class} if plan.snapshot_class else {}
    return {
        "apiVersion": API_VERSION,
        "kind": "VolumeSnapshot",
        "metadata": _metadata(plan),
        "spec": {**chosen, "source": {"persistentVolumeClaimName": plan.claim}},
    }


def restored_claim(plan: SnapshotPlan, source: Object, restore_size: str = "") -> Object:
    """Return a claim with the snapshot's data.

    Args:
        source: the claim that the snapshot is of.
        restore_size: the least size, as the snapshot's status says; empty, 0 or less than the source's: that.
    """
    spec = source["spec"]
    sizes = [
        restore_size,
        source.get("status", {}).get("capacity", {}).get("storage") or "",
        spec["resources"]["requests"]["storage"],
    ]
    size = max(filter(None, sizes), key=_size_bytes)
    storage_class = plan.storage_class or spec.get("storageClassName")
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": _metadata(plan),
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            **({"storageClassName": storage_class} if storage_class else {}),
            "dataSource": {"apiGroup": GROUP, "kind": "VolumeSnapshot", "name": plan.name},
            "resources": {"requests": {"storage": size}},
        },
    }


def _size_bytes(quantity: str) -> float:
    """Return the bytes of a quantity such as 10Gi; 0 for one of another form."""
    try:
        return parse_size_bytes(quantity)
    except ValueError:
        return 0


def reader_job(plan: SnapshotPlan) -> Object:
    """Return the Job that reads the plan's files on the restored volume twice; it writes nothing there."""
    directory = f"{VOLUME_ROOT}/{plan.directory}".rstrip("/")
    container = {
        **container_basics(plan.options, READER, plan.image, ["volbench", "cell", "first-touch", directory]),
        "resources": with_storage(_SIZES, plan.options),
        "volumeMounts": [
            {"name": "volume", "mountPath": VOLUME_ROOT, "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},
        ],
    }
    metadata = _metadata(plan)
    spec = {
        **pod_basics(plan.options),
        **({"affinity": near_cells_of(plan.run_id)} if plan.near_cell and not plan.options.node else {}),
        "containers": [container],
        "volumes": [
            {"name": "volume", "persistentVolumeClaim": {"claimName": plan.name}},
            {"name": "tmp", "emptyDir": TMP_LIMIT},
        ],
    }
    template = {"metadata": {"labels": metadata["labels"], "annotations": NO_DISRUPTION}, "spec": spec}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {"backoffLimit": 0, "template": template},
    }
