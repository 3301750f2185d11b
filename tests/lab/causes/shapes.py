"""Injectors whose shapes are drawn: a volume of shapes.c, servers and files that stand, sleeps, harmless work."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import mysql.connector

from causes.injectors import FILE_MIB, FOREIGN, Burners, Injector
from causes.inside import account_of
from causes.machine import start
from causes.pauses import PeriodicPause
from volbench.machine.engine.connection import connection

STAND_COUNT = "stands.count"


class Shape(Injector):
    """The shape of a volume that shapes.c serves: all keys of the injector but `kind`."""

    def on(self) -> None:
        """Write the shape, and count what it delays."""
        file, counts = self.machine.shape_file, Path(f"{self.machine.shape_file}.counts")
        values = {name: value for name, value in self.spec.items() if name != "kind"}
        self._write(file, "".join(f"{name}={value}\n" for name, value in values.items()))
        self.recorder.add(lambda: _delays(counts))

    def off(self) -> None:
        """As fast as the disk."""
        if self.machine.shape_file.exists():
            self._write(self.machine.shape_file, "")

    @staticmethod
    def _write(file: Path, text: str) -> None:
        partial = file.with_suffix(".new")
        partial.write_text(text, encoding="ascii")
        partial.replace(file)


def _delays(counts: Path) -> dict[str, float]:
    delayed, delayed_ms = (float(field) for field in counts.read_text().split())
    return {"shape.delayed": delayed, "shape.delayed_ms": delayed_ms}


class ServerPause(PeriodicPause):
    """The measured server is stopped for `pause_ms`, every `every_s`: a pause of its container or machine."""

    def on(self) -> None:
        """Begin, and count the stops."""
        self._stops = 0.0
        self.recorder.add(lambda: {STAND_COUNT: self._stops})
        super().on()

    def signal(self, number: signal.Signals) -> None:
        """To the server's process."""
        pid = self.recorder.server_pid
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        self._stops += number == signal.SIGSTOP


class Freeze(PeriodicPause):
    """The volume's file system is frozen for `pause_ms`, every `every_s`, as for a snapshot."""

    def on(self) -> None:
        """Begin, and count the freezes."""
        self._stops = 0.0
        self.recorder.add(lambda: {STAND_COUNT: self._stops})
        super().on()

    def signal(self, number: signal.Signals) -> None:
        """fsfreeze, or its end."""
        freezing = number == signal.SIGSTOP
        subprocess.run(["fsfreeze", "-f" if freezing else "-u", str(self.volume.mount)], check=False, timeout=30)
        self._stops += freezing

    def off(self) -> None:
        """Thaw, also where the thread did not."""
        super().off()
        subprocess.run(["fsfreeze", "-u", str(self.volume.mount)], check=False, timeout=30, capture_output=True)


class SmallReads(Injector):
    """Another program reads `block` at a time, `iops` times a second and at most `depth` at once."""

    _process: subprocess.Popen[bytes] | None = None

    def prepare(self) -> None:
        """Lay out its file, past the page cache."""
        mount = self.volume.mount / FOREIGN
        mount.mkdir(exist_ok=True)
        command = ["dd", "if=/dev/zero", f"of={mount}/big", "bs=1M", f"count={FILE_MIB}", "oflag=direct"]
        subprocess.run(command, check=True, capture_output=True, timeout=120)

    def on(self) -> None:
        """Start it; its process group is followed."""
        expected = [
            f"--bs={self.spec['block']}",
            f"--rate_iops={self.spec['iops']}",
            f"--iodepth={self.spec['depth']}",
        ]
        common = [f"--filename={self.volume.mount}/{FOREIGN}/big", f"--size={FILE_MIB}m", "--direct=1", "--thread"]
        timed = ["--ioengine=libaio", "--time_based", "--runtime=600", f"--rw={self.spec['way']}"]
        self._process = start(["fio", "--name=foreign", *common, *timed, *expected])
        self.recorder.follow(self._process.pid)

    def off(self) -> None:
        """Kill all of its group."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(timeout=30)
            self._process = None


class NicedBurners(Burners):
    """Processes that compute with a priority of their own."""

    def on(self) -> None:
        """Start them."""
        command = ["nice", "-n", str(self.spec["nice"]), "sh", "-c", "while :; do :; done"]
        self._processes = tuple(start(command) for _ in range(int(self.spec["count"])))


class Variables(Injector):
    """Variables of the measured server, `set` by name, and set back at the end."""

    def on(self) -> None:
        """SET GLOBAL; what they were is kept."""
        self._before: dict[str, str] = {}
        with connection(account_of(self.recorder)) as opened, opened.cursor() as cursor:
            for name, value in self.spec["set"].items():
                cursor.execute(f"SELECT @@GLOBAL.{name}")
                rows: Any = cursor.fetchall()
                self._before[name] = str(rows[0][0])
                cursor.execute(f"SET GLOBAL {name} = {value}")

    def off(self) -> None:
        """As they were, where the server still runs."""
        before, self._before = getattr(self, "_before", {}), {}
        with (
            suppress(mysql.connector.Error, RuntimeError, StopIteration, OSError),
            connection(account_of(self.recorder)) as opened,
            opened.cursor() as cursor,
        ):
            for name, value in before.items():
                cursor.execute(f"SET GLOBAL {name} = {value}")


class Nothing(Injector):
    """Injects nothing: the volume itself is what is unusual."""

    def on(self) -> None:
        """Nothing."""

    def off(self) -> None:
        """Nothing."""


SHAPE_INJECTORS: Mapping[str, type[Injector]] = {
    "shape": Shape,
    "server-pause": ServerPause,
    "freeze": Freeze,
    "small-reads": SmallReads,
    "niced-burners": NicedBurners,
    "variables": Variables,
    "nothing": Nothing,
}
