"""The cluster's programs, compiled once from their Go modules and kept in the cache."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

from daemons import LabFailed, run
from layout import HERE, Layout

from volbench.machine.placement.docker.image_names import content_hash

KUBERNETES = "v1.34.4"
PROVISIONER = "github.com/rancher/local-path-provisioner@v0.0.30"
HELM = "helm.sh/helm/v3@v3.19.5"
KUEUE = "sigs.k8s.io/kueue@v0.17.0"
KARPENTER = "sigs.k8s.io/karpenter@v1.14.0"
KWOK = "sigs.k8s.io/kwok@v0.7.0"
KYVERNO = "github.com/kyverno/kyverno@v1.18.2"
COMMANDS = (
    "k8s.io/kubernetes/cmd/kube-apiserver",
    "k8s.io/kubernetes/cmd/kube-controller-manager",
    "k8s.io/kubernetes/cmd/kube-scheduler",
    "k8s.io/kubernetes/cmd/kubelet",
    "k8s.io/kubernetes/cmd/kube-proxy",
    "k8s.io/kubernetes/cmd/kubectl",
    "go.etcd.io/etcd/server/v3",
)
_VERSION = "k8s.io/component-base/version"
_FLAGS = (
    f"-s -w -X {_VERSION}.gitVersion={KUBERNETES} -X {_VERSION}.gitMajor=1 -X {_VERSION}.gitMinor=34"
    f" -X k8s.io/client-go/pkg/version.gitVersion={KUBERNETES}"
)
_HELM_KUBERNETES = ("chartutil.k8sVersion", "lint/rules.k8sVersion")
"""Of which Kubernetes `helm template` and `helm lint` take the cluster to be."""
_INPUTS = ("go.mod", "go.sum", "pause/main.go")


def fingerprint() -> str:
    """What decides the binaries."""
    return content_hash(HERE / "build", _INPUTS, PROVISIONER, _FLAGS)


def are_built(layout: Layout) -> bool:
    """Whether the binaries of today's modules are in the cache."""
    stamp = layout.cache / "built"
    return stamp.exists() and stamp.read_text() == fingerprint()


def build(layout: Layout) -> None:
    """Compile what is not in the cache: minutes, once."""
    if are_built(layout):
        return
    if shutil.which("go") is None:
        raise LabFailed("no go on PATH: install Go 1.24 or later to build the lab cluster")
    layout.bin.mkdir(parents=True, exist_ok=True)
    directory = HERE / "build"
    _go(["build", "-trimpath", "-ldflags", _FLAGS, "-o", f"{layout.bin}/", *COMMANDS], directory)
    (layout.bin / "server").replace(layout.bin / "etcd")
    _go(["build", "-trimpath", "-ldflags", "-s -w", "-o", str(layout.bin / "pause"), "./pause"], directory)
    module = Path(json.loads(run(["go", "mod", "download", "-json", PROVISIONER], timeout_s=300))["Dir"])
    _go(["build", "-trimpath", "-ldflags", "-s -w", "-o", str(layout.bin / "local-path-provisioner"), "."], module)
    (layout.cache / "built").write_text(fingerprint())


def build_helm(layout: Layout) -> Path:
    """Compile helm from its module, once; return the program. The cluster does not need it."""
    version = HELM.rpartition("@")[2]
    program = layout.bin / f"helm-{version}"
    if not program.exists():
        package = "helm.sh/helm/v3"
        kubernetes = [
            f"-X {package}/pkg/{item}Minor=34 -X {package}/pkg/{item}Major=1" for item in _HELM_KUBERNETES
        ]
        flags = " ".join(["-s -w", f"-X {package}/internal/version.version={version}", *kubernetes])
        module = Path(json.loads(run(["go", "mod", "download", "-json", HELM], timeout_s=300))["Dir"])
        _go(["build", "-trimpath", "-ldflags", flags, "-o", f"{program}.partial", "./cmd/helm"], module)
        Path(f"{program}.partial").replace(program)
    return program


def build_controller(layout: Layout, name: str, module: str, package: str) -> tuple[Path, Path]:
    """Compile a controller from its module, once; return the program, and the module with its definitions.

    Args:
        name: of the program; its version is added.
        package: of the program in the module, such as `./cmd/kueue`.
    """
    directory = Path(json.loads(run(["go", "mod", "download", "-json", module], timeout_s=300))["Dir"])
    program = layout.bin / f"{name}-{module.rpartition('@')[2]}"
    if not program.exists():
        layout.bin.mkdir(parents=True, exist_ok=True)
        _go(["build", "-trimpath", "-ldflags", "-s -w", "-o", f"{program}.partial", package], directory)
        Path(f"{program}.partial").replace(program)
    return program, directory


def _go(arguments: list[str], directory: Path) -> None:
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly"}
    done = subprocess.run(["nice", "go", *arguments], cwd=directory, env=environment, check=False)
    if done.returncode != 0:
        raise LabFailed(f"go {arguments[0]} failed in {directory}; its output is above")
