"""A limit that a step shows is checked by loads with operations of another size, whichever way it was named."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from volbench.core.records.size_contrast import SizeContrast
from volbench.results.explain.case import Case
from volbench.results.explain.evidence.limited_levels import StepLevels
from volbench.results.explain.evidence.size_contrasts import SampledContrast
from volbench.results.explain.findings import Explanation, explain_case
from volbench.results.stats.grid import Floats, Grid
from volbench.results.store.series import SeriesKey

IOPS, KIB, DEPTH = 200.0, 16.0, 8.0
SECONDS, QUIET = 12, 4
"""Of the step, and after it without a queue."""
ALTERNATING = np.array([1.0, -1.0] * 6)
EVEN = IOPS + 0.2 * ALTERNATING
"""Operations as a meter gives them."""
REGULAR_BYTES = (EVEN + 0.8 * ALTERNATING, KIB * EVEN / (EVEN + 0.8 * ALTERNATING))
"""Rates and sizes of a few operations more or less, so that bytes are the more regular by chance."""
STARVED = np.array([177.0, 160.0, 194.0, 183.0, 200.0, 190.0, 191.0, 169.0, 197.0, 182.0, 199.0, 198.0])
"""Operations of a meter whose process waits for a CPU now and then."""


def columns_of(iops: Floats, kib: Floats | float, queue: Floats, disk: str) -> dict[SeriesKey, Floats]:
    """Reads of a disk."""
    values = {
        "reads_per_s": iops,
        "writes_per_s": np.zeros(len(iops)),
        "read_mib_per_s": iops * kib / 1024,
        "write_mib_per_s": np.zeros(len(iops)),
        "r_await_ms": 1000 * queue / iops,
        "aqu_sz": queue,
    }
    return {SeriesKey(source="diskstats", metric=metric, entity=disk): column for metric, column in values.items()}


def load(iops: float, kib: int, *, queue: float = 2 * DEPTH, follows: bool = True) -> SampledContrast:
    """Reads of another size, twice as many at a time; `queue` of them wait at the volume."""
    contrast = SizeContrast(
        step="load" if follows else "",
        rw="randread",
        block_size_bytes=kib << 10,
        in_flight=int(2 * DEPTH),
        window_s=(20.0, 24.0),
        iops=iops,
        mib_per_s=iops * kib / 1024,
    )
    columns = columns_of(np.full(4, iops), kib, np.full(4, queue), "sda")
    grid = Grid(t_s=np.arange(21.0, 25.0), width_s=1.0, columns=columns)
    return SampledContrast(contrast=contrast, grid=grid, disk="sda", follows=follows)


def case_of(iops: Floats, kib: Floats | float, *loads: SampledContrast) -> Case:
    """A step of reads with a queue, and the volume without one after it."""
    sizes = np.broadcast_to(np.asarray(kib, dtype=np.float64), (SECONDS,))
    columns = columns_of(
        np.concatenate([iops, np.full(QUIET, 10.0)]),
        np.concatenate([sizes, np.full(QUIET, KIB)]),
        np.concatenate([np.full(SECONDS, DEPTH), np.full(QUIET, 0.05)]),
        "sda",
    )
    whole = Grid(t_s=np.arange(1.0, SECONDS + QUIET + 1), width_s=1.0, columns=columns)
    return Case(
        name="load",
        grid=whole.within(0.0, float(SECONDS)),
        cell_grid=whole,
        kind="fio",
        disk="sda",
        threads=int(DEPTH),
        size_contrasts=loads,
    )


def limits(explained: Explanation) -> list[tuple[str, bool]]:
    return [
        (one.cause.removeprefix("storage."), one.one_of_two)
        for one in explained.findings
        if one.cause.endswith("_limit")
    ]


BOTH = [("iops_limit", True), ("throughput_limit", True)]


def test_bytes_that_are_regular_by_chance_are_named_where_nothing_checks_them() -> None:
    assert limits(explain_case(case_of(*REGULAR_BYTES))) == [("throughput_limit", False)]


@pytest.mark.parametrize(
    ("loads", "named"),
    [
        ([load(200.0, 64)], [("iops_limit", False)]),
        ([load(50.0, 64)], [("throughput_limit", False)]),
        ([load(200.0, 64, follows=False)], [("iops_limit", False)]),
        ([load(150.0, 64), load(170.0, 4)], [("iops_limit", False)]),
        ([load(150.0, 64)], BOTH),
        ([load(150.0, 64), load(400.0, 4)], BOTH),
        ([load(400.0, 64)], BOTH),
        ([load(400.0, 64, follows=False)], [("throughput_limit", False)]),
        ([load(40.0, 64)], [("throughput_limit", False)]),
    ],
)
def test_a_load_that_moved_more_refutes_a_limit(
    loads: list[SampledContrast], named: list[tuple[str, bool]]
) -> None:
    """Four times the bytes pass: they are not limited, however regular; operations are where no load had more."""
    assert limits(explain_case(case_of(*REGULAR_BYTES, *loads))) == named


@pytest.mark.parametrize(("queue", "named"), [(13.0, [("throughput_limit", False)]), (12.0, BOTH)])
def test_a_load_that_the_host_held_back_tells_nothing_by_a_rate_that_is_the_steps(
    queue: float, named: list[tuple[str, bool]]
) -> None:
    """Of 16 operations under way four fifths wait at the volume; with fewer it was the host that gave no more."""
    assert limits(explain_case(case_of(EVEN, KIB, load(50.0, 64, queue=queue)))) == named


def test_a_rate_that_stays_with_twice_the_queue_is_a_limit_that_the_step_is_too_uneven_to_show() -> None:
    alone = case_of(STARVED, KIB)
    assert alone.levels == ()
    (finding,) = explain_case(replace(alone, size_contrasts=(load(193.0, 64),))).findings
    assert (finding.cause, finding.one_of_two) == ("storage.iops_limit", False)
    assert finding.confidence <= 0.85
    assert any(row.metric == "contrast" for row in finding.evidence)


@pytest.mark.parametrize("in_flight", [11.0, 13.0])
def test_a_queue_that_is_hardly_longer_shows_no_limit(in_flight: float) -> None:
    """As many in flight as in the step tell nothing of what a longer queue brings."""
    contrast = load(193.0, 64, queue=in_flight)
    shallow = replace(contrast, contrast=contrast.contrast.model_copy(update={"in_flight": int(in_flight)}))
    named = explain_case(case_of(STARVED, KIB, shallow))
    assert (("iops_limit", False) in limits(named)) is (in_flight >= 1.5 * DEPTH)


def test_operations_that_changes_of_the_step_divide_are_looked_at_over_all_of_the_level() -> None:
    """Changes are sought in all of the step, and parts of less than five intervals are no levels."""
    case = case_of(*REGULAR_BYTES)
    assert case.active_device is not None
    (level,) = (one for one in case.plateaus if one.resource == "throughput")
    step = StepLevels(
        limits=(level,),
        flat=(level,),
        t_s=case.grid.t_s,
        device=case.active_device,
        base_await_ms=case.base_await_ms,
        cpu_bound=False,
    )
    rival = step.rival(level)
    assert rival is not None
    assert (rival.resource, rival.first, rival.last) == ("iops", level.first, level.last)


def test_bytes_that_a_load_refutes_are_not_named_beside_operations_that_are_no_level() -> None:
    iops = IOPS * np.array([0.5, 1.5, 1.0] * 4)
    case = case_of(iops, KIB * IOPS / iops, load(200.0, 64))
    assert [level.resource for level in case.levels] == ["throughput"]
    explained = explain_case(case)
    assert limits(explained) == []
    (text,) = explained.refuted_texts
    assert "gave 12.5 MiB/s with operations of 64 KiB, above the 3.12 MiB/s" in text


@pytest.mark.parametrize(("iops", "is_doubted"), [(200.0, True), (205.0, False), (300.0, False)])
def test_reads_that_a_longer_queue_does_not_bring_are_less_surely_slow(iops: float, is_doubted: bool) -> None:
    """Twice as many, of 4 KiB, give a quarter more and not twice as many: a power of 0.32 to 0.36 of the queue."""
    uneven = 160.0 + 45.0 * np.array([0.0, 1.0, -1.0] * 4)
    (finding,) = explain_case(case_of(uneven, KIB, load(iops, 4, follows=False))).findings
    assert finding.cause == "storage.read_latency"
    assert any("a limit looks like that" in one.text for one in finding.objections) is is_doubted


def test_the_finding_says_what_remains() -> None:
    (finding,) = explain_case(case_of(EVEN, KIB, load(150.0, 64), load(170.0, 4))).findings
    (row,) = (one for one in finding.evidence if one.metric == "size_contrast")
    assert row.text == (
        "with operations of 64 KiB in place of 16 KiB, after the step, the volume gave 9.38 MiB/s, which is more"
        " than in this step, and with neither larger nor smaller operations more operations: operations are"
        " limited, and not bytes"
    )
