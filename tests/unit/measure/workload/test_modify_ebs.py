"""The step `modify` on a real EBS volume: EC2's answers by botocore's own description, a simulated disk."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber
from step_context import context_on

from volbench.core.records.steps.modify import BEFORE_S, ModifyStep
from volbench.errors import MissingPrerequisite, StepFailed, UsageError
from volbench.machine.volume.ebs import EbsVolume
from volbench.measure.workload import modify_ebs
from volbench.measure.workload.interface import StepContext
from volbench.measure.workload.modify import Modify

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
REGION, VOLUME, DISK = "eu-west-1", "vol-0123456789abcdef0", "nvme1n1"
REQUEST = {"VolumeId": VOLUME, "VolumeType": "gp3", "Iops": 6000}
BEGIN = datetime(2026, 11, 27, 6, 0, tzinfo=UTC)
BEGUN_S = 100.0
REQUESTED_S = BEGUN_S + BEFORE_S


class SimulatedTime:
    """A clock that only waiting moves, and the event that is waited for."""

    def __init__(self) -> None:
        self.at_s, self.cancelled_at_s = BEGUN_S, float("inf")

    def now_s(self) -> float:
        return self.at_s

    def wait(self, seconds: float) -> bool:
        self.at_s += seconds
        return self.at_s >= self.cancelled_at_s


class SimulatedDisk:
    """Serves so many operations a second, from each time on."""

    def __init__(self, clock: SimulatedTime, rates: dict[float, float]) -> None:
        self._clock, self._rates = clock, rates

    def operations(self, disk: str) -> int | None:
        if disk != DISK:
            return None
        begins = [*sorted(self._rates), float("inf")]
        return round(
            sum(
                max(0.0, min(self._clock.at_s, end) - begin) * self._rates[begin] for begin, end in pairwise(begins)
            )
        )


@pytest.fixture(scope="module")
def client() -> Any:
    return boto3.client("ec2", region_name=REGION, aws_access_key_id="id", aws_secret_access_key="secret")


@pytest.fixture
def answers(client: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stubber]:
    @contextmanager
    def opened(volume_id: str, *, region: str, where: str) -> Iterator[EbsVolume]:
        assert region == REGION
        yield EbsVolume(client, volume_id, where=where)

    monkeypatch.setattr(modify_ebs, "ebs_volume", opened)
    with Stubber(client) as stubber:
        yield stubber
        stubber.assert_no_pending_responses()


@pytest.fixture
def clock() -> SimulatedTime:
    return SimulatedTime()


def step(**keys: Any) -> ModifyStep:
    values = {"name": "grow", "to": "ebs-gp3?iops=6000", "ebs_volume": VOLUME, "region": REGION, **keys}
    return ModifyStep.model_validate(values)


@pytest.fixture
def disk_of(tmp_path: Path, clock: SimulatedTime, monkeypatch: pytest.MonkeyPatch) -> Callable[..., StepContext]:
    """Return the context of a volume whose disk serves operations a second, by seconds after the request."""

    def context(rates: dict[float, float], *, disks: tuple[str, ...] = (DISK,)) -> StepContext:
        disk = SimulatedDisk(clock, {0.0: 3000.0} | {REQUESTED_S + at: rate for at, rate in rates.items()})
        monkeypatch.setattr(modify_ebs, "disk_operations", disk.operations)
        monkeypatch.setattr(modify_ebs, "ebs_volume_id", lambda name: VOLUME if name == DISK else "")
        real, _ = context_on(tmp_path)
        changed = {"disk": None, "lower_devices": disks, "journal_devices": ()}
        facts = real.volume_facts.model_copy(update=changed)
        simulated: dict[str, Any] = {"clock": clock, "cancelled": clock}
        return dataclasses.replace(real, volume_facts=facts, **simulated)

    return context


def describe(answers: Stubber, **values: Any) -> None:
    described = {"VolumeId": VOLUME, "VolumeType": "gp2", "Size": 100, "Iops": 300, **values}
    answers.add_response("describe_volumes", {"Volumes": [described]}, {"VolumeIds": [VOLUME]})


def states(answers: Stubber, *modifications: tuple[str, int] | None) -> None:
    """Answer once for each: a state and the hour at which that modification began, or None for no modification."""
    for modification in modifications:
        listed = []
        if modification is not None:
            state, hour = modification
            begin = BEGIN + timedelta(hours=hour)
            listed = [{"VolumeId": VOLUME, "ModificationState": state, "StartTime": begin, "StatusMessage": "why"}]
        filters = [{"Name": "volume-id", "Values": [VOLUME]}]
        answers.add_response(
            "describe_volumes_modifications", {"VolumesModifications": listed}, {"Filters": filters}
        )


def accept(answers: Stubber) -> None:
    modification = {"VolumeModification": {"VolumeId": VOLUME, "ModificationState": "modifying"}}
    answers.add_response("modify_volume", modification, REQUEST)


def test_a_volume_that_can_be_modified_is_not_modified_yet(
    answers: Stubber, disk_of: Callable[..., StepContext]
) -> None:
    describe(answers)
    states(answers, ("completed", -30))
    answers.add_client_error("modify_volume", "DryRunOperation", expected_params={**REQUEST, "DryRun": True})
    Modify().check(step(), disk_of({}))


def test_dip_duration_and_new_limit_are_measured_by_the_disk(
    answers: Stubber, disk_of: Callable[..., StepContext]
) -> None:
    states(answers, ("completed", -30))
    accept(answers)
    states(answers, ("completed", -30), ("modifying", 0), ("optimizing", 0), ("completed", 0))
    outcome = Modify().run(step(), disk_of({3: 1500.0, 6: 3000.0, 12: 6000.0}))
    values = {name: metric.value for name, metric in outcome.metrics.items()}
    assert values == pytest.approx({"limits_changed_s": 20.0, "dip_ratio": 0.5, "new_limit_after_s": 13.0})
    assert outcome.notes == (
        "EC2's answers, every 5 s: modifying after 10 s, optimizing after 15 s, completed after 20 s",
        f"{VOLUME} stays gp3, 6000 IOPS",
    )


def test_an_earlier_modification_that_is_described_still_is_not_this_one(
    answers: Stubber, disk_of: Callable[..., StepContext]
) -> None:
    states(answers, ("completed", -30))
    accept(answers)
    states(answers, *[("completed", -30)] * 6)
    outcome = Modify().run(step(wait="30s"), disk_of({}))
    assert "limits_changed_s" not in outcome.metrics
    assert "none of this modification; not completed within 30 s" in outcome.notes[0]


def test_a_volume_that_is_optimised_for_hours_has_no_time_but_its_new_limit(
    answers: Stubber, disk_of: Callable[..., StepContext]
) -> None:
    states(answers, None)
    accept(answers)
    states(answers, None, *[("optimizing", 0)] * 5)
    outcome = Modify().run(step(wait="30s"), disk_of({20: 6000.0}))
    assert set(outcome.metrics) == {"dip_ratio", "new_limit_after_s"}
    assert outcome.metrics["new_limit_after_s"].value == pytest.approx(21.0)
    assert "optimizing after 10 s; not completed within 30 s" in outcome.notes[0]


def test_seconds_after_the_load_are_no_dip(
    answers: Stubber,
    disk_of: Callable[..., StepContext],
    clock: SimulatedTime,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """EC2 takes so long for the first answer that the load ends before the time to wait is over."""
    modification = step(wait="30s")
    plain, context = EbsVolume.last_modification, disk_of({modification.end_s - BEFORE_S: 0.0})

    def slow(volume: EbsVolume) -> Any:
        clock.at_s = max(clock.at_s, BEGUN_S + 40)
        return plain(volume)

    monkeypatch.setattr(EbsVolume, "last_modification", slow)
    states(answers, None)
    accept(answers)
    states(answers, *[("optimizing", 0)] * 6)
    outcome = Modify().run(modification, context)
    assert clock.at_s > BEGUN_S + modification.end_s
    assert outcome.metrics["dip_ratio"].value == pytest.approx(1.0)


@pytest.mark.parametrize("state", ["modifying", "optimizing"])
def test_an_earlier_modification_under_way_is_waited_for_by_the_user(
    answers: Stubber, disk_of: Callable[..., StepContext], state: str
) -> None:
    describe(answers)
    states(answers, (state, -1))
    with pytest.raises(MissingPrerequisite, match="not completed") as refused:
        Modify().check(step(), disk_of({}))
    assert f"{state}, begun at 2026-11-27 05:00" in refused.value.evidence


@pytest.mark.parametrize(
    ("to", "described", "message"),
    [
        ("ebs-gp3?size=50GiB", {}, "EBS makes no volume smaller"),
        ("ebs-gp2", {}, "would change"),
        ("ebs-gp2?size=100GiB", {}, "would change"),
        ("ebs-gp3?iops=6000", {"VolumeType": "gp3", "Iops": 6000, "Throughput": 125}, "would change"),
    ],
)
def test_what_is_no_change_or_none_that_ebs_makes_is_refused(
    answers: Stubber, disk_of: Callable[..., StepContext], to: str, described: dict[str, Any], message: str
) -> None:
    describe(answers, **described)
    with pytest.raises(UsageError, match=message) as refused:
        Modify().check(step(to=to), disk_of({}))
    assert "100 GiB" in refused.value.evidence


@pytest.mark.parametrize(
    ("disks", "evidence"),
    [
        ((), "no disk that this machine shows"),
        (("nvme9n1",), "nvme9n1 (its serial number is of no EBS volume)"),
        ((DISK, "nvme2n1"), f"{DISK} ({VOLUME}), nvme2n1 ("),
    ],
)
def test_another_volume_than_the_named_one_is_refused_before_ec2_is_asked(
    answers: Stubber, disk_of: Callable[..., StepContext], disks: tuple[str, ...], evidence: str
) -> None:
    with pytest.raises(UsageError, match=f"not on {VOLUME} alone") as refused:
        Modify().check(step(), disk_of({}, disks=disks))
    assert evidence in refused.value.evidence


def test_an_emulated_volume_is_no_real_one(answers: Stubber, disk_of: Callable[..., StepContext]) -> None:
    emulated = dataclasses.replace(disk_of({}), emulator_socket=Path("/run/volume/control.sock"))
    with pytest.raises(UsageError) as refused:
        Modify().check(step(), emulated)
    assert "is on an emulated volume" in refused.value.evidence


def test_a_modification_that_fails_says_that_it_was_requested(
    answers: Stubber, disk_of: Callable[..., StepContext]
) -> None:
    states(answers, None)
    accept(answers)
    states(answers, ("failed", 0))
    with pytest.raises(MissingPrerequisite, match="could not modify the volume, after EC2 was asked") as failed:
        Modify().run(step(), disk_of({}))
    assert failed.value.evidence == "why"
    assert VOLUME in failed.value.next_step


def test_a_cancelled_step_says_that_the_modification_was_requested(
    answers: Stubber, disk_of: Callable[..., StepContext], clock: SimulatedTime
) -> None:
    states(answers, None)
    accept(answers)
    context = disk_of({})
    clock.cancelled_at_s = REQUESTED_S + 3
    with pytest.raises(MissingPrerequisite, match="cancelled, after EC2 was asked"):
        Modify().run(step(), context)


def test_before_the_request_a_cancelled_step_modifies_nothing(
    answers: Stubber, disk_of: Callable[..., StepContext], clock: SimulatedTime
) -> None:
    states(answers, None)
    context = disk_of({})
    clock.cancelled_at_s = BEGUN_S + 2
    with pytest.raises(StepFailed, match=r"was cancelled$"):
        Modify().run(step(), context)
