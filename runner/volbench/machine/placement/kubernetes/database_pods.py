"""The server, claim and device of a pod that volbench did not make: of an operator's database, or of a StatefulSet.

A script in the server's own container tells its process, user and mounts; the API server tells the rest. What
cannot be found is a note that says why, never a guess.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from volbench.core.base.mountinfo import Mount, parse_mountinfo
from volbench.core.base.text import counted
from volbench.errors import MissingPrerequisite, StepFailed
from volbench.machine.cluster.client import Cluster
from volbench.machine.cluster.refusals import NotFound
from volbench.machine.placement.kubernetes.collect import run_in_pod
from volbench.machine.placement.kubernetes.pods import is_running
from volbench.machine.volume.kinds.claim_facts import persistent_volume

Object = dict[str, Any]
SERVERS = ("mysqld", "mariadbd")
_NAMES = ("mysql", "pxc", "maria")
"""Of which the name of a server's container has one, with any operator."""
_PORT, _PORT_MAX = 3306, 65535
_DIGITS_MAX = 10
"""Of a process or user id, which has 32 bits."""
_LOOK_BYTES_MAX = 1 << 20
LOOK = r"""
for process in /proc/[0-9]*; do
  name=$(cat $process/comm 2>/dev/null) || continue
  case $name in mysqld|mariadbd) ;; *) continue ;; esac
  set -- $(grep -E '^(Uid|Gid):' $process/status | while read key real rest; do echo $real; done)
  echo "process ${process#/proc/} $1 $2 $name"
  directory=$(readlink $process/cwd 2>/dev/null) && echo "directory $directory"
  tr '\000' '\n' <$process/cmdline | while IFS= read -r word; do echo "argument $word"; done
done
while IFS= read -r line; do echo "mount $line"; done </proc/self/mountinfo
"""
"""A server works in its data directory (`mysqld` changes to it), so its working directory names that."""


class Operator(NamedTuple):
    """An operator's name, and where its custom resource takes further containers."""

    name: str
    sidecars: str


OPERATORS = {
    "pxc.percona.com": Operator("Percona Operator for MySQL (PXC)", "spec.pxc.sidecars"),
    "ps.percona.com": Operator("Percona Operator for MySQL (PS)", "spec.mysql.sidecars"),
    "mysql.oracle.com": Operator("MySQL Operator (Oracle)", "spec.podSpec.containers"),
    "moco.cybozu.com": Operator("MOCO", "spec.podTemplate.spec.containers"),
    "planetscale.com": Operator("Vitess Operator", "sidecarContainers of the shard's tabletPools"),
}
"""By API group of the resource that owns the StatefulSet or the pod. From the operators' documentation."""


@dataclass(frozen=True, kw_only=True)
class ServerProcess:
    """What the script saw in a container. `mounts` are the container's."""

    pid: int
    user: int
    group: int
    name: str
    directory: str
    arguments: tuple[str, ...]
    mounts: tuple[Mount, ...]

    def option(self, name: str) -> str:
        """Return the value of `--name=value` of the server's command line; empty without it."""
        values = [argument.partition("=")[2] for argument in self.arguments if argument.startswith(f"--{name}=")]
        return values[-1] if values else ""

    @property
    def data_directory(self) -> str:
        """Its working directory, else `--datadir`; empty: not known."""
        return self.directory if self.directory not in ("", "/") else self.option("datadir").rstrip("/")


@dataclass(frozen=True, kw_only=True)
class DatabasePod:
    """What is known of a database's pod.

    Args:
        container: that the server runs in.
        volume: name of the pod's volume with the data directory; empty: it is on none.
        inside: the data directory, from the root of that volume.
        claim, storage_class, size, persistent_volume, handle: empty where not known; `handle` is `DRIVER HANDLE`.
        device: `259:3 ext4 /dev/nvme1n1`; empty: not known.
        operator: None: the pod is of none that is known here.
        owner: `KIND NAME` that made the pod, or made what made it.
        notes: what could not be found, and why.
    """

    name: str
    namespace: str
    node: str
    address: str
    container: str
    server: ServerProcess
    port: int
    volume: str = ""
    inside: str = ""
    claim: str = ""
    storage_class: str = ""
    size: str = ""
    persistent_volume: str = ""
    handle: str = ""
    device: str = ""
    operator: Operator | None = None
    owner: str = ""
    notes: tuple[str, ...] = ()


def look_at(cluster: Cluster, name: str) -> DatabasePod:
    """Find server, claim and device of a pod.

    Raises MissingPrerequisite for a pod that does not exist or run, without a server, or that nobody may look into.
    """
    doing = f"looking at pod {name}"
    try:
        pod = cluster.ask("GET", f"pods/{name}", doing=doing)
    except NotFound as missing:
        raise MissingPrerequisite(
            f"namespace {cluster.namespace} has no pod {name!r}",
            where=doing,
            evidence=missing.evidence,
            next_step=f"`kubectl get pods -n {cluster.namespace}` lists them; -n names another namespace",
        ) from missing
    container, server = _find_server(cluster, pod, doing)
    volume, inside, device, notes = _volume_of(pod, container, server)
    owner, operator = _owner(cluster, pod)
    return DatabasePod(
        name=name,
        namespace=cluster.namespace,
        node=pod["spec"].get("nodeName", ""),
        address=pod["status"].get("podIP", ""),
        container=container,
        server=server,
        port=_port(pod, container, server),
        volume=volume,
        inside=inside,
        device=device,
        operator=operator,
        owner=owner,
        notes=tuple(notes),
        **_claim(cluster, pod, volume, doing),
    )


def parse_look(text: str) -> ServerProcess | None:
    """Return the first server of the script's output; None without any. Malformed lines are skipped."""
    processes: list[_Process] = []
    mounts = []
    for line in text.splitlines():
        kind, _, value_text = line.partition(" ")
        if kind == "process":
            processes.append(_Process(_process(value_text), "", []))
        elif kind == "directory" and processes and not processes[-1].directory:
            processes[-1] = processes[-1]._replace(directory=value_text)
        elif kind == "argument" and processes:
            processes[-1].arguments.append(value_text)
        elif kind == "mount":
            mounts.append(value_text)
    server = next((process for process in processes if process.head is not None), None)
    if server is None or server.head is None:
        return None
    pid, user, group, name = server.head
    return ServerProcess(
        pid=pid,
        user=user,
        group=group,
        name=name,
        directory=server.directory,
        arguments=tuple(server.arguments),
        mounts=parse_mountinfo("\n".join(mounts)),
    )


class _Process(NamedTuple):
    """A process of the script's output, and the lines after it. `head` is None where its line is malformed."""

    head: tuple[int, int, int, str] | None
    directory: str
    arguments: list[str]


def _process(text: str) -> tuple[int, int, int, str] | None:
    fields = text.split(" ")
    numbers = [
        int(field) for field in fields[:3] if field.isascii() and field.isdigit() and len(field) <= _DIGITS_MAX
    ]
    if len(fields) != 4 or len(numbers) != 3 or fields[3] not in SERVERS:
        return None
    return numbers[0], numbers[1], numbers[2], fields[3]


def _find_server(cluster: Cluster, pod: Object, doing: str) -> tuple[str, ServerProcess]:
    """Return the container that a server runs in, and the server.

    Containers with a claim come first: in a pod that shares its processes, all see the server, and one its mounts.
    """
    names = [
        container["name"] for container in (*pod["spec"]["containers"], *pod["spec"].get("initContainers", []))
    ]
    running = [name for name in names if is_running(pod, name)]
    likely = sorted(
        running,
        key=lambda name: (
            not any(_container_claims(pod, name)),
            not any(name_part in name for name_part in _NAMES),
        ),
    )
    claims_seen = []
    for container in likely:
        try:
            text = run_in_pod(
                cluster,
                pod["metadata"]["name"],
                ["sh", "-c", LOOK],
                doing=doing,
                container=container,
                bytes_max=_LOOK_BYTES_MAX,
            )
        except StepFailed as error:
            claims_seen.append(f"container {container}: {error.evidence or error.what}")
            continue
        server = parse_look(text)
        if server is not None:
            return container, server
        claims_seen.append(f"container {container}: no process {' or '.join(SERVERS)}")
    raise MissingPrerequisite(
        f"no server was found in pod {pod['metadata']['name']}",
        where=doing,
        evidence="; ".join(claims_seen) or f"no container runs: phase {pod['status'].get('phase')}",
        next_step="name the pod of the server itself, not of a proxy; or observe it over TCP:"
        " volbench observe --server mysql://USER@HOST --volume none",
    )


def _container(pod: Object, name: str) -> Object:
    containers = (*pod["spec"]["containers"], *pod["spec"].get("initContainers", []))
    named: Object = next(candidate for candidate in containers if candidate["name"] == name)
    return named


def _container_claims(pod: Object, container: str) -> Iterator[Object]:
    claims = {volume["name"] for volume in pod["spec"].get("volumes", []) if "persistentVolumeClaim" in volume}
    yield from (mount for mount in _container(pod, container).get("volumeMounts", []) if mount["name"] in claims)


def _volume_of(pod: Object, container: str, server: ServerProcess) -> tuple[str, str, str, list[str]]:
    """Return the volume with the data directory, the directory in it, its device, and what could not be found."""
    directory = PurePosixPath(server.data_directory or "/")
    mounts = [
        mount
        for mount in _container(pod, container).get("volumeMounts", [])
        if directory.is_relative_to(mount["mountPath"]) and mount["mountPath"] != "/"
    ]
    mounted = [mount for mount in server.mounts if directory.is_relative_to(mount.mount_point)]
    of_device = max(mounted, key=lambda mount: len(PurePosixPath(mount.mount_point).parts), default=None)
    if not server.data_directory:
        claims = list(_container_claims(pod, container))
        if len(claims) != 1:
            return "", "", "", [f"the server's data directory is not known: it has {counted(len(claims), 'claim')}"]
        directory, mounts = PurePosixPath(claims[0]["mountPath"]), claims
        of_device = next((mount for mount in server.mounts if mount.mount_point == str(directory)), None)
    if not mounts:
        return (
            "",
            "",
            "",
            [f"the data directory {directory} is on no volume of the pod, but in the container's layer"],
        )
    mount = max(mounts, key=lambda mount: len(PurePosixPath(mount["mountPath"]).parts))
    if "subPathExpr" in mount:
        return (
            "",
            "",
            "",
            [f"where {directory} is on its volume: the pod computes the path ({mount['subPathExpr']})"],
        )
    inside = PurePosixPath(mount.get("subPath", "")) / directory.relative_to(mount["mountPath"])
    if of_device is None:
        return mount["name"], _relative(inside), "", ["the device of the data directory is not among the mounts"]
    device = f"{of_device.device_number} {of_device.filesystem} {of_device.source}"
    return mount["name"], _relative(inside), device, []


def _relative(path: PurePosixPath) -> str:
    return "" if str(path) == "." else str(path)


def _port(pod: Object, container: str, server: ServerProcess) -> int:
    option = server.option("port")
    if option.isascii() and option.isdigit() and len(option) <= _DIGITS_MAX and 0 < int(option) <= _PORT_MAX:
        return int(option)
    ports = _container(pod, container).get("ports", [])
    named: list[int] = [port["containerPort"] for port in ports if port.get("name") in {"mysql", "tcp-mysql"}]
    return next(iter(named), _PORT)


def _claim(cluster: Cluster, pod: Object, volume: str, doing: str) -> dict[str, str]:
    """Return the fields of the pod's volume that the cluster knows."""
    named: Object = next((item for item in pod["spec"].get("volumes", []) if item["name"] == volume), {})
    name = named.get("persistentVolumeClaim", {}).get("claimName", "")
    claim = cluster.ask_if_allowed(f"persistentvolumeclaims/{name}", doing=doing) if name else None
    if claim is None:
        return {"claim": name}
    bound = persistent_volume(cluster, claim)
    csi = (bound or {}).get("spec", {}).get("csi")
    return {
        "claim": name,
        "storage_class": claim["spec"].get("storageClassName") or "",
        "size": claim.get("status", {}).get("capacity", {}).get("storage", ""),
        "persistent_volume": claim["spec"].get("volumeName", ""),
        "handle": f"{csi['driver']} {csi['volumeHandle']}" if csi else "",
    }


def _owner(cluster: Cluster, pod: Object) -> tuple[str, Operator | None]:
    """Return what made the pod, or made its StatefulSet, and the operator by the API group of that."""
    owner = next(iter(pod["metadata"].get("ownerReferences", [])), None)
    if owner is not None and owner["kind"] == "StatefulSet":
        path = f"/apis/apps/v1/namespaces/{cluster.namespace}/statefulsets/{owner['name']}"
        made = cluster.ask_if_allowed(path, doing="reading what made the pod")
        owner = next(iter((made or {}).get("metadata", {}).get("ownerReferences", [])), owner)
    if owner is None:
        return "", None
    return f"{owner['kind']} {owner['name']}", OPERATORS.get(owner["apiVersion"].partition("/")[0])
