"""Record sar and iostat beside a real MariaDB server under sysbench, on volumes whose fault is made on purpose.

Two volumes, each an ext4 file system on a loop device with direct I/O:

- `plain`: a file of the host's disk. Its limits are the kernel's: blkio.throttle on the host's disk, of the
  server's cgroup (v1). The loop device's own counters show the wait, as those of a cloud volume do.
- `emulated`: an emulated volume of volbench (`volbench volume emulate`), whose latency can be raised while it runs.

The truth of a recording is what was done, and what the server's performance_schema and the states of its threads
in /proc counted meanwhile. Run as root:
`PYTHONPATH=tests/lab python -m recordings.record WORK_DIR OUT_DIR [CONDITION ...]`.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recordings.tools import Tools

EMULATED = "emulated:ebs-gp3?size=40GiB&iops=16000&throughput=1000"
MOUNT_MIB = 1500
ROWS, TABLES = 60_000, 4
SECONDS = 30
PRIORITY = -10
CGROUP = Path("/sys/fs/cgroup/blkio/volbench-recordings")
_STATEMENTS = (
    "SELECT SUM(SUM_TIMER_WAIT)/1e12 FROM performance_schema.events_statements_summary_global_by_event_name"
    " WHERE EVENT_NAME LIKE 'statement/%'"
)
_FILE_WAITS = (
    "SELECT SUM(w.SUM_TIMER_WAIT)/1e12 FROM performance_schema.events_waits_summary_by_thread_by_event_name w"
    " JOIN performance_schema.threads t USING (THREAD_ID)"
    " WHERE t.NAME LIKE '%one_connection' AND w.EVENT_NAME LIKE 'wait/io/file/%'"
)
_LOCK_WAITS = (
    "SELECT VARIABLE_VALUE/1e3 FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME='Innodb_row_lock_time'"
)


@dataclass(frozen=True, kw_only=True)
class Condition:
    """What is done, and what of it a reader of the recording should call the cause."""

    truth: tuple[str, ...]
    volume_is_cause: bool
    volume: str = "plain"
    pool: str = "12M"
    test: str = "oltp_read_write"
    threads: tuple[int, int] = (8, 16)
    rate: int = 0
    rows: int = ROWS
    tables: int = TABLES
    options: tuple[str, ...] = ()
    limits: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    begins_s: float = 0.0
    ends_s: float = 0.0
    slow: tuple[float, float] | None = None
    reader: bool = False


CONDITIONS = {
    "clean": Condition(truth=("none",), volume_is_cause=False, pool="512M", threads=(4, 8), rate=15),
    "clean-reads": Condition(truth=("none",), volume_is_cause=False, pool="24M", threads=(4, 8), rate=12),
    "iops-cap": Condition(
        truth=("storage.iops_limit",),
        volume_is_cause=True,
        limits={"read_iops": (150, 700), "write_iops": (150, 700)},
    ),
    "bytes-cap": Condition(
        truth=("storage.throughput_limit", "storage.iops_limit"),
        volume_is_cause=True,
        test="oltp_read_only",
        limits={"read_bps": (3_000_000, 9_000_000)},
    ),
    "cap-begins": Condition(
        truth=("storage.burst_exhausted", "storage.iops_limit"),
        volume_is_cause=True,
        begins_s=SECONDS / 2,
        limits={"read_iops": (150, 400), "write_iops": (150, 400)},
    ),
    "episode": Condition(
        truth=("storage.iops_limit", "storage.burst_exhausted"),
        volume_is_cause=True,
        begins_s=10,
        ends_s=20,
        limits={"read_iops": (80, 200), "write_iops": (80, 200)},
    ),
    "latency-doubles": Condition(
        truth=("storage.degraded", "storage.read_latency"),
        volume_is_cause=True,
        volume="emulated",
        threads=(16, 16),
        begins_s=SECONDS / 2,
        slow=(2.0, 3.0),
    ),
    "latency-always": Condition(
        truth=("storage.read_latency", "storage.sync_latency", "storage.degraded"),
        volume_is_cause=True,
        volume="emulated",
        begins_s=-3,
        slow=(4.0, 8.0),
    ),
    "cpu-bound": Condition(
        truth=("cpu.server_saturated",), volume_is_cause=False, pool="512M", test="oltp_read_only", threads=(8, 16)
    ),
    "row-lock": Condition(
        truth=("lock.row_contention",),
        volume_is_cause=False,
        pool="512M",
        test="oltp_update_non_index",
        rows=1,
        tables=1,
        threads=(8, 16),
        options=("--innodb-flush-log-at-trx-commit=2",),
    ),
    # The bytes come from the cache of the host and cost the client nothing: bytes change, no more.
    "backup": Condition(truth=("none",), volume_is_cause=False, begins_s=10, ends_s=20, reader=True),
}


def sh(*argv: str, **options: Any) -> str:
    """Run a program and return its output. Raises CalledProcessError."""
    done: subprocess.CompletedProcess[str] = subprocess.run(
        argv, check=True, capture_output=True, text=True, **options
    )
    return done.stdout


class Volumes:
    """Both volumes, made once and removed at the end."""

    def __init__(self, work: Path, *, emulated: bool) -> None:
        self._work, self._emulated = work, emulated
        self._loop = ""
        self.mounts: dict[str, Path] = {}

    def __enter__(self) -> Volumes:
        image, mount = self._work / "plain.img", self._work / "plain"
        mount.mkdir(parents=True, exist_ok=True)
        sh("dd", "if=/dev/zero", f"of={image}", "bs=1M", f"count={MOUNT_MIB}", "conv=fsync")
        self._loop = sh("losetup", "-f", "--show", "--direct-io=on", str(image)).strip()
        sh("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", self._loop)
        sh("mount", "-o", "noatime", self._loop, str(mount))
        self.mounts["plain"] = mount
        if self._emulated:
            placed = sh(
                volbench(),
                "volume",
                "emulate",
                EMULATED,
                "--dir",
                str(self._work / "emulated"),
                "--name",
                "recordings",
            )
            directory = re.search(r"mounted at:\s*(\S+)", placed)
            if directory is None:
                raise RuntimeError(f"volbench did not say where the volume is mounted: {placed}")
            self.mounts["emulated"] = Path(directory[1])
        CGROUP.mkdir(exist_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run(["umount", str(self.mounts["plain"])], check=False)
        subprocess.run(["losetup", "-d", self._loop], check=False)
        (self._work / "plain.img").unlink(missing_ok=True)
        if self._emulated:
            subprocess.run([volbench(), "volume", "remove", "recordings"], check=False, capture_output=True)
        CGROUP.rmdir()

    def device(self, volume: str) -> str:
        """Kernel name of the device that carries a volume's file system."""
        return Path(sh("findmnt", "-no", "SOURCE", "--target", str(self.mounts[volume])).strip()).name


class Server:
    """One MariaDB server on a volume, of its own blkio cgroup."""

    def __init__(self, data: Path, work: Path, condition: Condition) -> None:
        self._socket, self._data, self._work, self._condition = work / "db.sock", data, work, condition

    def __enter__(self) -> Server:
        argv = [
            "/usr/sbin/mariadbd",
            "--no-defaults",
            f"--datadir={self._data}",
            f"--socket={self._socket}",
            "--skip-networking",
            "--user=root",
            "--innodb-flush-method=O_DIRECT",
            "--innodb-log-file-size=64M",
            f"--innodb-buffer-pool-size={self._condition.pool}",
            "--innodb-buffer-pool-dump-at-shutdown=OFF",
            "--innodb-buffer-pool-load-at-startup=OFF",
            "--performance-schema=ON",
            "--innodb-io-capacity=2000",
            "--performance-schema-instrument=wait/io/file/%=ON",
            "--innodb-buffer-pool-chunk-size=4M",
            "--performance-schema-consumer-events-statements-current=ON",
            *self._condition.options,
        ]
        with (self._work / "mariadbd.log").open("ab") as log:
            self.process = subprocess.Popen(argv, stdout=log, stderr=log, preexec_fn=_enter_cgroup)  # noqa: PLW1509
        deadline = time.monotonic() + 60
        while subprocess.run(
            ["mariadb-admin", "-S", str(self._socket), "ping"], check=False, capture_output=True
        ).returncode:
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise SystemExit(f"mariadbd does not start: see {self._work / 'mariadbd.log'}")
            time.sleep(0.2)
        return self

    def __exit__(self, *_: object) -> None:
        limit({})
        self.process.terminate()
        self.process.wait(timeout=120)

    def value(self, query: str) -> float:
        """One figure that the server tells."""
        answer = sh("mariadb", "-S", str(self._socket), "-BNe", query).strip()
        return 0.0 if answer in ("", "NULL") else float(answer)

    def sysbench(self, command: str, seconds: int) -> list[str]:
        """Arguments of sysbench against this server."""
        condition = self._condition
        return [
            "sysbench",
            condition.test,
            f"--mysql-socket={self._socket}",
            "--mysql-user=root",
            "--mysql-db=sbtest",
            f"--tables={condition.tables}",
            f"--table-size={condition.rows}",
            "--rand-type=uniform",
            "--report-interval=1",
            f"--time={seconds}",
            "--percentile=95",
            f"--rate={condition.rate}",
            command,
        ]


def _enter_cgroup() -> None:
    (CGROUP / "cgroup.procs").write_text(str(os.getpid()))
    os.nice(PRIORITY)  # others work on this machine: a fault of the volume is not to be hidden by theirs


def limit(limits: Mapping[str, int]) -> None:
    """Set the kernel's limits of the host's disk for the server; those that are not named are lifted."""
    disk = sh("findmnt", "-no", "MAJ:MIN", "/").strip()
    for name in ("read_iops", "write_iops", "read_bps", "write_bps"):
        (CGROUP / f"blkio.throttle.{name}_device").write_text(f"{disk} {limits.get(name, 0)}")


def volbench() -> str:
    """The program of the environment that runs this."""
    return str(Path(sys.executable).with_name("volbench"))


def slow(factor: float | None) -> None:
    """Raise the emulated volume's latency, or clear that."""
    argv = ["clear"] if factor is None else ["slow", "--factor", str(factor)]
    sh(volbench(), "volume", "fault", "recordings", *argv)


def record(name: str, seed: int, volumes: Volumes, work: Path, out: Path) -> None:
    """One recording into OUT_DIR/NAME-SEED."""
    condition, draw = CONDITIONS[name], random.Random(f"{name}/{seed}")
    limits = {key: draw.randint(*span) for key, span in condition.limits.items()}
    if "read_iops" in limits:
        limits["write_iops"] = limits["read_iops"]
    factor = None if condition.slow is None else round(draw.uniform(*condition.slow), 2)
    threads, device = draw.randint(*condition.threads), volumes.device(condition.volume)
    directory = out / f"{name}-{seed}"
    directory.mkdir(parents=True, exist_ok=True)
    events: list[tuple[float, Callable[[], object], str]] = []
    if limits and condition.begins_s > 0:
        events.append((condition.begins_s, lambda: limit(limits), f"limit {limits}"))
    if condition.ends_s and limits:
        events.append((condition.ends_s, lambda: limit({}), "no limit"))
    if factor is not None and condition.begins_s > 0:
        events.append((condition.begins_s, lambda: slow(factor), f"latency x{factor}"))
    data = volumes.mounts[condition.volume] / "data"
    with Server(data, work, condition) as server:
        load = subprocess.Popen(
            [*server.sysbench("run", SECONDS + 12)[:-1], f"--threads={threads}", "run"],
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: os.nice(PRIORITY),  # noqa: PLW1509
        )
        time.sleep(5)
        if limits and condition.begins_s <= 0:
            limit(limits)
        if factor is not None and condition.begins_s <= 0:
            slow(factor)
        time.sleep(3)
        started, tools = time.time(), Tools(directory, device, SECONDS)
        zero = time.monotonic()
        states = StateSampler(server.process.pid, zero)
        before = [server.value(query) for query in (_STATEMENTS, _FILE_WAITS, _LOCK_WAITS)]
        pressure_before, done = cpu_pressure_us(), []
        if condition.reader:
            events.append(
                (condition.begins_s, lambda: reader(volumes.device(condition.volume), 10), "backup reads 10 s")
            )
        for at_s, action, text in sorted(events, key=lambda pair: pair[0]):
            time.sleep(max(0.0, zero + at_s - time.monotonic()))
            action()
            done.append({"at_s": round(time.monotonic() - zero, 2), "what": text})
        time.sleep(max(0.0, zero + SECONDS - 1.5 - time.monotonic()))
        after = [server.value(query) for query in (_STATEMENTS, _FILE_WAITS, _LOCK_WAITS)]
        shares = states.stop()
        pressure = (cpu_pressure_us() - pressure_before) / 1e6 / (time.monotonic() - zero)
        tools.write()
        output = load.communicate(timeout=120)[0]
        if factor is not None:
            slow(None)
    statements, files, locks = (b - a for a, b in zip(before, after, strict=True))
    truth = {
        "condition": name,
        "seed": seed,
        "truth": condition.truth,
        "volume_is_cause": condition.volume_is_cause,
        "device": device,
        "threads": threads,
        "limits": limits,
        "latency_factor": factor,
        "events": done,
        "started_utc": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
        "statement_s": round(statements, 3),
        "file_wait_s": round(files, 3),
        "row_lock_s": round(locks, 3),
        "file_wait_share": round(files / statements, 4) if statements > 0 else None,
        "row_lock_share": round(locks / statements, 4) if statements > 0 else None,
        "threads_in_disk_wait": shares,
        "cpu_pressure_some": round(pressure, 3),
        "load_average": os.getloadavg()[0],
        "latency_p95_ms": [float(match) for match in re.findall(r"lat \(ms,95%\): ([\d.]+)", output)],
        "tps": [float(match) for match in re.findall(r"thds: \d+ tps: ([\d.]+)", output)],
    }
    (directory / "truth.json").write_text(json.dumps(truth, indent=1) + "\n")
    print(
        name,
        seed,
        {key: truth[key] for key in ("file_wait_share", "row_lock_share", "cpu_pressure_some", "load_average")},
        flush=True,
    )


class StateSampler:
    """Mean number of the server's threads in uninterruptible sleep (D), in each third of the recording."""

    def __init__(self, pid: int, zero: float) -> None:
        self._pid, self._zero, self._over = pid, zero, threading.Event()
        self._counts: list[tuple[float, int]] = []
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        while not self._over.wait(0.2):
            waiting = 0
            for stat in Path(f"/proc/{self._pid}/task").glob("*/stat"):
                try:
                    waiting += stat.read_text().rpartition(")")[2].split()[0] == "D"
                except OSError:
                    continue
            self._counts.append((time.monotonic() - self._zero, waiting))

    def stop(self) -> list[float]:
        """The three means."""
        self._over.set()
        self._thread.join()
        third = SECONDS / 3
        pieces = [[n for t_s, n in self._counts if i * third <= t_s < (i + 1) * third] for i in range(3)]
        return [round(sum(piece) / len(piece), 2) if piece else 0.0 for piece in pieces]


def reader(device: str, seconds: int) -> None:
    """Read the volume's device in large pieces for a while, as a physical backup does."""
    subprocess.run(
        [
            "timeout",
            str(seconds),
            "sh",
            "-c",
            f"while :; do dd if=/dev/{device} of=/dev/null bs=1M iflag=direct 2>/dev/null; done",
        ],
        check=False,
    )


def cpu_pressure_us() -> int:
    """Microseconds that some task waited for a CPU, since boot."""
    match = re.search(r"some .*total=(\d+)", Path("/proc/pressure/cpu").read_text())
    return int(match[1]) if match else 0


def _stop(*_: object) -> None:
    raise SystemExit("stopped")


def main() -> None:
    """Make each condition with each seed: names on the command line are NAME or NAME-SEED."""
    signal.signal(signal.SIGTERM, _stop)
    work, out = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    seeds = os.environ.get("SEEDS", "1,2,3").split(",")
    names = sys.argv[3:] or list(CONDITIONS)
    with Volumes(work, emulated=any(CONDITIONS[name].volume == "emulated" for name in names)) as volumes:
        for volume, mount in volumes.mounts.items():
            data = mount / "data"
            sh(
                "mariadb-install-db",
                "--no-defaults",
                f"--datadir={data}",
                "--user=root",
                "--auth-root-authentication-method=normal",
            )
            seeding = Condition(
                truth=(),
                volume_is_cause=False,
                volume=volume,
                pool="256M",
                options=("--innodb-flush-log-at-trx-commit=0",),
            )
            with Server(data, work, seeding) as server:
                sh("mariadb", f"-S{work / 'db.sock'}", "-e", "CREATE DATABASE IF NOT EXISTS sbtest")
                sh(*server.sysbench("prepare", 0))
        for seed in seeds:
            for name in names:
                try:
                    record(name, int(seed), volumes, work, out)
                except (subprocess.SubprocessError, OSError) as error:
                    print("failed", name, seed, error, getattr(error, "stderr", ""), flush=True)
                    limit({})


if __name__ == "__main__":
    main()
