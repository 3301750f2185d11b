"""Bounds for programs and workers that read a stranger's bytes: a dump, a log, an archive."""

from __future__ import annotations

import ctypes
import os
import pwd
import random
import resource
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

__all__ = [
    "USERS",
    "Confinement",
    "confine_this_process",
    "has_no_new_privileges",
    "may_mount",
    "unprivileged_user",
]

USERS = range(61184, 65520)
"""Numbers that no distribution gives to anybody: systemd takes them for the users of DynamicUser=."""
_CAP_SETGID, _CAP_SETUID, _CAP_SYS_ADMIN = 6, 7, 21
_PR_SET_NO_NEW_PRIVS = 38
_STATUS = Path("/proc/self/status")


def unprivileged_user() -> int | None:
    """Return the number of a user, and group, that owns nothing and has no process; None where it cannot be used.

    That is so for a caller that is not root, or a root without the capabilities to change its user.
    """
    if os.geteuid() != 0 or not _may_change_user():
        return None
    used_numbers = {entry.pw_uid for entry in pwd.getpwall()} | _users_of_processes()
    return random.choice([number for number in USERS if number not in used_numbers])


@dataclass(frozen=True, kw_only=True)
class Confinement:
    """What a program may use. Two programs that run at once have a confinement each.

    Args:
        memory_bytes: of its address space.
        cpu_s: CPU time, in seconds; the caller bounds the time that passes.
        processes: with threads. 1: it can start no other program. The kernel counts all tasks of a user: another
            number bounds a user of the program's own only.
        file_bytes: size of a file that it writes, also of one that it was handed.
        open_files: descriptors at once.
        user: whom it runs as; None: as this process's user, who is not root then.
    """

    memory_bytes: int = 1 << 30
    cpu_s: int = 3600
    processes: int = 1
    file_bytes: int = 64 << 20
    open_files: int = 64
    user: int | None = field(default_factory=unprivileged_user)

    def give(self, descriptor: int) -> None:
        """Make the user the owner of an open file in memory, or of a pipe, so that it can open /dev/fd/N itself."""
        if self.user is not None:
            os.fchown(descriptor, self.user, self.user)

    def limits(self) -> dict[str, int]:
        """Return the limits by prlimit(1)'s names, none above what this process may have itself."""
        counts_own = self.user is not None or self.processes == 1
        limits = {
            "as": (resource.RLIMIT_AS, self.memory_bytes),
            "core": (resource.RLIMIT_CORE, 0),
            "cpu": (resource.RLIMIT_CPU, self.cpu_s),
            "fsize": (resource.RLIMIT_FSIZE, self.file_bytes),
            "nofile": (resource.RLIMIT_NOFILE, self.open_files),
            **({"nproc": (resource.RLIMIT_NPROC, self.processes)} if counts_own else {}),
        }
        return {name: _at_most_own(number, value) for name, (number, value) in limits.items()}


def confine_this_process(confinement: Confinement) -> None:
    """Confine this process for good, in a worker before its work: files that it reads are open by then.

    Raises OSError where the kernel refuses.
    """
    for name, value in confinement.limits().items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name.upper()}"), (value, value))
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "PR_SET_NO_NEW_PRIVS")
    if confinement.user is not None:
        os.setgroups([])
        os.setresgid(confinement.user, confinement.user, confinement.user)
        os.setresuid(confinement.user, confinement.user, confinement.user)


@cache
def has_no_new_privileges() -> bool:
    """Return whether neither this process nor what it starts can gain privileges, such as by a setuid program."""
    return _status_field("NoNewPrivs") == "1"


def _at_most_own(number: int, value: int) -> int:
    own = resource.getrlimit(number)[1]
    return value if own == resource.RLIM_INFINITY else min(value, own)


def may_mount() -> bool:
    """Return whether this process may make a mount namespace: root of a container mostly may not."""
    return bool(int(_status_field("CapEff") or "0", 16) >> _CAP_SYS_ADMIN & 1)


def _may_change_user() -> bool:
    effective = int(_status_field("CapEff") or "0", 16)
    if not (effective >> _CAP_SETUID & 1 and effective >> _CAP_SETGID & 1):
        return False
    return all(_maps_users(Path(f"/proc/self/{name}")) for name in ("uid_map", "gid_map"))


def _maps_users(path: Path) -> bool:
    """Return whether the user namespace has those numbers."""
    try:
        ranges = [line.split() for line in path.read_text().splitlines()]
    except OSError:
        return True  # a kernel without user namespaces
    return any(int(begin) <= USERS[0] and int(begin) + int(count) > USERS[-1] for begin, _, count in ranges)


def _users_of_processes() -> set[int]:
    users = set()
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            with suppress(OSError):  # ended meanwhile
                users.add(path.stat().st_uid)
    return users


def _status_field(name: str) -> str:
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(f"{name}:")), "")
