"""Volumes on the same storage, which make no meaningful comparison."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import PurePosixPath

from volbench.core.records.facts import VolumeFacts

NAMES_MAX = 4
_SHARED_LIMITS = "They share its limits and wait for each other's I/O; compare volumes on disks of their own."


@dataclass(frozen=True, kw_only=True)
class SharedStorage:
    """Two or more volumes by name, and the storage of all: `filesystem ext4 on vda1`.

    Args:
        same_filesystem: all are directories of one mounted filesystem or export, as when one is not mounted.
    """

    volumes: tuple[str, ...]
    storage: str
    same_filesystem: bool = True

    @property
    def names(self) -> str:
        """Return `a, b and c`; of many volumes the first ones and how many more there are."""
        named, more = self.volumes[:NAMES_MAX], len(self.volumes) - NAMES_MAX
        last = f"{more} more" if more > 0 else named[-1]
        return f"{', '.join(named if more > 0 else named[:-1])} and {last}"

    @property
    def text(self) -> str:
        """Return the sentence for a plan and a report."""
        text = (
            f"Volumes {self.names} lie on the same {self.storage}: a difference between them does not come from the"
            " storage."
        )
        return f"{text} Is one of them not mounted?" if self.same_filesystem else f"{text} {_SHARED_LIMITS}"


def shared_storage(facts: Mapping[str, VolumeFacts]) -> tuple[SharedStorage, ...]:
    """Return the groups of volumes that share a file system, an export, a device or a disk.

    Emulated volumes are skipped: their daemon determines their speed, wherever their data is.

    Args:
        facts: by the volumes' names, in their order.
    """
    return tuple(
        _shared(
            {name: volume_facts for name, volume_facts in facts.items() if volume_facts.emulated_profile is None}
        )
    )


def below_mount_point(directory: str, facts: VolumeFacts) -> str | None:
    """Return the mount point above a directory; None if the directory is a mount point itself, or if unknown.

    Args:
        directory: the directory that a SPEC names.
        facts: of that directory. Facts from a container have a mount point of the container: None then.
    """
    mount_point = facts.mount_point
    if mount_point is None or PurePosixPath(directory) == PurePosixPath(mount_point):
        return None
    return mount_point if PurePosixPath(directory).is_relative_to(mount_point) else None


def not_mounted_text(name: str, directory: str, facts: VolumeFacts) -> str:
    """Return the sentence about a SPEC's directory that is not a mount point; empty if it is one."""
    mount_point = below_mount_point(directory, facts)
    if mount_point is None:
        return ""
    source = ", ".join(text for text in (facts.filesystem, facts.device or facts.mount_source) if text)
    return f"Volume {name}: {directory} is not a mount point; it is a directory of {mount_point} ({source})."


def _shared(facts: Mapping[str, VolumeFacts]) -> Iterator[SharedStorage]:
    groups: dict[tuple[str, bool], set[str]] = {}
    for (first, a), (second, b) in combinations(facts.items(), 2):
        filesystem = _common_filesystem(a, b)
        storage = filesystem or _common_device(a, b)
        if storage:
            groups.setdefault((storage, bool(filesystem)), set()).update((first, second))
    for (storage, same_filesystem), names in groups.items():
        volumes = tuple(name for name in facts if name in names)
        yield SharedStorage(volumes=volumes, storage=storage, same_filesystem=same_filesystem)


def _common_filesystem(a: VolumeFacts, b: VolumeFacts) -> str:
    """Return the mounted filesystem or export that both are directories of; empty if there is none."""
    if a.nfs_server is not None and (a.nfs_server, a.nfs_export) == (b.nfs_server, b.nfs_export):
        return f"NFS export {a.nfs_server}:{a.nfs_export}"
    if a.device_number is not None and a.device_number == b.device_number:
        source = a.device or a.mount_source
        return f"file system ({', '.join(text for text in (a.filesystem, source) if text)})"
    return ""


def _common_device(a: VolumeFacts, b: VolumeFacts) -> str:
    """Return the device or the disks that both use, the nearest to MySQL first; empty if none is known."""
    if a.device is not None and a.device == b.device:
        return f"device {a.device}"
    disks = sorted(_disks(a) & _disks(b))
    if disks:
        return f"disk {', '.join(disks)}"
    directory = _loop_directory(a)
    return f"directory of loop files, {directory}" if directory and directory == _loop_directory(b) else ""


def _disks(facts: VolumeFacts) -> set[str]:
    return set(facts.physical_disks)


def _loop_directory(facts: VolumeFacts) -> str:
    file = facts.loop_backing_file
    return "" if file is None else str(PurePosixPath(file).parent)
