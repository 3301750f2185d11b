"""Holders: a pod on each node that a run measures on, which keeps the node for the run while that lives.

A holder asks autoscalers to leave its node alone, and the scheduler to leave it to the run. Cells follow it by pod
affinity. It is a Job of one pod that does nothing. Its deadline is put off while somebody follows the run, so a
lost laptop holds an instance no longer than the cell in progress may take.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Mapping
from typing import Any

from volbench.errors import StepFailed
from volbench.machine.cluster.client import Cluster
from volbench.machine.cluster.names import object_name
from volbench.machine.cluster.queues import join_queue
from volbench.machine.cluster.refusals import NotFound
from volbench.machine.placement.kubernetes.affinity import COMPONENT, HOLDER, LABEL_HOLDER, apart_from_other_runs
from volbench.machine.placement.kubernetes.cell_objects import labels_of_run
from volbench.machine.placement.kubernetes.manifests import (
    NO_DISRUPTION,
    container_basics,
    pod_basics,
    with_storage,
)
from volbench.machine.placement.kubernetes.options import KubernetesOptions, labels_of
from volbench.machine.volume.kinds.run_owner import RunOwner, deadline_from_now, owned

Object = dict[str, Any]
SPARE_S = 600.0
"""How long a node is held after the cell in progress must have ended: time to come back to a terminal."""
_DUE_SHARE = 1 / 8
_START_S_MAX = 30.0
_ADMITTED_S_MAX = 10.0
"""How long a queue may take to admit a holder. Where it has no room for one, cells go without."""
_POLL_S = 0.5
_LIMITS = {"cpu": "10m", "memory": "16Mi"}
_REQUESTS = {"cpu": "1m", "memory": "8Mi"}
"""It sleeps. A node that cells leave no room on has room for this."""


class Holders:
    """The holders of one run, by key: which of the run's nodes it is. Threads may share it.

    Args:
        owner: of the run's objects.
        image: of the pods; one that the first cell's node has already.
    """

    def __init__(self, cluster: Cluster, run_id: str, *, owner: RunOwner, image: str) -> None:
        self._cluster, self._run_id, self._owner, self._image = cluster, run_id, owner, image
        self._placed: dict[str, str] = {}
        self._extended_at = 0.0
        self._hold_s = SPARE_S
        self._lock = threading.Lock()

    def hold(self, key: str, node: str, options: KubernetesOptions) -> None:
        """Make the holder of a node, unless there is one. Raise MissingPrerequisite, StepFailed."""
        with self._lock:
            if self._placed.get(key) == node:
                return
            doing = f"keeping node {node} for run {self._run_id}"
            manifest = holder_manifest(
                self._run_id, key, node=node, image=self._image, options=options, hold_s=self._hold_s
            )
            path = self._cluster.jobs(manifest["metadata"]["name"])
            if self._has_ended(path, doing):  # evicted, or past its deadline while nobody was there
                self._cluster.delete(path, doing=doing)
                self._await_gone(path, doing)
            references = self._owner.references()
            self._cluster.apply_once(self._cluster.jobs(), owned(manifest, references), doing=doing)
            with contextlib.suppress(NotFound):  # gone again, which `keeps` tells
                join_queue(self._cluster, self._cluster.ask("GET", path, doing=doing), options.queue, doing=doing)
            self._placed[key] = node

    def keeps(self, key: str) -> bool:
        """Return whether the holder's pod is on its node, after waiting a moment for queue and Job's controller."""
        path, doing = self._cluster.jobs(holder_name(self._run_id, key)), "looking for the holder of a node"
        since_s = time.monotonic()
        while key in self._placed:
            try:
                job = self._cluster.ask("GET", path, doing=doing)
            except NotFound:
                break
            if job.get("status", {}).get("active"):  # on its node, so a cell can follow it: also if that is cut off
                return not _is_over(job)
            limit_s = _ADMITTED_S_MAX if job["spec"].get("suspend") else _START_S_MAX
            if _is_over(job) or time.monotonic() - since_s > limit_s:
                break
            time.sleep(_POLL_S)
        with self._lock:
            self._placed.pop(key, None)
        return False

    def extend(self, hold_s: float = 0.0) -> None:
        """Let all holders live on for the cell in progress; the cluster is asked only when it is due.

        Args:
            hold_s: how long a cell that begins now may take; 0: as before.
        """
        with self._lock:
            is_longer = hold_s + SPARE_S > self._hold_s
            self._hold_s = max(self._hold_s, hold_s + SPARE_S)
            if not is_longer and abs(time.time() - self._extended_at) < self._hold_s * _DUE_SHARE:
                return
            for key in list(self._placed):
                self._put_off(key)
            self._extended_at = time.time()

    def _put_off(self, key: str) -> None:
        path, doing = self._cluster.jobs(holder_name(self._run_id, key)), "keeping a node for the run"
        try:
            job = self._cluster.ask("GET", path, doing=doing)
            if not _is_over(job):
                change = deadline_from_now(self._cluster, job, self._hold_s, doing=doing)
                self._cluster.ask("PATCH", path, change, doing=doing)
        except NotFound:
            self._placed.pop(key, None)

    def _has_ended(self, path: str, doing: str) -> bool:
        try:
            return _is_over(self._cluster.ask("GET", path, doing=doing))
        except NotFound:
            return False

    def _await_gone(self, path: str, doing: str) -> None:
        until_s = time.monotonic() + _START_S_MAX
        while time.monotonic() < until_s:
            try:
                self._cluster.ask("GET", path, doing=doing)
            except NotFound:
                return
            time.sleep(_POLL_S)
        raise StepFailed("an earlier holder of the node does not go", where=doing, evidence=path)


def holder_name(run_id: str, key: str) -> str:
    """Return the name of the holder's Job."""
    return object_name("volbench", run_id.rsplit("-", 1)[-1], HOLDER, key)


def holder_manifest(
    run_id: str, key: str, *, node: str, image: str, options: KubernetesOptions, hold_s: float
) -> Object:
    """Return the Job of a holder.

    Its pod is put on the node without the scheduler: a cell of the run is there already.
    """
    labels: Mapping[str, str] = {
        **labels_of(options.labels),
        **labels_of_run(run_id),
        COMPONENT: HOLDER,
        LABEL_HOLDER: key,
    }
    container = {
        **container_basics(options, HOLDER, image, ["sleep", "infinity"]),
        "resources": with_storage({"requests": _REQUESTS, "limits": _LIMITS}, options),
    }
    apart = {"requiredDuringSchedulingIgnoredDuringExecution": [apart_from_other_runs(run_id)]}
    pod = {
        **pod_basics(options),
        "nodeName": node,
        "affinity": {"podAntiAffinity": apart},
        "containers": [container],
        "terminationGracePeriodSeconds": 0,
    }
    annotations = {**labels_of(options.annotations), **NO_DISRUPTION}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": holder_name(run_id, key),
            "labels": labels,
            "annotations": labels_of(options.annotations),
        },
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": math.ceil(hold_s),
            "ttlSecondsAfterFinished": 0,
            "template": {"metadata": {"labels": labels, "annotations": annotations}, "spec": pod},
        },
    }


def _is_over(job: Object) -> bool:
    conditions = job.get("status", {}).get("conditions", [])
    ended = {"Failed", "FailureTarget", "Complete"}
    return "deletionTimestamp" in job["metadata"] or any(
        condition["type"] in ended and condition["status"] == "True" for condition in conditions
    )
