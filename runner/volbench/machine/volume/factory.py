"""From a VolumeSpec to the volume of its kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from volbench.core.profile.spec import require_kind
from volbench.core.records.run import TargetName, VolumeSpec
from volbench.errors import MissingPrerequisite
from volbench.machine.volume.interface import Volume
from volbench.machine.volume.kinds.nfs import NfsVolume
from volbench.machine.volume.kinds.path import PathVolume
from volbench.machine.volume.layout import LayoutVolume

if TYPE_CHECKING:
    from volbench.machine.cluster.client import Cluster
    from volbench.machine.volume.kinds.run_owner import RunOwner


def make_volume(
    spec: VolumeSpec,
    *,
    target: TargetName = "local",
    run_id: str = "",
    cluster: Cluster | None = None,
    owner: RunOwner | None = None,
    keep: bool = False,
    lane: str = "",
) -> Volume:
    """Return the volume, not yet opened.

    Args:
        target: on `docker`, an nfs volume is mounted by the engine's local driver; elsewhere by this process.
        run_id: label of everything that is created, to find it again.
        cluster, owner, keep: of the kubernetes target, what owns a created claim, and whether it stays.
        lane: of the kubernetes target, the lane whose own claim it is.

    Raises UsageError for a kind of another target, MissingPrerequisite if this installation has no emulated
    volumes.
    """
    require_kind(spec, in_cluster=cluster is not None)
    if spec.layout:
        data, *components = (
            make_volume(volume, target=target, run_id=run_id)
            for volume in (spec.model_copy(update={"layout": ()}), *spec.layout)
        )
        return LayoutVolume(spec, data, components)
    if cluster is not None:
        return _claim(spec, cluster=cluster, run_id=run_id, owner=owner, keep=keep, lane=lane)
    if spec.kind == "path":
        return PathVolume(spec)
    if spec.kind == "docker-volume" or (spec.kind == "nfs" and target == "docker"):
        return _docker(spec, run_id=run_id)
    if spec.kind == "nfs":
        return NfsVolume(spec, run_id=run_id)
    return _emulated(spec)


def _docker(spec: VolumeSpec, *, run_id: str) -> Volume:
    from volbench.machine.volume.kinds.docker_volume import DockerNfsVolume, DockerVolume  # noqa: PLC0415 - brings the SDK

    return DockerNfsVolume(spec, run_id=run_id) if spec.kind == "nfs" else DockerVolume(spec, run_id=run_id)


def _claim(
    spec: VolumeSpec, *, cluster: Cluster, run_id: str, owner: RunOwner | None, keep: bool, lane: str
) -> Volume:
    from volbench.machine.volume.kinds.claim import ClaimVolume  # noqa: PLC0415 - brings the client, which takes half a second

    return ClaimVolume(spec, cluster=cluster, run_id=run_id, owner=owner, keep=keep, lane=lane)


def _emulated(spec: VolumeSpec) -> Volume:
    try:
        from volbench.machine.volume.emulated.run_volume import EmulatedPlace  # noqa: PLC0415 - brings what only this kind needs
    except ImportError as error:
        raise MissingPrerequisite(
            "this installation has no emulated volumes",
            where=f"volume {spec.name}={spec.text}",
            evidence=str(error),
            next_step="install all of volbench, or name another kind of volume",
        ) from error
    return EmulatedPlace(spec)
