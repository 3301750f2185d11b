"""Causes that cannot be true at once: the surer one stays, and of two equally sure ones a page asserts neither."""

from __future__ import annotations

import numpy as np
import pytest

from volbench.results.explain.arbitration import Arbitration, arbitrate
from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.cause_info import CauseInfo
from volbench.results.explain.causes import CAUSES
from volbench.results.explain.findings import Explanation
from volbench.results.explain.pooling import finding_rows
from volbench.results.stats.grid import Grid

SECONDS = 20
BUY = "Buy a volume with more operations."


def finding(name: str, most: float = 0.8, *, one_of_two: bool = False, until_s: float = 20.0) -> Cause:
    return Cause(
        cause=name,
        window_s=(0.0 if until_s == SECONDS else until_s - 5.0, until_s),
        share=0.5,
        checks=(True,),
        evidence=(),
        advice=BUY,
        volume_advice="A faster volume changes little.",
        confidence_max=most,
        one_of_two=one_of_two,
    )


def info(name: str, *contradicts: str) -> CauseInfo:
    return CauseInfo(
        name=name,
        group="not the volume",
        title="",
        meaning="",
        signs="",
        advice="",
        panels=(),
        contradicts=frozenset(contradicts),
    )


DECLARED = [
    {"x": info("x", "y"), "y": info("y", "x")},
    {"x": info("x", "y"), "y": info("y")},
    {"x": info("x"), "y": info("y", "x")},
]


def arbitrated(descriptors: dict[str, CauseInfo], *causes: Cause) -> Arbitration:
    grid = Grid(t_s=np.arange(1.0, SECONDS + 1), width_s=1.0, columns={})
    return arbitrate(Case(name="step", grid=grid, cell_grid=grid, threads=10, cpus=2), causes, descriptors)


@pytest.mark.parametrize("descriptors", DECLARED)
@pytest.mark.parametrize("names", ["xy", "yx"])
def test_two_that_are_equally_sure_are_one_of_two_and_a_question(
    descriptors: dict[str, CauseInfo], names: str
) -> None:
    """Both were shown, each as a fact with its advice to buy."""
    left = arbitrated(descriptors, *map(finding, names)).findings
    assert [item.cause for item in left] == [*names]
    for item, rival in zip(left, reversed(names), strict=True):
        assert item.one_of_two
        assert item.confidence < finding("x").confidence
        assert item.advice.startswith(f"Is it {item.cause} or {rival}?")
        assert BUY not in item.advice + item.volume_advice
        assert [row.value for row in item.evidence if row.metric == "one_of_two"] == [rival]


@pytest.mark.parametrize(("first", "second", "left"), [(0.804, 0.8, "xy"), (0.81, 0.8, "x"), (0.7, 0.8, "y")])
@pytest.mark.parametrize("descriptors", DECLARED)
def test_the_surer_one_stays_where_a_reader_sees_that_it_is(
    descriptors: dict[str, CauseInfo], first: float, second: float, left: str
) -> None:
    """Both are printed in whole percents; it does not matter which of the two says that it excludes the other."""
    result = arbitrated(descriptors, finding("x", first), finding("y", second))
    assert "".join(item.cause for item in result.findings) == left
    assert {item.one_of_two for item in result.findings} == {left == "xy"}
    assert [item.cause.cause for item in result.refuted] == sorted({"x", "y"} - {*left})


def test_what_a_surer_one_refutes_makes_nothing_else_doubtful() -> None:
    descriptors = {"x": info("x", "y"), "y": info("y", "z"), "z": info("z")}
    left = arbitrated(descriptors, finding("x", 0.9), finding("y", 0.5), finding("z", 0.5)).findings
    assert [(item.cause, item.one_of_two) for item in left] == [("x", False), ("z", False)]


def test_causes_of_other_seconds_and_those_that_are_one_of_two_already_stay() -> None:
    apart = [finding("x", until_s=5.0), finding("y", until_s=15.0)]
    assert [*arbitrated(DECLARED[0], *apart).findings] == apart
    decided = [finding("x"), finding("y", one_of_two=True)]
    assert [*arbitrated(DECLARED[0], *decided).findings] == decided


def test_a_page_asserts_neither_limit_nor_slowness_where_both_are_as_sure() -> None:
    pair = ("storage.iops_limit", "storage.degraded")
    causes = [finding(name, 0.8) for name in pair]
    assert causes[0].confidence == causes[1].confidence
    left = arbitrated({name: CAUSES[name] for name in pair}, *causes)
    rows = finding_rows("gp3", "load", {"1": Explanation(findings=left.findings)})
    assert sorted(row.cause for row in rows) == sorted(pair)
    assert all(row.advice.startswith("Is it ") or "is a question" in row.advice for row in rows)
    assert all((row.confidence or 0.0) < 0.8 for row in rows)
