"""Kueue on the machine itself, beside the control plane: its manager, built from its module, with its webhooks.

The manager runs with the administrator's kubeconfig and a certificate of the lab. It wants the certificate of its
metrics below /etc/kueue, so it gets an /etc of its own. Conversion between versions of its kinds is left out: all
objects here are of the version that is stored.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from binaries import KUEUE, build_controller
from daemons import known, start, stop, wait_until_well
from layout import Layout
from nodes import define, kubectl
from pki import certify

Object = dict[str, Any]
_DAEMON = "kueue"
_PORTS = {"webhook": 19443, "metrics": 18443, "health": 18081}
_GROUPS = {"batch", "kueue.x-k8s.io"}
"""Whose webhooks are registered: of the kinds that the lab has."""
_READY_S = 120.0
_UNMANAGED = ["kube-system", "kueue-system", "local-path-storage"]


def add_kueue(layout: Layout, *, manage_all: bool) -> None:
    """Start Kueue; one that runs is ended first.

    Args:
        manage_all: it suspends jobs that name no queue as well (`manageJobsWithoutQueueName`).
    """
    program, module = build_controller(layout, "kueue", KUEUE, "./cmd/kueue")
    remove_kueue(layout)
    directory = layout.state / "kueue"
    certify(layout, "kueue", "/CN=kueue", names="IP:127.0.0.1")
    directory.mkdir(parents=True, exist_ok=True)
    for source, target in (("kueue.crt", "tls.crt"), ("kueue.key", "tls.key")):
        (directory / target).write_bytes(layout.pki(source).read_bytes())
    (directory / "config.json").write_text(json.dumps(_configuration(directory, manage_all=manage_all)))
    definitions = module / "config" / "components" / "crd" / "bases"
    define(layout, definitions)
    kubectl(layout, ["create", "namespace", "kueue-system"], check=False)
    start(layout, _DAEMON, ["unshare", "--mount", "--propagation=private", "sh", "-c", _script(layout, program)])
    wait_until_well(layout, _DAEMON, f"http://127.0.0.1:{_PORTS['health']}/readyz", timeout_s=_READY_S)
    webhooks = list(_webhooks(layout, module))
    kubectl(layout, ["apply", "-f", "-"], stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": webhooks}))


def remove_kueue(layout: Layout) -> None:
    """End Kueue, if it runs, and its webhooks, which would refuse every job without it."""
    if known(layout, _DAEMON) is None:
        return
    for kind in ("mutatingwebhookconfiguration", "validatingwebhookconfiguration"):
        kubectl(layout, ["delete", kind, "-l", "volbench.org/lab=kueue", "--ignore-not-found"], check=False)
    stop(layout, _DAEMON)


def _configuration(directory: Path, *, manage_all: bool) -> Object:
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": f"127.0.0.1:{_PORTS['health']}"},
        "metrics": {"bindAddress": f"127.0.0.1:{_PORTS['metrics']}"},
        "webhook": {"host": "127.0.0.1", "port": _PORTS["webhook"], "certDir": str(directory)},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "manageJobsWithoutQueueName": manage_all,
        "managedJobsNamespaceSelector": {
            "matchExpressions": [
                {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": _UNMANAGED},
            ],
        },
        "integrations": {"frameworks": ["batch/job"]},
        "featureGates": {"VisibilityOnDemand": False},
    }


def _script(layout: Layout, program: Path) -> str:
    """Return the shell's words that give the manager its /etc and become it."""
    directory = layout.state / "kueue"
    layers, certificates = directory / "etc", "/etc/kueue/metrics/certs"
    return " && ".join(
        (
            f"mkdir -p {layers}",
            f"mount -t tmpfs tmpfs {layers}",
            f"mkdir {layers}/upper {layers}/work",
            f"mount -t overlay overlay -o lowerdir=/etc,upperdir={layers}/upper,workdir={layers}/work /etc",
            f"mkdir -p {certificates}",
            f"cp {directory}/tls.crt {directory}/tls.key {certificates}/",
            f"KUBECONFIG={layout.kubeconfig} exec {program} --config={directory}/config.json",
        )
    )


def _webhooks(layout: Layout, module: Path) -> Iterator[Object]:
    """Yield Kueue's own configurations of webhooks, with the manager's address on this machine."""
    authority = base64.b64encode(layout.pki("ca.crt").read_bytes()).decode()
    manifests = module / "config" / "components" / "webhook" / "manifests.yaml"
    text = kubectl(layout, ["create", "--dry-run=client", "-o", "json", "-f", str(manifests)])
    for configuration in _documents(text):
        configuration["metadata"] = {
            "name": f"kueue-{configuration['metadata']['name']}",
            "labels": {"volbench.org/lab": "kueue"},
        }
        chosen = [
            webhook
            for webhook in configuration["webhooks"]
            if {group for rule in webhook["rules"] for group in rule["apiGroups"]} <= _GROUPS
        ]
        for webhook in chosen:
            path = webhook["clientConfig"]["service"]["path"]
            url = f"https://127.0.0.1:{_PORTS['webhook']}{path}"
            webhook["clientConfig"] = {"url": url, "caBundle": authority}
        yield {**configuration, "webhooks": chosen}


def _documents(text: str) -> Iterator[Object]:
    """Yield the objects of kubectl's output: one after the other, or in a list."""
    decoder, at = json.JSONDecoder(), 0
    while at < len(text.rstrip()):
        document, at = decoder.raw_decode(text, at)
        at += len(text[at:]) - len(text[at:].lstrip())
        yield from document.get("items", [document])
