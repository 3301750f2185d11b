"""What pods are given of the namespace: Secrets, ConfigMaps, claims, accounts, and the host of a server.

All of it is looked at before anything is made, as far as this user may read it: a pod that waits for a Secret which
does not exist says so to nobody.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from volbench.errors import MissingPrerequisite, UsageError
from volbench.machine.cluster.client import Cluster
from volbench.machine.cluster.refusals import NotFound
from volbench.machine.placement.kubernetes.options import KubernetesOptions
from volbench.machine.placement.kubernetes.s3_access import KEYS

Object = dict[str, Any]
MOUNTS = "/volbench/mounts"
"""In the pod: each mounted object is a directory there, by its name."""
_RESOURCES = {"secret": "secrets", "configmap": "configmaps", "pvc": "persistentvolumeclaims"}
"""Kind in the words of `--mount` -> resource of the API."""
_SHOWN_MAX = 12


@dataclass(frozen=True, kw_only=True)
class JobMount:
    """A Secret, a ConfigMap or a claim of the namespace that the pod has read-only."""

    kind: str
    name: str

    @property
    def directory(self) -> str:
        """Return where the pod has its files."""
        return f"{MOUNTS}/{self.name}"

    @property
    def resource(self) -> str:
        """Return the resource of the API."""
        return _RESOURCES[self.kind]

    def source(self) -> Object:
        """Return the volume's source in the pod; only the pod's user and group read a Secret's files."""
        match self.kind:
            case "secret":
                return {"secret": {"secretName": self.name, "defaultMode": 0o440}}
            case "configmap":
                return {"configMap": {"name": self.name}}
            case _:
                return {"persistentVolumeClaim": {"claimName": self.name, "readOnly": True}}


@dataclass(frozen=True, kw_only=True)
class PasswordKey:
    """The key of a Secret with the password of the server's account."""

    secret: str
    key: str


def parse_mount(text: str) -> JobMount:
    """Parse `secret:NAME`, `configmap:NAME` or `pvc:NAME`. Raise UsageError."""
    kind, separator, name = text.partition(":")
    if not separator or kind not in _RESOURCES or not name or "/" in name:
        raise UsageError(
            "a mount is secret:NAME, configmap:NAME or pvc:NAME",
            where=f"--mount {text}",
            next_step=f"its files are below {MOUNTS}/NAME in the pod",
        )
    return JobMount(kind=kind, name=name)


def parse_mounts(texts: Sequence[str]) -> tuple[JobMount, ...]:
    """Parse mounts, each of which has a directory by its name. Raise UsageError."""
    mounts = tuple(map(parse_mount, texts))
    names = [mount.name for mount in mounts]
    if repeated := next((name for name in names if names.count(name) > 1), ""):
        raise UsageError(
            f"two mounts have the name {repeated}", where="--mount", evidence=f"both would be {MOUNTS}/{repeated}"
        )
    return mounts


def parse_password_key(text: str) -> PasswordKey | None:
    """Parse `NAME/KEY` of a Secret; None for an empty text. Raise UsageError."""
    if not text:
        return None
    name, _, key = text.partition("/")
    if not (name and key):
        raise UsageError("a secret is NAME/KEY", where=f"--secret {text}")
    return PasswordKey(secret=name, key=key)


def check_paths(paths: Iterable[str], mounts: Sequence[JobMount]) -> None:
    """Raise UsageError for a file that the pod has in none of its mounts."""
    for path in paths:
        if not any(path.startswith(f"{mount.directory}/") for mount in mounts):
            raise UsageError(
                "a Job has no files of this machine",
                where="--mount",
                evidence=path,
                next_step="put the file into a Secret, a ConfigMap or a claim of the namespace; with --mount"
                f" secret:NAME (configmap:NAME, pvc:NAME) its path is {MOUNTS}/NAME/FILE",
            )


def check_secret(cluster: Cluster, name: str, keys: Iterable[str], *, option: str) -> None:
    """Raise MissingPrerequisite for a Secret, or a key of it, that the namespace does not have.

    Args:
        option: that names it, for the next step.
    """
    secret = _object(cluster, "secrets", name)
    if secret is None:
        return
    present = sorted(secret.get("data") or {})
    for key in keys:
        if key not in present:
            raise MissingPrerequisite(
                f"secret {name} has no key {key!r}",
                where=f"namespace {cluster.namespace}",
                evidence=f"its keys: {', '.join(present) or 'none'}",
                next_step=f"add the key, or name another Secret: {option}",
            )


def check_mounts(cluster: Cluster, mounts: Iterable[JobMount]) -> None:
    """Raise MissingPrerequisite for an object that the namespace does not have."""
    for mount in mounts:
        _object(cluster, mount.resource, mount.name)


def check_account(cluster: Cluster, name: str) -> None:
    """Raise MissingPrerequisite for a service account that the namespace does not have; empty: its default one."""
    if name:
        _object(cluster, "serviceaccounts", name)


def check_s3(cluster: Cluster, options: KubernetesOptions) -> None:
    """Raise MissingPrerequisite for what cells that dump to S3 are to have and the namespace has not."""
    if options.s3_secret:
        check_secret(cluster, options.s3_secret, KEYS, option="--target-option s3_secret=NAME")
    check_account(cluster, options.service_account)


def check_host(cluster: Cluster, host: str) -> None:
    """Raise UsageError for the pod itself as a host, MissingPrerequisite for a Service that does not exist.

    A name with a domain that is none of a cluster's, and an address, are taken as they are.
    """
    if _is_loopback(host):
        raise UsageError(
            f"{host or 'a socket'} in a pod is the pod itself",
            where="server",
            next_step="name the database's Service: mysql://USER@SERVICE:3306, SERVICE.NAMESPACE.svc in another"
            " namespace",
        )
    service = service_of(host, namespace=cluster.namespace)
    if service is None:
        return
    namespace, name = service
    path = f"/api/v1/namespaces/{namespace}/services"
    if _answer(cluster, f"{path}/{name}", doing=f"looking for service {name}") is not _MISSING:
        return
    listed = _answer(cluster, path, doing=f"listing services of {namespace}")
    items = listed.get("items", []) if isinstance(listed, dict) else []
    names = sorted(item["metadata"]["name"] for item in items)[:_SHOWN_MAX]
    raise MissingPrerequisite(
        f"namespace {namespace} has no service {name!r}",
        where=f"server {host}",
        evidence=f"services there: {', '.join(names) or 'none, or this user may not list them'}",
        next_step="`kubectl get services -A` lists them; one of another namespace is SERVICE.NAMESPACE.svc, and a"
        " host outside of the cluster has its whole name",
    )


def service_of(host: str, *, namespace: str) -> tuple[str, str] | None:
    """Return namespace and name of the Service that a host is one of, or a pod of; None for any further host.

    Args:
        namespace: of the pod that looks the name up.
    """
    labels = host.rstrip(".").split(".")
    if _is_address(host):
        return None
    if len(labels) == 1:
        return namespace, labels[0]
    at = labels.index("svc") if "svc" in labels else 0
    return (labels[at - 1], labels[at - 2]) if at >= 2 else None


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _is_loopback(host: str) -> bool:
    if host in ("", "localhost"):
        return True
    return _is_address(host) and ipaddress.ip_address(host).is_loopback


_MISSING = "missing"


def _answer(cluster: Cluster, path: str, *, doing: str) -> Any:
    """Return an object, _MISSING for none, and None where this user may not ask."""
    try:
        return cluster.ask("GET", path, doing=doing)
    except NotFound:
        return _MISSING
    except MissingPrerequisite as error:
        if error.cause != "no_permission":
            raise
        return None


def _object(cluster: Cluster, resource: str, name: str) -> Object | None:
    """Return an object of the namespace, None where this user may not read it. Raise MissingPrerequisite."""
    noun = resource.removesuffix("s")
    answer = _answer(cluster, f"{resource}/{name}", doing=f"looking for {noun} {name}")
    if answer is _MISSING:
        raise MissingPrerequisite(
            f"namespace {cluster.namespace} has no {noun} {name!r}",
            where=f"looking for {noun} {name}",
            evidence="a pod mounts those of its own namespace only",
            next_step=f"`kubectl get {resource} -n {cluster.namespace}` lists them; make it there, or choose"
            " another namespace (-n)",
        )
    return answer if isinstance(answer, dict) else None
