"""Claims of the user that datasets lie on: whether the pods that load them can mount them, asked before a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from volbench.errors import MissingPrerequisite, UsageError
from volbench.machine.cluster.client import Cluster
from volbench.machine.cluster.refusals import NotFound
from volbench.machine.placement.kubernetes.occupants import users_of_claim
from volbench.machine.placement.kubernetes.options import KubernetesOptions
from volbench.machine.placement.kubernetes.own_data import OwnData
from volbench.machine.volume.kinds.claim import refuse_unusable
from volbench.machine.volume.kinds.claim_facts import only_nodes, persistent_volume

Object = dict[str, Any]
_ON_SEVERAL_NODES = {"ReadOnlyMany", "ReadWriteMany"}
_ONE_POD = "ReadWriteOncePod"
_SHARED = "put the dump on a claim that is ReadOnlyMany or ReadWriteMany"


def check_dataset_claims(cluster: Cluster, own: OwnData, *, options: KubernetesOptions) -> None:
    """Look at the claims that the run's datasets lie on; nothing is changed.

    What the scheduler alone knows, such as zones, a pod that cannot start tells later.
    Raises UsageError, Refused, MissingPrerequisite for one that the run's pods cannot mount.
    """
    for name in own.claims:
        where = f"dataset on claim {name}"
        if name in own.measured:
            raise UsageError(
                "the dataset lies on a claim that the run measures",
                where=where,
                next_step="put the dump on a claim of its own: it takes room and reads of the volume",
            )
        claim = _claim(cluster, name, where=where)
        refuse_unusable(claim, where=where, namespace=cluster.namespace)
        if not claim["spec"].get("volumeName"):
            raise MissingPrerequisite(
                f"claim {name} has no volume yet, so nothing lies on it",
                where=where,
                evidence=f"phase {claim['status'].get('phase', 'unknown')}",
                next_step="copy the dump to it by a pod that mounts it",
            )
        bound = _only_nodes(cluster, claim)
        refusals = (
            *_of_spread(claim, bound, options),
            *_of_users(cluster, claim, bound, run_id=own.run_id, node=options.node),
            *_of_measured(cluster, own.measured, bound),
        )
        if refusals:
            message, evidence, next_step = refusals[0]
            raise MissingPrerequisite(
                f"claim {name} {message}",
                where=where,
                evidence=evidence,
                next_step=next_step,
                cause="unschedulable",
            )


_Refusal = tuple[str, str, str]
"""What is wrong with the claim, the evidence, and the next step."""


def _claim(cluster: Cluster, name: str, *, where: str) -> Object:
    try:
        claim: Object = cluster.ask("GET", f"persistentvolumeclaims/{name}", doing=f"looking for claim {name}")
    except NotFound as missing:
        raise MissingPrerequisite(
            f"namespace {cluster.namespace} has no claim {name!r}",
            where=where,
            evidence=missing.evidence,
            next_step="`kubectl get pvc -A` lists claims; pods mount those of their own namespace only"
            " (--target-option namespace=NAME)",
        ) from missing
    return claim


def _only_nodes(cluster: Cluster, claim: Object) -> list[str]:
    volume = persistent_volume(cluster, claim)
    return only_nodes(volume) if volume else []


def _of_spread(claim: Object, bound: Sequence[str], options: KubernetesOptions) -> Iterator[_Refusal]:
    """Yield what keeps a claim from pods on several nodes, or from several pods at once."""
    modes = claim["spec"].get("accessModes", [])
    evidence = f"access modes {', '.join(modes) or 'unknown'}"
    if options.nodes > 1 and len(bound) == 1:
        yield (
            f"is bound to node {bound[0]}, and each of {options.nodes} nodes loads the dataset",
            "node affinity of its PersistentVolume",
            f"{_SHARED}, or leave `nodes` out",
        )
    if options.parallel > 1 and modes == [_ONE_POD]:
        yield "can be mounted by one pod at a time", evidence, f"{_SHARED}, or leave `parallel` out"
    if options.parallel > 1 and not options.share_nodes and not _ON_SEVERAL_NODES & set(modes):
        yield (
            f"can be mounted on one node at a time, and {options.parallel} nodes load the dataset at once",
            evidence,
            f"{_SHARED}, or leave `parallel` out",
        )


def _of_users(
    cluster: Cluster, claim: Object, bound: Sequence[str], *, run_id: str, node: str
) -> Iterator[_Refusal]:
    """Yield pods on a claim that pin it: to themselves, or to a node that the run's pods need not choose."""
    name, modes = claim["metadata"]["name"], claim["spec"].get("accessModes", [])
    if _ON_SEVERAL_NODES & set(modes):
        return
    pods = cluster.ask("GET", "pods", doing=f"looking who mounts claim {name}")["items"]
    for pod in users_of_claim(pods, name, run_id):
        user, name_of_node = pod["metadata"]["name"], pod["spec"]["nodeName"]
        evidence = f"access modes {', '.join(modes) or 'unknown'}; pod {user} on node {name_of_node} mounts it"
        if modes == [_ONE_POD]:
            yield "can be mounted by one pod at a time", evidence, f"end pod {user}"
        elif name_of_node != node and list(bound) != [name_of_node]:
            yield (
                f"can be mounted on one node at a time, now {name_of_node}",
                evidence,
                f"end pod {user}, or choose its node: --target-option node={name_of_node}",
            )


def _of_measured(cluster: Cluster, measured: Sequence[str], bound: Sequence[str]) -> Iterator[_Refusal]:
    """Yield measured claims whose nodes are none of those that alone can use the dataset's."""
    for name in measured if bound else ():
        claim = cluster.ask_if_allowed(
            cluster.object_path(f"persistentvolumeclaims/{name}"), doing=f"looking where claim {name} can be used"
        )
        nodes = _only_nodes(cluster, claim) if claim else []
        if nodes and not set(nodes) & set(bound):
            yield (
                f"and the measured claim {name} are on different nodes, so no pod can mount both",
                f"{', '.join(bound)} against {', '.join(nodes)}: node affinity of their PersistentVolumes",
                "copy the dump to a claim on the measured volume's node, or to one that all nodes can mount",
            )
