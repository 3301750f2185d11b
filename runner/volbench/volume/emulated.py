"""Emulated volumes: their life from an empty directory to a mounted file system, and back.

A volume's directory is ours by its marker. Other users may pass through it to `data`, and see nothing else. It
holds:

- `volume.json`: what it is, and whose it is (the process that started it);
- `config.json`, `daemon.pid`, `daemon.log`, `control.sock`: the daemon's;
- `backing/`: the bytes, a disk image or a directory tree; they survive a stop, a crash and a power cut;
- `image/`: in block mode the FUSE mount with disk.img, on which the loop device is;
- `data/`: what is to be used: xfs or ext4 on the loop device, or the FUSE mount of the tree.
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

from volbench.base import programs, safe_files
from volbench.errors import Refused, StepFailed
from volbench.volume import ownership
from volbench.volume.emulated_control import ANSWER_S_MAX, ask, phase
from volbench.volume.emulated_mount import FORMATTED, log_tail, mount_block, run_or_fail
from volbench.volume.emulated_needs import MKFS, check_environment
from volbench.volume.emulated_status import stop_volume, volume_status
from volbench.volume.profiles import ResolvedVolume
from volbench.volume.space import require_space
from volbench.volume.teardown import (
    LOCK,
    attachments,
    forget_loop,
    remember_loop,
    started_at,
    take_down,
    take_lock,
    wait_until,
)

VOLUME_SCHEMA = 1
DIRECTORY_MODE = 0o711
"""A server that runs as another user passes through it to `data`; it cannot list what else is there."""
_PARTS = {"backing": 0o700, "data": 0o755, "image": 0o700}
_FILES = ("volume.json", "config.json", "daemon.log", LOCK, FORMATTED)
READY_S_MAX = 15.0
_MKFS_S_MAX = 120.0
# An image takes the space of what is written to it, so a 1 TiB volume may lie on a small disk. But a disk that
# fills up below it would look like a broken volume: there has to be room for a file system and a small dataset.
_FREE_BYTES_MIN = 2 << 30
_MORE_SPACE = "free space there, or name a directory on another disk with dir="


class EmulatedVolume:
    """An emulated volume in a directory of its own below `root`; a context manager over `start` and `stop`.

    Args:
        resolved: what it emulates, from `profiles.resolve`.
        root: an existing directory, on the disk that carries the bytes.
        name: the directory's name below root.
        outlives_us: the volume stays when this process ends, as `volbench volume emulate` needs it.
    """

    def __init__(self, resolved: ResolvedVolume, root: Path, *, name: str, outlives_us: bool = False) -> None:
        self.resolved = resolved
        self.directory = root.resolve() / name
        self.name = name
        self.outlives_us = outlives_us
        self._process: subprocess.Popen[bytes] | None = None

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
        """Bring the volume up and return its data directory; bytes of an earlier start are there again.

        Raises EnvironmentLacks (root, FUSE, a program), Refused (not our directory, in use), StepFailed.
        """
        daemon = check_environment(self.resolved)
        ownership.make_private_root(self.directory.parent)
        ownership.claim(self.directory, purpose="emulated volume", mode=DIRECTORY_MODE)
        self._clear_own_leftovers()
        try:
            self._prepare()
            self._start_daemon(daemon)
            if self.resolved.mode == "block":
                self._attach()
        except BaseException:
            take_down(self.directory, force=True)
            self._reap()
            raise
        return self.data

    def stop(self) -> None:
        """Take the volume down in the right order; its bytes stay. Safe to call twice.

        Raises StepFailed when somebody still uses it; then it goes on as it is.
        """
        stop_volume(self.directory)
        self._reap()

    def remove(self) -> None:
        """Stop, and erase the bytes. Raises as `stop` does."""
        self.stop()
        ownership.remove(self.directory)

    def state(self) -> dict[str, Any]:
        """What the daemon says of itself: phase, health, faults in force, what a power cut would lose."""
        return dict(ask(self.directory, {"do": "state"})["state"])

    def counters(self) -> dict[str, Any]:
        """Everything counted since the start, under our names and the vendors', with the fidelity."""
        return dict(ask(self.directory, {"do": "counters"})["counters"])

    def fault(self, kind: str, **details: object) -> dict[str, int]:
        """Inject a fault, such as fault("stall", seconds=2) or fault("power_cut"); `clear` takes them back.

        Returns what a power cut lost: {"writes", "bytes"}. After one, stop and start the volume to recover it.
        Raises StepFailed with the daemon's words for a fault that it does not know.
        """
        return dict(ask(self.directory, {"do": "fault", "fault": {"kind": kind, **details}})["lost"])

    def modify(self, resolved: ResolvedVolume) -> None:
        """Change limits and latencies in use; credit buckets keep how full they are. Raises StepFailed."""
        ask(self.directory, {"do": "modify", "parameters": dict(resolved.model)})

    def _clear_own_leftovers(self) -> None:
        status = volume_status(self.directory)
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
        """Take note of the daemon's end, if it was our child."""
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(ANSWER_S_MAX)
            self._process = None

    def _prepare(self) -> None:
        block = self.resolved.mode == "block"
        with ownership.held(self.directory) as held:
            for name, mode in _PARTS.items():
                if block or name != "image":
                    _make_part(held, name, mode)
            for name in _FILES:  # of an earlier version, which everybody could read
                _make_private(held, name)
        backing = self.directory / "backing" / ("disk.img" if block else "tree")
        if block:
            _check_image(backing, self.resolved.size_bytes)
        elif not backing.is_dir():
            backing.mkdir(mode=0o755)  # what `data` shows as its own mode
        mount = self.directory / ("image" if block else "data")
        config = self.resolved.daemon_config(directory=self.directory, mount=mount, backing=backing)
        owner = None if self.outlives_us else {"pid": os.getpid(), "started": started_at(os.getpid())}
        volume = {
            "schema": VOLUME_SCHEMA,
            "profile": self.resolved.profile,
            "parameters": dict(self.resolved.parameters),
            "assumed": list(self.resolved.assumed),
            "owner": owner,
        }
        _write_json(self.directory, "config.json", config)
        _write_json(self.directory, "volume.json", volume)

    def _start_daemon(self, daemon: Path) -> None:
        with _appended(self.directory, "daemon.log") as log, _appended(self.directory, LOCK) as lock:
            if not take_lock(lock):
                raise Refused("the emulated volume is being started by somebody else", where=str(self.directory))
            self._process = process = programs.Popen(
                [daemon, "run", self.directory / "config.json"],
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[lock.fileno()],  # the lock is the daemon's from here on, however we end
                umask=0o077,
                start_new_session=True,  # a Ctrl-C for us must not tear the volume from under the server
            )

        def ready_or_dead() -> bool:
            return process.poll() is not None or phase(self.directory) == "ready"

        if not wait_until(ready_or_dead, timeout_s=READY_S_MAX) or process.poll() is not None:
            raise StepFailed(
                "the emulated volume's daemon did not become ready",
                where=str(self.directory),
                evidence=log_tail(self.directory) or f"exit code {process.poll()}",
                next_step=f"see {self.directory / 'daemon.log'}",
            )

    def _attach(self) -> None:
        """Loop device, file system on first use, mount."""
        forget_loop(self.directory)
        made = self._run(
            ["losetup", "--direct-io=on", "--show", "--find", str(self.directory / "image" / "disk.img")]
        )
        device = Path(made.strip())
        remember_loop(self.directory, device)
        # A volume without a cache must not be sent flushes. A loop device remembers what its last user set.
        cache = "write through" if self.resolved.durability == "write_through" else "write back"
        (Path("/sys/block") / device.name / "queue" / "write_cache").write_text(cache, encoding="ascii")
        filesystem = self.resolved.filesystem or "xfs"
        formatted = self.directory / "backing" / FORMATTED
        if not formatted.exists():
            self._run([*MKFS[filesystem], str(device)], timeout_s=_MKFS_S_MAX)
            formatted.write_text(filesystem, encoding="ascii")
        mount_block(self.directory, device)

    def _run(self, argv: list[str], *, timeout_s: float = 60.0) -> str:
        return run_or_fail(self.directory, argv, timeout_s=timeout_s)


def _check_image(image: Path, size_bytes: int) -> None:
    """Make the image, sparse; or grow one that is there.

    Raises Refused for one that would be cut, EnvironmentLacks for a disk below it that is about full.
    """
    with _appended(image.parent, image.name) as file:
        there = file.tell()
        if there > size_bytes:
            raise Refused(
                "the volume's image is larger than asked for",
                where=str(image),
                evidence=f"{there} bytes are there, {size_bytes} are asked for",
                next_step="use another name, or remove the volume first",
            )
        if there < size_bytes:
            require_space(image.parent, min(size_bytes - there, _FREE_BYTES_MIN), next_step=_MORE_SPACE)
            file.truncate(size_bytes)


def _make_part(held: int, name: str, mode: int) -> None:
    """Make a directory of a volume; an earlier version left one that everybody could enter."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=held)
    if mode == 0o700:
        descriptor = safe_files.open_beneath(held, name, os.O_RDONLY | os.O_DIRECTORY, same_mount=True)
        try:
            os.fchmod(descriptor, mode)
        finally:
            os.close(descriptor)


def _make_private(held: int, name: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        descriptor = safe_files.open_regular(held, name)
        try:
            os.fchmod(descriptor, 0o600)
        finally:
            os.close(descriptor)


def _appended(directory: Path, name: str) -> BinaryIO:
    """Open a file of ours to append to it; it is made for this user alone. Raises OSError."""
    with safe_files.held_directory(directory) as held:
        descriptor = safe_files.open_regular(held, name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.fchmod(descriptor, 0o600)
    return os.fdopen(descriptor, "ab")


def _write_json(directory: Path, name: str, content: Mapping[str, Any]) -> None:
    with ownership.held(directory) as held:
        safe_files.write_new(held, name, json.dumps(content, indent=1).encode() + b"\n")
