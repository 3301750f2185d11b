"""A CSI driver with snapshots on node1: kubernetes-csi's hostpath driver, its controllers and the snapshot API.

Built from checkouts of their repositories, which bring their dependencies: no module proxy has all of them. The
driver copies a volume by `tar`, so a snapshot of files that change meanwhile fails, and is tried again.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from daemons import LabFailed, known, log_tail, run, start, stop, wait_for
from layout import Layout, NodePlaces
from nodes import enter, kubectl

from volbench.machine.placement.docker.image_names import content_hash

DRIVER = "hostpath.csi.k8s.io"
CLASS = "csi-hostpath"
"""Of storage and of snapshots."""
PROGRAMS = {
    "hostpathplugin": "csi-driver-host-path",
    "csi-provisioner": "external-provisioner",
    "csi-snapshotter": "external-snapshotter",
    "snapshot-controller": "external-snapshotter",
    "csi-node-driver-registrar": "node-driver-registrar",
}
"""Program -> repository of kubernetes-csi."""
VERSION = "lab"
"""The driver refuses to be without one."""
_KINDS = ("volumesnapshots", "volumesnapshotclasses", "volumesnapshotcontents")
_SOCKET = "/var/lib/kubelet/plugins/csi-hostpath/csi.sock"
_READY_S = 120.0


def add_csi(layout: Layout, sources: Path) -> None:
    """Start the driver on node1, with its storage class and its default snapshot class; nothing is done twice.

    Args:
        sources: has a checkout of each repository of PROGRAMS.
    """
    node = NodePlaces(number=1, layout=layout)
    programs = _build(layout, sources)
    _define(layout, sources / "external-snapshotter")
    kubeconfig = f"--kubeconfig={layout.kubeconfig}"
    address = f"--csi-address={_SOCKET}"
    data = node.directory / "csi-data"
    inside = enter(node)
    run([*inside, "mkdir", "-p", Path(_SOCKET).parent, data])
    environment = ["env", f"NODE_NAME={node.name}"]
    arguments = {
        "hostpathplugin": [
            f"--drivername={DRIVER}",
            f"--endpoint=unix://{_SOCKET}",
            f"--statedir={data}",
            f"--nodeid={node.name}",
        ],
        "csi-node-driver-registrar": [
            address,
            f"--kubelet-registration-path={_SOCKET}",
            "--plugin-registration-path=/var/lib/kubelet/plugins_registry",
        ],
        "csi-provisioner": [address, kubeconfig, "--feature-gates=Topology=true"],
        "snapshot-controller": [kubeconfig],
        "csi-snapshotter": [address, kubeconfig],
    }
    for name, options in arguments.items():
        start(layout, _daemon(name), [*inside, *environment, programs / name, *options])
    wait_for(
        lambda: DRIVER in kubectl(layout, ["get", "csinode", node.name, "-o", "yaml"], check=False),
        description=f"{DRIVER} is registered on {node.name}",
        timeout_s=_READY_S,
        evidence=lambda: "\n".join(log_tail(layout, _daemon(name)) for name in PROGRAMS),
    )


def remove_csi(layout: Layout) -> None:
    """End the driver and its controllers, if they run; remove its classes and the snapshot API."""
    if not any(known(layout, _daemon(name)) for name in PROGRAMS):
        return
    for kind in ("volumesnapshotclass", "storageclass", "csidriver"):
        name = DRIVER if kind == "csidriver" else CLASS
        kubectl(layout, ["delete", kind, name, "--ignore-not-found"], check=False)
    for kind in _KINDS:
        kubectl(layout, ["delete", f"crd/{kind}.snapshot.storage.k8s.io", "--ignore-not-found"], check=False)
    for name in reversed(PROGRAMS):
        stop(layout, _daemon(name))


def _daemon(name: str) -> str:
    return f"{name}@node1"


def _build(layout: Layout, sources: Path) -> Path:
    """Compile what is not in the cache; return the directory of the programs."""
    repositories = list(dict.fromkeys(PROGRAMS.values()))
    modules = [f"{repository}/go.mod" for repository in repositories]
    missing = [module for module in modules if not (sources / module).exists()]
    if missing:
        raise LabFailed(f"{sources} has no {', '.join(missing)}: put checkouts of kubernetes-csi there")
    inputs = [*modules, *(f"{repository}/{piece}" for repository in repositories for piece in ("cmd", "pkg"))]
    directory = layout.bin / f"csi-{content_hash(sources, inputs)}"
    for name, repository in PROGRAMS.items():
        program = directory / name
        if program.exists():
            continue
        directory.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            [
                "nice",
                "go",
                "build",
                "-mod=vendor",
                "-trimpath",
                "-ldflags",
                f"-s -w -X main.version={VERSION}",
                "-o",
                f"{program}.partial",
                f"./cmd/{name}",
            ],
            cwd=sources / repository,
            env={**os.environ, "CGO_ENABLED": "0", "GOFLAGS": ""},
            check=False,
        )
        if done.returncode != 0:
            raise LabFailed(f"{name} cannot be built from {sources / repository}; its output is above")
        Path(f"{program}.partial").replace(program)
    return directory


def _define(layout: Layout, snapshotter: Path) -> None:
    """The snapshot API's definitions, the driver, and its classes."""
    for kind in _KINDS:
        path = snapshotter / "client" / "config" / "crd" / f"snapshot.storage.k8s.io_{kind}.yaml"
        kubectl(layout, ["apply", "--server-side", "-f", str(path)])
        name = f"crd/{kind}.snapshot.storage.k8s.io"
        kubectl(layout, ["wait", "--for=condition=Established", "--timeout=60s", name])
    only_here = {"key": "topology.hostpath.csi/node", "values": ["node1"]}
    objects = [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIDriver",
            "metadata": {"name": DRIVER},
            "spec": {"attachRequired": False, "podInfoOnMount": True, "fsGroupPolicy": "File"},
        },
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": CLASS},
            "provisioner": DRIVER,
            "volumeBindingMode": "WaitForFirstConsumer",
            "allowedTopologies": [{"matchLabelExpressions": [only_here]}],
        },
        {
            "apiVersion": "snapshot.storage.k8s.io/v1",
            "kind": "VolumeSnapshotClass",
            "driver": DRIVER,
            "deletionPolicy": "Delete",
            "metadata": {"name": CLASS, "annotations": {"snapshot.storage.kubernetes.io/is-default-class": "true"}},
        },
    ]
    kubectl(layout, ["apply", "-f", "-"], stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
