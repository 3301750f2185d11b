"""Who decides is data: `arbitrate` reads descriptors, and causes of any name are decided by theirs."""

from __future__ import annotations

import ast
import inspect
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from volbench.results.explain import (
    arbitration,
    clients_time,
    collapses,
    consequences,
    deciding,
    left_levels,
    stretch_findings,
    suggestions,
)
from volbench.results.explain.arbitration import arbitrate
from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.cause_info import CauseInfo, ShareOf
from volbench.results.explain.causes import CAUSES
from volbench.results.explain.collapses import doubt_findings, unexplained_collapse
from volbench.results.explain.stretch_findings import Stretch
from volbench.results.explain.wording import row
from volbench.results.stats.grid import Grid
from volbench.results.store.series import SeriesKey

SECONDS = 20
Figures = dict[tuple[str, str, str], float]


def case_of(figures: Figures, **facts: Any) -> Case:
    """A step whose series are constant; by source, metric and entity."""
    columns = {
        SeriesKey(source=source, metric=metric, entity=entity): np.full(SECONDS, value)
        for (source, metric, entity), value in figures.items()
    }
    grid = Grid(t_s=np.arange(1.0, SECONDS + 1), width_s=1.0, columns=columns)
    return Case(name="step", grid=grid, cell_grid=grid, **{"threads": 10, "cpus": 2, **facts})


def info(name: str, **fields: Any) -> CauseInfo:
    fields = {"title": "", "meaning": "", "signs": "", "advice": "", **fields}
    return CauseInfo(name=name, group="not the volume", panels=(), **fields)


def finding(name: str, share: float | None = 0.5, **fields: Any) -> Cause:
    fields = {"window_s": (0.0, float(SECONDS)), "evidence": (), "advice": "", **fields}
    return Cause(cause=name, share=share, checks=(True,), **fields)


HALF_OUTSIDE: Figures = {
    ("performance_schema", "statements_per_s", ""): 1000.0,
    ("performance_schema", "statement_s_per_s", ""): 5.0,
    ("round_trip", "round_trip_ms_min", ""): 0.1,
    ("round_trip", "round_trip_ms", ""): 0.1,
    ("round_trip", "round_trip_ms_max", ""): 0.1,
    ("round_trip", "round_trips_per_s", ""): 10.0,
    ("client", "tps", ""): 100.0,
}
"""Ten clients, of which five are in a statement."""
CPU_WAITS: Figures = {("tasks", "cpus_used", "cell"): 1.0, ("tasks", "run_delay_s_per_s", "cell"): 1.0}
BUSY: Figures = {("cpu", "user_ratio", ""): 0.95, ("cpu", "system_ratio", ""): 0.0}


@pytest.mark.parametrize(
    "module",
    [arbitration, clients_time, collapses, consequences, deciding, left_levels, stretch_findings, suggestions],
)
def test_nothing_that_decides_knows_a_cause_by_name(module: ModuleType) -> None:
    constants = {
        node.value for node in ast.walk(ast.parse(inspect.getsource(module))) if isinstance(node, ast.Constant)
    }
    assert constants & CAUSES.keys() == set()


@pytest.mark.parametrize(
    ("share_of", "cpu_waits", "share"),
    [
        ("statements", {}, 0.25),
        ("statements", CPU_WAITS, 0.25),
        ("clients", {}, 0.5),
        ("clients where waits for CPUs are counted", {}, 0.25),
        ("clients where waits for CPUs are counted", CPU_WAITS, 0.5),
    ],
)
def test_whose_time_a_share_is_of_is_the_descriptors(share_of: ShareOf, cpu_waits: Figures, share: float) -> None:
    """Half of the clients' time is outside of statements."""
    case = case_of({**HALF_OUTSIDE, **cpu_waits})
    (left,) = arbitrate(case, [finding("x")], {"x": info("x", share_of=share_of)}).findings
    assert left.share == pytest.approx(share)
    (own,) = arbitrate(case, [finding("x", of_clients=True)], {"x": info("x")}).findings
    assert own.share == 0.5


@pytest.mark.parametrize(("share", "named"), [(0.28, False), (0.32, True), (0.14, True), (None, True)])
def test_what_explains_enough_of_statements_and_not_of_the_clients_is_left_out(
    share: float | None, named: bool
) -> None:
    """From 15 % on; what its rule named with less stays."""
    findings = arbitrate(case_of(HALF_OUTSIDE), [finding("x", share)], {"x": info("x")}).findings
    assert bool(findings) is named


def test_without_round_trips_shares_stay() -> None:
    (left,) = arbitrate(case_of({}), [finding("x")], {"x": info("x")}).findings
    assert left.share == 0.5


def stretch(*inside: Cause, outside: tuple[Cause, ...] = (), remainder: Case | None = None) -> Stretch:
    effects, losses = [row("tps", 50.0, "1/s", "fewer")], [row("loss", 0.5, "1", "half")]
    remainder = case_of({}) if remainder is None else remainder
    return Stretch(
        inside=inside,
        outside=outside,
        remainder=remainder,
        share=0.4,
        clients_share=0.3,
        effects=effects,
        losses=losses,
    )


def names_with(during: Stretch, *of_step: Cause, **descriptors: CauseInfo) -> list[str]:
    causes = {item.cause: info(item.cause) for item in (*of_step, *during.inside, *during.outside)}
    return [item.cause for item in arbitrate(case_of({}), of_step, {**causes, **descriptors}, during).findings]


def test_what_is_named_in_a_stretch_only_is_added_with_its_part_of_the_time() -> None:
    loss_row = row("loss", 0.2, "1", "a fifth")
    inside = (finding("x"), finding("y", None, evidence=(loss_row,)))
    left = arbitrate(case_of({}), [], {"x": info("x"), "y": info("y")}, stretch(*inside)).findings
    assert [item.share for item in left] == [pytest.approx(0.2), None]
    assert [[piece.metric for piece in item.evidence] for item in left] == [["tps", "loss"], ["loss", "tps"]]


def test_a_share_of_the_clients_time_in_a_stretch_is_one_of_theirs_in_the_step() -> None:
    """It was multiplied with the part of statement time, and printed as one of the latency."""
    inside = (finding("x", of_clients=True), finding("y"), finding("z"))
    descriptors = {"x": info("x"), "y": info("y", share_of="clients"), "z": info("z")}
    left = arbitrate(case_of({}), [], descriptors, stretch(*inside)).findings
    assert [(item.share, item.share_of) for item in left] == [
        (pytest.approx(0.15), "latency"),
        (pytest.approx(0.15), "latency"),
        (pytest.approx(0.2), "statement time"),
    ]


def test_a_change_in_a_stretch_is_none_of_the_stretch() -> None:
    assert names_with(stretch(finding("x")), x=info("x", is_change=True)) == []


def test_what_a_stretch_shows_yields_to_what_makes_it() -> None:
    event, inside = finding("event"), stretch(finding("x"))
    assert names_with(inside, event) == ["event", "x"]
    assert names_with(inside, event, x=info("x", yields_to=frozenset({"event"}))) == ["event"]
    assert names_with(inside, finding("y"), x=info("x", yields_to=frozenset({"event"}))) == ["y", "x"]


def test_what_a_stretch_shows_yields_to_what_explains_a_fall() -> None:
    inside, latency = stretch(finding("x")), info("x", yields_to_falls=True)
    assert names_with(inside, finding("y"), x=latency) == ["y", "x"]
    assert names_with(inside, finding("y", explains_fall=True), x=latency) == ["y"]
    assert names_with(inside, finding("y"), x=latency, y=info("y", explains_fall=True)) == ["y"]


OTHERS_BUSY: Figures = {**BUSY, ("tasks", "cpus_used", "cell"): 0.5, ("tasks", "run_delay_s_per_s", "cell"): 3.0}
OWN_BUSY: Figures = {**BUSY, ("tasks", "cpus_used", "cell"): 1.8, ("tasks", "run_delay_s_per_s", "cell"): 3.0}


@pytest.mark.parametrize(
    ("state", "remainder", "named"),
    [
        ("busy CPUs", {}, True),
        ("busy CPUs", BUSY, False),
        ("CPUs busy with others", BUSY, True),
        ("CPUs busy with others", OTHERS_BUSY, False),
        ("CPUs busy with others", OWN_BUSY, True),
        (None, OTHERS_BUSY, True),
    ],
)
def test_a_state_that_is_there_in_the_rest_is_no_news(state: str | None, remainder: Figures, named: bool) -> None:
    inside = stretch(finding("x"), remainder=case_of(remainder))
    assert bool(names_with(inside, x=info("x", state=state))) is named


def test_what_medians_named_and_neither_part_shows_is_left_out_beside_a_cause_of_the_stretch() -> None:
    by_medians = info("m", by_medians=True)
    assert names_with(stretch(finding("x")), finding("m"), m=by_medians) == ["x"]
    assert names_with(stretch(finding("x")), finding("m")) == ["m", "x"]
    assert names_with(stretch(finding("x"), finding("m")), finding("m"), m=by_medians) == ["m", "x"]
    assert names_with(stretch(finding("x"), outside=(finding("m"),)), finding("m"), m=by_medians) == ["m", "x"]
    assert names_with(stretch(), finding("m"), m=by_medians) == ["m"]


OF_VOLUME: Figures = {
    ("diskstats", "reads_per_s", "nvme1n1"): 100.0,
    ("diskstats", "read_mib_per_s", "nvme1n1"): 1.6,
    ("ebs_nvme", "reads_per_s", "nvme1n1"): 2500.0,
    ("ebs_nvme", "read_mib_per_s", "nvme1n1"): 40.0,
}
LEVEL = finding("level", evidence=(row("iops", 100.0, "1/s", "the volume gives 100/s"),), window_s=(0.0, 10.0))
LEFT_BY = info("level", left_by=frozenset({"taker"}))


@pytest.mark.parametrize(
    ("taker", "is_left"),
    [
        (finding("taker", window_s=(5.0, 20.0)), True),
        (finding("taker", window_s=(10.0, 20.0)), False),
        (finding("another"), False),
    ],
)
def test_a_level_that_others_take_of_is_what_they_leave(taker: Cause, is_left: bool) -> None:
    case = case_of(OF_VOLUME, disk="nvme1n1", kind="fio")
    left, _ = arbitrate(case, [LEVEL, taker], {"level": LEFT_BY}).findings
    served = [piece.value for piece in left.evidence if piece.metric == "served_to_all_per_s"]
    assert served == ([2500.0] if is_left else [])
    assert left.evidence[0].text == f"the volume gives {'this host ' * is_left}100/s"
    assert left.advice.startswith("First find who else uses this volume (taker)") is is_left


def test_without_both_counts_nothing_is_said_of_what_is_left() -> None:
    case = case_of({key: value for key, value in OF_VOLUME.items() if key[0] == "diskstats"}, disk="nvme1n1")
    left, _ = arbitrate(case, [LEVEL, finding("taker")], {"level": LEFT_BY}).findings
    assert left == replace(LEVEL, rebuilt=left.rebuilt)


def fallen_case(*, busy: float = 0.0, delay: float = 0.0) -> Case:
    """Ten clients whose load does a hundredth for five of twenty seconds, in which CPUs or the disk are busy."""
    fell = (np.arange(SECONDS) >= 8) & (np.arange(SECONDS) < 13)
    columns: dict[tuple[str, str, str], Any] = {
        ("client", "tps", ""): np.where(fell, 1.0, 100.0),
        ("tasks", "cpus_used", "cell"): 1.0,
        ("tasks", "run_delay_s_per_s", "cell"): np.where(fell, delay, 0.0),
        ("cpu", "user_ratio", ""): 0.5,
        ("cpu", "system_ratio", ""): 0.0,
        ("diskstats", "reads_per_s", "nvme1n1"): 100.0,
        ("diskstats", "r_await_ms", "nvme1n1"): 1.0,
        ("diskstats", "util_ratio", "nvme1n1"): np.where(fell, busy, 0.1),
        ("diskstats", "in_flight", "nvme1n1"): 1.0,
        ("diskstats", "aqu_sz", "nvme1n1"): 1.0,
    }
    keys = {SeriesKey(source=key[0], metric=key[1], entity=key[2]): values for key, values in columns.items()}
    broadcast = {key: np.ones(SECONDS) * values for key, values in keys.items()}
    grid = Grid(t_s=np.arange(1.0, SECONDS + 1), width_s=1.0, columns=broadcast)
    return Case(name="step", grid=grid, cell_grid=grid, threads=10, cpus=2, disk="nvme1n1")


ON_CPUS = "where CPUs are what became longer"


@pytest.mark.parametrize(
    ("fields", "delay", "left"),
    [
        ({}, 0.0, 5),
        ({"all_along": True}, 0.0, 5),
        ({"explains_fall": True}, 0.0, 0),
        ({"is_change": True}, 0.0, 0),
        ({"explains_collapse": "always"}, 0.0, 0),
        ({"explains_collapse": ON_CPUS}, 0.0, 5),
        ({"explains_collapse": ON_CPUS}, 8.0, 0),
    ],
)
def test_what_explains_a_collapse_is_the_descriptors(fields: dict[str, Any], delay: float, left: int) -> None:
    case = fallen_case(delay=delay)
    assert unexplained_collapse(case, [finding("x")], {"x": info("x", **fields)}) == left
    assert unexplained_collapse(case, [finding("x", explains_fall=True)], {"x": info("x", **fields)}) == 0
    assert unexplained_collapse(case_of(HALF_OUTSIDE), [finding("x")], {"x": info("x", **fields)}) == 0


@pytest.mark.parametrize(
    ("collapse", "busy", "doubted"), [(0, 0.0, False), (5, 0.0, True), (5, 0.88, True), (5, 0.92, False)]
)
def test_what_is_there_all_along_is_in_doubt_beside_a_collapse_that_nothing_explains(
    collapse: int, busy: float, doubted: bool
) -> None:
    descriptors = {"x": info("x", all_along=True), "y": info("y")}
    findings = [finding("x"), finding("y"), finding("z")]
    left = doubt_findings(fallen_case(busy=busy), findings, collapse, descriptors)
    assert [item.one_of_two for item in left] == [doubted, False, False]
    assert [piece.value for piece in left[0].evidence] == [5.0] * doubted


@pytest.mark.parametrize("busy", [0.88, 0.92])
def test_cpus_that_are_busy_all_along_do_not_explain_a_collapse_at_the_device(busy: float) -> None:
    """A buffer pool that shrank: a tenth of the transactions, and busy CPUs before and after."""
    descriptors = {"x": info("x", all_along=True, wait_time="CPUs")}
    (left,) = doubt_findings(fallen_case(busy=busy), [finding("x")], 5, descriptors)
    assert left.one_of_two


def test_the_descriptors_of_what_explains_a_collapse() -> None:
    """As they were when code decided."""
    assert {name: cause.explains_collapse for name, cause in CAUSES.items() if cause.explains_collapse} == {
        "storage.iops_limit": "always",
        "storage.throughput_limit": "always",
        "cpu.server_saturated": ON_CPUS,
        "interference.cpu": ON_CPUS,
    }


def test_the_descriptors_of_three_decisions() -> None:
    """As they were when code decided."""
    assert {name for name, cause in CAUSES.items() if cause.share_of == "clients"} == {
        "network.latency",
        "network.stalls",
    }
    counted = "clients where waits for CPUs are counted"
    assert {name: cause.share_of == counted for name, cause in CAUSES.items() if cause.state is not None} == {
        "cpu.server_saturated": True,
        "interference.cpu": True,
    }
    assert {name: set(cause.left_by) for name, cause in CAUSES.items() if cause.left_by} == {
        "storage.iops_limit": {"interference.shared_volume"},
        "storage.throughput_limit": {"interference.shared_volume"},
    }
