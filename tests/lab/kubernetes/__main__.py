"""A real Kubernetes cluster on this machine, for the tests: etcd, control plane, nodes, built from their modules.

python3 tests/lab/kubernetes up [--nodes N]     idempotent; prints the environment of `make demo-kubernetes`
python3 tests/lab/kubernetes down               ends what it started, and removes its state
python3 tests/lab/kubernetes node add|remove|cut|heal N
python3 tests/lab/kubernetes node speed N CPUS      a quota for all that runs on it; 0: none
python3 tests/lab/kubernetes volume NAME DIR SIZE   a directory of this machine as a local volume of node1
python3 tests/lab/kubernetes volume add|remove NAME [DIRECTORY] [SIZE]
python3 tests/lab/kubernetes images             brings newly built images to the nodes
python3 tests/lab/kubernetes helm               compiles helm once, prints where it is
python3 tests/lab/kubernetes csi add|remove SOURCES   a CSI driver with snapshots, from checkouts of kubernetes-csi
python3 tests/lab/kubernetes kueue add|all|remove   Kueue, compiled once; all: it suspends jobs without a queue too
python3 tests/lab/kubernetes karpenter add|remove   Karpenter and kwok, compiled once: nodes that run nothing
python3 tests/lab/kubernetes kyverno add|remove     Kyverno's admission controller, compiled once
python3 tests/lab/kubernetes api stop|start     for tests of an API server that is away
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "runner"))

from binaries import build, build_helm
from control_plane import start_api_server, start_controllers, start_etcd, stop_api_server, stop_control_plane
from csi import add_csi, remove_csi
from daemons import LabFailed, is_mounted, run
from images import PROVISIONER, SHELL, import_docker_images
from karpenter import add_karpenter, remove_karpenter
from kueue import add_kueue, remove_kueue
from kyverno import add_kyverno, remove_kyverno
from layout import HERE, NODES_MAX, Layout, NodePlaces, find_layout
from nodes import (
    add_node,
    cut,
    heal,
    kubectl,
    limit_speed,
    make_bridge,
    numbers,
    remove_bridge,
    remove_node,
    share_volumes,
)
from pki import make_pki
from volumes import add_volume, remove_volume

from volbench.machine.placement.docker.image_names import local_images, pick_server_image, tools_image

PROGRAMS = ("containerd", "runc", "ctr", "nft", "iptables", "ip", "nsenter", "openssl", "busybox")


def up(layout: Layout, nodes: int) -> None:
    """The whole cluster, with so many nodes."""
    _check()
    build(layout)
    layout.state.mkdir(parents=True, exist_ok=True)
    make_pki(layout)
    share_volumes(layout)
    make_bridge()
    start_etcd(layout)
    start_api_server(layout)
    start_controllers(layout)
    for number in range(1, nodes + 1):
        add_node(layout, number, cell_images())
    manifest = (HERE / "local-path.yaml").read_text()
    for placeholder, value in {
        "IMAGE_PROVISIONER": PROVISIONER,
        "IMAGE_SHELL": SHELL,
        "PATH_VOLUMES": str(layout.volumes / "local-path"),
    }.items():
        manifest = manifest.replace(placeholder, value)
    kubectl(layout, ["apply", "-f", "-"], stdin=manifest)


def down(layout: Layout) -> None:
    """End everything of this lab, and nothing else."""
    for remove in (remove_kyverno, remove_kueue, remove_karpenter, remove_csi):
        remove(layout)
    for number in numbers(layout):
        remove_node(layout, number)
    stop_control_plane(layout)
    remove_bridge()
    _unmount(layout)
    shutil.rmtree(layout.state, ignore_errors=True)


def cell_images() -> list[str]:
    """The images of the Docker engine that cells need: the tools image of this code, and the newest MySQL."""
    server = pick_server_image(local_images(), "mysql")
    if server is None or tools_image() not in local_images():
        raise LabFailed("the Docker engine lacks the tools image of this code or a MySQL image: run `make images`")
    return [tools_image(), server.name]


def _check() -> None:
    if os.geteuid() != 0:
        raise LabFailed("the lab cluster needs root")
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing or not Path("/usr/lib/cni/bridge").exists():
        packages = "containerd runc containernetworking-plugins nftables iptables iproute2 openssl busybox"
        raise LabFailed(f"missing: {' '.join(missing) or 'CNI plugins'}; apt-get install {packages}")


def _unmount(layout: Layout) -> None:
    """What is still mounted below the state directory, the deepest first."""
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    below = [mount for mount in mounts if Path(mount).is_relative_to(layout.state)]
    for location in sorted(below, key=len, reverse=True):
        run(["umount", "--lazy", location], check=False)
    if is_mounted(layout.volumes):
        raise LabFailed(f"{layout.volumes} is still mounted")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_subparsers = parser.add_subparsers(dest="word", required=True)
    add_subparsers.add_parser("up").add_argument("--nodes", type=int, default=1, choices=range(1, NODES_MAX + 1))
    for term in ("down", "build", "images", "helm"):
        add_subparsers.add_parser(term)
    node = add_subparsers.add_parser("node")
    node.add_argument("what", choices=["add", "remove", "cut", "heal", "speed"])
    node.add_argument("number", type=int, choices=range(1, NODES_MAX + 1))
    node.add_argument("cpus", type=float, nargs="?", default=0.0, help="only of speed; 0: no limit")
    volume = add_subparsers.add_parser("volume")
    volume.add_argument("what", choices=["add", "remove"])
    volume.add_argument("name")
    volume.add_argument("directory", nargs="?", default="", help="of this machine; only to add")
    volume.add_argument("size", nargs="?", default="1Gi")
    csi = add_subparsers.add_parser("csi")
    csi.add_argument("what", choices=["add", "remove"])
    csi.add_argument(
        "sources", nargs="?", type=Path, default=Path(), help="a directory with the checkouts; only to add"
    )
    add_subparsers.add_parser("kueue").add_argument("what", choices=["add", "all", "remove"])
    for name in ("karpenter", "kyverno"):
        add_subparsers.add_parser(name).add_argument("what", choices=["add", "remove"])
    add_subparsers.add_parser("api").add_argument("what", choices=["stop", "start"])
    return parser.parse_args()


def _node(layout: Layout, description: str, number: int, cpus: float) -> None:
    match description:
        case "add":
            add_node(layout, number, cell_images())
        case "remove":
            remove_node(layout, number)
        case "cut":
            cut(layout, number)
        case "speed":
            limit_speed(layout, number, cpus)
        case _:
            heal(layout, number)


def _volume(layout: Layout, description: str, name: str, directory: str, size: str) -> None:
    if description == "add":
        add_volume(layout, name, Path(directory), size)
    else:
        remove_volume(layout, name)


def _controllers(layout: Layout, arguments: argparse.Namespace) -> None:
    match arguments.word, arguments.what:
        case "csi", "add":
            add_csi(layout, arguments.sources)
        case "csi", _:
            remove_csi(layout)
        case "karpenter", what:
            (add_karpenter if what == "add" else remove_karpenter)(layout)
        case "kyverno", what:
            (add_kyverno if what == "add" else remove_kyverno)(layout)
        case _, "remove":
            remove_kueue(layout)
        case _:
            add_kueue(layout, manage_all=arguments.what == "all")


def _do(layout: Layout, arguments: argparse.Namespace) -> None:
    match arguments.word:
        case "up":
            up(layout, arguments.nodes)
            print(f"export DEMO_SERVER_IMAGE={cell_images()[1]}")
            print(f"export KUBECONFIG={layout.kubeconfig}")
        case "down":
            down(layout)
        case "build":
            build(layout)
            build_helm(layout)
        case "helm":
            print(build_helm(layout))
        case "images":
            for number in numbers(layout):
                import_docker_images(NodePlaces(number=number, layout=layout), cell_images())
        case "node":
            _node(layout, arguments.what, arguments.number, arguments.cpus)
        case "volume":
            _volume(layout, arguments.what, arguments.name, arguments.directory, arguments.size)
        case "csi" | "kueue" | "karpenter" | "kyverno":
            _controllers(layout, arguments)
        case _:
            (stop_api_server if arguments.what == "stop" else start_api_server)(layout)


def main() -> int:
    """Do what the command line says."""
    try:
        _do(find_layout(), _arguments())
    except LabFailed as failure:
        print(failure, file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
