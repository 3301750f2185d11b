"""What is behind a directory: found out from mountinfo, sysfs and statvfs, never guessed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from volbench.errors import EnvironmentLacks
from volbench.records.facts import VolumeFacts
from volbench.volume.host import in_container
from volbench.volume.mountinfo import Mount, mount_of, mount_of_open_path, read_mounts
from volbench.volume.sysfs import (
    SYS,
    BlockDevice,
    bdi_read_ahead_kib,
    block_device,
    block_device_named,
    btrfs_devices,
)

MEMORY_FILESYSTEMS = frozenset({"tmpfs", "ramfs", "devtmpfs"})
REMOTE_FILESYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "ceph", "9p", "virtiofs", "lustre", "afs", "glusterfs", "ocfs2", "gfs2"}
)
_DEPTH_MAX = 4
_IN_MEMORY = "the loop device's file {} is in memory"


def discover(path: Path) -> VolumeFacts:
    """The facts of the volume that holds `path`, as this process sees it.

    Raises EnvironmentLacks when the path is not there.
    """
    try:
        resolved = path.resolve(strict=True)
        mounts = read_mounts()
        mount = mount_of_open_path(resolved, mounts)
        space = os.statvfs(resolved)
    except OSError as error:
        raise EnvironmentLacks(
            "the path cannot be looked at", where=str(path), evidence=f"{type(error).__name__}: {error}"
        ) from error
    facts = facts_of(str(resolved), mounts, mount=mount, contained=in_container())
    return facts.model_copy(
        update={
            "path": str(path),
            "size_bytes": space.f_blocks * space.f_frsize or None,
            "free_bytes": space.f_bavail * space.f_frsize if space.f_blocks else None,
        }
    )


def facts_of(
    path: str, mounts: Sequence[Mount], *, mount: Mount | None = None, sys: Path = SYS, contained: bool = False
) -> VolumeFacts:
    """The facts of an absolute, resolved path, from a table of mounts and a sysfs tree (recorded ones too).

    Args:
        mount: the mount the path is on, where the kernel told it; looked up in `mounts` if left out.
        contained: `mounts` are those of a container. sysfs names a loop device's file by its path on the host,
            which may be another file here, so nothing is said of where that file is.
    """
    facts = _facts(path, mounts, mount=mount or mount_of(path, mounts), sys=sys, depth=0)
    if not contained or facts.loop_backing_file is None:
        return facts
    hidden = f"the loop device's file {facts.loop_backing_file} is on the host and cannot be seen from a container"
    notes = [note for note in facts.notes if note != _IN_MEMORY.format(facts.loop_backing_file)]
    return facts.model_copy(update={"memory_backed": False, "notes": (*notes, hidden)})


def with_host_facts(facts: VolumeFacts, of_host: VolumeFacts | None) -> VolumeFacts:
    """The facts that a container found, with what only the host's own table of mounts can tell.

    Args:
        facts: found beside the server.
        of_host: found on the host; used where both are of one file system, by its device number.
    """
    if of_host is None or facts.device_number is None or of_host.device_number != facts.device_number:
        return facts
    names = ["memory_backed", "notes"]
    if facts.nfs_server is None:  # the counters of an NFS mount are found by the mount point beside the server
        names += ["mount_point", "mount_source"]
    return facts.model_copy(update={name: getattr(of_host, name) for name in names})


def _facts(path: str, mounts: Sequence[Mount], *, mount: Mount | None, sys: Path, depth: int) -> VolumeFacts:
    if mount is None:
        return VolumeFacts(path=path, notes=("no mount holds this path: device and filesystem are unknown",))
    known: dict[str, Any] = {
        "path": path,
        "filesystem": mount.filesystem,
        "mount_point": mount.mount_point,
        "mount_source": mount.source,
        "mount_options": mount.all_options,
        "device_number": mount.device_number,
    }
    notes: list[str] = []
    if mount.filesystem in ("nfs", "nfs4"):
        known |= _nfs(mount, notes)
    elif mount.filesystem in MEMORY_FILESYSTEMS:
        known["memory_backed"] = True
    elif mount.filesystem == "overlay":
        known |= _overlay(mount, mounts, notes, sys=sys, depth=depth)
    else:
        known |= _local(mount, mounts, notes, sys=sys, depth=depth)
    if known.get("read_ahead_kib") is None and "device" not in known:
        known["read_ahead_kib"] = bdi_read_ahead_kib(mount.device_number, sys=sys)
    if mount.root != "/":
        notes.append(f"the mount shows {mount.root} of its filesystem: a bind mount or subvolume")
    return VolumeFacts(**known, notes=tuple(notes))


def cache_below(facts: VolumeFacts) -> str | None:
    """Why reads that this host's page cache cannot serve may still come from another cache; None if none is known.

    Servers of network filesystems, FUSE daemons and buffered loop devices cache what the client cannot evict.
    """
    filesystem = facts.filesystem or ""
    if facts.nfs_server is not None:
        return f"the NFS server {facts.nfs_server} has caches of its own"
    if filesystem in REMOTE_FILESYSTEMS or filesystem == "fuse" or filesystem.startswith("fuse."):
        return f"what serves the {filesystem} filesystem has caches of its own"
    if facts.loop_backing_file is not None and facts.loop_direct_io is not True:
        return f"the loop device reads {facts.loop_backing_file} through the page cache"
    return None


def _nfs(mount: Mount, notes: list[str]) -> dict[str, Any]:
    server, separator, export = mount.source.rpartition(":/")
    version = mount.option("vers")
    if not separator:
        notes.append(f"the source {mount.source!r} names no NFS server")
        return {"nfs_version": version}
    if server in ("127.0.0.1", "localhost"):
        notes.append("the NFS server is this host: a tunnel of a mount helper (EFS with TLS), or a local export")
    return {"nfs_server": server.strip("[]"), "nfs_export": f"/{export}", "nfs_version": version}


def _overlay(mount: Mount, mounts: Sequence[Mount], notes: list[str], *, sys: Path, depth: int) -> dict[str, Any]:
    upper = mount.option("upperdir")
    if upper is None:
        notes.append("an overlay without upper directory: it cannot be written to")
        return {"overlay": True}
    below = mount_of(upper, mounts)
    inside_container = below is None or below is mount or below.filesystem == "overlay"
    if inside_container or depth >= _DEPTH_MAX:
        notes.append(f"the overlay's upper directory {upper} is not visible from here: its device is unknown")
        return {"overlay": True}
    facts = _facts(upper, mounts, mount=below, sys=sys, depth=depth + 1)
    notes.append(f"a container layer: what is written goes to {upper} on {facts.filesystem} at {facts.mount_point}")
    taken = (
        "device", "disk", "disk_model", "scheduler", "read_ahead_kib", "rotational", "logical_block_bytes",
        "loop_backing_file", "loop_direct_io", "lower_devices", "memory_backed",
    )  # fmt: skip
    return {"overlay": True, **{name: getattr(facts, name) for name in taken}}


def _local(mount: Mount, mounts: Sequence[Mount], notes: list[str], *, sys: Path, depth: int) -> dict[str, Any]:
    device = block_device(mount.device_number, sys=sys)
    if device is None:
        device = block_device_named(mount.source, sys=sys)
    if device is None:
        what = (
            "served by a process" if mount.filesystem.startswith("fuse") else "not a block device that sysfs shows"
        )
        notes.append(f"no device found: {mount.filesystem} from {mount.source}, {what}")
        return {}
    known: dict[str, Any] = {
        "device": device.name,
        "disk": device.disk,
        "disk_model": device.model,
        "scheduler": device.scheduler,
        "read_ahead_kib": device.read_ahead_kib,
        "rotational": device.rotational,
        "logical_block_bytes": device.logical_block_bytes,
        "lower_devices": device.lower,
        "loop_backing_file": device.backing_file,
        "loop_direct_io": device.direct_io,
        "memory_backed": device.in_memory,
    }
    if mount.filesystem == "btrfs":
        _several_devices(device, known, notes, sys=sys)
    if device.backing_file is not None and _in_memory(device.backing_file, mounts, sys=sys, depth=depth):
        known["memory_backed"] = True
        notes.append(_IN_MEMORY.format(device.backing_file))
    return known


def _several_devices(device: BlockDevice, known: dict[str, Any], notes: list[str], *, sys: Path) -> None:
    devices = btrfs_devices(device.name, sys=sys)
    if len(devices) > 1:
        known["lower_devices"] = devices
        notes.append(f"btrfs over {len(devices)} devices; {device.name} is the one that was mounted")


def _in_memory(file: str, mounts: Sequence[Mount], *, sys: Path, depth: int) -> bool:
    mount = mount_of(file.removesuffix(" (deleted)"), mounts)
    if mount is None or depth >= _DEPTH_MAX:
        return False
    return _facts(file, mounts, mount=mount, sys=sys, depth=depth + 1).memory_backed
