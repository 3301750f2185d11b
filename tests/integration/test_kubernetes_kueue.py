"""Real Kueue, its manager and its webhooks: it admits, holds and preempts the cells of a run.

On the lab cluster, where `python3 tests/lab/kubernetes kueue add` compiles it from its module.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import cluster_run
import pytest
from cluster_run import STORAGE_CLASS, ClusterBench, kubectl, lab, sleeping_container

from volbench.machine.cluster.queues import QUEUE_NAME

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif("not __import__('cluster_run').with_lab()", reason="makes definitions of the whole cluster"),
]
VERSION = "kueue.x-k8s.io/v1beta2"
QUEUE = "team-a"
VOLUMES = {"a": f"storage-class:{STORAGE_CLASS}"}
QUOTA = {"cpu": "1", "memory": "4Gi"}
BUSY = "900m"
"""What another team's job asks for; a cell does not fit beside it."""


def applied(*objects: dict[str, Any]) -> None:
    kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))


def queue_of(namespace: str) -> tuple[dict[str, Any], ...]:
    """A queue of the namespace with the quota, in which a workload of higher priority preempts others."""
    resources = [{"name": name, "nominalQuota": amount} for name, amount in QUOTA.items()]
    group = {"coveredResources": [*QUOTA], "flavors": [{"name": "small", "resources": resources}]}
    quota = {
        "namespaceSelector": {},
        "resourceGroups": [group],
        "preemption": {"withinClusterQueue": "LowerPriority"},
    }
    return (
        {"apiVersion": VERSION, "kind": "ResourceFlavor", "metadata": {"name": "small"}},
        {"apiVersion": VERSION, "kind": "ClusterQueue", "metadata": {"name": "shared"}, "spec": quota},
        {"apiVersion": VERSION, "kind": "WorkloadPriorityClass", "metadata": {"name": "urgent"}, "value": 1000},
        {
            "apiVersion": VERSION,
            "kind": "LocalQueue",
            "metadata": {"name": QUEUE, "namespace": namespace},
            "spec": {"clusterQueue": "shared"},
        },
    )


def job_of_others(namespace: str, name: str, **labels: str) -> dict[str, Any]:
    """A job of another team in the same queue, which sleeps."""
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [sleeping_container(BUSY)]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace, "labels": {QUEUE_NAME: QUEUE, **labels}},
        "spec": {"template": {"spec": pod}},
    }


@pytest.fixture(params=["add", "all"])
def queued(request: pytest.FixtureRequest, cluster: ClusterBench) -> Iterator[ClusterBench]:
    """A namespace with a queue of Kueue; `all`: it suspends jobs that name no queue too."""
    lab("kueue", request.param, timeout_s=1800)
    try:
        objects = queue_of(cluster.namespace)
        applied(*objects)
        yield cluster
        workloads = f"workloads.{VERSION.partition('/')[0]}"
        kubectl("delete", "jobs", "--all", "-n", cluster.namespace)
        cluster_run.until(
            lambda: not kubectl("get", workloads, "-n", cluster.namespace, "-o", "name"), "no workload is left"
        )
        for made in reversed(objects):
            kubectl("delete", "--wait=false", "-f", "-", stdin=json.dumps(made))
    finally:
        lab("kueue", "remove")


def is_admitted(cluster: ClusterBench, name: str) -> bool:
    job = json.loads(kubectl("get", "job", name, "-n", cluster.namespace, "-o", "json"))
    return not job["spec"]["suspend"] and bool(job["status"].get("active"))


def progress(cluster: ClusterBench) -> str:
    """What a cell or template says that it does."""
    texts = [path.read_text() for path in cluster.results.glob("*/**/progress.json")]
    return "\n".join(texts)


@pytest.mark.parametrize("queued", ["add"], indirect=True)
def test_cells_wait_for_quota_are_admitted_and_preempted(queued: ClusterBench) -> None:
    cluster, namespace = queued, queued.namespace
    applied(job_of_others(namespace, "occupant"))
    cluster_run.until(lambda: is_admitted(cluster, "occupant"), "the other team's job is admitted")
    process = cluster.start("steps.0.duration=20s", options=[f"queue={QUEUE}"], volumes=VOLUMES)
    cluster.until(lambda: "insufficient unused quota for cpu" in progress(cluster), process)
    assert f"waits for queue {QUEUE}: " in progress(cluster)
    assert cluster.objects("pods") == []
    owners = [job for job in cluster.objects("jobs") if job["metadata"]["name"].endswith("-owner")]
    assert [QUEUE_NAME in job["metadata"]["labels"] for job in owners] == [False]
    kubectl("delete", "job", "occupant", "-n", namespace)
    cluster.until(lambda: bool(cluster.cells_started()) and cluster.in_step(), process)
    cell = cluster.current_cell().name
    applied(job_of_others(namespace, "urgent", **{"kueue.x-k8s.io/priority-class": "urgent"}))
    cluster.until(lambda: (cell, 2) in cluster.events("cell_started"), process)
    cluster_run.until(lambda: is_admitted(cluster, "urgent"), "the urgent job is admitted")
    kubectl("delete", "job", "urgent", "-n", namespace)
    ended = cluster.end(process)
    assert ended.code == 0, ended.output
    cluster.assert_all_done_once()
    assert cluster.failed_causes() == {(cell, 1): "evicted"}
    assert cluster.leftovers() == []
    cluster.quote(
        "real Kueue 0.17 holds a cell, admits it, preempts it for an urgent job and admits it again", ended
    )


@pytest.mark.parametrize("queued", ["all"], indirect=True)
def test_where_kueue_manages_all_jobs_a_run_names_its_queue(queued: ClusterBench) -> None:
    """Without one nobody would admit the owner, and its deadline would not pass."""
    cluster = queued
    refused = cluster.end(cluster.start(volumes=VOLUMES))
    assert refused.code == 3, refused.output
    assert "suspends jobs that name no queue of Kueue" in refused.output
    assert cluster.leftovers() == []
    cluster.quote(
        "real Kueue 0.17 manages all jobs (manageJobsWithoutQueueName), and the run names no queue", refused
    )


@pytest.mark.parametrize("queued", ["all"], indirect=True)
def test_where_kueue_manages_all_jobs_owner_and_holder_join_the_runs_queue(queued: ClusterBench) -> None:
    cluster = queued
    process = cluster.start("steps.0.duration=10s", options=[f"queue={QUEUE}"], volumes=VOLUMES)
    cluster.until(lambda: bool(cluster.cells_started()) and cluster.in_step(), process)
    jobs = {job["metadata"]["labels"]["app.kubernetes.io/component"]: job for job in cluster.objects("jobs")}
    assert set(jobs) == {"owner", "holder", "cell"}
    assert {job["metadata"]["labels"][QUEUE_NAME] for job in jobs.values()} == {QUEUE}
    assert not any(job["spec"].get("suspend") for job in jobs.values())
    assert jobs["owner"]["status"]["startTime"], "its deadline passes"
    ended = cluster.end(process)
    assert ended.code == 0, ended.output
    cluster.assert_all_done_once()
    assert cluster.leftovers() == []
