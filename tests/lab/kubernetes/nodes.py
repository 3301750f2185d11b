"""Nodes: each a network and a mount namespace with its own containerd, kubelet and kube-proxy.

A node's network hangs on a cable of its own, so that it can be cut off and healed.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from daemons import (
    LabFailed,
    is_mounted,
    known,
    log_tail,
    run,
    start,
    stop,
    wait_for,
    write_if_new,
)
from images import PAUSE, import_docker_images, import_lab_images
from layout import BRIDGE, HOST_IP, Layout, NodePlaces
from node_configs import containerd_config, kubelet_config, network_config, proxy_config
from pki import certify, write_kubeconfig

READY_S = 120.0
CGROUPS = Path("/sys/fs/cgroup")
_PRIVATE = {"cni": "/var/lib/cni", "containers-log": "/var/log/containers", "kubelet": "/var/lib/kubelet"}
"""Directories of a node over paths that its programs have compiled in."""
_LEAVE_VOLUMES = """
while read -r device place type rest; do
  case "$device $type $place" in
    *" "/ | *" {kept}/"*) ;;
    /dev/loop*" ext4 "* | /dev/loop*" xfs "* | volbench*" fuse"*) umount -l "$place" || true ;;
  esac
done </proc/self/mounts
"""
"""The root and what nodes share stay."""


def make_bridge() -> None:
    """The network that the machine and the nodes share; nothing is routed beyond this machine."""
    if not Path(f"/sys/class/net/{BRIDGE}").exists():
        run(["ip", "link", "add", BRIDGE, "type", "bridge"])
    run(["ip", "addr", "replace", f"{HOST_IP}/24", "dev", BRIDGE])
    run(["ip", "link", "set", BRIDGE, "up"])
    rule = ["FORWARD", "-i", BRIDGE, "-o", BRIDGE, "-j", "ACCEPT"]  # a Docker engine drops what it does not know
    run(["iptables", "-w", "-D", *rule], check=False)
    run(["iptables", "-w", "-I", *rule])


def remove_bridge() -> None:
    """Take the network away."""
    run(["iptables", "-w", "-D", "FORWARD", "-i", BRIDGE, "-o", BRIDGE, "-j", "ACCEPT"], check=False)
    run(["ip", "link", "del", BRIDGE], check=False)


def share_volumes(layout: Layout) -> None:
    """A mount that the nodes follow: what the machine mounts below it later, they see."""
    layout.volumes.mkdir(parents=True, exist_ok=True)
    if not is_mounted(layout.volumes):
        run(["mount", "--bind", layout.volumes, layout.volumes])
        run(["mount", "--make-shared", layout.volumes])


def add_node(layout: Layout, number: int, images: Sequence[str]) -> NodePlaces:
    """A node that is ready, with these images of the Docker engine; nothing is done twice."""
    node = NodePlaces(number=number, layout=layout)
    _make_network(node)
    _hold_namespaces(node)
    _make_cgroups(node)
    write_if_new(node.directory / "containerd.toml", containerd_config(node, pause=PAUSE))
    _start_inside(node, "containerd", ["containerd", "-c", str(node.directory / "containerd.toml")])
    wait_for(
        lambda: bool(run(["ctr", "-a", node.socket, "version"], check=False)),
        description=f"containerd of {node.name} answers",
        timeout_s=30.0,
        evidence=lambda: log_tail(layout, f"containerd@{node.name}"),
    )
    import_lab_images(node)
    import_docker_images(node, list(images))
    _start_kubelet(node)
    return node


def remove_node(layout: Layout, number: int) -> None:
    """End the node and all that runs on it, and remove its files."""
    node = NodePlaces(number=number, layout=layout)
    for name in ("kubelet", "kube-proxy"):
        stop(layout, f"{name}@{node.name}")
    _end_containers(node)
    stop(layout, f"containerd@{node.name}")
    stop(layout, f"namespaces@{node.name}", grace_s=1.0)
    run(["ip", "netns", "del", node.namespace], check=False)
    run(["ip", "link", "del", node.host_interface], check=False)
    for hierarchy in CGROUPS.glob(f"*/{node.namespace}"):
        for path in sorted(hierarchy.rglob("*/"), reverse=True):
            _rmdir(path)
        _rmdir(hierarchy)
    kubectl(layout, ["delete", "node", node.name, "--ignore-not-found", "--wait=false"], check=False)
    shutil.rmtree(node.directory, ignore_errors=True)


def cut(layout: Layout, number: int) -> None:
    """Cut a node off from everybody else; what runs on it goes on."""
    run(["ip", "link", "set", NodePlaces(number=number, layout=layout).host_interface, "down"])


def heal(layout: Layout, number: int) -> None:
    """End the partition."""
    node = NodePlaces(number=number, layout=layout)
    run(["ip", "link", "set", node.host_interface, "up"])
    _route_pods(node)


def limit_speed(layout: Layout, number: int, cpus: float) -> None:
    """Give all that runs on a node so many CPUs' time together; 0: no limit."""
    group = NodePlaces(number=number, layout=layout).namespace
    period_us = 20_000
    quota_us = round(cpus * period_us)
    for hierarchy in CGROUPS.glob(f"*/{group}"):
        if (hierarchy / "cpu.cfs_quota_us").exists():
            (hierarchy / "cpu.cfs_period_us").write_text(str(period_us))
            (hierarchy / "cpu.cfs_quota_us").write_text(str(quota_us or -1))
            return
    unified = CGROUPS / group / "cpu.max"
    if not unified.exists():
        raise LabFailed(f"node{number} has no part of a cpu hierarchy below {CGROUPS}")
    unified.write_text(f"{quota_us or 'max'} {period_us}")


def numbers(layout: Layout) -> list[int]:
    """Nodes that there are, or that were left behind."""
    return sorted(int(path.name.removeprefix("node")) for path in (layout.state / "nodes").glob("node*"))


def kubectl(layout: Layout, arguments: Sequence[str], *, stdin: str = "", check: bool = True) -> str:
    """kubectl as the administrator."""
    command = [
        str(layout.bin / "kubectl"),
        f"--kubeconfig={layout.kubeconfig}",
        "--request-timeout=10s",
        *arguments,
    ]
    return run(command, stdin=stdin, check=check)


def apply(layout: Layout, *items: dict[str, Any]) -> None:
    """Apply objects. kubectl does not check them: on a busy machine it would read all schemas for too long."""
    listed = {"apiVersion": "v1", "kind": "List", "items": items}
    kubectl(
        layout,
        ["apply", "--server-side", "--force-conflicts", "--validate=false", "-f", "-"],
        stdin=json.dumps(listed),
    )


def define(layout: Layout, *definitions: Path) -> None:
    """Apply files, or directories of them, with definitions of further kinds, and wait until the API has these."""
    files = [argument for path in definitions for argument in ("-f", str(path))]
    kubectl(layout, ["apply", "--server-side", "--force-conflicts", "--validate=false", *files])
    kubectl(layout, ["wait", "--for=condition=Established", "--timeout=60s", *files])


def enter(node: NodePlaces) -> list[str]:
    """The words before a command that runs it inside a node."""
    holder = known(node.layout, f"namespaces@{node.name}")
    if holder is None:
        raise LabFailed(f"{node.name} is not there: {log_tail(node.layout, f'namespaces@{node.name}')}")
    return ["nsenter", "-t", str(holder.pid), "-m", "-n"]


def _make_network(node: NodePlaces) -> None:
    if not Path(f"/run/netns/{node.namespace}").exists():
        run(["ip", "netns", "add", node.namespace])
        inside = f"{node.host_interface}i"
        run(["ip", "link", "add", node.host_interface, "type", "veth", "peer", "name", inside])
        run(["ip", "link", "set", inside, "netns", node.namespace, "name", "eth0"])
        run(["ip", "link", "set", node.host_interface, "master", BRIDGE])
    run(["ip", "link", "set", node.host_interface, "up"])
    ip = ["ip", "-n", node.namespace]
    run([*ip, "addr", "replace", f"{node.address}/24", "dev", "eth0"])
    for name in ("lo", "eth0"):
        run([*ip, "link", "set", name, "up"])
    run([*ip, "route", "replace", "default", "via", HOST_IP])


def _hold_namespaces(node: NodePlaces) -> None:
    """A process that keeps the node's mount namespace: compiled-in paths of its own, all else the machine's.

    Not the volumes that are emulated on the machine at that moment: a copy of their mounts would keep them open.
    """
    name = f"namespaces@{node.name}"
    if known(node.layout, name) is not None:
        return
    ready = node.directory / "namespaces.ready"
    ready.unlink(missing_ok=True)
    steps = [_LEAVE_VOLUMES.format(kept=node.layout.volumes), "mount --make-rshared /"]
    for directory, result in _PRIVATE.items():
        (node.directory / directory).mkdir(parents=True, exist_ok=True)
        Path(result).mkdir(parents=True, exist_ok=True)
        steps.append(f"mount --bind {node.directory / directory} {result}")
    steps += [
        "mount -t tmpfs tmpfs /run/netns",
        "echo 1 >/proc/sys/net/ipv4/ip_forward",
        f"touch {ready}",
        "exec sleep infinity",
    ]
    start(
        node.layout,
        name,
        [
            "nsenter",
            f"--net=/run/netns/{node.namespace}",
            "unshare",
            "-m",
            "--propagation",
            "slave",
            "sh",
            "-e",
            "-c",
            "\n".join(steps),
        ],
    )
    wait_for(
        ready.exists,
        description=f"the namespaces of {node.name}",
        timeout_s=20.0,
        evidence=lambda: log_tail(node.layout, name),
    )


def _make_cgroups(node: NodePlaces) -> None:
    for hierarchy in CGROUPS.iterdir():
        if not (hierarchy / "cgroup.procs").exists():
            continue
        own = hierarchy / node.namespace
        own.mkdir(exist_ok=True)
        for name in ("cpuset.cpus", "cpuset.mems"):
            if (own / name).exists():
                (own / name).write_text((hierarchy / name).read_text())


def _start_kubelet(node: NodePlaces) -> None:
    layout, directory = node.layout, node.directory
    certify(layout, f"kubelet-{node.name}", f"/O=system:nodes/CN=system:node:{node.name}")
    certify(layout, f"serving-{node.name}", f"/CN={node.name}", names=f"DNS:{node.name},IP:{node.address}")
    write_kubeconfig(layout, f"kubelet-{node.name}", directory / "kubelet.kubeconfig")
    write_if_new(directory / "kubelet.json", json.dumps(kubelet_config(node), indent=1))
    _start_inside(
        node,
        "kubelet",
        [
            str(layout.bin / "kubelet"),
            f"--config={directory / 'kubelet.json'}",
            f"--kubeconfig={directory / 'kubelet.kubeconfig'}",
            f"--hostname-override={node.name}",
            f"--node-ip={node.address}",
            "--root-dir=/var/lib/kubelet",
            f"--cert-dir={directory / 'certificates'}",
        ],
    )
    write_if_new(directory / "proxy.json", json.dumps(proxy_config(node), indent=1))
    _start_inside(
        node,
        "kube-proxy",
        [
            str(layout.bin / "kube-proxy"),
            f"--config={directory / 'proxy.json'}",
            f"--hostname-override={node.name}",
        ],
    )
    wait_for(
        lambda: bool(_pod_cidr(node)),
        description=f"{node.name} is registered",
        timeout_s=READY_S,
        evidence=lambda: log_tail(layout, f"kubelet@{node.name}"),
    )
    write_if_new(directory / "cni.d" / "10-lab.conflist", json.dumps(network_config(_pod_cidr(node)), indent=1))
    _route_pods(node)
    wait_for(
        lambda: _is_ready(node),
        description=f"{node.name} is ready",
        timeout_s=READY_S,
        evidence=lambda: log_tail(layout, f"kubelet@{node.name}"),
    )


def _route_pods(node: NodePlaces) -> None:
    run(["ip", "route", "replace", _pod_cidr(node), "via", node.address])
    for number in numbers(node.layout):
        peer = NodePlaces(number=number, layout=node.layout)
        if number != node.number and _pod_cidr(peer):
            run(["ip", "-n", node.namespace, "route", "replace", _pod_cidr(peer), "via", peer.address], check=False)
            run(["ip", "-n", peer.namespace, "route", "replace", _pod_cidr(node), "via", node.address], check=False)


def _pod_cidr(node: NodePlaces) -> str:
    path = ["get", "node", node.name, "-o", "jsonpath={.spec.podCIDR}"]
    return kubectl(node.layout, path, check=False).strip()


def _is_ready(node: NodePlaces) -> bool:
    path = 'jsonpath={.status.conditions[?(@.type=="Ready")].status}'
    return kubectl(node.layout, ["get", "node", node.name, "-o", path], check=False).strip() == "True"


def _start_inside(node: NodePlaces, name: str, argv: Sequence[str]) -> None:
    start(node.layout, f"{name}@{node.name}", [*enter(node), *argv])


def _end_containers(node: NodePlaces) -> None:
    """Kill every container behind the node's socket, so that nothing outlives it."""
    if known(node.layout, f"containerd@{node.name}") is None:
        return
    ctr = ["ctr", "-a", str(node.socket), "-n", "k8s.io"]
    for task in run([*ctr, "tasks", "ls", "-q"], check=False).split():
        run([*ctr, "tasks", "rm", "-f", task], check=False)
    for container in run([*ctr, "containers", "ls", "-q"], check=False).split():
        run([*ctr, "containers", "rm", container], check=False)


def _rmdir(path: Path) -> None:
    try:
        path.rmdir()
    except OSError:  # a process in it is just going; an empty group is no harm
        return
