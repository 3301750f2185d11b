"""/proc/self/mountinfo: which mount a path is on. Format: proc_pid_mountinfo(5)."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

MOUNTINFO = Path("/proc/self/mountinfo")
_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, kw_only=True)
class Mount:
    """One line of mountinfo, unescaped.

    Args:
        root: the directory of the filesystem that is mounted here; not `/` for a bind mount or subvolume.
        options, super_options: of this mount, and of the filesystem.
    """

    mount_id: int
    parent_id: int
    device_number: str
    root: str
    mount_point: str
    options: tuple[str, ...]
    filesystem: str
    source: str
    super_options: tuple[str, ...]

    def option(self, name: str) -> str | None:
        """Return the value of a `name=value` option of the filesystem or the mount; None without it."""
        for option in (*self.super_options, *self.options):
            key, separator, value = option.partition("=")
            if key == name and separator:
                return value
        return None

    @property
    def all_options(self) -> tuple[str, ...]:
        """The mount's options, then further ones of the filesystem."""
        return tuple(dict.fromkeys((*self.options, *self.super_options)))


def unescape(text: str) -> str:
    r"""Return the text with `\040` and the like turned into the (ASCII) characters they stand for."""
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), text)


def parse_mountinfo(text: str) -> tuple[Mount, ...]:
    """Return every mount, in the file's order. Malformed lines are skipped."""
    mounts = []
    for line in text.splitlines():
        before, separator, after = line.partition(" - ")
        fields, filesystem_fields = before.split(" "), after.split(" ")
        if (
            not separator
            or len(fields) < 6
            or len(filesystem_fields) < 2
            or not (_is_whole(fields[0]) and _is_whole(fields[1]))
        ):
            continue
        mounts.append(
            Mount(
                mount_id=int(fields[0]),
                parent_id=int(fields[1]),
                device_number=fields[2],
                root=unescape(fields[3]),
                mount_point=unescape(fields[4]),
                options=_options(fields[5]),
                filesystem=filesystem_fields[0],
                source=unescape(filesystem_fields[1]),
                super_options=_options(filesystem_fields[2]) if len(filesystem_fields) > 2 else (),
            )
        )
    return tuple(mounts)


def _is_whole(text: str) -> bool:
    return len(text) < 20 and text.isascii() and text.isdecimal()


def mount_of(path: str, mounts: Sequence[Mount]) -> Mount | None:
    """Return the mount of an absolute, resolved path, walking down as the kernel does.

    Mounts that a later mount covers are not reached.
    """
    mount_ids = {mount.mount_id for mount in mounts}
    roots = [mount for mount in mounts if mount.parent_id not in mount_ids and mount.mount_point == "/"]
    if not roots:
        holding = [mount for mount in reversed(mounts) if _holds(mount, path)]
        return max(holding, key=lambda mount: len(mount.mount_point), default=None)
    current = roots[-1]
    for _ in range(len(mounts)):
        below = [
            mount
            for mount in mounts
            if mount.parent_id == current.mount_id and mount is not current and _holds(mount, path)
        ]
        if not below:
            break
        current = min(reversed(below), key=lambda mount: len(mount.mount_point))
    return current


def mounts_below(directory: str, mounts: Sequence[Mount]) -> list[str]:
    """Return mount points inside a directory, without the directory itself."""
    parent = PurePosixPath(directory)
    return sorted(mount.mount_point for mount in mounts if parent in PurePosixPath(mount.mount_point).parents)


def read_mounts(file: Path = MOUNTINFO) -> tuple[Mount, ...]:
    """Return the mounts that this process sees."""
    return parse_mountinfo(file.read_text(encoding="utf-8", errors="surrogateescape"))


def mount_of_open_path(path: Path, mounts: Sequence[Mount]) -> Mount | None:
    """Return the mount of a path, from the kernel (`mnt_id` in fdinfo); None if unknown.

    Raises OSError if the path cannot be opened.
    """
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        text = Path(f"/proc/self/fdinfo/{descriptor}").read_text(encoding="ascii")
    except OSError:
        return None
    finally:
        os.close(descriptor)
    for line in text.splitlines():
        if line.startswith("mnt_id:"):
            number = int(line.split()[1])
            return next((mount for mount in mounts if mount.mount_id == number), None)
    return None


def _options(text: str) -> tuple[str, ...]:
    return tuple(unescape(option) for option in text.split(",") if option)


def _holds(mount: Mount, path: str) -> bool:
    return PurePosixPath(path).is_relative_to(mount.mount_point)
