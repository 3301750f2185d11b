"""Steps that restart a server, or write to its volume, refuse one that volbench did not start."""

from __future__ import annotations

from pathlib import Path

import pytest
from step_context import context_on

from volbench.core.records.steps import STEP_KINDS, Step
from volbench.errors import MissingPrerequisite
from volbench.machine.engine.attached import AttachedServer
from volbench.machine.engine.server import Server
from volbench.measure.workload.registry import workload_for

NEED_AN_OWN_SERVER = sorted(name for name, kind in STEP_KINDS.items() if kind.own_server)


def somebody_elses() -> AttachedServer:
    """A server that answers nothing: a step that asks it something, and does not refuse it first, fails."""
    server = object.__new__(AttachedServer)
    server._address = "db1:3306"
    return server


@pytest.mark.parametrize("kind", NEED_AN_OWN_SERVER)
def test_a_step_refuses_it_before_anything_runs(kind: str, tmp_path: Path) -> None:
    step: Step = STEP_KINDS[kind].example()
    context, _ = context_on(tmp_path, server=somebody_elses())
    with pytest.raises(MissingPrerequisite, match="volbench did not start this server") as raised:
        workload_for(step).check(step, context)
    assert raised.value.what.startswith(STEP_KINDS[kind].own_server)
    assert raised.value.where == f"step {step.name}"
    assert raised.value.evidence == "db1:3306"
    assert "remove the step" in raised.value.next_step


def test_it_may_be_late_and_has_not_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A load at a fixed rate that it does not keep up with is a result of the rate."""

    def no_answer(*_: object) -> None:
        raise MissingPrerequisite("no answer")

    late = somebody_elses()
    monkeypatch.setattr(late, "_check", no_answer)
    assert late.failure() is not None
    assert not late.has_failed()


def test_an_own_server_may_be_used_for_everything() -> None:
    server = object.__new__(Server)
    assert server.own("this step restarts the server", where="step s") is server
