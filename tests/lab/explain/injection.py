"""What is done to a run while it runs: faults and changes of the volume, CPU shares of containers, neighbours."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import docker
from docker.errors import APIError, NotFound

from volbench.execute.attempts import CellState
from volbench.target.docker import container_name
from volbench.target.images import tools_image
from volbench.volume.emulated_control import ask
from volbench.volume.profiles import resolve

LABEL = "org.volbench.lab"
PERIOD_US = 100_000
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
    """Carries out actions, timed from the load's begin, which it sees in the run's progress.

    A context manager: at its end, timers are stopped and neighbours removed.

    Args:
        actions: `at` in seconds from the begin of the measured window, and one of `fault`, `modify`, `cpus`,
            `neighbours`.
        warmup_s, measured_s: of the load.
    """

    def __init__(
        self, place: Place, actions: Sequence[Mapping[str, Any]], *, warmup_s: float, measured_s: float
    ) -> None:
        self._place = place
        self._actions = actions
        self._warmup_s, self._length_s = warmup_s, warmup_s + measured_s
        self._timers: list[threading.Timer] = []
        self._client = docker.from_env()
        self.done: list[Done] = []

    def __enter__(self) -> Injector:
        remove_neighbours(self._client)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for timer in self._timers:
            timer.cancel()
        for timer in self._timers:
            timer.join(timeout=30)
        remove_neighbours(self._client)
        self._client.close()

    def watch(self, state: CellState) -> None:
        """Takes a run's progress; the load's first report starts the clock of all actions."""
        progress = state.progress
        if self._timers or not self._actions or progress is None or progress.fraction is None:
            return
        if _LOAD_TEXT not in progress.text:
            return
        begun_s = time.monotonic() - progress.fraction * self._length_s
        for action in self._actions:
            wait_s = begun_s + self._warmup_s + float(action["at"]) - time.monotonic()
            timer = threading.Timer(max(0.0, wait_s), self._carry_out, [action])
            timer.daemon = True
            self._timers.append(timer)
            timer.start()

    def _carry_out(self, action: Mapping[str, Any]) -> None:
        at_ns, error = time.monotonic_ns(), ""
        try:
            self._do(action)
        except Exception as failure:  # noqa: BLE001 - a run whose cause was not made must be known as such
            error = f"{type(failure).__name__}: {failure}"
        self.done.append(Done(action=action, monotonic_ns=at_ns, error=error))

    def _do(self, action: Mapping[str, Any]) -> None:
        if "fault" in action:
            ask(self._place.volume_directory, {"do": "fault", "fault": dict(action["fault"])})
        elif "modify" in action:
            changed = {name: str(value) for name, value in action["modify"].items()}
            model = resolve(self._place.profile, {**self._place.options, **changed}).model
            ask(self._place.volume_directory, {"do": "modify", "parameters": dict(model)})
        elif "cpus" in action:
            wanted = action["cpus"]
            name = container_name(self._place.run_short_id, self._place.cell_id, wanted["of"])
            quota = int(float(wanted["cpus"]) * PERIOD_US)
            self._client.containers.get(name).update(cpu_period=PERIOD_US, cpu_quota=quota)
        elif "neighbours" in action:
            self._neighbours(int(action["neighbours"]))
        else:
            raise ValueError(f"nothing is known of the action {dict(action)}")

    def _neighbours(self, processes: int) -> None:
        """One container with so many processes that compute without end; bounded, should nobody remove it."""
        loop = "while :; do :; done"
        self._client.containers.run(
            tools_image(self._client, ""),
            ["sh", "-c", f"for i in $(seq {processes}); do timeout 120 sh -c '{loop}' & done; wait"],
            entrypoint=[],
            labels={LABEL: "neighbour"},
            network_mode="none",
            cap_drop=["ALL"],
            detach=True,
        )


def remove_neighbours(client: docker.DockerClient) -> None:
    """Remove the lab's own containers, by their label."""
    for container in client.containers.list(all=True, filters={"label": LABEL}, ignore_removed=True):
        with suppress(NotFound, APIError):
            container.remove(force=True)
