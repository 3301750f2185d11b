"""Emulated volumes: their life from an empty directory to a mounted file system, and back.

A volume's directory is ours by its marker and holds:

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
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from volbench.errors import EnvironmentLacks, Refused, StepFailed
from volbench.volume.ownership import claim, is_ours, remove
from volbench.volume.profiles import ResolvedVolume
from volbench.volume.space import require_space
from volbench.volume.teardown import (
    DAEMON,
    LOCK,
    Done,
    attachments,
    is_locked,
    run,
    started_at,
    take_down,
    take_lock,
    wait_until,
)

CONTROL_SOCKET = "control.sock"
FORMATTED = "formatted"
"""In backing/: the name of the file system that was made."""
VOLUME_SCHEMA = 1
READY_S_MAX = 15.0
ANSWER_S_MAX = 10.0
_MKFS_S_MAX = 120.0
# An image takes the space of what is written to it, so a 1 TiB volume may lie on a small disk. But a disk that
# fills up below it would look like a broken volume: there has to be room for a file system and a small dataset.
_FREE_BYTES_MIN = 2 << 30
_MORE_SPACE = "free space there, or name a directory on another disk with dir="
_LOG_CHARACTERS = 1500
_ANSWER_BYTES_MAX = 4 << 20
_MKFS = {"xfs": ["mkfs.xfs", "-q", "-f", "-K"], "ext4": ["mkfs.ext4", "-q", "-F", "-E", "nodiscard"]}

Status = Literal["running", "stopped", "leftover"]


@dataclass(frozen=True, kw_only=True)
class VolumeStatus:
    """One emulated volume of a root directory.

    Args:
        status: `running`; `stopped`: only its bytes are there; `leftover`: attached, but who started it is dead, or
            its daemon is.
        owner_pid: who started it; None for one that outlives the command that made it.
    """

    name: str
    directory: Path
    data: Path
    profile: str
    parameters: Mapping[str, Any]
    status: Status
    owner_pid: int | None


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
        daemon = _check_environment(self.resolved)
        claim(self.directory, purpose="emulated volume")
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
        remove(self.directory)

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
        for name in ("backing", "data", *(["image"] if block else [])):
            (self.directory / name).mkdir(exist_ok=True)
        backing = self.directory / "backing" / ("disk.img" if block else "tree")
        if block:
            _check_image(backing, self.resolved.size_bytes)
        else:
            backing.mkdir(exist_ok=True)
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
        _write_json(self.directory / "config.json", config)
        _write_json(self.directory / "volume.json", volume)

    def _start_daemon(self, daemon: Path) -> None:
        with (self.directory / "daemon.log").open("ab") as log, (self.directory / LOCK).open("ab") as lock:
            if not take_lock(lock):
                raise Refused("the emulated volume is being started by somebody else", where=str(self.directory))
            self._process = process = subprocess.Popen(
                [daemon, "run", self.directory / "config.json"],
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[lock.fileno()],  # the lock is the daemon's from here on, however we end
                start_new_session=True,  # a Ctrl-C for us must not tear the volume from under the server
            )

        def ready_or_dead() -> bool:
            return process.poll() is not None or _phase(self.directory) == "ready"

        if not wait_until(ready_or_dead, timeout_s=READY_S_MAX) or process.poll() is not None:
            raise StepFailed(
                "the emulated volume's daemon did not become ready",
                where=str(self.directory),
                evidence=_log_tail(self.directory) or f"exit code {process.poll()}",
                next_step=f"see {self.directory / 'daemon.log'}",
            )

    def _attach(self) -> None:
        """Loop device, file system on first use, mount."""
        made = self._run(
            ["losetup", "--direct-io=on", "--show", "--find", str(self.directory / "image" / "disk.img")]
        )
        device = Path(made.strip())
        # A volume without a cache must not be sent flushes. A loop device remembers what its last user set.
        cache = "write through" if self.resolved.durability == "write_through" else "write back"
        (Path("/sys/block") / device.name / "queue" / "write_cache").write_text(cache, encoding="ascii")
        filesystem = self.resolved.filesystem or "xfs"
        formatted = self.directory / "backing" / FORMATTED
        if not formatted.exists():
            self._run([*_MKFS[filesystem], str(device)], timeout_s=_MKFS_S_MAX)
            formatted.write_text(filesystem, encoding="ascii")
        mount_block(self.directory, device)

    def _run(self, argv: list[str], *, timeout_s: float = 60.0) -> str:
        return _run(self.directory, argv, timeout_s=timeout_s)


def mount_block(directory: Path, device: Path | None = None) -> None:
    """Mount the file system of a volume that is a block device. Raises StepFailed.

    Args:
        device: the loop device; None: the one that is attached already.
    """
    if device is None:
        loops = attachments(directory).loops
        if not loops:
            raise StepFailed("the emulated volume has no loop device any more", where=str(directory))
        device = Path("/dev") / loops[0]
    made_as = (directory / "backing" / FORMATTED).read_text(encoding="ascii")
    # xfs refuses a second file system of the same UUID, which a killed volume may have left somewhere.
    options = ["-o", "nouuid"] if made_as == "xfs" else []
    _run(directory, ["mount", "-t", made_as, *options, str(device), str(directory / "data")])


def unmount_block(directory: Path) -> None:
    """Unmount the file system of a volume that is a block device, and keep the device. Raises StepFailed."""
    last = Done(code=None, output="")

    def unmounted() -> bool:
        nonlocal last
        last = run(["umount", str(directory / "data")])  # a sampler may be looking into it for a moment
        return last.code == 0

    if not wait_until(unmounted, timeout_s=ANSWER_S_MAX):
        raise StepFailed("the emulated volume is in use", where=str(directory), evidence=last.output)


def _run(directory: Path, argv: list[str], *, timeout_s: float = 60.0) -> str:
    done = run(argv, timeout_s=timeout_s)
    if done.code != 0:
        raise StepFailed(
            f"{argv[0]} failed" if done.code is not None else f"{argv[0]} did not end within {timeout_s:g} s",
            where=str(directory),
            evidence=done.output or _log_tail(directory),
            next_step=f"the command was: {' '.join(argv)}",
        )
    return done.output


def find_daemon() -> Path | None:
    """The emulator's binary: beside this Python (its wheel puts it there), else on PATH."""
    beside = Path(sys.executable).parent / DAEMON
    if beside.is_file():
        return beside
    found = shutil.which(DAEMON)
    return Path(found) if found else None


def ask(directory: Path, request: Mapping[str, object]) -> dict[str, Any]:
    """Send one request to the daemon of a volume's directory and return its answer. Raises as ask_socket does."""
    return ask_socket(directory / CONTROL_SOCKET, request)


def ask_socket(control: Path, request: Mapping[str, object]) -> dict[str, Any]:
    """Send one request to a daemon's control socket, which may be seen elsewhere than in the volume's directory.

    Raises StepFailed when it refuses, does not answer in time, or is not there.
    """
    try:
        answer = json.loads(_exchange(control, json.dumps(request).encode() + b"\n"))
    except (OSError, ValueError) as error:
        raise StepFailed(
            "the emulated volume's daemon does not answer",
            where=str(control.parent),
            evidence=f"{type(error).__name__}: {error}",
            next_step=f"see {control.parent / 'daemon.log'}",
        ) from error
    if not answer.get("ok"):
        raise StepFailed(
            f"the emulated volume refuses {request.get('do')}",
            where=str(control.parent),
            evidence=str(answer.get("error")),
        )
    return dict(answer)


def stop_volume(directory: Path) -> None:
    """Take a volume down in the right order; what is written back meanwhile is not delayed, or it might take hours.

    Raises StepFailed when somebody still uses it; then it goes on as it is.
    """
    with contextlib.suppress(StepFailed):  # no daemon: nothing is delayed either
        ask(directory, {"do": "hurry", "on": True})
    try:
        take_down(directory, force=False)
    except StepFailed:
        with contextlib.suppress(StepFailed):
            ask(directory, {"do": "hurry", "on": False})
        raise


def list_volumes(root: Path) -> tuple[VolumeStatus, ...]:
    """The emulated volumes below a directory, ours by their markers. Never waits for a volume."""
    found = []
    for directory in sorted(path.parent for path in root.resolve().glob("*/volume.json")):
        volume = _read_json(directory / "volume.json")
        if not is_ours(directory) or volume is None:
            continue
        owner = volume.get("owner")
        found.append(
            VolumeStatus(
                name=directory.name,
                directory=directory,
                data=directory / "data",
                profile=str(volume.get("profile")),
                parameters=dict(volume.get("parameters") or {}),
                status=volume_status(directory),
                owner_pid=owner["pid"] if owner else None,
            )
        )
    return tuple(found)


def clear_leftovers(root: Path) -> tuple[Path, ...]:
    """Take down what killed processes have left attached below a directory; bytes stay. Returns what was cleared.

    Only directories with our marker are looked at, and of these only volumes whose owner is dead, or that have none
    and whose daemon is dead: an owner that lives takes down its own. Raises StepFailed when something cannot be
    taken down.
    """
    cleared = []
    for volume in list_volumes(root):
        if volume.status == "leftover" and not _has_living_owner(volume.directory):
            take_down(volume.directory, force=True)
            cleared.append(volume.directory)
    return tuple(cleared)


def volume_status(directory: Path) -> Status:
    """Whether a volume's directory is in use, at rest, or what a killed process has left. Never waits."""
    locked = is_locked(directory)
    if not locked and not attachments(directory):
        return "stopped"
    owner_is_gone = _owner(directory) is not None and not _has_living_owner(directory)
    return "running" if locked and not owner_is_gone else "leftover"


def _owner(directory: Path) -> dict[str, int] | None:
    return (_read_json(directory / "volume.json") or {}).get("owner")


def _has_living_owner(directory: Path) -> bool:
    owner = _owner(directory)
    return owner is not None and started_at(owner["pid"]) == owner["started"]


def _check_environment(resolved: ResolvedVolume) -> Path:
    """The daemon's path. Raises EnvironmentLacks naming everything that is missing."""
    lacks = []
    if os.geteuid() != 0:
        lacks.append("root")
    lacks += [device for device in ("/dev/fuse",) if not Path(device).exists()]
    programs = ["mount", "umount"]
    if resolved.mode == "block":
        lacks += [device for device in ("/dev/loop-control",) if not Path(device).exists()]
        programs += ["losetup", _MKFS[resolved.filesystem or "xfs"][0]]
    lacks += [program for program in programs if shutil.which(program) is None]
    daemon = find_daemon()
    if daemon is None:
        lacks.append(DAEMON)
    if lacks or daemon is None:
        raise EnvironmentLacks(
            f"emulated volumes cannot be made on this machine: it lacks {', '.join(lacks)}",
            where=f"emulated:{resolved.profile}",
            evidence=f"uid {os.geteuid()}, PATH {os.environ.get('PATH', '')}",
            next_step="run as root with FUSE, losetup and xfsprogs; `pip install runner/emulator` makes the daemon",
        )
    return daemon


def _check_image(image: Path, size_bytes: int) -> None:
    """Make the image, sparse; or grow one that is there.

    Raises Refused for one that would be cut, EnvironmentLacks for a disk below it that is about full.
    """
    with image.open("ab") as file:
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


def _phase(directory: Path) -> str | None:
    try:
        return str(json.loads(_exchange(directory / CONTROL_SOCKET, b'{"do": "state"}\n'))["state"]["phase"])
    except (OSError, ValueError, KeyError):
        return None


def _exchange(control: Path, line: bytes) -> bytes:
    """One line to the control socket, one line back."""
    # A socket's path may have 107 bytes; by way of a descriptor the directory's may be longer.
    place = os.open(control.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
            stream.settimeout(ANSWER_S_MAX)
            stream.connect(f"/proc/self/fd/{place}/{control.name}")
            stream.sendall(line)
            with stream.makefile("rb") as reader:
                return reader.readline(_ANSWER_BYTES_MAX)
    finally:
        os.close(place)


def _log_tail(directory: Path) -> str:
    try:
        return (directory / "daemon.log").read_text(errors="replace")[-_LOG_CHARACTERS:].strip()
    except OSError:
        return ""


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    partial.replace(path)
