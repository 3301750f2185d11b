"""`nfs:server:/export?vers=4.1,nconnect=4`: an export mounted by the kernel, or by Docker's local driver."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

from volbench.core.base import ownership, programs
from volbench.core.base.mountinfo import read_mounts
from volbench.core.records.run import VolumeSpec
from volbench.errors import MissingPrerequisite
from volbench.machine.volume.facts.discovery import discover
from volbench.machine.volume.interface import OpenVolume, VolumeBase
from volbench.machine.volume.kinds.path import check_directory

FILESYSTEMS = Path("/proc/filesystems")
MOUNT_TIMEOUT_S = 90.0
_OPTIONS_MAX = 64


def split_export(location: str) -> tuple[str, str]:
    """Return server and export of `server:/export`; the server may be an IPv6 address in brackets."""
    server, _, export = location.rpartition(":/")
    return server, f"/{export}"


def mount_options(spec: VolumeSpec) -> tuple[str, ...]:
    """Return the SPEC's mount options, in order. No option is added: the kernel's defaults apply."""
    text = spec.options.get("options", "")
    return tuple(option for option in text.split(",") if option)[:_OPTIONS_MAX]


def mount_command(spec: VolumeSpec, mount_point: Path) -> list[str]:
    """Return the argument list that mounts the export."""
    options = mount_options(spec)
    chosen = ["-o", ",".join(options)] if options else []
    return ["mount", "-t", "nfs", *chosen, "--", spec.location, str(mount_point)]


def driver_options(spec: VolumeSpec, *, address: str) -> dict[str, str]:
    """Return options of Docker's local driver for the same mount; it needs the server as a numeric `addr=`.

    The engine calls mount(2) itself, without mount.nfs's negotiation, and the kernel alone would take version 3 or
    fail. So 4.2 is added if the SPEC has no version.
    """
    _, export = split_export(spec.location)
    options = [option for option in mount_options(spec) if not option.startswith("addr=")]
    if not any(option.startswith(("vers=", "nfsvers=")) for option in options):
        options.insert(0, "vers=4.2")
    return {"type": "nfs", "o": ",".join([f"addr={address}", *options]), "device": f":{export}"}


def server_address(spec: VolumeSpec) -> str:
    """Return the server's numeric address. Raise MissingPrerequisite if its name cannot be resolved."""
    server, _ = split_export(spec.location)
    try:
        addresses = socket.getaddrinfo(server.strip("[]"), 2049, type=socket.SOCK_STREAM)
    except OSError as error:
        raise MissingPrerequisite(
            f"the NFS server's name {server} cannot be resolved",
            where=f"volume {spec.name}={spec.text}",
            evidence=str(error),
            next_step="correct the name, or give the server's address",
            cause="volume_gone",
        ) from error
    return str(addresses[0][4][0])


def require_nfs_client(spec: VolumeSpec, *, filesystems: Path = FILESYSTEMS) -> None:
    """Raise MissingPrerequisite if the kernel has no NFS client, neither built in nor as a loadable module."""
    if _has_nfs(filesystems):
        return
    with suppress(OSError, subprocess.TimeoutExpired):  # without modprobe (container) nothing can be loaded
        programs.run(["modprobe", "nfs"], capture_output=True, check=False, timeout=MOUNT_TIMEOUT_S)
    if not _has_nfs(filesystems):
        raise MissingPrerequisite(
            "this kernel has no NFS client",
            where=f"volume {spec.name}={spec.text}",
            evidence=f"{filesystems} lists neither nfs nor nfs4, and the module could not be loaded",
            next_step="use a kernel with CONFIG_NFS_FS (on cloud images: the linux-modules-extra package)",
        )


class NfsVolume(VolumeBase):
    """An export that this process mounts as root in a directory of its own, and unmounts at the end."""

    def __init__(self, spec: VolumeSpec, *, run_id: str = "", filesystems: Path = FILESYSTEMS) -> None:
        super().__init__(spec)
        self._run_id = run_id
        self._filesystems = filesystems
        self._directory: Path | None = None

    def open(self) -> OpenVolume:
        """Mount the export.

        Raises MissingPrerequisite if kernel, permission, mount.nfs or the server are missing.
        """
        where = f"volume {self.spec.name}={self.spec.text}"
        require_nfs_client(self.spec, filesystems=self._filesystems)
        if os.geteuid() != 0:
            raise MissingPrerequisite(
                "mounting an NFS export needs root",
                where=where,
                evidence=f"this user is {os.geteuid()}",
                next_step="run as root, use --target docker, or mount the export yourself and name it as path:",
            )
        self._directory = Path(tempfile.mkdtemp(prefix="volbench-nfs-"))
        ownership.claim(self._directory, purpose="nfs mount point", run_id=self._run_id)
        mount_point = self._directory / "mnt"
        mount_point.mkdir()
        _run(
            mount_command(self.spec, mount_point),
            failure_text=f"{self.spec.location} cannot be mounted",
            where=where,
        )
        check_directory(mount_point, where=where)
        return OpenVolume(name=self.spec.name, spec=self.spec, host_path=mount_point, facts=discover(mount_point))

    def close(self) -> None:
        """Unmount and remove the mount point. Raises MissingPrerequisite when the mount is still in use."""
        if self._directory is None:
            return
        mount_point = self._directory / "mnt"
        where = f"volume {self.spec.name}={self.spec.text}"
        if any(mount.mount_point == str(mount_point) for mount in read_mounts()):
            _run(["umount", "--", str(mount_point)], failure_text="the export cannot be unmounted", where=where)
        ownership.remove(self._directory)
        self._directory = None


def _has_nfs(filesystems: Path) -> bool:
    try:
        return not {"nfs", "nfs4"}.isdisjoint(filesystems.read_text(encoding="ascii").split())
    except OSError:
        return False


def _run(argv: list[str], *, failure_text: str, where: str) -> None:
    try:
        done = programs.run(
            argv, capture_output=True, check=False, text=True, errors="replace", timeout=MOUNT_TIMEOUT_S
        )
    except FileNotFoundError as error:
        raise MissingPrerequisite(
            failure_text, where, str(error), next_step="apt-get install mount nfs-common"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise MissingPrerequisite(
            failure_text,
            where,
            f"{argv[0]} gave no answer in {MOUNT_TIMEOUT_S:.0f} s",
            "see whether the server answers",
        ) from error
    if done.returncode != 0:
        output = (done.stderr or done.stdout).strip() or f"exit code {done.returncode}"
        helper = "; is nfs-common installed?" if "helper program" in output or "wrong fs type" in output else ""
        raise MissingPrerequisite(
            failure_text, where, output, f"try it by hand: {' '.join(argv)}{helper}", cause="volume_unmountable"
        )
