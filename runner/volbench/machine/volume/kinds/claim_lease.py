"""A lease on the volume of a user's claim: two runs must not measure each other on one volume in silence.

The run's owner owns the Lease, so the cluster deletes that of a lost laptop with the rest of its run. Two claims on
one volume of a CSI driver, as of a file system that several claims share, have one lease in a namespace.
"""

from __future__ import annotations

import hashlib
from typing import Any

from volbench.errors import MissingPrerequisite
from volbench.machine.cluster.client import Cluster
from volbench.machine.cluster.names import LABEL_RUN, MANAGED_BY
from volbench.machine.volume.kinds.run_owner import RunOwner, expires_at, owner_name, started_by

Object = dict[str, Any]
CLAIM = "volbench.org/claim"
"""Annotation of a Lease: name of the claim that it is for."""
_DIGITS = 16


class ClaimLease:
    """The lease of one run on the volume of one claim.

    Args:
        claim: the claim's object.
        volume: its PersistentVolume; None: not known.
    """

    def __init__(
        self, cluster: Cluster, run_id: str, owner: RunOwner, *, claim: Object, volume: Object | None
    ) -> None:
        self._cluster, self._run_id, self._owner = cluster, run_id, owner
        self._claim = claim["metadata"]["name"]
        self.name = lease_name(claim, volume)
        self._path = f"/apis/coordination.k8s.io/v1/namespaces/{cluster.namespace}/leases"

    def take(self) -> None:
        """Take the lease, or keep it. Raise MissingPrerequisite where another run has it."""
        doing = f"taking the lease on claim {self._claim}"
        manifest = lease_manifest(self.name, self._run_id, self._claim, self._owner.references())
        self._cluster.apply_once(self._path, manifest, doing=doing)
        lease = self._cluster.ask("GET", f"{self._path}/{self.name}", doing=doing)
        holder = lease["spec"].get("holderIdentity", "")
        if holder == self._run_id:
            if lease["metadata"].get("ownerReferences") != manifest["metadata"]["ownerReferences"]:
                self.release()  # of an owner that is gone: the cluster would delete it in mid-run
                self._cluster.apply_once(self._path, manifest, doing=doing)
            return
        path = self._cluster.jobs(owner_name(holder))
        owner = self._cluster.ask_if_allowed(path, doing=f"reading until when run {holder} may stay")
        whose = f", started by {started_by(owner)}" if owner and started_by(owner) else ""
        until = f", until {expires_at(owner)} at the latest" if owner else ""
        claim = lease["metadata"].get("annotations", {}).get(CLAIM, self._claim)
        raise MissingPrerequisite(
            f"run {holder} uses the volume of claim {self._claim}",
            where=f"namespace {self._cluster.namespace}",
            evidence=f"lease {self.name} on claim {claim} is held by run {holder}{whose}{until}",
            next_step=f"wait for that run, `volbench resume {holder}` where it was started, or give it up with "
            f"`volbench k8s clean -n {self._cluster.namespace} {holder}`",
            cause="claim_in_use",
        )

    def release(self) -> None:
        """Give the lease back."""
        self._cluster.delete(f"{self._path}/{self.name}", doing=f"giving the lease on claim {self._claim} back")


def lease_name(claim: Object, volume: Object | None) -> str:
    """Return the lease's name: by driver and handle of a CSI volume, else by the claim's uid."""
    csi = (volume or {}).get("spec", {}).get("csi")
    identity = f"{csi['driver']}\n{csi['volumeHandle']}" if csi else claim["metadata"].get("uid", "")
    return f"volbench-volume-{hashlib.sha256(identity.encode()).hexdigest()[:_DIGITS]}"


def lease_manifest(name: str, run_id: str, claim: str, references: list[dict[str, str]]) -> Object:
    """Return the Lease of a run."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": name,
            "labels": {**MANAGED_BY, LABEL_RUN: run_id},
            "annotations": {CLAIM: claim},
            "ownerReferences": references,
        },
        "spec": {"holderIdentity": run_id},
    }
