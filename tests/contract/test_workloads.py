"""What every workload must fulfil."""

from __future__ import annotations

import inspect
from importlib import import_module
from pkgutil import walk_packages

import pytest

from volbench.core.records.steps import STEP_KINDS, Step
from volbench.core.records.steps.idle import IdleStep
from volbench.core.records.steps.kind import StepKind
from volbench.machine.engine.attached import AttachedServer
from volbench.machine.engine.server import Server
from volbench.measure import workload as package
from volbench.measure.workload.interface import ServerHandle, StepContext, Workload
from volbench.measure.workload.registry import workload_for

STEPS: list[Step] = [kind.example() for kind in STEP_KINDS.values()]


def test_every_kind_of_step_has_a_workload_and_no_other() -> None:
    """A descriptor without a workload fails here, and a workload without one, or in a module of another name."""
    names = [entry.name for entry in walk_packages(package.__path__, f"{package.__name__}.")]
    classes = [
        value
        for name in names
        for value in vars(import_module(name)).values()
        if isinstance(value, type)
        and issubclass(value, Workload)
        and value.__module__ == name
        and value is not Workload
    ]
    assert {each.kind: each for each in classes} == {step.kind: type(workload_for(step)) for step in STEPS}
    assert len(classes) == len(STEP_KINDS)
    assert {"oltp", "idle"} < set(STEP_KINDS)


@pytest.mark.parametrize("kind", STEP_KINDS.values(), ids=lambda kind: kind.name)
def test_a_kind_describes_itself(kind: StepKind) -> None:
    """Reports label and explain its metrics, and a plan says what it costs."""
    assert all(metric.label and metric.text for metric in kind.metrics)
    assert kind.model.__doc__
    cost = kind.example().cost(data_bytes=1 << 30)
    assert cost.measured_s > 0
    assert kind.example().temporary_bytes() >= 0
    assert kind.after in {"", *STEP_KINDS}
    assert kind.expanded in {"", *kind.model.model_fields}


def test_a_name_with_two_meanings_is_refused() -> None:
    """Two kinds may share a metric, and must not describe it differently."""
    with pytest.raises(ValueError, match="throughput is not among its metrics"):
        StepKind(model=IdleStep, metrics=(), primary=("throughput",))


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.kind)
def test_workloads_are_called_alike(step: Step) -> None:
    """check and run take a step and a context, under these names."""
    workload = workload_for(step)
    for method in ("check", "run"):
        expected = inspect.signature(getattr(Workload, method))
        input_value = inspect.signature(getattr(workload, method))
        assert list(input_value.parameters) == list(expected.parameters)[1:]
        assert input_value.return_annotation == expected.return_annotation
        assert input_value.parameters["ctx"].annotation == StepContext.__name__


def servers_fit(own: Server, attached: AttachedServer) -> tuple[ServerHandle, ServerHandle]:
    """Both kinds of server are what workloads ask for: checked by mypy."""
    return own, attached


def test_the_servers_have_what_workloads_use() -> None:
    """The same at run time: every name of the protocol."""
    names = [name for name in vars(ServerHandle) if not name.startswith("_")]
    for kind in (Server, AttachedServer):
        made = {*dir(kind), *inspect.getsource(kind.__init__).replace("self.", " ").split()}
        assert set(names) <= made
