"""Manifests that `volbench k8s render` cannot show, since it asks no cluster."""

from __future__ import annotations

from typing import Any

import kubernetes_schemas
import pytest

from volbench.machine.placement.kubernetes.cell_objects import CellObjects
from volbench.machine.placement.kubernetes.manifests import job
from volbench.machine.placement.kubernetes.options import KubernetesOptions
from volbench.machine.placement.kubernetes.target import pod_paths


def job_of(emulator_claim: str) -> dict[str, Any]:
    return job(
        CellObjects(
            run_id="20260101T000000Z-quick-abcdef",
            cell_id="01-a",
            attempt=1,
            kind="run",
            cell_json="{}",
            supervisor="",
            claim="data",
            server_image="mysql:8.4",
            tools_image="tools:1",
            paths=pod_paths("v"),
            deadline_s=60.0,
            options=KubernetesOptions(),
            emulator_claim=emulator_claim,
        )
    )


@pytest.mark.parametrize("version", kubernetes_schemas.VERSIONS)
def test_the_agent_alone_reaches_an_emulated_volume_s_socket_and_only_to_ask(version: str) -> None:
    """The claim is mounted read-only twice over, so that the kubelet changes nothing on it either."""
    made = job_of("control")
    kubernetes_schemas.check(made, version)
    pod = made["spec"]["template"]["spec"]
    (volume,) = [volume for volume in pod["volumes"] if volume["name"] == "emulator"]
    assert volume["persistentVolumeClaim"] == {"claimName": "control", "readOnly": True}
    mounts = {
        item["name"]: mount.get("readOnly")
        for item in (*pod["initContainers"], *pod["containers"])
        for mount in item["volumeMounts"]
        if mount["name"] == "emulator"
    }
    assert mounts == {"agent": True}


def test_without_such_a_claim_nothing_of_it_is_mounted() -> None:
    assert "emulator" not in str(job_of("")["spec"])
