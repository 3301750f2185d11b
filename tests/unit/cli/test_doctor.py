"""What `doctor` says of the targets."""

from __future__ import annotations

import pytest

from volbench.cli.doctor import _local, _verdict
from volbench.machine.placement.capabilities import Means
from volbench.measure.execute.cell.summaries import SUMMARIES
from volbench.measure.workload.alter import PT_OSC
from volbench.measure.workload.purge import PT_ARCHIVER
from volbench.validation.toolkit import PROGRAMS

DOCKER, LOCAL = ("docker", "tools image", "mysql image"), ("mysqld", "sysbench")


@pytest.mark.parametrize(
    ("present", "told"),
    [
        ((), "not possible yet"),
        (("kubernetes",), "with --target kubernetes; auto selects none of them"),
        ((*DOCKER, "kubernetes"), "with --target docker or kubernetes; auto selects docker."),
        ((*LOCAL,), "with --target local; auto selects local."),
    ],
)
def test_the_verdict_names_every_target_that_is_possible(present: tuple[str, ...], told: str) -> None:
    names = (*DOCKER, *LOCAL, "kubernetes")
    checks = [Means(name=name, present=name in present, evidence="") for name in names]
    assert told in _verdict(checks)


def test_the_programs_of_percona_toolkit_are_those_that_are_called() -> None:
    """By `validate`, by the steps `alter` and `purge`, and by cells for their pages on host and server."""
    shown = {capability.name for capability in _local() if capability.name.startswith("pt-")}
    assert shown == {*PROGRAMS, PT_OSC, PT_ARCHIVER, *SUMMARIES}
