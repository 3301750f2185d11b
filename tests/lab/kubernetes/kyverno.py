"""Kyverno on the machine itself, beside the control plane: its admission controller, built from its module.

It makes its certificates and webhooks itself, with its address on this machine (`--serverIP`). Reports of what its
policies saw are left out: the controller that would collect them is not here.
"""

from __future__ import annotations

from binaries import KYVERNO, build_controller
from daemons import start, stop, wait_until_well
from layout import Layout
from nodes import apply, define, kubectl

_DAEMON = "kyverno"
_NAMESPACE = "kyverno"
_NAMES = (
    "KYVERNO_NAMESPACE",
    "KYVERNO_SERVICEACCOUNT_NAME",
    "KYVERNO_DEPLOYMENT",
    "KYVERNO_POD_NAME",
    "INIT_CONFIG",
    "METRICS_CONFIG",
)
"""Of the environment, which it insists on."""
_ADDRESS, _PORT = "127.0.0.1", 19444
_READY_S = 120.0
_WEBHOOKS = "validatingwebhookconfigurations,mutatingwebhookconfigurations"
_DEFINITIONS = ("kyverno", "policies.kyverno.io", "policyreport", "reports")


def add_kyverno(layout: Layout) -> None:
    """Start Kyverno; one that runs is ended first."""
    program, module = build_controller(layout, _DAEMON, KYVERNO, "./cmd/kyverno")
    remove_kyverno(layout)
    define(layout, *(module / "config" / "crds" / name for name in _DEFINITIONS))
    metadata = {"name": _NAMESPACE, "namespace": _NAMESPACE}
    configured = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {}}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}}
    apply(layout, namespace, configured)
    start(
        layout,
        _DAEMON,
        [
            "env",
            *(f"{name}={_NAMESPACE}" for name in _NAMES),
            program,
            f"--kubeconfig={layout.kubeconfig}",
            f"--serverIP={_ADDRESS}:{_PORT}",
            f"--webhookServerHost={_ADDRESS}",
            f"--webhookServerPort={_PORT}",
            "--caSecretName=kyverno-ca",
            "--tlsSecretName=kyverno-tls",
            "--controllerRuntimeMetricsAddress=0",
            "--disableMetrics=true",
            "--admissionReports=false",
            "--disableLogColor=true",
            "--leaderElectionRetryPeriod=1s",
        ],
    )
    wait_until_well(layout, _DAEMON, f"https://{_ADDRESS}:{_PORT}/health/readiness", timeout_s=_READY_S)


def remove_kyverno(layout: Layout) -> None:
    """End Kyverno, and its webhooks, which would refuse objects without it, also where it has ended by itself."""
    if not layout.pid_file(_DAEMON).exists():
        return
    stop(layout, _DAEMON)
    kubectl(layout, ["delete", _WEBHOOKS, "-l", "webhook.kyverno.io/managed-by=kyverno"], check=False)
    kubectl(layout, ["delete", "clusterpolicies.kyverno.io", "--all"], check=False)
    kubectl(layout, ["delete", "leases", "--all", "-n", _NAMESPACE], check=False)
