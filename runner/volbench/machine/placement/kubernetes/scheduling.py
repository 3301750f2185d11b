"""Why a pod has no node yet: from the scheduler's message and the events of the pod's claim.

Texts are those of the scheduler's plugins and of the volume controllers, recorded from Kubernetes 1.34 in the
tests. All nodes fail NodeAffinity where the one that a pod names does not exist.
`had volume node affinity conflict` is that of earlier versions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from volbench.machine.cluster.queues import QUEUE_NAME

Object = dict[str, Any]
QUEUED, STORAGE, UNSCHEDULABLE = "queued", "volume_pending", "unschedulable"
"""Causes: other cells are on the nodes; a volume is missing or out of reach; anything else."""


class Reason(NamedTuple):
    """One reason: its cause, what is the matter, and what to do about it."""

    cause: str
    what: str
    next_step: str = ""


_UNBOUND = "unbound immediate PersistentVolumeClaims"
_BY_SCHEDULER: tuple[tuple[str, Reason], ...] = (
    # `didn't match pod anti-affinity rules`, `didn't satisfy existing pods anti-affinity`
    (r"anti-?affinity", Reason(QUEUED, "other cells, mostly of another run, occupy the nodes")),
    (
        r"volume node affinity conflict|didn't match PersistentVolume's node affinity|no available volume zone",
        Reason(
            STORAGE,
            "the claim's volume is in a zone or on a node that no allowed node is in",
            "allow a node of the volume's zone (`kubectl describe pv`), or use a class with WaitForFirstConsumer",
        ),
    ),
    (
        r"exceed max volume count",
        Reason(
            STORAGE,
            "the nodes cannot attach another volume: their attach limit is reached",
            "free volumes of the node, or allow nodes of another instance type (`kubectl get csinode -o yaml`)",
        ),
    ),
    (r"persistentvolumeclaim \"[^\"]*\" not found", Reason(STORAGE, "the claim does not exist any more")),
    (
        r"find available persistent volumes to bind",
        Reason(STORAGE, "the claim's class has no volume to give on an allowed node"),
    ),
    (r"enough free storage", Reason(STORAGE, "no allowed node has enough free storage for the claim")),
    (r"non-existent pv", Reason(STORAGE, "the claim is bound to a PersistentVolume that does not exist")),
    (_UNBOUND, Reason(STORAGE, "no volume is bound to the claim")),
    (
        r"untolerated taint|had taints? that the pod didn't tolerate",
        Reason(
            UNSCHEDULABLE,
            "nodes have taints that the pod does not tolerate",
            "`kubectl describe nodes` lists them; --target-option tolerations=key=value:Effect",
        ),
    ),
    (
        r"Insufficient [\w./-]+",
        Reason(
            UNSCHEDULABLE,
            "nodes lack free capacity",
            "request less, such as --target-option server_memory=2Gi, or add nodes",
        ),
    ),
    (
        r"^0/(\d+) nodes are available: \1 node\(s\) didn't satisfy plugin\(s\) \[NodeAffinity\]",
        Reason(UNSCHEDULABLE, "the cluster has no such node any more", "add a node if none is left"),
    ),
    (
        r"didn't match Pod's node affinity/selector",
        Reason(UNSCHEDULABLE, "nodes lack the labels of `selector` or `node`"),
    ),
    (r"were unschedulable", Reason(UNSCHEDULABLE, "nodes are cordoned")),
)
_AWAY_FROM_HOLDER = Reason(
    UNSCHEDULABLE, "the node that the run measures on is gone or cordoned", "`volbench resume RUN` takes another"
)
"""Every node but the holder's says so; without another reason there is no holder any more."""
_BY_CLAIM: tuple[tuple[str, Reason], ...] = (
    (
        r"no storage class is set",
        Reason(
            STORAGE,
            "the claim names no storage class, and the cluster has no default class",
            "name a class, or annotate one with storageclass.kubernetes.io/is-default-class=true",
        ),
    ),
    (
        r"storageclass\S* \"[^\"]*\" not found",
        Reason(STORAGE, "the claim's storage class does not exist", "`kubectl get storageclass` lists them"),
    ),
    (
        r"external provisioner '[^']*'",
        Reason(
            STORAGE,
            "the class's provisioner has not made the volume",
            "check that its driver runs: `kubectl get pods -A`, `kubectl get csidriver`",
        ),
    ),
)


def unscheduled_reasons(message: str, claim_events: Sequence[Object] = ()) -> list[Reason]:
    """Return the reasons in the scheduler's message, the decisive one first; only other cells' if there are any."""
    reasons = [reason for pattern, reason in _BY_SCHEDULER if re.search(pattern, message)]
    if reasons and reasons[0].cause == QUEUED:
        return reasons[:1]
    if re.search(_UNBOUND, message):
        texts = [str(event.get("message", "")) for event in reversed(claim_events)]
        of_claim = [reason for text in texts for pattern, reason in _BY_CLAIM if re.search(pattern, text)]
        reasons = [
            of_claim[0] if of_claim and reason.what == "no volume is bound to the claim" else reason
            for reason in reasons
        ]
    if not reasons and "didn't match pod affinity rules" in message:
        return [_AWAY_FROM_HOLDER]
    return reasons or ([Reason(STORAGE, "no volume is bound to the claim")] if "olume" in message else [])


def suspension(job: Object, *, after: str = "") -> str:
    """Return evidence that a job is suspended, or was after that moment (UTC, as the API writes it); else empty.

    A job that was released meanwhile keeps its condition `Suspended`, with the time of the last change.
    """
    conditions = job.get("status", {}).get("conditions", [])
    changed = next(
        (condition.get("lastTransitionTime", "") for condition in conditions if condition["type"] == "Suspended"),
        "",
    )
    queue = job["metadata"].get("labels", {}).get(QUEUE_NAME, "")
    name = f"job {job['metadata']['name']}" + (f" of queue {queue}" if queue else "")
    if job["spec"].get("suspend"):
        return f"{name} is suspended"
    return f"{name} was suspended, and released at {changed}" if after and changed > after else ""


_SPOT_TAINTS = ("aws-node-termination-handler/spot-itn", "cloud.google.com/impending-node-termination")
"""Of AWS' Node Termination Handler, and of GKE."""
_GOING_TAINTS = {"node.kubernetes.io/unreachable", "karpenter.sh/disrupted", "ToBeDeletedByClusterAutoscaler"}
_REMOVAL_TAINTS = {"karpenter.sh/disrupted", "ToBeDeletedByClusterAutoscaler", *_SPOT_TAINTS}
"""Of nodes that no pod is put on any more. Karpenter sets its own also on one that has expired, which no annotation
keeps it from (tests/integration/test_kubernetes_karpenter.py)."""
_SPOT_LABELS = {
    "karpenter.sh/capacity-type": "spot",
    "eks.amazonaws.com/capacityType": "SPOT",
    "cloud.google.com/gke-spot": "true",
    "kubernetes.azure.com/scalesetpriority": "spot",
}


def removal(node: Object) -> str:
    """Return the taint by which a node is being removed; empty: it is not."""
    taints = [taint["key"] for taint in node["spec"].get("taints", [])]
    return next((key for key in taints if key in _REMOVAL_TAINTS), "")


def spot_interruption(node: Object | None, *, is_removed: bool = False) -> str:
    """Return evidence that the provider takes the node back; empty if there is none, or the node is not known.

    Args:
        is_removed: the cluster has this node no more, which a provider's controller removes with its instance.
    """
    if node is None:
        return ""
    name, labels = node["metadata"]["name"], node["metadata"].get("labels", {})
    label = next((f"{key}={value}" for key, value in _SPOT_LABELS.items() if labels.get(key) == value), "")
    taints = [taint["key"] for taint in node["spec"].get("taints", [])]
    notice = next((f"taint {key}" for key in _SPOT_TAINTS if key in taints), "")
    if notice:
        return f"{notice} on node {name}"
    if label and is_removed:
        return f"node {name} was a spot instance ({label}) and is removed"
    is_going = bool(_GOING_TAINTS & {*taints})
    return f"node {name} is a spot instance ({label}) and is being removed" if label and is_going else ""
