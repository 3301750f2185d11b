"""What is done to a run while it runs: faults and changes of the volume, CPU shares of containers, neighbours."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import docker
from docker.errors import APIError, NotFound

from explain.cpu_quota import quota_files, write_quota
from explain.neighbours import Neighbours, remove_neighbours
from recordings.tools import Tools
from volbench.core.profile.resolve import resolve
from volbench.machine.placement.docker.containers import container_name
from volbench.machine.volume.emulated.control import ask
from volbench.measure.execute.cell.progress import read_progress

DEVICE_FILE = "device"
"""Beside the texts of a recording: the kernel's name of the volume's block device."""
POLL_S = 0.05
PRIORITY = -10
LATE_S_MAX = 2.0
"""An action later than this makes another run than the one that was drawn."""
_RECORD = "record"
"""The action of the lab itself: sar and iostat for so many seconds."""
_LOAD_TEXT = "transaction"
"""In an agent's progress from the first second of the load on."""


@dataclass(frozen=True, kw_only=True)
class Done:
    """An action that was carried out: when on CLOCK_MONOTONIC, or why not."""

    action: Mapping[str, Any]
    monotonic_ns: int
    error: str = ""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a run's parts are found."""

    run_short_id: str
    cell_id: str
    volume_directory: Path
    profile: str
    options: Mapping[str, str]


class Injector:
    """Carries out actions, timed from the load's begin, which it sees in the agent's progress.

    A context manager: at its end its thread is stopped and neighbours are removed.

    Args:
        actions: `at` in seconds from the begin of the measured window, and one of `fault`, `modify`, `cpus`,
            `neighbours`.
        progress_dir: the cell's directory, where its agent says how far it is.
        warmup_s, measured_s: of the load.
        recording_dir: where sar's and iostat's texts of the measured window go; nothing is recorded of a volume
            that is no block device.
    """

    def __init__(
        self,
        location: Place,
        actions: Sequence[Mapping[str, Any]],
        *,
        progress_dir: Path,
        warmup_s: float,
        measured_s: float,
        recording_dir: Path,
    ) -> None:
        self._place = location
        self._actions = sorted(
            [*actions, {"at": 0.0, _RECORD: int(measured_s)}], key=lambda pair: float(pair["at"])
        )
        self._recording_dir = recording_dir
        self._tools: Tools | None = None
        self._progress_dir = progress_dir
        self._warmup_s, self._length_s = warmup_s, warmup_s + measured_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="injector", daemon=True)
        self._client = docker.from_env()
        self._neighbours: Neighbours | None = None
        self._stack = ExitStack()
        self._quotas: dict[str, tuple[Path, ...]] = {}
        self.done: list[Done] = []

    def __enter__(self) -> Injector:
        remove_neighbours(self._client)
        for action in self._actions:
            if "neighbours" in action:
                self._neighbours = self._stack.enter_context(Neighbours(self._client, int(action["neighbours"])))
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join(timeout=60)
        self._end_recording(is_whole=error is None)
        self._stack.close()
        self._client.close()

    def _follow(self) -> None:
        """Wait for the load's first report, then do each action when it is due."""
        with suppress(OSError):  # only this thread; on CPUs that are saturated on purpose it must not be late
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), PRIORITY)
        begun_s = None
        while begun_s is None:
            if self._over.wait(POLL_S):
                return
            if not self._quotas and read_progress(self._progress_dir) is not None:
                self._find_quotas()
            begun_s = self._load_begun_s()
        for action in self._actions:
            due_s = begun_s + self._warmup_s + float(action["at"])
            if self._over.wait(max(0.0, due_s - time.monotonic())):
                return
            # What is due before the window only has to be there when the window opens.
            self._carry_out(action, max(due_s, begun_s + self._warmup_s))

    def _find_quotas(self) -> None:
        """As soon as the agent runs, and with it the server: under the load the engine answers late."""
        for role in {action["cpus"]["of"] for action in self._actions if "cpus" in action}:
            name = container_name(self._place.run_short_id, self._place.cell_id, role)
            with suppress(NotFound, APIError, OSError):  # the action's own error tells that it is missing
                pid = self._client.containers.get(name).attrs["State"]["Pid"]
                self._quotas[role] = quota_files(Path(f"/proc/{pid}/cgroup").read_text())

    def _load_begun_s(self) -> float | None:
        progress = read_progress(self._progress_dir)
        if progress is None or progress.fraction is None or _LOAD_TEXT not in progress.text:
            return None
        return time.monotonic() - progress.fraction * self._length_s

    def _carry_out(self, action: Mapping[str, Any], due_s: float) -> None:
        error = ""
        try:
            self._do(action)
        except Exception as failure:  # noqa: BLE001 - a run whose cause was not made must be known as such
            error = f"{type(failure).__name__}: {failure}"
        at_ns = time.monotonic_ns()
        late_s = at_ns / 1e9 - due_s
        if not error and late_s > LATE_S_MAX:
            error = f"an action was carried out {late_s:.1f} s too late"
        if error or _RECORD not in action:
            self.done.append(Done(action=action, monotonic_ns=at_ns, error=error))

    def _do(self, action: Mapping[str, Any]) -> None:
        if "fault" in action:
            ask(self._place.volume_directory, {"do": "fault", "fault": dict(action["fault"])})
        elif "modify" in action:
            changed = {name: str(value) for name, value in action["modify"].items()}
            model = resolve(self._place.profile, {**self._place.options, **changed}).model
            ask(self._place.volume_directory, {"do": "modify", "parameters": dict(model)})
        elif "cpus" in action:
            write_quota(self._quotas[action["cpus"]["of"]], float(action["cpus"]["cpus"]))
        elif "neighbours" in action:
            if self._neighbours is None:
                raise ValueError("neighbours that were not made")
            self._neighbours.release()
        elif _RECORD in action:
            self._record(action[_RECORD])
        else:
            raise ValueError(f"nothing is known of the action {dict(action)}")

    def _record(self, seconds: int) -> None:
        mount = self._place.volume_directory / "data"
        source = subprocess.run(
            ["findmnt", "-no", "SOURCE", "--target", str(mount)], check=True, capture_output=True, text=True
        ).stdout.strip()
        if source.startswith("/dev/"):
            self._recording_dir.mkdir()
            device = Path(source).name
            (self._recording_dir / DEVICE_FILE).write_text(device + "\n", encoding="utf-8")
            self._tools = Tools(self._recording_dir, device, seconds)

    def _end_recording(self, *, is_whole: bool) -> None:
        if self._tools is None:
            return
        if not is_whole:
            self._tools.stop()
            return
        try:
            self._tools.write()
        except (OSError, subprocess.SubprocessError) as failure:
            self._tools.stop()
            self.done.append(Done(action={_RECORD: 0}, monotonic_ns=time.monotonic_ns(), error=str(failure)))
