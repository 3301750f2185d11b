"""The sidecar and the ephemeral container of k8s/observe, against the API of several Kubernetes versions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes_schemas import VERSIONS, check
from typer.main import get_command

from volbench.cli.observe import app

OBSERVE = Path(__file__).parents[3] / "k8s" / "observe"
SIDECAR = yaml.safe_load((OBSERVE / "sidecar.yaml").read_text())["spec"]["template"]["spec"]
EPHEMERAL = yaml.safe_load((OBSERVE / "ephemeral.yaml").read_text())


def pod(spec: dict[str, Any]) -> dict[str, Any]:
    """The pod as a workload's template: the recorded schemas have no pod by itself."""
    template = {"metadata": {"labels": {"app": "mysql"}}, "spec": spec}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "mysql"}, "spec": {"template": template}}


@pytest.mark.parametrize("version", VERSIONS)
def test_pods_with_them_are_valid(version: str) -> None:
    check(pod(SIDECAR), version)
    image = "reg.example/volbench-tools:0.2.0"
    added = {**EPHEMERAL, "name": "observe", "image": image, "targetContainerName": "mysql"}
    server = {"name": "mysql", "image": "mysql:8.4"}
    check(pod({"containers": [server], "ephemeralContainers": [added]}), version)


@pytest.mark.parametrize("container", [SIDECAR["containers"][0], EPHEMERAL], ids=["sidecar", "ephemeral"])
def test_they_have_no_rights_and_only_read_the_data(container: dict[str, Any]) -> None:
    security = container["securityContext"]
    assert security["runAsUser"] != 0
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert all(mount["readOnly"] for mount in container["volumeMounts"] if mount["name"] == "data")


def test_the_sidecar_takes_options_that_there_are() -> None:
    names = {name for option in get_command(app).params for name in option.opts}
    assert {arg.partition("=")[0] for arg in SIDECAR["containers"][0]["args"]} <= names
