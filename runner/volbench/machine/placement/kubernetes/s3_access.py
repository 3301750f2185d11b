"""What pods that dump to S3, or download a dump, have: keys of a Secret or a role, and the endpoint."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from volbench.core.records.dataset import DatasetSpec
from volbench.core.records.own_files import dump_steps
from volbench.core.records.steps import Step
from volbench.machine.placement.interface import JobKind
from volbench.machine.placement.kubernetes.options import KubernetesOptions

KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
"""Of the Secret, and names of the variables."""
_SESSION = "AWS_SESSION_TOKEN"
"""Of keys that are valid for a while; the Secret may lack it."""
_NETWORK = {"volbench.org/network": "s3"}
"""Label that takes a cell out of the NetworkPolicy of k8s/base, which lets cells speak to nobody."""


def dumps_to_s3(steps: Iterable[Step]) -> bool:
    """Return whether a step stores a dump in a bucket."""
    return any(step.url for step in dump_steps(steps))


def leaves_the_cluster(dataset: DatasetSpec, steps: Iterable[Step], kind: JobKind) -> bool:
    """Return whether a pod of that kind downloads the dataset, or stores a dump in a bucket."""
    return bool(dataset.url) if kind == "prepare" else dumps_to_s3(steps)


def s3_environment(options: KubernetesOptions) -> list[dict[str, Any]]:
    """Return the agent's variables, in which AWS' tools look; none has a secret's value in it."""
    values = {"AWS_REGION": options.s3_region, "AWS_ENDPOINT_URL_S3": options.s3_endpoint}
    environment: list[dict[str, Any]] = [{"name": name, "value": value} for name, value in values.items() if value]
    if options.s3_secret:
        environment += [_of_secret(options.s3_secret, key) for key in KEYS]
        environment.append(_of_secret(options.s3_secret, _SESSION, optional=True))
    return environment


def s3_pod(options: KubernetesOptions) -> dict[str, Any]:
    """Return what such a pod has instead of others: names of the cluster, and the account whose role it takes."""
    account = {"serviceAccountName": options.service_account} if options.service_account else {}
    return {"dnsPolicy": "ClusterFirst", **account}


def s3_labels() -> dict[str, str]:
    """Return the label by which the NetworkPolicy lets the pod reach buckets and hosts of downloads."""
    return dict(_NETWORK)


def _of_secret(name: str, key: str, *, optional: bool = False) -> dict[str, Any]:
    reference = {"name": name, "key": key, **({"optional": True} if optional else {})}
    return {"name": key, "valueFrom": {"secretKeyRef": reference}}
