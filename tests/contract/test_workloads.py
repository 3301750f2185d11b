"""What every workload must fulfil."""

from __future__ import annotations

import inspect
from typing import get_args

import pytest

from volbench.engine.attached import AttachedServer
from volbench.engine.server import Server
from volbench.records.metrics import CATALOGUE, PRIMARY_METRICS
from volbench.records.steps import (
    ColdReadStep,
    CrashStep,
    DdlStep,
    DumpStep,
    FioStep,
    IdleStep,
    OltpStep,
    RestoreStep,
    SequentialStep,
    SmallFilesStep,
    Step,
)
from volbench.workload.interface import ServerHandle, StepContext, Workload
from volbench.workload.registry import WORKLOADS, workload_for

STEPS: list[Step] = [
    OltpStep(), DumpStep(), RestoreStep(), ColdReadStep(), CrashStep(), IdleStep(),
    SmallFilesStep(), DdlStep(), FioStep(), SequentialStep(),
]  # fmt: skip


def test_every_kind_of_step_has_a_workload_and_no_other() -> None:
    """A new kind in records/steps.py fails here until somebody runs it."""
    kinds = {model.model_fields["kind"].default for model in get_args(get_args(Step)[0])}
    assert kinds == set(WORKLOADS) == {step.kind for step in STEPS}


def test_every_kind_has_primary_metrics_that_are_catalogued() -> None:
    """What a comparison looks at is what a workload may report."""
    assert set(PRIMARY_METRICS) == set(WORKLOADS)
    assert {name for names in PRIMARY_METRICS.values() for name in names} <= set(CATALOGUE)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.kind)
def test_workloads_are_called_alike(step: Step) -> None:
    """check and run take a step and a context, under these names."""
    workload = workload_for(step)
    for method in ("check", "run"):
        wanted = inspect.signature(getattr(Workload, method))
        given = inspect.signature(getattr(workload, method))
        assert list(given.parameters) == list(wanted.parameters)[1:]
        assert given.return_annotation == wanted.return_annotation
        assert given.parameters["ctx"].annotation == StepContext.__name__


def servers_fit(own: Server, attached: AttachedServer) -> tuple[ServerHandle, ServerHandle]:
    """Both kinds of server are what workloads ask for: checked by mypy."""
    return own, attached


def test_the_servers_have_what_workloads_use() -> None:
    """The same at run time: every name of the protocol."""
    names = [name for name in vars(ServerHandle) if not name.startswith("_")]
    for kind in (Server, AttachedServer):
        made = {*dir(kind), *inspect.getsource(kind.__init__).replace("self.", " ").split()}
        assert set(names) <= made
