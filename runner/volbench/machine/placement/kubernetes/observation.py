"""How to observe a database's pod: an ephemeral container, a further container of its resource, or over TCP."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from volbench.machine.placement.kubernetes.database_pods import DatabasePod

Object = dict[str, Any]
DATA = "/volbench-data"
"""Where the pod's volume is mounted, whole: ephemeral containers take no `subPath`."""
CONTAINER = "volbench-observe"
_LOCAL_PORT = 13306


@dataclass(frozen=True, kw_only=True)
class Access:
    """The account that observes.

    Args:
        user: of the server.
        secret, key: the Secret with its password; empty: VOLBENCH_MYSQL_PASSWORD is to be set.
        image: of the tools.
    """

    user: str
    secret: str
    key: str
    image: str


def custom_profile(pod: DatabasePod, access: Access) -> Object:
    """Return what `kubectl debug --custom` adds to the container: the server's user, volume and password."""
    container: Object = {
        "securityContext": {
            "runAsUser": pod.server.user,
            "runAsGroup": pod.server.group,
            "runAsNonRoot": pod.server.user != 0,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
        "env": _environment(access),
    }
    if pod.volume:
        container["volumeMounts"] = [{"name": pod.volume, "mountPath": DATA, "readOnly": True}]
    return container


def sidecar(pod: DatabasePod, access: Access) -> Object:
    """Return the further container for the custom resource or the StatefulSet, whose pods it restarts."""
    return {
        "name": CONTAINER,
        "image": access.image,
        "command": ["sh", "-c", observe_command(pod, access)],
        "resources": {"requests": {"cpu": "20m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}},
        **custom_profile(pod, access),
    }


def observe_command(pod: DatabasePod, access: Access) -> str:
    """Return the shell command that observes from inside the pod."""
    volume = f"{DATA}/{pod.inside}".rstrip("/") if pod.volume else "none"
    server = f"mysql://{access.user}@127.0.0.1:{pod.port}/?password-unverified=yes"
    return f"cd /tmp && exec volbench observe --server {shlex.quote(server)} --volume {shlex.quote(volume)}"


def debug_command(pod: DatabasePod, access: Access, profile: str) -> str:
    """Return the command that starts an ephemeral container, by kubectl 1.31 or later.

    Args:
        profile: path of the file with `custom_profile`.
    """
    arguments = [
        *(
            "kubectl",
            "debug",
            pod.name,
            "-n",
            pod.namespace,
            f"--image={access.image}",
            f"--target={pod.container}",
        ),
        *("--profile=restricted" if pod.server.user else "--profile=general", f"--custom={profile}"),
        *(f"--container={CONTAINER}", "--", "sh", "-c", observe_command(pod, access)),
    ]
    return " ".join(map(shlex.quote, arguments))


def tcp_commands(pod: DatabasePod, access: Access) -> Iterator[str]:
    """Yield the commands that observe over TCP, without the host; the volume's side comes from its provider."""
    target = f"-n {pod.namespace} pod/{pod.name} {_LOCAL_PORT}:{pod.port}"
    yield f"kubectl port-forward {target}"
    server = f"mysql://{access.user}@127.0.0.1:{_LOCAL_PORT}"
    yield f"volbench observe --server {server} --volume none --out OBSERVATION"
    driver, _, handle = pod.handle.partition(" ")
    if driver in {"ebs.csi.aws.com", "ebs.csi.eks.amazonaws.com"}:
        yield f"volbench observe report OBSERVATION --add cloudwatch:{handle}"
    elif driver == "efs.csi.aws.com":
        yield f"volbench observe report OBSERVATION --add cloudwatch:{handle.partition(':')[0]}"


def describe(pod: DatabasePod) -> Iterator[str]:
    """Yield what was found, a line for each part."""
    of = f", of {pod.owner}" if pod.owner else ""
    operator = f" ({pod.operator.name})" if pod.operator else ""
    yield f"pod {pod.namespace}/{pod.name} on node {pod.node}{of}{operator}"
    server = pod.server
    directory, account = server.data_directory or "not known", f"{server.user}:{server.group}"
    yield (
        f"server: {server.name}, process {server.pid} of container {pod.container}, user {account},"
        f" port {pod.port}, data directory {directory}"
    )
    if pod.claim:
        details = [f"class {pod.storage_class}" if pod.storage_class else "", pod.size, pod.persistent_volume]
        yield f"claim: {pod.claim} ({', '.join(filter(None, (*details, pod.handle)))})"
    elif pod.volume:
        yield f"claim: none, the pod's volume {pod.volume} is no claim"
    if pod.device:
        yield f"device: {pod.device}"
    yield from (f"not found: {note}" for note in pod.notes)


def _environment(access: Access) -> list[Object]:
    home = {"name": "HOME", "value": "/tmp"}
    if not access.secret:
        return [home]
    source = {"secretKeyRef": {"name": access.secret, "key": access.key}}
    return [home, {"name": "VOLBENCH_MYSQL_PASSWORD", "valueFrom": source}]
