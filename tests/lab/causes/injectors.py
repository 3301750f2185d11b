"""What is done to a run while it runs: each injector switches one mechanism on and off."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from causes.counters import Recorder
from causes.machine import Machine, Volume, group_of, labelled, run, start, wait_for, write_rate

FOREIGN = "foreign"
FILE_MIB = 256
MEMORY_SPARE_MIB = 24
"""Page cache that a limited group keeps at least: what runs needs its program's pages."""
PERIOD_US = 100_000
RAMP_STEP_S = 0.25
_LIMITS = {"read_iops": 1, "write_iops": 1, "read_mib": 1 << 20, "write_mib": 1 << 20}
_LIMIT_FILES = {
    "read_iops": "blkio.throttle.read_iops_device",
    "write_iops": "blkio.throttle.write_iops_device",
    "read_mib": "blkio.throttle.read_bps_device",
    "write_mib": "blkio.throttle.write_bps_device",
}
_PROGRAMS = {
    "fio-randread": ["--rw=randread", "--bs=16k", "--iodepth=32"],
    "fio-randread-64k": ["--rw=randread", "--bs=64k", "--iodepth=32"],
    "fio-seqread": ["--rw=read", "--bs=1m", "--iodepth=4"],
    "fio-seqwrite": ["--rw=write", "--bs=1m", "--iodepth=4"],
    "fio-fsync": ["--rw=randwrite", "--bs=16k", "--iodepth=1", "--fdatasync=1", "--numjobs=16"],
    "fio-few": ["--rw=randread", "--bs=16k", "--iodepth=1", "--rate_iops=700"],
    "fio-huge": ["--rw=randread", "--bs=4m", "--iodepth=2"],
    "fio-bursts": ["--rw=randread", "--bs=64k", "--iodepth=32", "--thinktime=1200000", "--thinktime_blocks=400"],
    "fio-syncs": ["--rw=randwrite", "--bs=64k", "--iodepth=1", "--fdatasync=1", "--numjobs=4"],
    "fio-randrw": ["--rw=randrw", "--bs=8k", "--iodepth=16"],
}


class Injector(ABC):
    """One mechanism. `prepare` happens before the server starts; `on` and `off` at the phases."""

    def __init__(self, spec: Mapping[str, Any], machine: Machine, volume: Volume, recorder: Recorder) -> None:
        self.spec, self.machine, self.volume, self.recorder = spec, machine, volume, recorder

    def prepare(self) -> None:  # noqa: B027 - most have nothing to prepare
        """What takes time and must not disturb the measured window."""

    @abstractmethod
    def on(self) -> None:
        """Begin."""

    @abstractmethod
    def off(self) -> None:
        """End; again is harmless."""


class Throttle(Injector):
    """Limits of the server's blkio group, on the volume (`device: volume`) or on the disk below it (`below`).

    With `ramp_s` they fall from `ramp_from` times their value to it, geometrically, in so many seconds.
    """

    def __init__(self, spec: Mapping[str, Any], machine: Machine, volume: Volume, recorder: Recorder) -> None:
        super().__init__(spec, machine, volume, recorder)
        self._over = threading.Event()
        self._ramp: threading.Thread | None = None

    def on(self) -> None:
        """Write the limits, or begin to lower them."""
        if "ramp_s" not in self.spec:
            self._set(1.0)
            return
        self._set(float(self.spec["ramp_from"]))
        self._ramp = threading.Thread(target=self._lower, name="ramp", daemon=True)
        self._ramp.start()

    def _lower(self) -> None:
        steps = max(1, round(float(self.spec["ramp_s"]) / RAMP_STEP_S))
        for step in range(1, steps + 1):
            if self._over.wait(RAMP_STEP_S):
                return
            self._set(float(self.spec["ramp_from"]) ** (1 - step / steps))

    def _set(self, times: float) -> None:
        for name, unit in _LIMITS.items():
            if name in self.spec:
                self._write(name, round(times * float(self.spec[name]) * unit))

    def off(self) -> None:
        """0 is no limit."""
        self._over.set()
        if self._ramp is not None:
            self._ramp.join(timeout=10)
        for name in _LIMITS:
            if name in self.spec:
                self._write(name, 0)

    def _write(self, name: str, value: int) -> None:
        number = self.volume.below if self.spec["device"] == "below" else self.volume.number
        (group_of("blkio") / _LIMIT_FILES[name]).write_text(f"{number} {value}")


class Program(Injector):
    """Another program that reads or writes on the same file system."""

    _process: subprocess.Popen[bytes] | None = None

    def prepare(self) -> None:
        """Lay out what it reads, past the page cache."""
        mount = self.volume.mount / FOREIGN
        mount.mkdir(exist_ok=True)
        run("dd", "if=/dev/zero", f"of={mount}/big", "bs=1M", f"count={FILE_MIB}", "oflag=direct", "status=none")
        if self.spec["program"] == "rsync":
            run("split", "-b", "4M", f"{mount}/big", f"{mount}/part.")
            for path in mount.glob("part.*"):
                run("dd", f"if={path}", "iflag=nocache", "count=0", "status=none")

    def on(self) -> None:
        """Start it; its process group is followed."""
        self._process = start(self._command())
        self.recorder.follow(self._process.pid)

    def off(self) -> None:
        """Kill all of its group."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(timeout=30)
            self._process = None

    def _command(self) -> list[str]:
        mount, program = self.volume.mount / FOREIGN, str(self.spec["program"])
        big = mount / "big"
        if program in _PROGRAMS:
            common = [f"--filename={big}", f"--size={FILE_MIB}m", "--direct=1", "--ioengine=libaio", "--time_based"]
            return ["fio", "--name=foreign", "--thread", *common, "--runtime=600", *_PROGRAMS[program]]
        drop = f"dd if={big} iflag=nocache count=0 status=none"
        loops = {
            "cp": f"cp {big} {mount}/copy; sync {mount}/copy; rm {mount}/copy; {drop}",
            "tar": f"tar -cf - -C {mount} big | cat > /dev/null; {drop}",
            "rsync": f"rsync -a --whole-file --fsync {mount}/big {mount}/copy/; rm -r {mount}/copy; {drop}",
            "small-files": f"mkdir -p {mount}/small; for i in $(seq 1 400); do dd if=/dev/zero of={mount}/small/$i"
            f" bs=16k count=1 conv=fsync status=none; done; rm -r {mount}/small",
            "data-files": f"find {self.volume.mount} -name 'sbtest*.ibd' -exec dd if={{}} of=/dev/null bs=1M"
            " iflag=direct status=none ';'",
            "syncs": f"sync -f {mount}; sleep 0.05",
            "fallocate": f"fallocate -l 64M {mount}/room; rm {mount}/room; sleep 0.1",
            "fstrim": f"fstrim {self.volume.mount}; dd if=/dev/zero of={mount}/hole bs=1M count=64 oflag=direct"
            f" status=none; rm {mount}/hole",
        }
        return ["sh", "-c", f"while :; do {loops[program]}; done"]


class SecondServer(Injector):
    """Another mysqld with a load of its own, its data on the same file system."""

    _processes: tuple[subprocess.Popen[bytes], ...] = ()

    def prepare(self) -> None:
        """Copy its data directory and start it; it is idle until `on`."""
        template = _second_template(self.machine.cache)
        data = self.volume.mount / FOREIGN / "mysql"
        data.parent.mkdir(exist_ok=True)
        shutil.copytree(template, data)
        self._server = start(_second_server(data, self._socket))
        self.recorder.ignore(self._server.pid)
        wait_for(lambda: _answers(self._socket), 30, "the second server")

    @property
    def _socket(self) -> Path:
        return self.machine.root / "second.sock"

    def on(self) -> None:
        """Its load begins."""
        self.recorder.follow(self._server.pid)
        load = start([*_sysbench(self._socket, "oltp_read_write"), "--threads=16", "--time=600", "run"])
        self._processes = (load,)

    def off(self) -> None:
        """Its load ends."""
        for process in self._processes:
            process.kill()
            process.wait(timeout=30)
        self._processes = ()


class Quota(Injector):
    """A CPU quota of the server's group."""

    def on(self) -> None:
        """Put the processes into the group, with its quota."""
        self.join()
        self._write(int(float(self.spec["cpus"]) * PERIOD_US))

    def join(self) -> None:
        """Put the server into the group."""
        for controller in ("cpuacct", "cpu"):
            _join(controller, self.recorder)

    def off(self) -> None:
        """No quota."""
        self._write(-1)

    def _write(self, quota_us: int) -> None:
        (group_of("cpu") / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (group_of("cpu") / "cpu.cfs_quota_us").write_text(str(quota_us))


class Burners(Injector):
    """Processes that compute; with `cpuset`, on that CPU, and the server is held to it as well."""

    _processes: tuple[subprocess.Popen[bytes], ...] = ()

    def on(self) -> None:
        """Start them."""
        command = ["sh", "-c", "while :; do :; done"]
        cpu = self.spec.get("cpuset")
        if cpu is not None:
            (group_of("cpuset") / "cpuset.cpus").write_text(str(cpu))
            _join("cpuset", self.recorder)
            command = ["taskset", "-c", str(cpu), *command]
        self._processes = tuple(start(command) for _ in range(int(self.spec["count"])))

    def off(self) -> None:
        """Kill them."""
        for process in self._processes:
            process.kill()
            process.wait(timeout=30)
        self._processes = ()
        everything = (group_of("cpuset").parent / "cpuset.cpus").read_text()
        (group_of("cpuset") / "cpuset.cpus").write_text(everything)


class NbdRate(Injector):
    """The rate of nbdkit's rate filter, which reads it anew from a file."""

    def on(self) -> None:
        """Limit it."""
        write_rate(self._file, float(self.spec["rate_mib"]))

    def off(self) -> None:
        """As the volume was opened."""
        write_rate(self._file, 0)

    @property
    def _file(self) -> Path:
        if self.volume.rate_file is None:
            raise ValueError("a rate needs a volume of kind nbdkit")
        return self.volume.rate_file


class NbdPause(Injector):
    """nbdkit is stopped by a signal: no operation of the volume ends."""

    def on(self) -> None:
        """SIGSTOP."""
        self._signal(signal.SIGSTOP)

    def off(self) -> None:
        """SIGCONT."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self.volume.server_pid is None:
            raise ValueError("a pause needs a volume of kind nbdkit")
        os.kill(self.volume.server_pid, number)


class MemoryLimit(Injector):
    """The server's memory group is limited to a share of what it has: the kernel takes the page cache back."""

    def on(self) -> None:
        """Lower the limit in steps: the kernel refuses one that it cannot reclaim at once."""
        group = group_of("memory")
        used, remaining = (_memory_of(group, name) for name in ("cache", "rss"))
        aim = remaining + max(MEMORY_SPARE_MIB << 20, round(float(self.spec["cache_share"]) * used))
        limit = remaining + used
        while limit > aim:
            limit = max(aim, limit - (8 << 20))
            with suppress(OSError):
                (group / "memory.limit_in_bytes").write_text(str(limit))

    def off(self) -> None:
        """No limit."""
        (group_of("memory") / "memory.limit_in_bytes").write_text("-1")


def _memory_of(group: Path, name: str) -> int:
    lines = (line.split() for line in (group / "memory.stat").read_text().splitlines())
    return next(int(value) for key, value in lines if key == name)


class FullVolume(Injector):
    """A file fills the volume up to some MiB, before the server starts."""

    def prepare(self) -> None:
        """Room for the data directory is left."""
        status = os.statvfs(self.volume.mount)
        free_mib = status.f_bavail * status.f_frsize >> 20
        size_mib = free_mib - int(self.spec["leave_mib"])
        if size_mib > 0:
            run("fallocate", "-l", f"{size_mib}M", str(self.volume.mount / "filler"))

    def on(self) -> None:
        """Nothing: it is there already."""

    def off(self) -> None:
        """Nothing."""


HOST_INJECTORS: Mapping[str, type[Injector]] = {
    "throttle": Throttle,
    "program": Program,
    "second-server": SecondServer,
    "quota": Quota,
    "burners": Burners,
    "nbd-rate": NbdRate,
    "nbd-pause": NbdPause,
    "full-volume": FullVolume,
    "memory": MemoryLimit,
}


def _join(controller: str, recorder: Recorder) -> None:
    pid = recorder.server_pid
    if pid is None:
        raise RuntimeError("the measured server was not seen")
    (group_of(controller) / "cgroup.procs").write_text(str(pid))


def _second_template(root: Path) -> Path:
    """A data directory with sysbench's tables, made once."""
    template = root / "second-template"
    if (template / "done").exists():
        return template
    shutil.rmtree(template, ignore_errors=True)
    shutil.rmtree(root / "second-making", ignore_errors=True)
    making, socket = root / "second-making", root / "second-making.sock"
    run(
        "mysql_install_db",
        f"--datadir={making}",
        "--user=root",
        "--skip-test-db",
        "--auth-root-authentication-method=normal",
    )
    server = start(_second_server(making, socket))
    wait_for(lambda: _answers(socket), 60, "the second server")
    run("mysql", f"--socket={socket}", "--user=root", "-e", "CREATE DATABASE sbtest")
    run(*_sysbench(socket, "oltp_read_write"), "--threads=2", "prepare")
    run("mysqladmin", f"--socket={socket}", "--user=root", "shutdown")
    server.wait(timeout=60)
    (making / "done").touch()
    making.rename(template)
    return template


def _second_server(data: Path, socket: Path) -> list[str]:
    options = {
        "datadir": data,
        "socket": socket,
        "pid-file": f"{socket}.pid",
        "innodb-buffer-pool-size": "16M",
        "innodb-flush-method": "O_DIRECT",
        "user": "root",
    }
    listed = [f"--{name}={value}" for name, value in options.items()]
    return ["mysqld", "--no-defaults", *listed, "--skip-networking", "--skip-grant-tables"]


def _sysbench(socket: Path, test: str) -> list[str]:
    options = ["--db-driver=mysql", f"--mysql-socket={socket}", "--mysql-user=root", "--mysql-db=sbtest"]
    return ["sysbench", test, *options, "--tables=2", "--table-size=100000", "--rand-type=uniform"]


def _answers(socket: Path) -> bool:
    command = ["mysqladmin", f"--socket={socket}", "--user=root", "ping"]
    return subprocess.run(command, capture_output=True, check=False, timeout=20, env=labelled()).returncode == 0
