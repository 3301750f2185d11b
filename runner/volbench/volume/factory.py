"""From a VolumeSpec to the volume of its kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from volbench.errors import EnvironmentLacks
from volbench.records.run import TargetName, VolumeSpec
from volbench.volume.docker_volume import DockerNfsVolume, DockerVolume
from volbench.volume.interface import Volume
from volbench.volume.nfs import NfsVolume
from volbench.volume.path import PathVolume
from volbench.volume.spec import require_kind

if TYPE_CHECKING:
    from volbench.volume.cluster import Cluster


def make_volume(
    spec: VolumeSpec, *, target: TargetName = "local", run_id: str = "", cluster: Cluster | None = None,
    keep: bool = False,
) -> Volume:  # fmt: skip
    """The volume, not yet opened.

    Args:
        target: on `docker`, an nfs volume is mounted by the engine's local driver; elsewhere by this process.
        run_id: goes onto what is created, so that it can be found again.
        cluster, keep: of the kubernetes target, and whether a claim that is made is left.

    Raises UsageError for a kind that only another target has, EnvironmentLacks for emulated volumes that this
    installation lacks.
    """
    require_kind(spec, in_cluster=cluster is not None)
    if cluster is not None:
        return _claim(spec, cluster=cluster, run_id=run_id, keep=keep)
    if spec.kind == "path":
        return PathVolume(spec)
    if spec.kind == "docker-volume":
        return DockerVolume(spec, run_id=run_id)
    if spec.kind == "nfs":
        return DockerNfsVolume(spec, run_id=run_id) if target == "docker" else NfsVolume(spec, run_id=run_id)
    return _emulated(spec)


def _claim(spec: VolumeSpec, *, cluster: Cluster, run_id: str, keep: bool) -> Volume:
    from volbench.volume.claim import ClaimVolume  # noqa: PLC0415 - brings the client, which takes half a second

    return ClaimVolume(spec, cluster=cluster, run_id=run_id, keep=keep)


def _emulated(spec: VolumeSpec) -> Volume:
    try:
        from volbench.volume.emulated_place import EmulatedPlace  # noqa: PLC0415 - brings what only this kind needs
    except ImportError as error:
        raise EnvironmentLacks(
            "this installation has no emulated volumes",
            where=f"volume {spec.name}={spec.text}",
            evidence=str(error),
            next_step="install volbench whole, or name another kind of volume",
        ) from error
    return EmulatedPlace(spec)
