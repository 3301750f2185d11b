"""Where the lab cluster keeps things, and its addresses."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent

BRIDGE = "vblab0"
HOST_IP = "172.30.240.1"
"""Of the bridge, on the machine itself: the API server listens here."""
POD_CIDR = "10.244.0.0/16"
SERVICE_CIDR = "10.96.0.0/16"
API_SERVICE_IP = "10.96.0.1"
API_PORT = 16443
ETCD_PORT = 12379
NODES_MAX = 9


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The cluster's directories.

    Args:
        cache: what is built once: binaries and images of this lab.
        state: everything else; it goes with the cluster.
    """

    cache: Path
    state: Path

    @property
    def bin(self) -> Path:
        """The built programs."""
        return self.cache / "bin"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        return self.state / "admin.kubeconfig"

    @property
    def volumes(self) -> Path:
        """A shared mount: what is mounted below it on the machine, every node sees too."""
        return self.state / "volumes"

    @property
    def api_url(self) -> str:
        """Where the API server answers."""
        return f"https://{HOST_IP}:{API_PORT}"

    def pki(self, name: str) -> Path:
        """A key or certificate."""
        return self.state / "pki" / name

    def log(self, name: str) -> Path:
        """A daemon's log."""
        return self.state / "log" / f"{name}.log"

    def pid_file(self, name: str) -> Path:
        """A daemon's pid file."""
        return self.state / "pid" / name


@dataclass(frozen=True, kw_only=True)
class NodePlaces:
    """Names, addresses and directories of node N: a network and a mount namespace of its own."""

    number: int
    layout: Layout

    @property
    def name(self) -> str:
        """The node's name in the cluster."""
        return f"node{self.number}"

    @property
    def namespace(self) -> str:
        """Its network namespace, and its part of each cgroup hierarchy."""
        return f"vblab-{self.name}"

    @property
    def address(self) -> str:
        """On the bridge."""
        return f"172.30.240.{10 + self.number}"

    @property
    def host_interface(self) -> str:
        """The machine's end of its cable; down is a partition."""
        return f"vblab-n{self.number}"

    @property
    def directory(self) -> Path:
        """All its files."""
        return self.layout.state / "nodes" / self.name

    @property
    def socket(self) -> Path:
        """Of its containerd."""
        return self.directory / "containerd.sock"


def find_layout() -> Layout:
    """Directories by the XDG rules; the state is below /var/lib, for root."""
    home = Path(os.environ.get("HOME") or "/root")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "volbench" / "kubernetes"
    state = Path(os.environ.get("VOLBENCH_LAB_STATE") or "/var/lib/volbench/lab-kubernetes")
    return Layout(cache=cache, state=state)
