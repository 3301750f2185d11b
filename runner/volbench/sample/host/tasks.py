"""Source `tasks`: CPU time of the cell's own processes, and how long they were runnable and waited for a CPU.

With it the machine's CPU time can be split into the cell's own and that of others, also where there is no control
group, and it bounds what the others can have done to the cell (`analysis/disturbance.py`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from volbench.records.parse import parse_json
from volbench.records.series import SeriesRow
from volbench.sample.change import Change
from volbench.sample.config import SamplingConfig
from volbench.sample.interface import Reading, Sampler, Unavailable, Values
from volbench.sample.shared import Shared
from volbench.volume.task_account import TASKS_STALE_S, TaskAccount, socket_peer

CELL, EMULATOR = "cell", "emulator"


class Tasks(Sampler):
    """Reads /proc of processes that can be seen from here, else a file that a process outside keeps up to date.

    Args:
        pids: roots of the cell's process trees; empty: none can be seen.
        file: of `task_account.keep_task_file`; None: nobody keeps one.
        emulator_socket: of an emulated volume, whose daemon is counted too.
    """

    source: ClassVar[str] = "tasks"
    lane: ClassVar[str] = "tasks"

    def __init__(self, pids: tuple[int, ...], file: Path | None, emulator_socket: Path | None) -> None:
        self._pids, self._file, self._socket = pids, file, emulator_socket
        self._accounts: dict[str, TaskAccount] = {}

    @classmethod
    def from_config(cls, config: SamplingConfig, shared: Shared) -> Sampler:  # noqa: ARG003 - all are made alike
        """Return the sampler."""
        return cls(
            config.own_pids,
            Path(config.task_file) if config.task_file else None,
            Path(config.emulator_socket) if config.emulator_socket else None,
        )

    @classmethod
    def is_remote(cls, config: SamplingConfig) -> bool:
        """Return whether a process outside reports the tasks."""
        return bool(config.task_file)

    def read(self) -> Values:
        """Seconds on a CPU and seconds waiting for one, since the first reading."""
        if self._file is not None and self._file.exists():
            return self._reported_values(self._file)
        if not self._pids:
            raise Unavailable("no process of the cell can be seen from here")
        if not self._accounts:
            self._accounts[CELL] = TaskAccount(self._pids)
            daemon = socket_peer(self._socket) if self._socket is not None else None
            if daemon is not None:
                self._accounts[EMULATOR] = TaskAccount((daemon,))
        values: Values = {}
        for entity, account in self._accounts.items():
            times = account.read()
            values["cpu_s", entity], values["delay_s", entity] = times.cpu_s, times.delay_s
        return values

    @staticmethod
    def _reported_values(file: Path) -> Values:
        report = parse_json(file.read_text())
        age_s = time.monotonic() - float(report["at_s"])
        if age_s > TASKS_STALE_S:
            raise Unavailable(f"what is told of the cell's processes is {age_s:.0f} s old")
        return {
            (name, entity): float(report[entity][name]) for entity in report["entities"] for name in report[entity]
        }

    @staticmethod
    def rates(before: Reading, after: Reading) -> Iterator[SeriesRow]:
        """CPUs used, and seconds a second that tasks waited, all tasks added up."""
        change = Change(source=Tasks.source, before=before, after=after)
        if not change.usable:
            return
        for entity in change.entities("cpu_s"):
            account_values = (
                ("cpus_used", change.per_s("cpu_s", entity)),
                ("run_delay_s_per_s", change.per_s("delay_s", entity)),
            )
            yield from change.rows(account_values, entity)
