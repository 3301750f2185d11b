"""What `doctor` says of the targets."""

from __future__ import annotations

import pytest

from volbench.cli import doctor
from volbench.cli.doctor import Group, _heading, _lines, _local, _verdict
from volbench.errors import MissingPrerequisite
from volbench.machine.placement import capabilities
from volbench.machine.placement.capabilities import Means
from volbench.measure.execute.cell.summaries import SUMMARIES
from volbench.measure.workload.alter import PT_OSC
from volbench.measure.workload.purge import PT_ARCHIVER
from volbench.validation.toolkit import PROGRAMS

DOCKER, LOCAL = ("docker", "user in containers", "tools image", "mysql image"), ("mysqld", "sysbench")


@pytest.mark.parametrize(
    ("present", "message"),
    [
        ((), "not possible yet"),
        (("kubernetes",), "with --target kubernetes; auto selects none of them"),
        ((*DOCKER, "kubernetes"), "with --target docker or kubernetes; auto selects docker."),
        ((*LOCAL,), "with --target local; auto selects local."),
    ],
)
def test_the_verdict_names_every_target_that_is_possible(present: tuple[str, ...], message: str) -> None:
    names = (*DOCKER, *LOCAL, "kubernetes")
    checks = [Means(name=name, present=name in present, evidence="") for name in names]
    assert message in _verdict(checks)


def test_the_programs_of_percona_toolkit_are_those_that_are_called() -> None:
    """By `validate`, by the steps `alter` and `purge`, and by cells for their pages on host and server."""
    *_, toolkit = _local()
    assert {capability.name for capability in toolkit} == {*PROGRAMS, PT_OSC, PT_ARCHIVER, *SUMMARIES}


def test_a_target_says_what_it_misses_and_how_to_get_it() -> None:
    """Twenty lines of yes and no did not say which target they are for."""
    existing = Means(name="mysqld", present=True, evidence="/usr/sbin/mysqld")
    absent = Means(name="sysbench", present=False, evidence="not on PATH", remedy="apt-get install sysbench")
    group = Group(name="target local", needed=(existing, absent))
    assert _heading(group) == "target local: not possible; it needs sysbench"
    assert "fix: apt-get install sysbench" in list(_lines(group))[-1]
    assert _heading(Group(name="target local", needed=(existing,))) == "target local: ready"
    assert _heading(Group(name="dumps", needed=(), optional=(existing, absent))) == "dumps: 1 of 2 programs"


def test_docker_without_root_is_no_target(monkeypatch: pytest.MonkeyPatch) -> None:
    """`run` refuses such an engine, whatever images it has."""

    def refuse(_: object) -> str:
        raise MissingPrerequisite("the engine runs without root", next_step="use the machine's own Docker")

    monkeypatch.setattr(doctor, "engine_client", lambda: None)
    monkeypatch.setattr(doctor, "user_namespace", refuse)
    monkeypatch.setattr(doctor, "_image", lambda name, _: Means(name=name, present=True, evidence=name))
    engine = Means(name="docker", present=True, evidence="engine 26")
    monkeypatch.setattr(capabilities, "docker_engine", lambda: engine)
    means = doctor._docker()
    assert [item.name for item in means if not item.present] == ["user in containers"]
    assert "fix: use the machine's own Docker" in "\n".join(
        _lines(Group(name="target docker", needed=tuple(means)))
    )
    assert "not possible yet" in _verdict(means)
