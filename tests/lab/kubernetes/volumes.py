"""Directories of the machine as local volumes of a node: emulated volumes among them."""

from __future__ import annotations

import json
from pathlib import Path

from daemons import is_mounted, run
from layout import Layout
from nodes import kubectl

CLASS = "lab-local"
NODE = "node1"


def add_volume(layout: Layout, name: str, directory: Path, size: str) -> None:
    """A local PersistentVolume NAME of class `lab-local` for a directory, which may be a mount."""
    volumes = layout.volumes / "local" / name
    volumes.mkdir(parents=True, exist_ok=True)
    if not is_mounted(volumes):
        run(["mount", "--bind", directory.resolve(strict=True), volumes])  # below a shared mount: nodes see it too
    storage_class = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": CLASS},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    local = {"key": "kubernetes.io/hostname", "operator": "In", "values": [NODE]}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": CLASS,
            "local": {"path": str(volumes)},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [local]}]}},
        },
    }
    kubectl(
        layout,
        ["apply", "-f", "-"],
        stdin=json.dumps(
            {
                "apiVersion": "v1",
                "kind": "List",
                "items": [
                    storage_class,
                    volume,
                ],
            }
        ),
    )


def remove_volume(layout: Layout, name: str) -> None:
    """Take the volume away; what is in its directory stays."""
    kubectl(layout, ["delete", "pv", name, "--ignore-not-found", "--wait=false"])
    volumes = layout.volumes / "local" / name
    if is_mounted(volumes):
        run(["umount", volumes])
    if volumes.exists():
        volumes.rmdir()
