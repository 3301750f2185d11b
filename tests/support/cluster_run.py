"""Real runs in a cluster for tests: a namespace of their own, with all that a run could leave behind in it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from live_run import SMALL, SUITE, Bench, Ended

from volbench.machine.placement import capabilities
from volbench.machine.placement.docker.image_names import local_images, pick_server_image, tools_image

LAB = Path(__file__).parents[1] / "lab" / "kubernetes"
LAB_STATE = Path(os.environ.get("VOLBENCH_LAB_STATE") or "/var/lib/volbench/lab-kubernetes")
LAB_KUBECONFIG = LAB_STATE / "admin.kubeconfig"
LAB_PROGRAMS = Path.home() / ".cache" / "volbench" / "kubernetes" / "bin"
STORAGE_CLASS = "local-path"
NAMESPACE = "volbench"
"""Of k8s/base."""
BOUND_S = 600.0
_KINDS = "jobs,pods,configmaps,persistentvolumeclaims"


def use_lab() -> None:
    """Point kubectl and client at the lab cluster, where there is one and nobody has chosen another."""
    if "KUBECONFIG" not in os.environ and LAB_KUBECONFIG.exists():
        os.environ["KUBECONFIG"] = str(LAB_KUBECONFIG)
    if shutil.which("kubectl") is None and LAB_KUBECONFIG.exists():
        os.environ["PATH"] += f":{LAB_PROGRAMS}"


def with_lab() -> bool:
    """Whether the cluster is the lab's, whose API server and nodes a test may stop."""
    use_lab()  # a test may ask before anybody has looked for a cluster
    return os.environ.get("KUBECONFIG") == str(LAB_KUBECONFIG)


def lab(*arguments: str, timeout_s: float = 300.0) -> None:
    """A command of the lab."""
    subprocess.run([sys.executable, str(LAB), *arguments], check=True, capture_output=True, timeout=timeout_s)


def kubectl(*arguments: str, stdin: str | None = None) -> str:
    """A command of kubectl; its output."""
    done = subprocess.run(
        ["kubectl", "--request-timeout=20s", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
    return done.stdout


def sleeping_container(cpu: str) -> dict[str, Any]:
    """A container of another team that only requests processors; Pod Security's restricted level admits it."""
    return {
        "name": "sleeper",
        "image": tools_image(),
        "imagePullPolicy": "IfNotPresent",
        "command": ["sleep", "600"],
        "resources": {"requests": {"cpu": cpu, "memory": "32Mi"}},
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 999,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }


def has_namespace() -> bool:
    """Whether the cluster has the namespace of k8s/base."""
    return f"namespace/{NAMESPACE}" in kubectl("get", "namespaces", "-o", "name").split()


def until(request: Callable[[], bool], description: str) -> None:
    """Wait for a moment; the runner's last words when it does not come."""
    until_s = time.monotonic() + BOUND_S
    while not request():
        if time.monotonic() > until_s:
            result = subprocess.run(
                ["kubectl", "-n", NAMESPACE, "logs", "-l", "app.kubernetes.io/component=runner", "--tail=30"],
                capture_output=True,
                text=True,
                check=False,
                timeout=30,
            )
            pytest.fail(f"not in {BOUND_S:.0f} s: {description}\n{result.stdout}{result.stderr}")
        time.sleep(0.5)


@dataclass(kw_only=True)
class ClusterBench(Bench):
    """One test's namespace."""

    namespace: str

    def start(
        self,
        *settings: str,
        options: Sequence[str] = (),
        volumes: dict[str, str] | None = None,
        suite: Path = SUITE,
    ) -> subprocess.Popen[bytes]:
        """`volbench run` with a suite made small on two claims of the storage class, or on these SPECs."""
        specs = volumes or dict.fromkeys(("a", "b"), f"storage-class:{STORAGE_CLASS}?size=1Gi")
        result = [argument for name, spec in specs.items() for argument in ("--volume", f"{name}={spec}")]
        server = pick_server_image(local_images(), "mysql")
        image = [f"engine.image={server.name}"] if server is not None else []
        chosen = [argument for setting in (*SMALL, *image, *settings) for argument in ("--set", setting)]
        requests = [f"namespace={self.namespace}", *options]
        return self.volbench(
            "run",
            str(suite),
            "--target",
            "kubernetes",
            *result,
            *chosen,
            "--out",
            str(self.results),
            "--yes",
            *(argument for request in requests for argument in ("--target-option", request)),
        )

    def objects(self, kinds: str, selector: str = "app.kubernetes.io/managed-by=volbench") -> list[dict[str, Any]]:
        """Objects of the namespace that are a run's."""
        document = json.loads(kubectl("get", kinds, "-n", self.namespace, "-l", selector, "-o", "json"))
        items: list[dict[str, Any]] = document["items"]
        return items

    def pod(self) -> str:
        """The name of the running cell's pod."""
        cell = self.current_cell().name
        (pod,) = self.objects("pods", f"volbench.org/cell={cell}")
        return str(pod["metadata"]["name"])

    def everything(self) -> set[str]:
        """All objects of the namespace, of whatever kind, but its events and what every namespace has."""
        kinds = kubectl("api-resources", "--verbs=list", "--namespaced", "-o", "name").split()
        text = ",".join(kind for kind in kinds if not kind.startswith("events"))
        fields = kubectl("get", text, "-n", self.namespace, "-o", "name").split()
        return set(fields) - {"configmap/kube-root-ca.crt", "serviceaccount/default"}

    def quote(self, fault: str, ended: Ended) -> None:
        """Record how a command ended after a fault was made, where VOLBENCH_FAULTS names a file for that."""
        if file := os.environ.get("VOLBENCH_FAULTS"):
            quoted = {"fault": fault, "code": ended.code, "output": ended.output, "causes": self._causes()}
            with Path(file).open("a") as lines:
                lines.write(json.dumps(quoted) + "\n")

    def _causes(self) -> list[str]:
        """Each failed attempt with the cause that the journal names."""
        if not list(self.results.glob("*/run.json")):
            return []
        return [f"{cell}, attempt {attempt}: {cause}" for (cell, attempt), cause in self.failed_causes().items()]

    def leftovers(self) -> list[str]:
        """All that a run may leave behind and should not."""
        left = [f"{item['kind']} {item['metadata']['name']}" for item in self.objects(_KINDS)]
        return left + [str(entry) for entry in self.temporary.glob("volbench*")]


@contextmanager
def cluster_bench(root: Path) -> Iterator[ClusterBench]:
    """A namespace for one test, under the strictest Pod Security standard; removed at the end."""
    temporary = Path(tempfile.mkdtemp(prefix="vbt-", dir="/tmp"))
    namespace = temporary.name.lower().replace("_", "-").strip("-") + "-ns"
    kubectl("create", "namespace", namespace)
    kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
    opened = ClusterBench(
        target="kubernetes", root=root, volumes={}, cache=root / "cache", temporary=temporary, namespace=namespace
    )
    try:
        yield opened
    finally:
        opened.close()
        kubectl("delete", "namespace", namespace, "--wait=false")
        shutil.rmtree(temporary, ignore_errors=True)


def ready() -> capabilities.Means:
    """A cluster that answers, with a storage class that the tests can use."""
    use_lab()
    repair = f"python3 {LAB.relative_to(LAB.parents[2])} up"
    if shutil.which("kubectl") is None:
        return capabilities.Means(name="kubernetes", present=False, evidence="no kubectl on PATH", remedy=repair)
    answer = capabilities.ask(["kubectl", "get", "--raw", "/readyz", "--request-timeout=5s"])
    if answer.code != 0:
        return capabilities.Means(name="kubernetes", present=False, evidence=answer.last_line, remedy=repair)
    classes = capabilities.ask(["kubectl", "get", "storageclass", "-o", "name", "--request-timeout=5s"]).output
    if f"/{STORAGE_CLASS}" not in classes:
        evidence = f"the cluster has no storage class {STORAGE_CLASS}"
        return capabilities.Means(name="kubernetes", present=False, evidence=evidence, remedy=repair)
    return capabilities.Means(name="kubernetes", present=True, evidence=answer.last_line)
