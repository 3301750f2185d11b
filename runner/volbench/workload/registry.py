"""Which workload runs which kind of step."""

from __future__ import annotations

from typing import Any

from volbench.records.steps import Step
from volbench.workload.cold_read import ColdRead
from volbench.workload.crash import Crash
from volbench.workload.ddl import Ddl
from volbench.workload.dump import Dump
from volbench.workload.fio import Fio
from volbench.workload.idle import Idle
from volbench.workload.interface import Workload
from volbench.workload.oltp import Oltp
from volbench.workload.restore import Restore
from volbench.workload.sequential import Sequential
from volbench.workload.small_files import SmallFiles

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
}


def workload_for(step: Step) -> Workload[Any]:
    """Return the workload that runs a step. Raise KeyError for an unknown kind."""
    return WORKLOADS[step.kind]
