"""Injectors of mechanisms that no rule was written for: see unseen.yaml."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import mysql.connector

from causes.injectors import PERIOD_US, Burners, Injector, Quota, Throttle
from causes.inside import READ_S, STATEMENT_S_MAX, account_of, client_pids
from causes.machine import group_of
from causes.network import PROXY, api
from causes.shapes import Shape
from volbench.machine.engine.connection import Account, connection

DATA_FILE = ".ibd"


class Gauges(Injector):
    """Injects nothing: reads a number by each statement of `of`, some times a second, as `gauge.NAME`."""

    def on(self) -> None:
        """Begin."""
        self._latest: dict[str, float] = {}
        self._over = threading.Event()
        tcp = self.volume.tcp
        account = account_of(self.recorder) if tcp is None else Account(user="root", socket=str(tcp.socket))
        threading.Thread(target=self._follow, args=(account,), daemon=True).start()
        self.recorder.add(lambda: self._latest)

    def off(self) -> None:
        """End."""
        if hasattr(self, "_over"):
            self._over.set()

    def _follow(self, account: Account) -> None:
        with (
            suppress(mysql.connector.Error),
            connection(account, timeout_s=STATEMENT_S_MAX) as opened,
            opened.cursor() as cursor,
        ):
            while not self._over.wait(READ_S):
                latest: dict[str, float] = {}
                for name, statement in self.spec["of"].items():
                    cursor.execute(statement)
                    rows: Any = cursor.fetchall()
                    latest[f"gauge.{name}"] = float(rows[0][0] or 0)
                self._latest = latest


class ClientCrowd(Burners):
    """The load generator is held to the last CPU, on which `count` processes compute."""

    def on(self) -> None:
        """Hold all its threads to it, and start them there."""
        cpu = (os.cpu_count() or 1) - 1
        for pid in client_pids():
            for task in Path(f"/proc/{pid}/task").iterdir():
                with suppress(OSError):
                    os.sched_setaffinity(int(task.name), {cpu})
        super().on()
        for process in self._processes:
            os.sched_setaffinity(process.pid, {cpu})


class Toxic(Injector):
    """One of toxiproxy's toxics: its `type`, `stream` and `attributes`."""

    def on(self) -> None:
        """Add it; connections that exist get it, too."""
        body = {"name": "unseen", **{name: self.spec[name] for name in ("type", "stream", "attributes")}}
        api("POST", f"/proxies/{PROXY}/toxics", body)

    def off(self) -> None:
        """Remove it; again is harmless."""
        with suppress(OSError):
            api("DELETE", f"/proxies/{PROXY}/toxics/unseen")


class LongQuota(Quota):
    """A CPU quota of the server's group with a period of its own: `period_ms`, up to a second."""

    def _write(self, quota_us: int) -> None:
        period_us = 1000 * int(self.spec["period_ms"])
        (group_of("cpu") / "cpu.cfs_quota_us").write_text("-1")
        (group_of("cpu") / "cpu.cfs_period_us").write_text(str(period_us))
        quota_us = quota_us if quota_us < 0 else quota_us * period_us // PERIOD_US
        (group_of("cpu") / "cpu.cfs_quota_us").write_text(str(quota_us))


class Shares(Quota):
    """The server's group has `shares` of the CPUs (1024 is usual), beside `count` processes that compute."""

    def on(self) -> None:
        """Put the server into its group, and start them."""
        self.join()
        (group_of("cpu") / "cpu.shares").write_text(str(self.spec["shares"]))
        self._burners = Burners(self.spec, self.machine, self.volume, self.recorder)
        self._burners.on()

    def off(self) -> None:
        """End them; the group is as it was."""
        if hasattr(self, "_burners"):
            self._burners.off()
        (group_of("cpu") / "cpu.shares").write_text("1024")


class ThrottleLevels(Throttle):
    """The limits alternate between their value and `times` of it, each for `every_s`."""

    def on(self) -> None:
        """Begin."""
        self._set(1.0)
        self._ramp = threading.Thread(target=self._alternate, name="levels", daemon=True)
        self._ramp.start()

    def _alternate(self) -> None:
        is_high = False
        while not self._over.wait(float(self.spec["every_s"])):
            is_high = not is_high
            self._set(float(self.spec["times"]) if is_high else 1.0)


class DroppedPages(Injector):
    """The page cache of the server's data files is given back to the kernel, every `every_s`."""

    _thread: threading.Thread | None = None

    def on(self) -> None:
        """Begin, and count the files."""
        self._over, self._dropped = threading.Event(), 0.0
        self.recorder.add(lambda: {"dropped.files": self._dropped})
        self._thread = threading.Thread(target=self._follow, name="dropped-pages", daemon=True)
        self._thread.start()

    def off(self) -> None:
        """End."""
        if self._thread is not None:
            self._over.set()
            self._thread.join(timeout=10)
            self._thread = None

    def _follow(self) -> None:
        files = [path for path in self.volume.mount.rglob(f"*{DATA_FILE}") if "sbtest" in path.name]
        while not self._over.wait(float(self.spec["every_s"])):
            for path in files:
                with suppress(OSError):
                    opened = os.open(path, os.O_RDONLY)
                    os.posix_fadvise(opened, 0, 0, os.POSIX_FADV_DONTNEED)
                    os.close(opened)
                    self._dropped += 1


class ShapeAllAlong(Shape):
    """The shape of a volume from before the server starts to the end of the run."""

    def prepare(self) -> None:
        """Write it."""
        super().on()

    def on(self) -> None:
        """Nothing: it is there already."""

    def off(self) -> None:
        """Nothing."""


UNSEEN_INJECTORS: Mapping[str, type[Injector]] = {
    "gauges": Gauges,
    "client-crowd": ClientCrowd,
    "toxic": Toxic,
    "long-quota": LongQuota,
    "shares": Shares,
    "throttle-levels": ThrottleLevels,
    "dropped-pages": DroppedPages,
    "shape-all-along": ShapeAllAlong,
}
