"""Which workload runs which kind of step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

from volbench.core.records.steps import Step
from volbench.measure import workload
from volbench.measure.workload.interface import Workload


def _workloads() -> Iterator[Workload[Any]]:
    """Yield an instance of each workload that a module of this package defines."""
    for entry in walk_packages(workload.__path__, f"{workload.__name__}."):
        if entry.name == Workload.__module__:
            continue
        for value in vars(import_module(entry.name)).values():
            if isinstance(value, type) and issubclass(value, Workload) and value.__module__ == entry.name:
                yield value()


WORKLOADS: Mapping[str, Workload[Any]] = {workload.kind: workload for workload in _workloads()}


def workload_for(step: Step) -> Workload[Any]:
    """Return the workload that runs a step. Raise KeyError for an unknown kind."""
    return WORKLOADS[step.kind]
