"""The owner of a run's objects in a cluster: a Job without pods, whose deadline is extended while the run goes on.

When nobody extends it any more, the cluster's own controllers end the Job (activeDeadlineSeconds), delete it
(ttlSecondsAfterFinished) and all that it owns: Jobs, pods, ConfigMaps, claims and with them their volumes.
"""

from __future__ import annotations

import getpass
import math
import socket
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from volbench.errors import StepFailed
from volbench.machine.cluster.client import Cluster
from volbench.machine.cluster.names import LABEL_RUN, MANAGED_BY, object_name
from volbench.machine.cluster.queues import join_queue
from volbench.machine.cluster.refusals import NotFound

Object = dict[str, Any]
OWNER = "owner"
"""The component, in the Job's labels and name."""
NOT_OWNER = f"app.kubernetes.io/component!={OWNER}"
"""Label selector of everything else."""
STARTED_BY = "volbench.org/started-by"
"""Annotation of the owner: `user@machine`, whom others ask about the run."""
_DUE_SHARE = 1 / 8
"""The time is extended when this part of `ttl` has passed."""
_ENDED_WAIT_S = 120.0
_POLL_S = 0.5


class RunOwner:
    """The owner of one run's objects; created when it is first referred to. Threads may share it.

    Args:
        ttl_s: how long the objects stay after the last extension.
        image: named in the Job's template, which has no pods.
        queue: of Kueue, for a cluster that suspends Jobs without one; empty: none.
    """

    def __init__(self, cluster: Cluster, run_id: str, *, ttl_s: float, image: str, queue: str = "") -> None:
        self._cluster = cluster
        self._run_id = run_id
        self._ttl_s = ttl_s
        self._image = image
        self._queue = queue
        self._job: Object | None = None
        self._extended_at = 0.0
        self._lock = threading.Lock()
        self._doing = f"extending the time of run {run_id} in the cluster"

    @property
    def ttl_s(self) -> float:
        """How long the objects stay after the last extension, in seconds."""
        return self._ttl_s

    def references(self) -> list[dict[str, str]]:
        """Return `ownerReferences` for an object of the run. Raise MissingPrerequisite, StepFailed."""
        with self._lock:
            return references_to(self._ensure())

    def extend(self) -> None:
        """Let the objects stay for the run's `ttl` from now on; the cluster is asked only when it is due."""
        with self._lock:
            # The wall clock goes on while a laptop sleeps, the monotonic clock does not.
            if abs(time.time() - self._extended_at) >= self._ttl_s * _DUE_SHARE:
                self._set_deadline()
                self._extended_at = time.time()

    def end(self, *, objects_stay: bool) -> None:
        """Delete the owner; if objects stay for a `resume`, let it own them for `ttl` from now on."""
        with self._lock:
            if not objects_stay:
                self._cluster.delete(self._path, doing=f"deleting the owner of run {self._run_id}")
                self._job = None
            elif self._find() is not None:
                self._set_deadline()

    @property
    def _path(self) -> str:
        return self._cluster.jobs(owner_name(self._run_id))

    def _find(self) -> Object | None:
        try:
            job: Object = self._cluster.ask("GET", self._path, doing=self._doing)
        except NotFound:
            return None
        return job

    def _ensure(self) -> Object:
        """Return the Job; one that has ended takes its objects with it, and is replaced when it is gone."""
        if self._job is not None:
            return self._job
        until_s = time.monotonic() + _ENDED_WAIT_S
        while (job := self._find()) is not None and _has_ended(job):
            if time.monotonic() > until_s:
                raise StepFailed(
                    "the run's objects of before are still being deleted: their time had passed",
                    where=self._doing,
                    evidence=f"job {owner_name(self._run_id)} has ended and is not gone",
                    next_step="see what holds them up with `volbench k8s list`, then `volbench resume RUN`",
                    cause="cluster_refused",
                )
            time.sleep(_POLL_S)
        if job is None:
            manifest = owner_manifest(self._run_id, ttl_s=self._ttl_s, image=self._image)
            manifest["metadata"]["annotations"] = {STARTED_BY: this_user()}
            self._cluster.apply_once(self._cluster.jobs(), manifest, doing=self._doing)
            job = self._cluster.ask("GET", self._path, doing=self._doing)
        join_queue(self._cluster, job, self._queue, doing=self._doing)
        self._job = job
        return job

    def _set_deadline(self) -> None:
        job = self._ensure()
        change = deadline_from_now(self._cluster, job, self._ttl_s, doing=self._doing)
        try:
            self._job = self._cluster.ask("PATCH", self._path, change, doing=self._doing)
        except NotFound:  # somebody deleted it, and what it owned: objects from now on have a new one
            self._job = None
            self._ensure()


def deadline_from_now(cluster: Cluster, job: Object, seconds: float, *, doing: str) -> Object:
    """Return the change of a Job by which its deadline is so far from now, by the API server's clock."""
    elapsed_s = (cluster.server_time(doing=doing) - _counts_from(job)).total_seconds()
    return {"spec": {"activeDeadlineSeconds": math.ceil(max(0.0, elapsed_s) + seconds)}}


def owner_name(run_id: str) -> str:
    """Return the name of the run's owner."""
    return object_name("volbench", run_id.rsplit("-", 1)[-1], OWNER)


def references_to(job: Object) -> list[dict[str, str]]:
    """Return `ownerReferences` to a Job."""
    metadata = job["metadata"]
    return [{"apiVersion": "batch/v1", "kind": "Job", "name": metadata["name"], "uid": metadata["uid"]}]


def owned(manifest: Object, references: list[dict[str, str]]) -> Object:
    """Return the manifest with these owners."""
    return {**manifest, "metadata": {**manifest["metadata"], "ownerReferences": references}}


def expires_at(job: Object) -> str:
    """Return until when the cluster keeps what the owner owns, in UTC: `2026-11-22T09:30:00Z`."""
    end = _counts_from(job) + timedelta(seconds=job["spec"]["activeDeadlineSeconds"])
    return end.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _counts_from(job: Object) -> datetime:
    """Return since when a Job's deadline passes: one that a queue had suspended begins when it is admitted."""
    return datetime.fromisoformat(job.get("status", {}).get("startTime") or job["metadata"]["creationTimestamp"])


def started_by(job: Object) -> str:
    """Return who started the run of an owner, as `user@machine`; empty where it does not say."""
    return str(job["metadata"].get("annotations", {}).get(STARTED_BY, ""))


def this_user() -> str:
    """Return `user@machine` of this process."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # an id without a name, as in many pods
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


def owner_manifest(run_id: str, *, ttl_s: float, image: str) -> Object:
    """Return the owner: a Job of zero pods that fails at its deadline and is deleted at once."""
    labels = {
        **MANAGED_BY,
        "app.kubernetes.io/name": "volbench",
        "app.kubernetes.io/instance": run_id.rsplit("-", 1)[-1],
        "app.kubernetes.io/component": OWNER,
        LABEL_RUN: run_id,
    }
    container = {
        "name": OWNER,
        "image": image,
        "command": ["true"],
        "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}, "limits": {"cpu": "1m", "memory": "1Mi"}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    pod = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65534,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": owner_name(run_id), "labels": labels},
        "spec": {
            "parallelism": 0,  # no pod is ever made: the Job only has the deadline
            "completions": 1,
            "backoffLimit": 0,
            "activeDeadlineSeconds": math.ceil(ttl_s),
            "ttlSecondsAfterFinished": 0,
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def _has_ended(job: Object) -> bool:
    conditions = job.get("status", {}).get("conditions", [])
    failed = any(
        condition["type"] in {"Failed", "FailureTarget"} and condition["status"] == "True"
        for condition in conditions
    )
    return failed or "deletionTimestamp" in job["metadata"]
