"""Cells in a queue: suspended Jobs with Kueue's label, admitted and preempted by a controller of this test.

The controller does what Kueue does with plain Jobs: it sets `spec.suspend` of a Job with the label
`kueue.x-k8s.io/queue-name` to false to admit, to true to preempt. It has Kueue's kind LocalQueue, without a schema.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import cluster_run
import pytest
from cluster_run import ClusterBench, kubectl

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(900)]
QUEUE = "team-a"
GROUP = "kueue.x-k8s.io"
on_lab = pytest.mark.skipif(
    "not __import__('cluster_run').with_lab()", reason="makes definitions of the whole cluster"
)
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": f"localqueues.{GROUP}",
        "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/kueue"},
    },
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"kind": "LocalQueue", "plural": "localqueues", "singular": "localqueue"},
        "versions": [
            {
                "name": "v1beta1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                },
            }
        ],
    },
}


@pytest.fixture
def queue(cluster: ClusterBench) -> Iterator[ClusterBench]:
    """A cluster with Kueue's kind of queue, and one of them in the test's namespace."""
    kubectl("apply", "-f", "-", stdin=json.dumps(DEFINITION))
    kubectl("wait", "--for=condition=Established", "--timeout=60s", f"crd/localqueues.{GROUP}")
    made = {"apiVersion": f"{GROUP}/v1beta1", "kind": "LocalQueue", "metadata": {"name": QUEUE}}
    cluster_run.until(
        lambda: "localqueues" in kubectl("api-resources", f"--api-group={GROUP}", "--cached=false", "-o", "name"),
        "the API server serves queues",
    )
    kubectl("apply", "-n", cluster.namespace, "-f", "-", stdin=json.dumps(made))
    try:
        yield cluster
    finally:
        kubectl("delete", f"crd/localqueues.{GROUP}")


def set_suspend(cluster: ClusterBench, suspend: bool, selector: str = "") -> int:
    """Admit or preempt the queue's jobs that are not so yet; return how many."""
    label = f"kueue.x-k8s.io/queue-name={QUEUE}" + (f",{selector}" if selector else "")
    jobs = [
        job["metadata"]["name"]
        for job in cluster.objects("jobs", label)
        if bool(job["spec"].get("suspend")) is not suspend and "deletionTimestamp" not in job["metadata"]
    ]
    for name in jobs:
        change = f'{{"spec": {{"suspend": {str(suspend).lower()}}}}}'
        kubectl("patch", "job", name, "-n", cluster.namespace, "--type=merge", "-p", change)
    return len(jobs)


@on_lab
def test_a_queue_that_the_namespace_has_not_is_refused_before_anything_is_made(queue: ClusterBench) -> None:
    ended = queue.end(queue.start(options=["queue=nobodys"]))
    assert ended.code == 3, ended.output
    assert "the namespace has no such queue of Kueue" in ended.output
    assert queue.leftovers() == []
    queue.quote("the queue of Kueue is not in the namespace", ended)


@on_lab
def test_a_queue_in_a_cluster_without_kueue_is_refused(cluster: ClusterBench) -> None:
    ended = cluster.end(cluster.start(options=[f"queue={QUEUE}"]))
    assert ended.code == 3, ended.output
    assert "the cluster has no Kueue" in ended.output
    assert cluster.leftovers() == []
    cluster.quote("a queue is named in a cluster without Kueue", ended)


@on_lab
@pytest.mark.slow
def test_cells_wait_for_their_queue_and_a_preempted_one_is_begun_again(queue: ClusterBench) -> None:
    """A suspended Job has no pod, and its wait is the queue's. Preemption is no try of the cell."""
    cluster = queue
    volumes = {"a": f"storage-class:{cluster_run.STORAGE_CLASS}"}
    options = [f"queue={QUEUE}", "start_timeout=90s"]
    process = cluster.start("steps.0.duration=10s", options=options, volumes=volumes)
    cluster.until(lambda: cluster.objects("jobs", "app.kubernetes.io/component=cell") != [], process)
    assert cluster.objects("pods") == []
    preempted = ""

    def admitted_until_preempted() -> bool:
        nonlocal preempted
        if cluster.cells_started() and cluster.in_step():
            preempted = cluster.current_cell().name
            return set_suspend(cluster, True, f"volbench.org/cell={preempted}") == 1
        set_suspend(cluster, False)
        return False

    cluster.until(admitted_until_preempted, process)
    cluster.until(lambda: (preempted, 2) in cluster.events("cell_started"), process)

    def admitted_to_the_end() -> bool:
        set_suspend(cluster, False)
        return process.poll() is not None

    cluster.until(admitted_to_the_end)
    ended = cluster.end(process)
    assert ended.code == 0, ended.output
    cluster.assert_all_done_once()
    assert cluster.failed_causes() == {(preempted, 1): "evicted"}
    cluster.quote("a cell's Job is suspended by its queue, released, preempted and released", ended)
