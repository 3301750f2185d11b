"""Which workload runs which kind of step."""

from __future__ import annotations

from typing import Any

from volbench.records.steps import Step
from volbench.workload.backup.dump import Dump
from volbench.workload.backup.restore import Restore
from volbench.workload.cold.cold_read import ColdRead
from volbench.workload.crash.crash import Crash
from volbench.workload.ddl import Ddl
from volbench.workload.file_steps.fio import Fio
from volbench.workload.file_steps.sequential import Sequential
from volbench.workload.file_steps.small_files import SmallFiles
from volbench.workload.idle import Idle
from volbench.workload.interface import Workload
from volbench.workload.oltp.oltp import Oltp
from volbench.workload.replay.step import Replay

WORKLOADS: dict[str, Workload[Any]] = {
    "oltp": Oltp(concurrent_workload=Dump()),
    "dump": Dump(),
    "restore": Restore(),
    "cold_read": ColdRead(),
    "crash": Crash(),
    "idle": Idle(),
    "small_files": SmallFiles(),
    "ddl": Ddl(),
    "fio": Fio(),
    "sequential": Sequential(),
    "replay": Replay(),
}


def workload_for(step: Step) -> Workload[Any]:
    """Return the workload that runs a step. Raise KeyError for an unknown kind."""
    return WORKLOADS[step.kind]
