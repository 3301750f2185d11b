"""Karpenter on the machine itself, beside the control plane, with its kwok provider: nodes without containers.

Karpenter makes and removes the objects of nodes. kwok's controller, of a module of its own, says that they are
ready, and deletes pods that are to go. It calls all pods on them running but cells: these stay as they are bound,
and a test says how they end.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from binaries import KARPENTER, KWOK, build_controller
from daemons import LabFailed, known, log_tail, start, stop, wait_for, wait_until_well
from layout import HOST_IP, Layout
from nodes import apply, define, kubectl

Object = dict[str, Any]
POOL = "bench"
"""Of the nodes that Karpenter makes: a pod gets there by the node selector karpenter.sh/nodepool."""
EXPIRING_POOL = "expiring"
"""Of nodes that Karpenter removes after EXPIRE_AFTER, whatever is on them."""
EXPIRE_AFTER = "75s"
CONSOLIDATE_AFTER = "5s"
_KARPENTER, _KWOK = "karpenter", "kwok"
_PORTS = {"metrics": 18082, "health": 18083, "kwok": 18084}
_NODES = "kwok.x-k8s.io/node=fake"
_POD_CIDR = "10.245.0.0/16"
_READY_S = 120.0
_GONE_S = 60.0
_LEASE_S = 10
"""Renewed four times as often: the lab's control plane calls a node unknown after 20 s."""
_STAGES = (
    "node/fast/node-initialize.yaml",
    "node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
    "pod/fast/pod-ready.yaml",
    "pod/fast/pod-delete.yaml",
)
_OF_PODS_TO_START = "pod-ready.yaml"
_SELECTION = "    matchExpressions:\n"
_ALL_BUT_CELLS = """\
    - key: '.metadata.labels["app.kubernetes.io/component"]'
      operator: 'NotIn'
      values: ['cell']
"""


def add_karpenter(layout: Layout) -> None:
    """Start Karpenter and kwok's controller, with two pools of nodes; those that run are ended first."""
    karpenter, module = build_controller(layout, _KARPENTER, KARPENTER, "./kwok")
    kwok, kwok_module = build_controller(layout, _KWOK, KWOK, "./cmd/kwok")
    remove_karpenter(layout)
    define(layout, module / "pkg" / "apis" / "crds", module / "kwok" / "apis" / "crds")
    directory = layout.state / _KARPENTER
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "stages.yaml").write_text(_stages(kwok_module / "kustomize" / "stage"))
    start(
        layout,
        _KWOK,
        [
            kwok,
            f"--kubeconfig={layout.kubeconfig}",
            f"--config={directory / 'stages.yaml'}",
            f"--manage-nodes-with-annotation-selector={_NODES}",
            f"--node-lease-duration-seconds={_LEASE_S}",
            f"--node-ip={HOST_IP}",
            f"--cidr={_POD_CIDR}",
            f"--server-address=127.0.0.1:{_PORTS['kwok']}",
        ],
    )
    start(layout, _KARPENTER, ["env", *_environment(layout), karpenter])
    for name, page in ((_KWOK, f"{_PORTS['kwok']}/healthz"), (_KARPENTER, f"{_PORTS['health']}/readyz")):
        wait_until_well(layout, name, f"http://127.0.0.1:{page}", timeout_s=_READY_S)
    apply(layout, *_pools())


def remove_karpenter(layout: Layout) -> None:
    """End Karpenter and kwok's controller, if they run, after the nodes that Karpenter has made."""
    if known(layout, _KARPENTER) is not None:
        kubectl(layout, ["delete", "nodepools", "--all", "--wait=false"], check=False)
        wait_for(
            lambda: not kubectl(layout, ["get", "nodeclaims", "-o", "name"], check=False).strip(),
            description="Karpenter's nodes are gone",
            timeout_s=_GONE_S,
            evidence=lambda: log_tail(layout, _KARPENTER),
        )
    for name in (_KARPENTER, _KWOK):
        stop(layout, name)


def _environment(layout: Layout) -> list[str]:
    return [
        f"KUBECONFIG={layout.kubeconfig}",
        "DISABLE_LEADER_ELECTION=true",
        f"METRICS_PORT={_PORTS['metrics']}",
        f"HEALTH_PROBE_PORT={_PORTS['health']}",
        "LOG_LEVEL=debug",
    ]


def _stages(directory: Path) -> str:
    """Return what kwok's controller does to nodes and pods: its own stages, which start no cell."""
    stages = []
    for name in _STAGES:
        text = (directory / name).read_text()
        if name.endswith(_OF_PODS_TO_START):
            if text.count(_SELECTION) != 1:
                raise LabFailed(f"{directory / name} selects pods in another way than it did")
            text = text.replace(_SELECTION, _SELECTION + _ALL_BUT_CELLS)
        stages.append(text.rstrip() + "\n")
    return "---\n".join(stages)


def _pools() -> list[Object]:
    node_class = {"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "kwok"}}
    return [node_class, _pool(POOL, "Never"), _pool(EXPIRING_POOL, EXPIRE_AFTER)]


def _pool(name: str, expire_after: str) -> Object:
    """Return a pool of on-demand nodes, of which Karpenter removes or replaces any that it can do without."""
    requirements = {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "karpenter.sh/capacity-type": "on-demand",
    }
    template = {
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "kwok"},
        "requirements": [{"key": key, "operator": "In", "values": [value]} for key, value in requirements.items()],
        "expireAfter": expire_after,
    }
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "template": {"spec": template},
            "limits": {"cpu": "100"},
            "disruption": {
                "consolidationPolicy": "WhenEmptyOrUnderutilized",
                "consolidateAfter": CONSOLIDATE_AFTER,
                "budgets": [{"nodes": "100%"}],
            },
        },
    }
