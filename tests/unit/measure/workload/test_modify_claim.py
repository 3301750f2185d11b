"""The step `modify` on a claim: an orchestrator's answers, and the disk's own counters."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from step_context import context_on

from volbench.core.records.snapshots import ClaimTimes
from volbench.core.records.steps.modify import ModifyStep
from volbench.errors import MissingPrerequisite, StepFailed, UsageError
from volbench.measure.workload import modify_claim
from volbench.measure.workload.interface import ChangedClaim, StepContext
from volbench.measure.workload.modify import Modify

DISK = "nvme1n1"
STEP = ModifyStep.model_validate(
    {"name": "grow", "to": "claim?attributes_class=fast", "wait": "30s", "watch": "5s"}
)
TIMES = ClaimTimes(claim="data", states=(("attributes InProgress", 1.0), ("completed", 4.0)), completed=True)
Answer = Callable[[ModifyStep, threading.Event], ChangedClaim]


class Clock:
    """A clock that only waiting moves, and the event that is waited for."""

    def __init__(self) -> None:
        self.at_s = 100.0

    def now_s(self) -> float:
        return self.at_s

    def wait(self, seconds: float) -> bool:
        self.at_s += seconds
        return False


@dataclass
class LateCall:
    """A pool, and the call in it, which is done when the clock is there."""

    clock: Clock
    done_s: float
    call: Callable[[], Any] = lambda: None

    def __call__(self, **_: Any) -> LateCall:
        return self

    def __enter__(self) -> LateCall:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def submit(self, call: Callable[..., Any], *arguments: Any) -> LateCall:
        self.call = partial(call, *arguments)
        return self

    def done(self) -> bool:
        return self.clock.at_s >= self.done_s

    def result(self) -> Any:
        return self.call()


@dataclass
class Bench:
    """A disk that does 3000 operations a second, and from 109 s on 6000; an answer that comes at `done_s`."""

    directory: Path
    patch: pytest.MonkeyPatch
    clock: Clock = field(default_factory=Clock)

    def context(
        self, answer: Answer | None, *, done_s: float = 0.0, disks: tuple[str, ...] = (DISK,)
    ) -> StepContext:
        self.patch.setattr(modify_claim, "disk_operations", self.operations)
        self.patch.setattr(modify_claim, "ThreadPoolExecutor", LateCall(self.clock, done_s))
        real, _ = context_on(self.directory)
        facts = real.volume_facts.model_copy(update={"disk": None, "lower_devices": disks, "journal_devices": ()})
        simulated: dict[str, Any] = {"clock": self.clock, "cancelled": self.clock}
        return dataclasses.replace(real, volume_facts=facts, modify_claim=answer, **simulated)

    def operations(self, disk: str) -> int | None:
        now_s = self.clock.at_s
        return round(3000 * now_s + 3000 * max(0.0, now_s - 109.0)) if disk == DISK else None


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, monkeypatch)


def answering(changed: ChangedClaim) -> Answer:
    def answer(step: ModifyStep, _cancelled: threading.Event) -> ChangedClaim:
        assert step == STEP
        return changed

    return answer


def test_a_claim_that_changed_is_timed_by_the_orchestrator_and_counted_by_the_disk(bench: Bench) -> None:
    """Asked for at 105 s, changed at 109 s, and the answer is there a second later."""
    context = bench.context(answering(ChangedClaim(times=TIMES, work_s=4.0, ended_ago_s=1.0)), done_s=110.0)
    Modify().check(STEP, context)
    outcome = Modify().run(STEP, context)
    values = {name: metric.value for name, metric in outcome.metrics.items()}
    assert values == pytest.approx({"limits_changed_s": 4.0, "dip_ratio": 1.0, "new_limit_after_s": 5.0})
    assert (outcome.details["asked_s"], outcome.details["changed_s"]) == (105.0, 109.0)
    assert outcome.notes == (
        "the claim's status, every second: attributes InProgress after 1 s, completed after 4 s",
        "claim data stays changed: claim?attributes_class=fast",
    )
    assert outcome.details["states"] == [["attributes InProgress", 1.0], ["completed", 4.0]]


def test_a_claim_that_does_not_get_there_in_time_has_no_time_but_its_new_limit(bench: Bench) -> None:
    times = ClaimTimes(claim="data", states=(("attributes Pending", 1.0),))
    late = answering(ChangedClaim(times=times, work_s=30.0, ended_ago_s=0.0))
    outcome = Modify().run(STEP, bench.context(late, done_s=135.0))
    assert set(outcome.metrics) == {"dip_ratio", "new_limit_after_s"}
    assert "attributes Pending after 1 s; not completed within 30 s" in outcome.notes[0]


def test_what_fails_after_the_request_is_not_tried_again(bench: Bench) -> None:
    def refuse(_step: ModifyStep, _cancelled: threading.Event) -> ChangedClaim:
        raise StepFailed("the orchestrator gave no answer", evidence="no file", next_step="stay connected")

    with pytest.raises(MissingPrerequisite, match="after the claim's change was asked for") as refused:
        Modify().run(STEP, bench.context(refuse))
    assert (refused.value.where, refused.value.evidence) == ("step grow", "no file")
    assert refused.value.next_step == "stay connected"


def test_without_a_cluster_or_a_disk_that_is_counted_nothing_is_asked_for(bench: Bench) -> None:
    with pytest.raises(UsageError, match="only a cluster has claims"):
        Modify().check(STEP, bench.context(None))
    asked = answering(ChangedClaim(times=TIMES, work_s=1.0, ended_ago_s=0.0))
    with pytest.raises(MissingPrerequisite, match="no single disk") as refused:
        Modify().check(STEP, bench.context(asked, disks=("sda", "sdb")))
    assert "sda, sdb" in refused.value.evidence
