"""What an objection suggests in place of a finding: one of two, and not a weak name before a sure one.

All series are constructed: a limit, a slow volume, and a limit that comes and goes. Recorded ones are scored by
`tests/unit/lab/test_vm_sample.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from volbench.results.explain.arbitration import arbitrate
from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.cause_info import CauseInfo
from volbench.results.explain.causes import CAUSES
from volbench.results.explain.check.objections import objections
from volbench.results.explain.check.rebuild import weighted_median
from volbench.results.explain.objection import Claim, Objection, Suggestion
from volbench.results.explain.ranking import ranked_by, weight_of
from volbench.results.explain.suggestions import suggested, with_suggestions
from volbench.results.stats.grid import Floats, Grid
from volbench.results.store.series import SeriesKey

SECONDS = 40
LATENCY: frozenset[Claim] = frozenset({"latency"})
_CYCLE = np.resize([0.5, 0.8, 1.2, 2.0], SECONDS)
"""What a queue is from second to second, around its usual."""


def volume(reads: Floats, read_ms: Floats, writes: Floats | None = None, write_ms: Floats | None = None) -> Case:
    """A step with a volume whose queue is by Little's law."""
    nothing = np.zeros(SECONDS)
    writes, write_ms = (nothing if values is None else values for values in (writes, write_ms))
    figures = {
        "reads_per_s": reads,
        "writes_per_s": writes,
        "r_await_ms": read_ms,
        "w_await_ms": write_ms,
        "aqu_sz": (reads * read_ms + writes * write_ms) / 1000,
    }
    columns = {
        SeriesKey(source="diskstats", metric=metric, entity="sda"): np.asarray(values, dtype=np.float64)
        for metric, values in figures.items()
    }
    grid = Grid(t_s=np.arange(1.0, SECONDS + 1), width_s=1.0, columns=columns)
    return Case(name="load", grid=grid, cell_grid=grid, threads=8, cpus=2)


def finding(cause: str, share: float | None = 0.4, t0_s: float = 0.0, **fields: object) -> Cause:
    fields = {"checks": (True, True, True), "evidence": (), "advice": "", **fields}
    return Cause(cause=cause, window_s=(t0_s, float(SECONDS)), share=share, **fields)  # type: ignore[arg-type]


def limited(level: float = 75.0) -> Case:
    """So many reads a second, whatever waits for them."""
    return volume(np.full(SECONDS, level), 30 * _CYCLE)


def arbitrated(case: Case, *causes: Cause) -> dict[str, Cause]:
    return {cause.cause: cause for cause in arbitrate(case, causes, CAUSES).findings}


@pytest.mark.parametrize("cause", ["storage.read_latency", "storage.sync_latency", "storage.degraded"])
def test_slowness_that_a_limit_makes_as_well_is_one_of_two(cause: str) -> None:
    """A limit of 75 reads a second was named as slow reads with 0.42, before CPUs with 0.98 (recorded)."""
    remaining = arbitrated(limited(), finding(cause))
    assert set(remaining) == {"storage.iops_limit", cause}
    assert all(item.one_of_two for item in remaining.values())
    assert not any(item.objections for item in remaining.values())
    assert remaining["storage.iops_limit"].share == remaining[cause].share
    (level,) = (row.value for row in remaining["storage.iops_limit"].evidence if row.metric == "iops")
    assert level == 75.0


def test_a_volume_that_is_slow_is_not_one_of_two() -> None:
    """Each operation takes as long, and more in flight bring more."""
    remaining = arbitrated(volume(75 * _CYCLE, np.full(SECONDS, 30.0)), finding("storage.read_latency"))
    assert [item.one_of_two for item in remaining.values()] == [False]


def test_a_limit_is_not_suggested_where_more_was_served() -> None:
    """75 a second, and 200 for three seconds in a row: what comes and goes is less sure, and no limit of 75."""
    reads, waits = np.full(SECONDS, 75.0), 30 * _CYCLE
    reads[20:23], waits[20:23] = 200.0, 2.0
    remaining = arbitrated(volume(reads, waits), finding("storage.read_latency"))
    assert set(remaining) == {"storage.read_latency"}
    (objection,) = remaining["storage.read_latency"].objections
    assert objection.level is None
    assert objection.text.endswith("one that comes and goes")


@pytest.mark.parametrize(("most", "is_held"), [(92.0, True), (96.0, False)])
def test_a_level_holds_where_at_most_a_quarter_more_was_served(most: float, is_held: bool) -> None:
    reads = np.full(SECONDS, 75.0)
    reads[20:23] = most
    (objection,) = objections(volume(reads, 30 * _CYCLE), finding("storage.read_latency"), LATENCY)
    assert (objection.level == 75.0) is is_held


def test_a_limit_of_one_direction_is_held_whatever_the_other_one_gets() -> None:
    """Reads of an NFS server's cache are fast, and come in bursts; its disk takes 25 writes a second (recorded)."""
    reads, writes = np.zeros(SECONDS), np.full(SECONDS, 25.0)
    reads[20:24] = 80.0
    case = volume(reads, np.full(SECONDS, 2.0), writes, 500 * _CYCLE)
    (objection,) = objections(case, finding("storage.degraded"), LATENCY)
    assert (objection.level, objection.direction) == (25.0, "write")
    remaining = arbitrated(case, finding("storage.degraded"))
    (row,) = (row for row in remaining["storage.iops_limit"].evidence if row.metric == "write_iops")
    assert "25 IOPS of writes" in row.text


def test_slowness_that_begins_within_the_step_may_be_a_limit_that_began_then() -> None:
    """300 operations a second with four in flight, then 40 with four: a bucket is empty, or the volume slow."""
    reads = np.where(np.arange(SECONDS) < 15, 300.0, 40.0)
    case = volume(reads, 4000 / reads)
    degraded = finding("storage.degraded", None, t0_s=15.0, decided_by="before and after")
    remaining = arbitrated(case, degraded)
    assert set(remaining) == {"storage.burst_exhausted", "storage.degraded"}
    assert all(item.one_of_two for item in remaining.values())
    assert remaining["storage.burst_exhausted"].window_s == degraded.window_s


def test_a_limit_explains_what_both_findings_explain_that_suggest_it() -> None:
    remaining = arbitrated(limited(), finding("storage.read_latency", 0.3), finding("storage.sync_latency", 0.25))
    assert remaining["storage.iops_limit"].share == pytest.approx(0.55)


def info(name: str, suggested_as: Suggestion = "") -> CauseInfo:
    return CauseInfo(
        name=name,
        group="not the volume",
        panels=(),
        suggested_as=suggested_as,
        title="",
        meaning="",
        signs="",
        advice="",
    )


def suggesting(cause: str, suggestion: Suggestion, level: float | None = None, *, refutes: bool = False) -> Cause:
    objection = Objection(
        law="consistency", text="", claimed=1.0, recorded=1.0, refutes=refutes, suggests=suggestion, level=level
    )
    return finding(cause, objections=(objection,))


DESCRIPTORS = {"x": info("x"), "y": info("y", "memory reclaim"), "z": info("z")}


def undecided(causes: Sequence[Cause]) -> list[str]:
    return [cause.cause for cause in causes if cause.one_of_two]


def test_a_suggestion_without_a_level_names_only_what_was_found() -> None:
    """A kernel that may be looking for memory is no evidence that memory lacks."""
    against = suggesting("x", "memory reclaim")
    assert suggested(limited(), [against], DESCRIPTORS) == []
    assert undecided(with_suggestions([against], DESCRIPTORS)) == []
    (single,) = with_suggestions([against], DESCRIPTORS)
    assert single.objections
    pairs = with_suggestions([against, finding("y")], DESCRIPTORS)
    assert undecided(pairs) == ["x"]
    assert [cause.cause for cause in pairs] == ["y", "x"]


def test_what_is_refuted_or_suggests_nothing_is_none_of_two() -> None:
    for against in (suggesting("x", "memory reclaim", refutes=True), suggesting("x", "")):
        assert undecided(with_suggestions([against, finding("y")], DESCRIPTORS)) == []


def test_findings_that_no_suggestion_is_about_keep_their_place() -> None:
    remaining = with_suggestions([finding("z"), suggesting("x", "memory reclaim"), finding("y")], DESCRIPTORS)
    assert [cause.cause for cause in remaining] == ["z", "y", "x"]


@pytest.mark.parametrize(("share", "first"), [(0.9, "unlikely"), (0.6, "sure")])
def test_what_is_less_likely_than_not_counts_as_far_as_it_is_likely(share: float, first: str) -> None:
    """0.42 that explains 60 % was printed before 0.85 that explains 30 %: it explains 25 % on average."""
    unlikely = replace(suggesting("unlikely", ""), share=share, confidence_max=0.42)
    sure = finding("sure", 0.3, confidence_max=0.85)
    ranked = ranked_by([unlikely, sure], lambda cause: weight_of(cause, 0.0))
    assert ranked[0].cause == first


def test_what_something_speaks_against_counts_as_far_as_it_is_likely() -> None:
    """At most 0.7 of 40 % is less than 30 %."""
    objected, sure = replace(suggesting("objected", ""), share=0.4), finding("sure", 0.3, confidence_max=0.85)
    assert objected.confidence == 0.7
    assert [cause.cause for cause in ranked_by([objected, sure], lambda cause: weight_of(cause, 0.0))] == [
        "sure",
        "objected",
    ]


def test_of_causes_that_cannot_be_told_apart_confidences_are_no_part() -> None:
    pair = replace(suggesting("pair", ""), share=0.6, one_of_two=True, confidence_max=0.42)
    assert weight_of(pair, 0.0) == 0.6


@pytest.mark.parametrize(
    ("values", "weights", "expected"),
    [
        ([1.0, 2.0, 3.0], [1.0, 1.0, 1.0], 2.0),
        ([1.0, 2.0, 3.0], [5.0, 1.0, 1.0], 1.0),
        ([3.0, 1.0, np.nan], [2.0, 1.0, 9.0], 3.0),
        ([1.0], [0.0], None),
        ([], [], None),
    ],
)
def test_a_weighted_median(values: list[float], weights: list[float], expected: float | None) -> None:
    assert weighted_median(np.array(values), np.array(weights)) == expected
