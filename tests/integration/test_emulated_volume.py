# ruff: noqa: S311, PTH101, PTH102, PTH106, PTH108, PTH112, PTH115, PTH116, PTH119, PTH208, PTH211 - the same calls on two texts
"""Emulated volumes on the real kernel: life cycle, limits, power cuts, faults, kills, and files as anywhere."""

from __future__ import annotations

import errno
import json
import math
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest

from volbench.errors import Refused, StepFailed
from volbench.volume.emulated import EmulatedVolume, clear_leftovers, find_daemon, list_volumes
from volbench.volume.profiles import ResolvedVolume, resolve
from volbench.volume.teardown import attachments, take_down, wait_until

pytestmark = [
    pytest.mark.emulator,
    pytest.mark.skipif(find_daemon() is None, reason="needs the daemon: pip install runner/emulator"),
]

FAST_FSX = {"iops": "100000", "throughput": "4000"}
KILL_S_MAX = 60


@pytest.fixture
def root() -> Iterator[Path]:
    """A directory on a real disk, taken down and removed whatever happens."""
    place = Path(tempfile.mkdtemp(prefix="volbench-emu-test-", dir="/var/tmp"))
    yield place
    for directory in place.iterdir():
        take_down(directory, force=True)
    shutil.rmtree(place)


def volume(root: Path, profile: str, **options: str) -> EmulatedVolume:
    name = "v"
    if profile != "fsx-openzfs" and not profile.startswith("efs"):
        options.setdefault("size", "1GiB")
    return EmulatedVolume(resolve(profile, options), root, name=name)


def without_delay(resolved: ResolvedVolume) -> ResolvedVolume:
    """The same volume, infinitely fast: for tests of what files hold."""
    model = {**resolved.model, "limits": [], "latency": {}}
    return ResolvedVolume(**{**resolved.__dict__, "model": model})


def write_durably(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


@pytest.mark.parametrize(
    ("profile", "options"),
    [
        ("ebs-gp3", {"filesystem": "xfs"}),
        ("ebs-gp2", {"filesystem": "ext4"}),
        ("local-nvme", {}),
        ("efs-elastic", {}),
        ("fsx-openzfs", {"mode": "async"}),
    ],
)
def test_a_volume_starts_holds_data_and_leaves_nothing(root: Path, profile: str, options: dict[str, str]) -> None:
    subject = volume(root, profile, **options)
    with subject:
        write_durably(subject.data / "file", b"x" * 100_000)
        (listed,) = list_volumes(root)
        assert (listed.status, listed.profile, listed.owner_pid) == ("running", profile, os.getpid())
        assert subject.state()["emulated"] is True
        counters = subject.counters()
        assert counters["operations"]["write"]["bytes"] >= 100_000
    assert not attachments(subject.directory)
    with subject:
        assert (subject.data / "file").read_bytes() == b"x" * 100_000
    subject.remove()
    assert list(root.iterdir()) == []


def test_a_running_volume_is_not_started_again(root: Path) -> None:
    with volume(root, "efs-elastic"), pytest.raises(Refused, match="running already"):
        volume(root, "efs-elastic").start()


def test_a_volume_in_use_is_not_torn_away(root: Path) -> None:
    subject = volume(root, "ebs-gp3")
    subject.start()
    with (subject.data / "open").open("wb") as file:
        with pytest.raises(StepFailed, match="in use"):
            subject.stop()
        file.write(b"goes on")
        file.flush()
        os.fsync(file.fileno())
    subject.stop()


def test_a_slow_volume_is_stopped_soon_and_loses_nothing(root: Path) -> None:
    """4,000 scattered pages at 100 I/Os a second would be written back for 40 s."""
    subject = volume(root, "ebs-gp2", credits="0")
    subject.start()
    write_durably(subject.data / "file", b"x" * (64 << 20))
    with (subject.data / "file").open("r+b") as file:
        for number in range(4000):
            os.pwrite(file.fileno(), f"{number:08}".encode(), number * 16_384)
    before = time.monotonic()
    subject.stop()
    assert time.monotonic() - before < 15
    subject.start()
    with (subject.data / "file").open("rb") as file:
        assert os.pread(file.fileno(), 8, 3999 * 16_384) == b"00003999"
    subject.remove()


def test_a_volume_that_could_not_be_stopped_is_as_slow_as_before(root: Path) -> None:
    with volume(root, "ebs-gp2", credits="0") as subject:
        write_durably(subject.data / "file", b"x" * (16 << 20))
        with (subject.data / "file").open("rb"), pytest.raises(StepFailed, match="in use"):
            subject.stop()
        took = read_at_random(subject.data / "file", seconds=2, extent=16 << 20)
        assert len(took) / 2 == pytest.approx(100, rel=0.15)


def read_at_random(path: Path, *, seconds: float, size: int = 4096, extent: int = 64 << 20) -> list[float]:
    """Seconds that each direct random read of a file took."""
    import mmap  # noqa: PLC0415 - the aligned buffer that O_DIRECT needs

    buffer, source = mmap.mmap(-1, size), random.Random(1)
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
    took = []
    try:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            offset = source.randrange(extent // size) * size
            before = time.perf_counter()
            os.preadv(descriptor, [buffer], offset)
            took.append(time.perf_counter() - before)
    finally:
        os.close(descriptor)
        buffer.close()
    return took


def test_latency_is_the_profile_s_and_fidelity_is_reported(root: Path) -> None:
    """The daemon's own times are judged: what a busy machine adds to the reader's is not the volume's."""
    with volume(root, "ebs-gp2") as subject:
        write_durably(subject.data / "file", b"x" * (64 << 20))
        before = subject.counters()["operations"]["read"]
        took = read_at_random(subject.data / "file", seconds=2)
        counters = subject.counters()
        after = counters["operations"]["read"]
        mean_us = (after["time_us"] - before["time_us"]) / (after["count"] - before["count"])
        part = subject.resolved.model["latency"]["read"]["parts"][0]
        model_us = part["median_us"] * math.exp(part["sigma"] ** 2 / 2) - subject.resolved.model["overhead_us"]
        assert mean_us == pytest.approx(model_us, rel=0.05, abs=60)
        assert statistics.median(took) * 1e6 > 740
        assert counters["fidelity"]["operations"] >= len(took)
        assert 0 <= counters["fidelity"]["late_share"] < 0.5


def test_a_gp2_without_credits_falls_to_its_baseline(root: Path) -> None:
    with volume(root, "ebs-gp2") as subject:
        write_durably(subject.data / "file", b"x" * (64 << 20))
        subject.fault("credits", fill=0.0)
        assert subject.counters()["cloudwatch"]["BurstBalance"] < 0.1
        before = subject.counters()["nvme"]["ebs_volume_performance_exceeded_iops"]
        took = read_at_random(subject.data / "file", seconds=4)
        assert len(took) / 4 == pytest.approx(100, rel=0.1)
        assert subject.counters()["nvme"]["ebs_volume_performance_exceeded_iops"] - before > 1_000_000


def test_a_power_cut_loses_nothing_acknowledged_where_the_volume_is_synchronous(root: Path) -> None:
    for profile, options in (("ebs-gp3", {}), ("local-nvme", {}), ("fsx-openzfs", FAST_FSX)):
        subject = volume(root, profile, **options)
        subject.start()
        for number in range(20):
            write_durably(subject.data / f"commit{number}", f"commit {number}".encode() * 1000)
        directory = os.open(subject.data, os.O_RDONLY)
        os.fsync(directory)
        os.close(directory)
        (subject.data / "not-synced").write_bytes(b"y" * 10_000)
        subject.fault("power_cut")
        with pytest.raises(OSError, match=r"Input/output error|No such file"):
            write_durably(subject.data / "later", b"z")
        subject.stop()
        subject.start()
        for number in range(20):
            assert (subject.data / f"commit{number}").read_bytes() == f"commit {number}".encode() * 1000
        assert not (subject.data / "later").exists()
        subject.remove()


def test_a_power_cut_loses_commits_where_the_export_is_asynchronous(root: Path) -> None:
    subject = volume(root, "fsx-openzfs", mode="async", **FAST_FSX)
    subject.start()
    write_durably(subject.data / "log", b"a" * 4096)
    time.sleep(6)  # the transaction group's own time, 5 s, is what is tested
    with (subject.data / "log").open("r+b") as log:
        for number in range(20):
            log.write(f"{number:08}".encode() * 512)
            log.flush()
            os.fsync(log.fileno())
    lost = subject.fault("power_cut")
    assert lost["writes"] >= 20
    subject.stop()
    subject.start()
    assert (subject.data / "log").read_bytes() == b"a" * 4096
    subject.remove()


def test_a_stall_stops_everything_and_ends(root: Path) -> None:
    with volume(root, "ebs-gp3") as subject:
        write_durably(subject.data / "file", b"x" * (1 << 20))
        subject.fault("stall", seconds=1.0)
        assert subject.state()["faults"] == ["stall"]
        assert max(read_at_random(subject.data / "file", seconds=1.2, extent=1 << 20)) > 0.8


def test_injected_errors_and_a_detached_volume_are_seen_and_taken_back(root: Path) -> None:
    with volume(root, "efs-elastic") as subject:
        write_durably(subject.data / "file", b"x" * 4096)
        subject.fault("error", every=1, ops=["open"])
        with pytest.raises(OSError, match="Input/output error"):
            (subject.data / "file").read_bytes()
        subject.fault("clear")
        assert (subject.data / "file").read_bytes() == b"x" * 4096
        subject.fault("detach")
        with pytest.raises(OSError, match="Input/output error"):
            (subject.data / "other").write_bytes(b"y")
        subject.fault("attach")
        assert (subject.data / "file").read_bytes() == b"x" * 4096


def test_a_fault_out_of_range_is_refused_with_the_daemon_s_words(root: Path) -> None:
    with volume(root, "efs-elastic") as subject:
        with pytest.raises(StepFailed, match="out of range"):
            subject.fault("stall", seconds=-1)
        with pytest.raises(StepFailed, match="unknown variant"):
            subject.fault("flood")


def test_limits_change_while_the_volume_is_in_use(root: Path) -> None:
    with volume(root, "ebs-gp3") as subject:
        write_durably(subject.data / "file", b"x" * (16 << 20))
        slow = resolve("ebs-gp2", {"size": "1GiB", "credits": "0"})
        subject.modify(slow)
        took = read_at_random(subject.data / "file", seconds=2, extent=16 << 20)
        assert len(took) / 2 == pytest.approx(100, rel=0.1)


def test_the_loop_device_and_the_daemon_count_the_same_bytes(root: Path) -> None:
    with volume(root, "ebs-gp3") as subject:
        (loop,) = attachments(subject.directory).loops
        stat = Path(f"/sys/block/{loop}/stat")

        def device_bytes() -> tuple[int, int]:
            fields = stat.read_text().split()
            return int(fields[2]) * 512, int(fields[6]) * 512

        def daemon_bytes() -> tuple[int, int]:
            operations = subject.counters()["operations"]
            return operations["read"]["bytes"], operations["write"]["bytes"]

        device, daemon = device_bytes(), daemon_bytes()
        write_durably(subject.data / "file", os.urandom(32 << 20))
        read_at_random(subject.data / "file", seconds=1, size=16384, extent=32 << 20)
        for direction in (0, 1):
            by_device = device_bytes()[direction] - device[direction]
            by_daemon = daemon_bytes()[direction] - daemon[direction]
            assert by_daemon == pytest.approx(by_device, rel=0.01)


RUNNER = """
import sys
from pathlib import Path
from volbench.volume.emulated import EmulatedVolume
from volbench.volume.profiles import resolve
options = {"size": "1GiB"} if "ebs" in sys.argv[2] else {}
subject = EmulatedVolume(resolve(sys.argv[2], options), Path(sys.argv[1]), name="v")
subject.start()
print("started", flush=True)
written = 0
while True:
    (subject.data / f"file{written % 50}").write_bytes(b"x" * 20000)
    written += 1
"""


def start_runner(root: Path, profile: str) -> subprocess.Popen[bytes]:
    """Another process that starts a volume and writes to it."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "runner")}
    argv = [sys.executable, "-c", RUNNER, str(root), profile]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)


def no_daemon(directory: Path) -> bool:
    return not attachments(directory).daemons


def end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait(KILL_S_MAX)
    assert process.stdout is not None
    process.stdout.close()


@pytest.mark.parametrize(
    "kills", [pytest.param(4), pytest.param(20, marks=pytest.mark.slow)], ids=["few", "twenty"]
)
def test_kills_at_random_moments_leave_nothing_after_the_next_start(root: Path, kills: int) -> None:
    source = random.Random(kills)
    for number in range(kills):
        profile = source.choice(["ebs-gp3", "efs-elastic"])
        runner = start_runner(root, profile)
        directory = root / "v"
        time.sleep(source.uniform(0.1, 1.5))  # the random moment
        daemons = attachments(directory).daemons
        victims = source.choice([[runner.pid], [*daemons], [runner.pid, *daemons]])
        for victim in victims:
            os.kill(victim, signal.SIGKILL)
        if runner.pid not in victims and daemons:
            wait_until(partial(no_daemon, directory), timeout_s=10)
        end(runner)
        clear_leftovers(root)
        assert not attachments(directory), f"kill {number} of {victims}"
        subject = EmulatedVolume(resolve("efs-elastic"), root, name="next")
        with subject:
            write_durably(subject.data / "file", b"x")
        assert not attachments(subject.directory)
        if directory.exists():
            shutil.rmtree(directory)


def write_many(directory: Path) -> None:
    for number in range(100):
        write_durably(directory / f"lost{number}", b"l" * 50_000)


def test_a_killed_daemon_fails_its_users_at_once_and_the_next_start_recovers(root: Path) -> None:
    subject = volume(root, "ebs-gp3")
    subject.start()
    write_durably(subject.data / "kept", b"k" * 50_000)
    (daemon,) = attachments(subject.directory).daemons
    os.kill(daemon, signal.SIGKILL)
    before = time.monotonic()
    with pytest.raises(OSError) as caught:  # noqa: PT011 - the error's number is looked at below
        write_many(subject.data)
    assert caught.value.errno in (errno.EIO, errno.ENOTCONN, errno.EROFS)
    assert time.monotonic() - before < 10
    assert list_volumes(root)[0].status == "leftover"
    subject.start()
    assert (subject.data / "kept").read_bytes() == b"k" * 50_000
    subject.remove()


def test_a_volume_that_hangs_is_taken_down_in_bounded_time(root: Path) -> None:
    subject = volume(root, "ebs-gp3")
    subject.start()
    subject.fault("stall", seconds=3600)
    argv = ["dd", "if=/dev/zero", f"of={subject.data}/file", "bs=1M", "count=64", "oflag=direct"]
    writer = subprocess.Popen(argv, stderr=subprocess.DEVNULL)
    before = time.monotonic()
    take_down(subject.directory, force=True)
    assert time.monotonic() - before < 45
    writer.wait(KILL_S_MAX)
    assert writer.returncode != 0
    subject.stop()
    assert not attachments(subject.directory)


PRESSED = """
import os, sys
from pathlib import Path
from volbench.volume.emulated import EmulatedVolume
from volbench.volume.profiles import resolve
Path(sys.argv[1], "cgroup.procs").write_text(str(os.getpid()))
options = {"size": "1GiB"} if "ebs" in sys.argv[3] else {}
subject = EmulatedVolume(resolve(sys.argv[3], options), Path(sys.argv[2]), name="v")
with subject:
    assert subject.state()["daemon"]["own_memory_cgroup"]
    with (subject.data / "file").open("wb") as file:
        for _ in range(400):
            file.write(b"x" * (1 << 20))
        os.fsync(file.fileno())
    with (subject.data / "file").open("rb") as file:
        while file.read(1 << 20):
            pass
print("done")
"""


@pytest.fixture
def tight_cgroup() -> Iterator[Path]:
    """A memory cgroup of 96 MiB, of version 1 or 2."""
    first = Path("/sys/fs/cgroup/memory")
    cgroup = (first if first.is_dir() else Path("/sys/fs/cgroup")) / f"volbench-test-{os.getpid()}"
    try:
        cgroup.mkdir()
        limit = "memory.limit_in_bytes" if first.is_dir() else "memory.max"
        (cgroup / limit).write_text(str(96 << 20))
    except OSError as error:
        pytest.skip(f"no memory cgroup can be made: {error}")
    yield cgroup
    cgroup.rmdir()


@pytest.mark.parametrize("profile", ["ebs-gp3", "efs-elastic"])
def test_a_writer_short_of_memory_does_not_hang(root: Path, tight_cgroup: Path, profile: str) -> None:
    """A daemon in the writer's cgroup would wait for memory that only its own progress frees."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "runner")}
    argv = [sys.executable, "-c", PRESSED, str(tight_cgroup), str(root), profile]
    done = subprocess.run(argv, env=environment, timeout=100, capture_output=True, text=True, check=False)
    assert done.stdout == "done\n", done.stderr
    assert list_volumes(root)[0].status == "stopped"


def test_a_volume_that_outlives_its_maker_is_no_leftover(root: Path) -> None:
    argv = [
        sys.executable,
        "-c",
        "import sys; from pathlib import Path; from volbench.volume.emulated import EmulatedVolume; "
        "from volbench.volume.profiles import resolve; "
        "EmulatedVolume(resolve('efs-elastic'), Path(sys.argv[1]), name='v', outlives_us=True).start()",
        str(root),
    ]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "runner")}
    subprocess.run(argv, check=True, env=environment, timeout=60)
    (listed,) = list_volumes(root)
    assert (listed.status, listed.owner_pid) == ("running", None)
    assert clear_leftovers(root) == ()
    volume(root, "efs-elastic").stop()
    assert list_volumes(root)[0].status == "stopped"


class Twin:
    """The same random operations on two directories; every result is compared."""

    NAMES = tuple(f"n{number}" for number in range(12))
    LENGTH_MAX = 200_000

    def __init__(self, left: Path, right: Path, seed: int) -> None:
        self.sides = (left, right)
        self.source = random.Random(seed)
        self.open: list[tuple[int, int]] = []

    def path(self) -> str:
        return "/".join(self.source.choice(self.NAMES) for _ in range(self.source.choice((1, 1, 2, 2, 3))))

    def both(self, action: Any) -> list[Any]:
        """The results of an action on both sides, an error as its number."""
        results = []
        for side in (0, 1):
            try:
                results.append(action(side))
            except OSError as error:
                results.append(("error", error.errno))
        return results

    def on_paths(self, call: Any) -> list[Any]:
        paths = [self.path(), self.path()]
        return self.both(lambda side: call(*(f"{self.sides[side]}/{path}" for path in paths)))

    def step(self) -> str:
        name = self.source.choice(sorted(self.ACTIONS))
        left, right = self.ACTIONS[name](self)
        assert left == right, f"{name}: {left!r} is not {right!r}"
        return name

    def open_file(self) -> list[Any]:
        if len(self.open) >= 8:
            return self.close_file()
        path = self.path()
        modes = os.O_RDWR | self.source.choice((0, os.O_CREAT, os.O_CREAT | os.O_EXCL, os.O_TRUNC, os.O_APPEND))
        opened = self.both(lambda side: os.open(f"{self.sides[side]}/{path}", modes, 0o644))
        if all(isinstance(one, int) for one in opened):
            self.open.append((opened[0], opened[1]))
            return ["opened", "opened"]
        return opened

    def close_file(self) -> list[Any]:
        if not self.open:
            return [None, None]
        pair = self.open.pop(self.source.randrange(len(self.open)))
        return self.both(lambda side: os.close(pair[side]))

    def on_open(self, call: Any) -> list[Any]:
        if not self.open:
            return [None, None]
        pair = self.source.choice(self.open)
        return self.both(lambda side: call(pair[side]))

    def write(self) -> list[Any]:
        offset = self.source.randrange(self.LENGTH_MAX)
        data = self.source.randbytes(self.source.choice((1, 100, 4096, 20_000)))
        return self.on_open(lambda descriptor: os.pwrite(descriptor, data, offset))

    def append(self) -> list[Any]:
        data = self.source.randbytes(100)
        return self.on_open(lambda descriptor: (os.lseek(descriptor, 0, os.SEEK_END), os.write(descriptor, data)))

    def read(self) -> list[Any]:
        offset, size = self.source.randrange(self.LENGTH_MAX), self.source.choice((1, 4096, 50_000))
        return self.on_open(lambda descriptor: os.pread(descriptor, size, offset))

    def truncate(self) -> list[Any]:
        length = self.source.randrange(self.LENGTH_MAX)
        return self.on_open(lambda descriptor: os.ftruncate(descriptor, length))

    def allocate(self) -> list[Any]:
        offset, length = self.source.randrange(self.LENGTH_MAX), self.source.randrange(1, 10_000)
        return self.on_open(lambda descriptor: os.posix_fallocate(descriptor, offset, length))

    def attributes(self) -> list[Any]:
        def call(path: str, _: str) -> Any:
            status = os.lstat(path)
            length = status.st_size if not os.path.isdir(path) else None
            return (
                status.st_mode,
                status.st_nlink,
                status.st_uid,
                status.st_gid,
                length,
                int(status.st_mtime) // 10**9,
            )

        return self.on_paths(call)

    def chmod(self) -> list[Any]:
        mode = self.source.choice((0o600, 0o644, 0o755, 0o4755, 0o2755))
        return self.on_paths(lambda path, _: os.chmod(path, mode))

    def chown(self) -> list[Any]:
        owner = self.source.choice((0, 1000))
        return self.on_paths(lambda path, _: os.chown(path, owner, owner, follow_symlinks=False))

    def times(self) -> list[Any]:
        moment = self.source.randrange(-(10**9), 2 * 10**9), self.source.randrange(2 * 10**9)

        def call(path: str, _: str) -> Any:
            os.utime(path, ns=(moment[0] * 10**9 + 123, moment[1] * 10**9 + 456))
            status = os.stat(path)
            return status.st_atime_ns, status.st_mtime_ns

        return self.on_paths(call)

    def listing(self) -> list[Any]:
        return self.on_paths(lambda path, _: sorted(os.listdir(path)))

    def whole(self) -> list[Any]:
        return self.on_paths(lambda path, _: Path(path).read_bytes())

    ACTIONS: ClassVar[dict[str, Callable[[Twin], list[Any]]]] = {
        "open": open_file, "open again": open_file, "close": close_file, "write": write, "write again": write,
        "append": append, "read": read, "read again": read, "truncate": truncate, "allocate": allocate,
        "attributes": attributes, "chmod": chmod, "chown": chown, "times": times, "list": listing,
        "whole": whole,
        "fsync": lambda self: self.on_open(os.fsync),
        "mkdir": lambda self: self.on_paths(lambda path, _: os.mkdir(path)),
        "rmdir": lambda self: self.on_paths(lambda path, _: os.rmdir(path)),
        "unlink": lambda self: self.on_paths(lambda path, _: os.unlink(path)),
        "rename": lambda self: self.on_paths(os.rename),
        "link": lambda self: self.on_paths(lambda path, other: os.link(path, other, follow_symlinks=False)),
        "symlink": lambda self: self.on_paths(lambda path, other: os.symlink(os.path.basename(other), path)),
        "readlink": lambda self: self.on_paths(lambda path, _: os.readlink(path)),
    }  # fmt: skip

    def close_all(self) -> None:
        for pair in self.open:
            self.both(partial(self.close_one, pair))
        self.open = []

    @staticmethod
    def close_one(pair: tuple[int, int], side: int) -> None:
        os.close(pair[side])

    @staticmethod
    def tree(side: Path) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for path in sorted(side.rglob("*")):
            status = path.lstat()
            content: Any = None
            if path.is_symlink():
                content = os.readlink(path)
            elif path.is_file():
                content = path.read_bytes()
            found[str(path.relative_to(side))] = (status.st_mode, status.st_nlink, content)
        return found


@pytest.mark.parametrize(
    "operations",
    [pytest.param(10_000, id="ten thousand"), pytest.param(120_000, id="many", marks=pytest.mark.slow)],
)
def test_files_behave_as_in_a_plain_directory(root: Path, operations: int) -> None:
    subject = EmulatedVolume(without_delay(resolve("fsx-openzfs")), root, name="v")
    plain = root / "plain"
    plain.mkdir()
    with subject:
        twin = Twin(subject.data, plain, seed=operations)
        done: dict[str, int] = {}
        try:
            for _ in range(operations):
                name = twin.step()
                done[name] = done.get(name, 0) + 1
        finally:
            twin.close_all()
        assert Twin.tree(subject.data) == Twin.tree(plain)
        assert len(done) == len(Twin.ACTIONS)
    backing = subject.directory / "backing" / "tree"
    assert Twin.tree(backing) == Twin.tree(plain), "what is below the mount is what was written through it"
    shutil.rmtree(plain)


def test_modes_are_the_writer_s_and_the_control_socket_is_root_s(root: Path) -> None:
    with volume(root, "fsx-openzfs", **FAST_FSX) as subject:
        before = os.umask(0)
        try:
            os.mkdir(subject.data / "open", 0o1777)
            os.close(os.open(subject.data / "file", os.O_CREAT | os.O_WRONLY, 0o666))
        finally:
            os.umask(before)
        assert (subject.data / "open").stat().st_mode & 0o7777 == 0o1777
        assert (subject.data / "file").stat().st_mode & 0o7777 == 0o666
        assert (subject.directory / "control.sock").stat().st_mode & 0o022 == 0


def test_opening_a_file_again_keeps_the_client_s_cache(root: Path) -> None:
    with volume(root, "fsx-openzfs", **FAST_FSX) as subject:
        file = subject.data / "file"
        write_durably(file, b"x" * (1 << 20))
        file.read_bytes()
        before = subject.counters()["operations"].get("read", {"count": 0})["count"]
        for _ in range(5):
            file.read_bytes()
        assert subject.counters()["operations"].get("read", {"count": 0})["count"] == before


def test_opens_and_closes_are_round_trips_and_attributes_are_believed_for_a_while(root: Path) -> None:
    with volume(root, "efs-elastic") as subject:
        file = subject.data / "file"
        file.write_bytes(b"x")

        def counts() -> dict[str, int]:
            return {name: op["count"] for name, op in subject.counters()["operations"].items()}

        before = counts()
        for _ in range(10):
            file.read_bytes()
        after = counts()
        assert after["open"] - before.get("open", 0) == 10
        assert after["close"] - before["close"] == 10
        assert after["lookup"] - before["lookup"] <= 1


def test_direct_io_locks_and_mappings_work_on_files(root: Path) -> None:
    import fcntl  # noqa: PLC0415 - only here
    import mmap  # noqa: PLC0415 - only here

    with volume(root, "efs-elastic") as subject:
        file = subject.data / "file"
        write_durably(file, b"x" * 8192)
        assert len(read_at_random(file, seconds=0.2, extent=8192)) > 10
        with file.open("r+b") as one, file.open("r+b") as two:
            fcntl.flock(one, fcntl.LOCK_EX)
            with pytest.raises(BlockingIOError):
                fcntl.flock(two, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with mmap.mmap(one.fileno(), 8192) as mapped:
                mapped[100:105] = b"mmaps"
                mapped.flush()
        assert file.read_bytes()[98:107] == b"xxmmapsxx"


def test_config_and_description_name_no_secret_and_say_emulated(root: Path) -> None:
    with volume(root, "ebs-gp2", time_scale="100") as subject:
        described = json.loads((subject.directory / "volume.json").read_text())
        assert described["parameters"]["time_scale"] == 100
        assert "read_median" in described["assumed"]
        assert subject.counters()["time_scale"] == 100
