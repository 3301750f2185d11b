"""Source `tasks`: CPU time of the cell's own processes, and how long they were runnable and waited for a CPU.

The server's and the load's are counted apart: a client that is held back is not a server that is.

With it the machine's CPU time can be split into the cell's own, the kernel's for its I/O, and that of others, also
where there is no control group, and it bounds what the others can have done to the cell
(`results/compare/disturbance.py`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from typing_extensions import override

from volbench.core.base import safe_files
from volbench.core.base.parse import parse_json
from volbench.core.records.series import SeriesRow
from volbench.machine.host.task_account import (
    CLIENT,
    EMULATOR,
    SAMPLER,
    SERVER,
    TASKS_STALE_S,
    TaskAccount,
    TaskAccounts,
    socket_peer,
)
from volbench.measure.sample.change import Change
from volbench.measure.sample.config import SamplingConfig
from volbench.measure.sample.interface import Reading, Sampler, Unavailable, Values
from volbench.measure.sample.shared import Shared

_REPORT_BYTES_MAX = 1 << 16
_OBSERVED_READINGS_PER_WALK = 10
"""A server in use hardly starts processes, and a walk over those of a large machine costs milliseconds."""


class TasksSampler(Sampler):
    """Reads /proc of processes that can be seen from here, else a file that a process outside keeps up to date.

    Args:
        server_pids, client_pids: roots of the server's process trees and of the agent's; empty: not seen.
        file: of `task_account.keep_task_file`; None: nobody keeps one.
        emulator_socket: of an emulated volume, whose daemon is counted too.
        readings_per_walk: how many readings one look for children serves.
    """

    source: ClassVar[str] = "tasks"
    lane: ClassVar[str] = "tasks"

    def __init__(
        self,
        server_pids: tuple[int, ...] = (),
        client_pids: tuple[int, ...] = (),
        *,
        file: Path | None = None,
        emulator_socket: Path | None = None,
        readings_per_walk: int = 1,
    ) -> None:
        self._roots = {SERVER: server_pids, CLIENT: client_pids}
        self._file, self._socket = file, emulator_socket
        self._accounts: TaskAccounts | None = None
        self._readings_per_walk = readings_per_walk
        self._own = TaskAccount((os.getpid(),))

    @classmethod
    @override
    def from_config(cls, config: SamplingConfig, shared: Shared) -> Sampler:
        """Return the sampler."""
        return cls(
            config.server_pids,
            config.client_pids,
            file=Path(config.task_file) if config.task_file else None,
            emulator_socket=Path(config.emulator_socket) if config.emulator_socket else None,
            readings_per_walk=_OBSERVED_READINGS_PER_WALK if config.read_only else 1,
        )

    @classmethod
    def is_remote(cls, config: SamplingConfig) -> bool:
        """Return whether a process outside reports the tasks."""
        return bool(config.task_file)

    def read(self) -> Values:
        """Return seconds on a CPU and seconds waiting for one, since the first reading."""
        if self._file is not None and self._file.exists():
            values = self._reported_values(self._file)
        else:
            values = self._seen_values()
        own = self._own.read(children={})
        return values | {("cpu_s", SAMPLER): own.cpu_s, ("delay_s", SAMPLER): own.delay_s}

    def _seen_values(self) -> Values:
        roots = {entity: pids for entity, pids in self._roots.items() if pids}
        if not roots:
            raise Unavailable("no process of the cell can be seen from here")
        if self._accounts is None:
            daemon = socket_peer(self._socket) if self._socket is not None else None
            entities = roots | ({} if daemon is None else {EMULATOR: (daemon,)})
            self._accounts = TaskAccounts(entities, readings_per_walk=self._readings_per_walk)
        figures = self._accounts.figures()
        return {(name, entity): value for entity, of_entity in figures.items() for name, value in of_entity.items()}

    @staticmethod
    def _reported_values(file: Path) -> Values:
        report = parse_json(safe_files.read_beside(file, bytes_max=_REPORT_BYTES_MAX))
        age_s = time.monotonic() - float(report["at_s"])
        if age_s > TASKS_STALE_S:
            raise Unavailable(f"the report on the cell's processes is {age_s:.0f} s old")
        return {
            (name, entity): float(report[entity][name]) for entity in report["entities"] for name in report[entity]
        }

    @staticmethod
    def rates(before: Reading, after: Reading) -> Iterator[SeriesRow]:
        """Yield CPUs used, and seconds a second that tasks waited, all tasks added up."""
        change = Change(source=TasksSampler.source, before=before, after=after)
        if not change.usable:
            return
        for entity in change.entities("cpu_s"):
            account_values = (
                ("cpus_used", change.per_s("cpu_s", entity)),
                ("run_delay_s_per_s", change.per_s("delay_s", entity)),
            )
            yield from change.rows(account_values, entity)
