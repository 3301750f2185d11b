"""The cluster's certificates and kubeconfigs, made with openssl; they live as long as the lab's state."""

from __future__ import annotations

import base64
import json
import secrets
from pathlib import Path

from daemons import run
from layout import API_SERVICE_IP, HOST_IP, Layout

DAYS = "3650"
_CLIENTS = {
    "admin": "/O=system:masters/CN=admin",
    "controller-manager": "/CN=system:kube-controller-manager",
    "scheduler": "/CN=system:kube-scheduler",
    "proxy": "/CN=system:kube-proxy",
    "api-to-kubelet": "/O=system:masters/CN=api-to-kubelet",
}
_API_NAMES = (
    "DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,"
    f"IP:127.0.0.1,IP:{API_SERVICE_IP},IP:{HOST_IP}"
)


def make_pki(layout: Layout) -> None:
    """Certificate authority, API server, clients, service accounts; nothing when they are there."""
    done = layout.pki("complete")
    if done.exists():
        return
    layout.pki("").mkdir(parents=True, exist_ok=True)
    layout.pki("").chmod(0o700)
    _key(layout.pki("ca.key"))
    run(
        [
            "openssl",
            "req",
            "-x509",
            "-new",
            "-key",
            layout.pki("ca.key"),
            "-subj",
            "/CN=volbench-lab",
            "-days",
            DAYS,
            "-addext",
            "basicConstraints=critical,CA:TRUE",
            "-addext",
            "keyUsage=critical,keyCertSign,cRLSign",
            "-out",
            layout.pki("ca.crt"),
        ]
    )
    certify(layout, "api-server", "/CN=kube-apiserver", names=_API_NAMES)
    for name, subject in _CLIENTS.items():
        certify(layout, name, subject)
        write_kubeconfig(layout, name, layout.state / f"{name}.kubeconfig")
    run(["openssl", "genrsa", "-out", layout.pki("service-accounts.key"), "2048"])
    run(
        [
            "openssl",
            "rsa",
            "-in",
            layout.pki("service-accounts.key"),
            "-pubout",
            "-out",
            layout.pki("service-accounts.pub"),
        ]
    )
    done.touch()


def certify(layout: Layout, name: str, subject: str, *, names: str = "") -> None:
    """A key and its certificate: for a server when it has names, else for a client."""
    if layout.pki(f"{name}.crt").exists():
        return
    usage = "serverAuth" if names else "clientAuth"
    extensions = layout.pki(f"{name}.ext")
    extensions.write_text(
        f"keyUsage=digitalSignature\nextendedKeyUsage={usage}\n" + (f"subjectAltName={names}\n" if names else "")
    )
    _key(layout.pki(f"{name}.key"))
    request = run(["openssl", "req", "-new", "-key", layout.pki(f"{name}.key"), "-subj", subject])
    run(
        [
            "openssl",
            "x509",
            "-req",
            "-CA",
            layout.pki("ca.crt"),
            "-CAkey",
            layout.pki("ca.key"),
            "-days",
            DAYS,
            "-set_serial",
            f"0x{secrets.token_hex(8)}",
            "-extfile",
            extensions,
            "-out",
            layout.pki(f"{name}.crt"),
        ],
        stdin=request,
    )


def write_kubeconfig(layout: Layout, name: str, path: Path) -> None:
    """A kubeconfig for the holder of a certificate (JSON is YAML)."""
    cluster = {"server": layout.api_url, "certificate-authority-data": _encoded(layout.pki("ca.crt"))}
    user = {
        "client-certificate-data": _encoded(layout.pki(f"{name}.crt")),
        "client-key-data": _encoded(layout.pki(f"{name}.key")),
    }
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "lab", "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": name}}],
        "current-context": "lab",
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(json.dumps(config, indent=1))


def _key(path: Path) -> None:
    run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", path])
    path.chmod(0o600)


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
