"""Runs one setup as an ordinary `volbench run` on the local target, in control groups of its own."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from causes.conditions import FOREVER_S, Setup
from causes.counters import Recorder
from causes.injectors import HOST_INJECTORS, Injector
from causes.inside import INSIDE_INJECTORS
from causes.machine import POLL_S, Machine, Volume, group_of, labelled, write_rate
from causes.network import NETWORK_INJECTORS, Tcp, remove_rules
from causes.shapes import SHAPE_INJECTORS
from causes.unseen import UNSEEN_INJECTORS
from volbench.measure.execute.cell.progress import read_progress

SETUP_FILE, DONE_FILE, SUITE_FILE = "setup.json", "done.json", "suite.yaml"
COUNTERS_FILE, LOG_FILE, RESULTS = "counters.jsonl", "volbench.log", "results"
STEP, VOLUME = "load", "v"
WARMUP_S = 2.0
RUN_S_MAX = 150
OLTP_TRIGGER = "transaction"
LATE_S_MAX = 1.0
INJECTORS = {**HOST_INJECTORS, **INSIDE_INJECTORS, **NETWORK_INJECTORS, **SHAPE_INJECTORS, **UNSEEN_INJECTORS}
SCRIPTS = Path(__file__).with_name("lua")


@dataclass(frozen=True, kw_only=True)
class Action:
    """An injector that was switched, on CLOCK_MONOTONIC."""

    injector: str
    switched_on: bool
    monotonic_ns: int


class Schedule:
    """Switches injectors when their phases come; a thread, timed from the load's begin."""

    def __init__(
        self, setup: Setup, injectors: Sequence[Injector], volume: Volume, results: Path, over: threading.Event
    ) -> None:
        self._setup, self._injectors, self._volume = setup, injectors, volume
        self._results, self._over = results, over
        self._thread = threading.Thread(target=self._follow, name="schedule", daemon=True)
        self.actions: list[Action] = []
        self.error = ""

    def start(self) -> None:
        """Begin to look for the load."""
        self._thread.start()

    def join(self) -> None:
        """Wait for its end, after `over` was set."""
        self._thread.join(timeout=60)

    def _follow(self) -> None:
        try:
            window_s = self._wait_for_window()
            if window_s is None:
                return
            if self._volume.rate_file is not None:
                write_rate(self._volume.rate_file, float(self._setup.volume.get("rate_mib", 0)))
            for at_s, switched_on in _changes(self._setup.phases):
                due_s = window_s + at_s
                if self._over.wait(max(0.0, due_s - time.monotonic())):
                    return
                self._switch(switched_on)
                late_s = time.monotonic() - max(due_s, window_s)
                if late_s > LATE_S_MAX:
                    self.error = f"an injector was switched {late_s:.1f} s too late"
        except Exception as error:  # noqa: BLE001 - a run whose cause was not made must be known as such
            self.error = f"{type(error).__name__}: {error}"

    def _switch(self, switched_on: bool) -> None:
        for injector in self._injectors:
            if switched_on:
                injector.on()
            else:
                injector.off()
            name = str(injector.spec["kind"])
            self.actions.append(Action(injector=name, switched_on=switched_on, monotonic_ns=time.monotonic_ns()))

    def _wait_for_window(self) -> float | None:
        """When the measured window begins; None when the run ended first."""
        pattern = re.compile(str(self._setup.load.get("trigger", OLTP_TRIGGER)))
        length_s = WARMUP_S + self._setup.measured_s
        while not self._over.wait(POLL_S):
            for cell in self._results.glob("*/cells/[0-9]*"):
                progress = read_progress(cell)
                if progress is not None and pattern.search(progress.text):
                    if pattern.pattern != OLTP_TRIGGER:
                        return time.monotonic()
                    if progress.fraction is not None:
                        return time.monotonic() - progress.fraction * length_s + WARMUP_S
        return None


def run_setup(setup: Setup, directory: Path, machine: Machine) -> dict[str, Any]:
    """Run a setup in the directory `place`; what an interrupted run has left there goes first.

    Returns done.json. A failure of the run is a result, not an error.
    """
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    _write(directory / SETUP_FILE, dataclasses.asdict(setup))
    (directory / SUITE_FILE).write_text(yaml.safe_dump(suite_of(setup), sort_keys=False), encoding="utf-8")
    begun_s, failure, actions, volume = time.monotonic(), "", list[Action](), None
    machine.clean_up()
    try:
        machine.make_groups()
        volume = machine.open_volume(setup.volume)
        failure, actions = _execute(setup, directory, machine, volume)
    except Exception as error:  # noqa: BLE001 - one run that fails must not end a batch
        failure = f"{type(error).__name__}: {error}"[:600]
    finally:
        remove_rules()
        machine.clean_up()
    done = {
        "wall_s": time.monotonic() - begun_s,
        "failure": failure,
        "actions": [dataclasses.asdict(action) for action in actions],
        "volume": None if volume is None else {"device": volume.device, "number": volume.number},
    }
    _write(directory / DONE_FILE, done)
    return done


def _execute(setup: Setup, directory: Path, machine: Machine, volume: Volume) -> tuple[str, list[Action]]:
    results, over = directory / RESULTS, threading.Event()
    results.mkdir()
    if "via" in setup.volume:
        volume = dataclasses.replace(volume, tcp=Tcp(machine, volume, setup.volume, setup.load["config"]))
    with Recorder(directory / COUNTERS_FILE, volume) as recorder, _server(volume, recorder):
        injectors = [INJECTORS[str(spec["kind"])](spec, machine, volume, recorder) for spec in setup.inject]
        for injector in injectors:
            injector.prepare()
        schedule = Schedule(setup, injectors, volume, results, over)
        schedule.start()
        try:
            code = _run_volbench(directory, volume, controllers_of(setup))
        finally:
            over.set()
            schedule.join()
            for injector in injectors:
                injector.off()
    failure = schedule.error
    if not failure and len(schedule.actions) < sum(len(injectors) for _ in _changes(setup.phases, ends=False)):
        failure = "not all injectors were switched on"
    if not failure and not list(results.glob("*/report.json")):
        failure = f"volbench run exited with {code}; see {LOG_FILE}"
    return failure, schedule.actions


def _server(volume: Volume, recorder: Recorder) -> AbstractContextManager[None]:
    """The server that is reached over TCP, where there is one."""
    return nullcontext() if volume.tcp is None else volume.tcp.running(recorder)


def controllers_of(setup: Setup) -> tuple[str, ...]:
    """In whose groups the run is from its begin: what the server allocates is charged where it is at that time."""
    in_memory = any(spec["kind"] == "memory" for spec in setup.inject)
    return ("blkio", "memory") if in_memory else ("blkio",)


def _run_volbench(directory: Path, volume: Volume, controllers: Sequence[str]) -> int:
    """The run in the lab's groups, where limits and counters of the server are."""
    where = ["--target", "local", "--volume", f"{VOLUME}=path:{volume.mount}"]
    if volume.tcp is not None:
        where = ["--target", "attach", "--server", volume.tcp.dsn]
    command = [
        sys.executable,
        "-m",
        "volbench",
        "run",
        str(directory / SUITE_FILE),
        *where,
        "--yes",
        "--out",
        str(directory / RESULTS),
    ]
    procs = [str(group_of(controller) / "cgroup.procs") for controller in controllers]
    join = 'while [ "$1" != -- ]; do echo $$ > "$1" && shift || exit 1; done; shift; exec "$@"'
    with (directory / LOG_FILE).open("wb") as log:
        process = subprocess.Popen(
            ["sh", "-c", join, "sh", *procs, "--", *command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env=labelled(),
        )
        try:
            return process.wait(timeout=RUN_S_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(timeout=30)
            return -9


def suite_of(setup: Setup) -> dict[str, Any]:
    """The suite file of a setup: one step that is scored, after those that it needs, one cell."""
    step = dict(setup.load["step"])
    if step["kind"] == "oltp":
        step |= {"warmup": f"{WARMUP_S:g}s", "duration": f"{setup.measured_s:g}s"}
        if step["test"].endswith(".lua"):
            step["test"] = str(SCRIPTS / step["test"])
    return {
        "schema": 2,
        "name": "lab",
        "description": f"Causes made by others: {setup.condition}, run {setup.number}",
        "underpowered": True,
        "limits": {"foreign_cpu": "100%"},
        **({} if "via" in setup.volume else {"engine": {"config": dict(setup.load["config"])}}),
        "dataset": dict(setup.load["dataset"]),
        "steps": [*setup.load.get("before", ()), {"name": STEP, **step}],
        "repeats": 1,
        "replacements": 0,
        "seed": setup.seed,
    }


def _changes(phases: Sequence[tuple[float, float]], *, ends: bool = True) -> list[tuple[float, bool]]:
    """(second, whether on) of all phases in order."""
    begins = [(on_s, True) for on_s, _ in phases]
    return sorted(begins + [(off_s, False) for _, off_s in phases if ends and off_s < FOREVER_S])


def _write(path: Path, data: dict[str, Any]) -> None:
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    partial.replace(path)
