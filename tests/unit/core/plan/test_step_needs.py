"""Steps that the run's servers or volumes do not allow are refused with the plan, not in the first cell."""

from __future__ import annotations

import pytest

from volbench.core.plan.ebs_modification import ebs_request
from volbench.core.plan.step_needs import check_needs
from volbench.core.profile.spec import parse_volume
from volbench.core.records.run import VolumeSpec
from volbench.core.records.steps import STEP_KINDS, Step
from volbench.core.records.steps.instances import InstancesStep
from volbench.core.records.steps.modify import ModifyStep
from volbench.core.records.steps.oltp import OltpStep
from volbench.core.records.steps.replica import ReplicaStep
from volbench.core.records.steps.restored import RestoredStep
from volbench.core.records.steps.snapshot import SnapshotStep
from volbench.errors import MissingPrerequisite, UsageError

GP2 = "a=emulated:ebs-gp2?size=100GiB"
RUNNING = VolumeSpec(name="attached", kind="path", location="", text="attached server")
KINDS = sorted(STEP_KINDS)


def modify(to: str) -> ModifyStep:
    return ModifyStep(name="grow", to=to)


def check(step: Step, *volumes: str, target: str = "local") -> None:
    check_needs([OltpStep(name="load"), step], [parse_volume(volume) for volume in volumes], target)


@pytest.mark.parametrize("kind", KINDS)
def test_an_attached_server_is_refused_before_tables_are_made_in_it(kind: str) -> None:
    step = STEP_KINDS[kind].example().model_copy(update={"name": "s"})
    if not STEP_KINDS[kind].own_server:
        if kind != "modify":
            check_needs([step], [RUNNING], "attach")
        return
    with pytest.raises(MissingPrerequisite, match="volbench did not start this server") as refused:
        check_needs([step], [RUNNING], "attach")
    assert refused.value.what.startswith(STEP_KINDS[kind].own_server)
    assert refused.value.where == "step s"


@pytest.mark.parametrize("volume", ["b=nfs:server:/export", "b=docker-volume:x"])
@pytest.mark.parametrize("step", [modify("ebs-gp3"), RestoredStep(name="warm")])
def test_a_volume_that_is_never_emulated_is_refused_and_named(step: Step, volume: str) -> None:
    with pytest.raises(UsageError) as refused:
        check(step, "a=emulated:snapshot-lazy-load", volume)
    assert f"volume {volume}" in refused.value.evidence
    assert refused.value.where == f"step {step.name}"


@pytest.mark.parametrize("volume", ["b=path:/mnt/b", "b=pvc:b", "b=storage-class:b"])
@pytest.mark.parametrize("step", [modify("ebs-gp3"), RestoredStep(name="warm")])
def test_what_may_be_emulated_is_left_to_the_cell(step: Step, volume: str) -> None:
    check(step, volume)


def test_a_modification_in_a_load_is_checked_too() -> None:
    load = OltpStep.model_validate({"name": "load", "concurrent": [{"kind": "modify", "to": "ebs-gp3"}]})
    check(load, GP2)
    with pytest.raises(UsageError, match="no real one but"):
        check(load, "b=nfs:server:/export")


@pytest.mark.parametrize(
    ("to", "volume", "message"),
    [
        ("ebs-gp33", GP2, "unknown volume profile"),
        ("ebs-gp3?iosp=4000", GP2, "iosp"),
        ("efs-elastic", GP2, "another block volume"),
        ("ebs-gp3", "a=emulated:efs-elastic", "another block volume"),
        ("ebs-gp3?size=50GiB", GP2, "no vendor makes a volume smaller"),
    ],
)
def test_a_modification_that_no_vendor_makes_is_refused(to: str, volume: str, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        check(modify(to), volume)
    assert message in str(refused.value)


@pytest.mark.parametrize("to", ["ebs-gp3", "ebs-gp3?size=100GiB", "ebs-gp3?size=200GiB&iops=6000"])
def test_a_modification_that_keeps_the_size_is_planned(to: str) -> None:
    check(modify(to), GP2)


def test_a_volume_with_all_its_blocks_was_not_restored() -> None:
    check(RestoredStep(name="warm"), "a=emulated:snapshot-lazy-load?base=ebs-gp2")
    with pytest.raises(UsageError, match="made from a snapshot") as refused:
        check(RestoredStep(name="warm"), GP2)
    assert GP2 in refused.value.evidence


def test_several_servers_take_no_layout() -> None:
    check(InstancesStep(name="many"), "a=path:/mnt/a")
    with pytest.raises(UsageError, match="one volume for all files") as refused:
        check(InstancesStep(name="many"), "a=data:path:/mnt/a,log:path:/mnt/l")
    assert refused.value.evidence.endswith("log elsewhere")


@pytest.mark.parametrize("step", [InstancesStep(name="s"), ReplicaStep(name="s")])
def test_a_container_of_compose_has_room_for_one_server(step: Step) -> None:
    with pytest.raises(MissingPrerequisite, match="allows none") as refused:
        check(step, "a=path:/volumes/a?control=/control/a")
    assert refused.value.what.startswith(STEP_KINDS[step.kind].own_server)
    assert "volume a=path:/volumes/a?control=/control/a" in refused.value.evidence


VOLUME = "vol-0123456789abcdef0"
ON_EBS = "a=path:/mnt/ebs"


def real(to: str = "ebs-gp3?iops=6000") -> ModifyStep:
    return ModifyStep(name="grow", to=to, ebs_volume=VOLUME)


def test_one_cell_modifies_a_real_volume() -> None:
    check(real(), ON_EBS)


@pytest.mark.parametrize(
    ("to", "request_of_ec2"),
    [
        ("ebs-gp3", {"VolumeType": "gp3"}),
        ("emulated:ebs-gp2?size=200GiB", {"VolumeType": "gp2", "Size": 200}),
        ("ebs-gp3?iops=6000&throughput=250", {"VolumeType": "gp3", "Iops": 6000, "Throughput": 250}),
        ("ebs-io2?iops=20000&size=100GiB", {"VolumeType": "io2", "Iops": 20000, "Size": 100}),
        ("ebs-st1?size=1TiB", {"VolumeType": "st1", "Size": 1024}),
    ],
)
def test_a_request_has_what_the_suite_says_and_no_default(to: str, request_of_ec2: dict[str, str | int]) -> None:
    assert ebs_request(real(to)) == request_of_ec2


@pytest.mark.parametrize(
    ("to", "message"),
    [
        ("local-nvme", "no volume type"),
        ("ebs-gp2?credits=0", "cannot be asked for 'credits'"),
        ("ebs-gp3?instance=m5.large", "cannot be asked for 'instance'"),
        ("ebs-gp3?size=100500MiB", "whole GiB"),
        ("ebs-gp3?iops=1", "3,000 to 80,000"),
        ("ebs-gp33", "unknown volume profile"),
    ],
)
def test_what_ec2_cannot_be_asked_for_is_refused(to: str, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        check(real(to), ON_EBS)
    assert message in str(refused.value)


@pytest.mark.parametrize("target", ["docker", "kubernetes", "attach"])
def test_a_real_volume_is_modified_where_it_is_attached(target: str) -> None:
    with pytest.raises(UsageError, match="the target local"):
        check(real(), ON_EBS, target=target)


@pytest.mark.parametrize("volume", [GP2, "b=nfs:server:/export"])
def test_a_real_volume_is_no_other_kind(volume: str) -> None:
    with pytest.raises(UsageError, match="names a real volume") as refused:
        check(real(), volume)
    assert volume in refused.value.evidence


def test_no_later_cell_is_measured_on_a_modified_volume() -> None:
    volumes = [parse_volume(ON_EBS)]
    with pytest.raises(UsageError, match="every later") as refused:
        check_needs([real()], volumes, "local", cells=2)
    assert refused.value.evidence == "2 cells, 1 modification"
    with pytest.raises(UsageError, match="every later"):
        check_needs([real(), real("ebs-gp3?iops=9000")], volumes, "local", cells=1)
    check_needs([modify("ebs-gp3")], [parse_volume(GP2)], "local", cells=8)


CLAIM = modify("claim?attributes_class=fast&size=200GiB")


@pytest.mark.parametrize("volume", ["a=pvc:data", "a=storage-class:gp3?size=100Gi"])
def test_one_cell_changes_a_claim(volume: str) -> None:
    check(CLAIM, volume, target="kubernetes")


def test_a_claim_changes_in_a_cluster_once_and_alone() -> None:
    claim = [parse_volume("a=pvc:data")]
    with pytest.raises(UsageError, match="only a cluster has claims") as refused:
        check(CLAIM, "a=path:/mnt/a")
    assert refused.value.where == "step grow"
    with pytest.raises(UsageError, match="every later"):
        check_needs([CLAIM], claim, "kubernetes", cells=2)
    with pytest.raises(UsageError, match="takes no snapshot"):
        check_needs([CLAIM, SnapshotStep(name="s")], claim, "kubernetes")
    with pytest.raises(UsageError, match="this volume is none") as refused:
        check(CLAIM, "a=emulated:ebs-gp2?size=100GiB", target="kubernetes")
    assert "emulated:ebs-gp2" in refused.value.evidence
