"""The queue of a run is looked for before anything is made, and Jobs that Kueue suspends by itself join it."""

from __future__ import annotations

from typing import Any

import pytest
from fake_cluster import NAMESPACE, FakeCluster

from volbench.errors import MissingPrerequisite
from volbench.machine.cluster.queues import QUEUE_NAME, check_queue, join_queue, why_held, workload_of

GROUP = "/apis/kueue.x-k8s.io"
QUEUES = f"{GROUP}/v1beta1/namespaces/{NAMESPACE}/localqueues"


def with_kueue() -> FakeCluster:
    cluster = FakeCluster()
    cluster.put(GROUP, preferredVersion={"version": "v1beta1"})
    return cluster


def test_a_queue_in_a_cluster_without_kueue_is_refused() -> None:
    with pytest.raises(MissingPrerequisite, match="has no Kueue") as refused:
        check_queue(FakeCluster(), "team-a")
    assert refused.value.cause == "queue_missing"


def test_a_queue_that_the_namespace_has_not_is_refused() -> None:
    cluster = with_kueue()
    cluster.absent = (QUEUES,)
    with pytest.raises(MissingPrerequisite, match="no such queue") as refused:
        check_queue(cluster, "team-a")
    assert "kubectl get localqueue" in refused.value.next_step


def test_a_queue_that_is_there_or_that_nobody_may_look_up_is_taken() -> None:
    cluster = with_kueue()
    cluster.put(f"{QUEUES}/team-a")
    check_queue(cluster, "team-a")
    cluster.forbidden = (QUEUES,)
    check_queue(cluster, "another")


def job(cluster: FakeCluster, *, suspend: bool, labels: dict[str, str]) -> dict[str, Any]:
    return cluster.put(cluster.jobs("j"), metadata={"labels": labels}, spec={"suspend": suspend})


def test_a_job_that_was_suspended_without_a_queue_joins_that_of_the_run() -> None:
    cluster = FakeCluster()
    join_queue(cluster, job(cluster, suspend=True, labels={"a": "b"}), "team-a", doing="trying")
    assert cluster.objects[cluster.jobs("j")]["metadata"]["labels"] == {"a": "b", QUEUE_NAME: "team-a"}


@pytest.mark.parametrize(
    ("suspend", "labels"), [(False, {}), (True, {QUEUE_NAME: "default"})], ids=["runs", "has-a-queue"]
)
def test_another_job_stays_as_it_is(suspend: bool, labels: dict[str, str]) -> None:
    """A namespace's queue named `default` is given to Jobs by Kueue itself."""
    cluster = FakeCluster()
    made = job(cluster, suspend=suspend, labels=labels)
    join_queue(cluster, made, "", doing="trying")
    join_queue(cluster, made, "team-a", doing="trying")
    assert cluster.objects[cluster.jobs("j")]["metadata"]["labels"] == labels


def test_without_a_queue_a_job_that_nobody_would_admit_is_refused() -> None:
    cluster = FakeCluster()
    with pytest.raises(MissingPrerequisite, match="name no queue of Kueue") as refused:
        join_queue(cluster, job(cluster, suspend=True, labels={}), "", doing="trying")
    assert "--target-option queue=NAME" in refused.value.next_step
    assert refused.value.evidence == "job j is suspended"


def event(kind: str, reason: str, message: str) -> dict[str, Any]:
    return {"involvedObject": {"kind": kind, "name": "x"}, "reason": reason, "message": message}


def test_what_kueue_last_said_of_a_jobs_workload_is_why_it_waits() -> None:
    """The texts are those of Kueue's source, for events of Job and Workload."""
    created = event("Job", "CreatedWorkload", "Created Workload: bench/job-volbench-01-a-1-3f2a1")
    assert workload_of([event("Job", "Suspended", "x"), created]) == "job-volbench-01-a-1-3f2a1"
    assert workload_of([event("Job", "SuccessfulCreate", "Created pod: p")]) == ""
    held = (
        "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor small, 1 more needed"
    )
    events = [
        created,
        event("Workload", "Pending", held),
        event("Workload", "Admitted", "Admitted by ClusterQueue"),
    ]
    assert why_held(events) == held
    assert why_held([created]) == ""
