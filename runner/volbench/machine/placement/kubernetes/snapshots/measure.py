"""Takes a snapshot of a claim, restores it to a new claim, reads that; and removes all of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import datetime
from typing import Any

from volbench.core.base.parse import parse_json
from volbench.core.records.snapshots import RestoreTimes, SnapshotTimes
from volbench.errors import MissingPrerequisite, StepFailed, VolbenchError, VolumeUnavailable
from volbench.machine.cluster.client import Cluster
from volbench.machine.cluster.queues import join_queue
from volbench.machine.cluster.refusals import NotFound
from volbench.machine.placement.kubernetes.pods import (
    describe_pod,
    is_over,
    mount_trouble,
    status_of,
    waiting_trouble,
)
from volbench.machine.placement.kubernetes.rights import SNAPSHOTS, missing_rights
from volbench.machine.placement.kubernetes.snapshots.manifests import (
    API_VERSION,
    READER,
    SnapshotPlan,
    reader_job,
    restored_claim,
    volume_snapshot,
)
from volbench.machine.volume.kinds.run_owner import owned

Object = dict[str, Any]
_POLL_S = 1.0
FINAL_TROUBLE_AFTER_S = 20.0
"""How long to wait for an image that cannot be pulled, as for a cell."""
SETUP = (
    "install the snapshot API (CRDs and controller of kubernetes-csi/external-snapshotter; on EKS the add-on"
    " snapshot-controller), and apply k8s/snapshots for the rights"
)

RIGHTS = "apply k8s/snapshots, which grants the rights to make and delete VolumeSnapshots"


def measure_snapshot(
    cluster: Cluster,
    plan: SnapshotPlan,
    references: Callable[[], list[dict[str, str]]],
    *,
    timeout_s: float,
    restore: bool = True,
    keep: bool = False,
    say: Callable[[str], object] = lambda _: None,
    ended: Callable[[], object] = lambda: None,
    cancelled: threading.Event | None = None,
) -> SnapshotTimes:
    """Take, restore and read a snapshot; remove everything but the source, unless it shall be kept.

    Args:
        references: returns the `ownerReferences` of what is made, so that the cluster deletes it when this process
            is gone for good.
        timeout_s: of the snapshot, and again of restore and reads.
        restore: whether it is restored and read.
        say: called with a line when the snapshot is ready.
        ended: called when the snapshot is ready or, where it is restored, read; its objects are then removed.
        cancelled: set to give up.

    Raises MissingPrerequisite without the snapshot API, its rights, or a class; VolumeUnavailable for a source
    without a volume; StepFailed for a snapshot or a restored volume that does not come.
    """
    cancelled = cancelled or threading.Event()
    source = _source(cluster, plan)
    owners = references()
    path = f"{snapshots_path(cluster)}/{plan.name}"
    with ExitStack() as stack:
        begun_s = time.monotonic()
        if not keep:  # before the request: its answer may be lost
            stack.callback(_remove, cluster, path)
        made = _create(cluster, owned(volume_snapshot(plan), owners))
        ready = _await_ready(cluster, path, timeout_s, cancelled)
        ready_s = time.monotonic() - begun_s
        say(f"the snapshot is ready after {ready_s:.0f} s")
        times = SnapshotTimes(claim=plan.claim, snapshot=plan.name, cut_s=_cut_s(made, ready), ready_s=ready_s)
        if not restore:
            ended()
            return times
        claim = restored_claim(plan, source, str(ready["status"].get("restoreSize") or ""))
        doing = f"restoring snapshot {plan.name}"
        if not keep:
            stack.callback(_remove, cluster, f"persistentvolumeclaims/{plan.name}")
            stack.callback(_remove, cluster, cluster.jobs(plan.name))
        claim = cluster.ask("POST", "persistentvolumeclaims", owned(claim, owners), doing=doing)
        reader = cluster.ask("POST", cluster.jobs(), owned(reader_job(plan), owners), doing=doing)
        join_queue(cluster, reader, plan.options.queue, doing=doing)
        pod, read = _await_reader(cluster, plan, timeout_s, cancelled)
        ended()
    started = status_of(pod, READER)["state"]["terminated"]["startedAt"]
    restored = RestoreTimes(
        restore_s=(_moment(started) - _moment(claim["metadata"]["creationTimestamp"])).total_seconds(),
        files=read["files"],
        bytes=read["bytes"],
        unreadable=read["unreadable"],
        first_read_s=read["first_s"],
        second_read_s=read["second_s"],
    )
    return times.model_copy(update={"restored": restored})


def require_snapshots(cluster: Cluster) -> None:
    """Raise MissingPrerequisite for a cluster without the snapshot API, or without the rights to use it."""
    try:
        cluster.ask("GET", f"/apis/{API_VERSION}", doing="looking for the snapshot API")
    except NotFound as missing:
        raise _no_snapshot_api(missing) from missing
    if missing_verbs := missing_rights(cluster, SNAPSHOTS):
        raise MissingPrerequisite(
            f"permissions are missing in namespace {cluster.namespace}",
            where="snapshots of volumes",
            evidence=", ".join(missing_verbs),
            next_step=RIGHTS,
            cause="no_permission",
        )


def _no_snapshot_api(missing: NotFound) -> MissingPrerequisite:
    return MissingPrerequisite(
        "the cluster has no snapshot API",
        where=API_VERSION,
        evidence=missing.evidence.strip(),
        next_step=SETUP,
        cause="no_snapshots",
    )


def remove_snapshot(cluster: Cluster, plan: SnapshotPlan) -> bool:
    """Remove what a process that ended before left of a plan; return whether there was a snapshot of it."""
    path = f"{snapshots_path(cluster)}/{plan.name}"
    doing = f"deleting what is left of snapshot {plan.name}"
    try:
        cluster.ask("GET", path, doing=doing)
    except NotFound:
        return False
    for left in (cluster.jobs(plan.name), f"persistentvolumeclaims/{plan.name}", path):
        cluster.delete(left, doing=doing)
    return True


def snapshots_path(cluster: Cluster) -> str:
    """Return the path of the namespace's VolumeSnapshots in the API."""
    return f"/apis/{API_VERSION}/namespaces/{cluster.namespace}/volumesnapshots"


def _remove(cluster: Cluster, path: str) -> None:
    """Delete an object that may exist; what this user may not delete it could not create."""
    try:
        cluster.delete(path, doing=f"deleting {path.rpartition('/')[2]} of a snapshot")
    except MissingPrerequisite as refused:
        if refused.cause != "no_permission":
            raise


def _source(cluster: Cluster, plan: SnapshotPlan) -> Object:
    where = f"claim {plan.claim} of namespace {cluster.namespace}"
    try:
        claim: Object = cluster.ask("GET", f"persistentvolumeclaims/{plan.claim}", doing=f"looking for {where}")
    except NotFound as missing:
        raise VolumeUnavailable(
            "there is no such claim",
            where=where,
            evidence=missing.evidence,
            cause="volume_gone",
            next_step=f"`kubectl get pvc -n {cluster.namespace}` lists them",
        ) from missing
    if not claim["spec"].get("volumeName"):
        raise VolumeUnavailable("no volume is bound to the claim", where=where, cause="volume_pending")
    return claim


def _create(cluster: Cluster, snapshot: Object) -> Object:
    try:
        made: Object = cluster.ask("POST", snapshots_path(cluster), snapshot, doing="taking a snapshot")
    except NotFound as missing:
        raise _no_snapshot_api(missing) from missing
    except MissingPrerequisite as refused:
        if refused.cause == "no_permission":
            refused.next_step = RIGHTS
        raise
    return made


def _await_ready(cluster: Cluster, path: str, timeout_s: float, cancelled: threading.Event) -> Object:
    until_s = time.monotonic() + timeout_s
    while True:
        snapshot: Object = cluster.ask("GET", path, doing="waiting for the snapshot")
        status = snapshot.get("status", {})
        if status.get("readyToUse"):
            return snapshot
        if time.monotonic() > until_s:
            message = str((status.get("error") or {}).get("message", ""))
            raise StepFailed(
                "the snapshot is not ready",
                where=f"VolumeSnapshot {snapshot['metadata']['name']}",
                evidence=message or f"nobody has acted on it: status {status or 'empty'}",
                next_step="`kubectl get volumesnapshotclass` lists the classes: one must be of the claim's driver"
                if message
                else SETUP,
                cause="snapshot_failed",
            )
        if cancelled.wait(_POLL_S):
            raise StepFailed("the snapshot was cancelled", where=path)


def _await_reader(
    cluster: Cluster, plan: SnapshotPlan, timeout_s: float, cancelled: threading.Event
) -> tuple[Object, dict[str, Any]]:
    """Return the reader's ended pod and what it has measured."""
    until_s = time.monotonic() + timeout_s
    stuck_since_s: float | None = None
    pod: Object | None = None
    while True:
        selector = f"job-name={plan.name}"
        pods = cluster.ask("GET", "pods", doing="waiting for the restored volume", labelSelector=selector)["items"]
        pod = next(iter(pods), None)
        if pod is not None and is_over(pod):
            break
        stuck_since_s = _stuck_since(pod, stuck_since_s)
        is_stuck = stuck_since_s is not None and time.monotonic() - stuck_since_s > FINAL_TROUBLE_AFTER_S
        if is_stuck or time.monotonic() > until_s or _has_failed(cluster, plan):
            raise _not_read(cluster, plan, pod)
        if cancelled.wait(_POLL_S):
            raise StepFailed("the snapshot was cancelled", where=f"claim {plan.claim}")
    log = cluster.text(
        f"pods/{pod['metadata']['name']}/log", doing="reading the reader's figures", container=READER
    )
    try:
        return pod, parse_json(log.strip().splitlines()[-1])
    except (ValueError, IndexError):
        raise _not_read(cluster, plan, pod) from None


def _stuck_since(pod: Object | None, since_s: float | None) -> float | None:
    """Return since when the pod is in trouble that does not pass; None: it is not."""
    trouble = waiting_trouble(pod) if pod is not None else None
    if trouble is None or not trouble.final:
        return None
    return time.monotonic() if since_s is None else since_s


def _has_failed(cluster: Cluster, plan: SnapshotPlan) -> bool:
    """Return whether the reader's Job has failed: its pod was deleted or evicted."""
    job = cluster.ask("GET", cluster.jobs(plan.name), doing="waiting for the restored volume")
    conditions = job["status"].get("conditions", [])
    return any(condition["type"] == "Failed" and condition["status"] == "True" for condition in conditions)


def _not_read(cluster: Cluster, plan: SnapshotPlan, pod: Object | None) -> VolbenchError:
    events: list[Object] = []
    for name in filter(None, (plan.name, pod["metadata"]["name"] if pod else "")):
        selector = f"involvedObject.name={name}"
        events += cluster.ask("GET", "events", doing=f"reading the events of {name}", fieldSelector=selector)[
            "items"
        ]
    claims = [event for event in events if event["involvedObject"]["kind"] == "PersistentVolumeClaim"]
    trouble = (waiting_trouble(pod, claims, events) if pod else None) or mount_trouble(events)
    return StepFailed(
        trouble.what if trouble else "the restored volume was not read",
        where=f"claim {plan.name}",
        evidence=f"{trouble.evidence if trouble else ''}\n{describe_pod(pod, events, '')}".strip(),
        next_step=(trouble and trouble.next_step) or f"`kubectl describe pvc -n {cluster.namespace} {plan.name}`",
        cause=trouble.cause if trouble else "snapshot_failed",
    )


def _cut_s(made: Object, ready: Object) -> float | None:
    moment = ready["status"].get("creationTime")
    return (_moment(moment) - _moment(made["metadata"]["creationTimestamp"])).total_seconds() if moment else None


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)
