"""A modulated volume follows a balanced signal and goes back; what cannot be modulated is refused."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from step_context import context_on

from volbench.core.records.modulation import modulation_of
from volbench.core.records.steps.oltp import OltpStep
from volbench.errors import StepFailed, UsageError
from volbench.measure.workload.latency_model import slowed
from volbench.measure.workload.oltp import modulation
from volbench.measure.workload.oltp.modulation import check_modulation, modulating

OWN = {
    "latency": {
        "read": {"parts": [{"median_us": 400.0, "sigma": 0.3}]},
        "write": {"parts": [{"median_us": 300.0, "sigma": 0.3}]},
        "flush": {"parts": [{"median_us": 0.0, "sigma": 0.3}]},
    }
}
STEP = OltpStep.model_validate({"name": "load", "threads": (4,), "duration": 60, "modulate": 4})


class Daemon:
    """Takes changes as an emulated volume's daemon does; `refuses` from that request on."""

    def __init__(self, parameters: dict[str, Any] = OWN, *, refuses: int | None = None) -> None:
        self.parameters = parameters
        self.changes: list[dict[str, Any]] = []
        self._refuses = refuses

    def __call__(self, _socket: Path, request: dict[str, Any]) -> dict[str, Any]:
        if request["do"] == "parameters":
            return {"ok": True, "parameters": self.parameters}
        if self._refuses is not None and len(self.changes) >= self._refuses:
            raise StepFailed("the emulated volume's daemon does not answer")
        self.changes.append(request)
        return {"ok": True}


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(modulation, "MODULATION_SLOT_S", 0.01)
    return replace(context_on(tmp_path)[0], emulator_socket=tmp_path / "control.sock")


def until(daemon: Daemon, changes: int) -> None:
    """Wait until the daemon has that many changes; the slots themselves bound the time."""
    waiting = threading.Event()
    for _ in range(2000):
        if len(daemon.changes) >= changes:
            return
        waiting.wait(0.01)
    raise AssertionError(f"{len(daemon.changes)} of {changes} changes came")


def test_every_four_slots_have_each_state_once(context, monkeypatch: pytest.MonkeyPatch) -> None:
    daemon = Daemon()
    monkeypatch.setattr(modulation, "ask_socket", daemon)
    with modulating(STEP, context) as details:
        until(daemon, 9)
    result = modulation_of(details)
    assert result is not None
    assert Counter(slot.slow for slot in result.slots[:8]) == {
        (): 2,
        ("read",): 2,
        ("write",): 2,
        ("read", "write"): 2,
    }
    assert all(slot.t0_s < slot.t1_s for slot in result.slots)


def test_every_change_ends_by_itself_and_the_last_one_takes_back_all(
    context, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = Daemon()
    monkeypatch.setattr(modulation, "ask_socket", daemon)

    def interrupted() -> None:
        with modulating(STEP, context):
            until(daemon, 2)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    *changes, last = daemon.changes
    assert all(change["lasts_s"] > 0 for change in changes)
    assert last == {"do": "modify", "parameters": OWN}


def test_a_volume_that_refuses_a_change_fails_the_step(context, monkeypatch: pytest.MonkeyPatch) -> None:
    daemon = Daemon(refuses=0)
    monkeypatch.setattr(modulation, "ask_socket", daemon)
    with pytest.raises(StepFailed), modulating(STEP, context):
        pass


def test_only_the_named_kinds_are_slowed_and_the_own_parameters_stay() -> None:
    changed = slowed(OWN, ("read",), 4.0)
    assert changed["latency"]["read"]["parts"][0]["median_us"] == 1600.0
    assert changed["latency"]["write"] == OWN["latency"]["write"]
    assert OWN["latency"]["read"]["parts"][0]["median_us"] == 400.0


def test_a_volume_that_is_not_emulated_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="needs an emulated volume") as refused:
        check_modulation(STEP, context_on(tmp_path)[0])
    assert "a second volume" in refused.value.next_step


def test_a_profile_without_latencies_is_refused(context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modulation, "ask_socket", Daemon({"latency": {}}))
    with pytest.raises(UsageError, match="latencies"):
        check_modulation(STEP, context)


def test_a_step_without_modulation_asks_nobody(context, monkeypatch: pytest.MonkeyPatch) -> None:
    daemon = Daemon()
    monkeypatch.setattr(modulation, "ask_socket", daemon)
    plain = OltpStep.model_validate({"name": "load", "threads": (4,), "duration": 60})
    check_modulation(plain, context)
    with modulating(plain, context) as details:
        pass
    assert (details, daemon.changes) == ({}, [])


@pytest.mark.parametrize(
    ("options", "helps"),
    [
        ({"rate": 100}, "leave `rate` out"),
        ({"duration": 20}, "set `duration: 48s`"),
        ({"concurrent": ({"kind": "dump"},)}, "a step of its own"),
    ],
)
def test_a_load_that_cannot_follow_its_volume_is_refused_with_what_would_help(
    options: dict[str, Any], helps: str
) -> None:
    with pytest.raises(ValidationError, match=f"`modulate` needs.*{helps}"):
        OltpStep.model_validate({"name": "load", "duration": 60, "modulate": 4, **options})
