"""Which workload runs which kind of step.

The workload of a kind is in the module of that name, in whichever package below this one, or in the module `step`
of a package of that name. So each cell imports the modules of its own steps only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

from volbench.core.records.steps import Step
from volbench.core.records.steps.oltp import OltpStep
from volbench.measure import workload
from volbench.measure.workload.interface import Workload

_NAME_IN_PACKAGE = "step"


@cache
def _modules() -> Mapping[str, str]:
    """Return the modules of this package by the kind of step that each would run."""
    names = [entry.name for entry in walk_packages(workload.__path__, f"{workload.__name__}.") if not entry.ispkg]
    return {(name.removesuffix(f".{_NAME_IN_PACKAGE}")).rpartition(".")[2]: name for name in names}


def modules_for(steps: Iterable[Step]) -> tuple[str, ...]:
    """Return the modules that run these steps, and those that run concurrently with a load."""
    kinds = {step.kind: None for step in steps}
    kinds |= {step.kind: None for load in steps if isinstance(load, OltpStep) for step in load.concurrent}
    return tuple(_modules()[kind] for kind in kinds if kind in _modules())


def workload_for(step: Step) -> Workload[Any]:
    """Return the workload that runs a step. Raise KeyError for an unknown kind."""
    return _workload_of(step.kind)


@cache
def _workload_of(kind: str) -> Workload[Any]:
    name = _modules()[kind]
    for value in vars(import_module(name)).values():
        if isinstance(value, type) and issubclass(value, Workload) and value.__module__ == name:
            return value()
    raise KeyError(kind)
