"""Records what the real scheduler and volume controllers say of pods that cannot start, for tests.

With KUBECONFIG set: python3 tests/lab/kubernetes/troubles.py tests/fixtures/kubernetes/events/v1.34.4.json

Each condition is made with objects of the API alone, in a namespace that is deleted afterwards.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

Object = dict[str, Any]
NAMESPACE = "volbench-troubles"
WAIT_S = 90.0
CLAIM = "data"


def kubectl(*arguments: str, stdin: str | None = None, check: bool = True) -> str:
    """Return the output of a command."""
    return subprocess.run(
        ["kubectl", *arguments], input=stdin, capture_output=True, text=True, check=check, timeout=120
    ).stdout


def claim(**spec: Any) -> Object:
    """A claim of 1 GiB."""
    base = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": CLAIM, "namespace": NAMESPACE},
        "spec": {**base, **spec},
    }


def volume(**spec: Any) -> Object:
    """A PersistentVolume for the claim."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": NAMESPACE},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "",
            "persistentVolumeReclaimPolicy": "Retain",
            **spec,
            "claimRef": {"kind": "PersistentVolumeClaim", "namespace": NAMESPACE, "name": CLAIM},
        },
    }


def storage_class(mode: str, provisioner: str) -> Object:
    """A class of that name."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": NAMESPACE},
        "provisioner": provisioner,
        "volumeBindingMode": mode,
    }


def csi_limit(node: str) -> list[Object]:
    """A driver that can attach no volume to the node, and a volume of it."""
    uid = kubectl("get", "node", node, "-o", "jsonpath={.metadata.uid}")
    owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}
    driver = {"name": "troubles.volbench.org", "nodeID": node, "topologyKeys": [], "allocatable": {"count": 0}}
    return [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSINode",
            "metadata": {"name": node, "ownerReferences": [owner]},
            "spec": {"drivers": [driver]},
        },
        volume(csi={"driver": driver["name"], "volumeHandle": "v1"}),
        claim(storageClassName=""),
    ]


def zone_conflict() -> list[Object]:
    """A volume in a zone in which no node is."""
    term = {"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["eu-1z"]}]}
    return [
        volume(hostPath={"path": "/tmp"}, nodeAffinity={"required": {"nodeSelectorTerms": [term]}}),
        claim(storageClassName=""),
    ]


def pod(**spec: Any) -> Object:
    """A pod with the claim."""
    container = {
        "name": "server",
        "image": "volbench.invalid/none",
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
    }
    source = {"persistentVolumeClaim": {"claimName": CLAIM}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": NAMESPACE},
        "spec": {"restartPolicy": "Never", "containers": [container], "volumes": [{"name": "v", **source}], **spec},
    }


def conditions(node: str) -> dict[str, tuple[list[Object], Object]]:
    """Condition -> objects of it and its pod."""
    late = [
        storage_class("WaitForFirstConsumer", "kubernetes.io/no-provisioner"),
        claim(storageClassName=NAMESPACE),
    ]
    nobody = [storage_class("Immediate", "volbench.org/nobody"), claim(storageClassName=NAMESPACE)]
    huge = pod()
    huge["spec"]["containers"][0]["resources"] = {"requests": {"memory": "4Ti"}}
    return {
        "zone-conflict": (zone_conflict(), pod()),
        "attach-limit": (csi_limit(node), pod()),
        "no-default-class": ([claim()], pod()),
        "class-missing": ([claim(storageClassName="missing")], pod()),
        "nobody-provisions": (nobody, pod()),
        "no-volume-of-class": (late, pod()),
        "claim-missing": ([], pod()),
        "selector": ([claim(storageClassName="local-path")], pod(nodeSelector={"volbench.org/no": "where"})),
        "memory": ([claim(storageClassName="local-path")], huge),
    }


def observed(name: str) -> Object:
    """Return the pod's status and the events of pod and claim, when there is something to see."""
    until_s = time.monotonic() + WAIT_S
    while time.monotonic() < until_s:
        document = json.loads(kubectl("get", "pod", "p", "-n", NAMESPACE, "-o", "json"))
        events = json.loads(kubectl("get", "events", "-n", NAMESPACE, "-o", "json"))["items"]
        conditions = [
            condition for condition in document["status"].get("conditions", []) if condition["status"] == "False"
        ]
        claims = [event for event in events if event["involvedObject"]["kind"] == "PersistentVolumeClaim"]
        if conditions and (claims or name not in {"no-default-class", "class-missing", "nobody-provisions"}):
            remaining = ("involvedObject", "reason", "message", "type", "count", "lastTimestamp", "eventTime")
            return {
                "pod": {"metadata": {"name": "p"}, "spec": {}, "status": document["status"]},
                "events": [{key: event[key] for key in remaining if key in event} for event in events],
            }
        time.sleep(1)
    raise SystemExit(f"{name}: nothing to see in {WAIT_S:.0f} s")


def record(objects: list[Object], made: Object, name: str, node: str) -> Object:
    """Make a condition, return what was seen of it, and delete all of it."""
    drivers = kubectl("get", "csinode", node, "-o", "jsonpath={.spec.drivers}", check=False)
    kubectl("create", "namespace", NAMESPACE)
    try:
        for item in (*objects, made):
            kubectl("apply", "-f", "-", stdin=json.dumps(item))
        return observed(name)
    finally:
        kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found")
        kubectl("delete", f"pv/{NAMESPACE}", f"storageclass/{NAMESPACE}", "--ignore-not-found", check=False)
        if name == "attach-limit":
            restored = json.dumps({"spec": {"drivers": json.loads(drivers or "null")}})
            kubectl("patch", "csinode", node, "--type=merge", "-p", restored)


def main(file: Path) -> None:
    """Record all conditions."""
    node = kubectl("get", "nodes", "-o", "jsonpath={.items[0].metadata.name}")
    version = json.loads(kubectl("version", "-o", "json"))["serverVersion"]["gitVersion"]
    recorded = {name: record(*pieces, name, node) for name, pieces in conditions(node).items()}
    file.write_text(json.dumps({"version": version, "conditions": recorded}, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
