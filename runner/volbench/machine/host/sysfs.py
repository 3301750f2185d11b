"""Block devices as sysfs shows them. Paths: Documentation/ABI/stable/sysfs-block of the kernel."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

SYS = Path("/sys")
_DEPTH_MAX = 16
_MAPPED = {"LVM": "LVM", "CRYPT": "dm-crypt", "mpath": "multipath"}
"""How the uuid of a mapped device begins, and what it is."""
_DISKS_MAX = 256


@dataclass(frozen=True, kw_only=True)
class BlockDevice:
    """One block device. None: not in sysfs.

    Args:
        name, disk: kernel names of the device and of its disk (itself, if not a partition).
        model, scheduler, rotational: of the device, or those of the disks below it, where these have them.
        atomic_write_bytes: largest aligned write that it does whole or not at all; 0: none (Linux 6.11).
        lower: names of the physical disks below a stacked device (device mapper, md, bcache), sorted.
        stack: whole disks from this one down to the physical ones, each with its kind, in that order.
        backing_file, direct_io: of a loop device.
    """

    name: str
    disk: str
    model: str | None
    scheduler: str | None
    read_ahead_kib: int | None
    rotational: bool | None
    logical_block_bytes: int | None
    atomic_write_bytes: int | None
    lower: tuple[str, ...]
    stack: dict[str, str]
    backing_file: str | None
    direct_io: bool | None

    @property
    def in_memory(self) -> bool:
        """Whether the device itself is main memory (zram, ram disk)."""
        return self.disk.rstrip("0123456789") in ("zram", "ram")


def block_device(number: str, *, sys: Path = SYS) -> BlockDevice | None:
    """Return the device with a `major:minor`; None if sysfs has none (anonymous number, container)."""
    return _device(sys / "dev/block" / number)


def block_device_named(source: str, *, sys: Path = SYS) -> BlockDevice | None:
    """Return the device of a mount source such as `/dev/nvme1n1p1`, `/dev/mapper/vg-data` or `/dev/vg/data`."""
    if not source.startswith("/dev/"):
        return None
    name = Path(source).name
    device = _device(sys / "class/block" / name)
    if device is not None:
        return device
    mapped = source.removeprefix("/dev/mapper/") if source.startswith("/dev/mapper/") else None
    components = source.removeprefix("/dev/").split("/")
    if mapped is None and len(components) == 2:
        mapped = "-".join(
            component.replace("-", "--") for component in components
        )  # how LVM joins group and volume
    for entry in sorted((sys / "class/block").glob("dm-*")):
        if mapped is not None and read_text(entry / "dm/name") == mapped:
            return _device(entry)
    resolved = Path(source).resolve()
    return _device(sys / "class/block" / resolved.name) if resolved.name != name else None


def bdi_read_ahead_kib(number: str, *, sys: Path = SYS) -> int | None:
    """Return the read-ahead of a mount without block device (NFS, FUSE), by its `0:N`."""
    return read_int(sys / "class/bdi" / number / "read_ahead_kb")


def btrfs_devices(name: str, *, sys: Path = SYS) -> tuple[str, ...]:
    """Return all devices of the btrfs that contains the named one; empty if sysfs does not show it."""
    for devices in sorted((sys / "fs/btrfs").glob("*/devices")):
        names = tuple(sorted(entry.name for entry in devices.iterdir()))
        if name in names:
            return names
    return ()


def counts_flushes(name: str, *, sys: Path = SYS) -> bool:
    """Return whether the kernel counts the flushes of a whole disk: only request queues do (block/blk-flush.c).

    Device mapper, md, bcache, zram and the like hand on each bio, and their counter stays 0.
    """
    folder = sys / "class/block" / name
    return (folder / "mq").is_dir() or not (folder / "queue").is_dir()


def journal_device(name: str, *, sys: Path = SYS) -> str | None:
    """Return the device with the external journal of the ext4 on device `name`, as kernel names; None without one.

    The kernel names a journal's thread after its device, and after the inode of a journal inside the filesystem:
    `jbd2/sdb1` or `jbd2/sda1-8` (fs/jbd2/journal.c). /proc is expected beside `sys`.
    """
    task = read_int(sys / "fs/ext4" / name / "journal_task")
    thread = read_text(sys.parent / "proc" / str(task) / "comm") if task else None
    device = (thread or "").removeprefix("jbd2/").replace("!", "/")
    own = device == name or device.startswith(f"{name}-")
    return device if device != thread and not own and (sys / "class/block" / device).exists() else None


def disks_of(names: Iterable[str], *, sys: Path = SYS) -> frozenset[str]:
    """Return the named whole disks and all disks below them: of device-mapper, md, and of a loop device's file."""
    reached: set[str] = set()
    left = list(names)
    while left and len(reached) < _DISKS_MAX:
        name = left.pop()
        if name not in reached:
            reached.add(name)
            left += _directly_below(sys / "class/block" / name, sys)
    return frozenset(reached)


def _directly_below(entry: Path, sys: Path) -> list[str]:
    folder = entry.resolve()
    lower = [_whole_disk(slave).name for slave in _slaves(folder)]
    file = read_text(folder / "loop/backing_file")
    try:
        number = Path(file).stat().st_dev if file is not None else 0
    except OSError:  # on the host, and this is a container
        number = 0
    carrier = sys / "dev/block" / f"{os.major(number)}:{os.minor(number)}"
    if number and carrier.exists():
        lower.append(_whole_disk(carrier.resolve()).name)
    return lower


def _whole_disk(folder: Path) -> Path:
    return folder.parent if (folder / "partition").exists() else folder


def _slaves(folder: Path) -> list[Path]:
    """Return devices directly below a stacked one, resolved and sorted by name."""
    return sorted((slave.resolve() for slave in _entries(folder / "slaves")), key=lambda slave: slave.name)


def _entries(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []


def read_text(file: Path) -> str | None:
    """Return a small file's text, stripped; None if it is unreadable or empty."""
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip() or None
    except OSError:
        return None


def read_int(file: Path) -> int | None:
    """Return a small file's number; None if it is unreadable."""
    text = read_text(file)
    return int(text) if text is not None and text.lstrip("-").isdecimal() else None


def _device(entry: Path) -> BlockDevice | None:
    if not entry.exists():
        return None
    folder = entry.resolve()
    disk = folder.parent if (folder / "partition").exists() else folder
    queue = disk / "queue"
    rotational = read_int(queue / "rotational")
    direct_io = read_int(disk / "loop/dio")
    stack = _stack(disk)
    lower = sorted(path.name for path in stack if path != disk and not _slaves(path))
    carriers = [path for path in stack if not _slaves(path)]
    return BlockDevice(
        name=folder.name,
        disk=disk.name,
        model=_of_all(read_text(path / "device/model") for path in carriers),
        scheduler=_of_all(_chosen(read_text(path / "queue/scheduler")) for path in carriers),
        read_ahead_kib=read_int(queue / "read_ahead_kb"),
        rotational=None if rotational is None else bool(rotational),
        logical_block_bytes=read_int(queue / "logical_block_size"),
        atomic_write_bytes=read_int(queue / "atomic_write_unit_max_bytes"),
        lower=tuple(lower),
        stack={path.name: _kind(path) for path in stack},
        backing_file=read_text(disk / "loop/backing_file"),
        direct_io=None if direct_io is None else bool(direct_io),
    )


def _stack(disk: Path) -> list[Path]:
    """Return whole disks from this one downwards, level by level; each once."""
    stack, level = [disk], [disk]
    for _ in range(_DEPTH_MAX):
        below = [_whole_disk(slave) for folder in level for slave in _slaves(folder)]
        level = [folder for folder in dict.fromkeys(below) if folder not in stack]
        stack += level[: _DISKS_MAX - len(stack)]
    return stack


def _kind(folder: Path) -> str:
    """Return what a whole disk is: `LVM vg-data`, `dm-crypt luks`, `md raid0`, `bcache`, `loop`, `disk`."""
    mapped = read_text(folder / "dm/name")
    if mapped is not None:
        prefix = (read_text(folder / "dm/uuid") or "").partition("-")[0]
        return f"{_MAPPED.get(prefix, 'device mapper')} {mapped}"
    level = read_text(folder / "md/level")
    if level is not None:
        return f"md {level}"
    name = folder.name.rstrip("0123456789")
    return name if name in ("bcache", "loop", "nbd", "zram", "ram") else "disk"


def _of_all(values: Iterable[str | None]) -> str | None:
    """Return the values that there are, each once; None without any."""
    return ", ".join(dict.fromkeys(value for value in values if value is not None)) or None


def _chosen(text: str | None) -> str | None:
    """Return `none` of "mq-deadline [none]"."""
    if text is None:
        return None
    return text.partition("[")[2].partition("]")[0] or text
