"""`nfs:server:/export?vers=4.1,nconnect=4`: an export mounted by the kernel, or by Docker's local driver."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

from volbench.base import programs
from volbench.errors import EnvironmentLacks
from volbench.records.run import VolumeSpec
from volbench.volume import ownership
from volbench.volume.facts import discover
from volbench.volume.interface import OpenVolume, VolumeBase
from volbench.volume.mountinfo import read_mounts
from volbench.volume.path import check_directory

FILESYSTEMS = Path("/proc/filesystems")
MOUNT_TIMEOUT_S = 90.0
_OPTIONS_MAX = 64


def split_place(place: str) -> tuple[str, str]:
    """Server and export of `server:/export`; the server may be an IPv6 address in brackets."""
    server, _, export = place.rpartition(":/")
    return server, f"/{export}"


def mount_options(spec: VolumeSpec) -> tuple[str, ...]:
    """The SPEC's mount options, in order. Missing ones are the kernel's defaults; none is added."""
    text = spec.options.get("options", "")
    return tuple(option for option in text.split(",") if option)[:_OPTIONS_MAX]


def mount_command(spec: VolumeSpec, mount_point: Path) -> list[str]:
    """The argument list that mounts the export."""
    options = mount_options(spec)
    chosen = ["-o", ",".join(options)] if options else []
    return ["mount", "-t", "nfs", *chosen, "--", spec.place, str(mount_point)]


def driver_options(spec: VolumeSpec, *, address: str) -> dict[str, str]:
    """Options of Docker's local driver for the same mount; it needs the server as a numeric `addr=`.

    A version must be there: the engine calls mount(2) itself, without mount.nfs's negotiation, and the kernel alone
    would take version 3 or fail. 4.2 is put in when the SPEC has none.
    """
    _, export = split_place(spec.place)
    options = [option for option in mount_options(spec) if not option.startswith("addr=")]
    if not any(option.startswith(("vers=", "nfsvers=")) for option in options):
        options.insert(0, "vers=4.2")
    return {"type": "nfs", "o": ",".join([f"addr={address}", *options]), "device": f":{export}"}


def server_address(spec: VolumeSpec) -> str:
    """The server's numeric address. Raises EnvironmentLacks when its name is not known."""
    server, _ = split_place(spec.place)
    try:
        found = socket.getaddrinfo(server.strip("[]"), 2049, type=socket.SOCK_STREAM)
    except OSError as error:
        raise EnvironmentLacks(
            f"the NFS server's name {server} cannot be resolved",
            where=f"volume {spec.name}={spec.text}",
            evidence=str(error),
            next_step="correct the name, or give the server's address",
            cause="volume_gone",
        ) from error
    return str(found[0][4][0])


def require_nfs_client(spec: VolumeSpec, *, filesystems: Path = FILESYSTEMS) -> None:
    """Raise EnvironmentLacks when the kernel has no NFS client, neither built in nor as a module it can load."""
    if _has_nfs(filesystems):
        return
    with suppress(OSError, subprocess.TimeoutExpired):  # without modprobe (container) nothing can be loaded
        programs.run(["modprobe", "nfs"], capture_output=True, check=False, timeout=MOUNT_TIMEOUT_S)
    if not _has_nfs(filesystems):
        raise EnvironmentLacks(
            "this kernel has no NFS client",
            where=f"volume {spec.name}={spec.text}",
            evidence=f"{filesystems} lists neither nfs nor nfs4, and the module could not be loaded",
            next_step="use a kernel with CONFIG_NFS_FS (on cloud images: the linux-modules-extra package)",
        )


class NfsVolume(VolumeBase):
    """An export that this process mounts, as root, under a directory of its own, and unmounts at the end."""

    def __init__(self, spec: VolumeSpec, *, run_id: str = "", filesystems: Path = FILESYSTEMS) -> None:
        super().__init__(spec)
        self._run_id = run_id
        self._filesystems = filesystems
        self._directory: Path | None = None

    def open(self) -> OpenVolume:
        """Mount it. Raises EnvironmentLacks when kernel, rights, mount.nfs or the server are lacking."""
        where = f"volume {self.spec.name}={self.spec.text}"
        require_nfs_client(self.spec, filesystems=self._filesystems)
        if os.geteuid() != 0:
            raise EnvironmentLacks(
                "mounting an NFS export needs root",
                where=where,
                evidence=f"this user is {os.geteuid()}",
                next_step="run as root, use --target docker, or mount it yourself and name it as path:",
            )
        self._directory = Path(tempfile.mkdtemp(prefix="volbench-nfs-"))
        ownership.claim(self._directory, purpose="nfs mount point", run_id=self._run_id)
        mount_point = self._directory / "mnt"
        mount_point.mkdir()
        _run(mount_command(self.spec, mount_point), what=f"{self.spec.place} cannot be mounted", where=where)
        check_directory(mount_point, where=where)
        return OpenVolume(name=self.spec.name, spec=self.spec, host_path=mount_point, facts=discover(mount_point))

    def close(self) -> None:
        """Unmount and remove the mount point. Raises EnvironmentLacks when the mount is still in use."""
        if self._directory is None:
            return
        mount_point = self._directory / "mnt"
        where = f"volume {self.spec.name}={self.spec.text}"
        if any(mount.mount_point == str(mount_point) for mount in read_mounts()):
            _run(["umount", "--", str(mount_point)], what="the export cannot be unmounted", where=where)
        ownership.remove(self._directory)
        self._directory = None


def _has_nfs(filesystems: Path) -> bool:
    try:
        return not {"nfs", "nfs4"}.isdisjoint(filesystems.read_text(encoding="ascii").split())
    except OSError:
        return False


def _run(argv: list[str], *, what: str, where: str) -> None:
    try:
        done = programs.run(
            argv, capture_output=True, check=False, text=True, errors="replace", timeout=MOUNT_TIMEOUT_S
        )
    except FileNotFoundError as error:
        raise EnvironmentLacks(what, where, str(error), next_step="apt-get install mount nfs-common") from error
    except subprocess.TimeoutExpired as error:
        raise EnvironmentLacks(
            what, where, f"{argv[0]} gave no answer in {MOUNT_TIMEOUT_S:.0f} s", "see whether the server answers"
        ) from error
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip() or f"exit code {done.returncode}"
        helper = "; is nfs-common installed?" if "helper program" in said or "wrong fs type" in said else ""
        raise EnvironmentLacks(
            what, where, said, f"try it by hand: {' '.join(argv)}{helper}", cause="volume_unmountable"
        )
