"""The privileged helper on a node of the lab cluster: what it is to a cold read in a pod, and where it may run."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cluster_run
import pytest
from cluster_run import ClusterBench, kubectl
from live_run import FINISHED

from volbench.machine.placement.docker.image_names import local_images, pick_server_image, tools_image
from volbench.results.store.run_directory import find_runs

ROOT = Path(__file__).parents[2]
HELPER = "k8s/node-helper"
LABEL = "volbench.org/node-helper"
NAMESPACE = "volbench-node-helper"
pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.usefixtures("lab_images"),
    pytest.mark.skipif("not __import__('cluster_run').with_lab()", reason="labels nodes, starts a privileged pod"),
]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterBench]:
    """A restricted namespace for the test; afterwards the node has no helper."""
    with cluster_run.cluster_bench(tmp_path) as opened:
        try:
            yield opened
        finally:
            kubectl("delete", "--ignore-not-found", "--timeout=60s", "-k", HELPER)
            kubectl("label", "nodes", "--all", f"{LABEL}-")


def start_helper() -> None:
    """As k8s/README.md says, with the image of this code."""
    manifests = kubectl("kustomize", HELPER).replace("volbench.invalid/tools:0.2.0", tools_image())
    kubectl("apply", "-f", "-", stdin=manifests)
    requests = kubectl(
        "get", "daemonset", NAMESPACE, "-n", NAMESPACE, "-o", "jsonpath={.spec.template.spec.nodeSelector}"
    )
    assert json.loads(requests) == {LABEL: "allowed"}, "nothing runs on a node that was not labelled"
    kubectl("label", "nodes", "--all", f"{LABEL}=allowed")
    # Before the controller has seen the label, a rollout to no node at all counts as done.
    kubectl("wait", "pod", "-n", NAMESPACE, "--all", "--for=create", "--timeout=60s")
    kubectl("rollout", "status", f"daemonset/{NAMESPACE}", "-n", NAMESPACE, "--timeout=60s")


def cold_parts(cluster: ClusterBench, name: str) -> list[dict[str, Any]]:
    """What a run of one cell says of its cold file read and of its cold scan."""
    server = pick_server_image(local_images(), "mysql")
    image = [f"engine.image={server.name}"] if server is not None else []
    settings = [
        "dataset.tables=1",
        "dataset.rows=2000",
        "repeats=1",
        "limits.foreign_iops=1000000",
        "limits.foreign_cpu=100%",
        "replacements=0",
        *image,
    ]
    out = cluster.root / name
    ended = cluster.end(
        cluster.volbench(
            "run",
            str(ROOT / "suites" / "cold-read.yaml"),
            "--target",
            "kubernetes",
            "--yes",
            "--out",
            str(out),
            "--volume",
            f"a=storage-class:{cluster_run.STORAGE_CLASS}?size=1Gi",
            "--target-option",
            f"namespace={cluster.namespace}",
            *(argument for setting in settings for argument in ("--set", setting)),
        )
    )
    assert ended.code in FINISHED, ended.output
    (run,) = find_runs(out)
    (result,) = run.results()
    return [result.steps[0].details[piece] for piece in ("files", "table_scan")]


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_cold_read_is_truly_cold_only_where_the_node_has_a_helper(cluster: ClusterBench) -> None:
    """Without, it says that not all caches could be dropped; with it, they were. No page is resident either way."""
    without = cold_parts(cluster, "without")
    assert [(piece["label"], piece["machine_caches_dropped"]) for piece in without] == [("file-cold", False)] * 2
    start_helper()
    with_helper = cold_parts(cluster, "with")
    assert [(piece["label"], piece["machine_caches_dropped"]) for piece in with_helper] == [("true-cold", True)] * 2
    for section in (*without, *with_helper):
        assert section["pages"] > 0
        assert section["resident_pages_before"] == 0
        assert section["device_bytes"] >= 0.95 * section["read_bytes"]
    assert cluster.leftovers() == []


def test_a_restricted_namespace_takes_no_privileged_pod(cluster: ClusterBench) -> None:
    """The helper in the cells' namespace is refused by the cluster: it needs the one of its own."""
    pod = json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "helper"},
            "spec": {"containers": [{"name": "h", "image": "x", "securityContext": {"privileged": True}}]},
        }
    )
    result = subprocess.run(
        ["kubectl", "apply", "-n", cluster.namespace, "-f", "-"],
        input=pod,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert result.returncode != 0
    assert "violates PodSecurity" in result.stderr
