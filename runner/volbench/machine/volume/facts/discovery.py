"""The storage that backs a directory: read from mountinfo, sysfs and statvfs, never guessed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from volbench.core.base.mountinfo import Mount, mount_of, mount_of_open_path, read_mounts
from volbench.core.base.text import counted
from volbench.core.records.facts import VolumeFacts
from volbench.errors import MissingPrerequisite
from volbench.machine.host.host import in_container
from volbench.machine.host.sysfs import (
    SYS,
    BlockDevice,
    bdi_read_ahead_kib,
    block_device,
    block_device_named,
    btrfs_devices,
    journal_device,
)

MEMORY_FILESYSTEMS = frozenset({"tmpfs", "ramfs", "devtmpfs"})
REMOTE_FILESYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "ceph", "9p", "virtiofs", "lustre", "afs", "glusterfs", "ocfs2", "gfs2"}
)
_DEPTH_MAX = 4
_IN_MEMORY = "the loop device's file {} is in memory"


def discover(path: Path) -> VolumeFacts:
    """Return the facts of the volume that `path` is on, as this process sees it.

    Raises MissingPrerequisite if the path does not exist.
    """
    try:
        resolved = path.resolve(strict=True)
        mounts = read_mounts()
        mount = mount_of_open_path(resolved, mounts)
        space = os.statvfs(resolved)
    except OSError as error:
        raise MissingPrerequisite(
            "the path cannot be inspected", where=str(path), evidence=f"{type(error).__name__}: {error}"
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
    """Return the facts of an absolute, resolved path, from a table of mounts and a sysfs tree (or recorded ones).

    Args:
        mount: the mount of the path, from the kernel; default: from `mounts`.
        contained: `mounts` are those of a container. sysfs names a loop device's file by its path on the host,
            which may be another file here, so the facts do not locate that file.
    """
    facts = _facts(path, mounts, mount=mount or mount_of(path, mounts), sys=sys, depth=0)
    if not contained or facts.loop_backing_file is None:
        return facts
    hidden = f"the loop device's file {facts.loop_backing_file} is on the host and not visible in a container"
    notes = [note for note in facts.notes if note != _IN_MEMORY.format(facts.loop_backing_file)]
    own = {facts.disk: "loop"} if facts.disk is not None else {}
    unseen = {"memory_backed": False, "disk_model": None, "stack": own, "lower_devices": ()}
    return facts.model_copy(update={**unseen, "notes": (*notes, hidden)})


def with_host_facts(facts: VolumeFacts, of_host: VolumeFacts | None) -> VolumeFacts:
    """Return the facts of a container, completed by facts that only the host's table of mounts shows.

    Args:
        facts: read in the agent's container.
        of_host: read on the host; used if both have the same device number.
    """
    if of_host is None or facts.device_number is None or of_host.device_number != facts.device_number:
        return facts
    names = ["memory_backed", "notes"]
    if facts.nfs_server is None:  # the counters of an NFS mount have the mount point of the container
        names += ["mount_point", "mount_source"]
    return facts.model_copy(update={name: getattr(of_host, name) for name in names})


def _facts(path: str, mounts: Sequence[Mount], *, mount: Mount | None, sys: Path, depth: int) -> VolumeFacts:
    if mount is None:
        return VolumeFacts(path=path, notes=("no mount contains this path: device and filesystem are unknown",))
    facts: dict[str, Any] = {
        "path": path,
        "filesystem": mount.filesystem,
        "mount_point": mount.mount_point,
        "mount_source": mount.source,
        "mount_options": mount.all_options,
        "device_number": mount.device_number,
    }
    notes: list[str] = []
    if mount.filesystem in ("nfs", "nfs4"):
        facts |= _nfs(mount, notes)
    elif mount.filesystem in MEMORY_FILESYSTEMS:
        facts["memory_backed"] = True
    elif mount.filesystem == "overlay":
        facts |= _overlay(mount, mounts, notes, sys=sys, depth=depth)
    else:
        facts |= _local(mount, mounts, notes, sys=sys, depth=depth)
    if facts.get("read_ahead_kib") is None and "device" not in facts:
        facts["read_ahead_kib"] = bdi_read_ahead_kib(mount.device_number, sys=sys)
    if mount.root != "/":
        notes.append(f"the mount shows {mount.root} of its filesystem: a bind mount or subvolume")
    return VolumeFacts(**facts, notes=tuple(notes))


def cache_below(facts: VolumeFacts) -> str | None:
    """Return why reads outside this host's page cache may still come from another cache; None if none is known.

    The client cannot evict the caches of network file servers, FUSE daemons and buffered loop devices.
    """
    filesystem = facts.filesystem or ""
    if facts.nfs_server is not None:
        return f"the NFS server {facts.nfs_server} has caches of its own"
    if filesystem in REMOTE_FILESYSTEMS or filesystem == "fuse" or filesystem.startswith("fuse."):
        return f"the server of the {filesystem} filesystem has caches of its own"
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
    inherited = (
        "device",
        "disk",
        "disk_model",
        "scheduler",
        "read_ahead_kib",
        "rotational",
        "logical_block_bytes",
        "atomic_write_bytes",
        "loop_backing_file",
        "loop_direct_io",
        "lower_devices",
        "stack",
        "journal_devices",
        "memory_backed",
    )
    return {"overlay": True, **{name: getattr(facts, name) for name in inherited}}


def _local(mount: Mount, mounts: Sequence[Mount], notes: list[str], *, sys: Path, depth: int) -> dict[str, Any]:
    device = block_device(mount.device_number, sys=sys)
    if device is None:
        device = block_device_named(mount.source, sys=sys)
    if device is None:
        reason = (
            "served by a process" if mount.filesystem.startswith("fuse") else "not a block device that sysfs shows"
        )
        notes.append(f"no device found: {mount.filesystem} from {mount.source}, {reason}")
        return {}
    facts: dict[str, Any] = {
        "device": device.name,
        "disk": device.disk,
        "disk_model": device.model,
        "scheduler": device.scheduler,
        "read_ahead_kib": device.read_ahead_kib,
        "rotational": device.rotational,
        "logical_block_bytes": device.logical_block_bytes,
        "atomic_write_bytes": device.atomic_write_bytes,
        "lower_devices": device.lower,
        "stack": device.stack,
        "loop_backing_file": device.backing_file,
        "loop_direct_io": device.direct_io,
        "memory_backed": device.in_memory,
    }
    if mount.filesystem == "btrfs":
        _add_btrfs_devices(device, facts, notes, sys=sys)
    facts["journal_devices"] = _journal_devices(device, mount, notes, sys=sys)
    if device.backing_file is not None:
        _add_backing_file(device.backing_file, facts, notes, below=_below(device.backing_file, mounts, sys, depth))
    return facts


def _add_btrfs_devices(device: BlockDevice, facts: dict[str, Any], notes: list[str], *, sys: Path) -> None:
    names = btrfs_devices(device.name, sys=sys)
    if len(names) < 2:
        return
    named_devices = [
        device_named for name in names if (device_named := block_device_named(f"/dev/{name}", sys=sys)) is not None
    ]
    facts["stack"] = {
        disk: kind for known_device in (device, *named_devices) for disk, kind in known_device.stack.items()
    }
    lower = {disk for known_device in named_devices for disk in known_device.lower or (known_device.disk,)}
    facts["lower_devices"] = tuple(sorted(lower))
    notes.append(f"btrfs over {counted(len(names), 'device')}; {device.name} is the one that was mounted")


def _journal_devices(device: BlockDevice, mount: Mount, notes: list[str], *, sys: Path) -> tuple[str, ...]:
    """Return the device with an XFS log or ext4 journal outside the filesystem, and the disks below it."""
    source = mount.option("logdev") if mount.filesystem == "xfs" else None
    if mount.filesystem in ("ext3", "ext4"):
        name = journal_device(device.name, sys=sys)
        source = f"/dev/{name}" if name is not None else None
    if source is None:
        return ()
    log = block_device_named(source, sys=sys)
    notes.append(f"the journal is on a device of its own, {source}: commits wait for that device, too")
    if log is None:
        notes.append(f"sysfs does not show {source}: its counters are not sampled")
        return ()
    return tuple(log.stack)


def _below(file: str, mounts: Sequence[Mount], sys: Path, depth: int) -> VolumeFacts | None:
    """Return the facts of the filesystem that a loop device's file is on; None if unknown."""
    mount = mount_of(file.removesuffix(" (deleted)"), mounts)
    return (
        None
        if mount is None or depth >= _DEPTH_MAX
        else _facts(file, mounts, mount=mount, sys=sys, depth=depth + 1)
    )


def _add_backing_file(file: str, facts: dict[str, Any], notes: list[str], *, below: VolumeFacts | None) -> None:
    """Add the devices below a loop device's file: its reads and writes end there."""
    if below is None:
        return
    if below.memory_backed:
        facts["memory_backed"] = True
        notes.append(_IN_MEMORY.format(file))
    facts["disk_model"] = facts["disk_model"] or below.disk_model
    facts["stack"] = {**facts["stack"], **below.stack}
    facts["lower_devices"] = below.physical_disks
