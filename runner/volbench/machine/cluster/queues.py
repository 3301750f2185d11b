"""Kueue, where a cluster has it: the queue of a run, and the Jobs that Kueue suspends though they name none.

As the source of Kueue 0.17.0 has it (sigs.k8s.io/kueue, pkg/controller/jobframework):
- Its webhook suspends each Job that has the label QUEUE_NAME, and with `manageJobsWithoutQueueName` those without
  it too, which nobody ever admits (defaults.go, WorkloadShouldBeSuspended). A suspended Job's deadline does not
  pass, so an owner that stays suspended would delete nothing of a lost laptop's run.
- A Job's queue may be named while it is suspended (validation.go, validateUpdateForQueueName).
- A Job belongs to another one by the owner reference of a controller alone (reconciler.go,
  FindAncestorJobManagedByKueue), which those of a run are not: each cell is admitted by itself.
- For a queue that is missing Kueue writes no event (pkg/controller/core/workload_controller.go,
  reconcileOnLocalQueueActiveState).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from volbench.errors import MissingPrerequisite
from volbench.machine.cluster.client import Cluster
from volbench.machine.cluster.refusals import NotFound, Refusal

Object = dict[str, Any]
QUEUE_NAME = "kueue.x-k8s.io/queue-name"
_GROUP = "kueue.x-k8s.io"
_CREATED = re.compile(r"^Created Workload: [^/\s]+/(\S+)$")
_ADMITTED = {"QuotaReserved", "Admitted"}

NO_KUEUE = Refusal(
    what="the cluster has no Kueue, so nobody would admit the run's jobs",
    cause="queue_missing",
    next_step="leave the target option `queue` out, or install Kueue",
)
NO_QUEUE = Refusal(
    what="the namespace has no such queue of Kueue",
    cause="queue_missing",
    next_step="`kubectl get localqueue -A` lists them with their namespaces; --target-option queue=NAME",
)
UNNAMED_QUEUE = Refusal(
    what="the cluster suspends jobs that name no queue of Kueue, and nobody admits them",
    cause="queue_missing",
    next_step="name one of the namespace (`kubectl get localqueue`): --target-option queue=NAME",
)


def check_queue(cluster: Cluster, queue: str) -> None:
    """Look for the queue that a run's Jobs name. Raise MissingPrerequisite where there certainly is none.

    A user who may not read queues is not told.
    """
    doing = f"looking for queue {queue} in namespace {cluster.namespace}"
    try:
        version = _version(cluster, doing)
        path = f"/apis/{_GROUP}/{version}/namespaces/{cluster.namespace}/localqueues/{queue}"
        cluster.ask("GET", path, doing=doing)
    except NotFound as missing:
        raise NO_QUEUE.at(doing, missing.evidence) from missing
    except MissingPrerequisite as error:
        if error.cause != "no_permission":
            raise


def _version(cluster: Cluster, doing: str) -> str:
    try:
        group = cluster.ask("GET", f"/apis/{_GROUP}", doing=doing)
    except NotFound as missing:
        raise NO_KUEUE.at(doing, missing.evidence) from missing
    return str(group["preferredVersion"]["version"])


def join_queue(cluster: Cluster, job: Object, queue: str, *, doing: str) -> None:
    """Give the run's queue to a Job that the cluster has suspended by itself.

    Raises MissingPrerequisite for one that nobody would ever admit.
    """
    if not job["spec"].get("suspend") or QUEUE_NAME in job["metadata"].get("labels", {}):
        return
    if not queue:
        raise UNNAMED_QUEUE.at(doing, f"job {job['metadata']['name']} is suspended")
    change = {"metadata": {"labels": {QUEUE_NAME: queue}}}
    cluster.ask("PATCH", cluster.jobs(job["metadata"]["name"]), change, doing=doing)


def workload_of(events: Iterable[Object]) -> str:
    """Return the name of Kueue's Workload for a Job, by the Job's events; empty where they name none."""
    created = [_CREATED.match(str(event.get("message", ""))) for event in events]
    return next((match[1] for match in reversed(created) if match), "")


def why_held(events: Iterable[Object]) -> str:
    """Return what Kueue last said of a Workload that it holds, such as which quota is used up; empty: nothing."""
    messages = [
        event
        for event in events
        if event["involvedObject"]["kind"] == "Workload" and event.get("reason") not in _ADMITTED
    ]
    return str(messages[-1].get("message", "")).strip() if messages else ""
