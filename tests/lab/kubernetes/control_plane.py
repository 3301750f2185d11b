"""etcd, API server, controller manager and scheduler, as processes of the machine."""

from __future__ import annotations

import ssl
import urllib.request
from urllib.error import URLError

from daemons import log_tail, start, stop, wait_for
from layout import API_PORT, ETCD_PORT, HOST_IP, POD_CIDR, SERVICE_CIDR, Layout

READY_S = 120.0
DAEMONS = ("scheduler", "controller-manager", "api-server", "etcd")
NODE_GRACE = "20s"
"""After so long without a sign of life a node counts as lost; 40 s by default, shortened for the tests."""


def start_etcd(layout: Layout) -> None:
    """The store; it need not survive a power cut, so it never syncs."""
    client, peer = f"http://127.0.0.1:{ETCD_PORT}", f"http://127.0.0.1:{ETCD_PORT + 1}"
    start(
        layout,
        "etcd",
        [
            layout.bin / "etcd",
            "--name=lab",
            f"--data-dir={layout.state / 'etcd'}",
            "--log-level=warn",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=lab={peer}",
            "--unsafe-no-fsync",
        ],
    )


def start_api_server(layout: Layout) -> None:
    """The API server, on the bridge's address, and wait until it is ready."""
    pki = layout.pki
    start(
        layout,
        "api-server",
        [
            layout.bin / "kube-apiserver",
            f"--bind-address={HOST_IP}",
            f"--advertise-address={HOST_IP}",
            f"--secure-port={API_PORT}",
            f"--etcd-servers=http://127.0.0.1:{ETCD_PORT}",
            f"--service-cluster-ip-range={SERVICE_CIDR}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            f"--client-ca-file={pki('ca.crt')}",
            f"--tls-cert-file={pki('api-server.crt')}",
            f"--tls-private-key-file={pki('api-server.key')}",
            f"--kubelet-client-certificate={pki('api-to-kubelet.crt')}",
            f"--kubelet-client-key={pki('api-to-kubelet.key')}",
            f"--kubelet-certificate-authority={pki('ca.crt')}",
            "--kubelet-preferred-address-types=InternalIP",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={pki('service-accounts.pub')}",
            f"--service-account-signing-key-file={pki('service-accounts.key')}",
            "--allow-privileged=true",
            "--profiling=false",
            "--endpoint-reconciler-type=lease",
        ],
    )
    wait_for(
        lambda: api_is_ready(layout),
        description="the API server is ready",
        timeout_s=READY_S,
        evidence=lambda: log_tail(layout, "api-server"),
    )


def stop_api_server(layout: Layout) -> None:
    """The API server alone; nodes and containers go on."""
    stop(layout, "api-server")


def start_controllers(layout: Layout) -> None:
    """Controller manager and scheduler."""
    start(
        layout,
        "controller-manager",
        [
            layout.bin / "kube-controller-manager",
            "--bind-address=127.0.0.1",
            "--leader-elect=false",
            *_as(layout, "controller-manager"),
            "--use-service-account-credentials",
            f"--service-account-private-key-file={layout.pki('service-accounts.key')}",
            f"--root-ca-file={layout.pki('ca.crt')}",
            "--allocate-node-cidrs=true",
            f"--cluster-cidr={POD_CIDR}",
            f"--node-monitor-grace-period={NODE_GRACE}",
            "--profiling=false",
        ],
    )
    start(
        layout,
        "scheduler",
        [
            layout.bin / "kube-scheduler",
            "--bind-address=127.0.0.1",
            "--leader-elect=false",
            *_as(layout, "scheduler"),
            "--profiling=false",
        ],
    )


def stop_control_plane(layout: Layout) -> None:
    """End them all, the store last."""
    for name in DAEMONS:
        stop(layout, name)


def api_is_ready(layout: Layout) -> bool:
    """Whether the API server says that it is ready."""
    trust = ssl.create_default_context(cafile=str(layout.pki("ca.crt")))
    try:
        with urllib.request.urlopen(f"{layout.api_url}/readyz", timeout=5, context=trust) as answer:  # noqa: S310
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False


def _as(layout: Layout, name: str) -> list[str]:
    path = layout.state / f"{name}.kubeconfig"
    return [f"--{flag}={path}" for flag in ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")]
