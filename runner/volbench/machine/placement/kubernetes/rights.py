"""The permissions that a run needs in its namespace, as k8s/base grants them; checked before a run starts."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from volbench.machine.cluster.client import Cluster

NEEDED: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("batch", "jobs", ("create", "get", "list", "patch", "delete")),
    ("", "configmaps", ("create", "list", "delete")),
    ("", "persistentvolumeclaims", ("create", "get", "list", "delete")),
    ("", "pods", ("get", "list", "watch", "delete")),
    ("", "pods/log", ("get",)),
    ("", "pods/exec", ("get", "create")),
    ("", "events", ("list",)),
    ("coordination.k8s.io", "leases", ("create", "get", "delete")),
)
"""API group, resource and verbs. `pods/exec` is a GET over a web socket; newer clusters require create too."""

SNAPSHOTS = (("snapshot.storage.k8s.io", "volumesnapshots", ("create", "get", "delete")),)
"""What steps that take snapshots need in addition, as k8s/snapshots grants it."""

CLAIM_CHANGES = (("", "persistentvolumeclaims", ("patch",)),)
"""What a step that changes a claim needs in addition, as k8s/modify grants it."""


def missing_rights(cluster: Cluster, needed: Sequence[tuple[str, str, tuple[str, ...]]] = NEEDED) -> list[str]:
    """Return permissions that this user does not have, as `create jobs`."""
    permissions = [(group, resource, verb) for group, resource, verbs in needed for verb in verbs]
    with ThreadPoolExecutor(max_workers=4) as pool:
        granted = pool.map(lambda permission: _is_allowed(cluster, *permission), permissions)
    return [f"{verb} {resource}" for (_, resource, verb), yes in zip(permissions, granted, strict=True) if not yes]


def _is_allowed(cluster: Cluster, group: str, resource: str, verb: str) -> bool:
    name, _, subresource = resource.partition("/")
    attributes = {
        "namespace": cluster.namespace,
        "group": group,
        "resource": name,
        "subresource": subresource,
        "verb": verb,
    }
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    answer = cluster.ask("POST", path, review, doing="checking this user's permissions")
    return bool(answer["status"]["allowed"])
