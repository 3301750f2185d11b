"""The kernel's own counters, read five times a second beside a run; what was injected is proven from them alone."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from causes.machine import Volume, group_of, labelled_processes

INTERVAL_S = 0.2
SERVERS = ("mysqld", "mariadbd")
STAT_FIELDS = (
    "reads",
    "reads_merged",
    "sectors_read",
    "read_ms",
    "writes",
    "writes_merged",
    "sectors_written",
    "write_ms",
    "in_flight",
    "io_ms",
    "weighted_ms",
    "discards",
    "discards_merged",
    "sectors_discarded",
    "discard_ms",
    "flushes",
    "flush_ms",
)
"""/sys/block/NAME/stat, Documentation/block/stat.rst."""
_IO_FIELDS = ("read_bytes", "write_bytes", "syscr", "syscw")
_DIRECTIONS = ("Read", "Write")
_MEMORY_FIELDS = ("cache", "rss", "pgpgin", "pgpgout", "pgmajfault")


class Recorder:
    """Appends counters to a file until it is closed; a context manager.

    Counters by name: `blkio.loop.Read.ops` (the lab's group on the volume; `below`: on the disk under it), `disk.*`
    (the volume's loop device), `cpu.*` (the group's cpu.stat), `server.run_s` and `.wait_s` (schedstat of all its
    threads), `foreign.*` (/proc/PID/io of other programs), `memory.*` (failcnt, memory.stat), `machine.idle_s`.
    """

    def __init__(self, file: Path, volume: Volume) -> None:
        self._file = file
        self._volume = volume
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._record, name="counters", daemon=True)
        self._foreign: dict[int, dict[str, int]] = {}
        self._groups: set[int] = set()
        self._ignored: set[int] = set()
        self._server: int | None = None
        self._readers: list[Callable[[], Mapping[str, float]]] = []

    def __enter__(self) -> Recorder:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(timeout=30)

    def add(self, reader: Callable[[], Mapping[str, float]]) -> None:
        """Read these counters, too, from now on."""
        self._readers.append(reader)

    def follow(self, process_group: int) -> None:
        """Count a process group as foreign from now on."""
        self._groups.add(process_group)

    def ignore(self, process_group: int) -> None:
        """Another server that is not the measured one."""
        self._ignored.add(process_group)

    @property
    def server_pid(self) -> int | None:
        """The measured server's process, once it was seen."""
        if self._server is None or not Path(f"/proc/{self._server}").exists():
            self._server = find_server(self._ignored)
        return self._server

    def _record(self) -> None:
        with self._file.open("w", encoding="utf-8") as out:
            while not self._over.is_set():
                begun_s = time.monotonic()
                line = {"ns": time.monotonic_ns(), "values": self._values()}
                out.write(json.dumps(line) + "\n")
                out.flush()
                self._over.wait(max(0.01, INTERVAL_S - (time.monotonic() - begun_s)))

    def _values(self) -> dict[str, float]:
        result: dict[str, float] = {}
        readers: tuple[Callable[[], Mapping[str, float]], ...] = (
            self._blkio,
            self._disk,
            _cpu_group,
            self._schedule,
            self._others,
            _memory,
            _machine,
            *self._readers,
        )
        for read in readers:
            with suppress(OSError, ValueError, IndexError):
                result |= read()
        return result

    def _blkio(self) -> dict[str, float]:
        result: dict[str, float] = {}
        names = {self._volume.number: "loop", self._volume.below: "below"}
        for file, unit in (("io_serviced", "ops"), ("io_service_bytes", "bytes")):
            for line in (group_of("blkio") / f"blkio.throttle.{file}").read_text().splitlines():
                fields = line.split()
                if len(fields) == 3 and fields[0] in names and fields[1] in _DIRECTIONS:
                    result[f"blkio.{names[fields[0]]}.{fields[1]}.{unit}"] = int(fields[2])
        return result

    def _disk(self) -> dict[str, float]:
        text = Path(f"/sys/class/block/{self._volume.device}/stat").read_text()
        return {f"disk.{name}": int(value) for name, value in zip(STAT_FIELDS, text.split(), strict=False)}

    def _schedule(self) -> dict[str, float]:
        pid = self.server_pid
        if pid is None:
            return {}
        run_ns = wait_ns = 0
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                run, wait, _ = (task / "schedstat").read_text().split()
                run_ns, wait_ns = run_ns + int(run), wait_ns + int(wait)
        return {"server.run_s": run_ns / 1e9, "server.wait_s": wait_ns / 1e9}

    def _others(self) -> dict[str, float]:
        if not self._groups:
            return {}
        for entry in Path("/proc").iterdir():
            with suppress(OSError, ValueError, IndexError):
                if entry.name.isdigit() and process_group_of(entry) in self._groups:
                    lines = (line.split(": ") for line in (entry / "io").read_text().splitlines())
                    self._foreign[int(entry.name)] = {name: int(value) for name, value in lines}
        listed = self._foreign.values()
        return {f"foreign.{name}": sum(item.get(name, 0) for item in listed) for name in _IO_FIELDS}


def find_server(ignored: set[int]) -> int | None:
    """The measured server: a mysqld that serves clients, in no ignored process group.

    It or a process above it carries the lab's label: volbench gives a server an environment of its own.
    """
    labelled = frozenset(labelled_processes())
    for entry in Path("/proc").iterdir():
        with suppress(OSError, IndexError, ValueError):
            pid = int(entry.name)
            if (entry / "comm").read_text().strip() not in SERVERS or labelled.isdisjoint(_with_parents(pid)):
                continue
            serves = "--bootstrap" not in (entry / "cmdline").read_text()
            if serves and process_group_of(entry) not in ignored:
                return pid
    return None


def _with_parents(pid: int) -> list[int]:
    """A process and those above it."""
    results = [pid]
    while results[-1] > 1:
        text = Path(f"/proc/{results[-1]}/stat").read_text()
        results.append(int(text.rpartition(")")[2].split()[1]))
    return results


def process_group_of(entry: Path) -> int:
    """Of a directory of /proc; the name, in parentheses, may hold blanks."""
    return int((entry / "stat").read_text().rpartition(")")[2].split()[2])


def read_counters(file: Path) -> list[tuple[float, dict[str, float]]]:
    """(seconds of CLOCK_MONOTONIC, counters) of each line; a last line that was cut off is left out."""
    results = []
    for line in file.read_text(encoding="utf-8").splitlines():
        with suppress(ValueError):
            raw = json.loads(line)
            results.append((raw["ns"] / 1e9, raw["values"]))
    return results


def _cpu_group() -> dict[str, float]:
    lines = (line.split() for line in (group_of("cpu") / "cpu.stat").read_text().splitlines())
    return {f"cpu.{name}": int(value) for name, value in lines}


def _memory() -> dict[str, float]:
    counted = {"memory.failcnt": float((group_of("memory") / "memory.failcnt").read_text())}
    lines = (line.split() for line in (group_of("memory") / "memory.stat").read_text().splitlines())
    return counted | {f"memory.{name}": float(value) for name, value in lines if name in _MEMORY_FIELDS}


def _machine() -> dict[str, float]:
    fields = Path("/proc/stat").read_text().splitlines()[0].split()
    return {"machine.idle_s": (int(fields[4]) + int(fields[5])) / os.sysconf("SC_CLK_TCK")}
