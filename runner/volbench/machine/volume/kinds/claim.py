"""`pvc:NAME` and `storage-class:NAME?size=100Gi`: volumes of a Kubernetes cluster, as claims."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from volbench.core.base.text import duration
from volbench.core.profile.resolve import resolve_volume
from volbench.core.profile.spec import parse_volume
from volbench.core.records.facts import VolumeFacts
from volbench.core.records.run import VolumeSpec
from volbench.errors import MissingPrerequisite, Refused, VolumeUnavailable
from volbench.machine.cluster.client import Cluster
from volbench.machine.cluster.names import LABEL_LANE, LABEL_RUN, MANAGED_BY, NAME_CHARACTERS, object_name
from volbench.machine.cluster.refusals import NotFound
from volbench.machine.volume.interface import OpenVolume, VolumeBase
from volbench.machine.volume.kinds.claim_facts import changed_volume, identity, persistent_volume
from volbench.machine.volume.kinds.claim_lease import ClaimLease

if TYPE_CHECKING:
    from volbench.machine.volume.kinds.run_owner import RunOwner

DEFAULT_SIZE = "20Gi"
EMULATED = "volbench.org/emulated"
"""Annotation of a claim on an emulated volume: its SPEC, such as `emulated:ebs-gp3?size=50GiB`."""
EMULATOR = "volbench.org/emulator"
"""Annotation of such a claim: name of the claim whose volume has the emulator's control socket."""


class ClaimVolume(VolumeBase):
    """An existing claim, or a claim on a storage class that is deleted with its data at the end.

    Args:
        owner: owns a claim that this volume creates, so that the cluster deletes it when nobody comes back.
        keep: do not delete a claim that this volume created.
        lane: of the run, whose own claim this is; empty: all cells of the volume share one.
    """

    def __init__(
        self,
        spec: VolumeSpec,
        *,
        cluster: Cluster,
        run_id: str,
        owner: RunOwner | None = None,
        keep: bool = False,
        lane: str = "",
    ) -> None:
        super().__init__(spec)
        self._cluster = cluster
        self._owner = owner
        self._run_id = run_id
        self._keep = keep
        self._lane = lane
        self._where = f"volume {spec.name}={spec.text}"
        self._lease: ClaimLease | None = None

    @property
    def claim(self) -> str:
        """The claim's name."""
        return claim_name(self.spec, self._run_id, self._lane)

    def open(self) -> OpenVolume:
        """Check that the claim exists and is usable, or create it.

        Raises VolumeUnavailable if claim or class are missing or the claim is being deleted, Refused for a claim
        without a filesystem, MissingPrerequisite if it is not on the volume that earlier cells measured.
        """
        if self.spec.kind == "storage-class":
            self._check_class()
            self._check_measured_claim()
            manifest = claim_manifest(self.spec, self._run_id, self._owner_references(), lane=self._lane)
            self._cluster.apply_once("persistentvolumeclaims", manifest, doing=f"making {self._where}")
        claim = self._find()
        refuse_unusable(claim, where=self._where, namespace=self._cluster.namespace)
        volume = persistent_volume(self._cluster, claim)
        facts = _facts(claim).model_copy(update=identity(claim, volume))
        self._refuse_changed(facts)
        self._take_lease(claim, volume)
        return OpenVolume(
            name=self.spec.name,
            spec=self.spec,
            claim=self.claim,
            facts=facts,
            emulator_claim=claim["metadata"].get("annotations", {}).get(EMULATOR),
        )

    def close(self) -> None:
        """Delete a claim that was created for the run, unless the run can be resumed on it; give the lease back."""
        if self._lease is not None:
            self._lease.release()
            self._lease = None
        if self.spec.kind == "storage-class" and not (self._keep or self.retained):
            path = f"persistentvolumeclaims/{self.claim}"
            self._cluster.delete(path, doing=f"deleting the claim {self.claim}")

    def leftover(self) -> str:
        """Return which claim waits for a resume, and the command that deletes it with its data."""
        if self.spec.kind != "storage-class":
            return ""
        delete = f"kubectl delete pvc -n {self._cluster.namespace} {self.claim}"
        until = f" for {duration(self._owner.ttl_s)}" if self._owner is not None else ""
        return (
            f"claim {self.claim} and its volume stay for `volbench resume RUN`{until}; to delete both now: {delete}"
        )

    def _take_lease(self, claim: dict[str, Any], volume: dict[str, Any] | None) -> None:
        """Let no other run measure a volume that `pvc:` names. Raise MissingPrerequisite where one does."""
        if self.spec.kind == "pvc" and self._owner is not None:
            lease = ClaimLease(self._cluster, self._run_id, self._owner, claim=claim, volume=volume)
            lease.take()
            self._lease = lease

    def _owner_references(self) -> list[dict[str, str]]:
        if self._owner is None:
            return []
        self._owner.extend()  # a resumed run may have little time left
        return self._owner.references()

    def _check_measured_claim(self) -> None:
        """Raise MissingPrerequisite if earlier cells measured a claim that is gone: a new one is another volume."""
        if self.measured is not None and self.measured.claim_uid is not None:
            try:
                self._cluster.ask("GET", f"persistentvolumeclaims/{self.claim}", doing=f"looking for {self._where}")
            except NotFound:
                self._refuse_changed(None)

    def _refuse_changed(self, present: VolumeFacts | None) -> None:
        refusal = changed_volume(self.measured, present) if self.measured is not None else None
        if refusal is not None:
            refusal.where = self._where
            raise refusal

    def _check_class(self) -> None:
        path = f"/apis/storage.k8s.io/v1/storageclasses/{self.spec.location}"
        try:
            self._cluster.ask("GET", path, doing=f"looking for the storage class of {self._where}")
        except MissingPrerequisite as error:
            if error.cause == "no_permission":
                error.what = "this user may not read storage classes, which belong to no namespace"
                error.next_step = (
                    "bind the cluster role of k8s/base: `kubectl create clusterrolebinding NAME"
                    f" --clusterrole=volbench-{self._cluster.namespace}-storage-classes --user=USER`"
                )
            raise
        except NotFound as missing:
            raise VolumeUnavailable(
                f"the cluster has no storage class {self.spec.location!r}",
                where=self._where,
                evidence=missing.evidence,
                next_step="`kubectl get storageclass` lists them; k8s/overlays has some to apply",
                cause="volume_gone",
            ) from missing

    def _find(self) -> dict[str, Any]:
        try:
            claim: dict[str, Any] = self._cluster.ask(
                "GET", f"persistentvolumeclaims/{self.claim}", doing=f"looking for {self._where}"
            )
        except NotFound as missing:
            raise VolumeUnavailable(
                f"namespace {self._cluster.namespace} has no claim {self.claim!r}",
                where=self._where,
                evidence=missing.evidence,
                next_step=f"`kubectl get pvc -n {self._cluster.namespace}` lists them",
                cause="volume_gone",
            ) from missing
        return claim


def refuse_unusable(claim: dict[str, Any], *, where: str, namespace: str) -> None:
    """Raise Refused for a block device, VolumeUnavailable for a claim that no new pod could mount."""
    if claim["spec"].get("volumeMode") == "Block":
        raise Refused("the claim is a block device", where=where, next_step="name a claim with a filesystem")
    if claim["status"].get("phase") == "Lost":
        raise VolumeUnavailable(
            "the claim has lost its volume", where=where, evidence="phase Lost", cause="volume_gone"
        )
    metadata = claim["metadata"]
    deleted_at = metadata.get("deletionTimestamp")
    if deleted_at is not None:
        describe = f"kubectl describe pvc -n {namespace} {metadata['name']}"
        finalizers = ", ".join(metadata.get("finalizers", ())) or "none"
        raise VolumeUnavailable(
            f"the claim {metadata['name']} is being deleted, and no new pod may mount it",
            where=where,
            evidence=f"deleted at {deleted_at}; finalizers: {finalizers}",
            next_step=f"`{describe}` names the pods that hold it: end them, and create the claim again"
            " once it is gone; or name another one",
            cause="volume_gone",
        )


def claim_name(spec: VolumeSpec, run_id: str, lane: str = "") -> str:
    """Return the name of the existing claim, or of the run's; volumes whose names differ have different claims.

    A volume's name that Kubernetes does not allow, or that leaves no room, gets a hash.
    """
    if spec.kind == "pvc":
        return spec.location
    pieces = ("volbench", run_id.rsplit("-", 1)[-1], *filter(None, (lane,)))
    name = object_name(*pieces, spec.name)
    if name == "-".join((*pieces, spec.name)):
        return name
    digest = hashlib.sha256(spec.name.encode()).hexdigest()[:6]
    return f"{name[: NAME_CHARACTERS - len(digest) - 1].rstrip('-')}-{digest}"


def claim_manifest(
    spec: VolumeSpec, run_id: str, owner_references: Sequence[dict[str, str]] = (), *, lane: str = ""
) -> dict[str, Any]:
    """Return the claim on a storage class."""
    labels = {**MANAGED_BY, "app.kubernetes.io/component": "volume", LABEL_RUN: run_id}
    size = kubernetes_size(spec.options.get("size", DEFAULT_SIZE))
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": claim_name(spec, run_id, lane),
            "labels": {**labels, **({LABEL_LANE: lane} if lane else {})},
            **({"ownerReferences": list(owner_references)} if owner_references else {}),
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": spec.location,
            "resources": {"requests": {"storage": size}},
        },
    }


def kubernetes_size(text: str) -> str:
    """Return `100GiB` and `100G` of SPECs as a Kubernetes quantity, in which G alone means 10^9."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT])(?:i|iB)?", text)
    return f"{match[1]}{match[2]}i" if match else text.removesuffix("B")


def _facts(claim: dict[str, Any]) -> VolumeFacts:
    """Return the claim's facts from the cluster; the cell itself sees the storage that backs it.

    The cell cannot see that a volume is emulated, so an annotation of the claim has its SPEC.
    """
    metadata, spec = claim["metadata"], claim["spec"]
    notes = (f"claim {metadata['name']} of class {spec.get('storageClassName') or 'none'}",)
    facts = VolumeFacts(path=metadata["name"], notes=notes)
    emulated_spec = metadata.get("annotations", {}).get(EMULATED)
    if emulated_spec is None:
        return facts
    emulated = resolve_volume(parse_volume(emulated_spec, name="emulated"))
    return facts.model_copy(
        update={"emulated_profile": emulated.profile, "emulated_parameters": dict(emulated.parameters)}
    )
