"""Real Kyverno: its policies that want a label name themselves in a run's error, and let a run with it pass.

`python3 tests/lab/kubernetes kyverno add` compiles its admission controller from its module.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import cluster_run
import live_run
import pytest
from cluster_run import STORAGE_CLASS, ClusterBench, kubectl, lab

from volbench.errors import EXIT_ENVIRONMENT

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.slow,
    pytest.mark.timeout(4500),  # the first one compiles
    pytest.mark.skipif("not __import__('cluster_run').with_lab()", reason="makes definitions of the whole cluster"),
    pytest.mark.usefixtures("kyverno"),
]
VOLUMES = {"a": f"storage-class:{STORAGE_CLASS}?size=1Gi"}
KINDS = ("ConfigMap", "Job", "PersistentVolumeClaim", "Pod")
ALONE = {"pod-policies.kyverno.io/autogen-controllers": "none"}
"""Annotation of a policy: its rule for pods is none for what makes pods."""


@pytest.fixture(scope="module")
def kyverno() -> Iterator[None]:
    """Kyverno, without a policy."""
    lab("kyverno", "add", timeout_s=3600)
    yield
    lab("kyverno", "remove")


@contextmanager
def policy(cluster: ClusterBench, *kinds: str, annotations: dict[str, str] | None = None) -> Iterator[str]:
    """A ClusterPolicy that wants the label `team` on the namespace's objects of these kinds; its name."""
    name = f"team-of-{kinds[0].lower()}-{cluster.namespace}"
    rule = {
        "name": "team",
        "match": {"any": [{"resources": {"kinds": list(kinds), "namespaces": [cluster.namespace]}}]},
        "validate": {
            "failureAction": "Enforce",
            "message": "the label team is required",
            "pattern": {"metadata": {"labels": {"team": "?*"}}},
        },
    }
    manifest: dict[str, Any] = {
        "apiVersion": "kyverno.io/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": {"background": False, "rules": [rule]},
    }
    kubectl("apply", "--server-side", "--validate=false", "-f", "-", stdin=json.dumps(manifest))
    try:
        cluster_run.until(lambda: name in refusal_of_probe(cluster.namespace, kinds[0]), "the policy is in force")
        yield name
    finally:
        kubectl("delete", "clusterpolicies.kyverno.io", name)


def refusal_of_probe(namespace: str, kind: str) -> str:
    """What the API server says to an object of the kind that has no label, and is not made."""
    container = {
        "name": "probe",
        "image": "probe",
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    pod = {
        "restartPolicy": "Never",
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
    }
    specs: dict[str, dict[str, Any]] = {
        "ConfigMap": {"data": {}},
        "Pod": {"spec": pod},
        "Job": {"spec": {"template": {"spec": pod}}},
        "PersistentVolumeClaim": {
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        },
    }
    version = "batch/v1" if kind == "Job" else "v1"
    probe = {"apiVersion": version, "kind": kind, "metadata": {"name": "probe"}, **specs[kind]}
    command = ["kubectl", "create", "-n", namespace, "--dry-run=server", "-f", "-"]
    done = subprocess.run(command, input=json.dumps(probe), capture_output=True, text=True, check=False, timeout=30)
    return done.stderr


@pytest.mark.parametrize(
    ("kinds", "annotations"),
    [
        pytest.param(KINDS, {}, id="all"),
        pytest.param(("Job",), {}, id="jobs"),
        pytest.param(("PersistentVolumeClaim",), {}, id="claims"),
        pytest.param(("ConfigMap",), {}, id="config maps"),
        pytest.param(("Pod",), {}, id="pods and what makes them"),
        pytest.param(("Pod",), ALONE, id="pods alone"),
    ],
)
def test_the_policy_that_refuses_an_object_is_named(
    cluster: ClusterBench, kinds: tuple[str, ...], annotations: dict[str, str], request: pytest.FixtureRequest
) -> None:
    """Whichever object is the first that it refuses; it is no lack of rights, and nothing of the run stays."""
    with policy(cluster, *kinds, annotations=annotations) as name:
        refused = cluster.end(cluster.start(volumes=VOLUMES))
    assert refused.code == EXIT_ENVIRONMENT, refused.output
    assert "a policy of the cluster refused the object" in refused.output
    assert name in refused.output
    assert "the label team is required" in refused.output
    assert "labels=KEY=VALUE" in refused.output
    assert "RBAC" not in refused.output
    assert cluster.everything() == set()
    cluster.quote(f"a policy of real Kyverno 1.18 wants a label ({request.node.callspec.id})", refused)


def test_a_run_with_the_label_is_admitted(cluster: ClusterBench) -> None:
    """All its objects: claims, owner, holder, cells and their inputs, and the pods that their Jobs describe."""
    with policy(cluster, *KINDS), policy(cluster, "Pod"):
        process = cluster.start("steps.0.duration=8s", options=["labels=team=dba"], volumes=VOLUMES)
        cluster.until(lambda: bool(cluster.cells_started()) and cluster.in_step(), process)
        made = [item for kinds in ("jobs", "pods", "pvc", "configmaps") for item in cluster.objects(kinds)]
        kinds_made = {item["kind"] for item in made}
        components = {item["metadata"]["labels"].get("app.kubernetes.io/component") for item in made}
        assert {item["metadata"]["labels"].get("team") for item in made} == {"dba"}
        ended = cluster.end(process)
    assert ended.code in live_run.FINISHED, ended.output
    assert kinds_made == set(KINDS)
    assert {"owner", "holder", "cell"} <= components
    cluster.assert_all_done_once()
    assert cluster.everything() == set()
