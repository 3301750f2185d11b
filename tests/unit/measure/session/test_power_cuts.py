"""Power cuts that a target cannot recover from are refused with the plan, not in the first cell."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from volbench.core.profile.spec import parse_volume
from volbench.core.records.steps.crash import CrashStep
from volbench.core.records.steps.oltp import OltpStep
from volbench.core.suite.load import load_suite
from volbench.errors import MissingPrerequisite
from volbench.measure.session.power_cuts import check_power_cuts

BLOCK, FILES, REAL = "a=emulated:ebs-gp3", "b=emulated:fsx-openzfs", "c=path:/mnt/c"
MIXED = "d=data:path:/mnt/d,log:emulated:ebs-gp3"
Fault = Literal["auto", "power_cut", "kill_server"]


def check(fault: Fault, target: str, *volumes: str) -> None:
    steps = [OltpStep(name="load"), CrashStep(name="cut", fault=fault)]
    check_power_cuts(steps, [parse_volume(volume) for volume in volumes], target)


@pytest.mark.parametrize(
    ("fault", "target", "volumes"),
    [
        ("auto", "local", (BLOCK,)),
        ("kill_server", "docker", (BLOCK,)),
        ("auto", "docker", (FILES, REAL)),
        ("power_cut", "docker", (FILES,)),
        ("auto", "docker", (MIXED,)),
    ],
)
def test_what_can_be_recovered_is_planned(fault: Fault, target: str, volumes: tuple[str, ...]) -> None:
    check(fault, target, *volumes)


@pytest.mark.parametrize(
    ("fault", "volumes", "blocks"),
    [
        ("auto", (FILES, BLOCK), "block volumes: a"),
        ("power_cut", (BLOCK, "e=emulated:ceph-rbd"), "block volumes: a, e"),
        ("auto", ("f=data:emulated:fsx-openzfs,log:emulated:ebs-gp3",), "block volumes: f"),
    ],
)
def test_a_block_volume_in_a_container_is_not(fault: Fault, volumes: tuple[str, ...], blocks: str) -> None:
    with pytest.raises(MissingPrerequisite) as raised:
        check(fault, "docker", *volumes)
    assert raised.value.where == "step cut, target docker"
    assert raised.value.evidence is not None
    assert raised.value.evidence.startswith(blocks)
    assert "--set steps.cut.fault=kill_server" in (raised.value.next_step or "")


def test_each_step_is_asked_for_its_own_fault() -> None:
    """Of a layout with a real volume `auto` kills the server; a later step that cuts the power cannot."""
    steps = [CrashStep(name="kill", fault="auto"), CrashStep(name="cut", fault="power_cut")]
    with pytest.raises(MissingPrerequisite) as raised:
        check_power_cuts(steps, [parse_volume(MIXED)], "docker")
    assert raised.value.where == "step cut, target docker"


def test_the_advice_is_a_setting_of_the_suite_that_cuts_the_power() -> None:
    suite, _ = load_suite(Path("suites/storage-classes.yaml"), settings=["steps.power-cut.fault=kill_server"])
    check_power_cuts(suite.steps, [parse_volume(BLOCK)], "docker")


def test_a_suite_without_a_crash_is_planned_everywhere() -> None:
    check_power_cuts([OltpStep(name="load")], [parse_volume(BLOCK)], "docker")
