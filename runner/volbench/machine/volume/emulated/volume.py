"""Emulated volumes: from an empty directory to a mounted file system, and back.

A volume's directory has volbench's marker. Other users may pass through it to `data`, and see nothing else. It
contains:

- `volume.json`: its profile, and its owner (the process that started it);
- `config.json`, `daemon.pid`, `daemon.log`, `control.sock`: the daemon's files;
- `backing/`: the data, a disk image or a directory tree; it survives a stop, a crash and a power cut;
- `image/`: in block mode the FUSE mount with disk.img, on which the loop device is;
- `data/`: the file system to use: xfs or ext4 on the loop device, or the FUSE mount of the tree.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from volbench.core.base import ownership, programs, safe_files
from volbench.core.profile.resolve import ResolvedVolume
from volbench.errors import Refused, StepFailed
from volbench.machine.volume.emulated.attachments import (
    LOCK,
    attachments,
    forget_loop,
    process_namespace,
    process_start_ticks,
    remember_loop,
)
from volbench.machine.volume.emulated.commands import wait_until
from volbench.machine.volume.emulated.control import ANSWER_S_MAX, CONTROL_SOCKET, ask, phase, without_delays
from volbench.machine.volume.emulated.exclusive import changing
from volbench.machine.volume.emulated.mount import FORMATTED, log_tail, mount_block, run_or_fail
from volbench.machine.volume.emulated.requirements import MKFS, check_environment
from volbench.machine.volume.emulated.status import PURPOSE, settled_status, stop_volume
from volbench.machine.volume.emulated.teardown import take_down, take_lock
from volbench.machine.volume.space import require_space

VOLUME_SCHEMA = 1
DIRECTORY_MODE = 0o711
"""A server that runs as another user can pass through to `data`, but cannot list the directory."""
_SUBDIRECTORIES = {"backing": 0o700, "data": 0o755, "image": 0o700}
_FILES = ("volume.json", "config.json", "daemon.log", LOCK, FORMATTED)
READY_S_MAX = 15.0
_MKFS_S_MAX = 120.0
# An image is sparse, so a 1 TiB volume may lie on a small disk. But a full disk below it would look like a broken
# volume: there has to be space for a file system and a small dataset.
_FREE_BYTES_MIN = 2 << 30
TRIM_S_MAX = 300.0
_MORE_SPACE = "free some space there, or name a directory on another disk with dir="


class EmulatedVolume:
    """An emulated volume in a directory of its own below `root`; a context manager over `start` and `stop`.

    Args:
        resolved: the profile with its parameters, from `profiles.resolve`.
        root: an existing directory, on the disk for the data.
        name: the directory's name below root.
        outlives_us: the volume stays when this process ends, for `volbench volume emulate`.
    """

    def __init__(self, resolved: ResolvedVolume, root: Path, *, name: str, outlives_us: bool = False) -> None:
        self.resolved = resolved
        self.directory = root.resolve() / name
        self.name = name
        self.outlives_us = outlives_us
        self._process: subprocess.Popen[bytes] | None = None
        self._is_new = False

    @property
    def data(self) -> Path:
        """The directory to use, once started."""
        return self.directory / "data"

    def __enter__(self) -> EmulatedVolume:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> Path:
        """Start the volume and return its data directory, with the data of earlier starts.

        Raises MissingPrerequisite (root, FUSE, a program), Refused (no marker, in use), StepFailed. A directory
        that it created for a volume that does not start is removed again.
        """
        daemon = check_environment(self.resolved)
        ownership.make_private_root(self.directory.parent)
        self._is_new = not os.path.lexists(self.directory)
        ownership.claim(self.directory, purpose=PURPOSE, mode=DIRECTORY_MODE)
        with changing(self.directory):
            self._clear_leftovers()
            try:
                self._prepare()
                self._start_daemon(daemon)
                if self.resolved.mode == "block":
                    self._attach()
                else:
                    self._set_read_ahead()
            except BaseException:
                take_down(self.directory, force=True)
                self._reap()
                if self._is_new:  # it holds what this start made, and nothing else
                    ownership.remove(self.directory)
                raise
        return self.data

    def stop(self) -> None:
        """Take the volume down in the right order; its data stays. Safe to call twice.

        Raises StepFailed if another process uses it; then the volume keeps running.
        """
        with changing(self.directory):
            self._stop()

    def remove(self) -> None:
        """Stop the volume and erase its data. Raise as `stop` does."""
        with changing(self.directory):
            self._stop()
            ownership.remove(self.directory)

    def _stop(self) -> None:
        stop_volume(self.directory)
        self._reap()

    def state(self) -> dict[str, Any]:
        """Return the daemon's state: phase, health, active faults, what a power cut would lose."""
        return dict(ask(self.directory, {"do": "state"})["state"])

    def trim(self) -> None:
        """Free what no file of a block volume uses any more in its image; do nothing where that is not possible.

        XFS frees removed files in the background: what comes too late for this call is freed by the next one.
        """
        if self.resolved.mode == "block":
            with without_delays(self.directory / CONTROL_SOCKET):
                for command in (["sync", "--file-system"], ["fstrim"]):
                    programs.run([*command, str(self.data)], capture_output=True, timeout=TRIM_S_MAX, check=False)

    def counters(self) -> dict[str, Any]:
        """Return all counters since the start, under volbench's names and the vendors', with the fidelity."""
        return dict(ask(self.directory, {"do": "counters"})["counters"])

    def fault(self, kind: str, **details: object) -> dict[str, int]:
        """Inject a fault, such as fault("stall", seconds=2) or fault("power_cut"); `clear` removes all faults.

        Returns what a power cut lost: {"writes", "bytes"}. After one, stop and start the volume to recover it.
        Raises StepFailed with the daemon's message for an unknown fault.
        """
        return dict(ask(self.directory, {"do": "fault", "fault": {"kind": kind, **details}})["lost"])

    def _clear_leftovers(self) -> None:
        status = settled_status(self.directory)
        if status == "stopped":
            return
        if status == "running":
            raise Refused(
                "the emulated volume is running already",
                where=str(self.directory),
                evidence=str(attachments(self.directory)),
                next_step="use another name, or `volbench volume remove`",
            )
        take_down(self.directory, force=True)
        self._reap()

    def _reap(self) -> None:
        """Wait for the daemon's end, if it is a child of this process."""
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(ANSWER_S_MAX)
            self._process = None

    def _prepare(self) -> None:
        block = self.resolved.mode == "block"
        with ownership.open_owned(self.directory) as descriptor:
            for name, mode in _SUBDIRECTORIES.items():
                if block or name != "image":
                    _make_subdirectory(descriptor, name, mode)
            for name in _FILES:  # of an earlier version, which everybody could read
                _make_private(descriptor, name)
        backing = self.directory / "backing" / ("disk.img" if block else "tree")
        if block:
            _check_image(backing, self.resolved.size_bytes)
        elif not backing.is_dir():
            backing.mkdir(mode=0o755)  # what `data` shows as its own mode
        mount = self.directory / ("image" if block else "data")
        config = self.resolved.daemon_config(directory=self.directory, mount=mount, backing=backing)
        own = {"pid": os.getpid(), "started": process_start_ticks(os.getpid()), "namespace": process_namespace()}
        volume = {
            "schema": VOLUME_SCHEMA,
            "profile": self.resolved.profile,
            "parameters": dict(self.resolved.parameters),
            "assumed": list(self.resolved.assumed),
            "owner": None if self.outlives_us else own,
        }
        _write_json(self.directory, "config.json", config)
        _write_json(self.directory, "volume.json", volume)

    def _start_daemon(self, daemon: Path) -> None:
        with _open_for_append(self.directory, "daemon.log") as log, _open_for_append(self.directory, LOCK) as lock:
            if not take_lock(lock):
                raise Refused("another process is starting the emulated volume", where=str(self.directory))
            self._process = process = programs.Popen(
                [daemon, "run", self.directory / "config.json"],
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[lock.fileno()],  # from here on the daemon has the lock, however this process ends
                umask=0o077,
                start_new_session=True,  # a Ctrl-C must not end the volume under a running server
            )

        def ready_or_dead() -> bool:
            return process.poll() is not None or phase(self.directory) == "ready"

        if not wait_until(ready_or_dead, timeout_s=READY_S_MAX) or process.poll() is not None:
            raise StepFailed(
                "the emulated volume's daemon did not become ready",
                where=str(self.directory),
                evidence=log_tail(self.directory) or f"exit code {process.poll()}",
                next_step="" if self._is_new else f"see {self.directory / 'daemon.log'}",
            )

    def _set_read_ahead(self) -> None:
        """Set how far the kernel reads ahead, as mount helpers of NFS do. Raise StepFailed."""
        kib = self.resolved.read_ahead_kib
        if kib is None:
            return
        device = self.data.stat().st_dev
        setting = Path(f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}/read_ahead_kb")
        try:
            setting.write_text(str(kib), encoding="ascii")
        except OSError as error:
            raise StepFailed(
                f"the volume's read-ahead cannot be set to {kib} KiB",
                where=str(setting),
                evidence=str(error),
                next_step="writing below /sys needs root on the host, or a container with a writable /sys",
            ) from error

    def _attach(self) -> None:
        """Loop device, file system on first use, mount."""
        forget_loop(self.directory)
        made = self._run(
            ["losetup", "--direct-io=on", "--show", "--find", str(self.directory / "image" / "disk.img")]
        )
        device = Path(made.strip())
        remember_loop(self.directory, device)
        self._set_queue(Path("/sys/block") / device.name / "queue")
        filesystem = self.resolved.filesystem or "xfs"
        formatted = self.directory / "backing" / FORMATTED
        if not formatted.exists():
            self._run([*MKFS[filesystem], str(device)], timeout_s=_MKFS_S_MAX)
            formatted.write_text(filesystem, encoding="ascii")
        mount_block(self.directory, device)

    def _set_queue(self, queue: Path) -> None:
        """Set what a loop device keeps of its last user, such as a limit of 4 KiB: four requests for each page.

        A volume without a cache must not get flushes.
        """
        settings = {
            "write_cache": "write through" if self.resolved.durability == "write_through" else "write back",
            "max_sectors_kb": (queue / "max_hw_sectors_kb").read_text(encoding="ascii"),
            "nomerges": "0",
        }
        for name, value in settings.items():
            (queue / name).write_text(value, encoding="ascii")

    def _run(self, argv: list[str], *, timeout_s: float = 60.0) -> str:
        return run_or_fail(self.directory, argv, timeout_s=timeout_s)


def _check_image(image: Path, size_bytes: int) -> None:
    """Create a sparse image, or grow an existing one.

    Raises Refused if the image would shrink, MissingPrerequisite if its disk is nearly full.
    """
    with _open_for_append(image.parent, image.name) as file:
        current_bytes = file.tell()
        if current_bytes > size_bytes:
            raise Refused(
                "the volume's image is larger than the requested size",
                where=str(image),
                evidence=f"the image has {current_bytes} bytes, {size_bytes} were requested",
                next_step="use another name, or remove the volume first",
            )
        if current_bytes < size_bytes:
            require_space(image.parent, min(size_bytes - current_bytes, _FREE_BYTES_MIN), next_step=_MORE_SPACE)
            file.truncate(size_bytes)


def _make_subdirectory(directory_fd: int, name: str, mode: int) -> None:
    """Create a directory of a volume; correct the mode of an earlier version's, which every user could enter."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=directory_fd)
    if mode == 0o700:
        descriptor = safe_files.open_beneath(directory_fd, name, os.O_RDONLY | os.O_DIRECTORY, same_mount=True)
        try:
            os.fchmod(descriptor, mode)
        finally:
            os.close(descriptor)


def _make_private(directory_fd: int, name: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        file_descriptor = safe_files.open_regular(directory_fd, name)
        try:
            os.fchmod(file_descriptor, 0o600)
        finally:
            os.close(file_descriptor)


def _open_for_append(directory: Path, name: str) -> BinaryIO:
    """Open a file to append to it; create it readable for this user only. Raise OSError."""
    with safe_files.held_directory(directory) as directory_fd:
        descriptor = safe_files.open_regular(directory_fd, name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.fchmod(descriptor, 0o600)
    return os.fdopen(descriptor, "ab")


def _write_json(directory: Path, name: str, content: Mapping[str, Any]) -> None:
    with ownership.open_owned(directory) as descriptor:
        safe_files.write_new(descriptor, name, json.dumps(content, indent=1).encode() + b"\n")
