"""Emulated volumes as local ones of the lab cluster, with a claim on each: for tests."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cluster_run import LAB_STATE, ClusterBench, kubectl, lab

from volbench.machine.volume.emulated.control import CONTROL_SOCKET
from volbench.machine.volume.kinds.claim import EMULATED, EMULATOR

CLASS = "lab-local"
SHARED_CLASS = "lab-shared-by-nodes"
POD_USER = 999


@contextmanager
def emulated_claim(cluster: ClusterBench, name: str, spec: str) -> Iterator[Path]:
    """A claim NAME on an emulated volume of node1, that says what it is; yields the directory of its data."""
    directory = cluster.root / "emulated"
    directory.mkdir(exist_ok=True)
    volume = f"{cluster.namespace}-{name}"
    made = cluster.volbench("volume", "emulate", spec, "--name", volume, "--dir", str(directory))
    assert made.wait(60) == 0, (cluster.root / "output").read_text()
    data, control = directory / volume / "data", directory / f"{volume}-control"
    locations = {volume: data, control.name: control}
    _share_socket(data.parent / CONTROL_SOCKET, control)
    for volume_name, location in locations.items():
        lab("volume", "add", volume_name, str(location), "4Gi")
    output = {EMULATED: spec, EMULATOR: f"{name}-control"}
    claims = [_claim(name, volume, output), _claim(f"{name}-control", control.name, {})]
    try:
        kubectl(
            "apply",
            "-n",
            cluster.namespace,
            "-f",
            "-",
            stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": claims}),
        )
        yield data
    finally:
        kubectl("delete", "pvc", name, f"{name}-control", "-n", cluster.namespace, "--ignore-not-found")
        for volume_name in locations:
            lab("volume", "remove", volume_name)
        cluster.volbench("volume", "remove", volume, "--dir", str(directory)).wait(60)


@contextmanager
def emulated_directory(cluster: ClusterBench, root: Path, name: str, spec: str) -> Iterator[Path]:
    """The data of an emulated volume as a directory that all nodes of the lab see and the pods' user owns."""
    volume = f"{cluster.namespace}-{name}"
    made = cluster.volbench("volume", "emulate", spec, "--name", volume, "--dir", str(root))
    assert made.wait(60) == 0, (cluster.root / "output").read_text()
    data = root / volume / "data"
    lab("volume", "add", f"{volume}-local", str(data), "4Gi")
    directory = LAB_STATE / "volumes" / "local" / f"{volume}-local"
    os.chown(directory, POD_USER, POD_USER)
    try:
        yield directory
    finally:
        lab("volume", "remove", f"{volume}-local")
        cluster.volbench("volume", "remove", volume, "--dir", str(root)).wait(60)


def _share_socket(socket: Path, directory: Path) -> None:
    """A second name for the socket, in a directory with nothing else, for the user that pods run as."""
    directory.mkdir()
    (directory / CONTROL_SOCKET).hardlink_to(socket)
    os.chown(socket, POD_USER, POD_USER)


def _claim(name: str, volume: str, annotations: dict[str, str]) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": CLASS,
            "volumeName": volume,
            "resources": {"requests": {"storage": "4Gi"}},
        },
    }


@contextmanager
def shared_claims(cluster: ClusterBench, directories: dict[str, Path]) -> Iterator[dict[str, str]]:
    """Claims on directories that each node can mount, as with a file system in the network; the volumes' SPECs."""
    size, common = {"storage": "4Gi"}, {"accessModes": ["ReadWriteOnce"], "storageClassName": SHARED_CLASS}
    names, objects = {name: f"{cluster.namespace}-{name}" for name in directories}, []
    for name, directory in directories.items():
        volume: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": names[name]},
            "spec": {
                **common,
                "capacity": size,
                "persistentVolumeReclaimPolicy": "Retain",
                "hostPath": {"path": str(directory), "type": "Directory"},
            },
        }
        claim = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": cluster.namespace},
            "spec": {**common, "volumeName": names[name], "resources": {"requests": size}},
        }
        objects += [volume, claim]
    kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    try:
        yield {name: f"pvc:{name}" for name in names}
    finally:
        kubectl("delete", "pvc", *names, "-n", cluster.namespace, "--ignore-not-found", "--wait=false")
        kubectl("delete", "pv", *names.values(), "--ignore-not-found", "--wait=false")
