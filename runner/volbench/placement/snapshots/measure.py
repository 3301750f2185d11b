"""Takes a snapshot of a claim, restores it to a new claim, reads that; and removes all of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from volbench.errors import EnvironmentLacks, StepFailed, VolbenchError, VolumeUnavailable
from volbench.placement.kubernetes.pods import describe_pod, is_over, mount_trouble, status_of, waiting_trouble
from volbench.placement.snapshots.manifests import (
    API_VERSION,
    READER,
    SnapshotPlan,
    reader_job,
    restored_claim,
    volume_snapshot,
)
from volbench.records.parse import parse_json
from volbench.volume.cluster import Cluster, NotFound
from volbench.volume.kinds.run_owner import RunOwner, owned

Object = dict[str, Any]
_POLL_S = 1.0
SETUP = (
    "install the snapshot API (CRDs and controller of kubernetes-csi/external-snapshotter; on EKS the add-on"
    " snapshot-controller), and apply k8s/snapshots for the rights"
)


@dataclass(frozen=True, kw_only=True)
class SnapshotTimes:
    """What a backup by snapshot took, in seconds.

    Args:
        cut_s: from the request to the moment that the data is of, by the cluster's clock (whole seconds); None: the
            driver does not say.
        ready_s: from the request until the snapshot can be restored, by this machine's clock.
        restore_s: from the request of a claim with its data until a pod that mounts it runs, by the cluster's clock
            (whole seconds).
        bytes: of all files on the restored volume.
        first_read_s, second_read_s: of all of them, one after the other, without the page cache.
    """

    claim: str
    snapshot: str
    cut_s: float | None
    ready_s: float
    restore_s: float
    files: int
    bytes: int
    unreadable: int
    first_read_s: float
    second_read_s: float


def measure_snapshot(
    cluster: Cluster,
    plan: SnapshotPlan,
    owner: RunOwner,
    *,
    timeout_s: float,
    keep: bool,
    say: Callable[[str], object],
) -> SnapshotTimes:
    """Take, restore and read a snapshot; remove everything but the source, unless it shall be kept.

    Args:
        owner: owns what is made, so that the cluster deletes it when this process is gone for good.
        timeout_s: of each of the three.
        say: called with a line when one of them has ended.

    Raises EnvironmentLacks without the snapshot API, its rights, or a class; VolumeUnavailable for a source without
    a volume; StepFailed for a snapshot or a restored volume that does not come.
    """
    source = _source(cluster, plan)
    with ExitStack() as stack:
        if not keep:
            stack.callback(owner.end, objects_stay=False)
        references = owner.references()
        snapshots = f"/apis/{API_VERSION}/namespaces/{cluster.namespace}/volumesnapshots"
        begun_s = time.monotonic()
        made = _create(cluster, snapshots, owned(volume_snapshot(plan), references))
        if not keep:
            stack.callback(cluster.delete, f"{snapshots}/{plan.name}", doing=f"deleting snapshot {plan.name}")
        ready = _await_ready(cluster, f"{snapshots}/{plan.name}", timeout_s)
        ready_s = time.monotonic() - begun_s
        say(f"the snapshot is ready after {ready_s:.0f} s")
        claim = restored_claim(plan, source, str(ready["status"].get("restoreSize") or ""))
        doing = f"restoring snapshot {plan.name}"
        claim = cluster.ask("POST", "persistentvolumeclaims", owned(claim, references), doing=doing)
        if not keep:
            stack.callback(cluster.delete, f"persistentvolumeclaims/{plan.name}", doing=doing)
        cluster.ask("POST", cluster.jobs(), owned(reader_job(plan), references), doing=doing)
        if not keep:
            stack.callback(cluster.delete, cluster.jobs(plan.name), doing=doing)
        pod, read = _await_reader(cluster, plan, timeout_s)
    started = status_of(pod, READER)["state"]["terminated"]["startedAt"]
    return SnapshotTimes(
        claim=plan.claim, snapshot=plan.name, cut_s=_cut_s(made, ready), ready_s=ready_s,
        restore_s=(_moment(started) - _moment(claim["metadata"]["creationTimestamp"])).total_seconds(),
        files=read["files"], bytes=read["bytes"], unreadable=read["unreadable"],
        first_read_s=read["first_s"], second_read_s=read["second_s"],
    )  # fmt: skip


def _source(cluster: Cluster, plan: SnapshotPlan) -> Object:
    where = f"claim {plan.claim} of namespace {cluster.namespace}"
    try:
        claim: Object = cluster.ask("GET", f"persistentvolumeclaims/{plan.claim}", doing=f"looking for {where}")
    except NotFound as missing:
        raise VolumeUnavailable(
            "there is no such claim", where=where, evidence=missing.evidence, cause="volume_gone",
            next_step=f"`kubectl get pvc -n {cluster.namespace}` lists them",
        ) from missing  # fmt: skip
    if not claim["spec"].get("volumeName"):
        raise VolumeUnavailable("no volume is bound to the claim", where=where, cause="volume_pending")
    return claim


def _create(cluster: Cluster, path: str, snapshot: Object) -> Object:
    try:
        made: Object = cluster.ask("POST", path, snapshot, doing="taking a snapshot")
    except NotFound as missing:
        raise EnvironmentLacks(
            "the cluster has no snapshot API", where=API_VERSION, evidence=missing.evidence, next_step=SETUP,
            cause="no_snapshots",
        ) from missing  # fmt: skip
    except EnvironmentLacks as refused:
        if refused.cause == "no_permission":
            refused.next_step = "apply k8s/snapshots, which grants the rights to make and delete VolumeSnapshots"
        raise
    return made


def _await_ready(cluster: Cluster, path: str, timeout_s: float) -> Object:
    until_s = time.monotonic() + timeout_s
    while True:
        snapshot: Object = cluster.ask("GET", path, doing="waiting for the snapshot")
        status = snapshot.get("status", {})
        if status.get("readyToUse"):
            return snapshot
        if time.monotonic() > until_s:
            message = str((status.get("error") or {}).get("message", ""))
            raise StepFailed(
                "the snapshot is not ready", where=f"VolumeSnapshot {snapshot['metadata']['name']}",
                evidence=message or f"nobody has acted on it: status {status or 'empty'}",
                next_step="`kubectl get volumesnapshotclass` lists the classes: one must be of the claim's driver"
                if message else SETUP,
                cause="snapshot_failed",
            )  # fmt: skip
        time.sleep(_POLL_S)


def _await_reader(cluster: Cluster, plan: SnapshotPlan, timeout_s: float) -> tuple[Object, dict[str, Any]]:
    """Return the reader's ended pod and what it has measured."""
    until_s = time.monotonic() + timeout_s
    pod: Object | None = None
    while True:
        selector = f"job-name={plan.name}"
        pods = cluster.ask("GET", "pods", doing="waiting for the restored volume", labelSelector=selector)["items"]
        pod = next(iter(pods), None)
        if pod is not None and is_over(pod):
            break
        if time.monotonic() > until_s:
            raise _not_read(cluster, plan, pod)
        time.sleep(_POLL_S)
    log = cluster.text(
        f"pods/{pod['metadata']['name']}/log", doing="reading the reader's figures", container=READER
    )
    try:
        return pod, parse_json(log.strip().splitlines()[-1])
    except (ValueError, IndexError):
        raise _not_read(cluster, plan, pod) from None


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
        trouble.what if trouble else "the restored volume was not read", where=f"claim {plan.name}",
        evidence=f"{trouble.evidence if trouble else ''}\n{describe_pod(pod, events, '')}".strip(),
        next_step=(trouble and trouble.next_step) or f"`kubectl describe pvc -n {cluster.namespace} {plan.name}`",
        cause=trouble.cause if trouble else "snapshot_failed",
    )  # fmt: skip


def _cut_s(made: Object, ready: Object) -> float | None:
    moment = ready["status"].get("creationTime")
    return (_moment(moment) - _moment(made["metadata"]["creationTimestamp"])).total_seconds() if moment else None


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)
