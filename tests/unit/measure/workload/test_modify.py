"""The step `modify`: what a volume's counters say of a change of its limits, and what is refused."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from step_context import context_on

from volbench.core.profile.resolve import resolve
from volbench.core.records.steps.modify import ModifyStep
from volbench.errors import StepFailed, UsageError
from volbench.measure.workload import modify, served_rates
from volbench.measure.workload.modify import Modify
from volbench.measure.workload.served_rates import ServedRate, outcome_of

SOCKET = Path("/run/volume/control.sock")


def observed(*levels: tuple[int, float]) -> list[ServedRate]:
    rates = [rate for count, rate in levels for _ in range(count)]
    return [ServedRate(t_s=float(at), per_s=rate) for at, rate in enumerate(rates, 1)]


def test_the_new_limit_holds_from_the_first_of_three_seconds_with_more_operations() -> None:
    values, notes = outcome_of(observed((5, 3000.0), (5, 3000.0), (10, 6000.0)), 5.0, 10.0)
    assert values == {"limits_changed_s": 5.0, "dip_ratio": 1.0, "new_limit_after_s": 6.0}
    assert notes == ()


def test_a_dip_is_the_fewest_operations_of_three_seconds() -> None:
    values, _ = outcome_of(observed((5, 3000.0), (2, 3000.0), (3, 1500.0), (10, 6000.0)), 5.0, 10.0)
    assert values["dip_ratio"] == pytest.approx(0.5)


def test_a_load_that_asks_for_no_more_has_no_new_limit() -> None:
    values, notes = outcome_of(observed((5, 800.0), (15, 820.0)), 5.0, 10.0)
    assert "new_limit_after_s" not in values
    assert notes


@pytest.mark.parametrize(("changed", "doubted"), [((3, 1100.0), True), ((3, 1900.0), False)])
def test_a_dip_is_doubted_where_seconds_with_the_new_limits_are_as_low(
    changed: tuple[int, float], doubted: bool
) -> None:
    """2 threads on a machine with other work: 0.63 of the operations of before, and as few after the change."""
    values, notes = outcome_of(observed((5, 1900.0), (5, 1200.0), (6, 1900.0), changed), 5.0, 10.0)
    assert values["dip_ratio"] == pytest.approx(1200 / 1900)
    assert any("may be none of the change" in note for note in notes) is doubted


def test_one_second_with_more_is_no_new_limit() -> None:
    values, _ = outcome_of(observed((10, 3000.0), (1, 4000.0), (9, 3000.0)), 5.0, 10.0)
    assert "new_limit_after_s" not in values


def test_limits_that_were_not_reached_have_no_time_and_the_dip_is_of_all_that_was_watched() -> None:
    values, notes = outcome_of(observed((5, 3000.0), (5, 3000.0), (5, 1500.0)), 5.0, None)
    assert values == {"dip_ratio": pytest.approx(0.5)}
    assert notes == ("the load did no more operations while it was watched",)


def test_an_idle_volume_is_compared_with_nothing() -> None:
    values, notes = outcome_of(observed((5, 0.0), (10, 500.0)), 5.0, 10.0)
    assert values == {"limits_changed_s": 5.0}
    assert notes


@pytest.mark.parametrize("to", ["efs-elastic", "ebs-gp3?iops=1", "ebs-gp33"])
def test_what_no_vendor_offers_is_refused(tmp_path: Path, to: str) -> None:
    context, _ = context_on(tmp_path)
    with pytest.raises(UsageError):
        Modify().check(ModifyStep(name="m", to=to), dataclasses.replace(context, emulator_socket=SOCKET))


def test_a_volume_that_is_not_emulated_is_refused(tmp_path: Path) -> None:
    context, _ = context_on(tmp_path)
    with pytest.raises(UsageError, match="no real one but"):
        Modify().check(ModifyStep(name="m", to="ebs-gp3"), context)


def test_a_smaller_volume_is_refused(tmp_path: Path) -> None:
    context, _ = context_on(tmp_path)
    facts = context.volume_facts.model_copy(update={"emulated_parameters": {"size": 100 * 2.0**30}})
    emulated = dataclasses.replace(context, emulator_socket=SOCKET, volume_facts=facts)
    with pytest.raises(UsageError, match="smaller"):
        Modify().check(ModifyStep(name="m", to="ebs-gp3?size=50GiB"), emulated)
    Modify().check(ModifyStep(name="m", to="ebs-gp3?size=200GiB"), emulated)


class Daemon:
    """Answers as an emulated volume's daemon whose load is at its limit of operations."""

    def __init__(self, *, obeys: bool = True) -> None:
        self.parameters: dict[str, Any] = {**resolve("ebs-gp3").model, "seed": 7}
        self.own = self.parameters
        self.obeys, self.count, self.at = obeys, 0.0, time.monotonic()
        self.lasts: list[object] = []

    def __call__(self, _: Path, request: Mapping[str, Any]) -> dict[str, Any]:
        now = time.monotonic()
        self.count += self.parameters["limits"][0]["rate_per_s"] * (now - self.at)
        self.at = now
        if request["do"] == "modify":
            self.lasts.append(request.get("lasts_s"))
            if self.obeys or request["parameters"] is self.own:
                self.parameters = dict(request["parameters"])
        counters = {"nvme": {"total_read_ops": self.count, "total_write_ops": 0}}
        return {"ok": True, "parameters": self.parameters, "counters": counters}


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modify, "BEFORE_S", 0.4)
    monkeypatch.setattr(served_rates, "TICK_S", 0.1)


@pytest.mark.usefixtures("short")
def test_the_volume_gets_the_limits_and_then_its_own_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    daemon = Daemon()
    monkeypatch.setattr(modify, "ask_socket", daemon)
    context, _ = context_on(tmp_path)
    step = ModifyStep(name="m", to="ebs-gp3?iops=6000", takes_s=0.5).model_copy(update={"watch_s": 0.8})
    outcome = Modify().run(step, dataclasses.replace(context, emulator_socket=SOCKET))
    assert outcome.metrics["limits_changed_s"].value == pytest.approx(0.5, abs=0.3)
    assert outcome.metrics["new_limit_after_s"].value >= outcome.metrics["limits_changed_s"].value
    assert daemon.parameters["limits"] == daemon.own["limits"]
    assert daemon.lasts[-1] is None  # for good
    assert all(lasts is not None for lasts in daemon.lasts[:-1])  # goes back by itself after a kill


@pytest.mark.usefixtures("short")
def test_a_daemon_that_does_not_obey_fails_the_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modify, "ask_socket", Daemon(obeys=False))
    context, _ = context_on(tmp_path)
    step = ModifyStep(name="m", to="ebs-gp3?iops=6000", takes_s=0)
    with pytest.raises(StepFailed, match="did not take"):
        Modify().run(step, dataclasses.replace(context, emulator_socket=SOCKET))
