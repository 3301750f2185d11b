"""What the lab makes on this machine and removes again: volumes, control groups of version 1, processes.

Everything has a name that only the lab uses, so that a lab that was killed is cleaned up by the next one: processes
carry a variable in their environment, groups a prefix, loop devices a file below the lab's directory.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from causes.network import Tcp

CGROUPS = Path("/sys/fs/cgroup")
LANE = os.environ.get("VOLBENCH_CAUSES_LANE", "0")
"""Labs beside each other on one machine have different ones: nothing of one is another's."""
GROUP = f"volbench-lab-{LANE}"
CONTROLLERS = ("blkio", "cpu", "cpuacct", "cpuset", "memory")
LABEL = "VOLBENCH_CAUSES_LAB"
IMAGE_MIB = 1536
COMMAND_S_MAX = 120
POLL_S = 0.05
SHAPED_CONNECTIONS = 32
"""Of nbdfuse to a shaped volume: with one, an operation that takes long holds the others (3 at a time measured)."""


@dataclass(frozen=True, kw_only=True)
class Volume:
    """A mounted ext4 on a loop device.

    Args:
        mount: its directory.
        device: kernel name of the loop device.
        number, below: major:minor of the loop device and of the disk that holds its file.
        server_pid: of nbdkit, which serves the file, None for a plain file.
        rate_file: nbdkit reads its rate there.
        tcp: the server that is reached over TCP; None: volbench starts one.
    """

    mount: Path
    device: str
    number: str
    below: str
    server_pid: int | None = None
    rate_file: Path | None = None
    tcp: Tcp | None = None


class Machine:
    """Makes and removes things below one directory; needs root."""

    def __init__(self, root: Path) -> None:
        self.cache = root
        self.root = root / f"lane-{LANE}"
        self.mount = self.root / "mnt"
        self._image = self.root / "volume.img"

    def open_volume(self, spec: Mapping[str, Any]) -> Volume:
        """A fresh ext4.

        Args:
            spec: `kind` loop, nbdkit, path (a directory of the disk or below `place`, no volume) or fuse (the same
                below bindfs); `mount_options`; of nbdkit `shaped` (shapes.c), or `rdelay_ms`, `wdelay_ms` and
                `rate_mib`, set when the load begins; of fuse `read_mib`, `read_ms` and `sync_ms`, of files whose
                path has `slow_file`; of loop and nbdkit `split_kib`, the largest operation that the kernel sends.
        """
        if spec["kind"] == "path":
            return self._open_path(Path(spec["place"]) if "place" in spec else self.root)
        if spec["kind"] == "fuse":
            return self._open_fuse(spec)
        for directory in (self.mount, self.root / "nbd"):
            directory.mkdir(parents=True, exist_ok=True)
        self._prefill()
        served = self._serve(spec) if spec["kind"] == "nbdkit" else None
        file = self._image if served is None else served[0][0]
        device = run("losetup", "--find", "--show", "--direct-io=on", str(file)).strip()
        run("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard", device)
        run("mount", "-o", str(spec.get("mount_options", "defaults")), device, str(self.mount))
        name = Path(device).name
        queue = Path(f"/sys/block/{name}/queue")  # a loop device keeps what a run before this one has set
        split_kib = str(spec.get("split_kib", (queue / "max_hw_sectors_kb").read_text()))
        (queue / "max_sectors_kb").write_text(split_kib)
        disk = self._image.stat().st_dev
        return Volume(
            mount=self.mount,
            device=name,
            number=Path(f"/sys/class/block/{name}/dev").read_text().strip(),
            below=f"{os.major(disk)}:{os.minor(disk)}",
            server_pid=None if served is None else served[0][1],
            rate_file=None if served is None else served[1],
        )

    def _open_path(self, below: Path) -> Volume:
        """An empty directory of a file system, for conditions that the volume has nothing to do with."""
        directory = below / f"{GROUP}-path"
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        number = f"{os.major(directory.stat().st_dev)}:{os.minor(directory.stat().st_dev)}"
        device = Path(f"/sys/dev/block/{number}").resolve().name
        return Volume(mount=directory, device=device, number=number, below=number)

    def _open_fuse(self, spec: Mapping[str, Any]) -> Volume:
        """An empty directory of the disk through bindfs, whose reads and syncs are delayed or metered."""
        source = self._open_path(self.root)
        self.mount.mkdir(parents=True, exist_ok=True)
        library = self.cache / "delays.so"
        if not library.exists() or library.stat().st_mtime < _DELAYS_SOURCE.stat().st_mtime:
            run("gcc", "-shared", "-fPIC", "-O2", "-o", str(library), str(_DELAYS_SOURCE), "-ldl")
        waits = {name: str(round(1000 * float(spec[key]))) for key, name in _FUSE_DELAYS.items() if key in spec}
        waits |= {"SLOW_FILE": str(spec["slow_file"])} if "slow_file" in spec else {}
        command = ["bindfs", "-f", "--multithreaded"]
        if "read_mib" in spec:
            command.append(f"--read-rate={round(float(spec['read_mib']) * 2**20)}")
        server = start([*command, str(source.mount), str(self.mount)], {**waits, "LD_PRELOAD": str(library)})
        wait_for(lambda: _is_mounted(self.mount), 10, "bindfs")
        return dataclasses.replace(source, mount=self.mount, server_pid=server.pid)

    def make_groups(self) -> None:
        """One group in each hierarchy; the server is put into them."""
        for controller in CONTROLLERS:
            group = group_of(controller)
            group.mkdir(exist_ok=True)
            if controller == "cpuset":
                for name in ("cpuset.cpus", "cpuset.mems"):
                    (group / name).write_text((group.parent / name).read_text())

    def clean_up(self) -> None:
        """Remove all that this lab, or one before it, has made; results stay."""
        if _is_mounted(self.mount) and shutil.which("fsfreeze"):  # a process that waits for a frozen one cannot end
            subprocess.run(["fsfreeze", "-u", str(self.mount)], check=False, timeout=30, capture_output=True)
        kill_processes()
        while _is_mounted(self.mount):
            run("umount", "--lazy", str(self.mount))
        for device in self._loop_devices():
            run("losetup", "--detach", device)
        # One that is in use goes with its last user, who still writes: into the next volume, if that began before.
        wait_for(lambda: not self._loop_devices(), 30, "the end of the loop devices")
        while _is_mounted(self.root / "nbd" / "disk"):
            run("umount", "--lazy", str(self.root / "nbd" / "disk"))
        for directory in (self.root, Path("/dev/shm")):
            shutil.rmtree(directory / f"{GROUP}-path", ignore_errors=True)
        for controller in CONTROLLERS:
            remove_group(group_of(controller))

    def _loop_devices(self) -> list[str]:
        """Return the devices on files of this lane."""
        listed = run("losetup", "--list", "--noheadings", "--output", "NAME,BACK-FILE")
        rows = (line.partition(" ") for line in listed.splitlines())
        return [device for device, _, file in rows if file.strip().startswith(f"{self.root}/")]

    def _prefill(self) -> None:
        """Blocks of the image are allocated once, so that no run pays for them."""
        size = IMAGE_MIB << 20
        if not self._image.exists() or self._image.stat().st_blocks * 512 < size:
            with self._image.open("wb") as file:
                for _ in range(IMAGE_MIB):
                    file.write(bytes(1 << 20))
                os.fsync(file.fileno())

    def _serve(self, spec: Mapping[str, Any]) -> tuple[tuple[Path, int], Path]:
        """The image by nbdkit with its filters, as a file of nbdfuse."""
        root, rate_file = self.root / "nbd", self.root / "nbd" / "rate"
        socket, file = root / "socket", root / "disk"
        socket.unlink(missing_ok=True)
        file.touch()
        write_rate(rate_file, 0)  # the data directory is copied without one
        command = ["nbdkit", "--foreground", "--unix", str(socket), "--threads", "64"]
        if spec.get("shaped"):
            plugin, control = self.cache / "shapes.so", self.shape_file
            if not plugin.exists() or plugin.stat().st_mtime < _SHAPES_SOURCE.stat().st_mtime:
                run("gcc", "-shared", "-fPIC", "-O2", "-o", str(plugin), str(_SHAPES_SOURCE))
            control.write_text("", encoding="ascii")
            command += [str(plugin), f"file={self._image}", f"control={control}"]
            return self._through_fuse(start(command), socket, file, connections=SHAPED_CONNECTIONS), rate_file
        if "rdelay_ms" in spec or "wdelay_ms" in spec:
            command += ["--filter=delay"]
        command += ["--filter=rate", "file", str(self._image), f"rate-file={rate_file}", "rate=100G"]
        command += [f"{name}={spec[key]}ms" for key, name in _DELAYS.items() if key in spec]
        return self._through_fuse(start(command), socket, file), rate_file

    @staticmethod
    def _through_fuse(
        server: subprocess.Popen[bytes], socket: Path, file: Path, *, connections: int = 1
    ) -> tuple[Path, int]:
        """What a nbdkit serves, as a file of nbdfuse."""
        wait_for(socket.exists, 10, "nbdkit's socket")
        start(["nbdfuse", "-C", str(connections), str(file), "--unix", str(socket)])
        wait_for(lambda: _is_mounted(file) and file.stat().st_size > 0, 10, "nbdfuse's file")
        return file, server.pid

    @property
    def shape_file(self) -> Path:
        """What a shaped volume reads its shape from, see shapes.c."""
        return self.root / "nbd" / "shape"


_DELAYS = {"rdelay_ms": "rdelay", "wdelay_ms": "wdelay"}
_FUSE_DELAYS = {"read_ms": "READ_US", "sync_ms": "SYNC_US"}
_DELAYS_SOURCE = Path(__file__).with_name("delays.c")
_SHAPES_SOURCE = Path(__file__).with_name("shapes.c")


def write_rate(file: Path, rate_mib: float) -> None:
    """The rate of nbdkit's rate filter, in bits a second; 0: none."""
    file.write_text(f"{round(rate_mib * 8 * 2**20)}\n" if rate_mib else "100G\n")


def group_of(controller: str) -> Path:
    """The lab's group of a hierarchy."""
    return CGROUPS / controller / GROUP


def remove_group(group: Path) -> None:
    """Move what still runs in it to the root group, then remove it."""
    if not group.exists():
        return
    for pid in (group / "cgroup.procs").read_text().split():
        with suppress(OSError):
            (group.parent / "cgroup.procs").write_text(pid)
    wait_for(lambda: _removed(group), 10, f"{group} to be empty")


def _removed(group: Path) -> bool:
    with suppress(OSError):
        group.rmdir()
    return not group.exists()


def run(*command: str) -> str:
    """A command to its end. Raises RuntimeError with its output when it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=COMMAND_S_MAX)
    if done.returncode:
        raise RuntimeError(
            f"{' '.join(command)}: exit {done.returncode}: {(done.stdout + done.stderr).strip()[:400]}"
        )
    return done.stdout


def start(command: Sequence[str], environment: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    """A process in a session of its own that carries the lab's label."""
    return subprocess.Popen(
        command,
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**labelled(), **(environment or {})},
    )


def labelled() -> dict[str, str]:
    """This environment with the label."""
    return {**os.environ, LABEL: LANE}


def kill_processes() -> None:
    """Kill all processes of this lab, and wait until they are gone. Raises RuntimeError for one that stays."""
    wait_for(lambda: not [_kill(pid) for pid in lab_processes()], 20, "killed processes to end")


def lab_processes() -> set[int]:
    """Processes that carry the label or are in the lab's groups, and all below them; zombies left out.

    volbench gives servers and load generators an environment of their own, which has no label. They stay in the
    groups when those above them were killed.
    """
    parents = dict(_parents())
    own = {pid for pid in (*labelled_processes(), *_grouped_processes()) if pid in parents}
    while below := {pid for pid, parent in parents.items() if parent in own} - own:
        own |= below
    return own - {os.getpid()}


def _grouped_processes() -> Iterator[int]:
    for controller in CONTROLLERS:
        with suppress(OSError):
            yield from map(int, (group_of(controller) / "cgroup.procs").read_text().split())


def _parents() -> Iterator[tuple[int, int]]:
    """Processes that run, each with the one above it."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, IndexError):
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
                if state not in "ZX":
                    yield int(entry.name), int(parent)


def labelled_processes() -> list[int]:
    """Process ids that carry the label, zombies left out."""
    mine = f"{LABEL}={LANE}".encode()
    results = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(OSError):
                if mine in (entry / "environ").read_bytes().split(b"\0"):
                    results.append(int(entry.name))
    return results


def _kill(pid: int) -> int:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
        os.kill(pid, signal.SIGCONT)
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    return pid


def wait_for(condition: Any, timeout_s: float, description: str) -> None:
    """Poll until a condition holds. Raises RuntimeError at the time-out."""
    until_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > until_s:
            raise RuntimeError(f"waited {timeout_s:g} s for {description}")
        time.sleep(POLL_S)


def _is_mounted(directory: Path) -> bool:
    fields = (line.split() for line in Path("/proc/self/mounts").read_text().splitlines())
    return any(field[1] == str(directory) for field in fields)


PROGRAMS = {
    "losetup": "mount",
    "mkfs.ext4": "e2fsprogs",
    "fio": "fio",
    "rsync": "rsync",
    "tar": "tar",
    "fstrim": "util-linux",
    "nbdkit": "nbdkit",
    "nbdfuse": "libnbd-bin",
    "sysbench": "sysbench",
    "mysqld": "mariadb-server-core",
    "iptables": "iptables",
}
"""What the lab needs, with Debian's package of each."""


def missing_programs() -> dict[str, str]:
    """Programs that this machine lacks, with Debian's package of each."""
    missing = {name: package for name, package in PROGRAMS.items() if shutil.which(name) is None}
    has_proxy = shutil.which("toxiproxy-server") or shutil.which("go")
    return missing if has_proxy else {**missing, "toxiproxy-server or go": "golang-go"}
