"""Changes a claim under load: another VolumeAttributesClass, a larger size; and waits for its status.

Fields are those of Kubernetes 1.34, where VolumeAttributesClass is storage.k8s.io/v1. Nobody of this project has
had a driver that modifies volumes: a fake API server stands for one.
"""

from __future__ import annotations

import re
import threading
import time
from decimal import Decimal
from typing import Any

from volbench.core.records.snapshots import ClaimTimes
from volbench.core.records.steps.modify import ClaimChange
from volbench.errors import MissingPrerequisite, StepFailed, UsageError
from volbench.machine.cluster.client import Cluster
from volbench.machine.cluster.refusals import NotFound
from volbench.machine.placement.kubernetes.rights import CLAIM_CHANGES, missing_rights

Object = dict[str, Any]
_STORAGE = "/apis/storage.k8s.io/v1"
_POLL_S = 1.0
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)([KMGTPE]i|[kMGTPE])?")
_POWERS = {letter: power for power, letter in enumerate("KMGTPE", start=1)}
_INFEASIBLE = "Infeasible"
"""Ends each status of a change that the driver refuses for good."""
_ERRORS = ("ModifyVolumeError", "ControllerResizeError", "NodeResizeError")
"""Conditions with what the driver said of an attempt; the controllers go on trying."""


def quantity_bytes(text: str) -> int | None:
    """Return the bytes of a Kubernetes quantity, in which G is 10^9; None for one of another form."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        return None
    unit = match[2] or ""
    factor = (1024 if unit.endswith("i") else 1000) ** _POWERS[unit[0].upper()] if unit else 1
    return int(Decimal(match[1]) * factor)


def require_change(cluster: Cluster, name: str, change: ClaimChange) -> None:
    """Raise UsageError or MissingPrerequisite for a change of a claim that the cluster certainly does not make.

    Where this user may not read a class, the claim's status will tell.
    """
    where = f"claim {name} of namespace {cluster.namespace}"
    if missing := missing_rights(cluster, CLAIM_CHANGES):
        raise MissingPrerequisite(
            f"permissions are missing in namespace {cluster.namespace}",
            where=where,
            evidence=", ".join(missing),
            next_step="apply k8s/modify, which grants the right to change claims",
            cause="no_permission",
        )
    doing = f"looking whether {where} can be changed"
    claim = cluster.ask("GET", f"persistentvolumeclaims/{name}", doing=doing)
    class_name = claim["spec"].get("storageClassName")
    storage_class = class_name and cluster.ask_if_allowed(f"{_STORAGE}/storageclasses/{class_name}", doing=doing)
    if change.attributes_class:
        _check_attributes_class(cluster, change.attributes_class, storage_class, where=where, doing=doing)
    if change.size_bytes:
        _check_size(claim, storage_class, change.size_bytes, where=where)
    if states := _states(claim):
        raise MissingPrerequisite(
            "an earlier change of the claim is not completed",
            where=where,
            evidence=", ".join(states),
            next_step="wait until it is, or make a new claim",
        )
    if _is_completed(claim, change):
        raise UsageError(
            "the claim has that already: nothing would change",
            where=where,
            evidence=_description(claim),
            next_step="give another class or a larger size in `to`",
        )


def _check_attributes_class(
    cluster: Cluster, name: str, storage_class: Object | None, *, where: str, doing: str
) -> None:
    try:
        attributes = cluster.ask("GET", f"{_STORAGE}/volumeattributesclasses/{name}", doing=doing)
    except NotFound as missing:
        raise MissingPrerequisite(
            f"the cluster has no VolumeAttributesClass {name!r}",
            where=where,
            evidence=missing.evidence,
            next_step="`kubectl get volumeattributesclass` lists them, from Kubernetes 1.34 on; a class is of the"
            " claim's driver",
            cause="volume_gone",
        ) from missing
    except MissingPrerequisite as refused:
        if refused.cause != "no_permission":
            raise
        return
    driver, provisioner = attributes.get("driverName"), (storage_class or {}).get("provisioner")
    if provisioner and driver != provisioner:
        raise UsageError(
            f"the VolumeAttributesClass {name} is of another driver than the claim",
            where=where,
            evidence=f"the class of {driver}, the claim of {provisioner}",
            next_step="name a class of the claim's driver",
        )


def _check_size(claim: Object, storage_class: Object | None, size_bytes: int, *, where: str) -> None:
    requested = claim["spec"]["resources"]["requests"]["storage"]
    if size_bytes < (quantity_bytes(requested) or 0):
        raise UsageError(
            "no claim becomes smaller",
            where=where,
            evidence=f"the claim asks for {requested}",
            next_step="give a size that is at least as large, or none",
        )
    if storage_class is not None and not storage_class.get("allowVolumeExpansion"):
        name = storage_class["metadata"]["name"]
        raise MissingPrerequisite(
            f"the storage class {name} does not let its claims grow",
            where=where,
            evidence=f"allowVolumeExpansion of {name} is not true",
            next_step=f"kubectl patch storageclass {name} -p '{{\"allowVolumeExpansion\":true}}', if its driver"
            " can do that",
        )


def change_claim(
    cluster: Cluster, name: str, change: ClaimChange, *, timeout_s: float, cancelled: threading.Event
) -> ClaimTimes:
    """Change a claim, and wait until its status has all of that, or the time is over.

    Raises MissingPrerequisite for a change that the cluster or the driver refuses, StepFailed when cancelled.
    """
    where = f"claim {name} of namespace {cluster.namespace}"
    path, doing = f"persistentvolumeclaims/{name}", f"changing {where}"
    request = _asked_for(change)
    spec = cluster.ask("GET", path, doing=doing)["spec"]
    if spec == {**spec, **request}:
        raise MissingPrerequisite(
            "the time of the claim's change is unknown: the volbench that asked for it ended",
            where=where,
            evidence=f"the claim asks for it already: {request}",
            next_step="start a new run with another change, or with a new claim",
        )
    begun_s = time.monotonic()
    cluster.ask("PATCH", path, {"spec": request}, doing=doing)
    reached: dict[str, float] = {}
    while True:
        claim = cluster.ask("GET", path, doing=f"waiting for the change of {where}")
        elapsed_s = time.monotonic() - begun_s
        states = _states(claim)
        for state in states:
            reached.setdefault(state, elapsed_s)
        if any(state.endswith(_INFEASIBLE) for state in states):
            raise MissingPrerequisite(
                "the driver refuses the change of the claim",
                where=where,
                evidence=", ".join([*states, *_errors(claim, *_ERRORS, "ModifyingVolume")]),
                next_step="the claim still asks for it: name another class, or the one before, with `kubectl patch"
                f" pvc {name} -n {cluster.namespace}`",
            )
        if completed := _is_completed(claim, change) and not states:
            reached.setdefault("completed", elapsed_s)
        if completed or elapsed_s > timeout_s:
            for error in () if completed else _errors(claim, *_ERRORS):
                reached.setdefault(error, elapsed_s)
            return ClaimTimes(claim=name, states=tuple(reached.items()), completed=completed)
        if cancelled.wait(_POLL_S):
            raise StepFailed("the change of the claim was cancelled", where=where)


def _asked_for(change: ClaimChange) -> Object:
    """Return the part of a claim's spec that asks for it."""
    attributes = {"volumeAttributesClassName": change.attributes_class} if change.attributes_class else {}
    size = {"resources": {"requests": {"storage": str(change.size_bytes)}}} if change.size_bytes else {}
    return {**attributes, **size}


def _states(claim: Object) -> list[str]:
    """Return what of a change is not completed, as the claim's status says it."""
    status = claim.get("status", {})
    modifying = (status.get("modifyVolumeStatus") or {}).get("status")
    resizing = (status.get("allocatedResourceStatuses") or {}).get("storage")
    conditions = [
        condition["type"]
        for condition in status.get("conditions") or ()
        if condition["type"] in ("Resizing", "FileSystemResizePending") and condition["status"] == "True"
    ]
    return [
        *([f"attributes {modifying}"] if modifying else []),
        *([f"size {resizing}"] if resizing else [f"size {condition}" for condition in conditions]),
    ]


def _errors(claim: Object, *types: str) -> list[str]:
    """Return the messages of the claim's conditions of these types."""
    return [
        f"{condition['type']}: {condition.get('message', '')}"
        for condition in claim.get("status", {}).get("conditions") or ()
        if condition["status"] == "True" and condition["type"] in types
    ]


def _is_completed(claim: Object, change: ClaimChange) -> bool:
    status = claim.get("status", {})
    has_class = change.attributes_class in ("", status.get("currentVolumeAttributesClassName"))
    capacity = quantity_bytes((status.get("capacity") or {}).get("storage", "")) or 0
    return has_class and capacity >= change.size_bytes


def _description(claim: Object) -> str:
    status = claim.get("status", {})
    attributes = status.get("currentVolumeAttributesClassName") or "none"
    return f"VolumeAttributesClass {attributes}, {(status.get('capacity') or {}).get('storage', 'no size')}"
