"""What a disturbance can have done: the bound holds in simulated loops, and verdicts hold inside it."""

from __future__ import annotations

import heapq
import math
import random
from bisect import bisect_right
from dataclasses import replace
from itertools import islice, product
from operator import itemgetter

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from volbench.core.records.cell import ValidityLimits
from volbench.core.records.metrics import MetricValue, metric
from volbench.results.compare.comparison import Comparison, compare
from volbench.results.compare.disturbance import CpuUse, bounds, delayable_share, disturbances, held_share
from volbench.results.compare.row import Row
from volbench.results.stats.means import mean_shift
from volbench.results.stats.statistics import Better, bounded_shift_of, shift_of

LIMITS = ValidityLimits()
LATENCIES = {f"latency_ms_{q}": metric(f"latency_ms_{q}", v) for q, v in (("mean", 10), ("p50", 9), ("p95", 20))}


def closed_loop(*, clients: int, transactions: int, stolen: list[tuple[float, float]], seed: int) -> list[float]:
    """When each transaction ends: a wait for a volume, then work on one CPU that is away during `stolen`.

    Draws are by transaction, so that the same transactions come with and without the disturbance.
    """
    draw = random.Random(seed)
    work = [(draw.expovariate(1 / 8), draw.expovariate(1 / 2)) for _ in range(transactions)]
    waiting = [(0.0, number) for number in range(clients)]
    arrivals: list[tuple[float, int]] = [(work[number][0], number) for _, number in waiting]
    heapq.heapify(arrivals)
    ends, cpu_free, begun = [], 0.0, clients
    while arrivals:
        at, number = heapq.heappop(arrivals)
        cpu_free = served(max(at, cpu_free), work[number][1], stolen)
        ends.append(cpu_free)
        if begun < transactions:
            heapq.heappush(arrivals, (cpu_free + work[begun][0], begun))
            begun += 1
    return ends


def served(begin: float, need: float, stolen: list[tuple[float, float]]) -> float:
    """When so much CPU time has been had."""
    at = begin
    for low, high in islice(stolen, bisect_right(stolen, begin, key=itemgetter(1)), None):
        if at < low:
            had = min(need, low - at)
            need, at = need - had, at + had
        if need <= 0:
            return at
        at = max(at, min(high, max(at, low)) if at < high else at)
        if low <= at < high:
            at = high
    return at + need


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("clients", [1, 8])
def test_what_was_stolen_bounds_what_a_closed_loop_lost(seed: int, clients: int) -> None:
    """The CPU is away for 5 to 40 % of the time: without that the loop does no more than the bound says."""
    draw = random.Random(seed)
    share = draw.uniform(0.05, 0.4)
    stolen = [(float(at), at + 20 * share) for at in range(0, 40_000, 20)]
    disturbed = closed_loop(clients=clients, transactions=2000, stolen=stolen, seed=seed)[-1]
    free = closed_loop(clients=clients, transactions=2000, stolen=[], seed=seed)[-1]
    low, high = bounds(
        {"tps": metric("tps", 2000 / disturbed)},
        "tps",
        delayed=share,
        open_loop=False,
        window_s=disturbed,
    )
    assert low <= 2000 / free <= high * 1.01, "the last 20 ms may hold a little more of what was stolen"


def test_nothing_is_said_within_limits_and_everything_beyond_one() -> None:
    quiet = CpuUse(cpus=2, foreign=0.15, own=1.0, run_delay=0.5)
    busy = CpuUse(cpus=2, foreign=1.0, own=0.05, run_delay=0.1)
    known_values = {
        "cpus": 2,
        "steal_ratio": 0.01,
        "late_ratio": 0.005,
        "lateness_s_per_s": 0.02,
        "lateness_changes": {"throughput": 0.01},
    }
    assert disturbances(LIMITS, cpu=quiet, **known_values) == ()  # type: ignore[arg-type]
    result = disturbances(LIMITS, cpu=busy, **known_values)  # type: ignore[arg-type]
    assert [item.kind for item in result if item.beyond] == ["foreign_cpu"]
    assert "other work on the machine used 50 % of its CPUs (1.0 of 2; limit 10 %)" in result[0].text
    assert held_share(result, ceiling=1.0) == pytest.approx(0.125 + 0.02 + 0.02)
    assert held_share(result, ceiling=0.1) == 0.1


@pytest.mark.parametrize(
    ("foreign", "own", "delay", "retained"),
    [(2.0, 1.0, None, 1.0), (0.3, 1.0, None, 0.3), (1.5, 0.1, 0.2, 0.25), (0.1, 1.0, 4.0, 0.1)],
)
def test_others_hold_back_only_while_they_run_and_something_waits(
    foreign: float, own: float, delay: float | None, retained: float
) -> None:
    assert CpuUse(cpus=2, foreign=foreign, own=own, run_delay=delay).held_share == pytest.approx(retained)


def test_a_step_needs_the_reads_that_it_waited_for() -> None:
    assert delayable_share(clients=8, reading=6.0, lateness_s_per_s=0.4) == pytest.approx(0.3)
    assert delayable_share(clients=None, reading=6.0, lateness_s_per_s=None) == 1.0
    assert delayable_share(clients=8, reading=None, lateness_s_per_s=None) == 1.0


@pytest.mark.parametrize(
    ("name", "low"), [("latency_ms_mean", 9.0), ("latency_ms_p95", 9 - 0.1 * 10 / 0.45), ("latency_ms_p50", 0.0)]
)
def test_latencies_of_a_closed_loop_have_a_lower_end(name: str, low: float) -> None:
    closed = bounds(LATENCIES, name, delayed=0.1, open_loop=False, window_s=10)
    assert closed == (pytest.approx(low), LATENCIES[name].value)
    assert bounds(LATENCIES, name, delayed=0.1, open_loop=True, window_s=10)[0] == 0.0


def test_a_figure_of_a_part_of_the_step_has_no_bound_but_its_direction() -> None:
    metrics: dict[str, MetricValue] = {"cold_read_mib_per_s": metric("cold_read_mib_per_s", 100.0)}
    result = bounds(metrics, "cold_read_mib_per_s", delayed=0.1, open_loop=False, window_s=10)
    assert result == (100.0, math.inf)


values = st.floats(min_value=1, max_value=100)
boxes = st.lists(
    st.tuples(values, st.floats(0, 1), st.one_of(st.floats(1, 3), st.just(math.inf))).map(
        lambda item: (item[0], item[0] * item[1], item[0] * item[2])
    ),
    min_size=4,
    max_size=4,
)


@given(boxes, boxes, st.lists(st.floats(0, 1), min_size=8, max_size=8))
@example(  # ends of the baseline are equal, chosen values are not
    x=[(1.0, 0.89, 2.0), (1.0, 0.5, 1.0), (1.0, 0.0001, math.inf), (1.0, 0.74, 1.0)],
    y=[(1.9, 0.0, math.inf), (5.0, 5.0, math.inf), (3.0, 3.0, math.inf), (4.0, 4.0, math.inf)],
    at=[1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0],
)
@example(  # three cells of the baseline have no upper end
    x=[(2.0, 1.0, math.inf), (2.5, 1.1, math.inf), (2.2, 1.2, math.inf), (2.1, 2.0, 2.2)],
    y=[(9.0, 2.1, 9.0), (8.0, 8.0, 8.0), (7.0, 7.0, 7.0), (6.0, 6.0, 6.0)],
    at=[1.0, 1e-5, 2e-5, 1.0, 0.0, 0.0, 0.0, 0.0],
)
@example(
    x=[(1.0, 0.0, math.inf), (2.0, 1.75, 2.0), (1.0, 0.8976673000002982, 2.0), (3.0, 1.5, 3.0)],
    y=[(3.0, 3.0, math.inf), (4.0, 4.0, math.inf), (1.0, 0.16849227960419524, math.inf), (4.0, 4.0, math.inf)],
    at=[1.0, 0.0, 1.0, 0.0, 0.0, 0.5, 0.0, 0.0],
)
def test_the_worst_case_bounds_every_choice_inside(
    x: list[tuple[float, float, float]], y: list[tuple[float, float, float]], at: list[float]
) -> None:
    """Interval and p-value of any values inside lie within what the bounded test says; ties are another matter."""
    chosen = [
        max(1e-6, low + share * (min(high, 1e6) - low)) for (_, low, high), share in zip(x + y, at, strict=True)
    ]
    assume(len(set(chosen)) == len(chosen))
    worst, item = bounded_shift_of(x, y), shift_of(chosen[:4], chosen[4:])
    assume(item.spread_ratio is None)  # there Welch's t-test has a say too, of the values alone
    assert item.p_value <= worst.p_value * (1 + 1e-9)
    assert worst.low is None or (item.low is not None and worst.low <= item.low * (1 + 1e-9))
    assert worst.high is None or (item.high is not None and item.high <= worst.high * (1 + 1e-9))


@pytest.mark.parametrize("runs", [4, 5])
def test_ties_inside_the_bounds_do_not_weaken_separated_sides(runs: int) -> None:
    """Whatever values are equal within a side: where all of one side lies beyond the other, p is the smallest."""
    x, y = [(1.0, 1.0, 2.0)] * runs, [(3.0, 3.0, 4.0)] * runs
    worst = bounded_shift_of(x, y)
    tied = shift_of([1.0] * runs, [4.0] * runs)
    assert worst.p_value == pytest.approx(tied.p_value) == pytest.approx(2 / math.comb(2 * runs, runs))


def test_the_worst_p_value_is_that_of_a_corner() -> None:
    """All 2^8 corners of two boxes of four: the largest p of those is what one look gives."""
    draw = random.Random(5)
    for shift in (0.0, 0.3, 1.0):
        x = [(v := math.exp(draw.gauss(0, 0.2)), v * 0.9, v * 1.1) for _ in range(4)]
        y = [(v := math.exp(draw.gauss(shift, 0.2)), v * 0.9, v * 1.1) for _ in range(4)]
        corners = product(*[(low, high) for _, low, high in x + y])
        shifts = [shift_of(corner[:4], corner[4:]) for corner in corners]
        largest = max(shift.p_value for shift in shifts if shift.spread_ratio is None)
        assert bounded_shift_of(x, y).p_value >= largest
        if shift == 1.0:
            assert bounded_shift_of(x, y).p_value == largest


def compared(a: list[float], b: list[float], *, retained: float | None, disturbed: int = 5) -> Comparison:
    """tps of volumes a and b, the first cells disturbed, without an upper end where `held` is None."""
    rows = [
        Row(
            step="s",
            parameters={},
            metric="tps",
            unit="1/s",
            better="higher",
            volume=volume,
            cell=f"{volume}{n}",
            value=value,
            valid=n >= disturbed,
            bounds=(value, math.inf if retained is None else value / (1 - retained)) if n < disturbed else None,
        )
        for volume, result in (("a", a), ("b", b))
        for n, value in enumerate(result)
    ]
    return compare(rows, ["a", "b"])[0]


FAST, SLOW = [900.0, 950, 1000, 1010, 980], [200.0, 210, 190, 205, 199]


def test_a_large_difference_keeps_its_verdict_within_bounds() -> None:
    result = compared(FAST, SLOW, retained=0.5)
    assert (result.verdict, result.within_bounds, result.excluded_runs) == ("worse", (5, 5), (0, 0))
    assert "whatever the disturbance of 10 disturbed cells did" in result.reason
    assert result.ci is not None
    assert result.ci[1] > 0.4


def test_a_small_difference_stays_open() -> None:
    result = compared(FAST, [value * 0.9 for value in FAST], retained=0.2)
    assert result.verdict == "inconclusive"
    assert "could change the verdict" in result.reason


def test_cells_whose_bounds_leave_no_interval_have_that_of_the_cells_as_they_ran() -> None:
    """`no interval` stood beside five measured cells of each volume, with `so few cells do not bound it`."""
    result = compared(FAST, SLOW, retained=None)
    assert (result.verdict, result.ci) == ("inconclusive", None)
    assert "could change the verdict" in result.reason
    plain = mean_shift(FAST, SLOW, [], alpha=0.05)
    assert result.plain_ci == pytest.approx((plain.low, plain.high))
    assert result.ratio is not None
    assert result.plain_ci is not None
    assert result.plain_ci[0] <= result.ratio <= result.plain_ci[1]


def test_cells_with_an_interval_have_no_second_one() -> None:
    assert compared(FAST, SLOW, retained=0.5).plain_ci is None
    assert compared(FAST, SLOW, retained=0.5, disturbed=0).plain_ci is None
    assert compared(FAST[:1], SLOW[:1], retained=None).plain_ci is None


def test_cells_that_could_change_the_verdict_are_left_out_where_enough_others_are() -> None:
    a, b = [*FAST, 990.0, 1020], [*(0.8 * value for value in FAST), 800.0, 790]
    result = compared(a, b, retained=0.9, disturbed=2)
    assert (result.verdict, result.within_bounds, result.excluded_runs) == ("worse", (0, 0), (2, 2))


def test_without_disturbed_rows_nothing_changes() -> None:
    result = compared(FAST, SLOW, retained=0.5, disturbed=0)
    assert (result.verdict, result.within_bounds) == ("worse", (0, 0))
    assert result.p_value == mean_shift(FAST, SLOW, [], alpha=0.05).p_value


def inventory_of(
    a: list[float],
    b: list[float],
    shares: list[list[float]],
    *,
    disturbed_from: float = 0.1,
    better: Better = "higher",
) -> Comparison:
    """A metric of two volumes whose cells other work slowed down, disturbed from such a share on."""
    rows = [
        Row(
            step="s",
            parameters={},
            metric="tps" if better == "higher" else "latency_ms_p95",
            unit="1/s" if better == "higher" else "ms",
            better=better,
            volume=volume,
            cell=f"{volume}{n}",
            value=value,
            valid=share < disturbed_from,
            bounds=(value, value / (1 - min(0.9, 2 * share))) if share >= disturbed_from else None,
            shares={"cpu_taken": share},
            adjustable=True,
            block=n,
        )
        for volume, values, of in (("a", a, shares[0]), ("b", b, shares[1]))
        for n, (value, share) in enumerate(zip(values, of, strict=True))
    ]
    return compare(rows, ["a", "b"])[0]


SHARES = [0.01, 0.01, 0.05, 0.07, 0.36]


def test_cells_that_other_work_slowed_down_are_adjusted_and_compared() -> None:
    """A difference of 15 % that neither the valid cells alone nor the worst within the bounds show."""
    left = [1 - share for share in SHARES]
    a = [1000 * piece * own for piece, own in zip(left, [1.0, 1.02, 0.99, 1.01, 1.0], strict=True)]
    b = [850 * piece * own for piece, own in zip(reversed(left), [1.01, 0.99, 1.0, 1.0, 1.02], strict=True)]
    comparison = inventory_of(a, b, [SHARES, SHARES[::-1]])
    assert (comparison.verdict, comparison.runs, comparison.within_bounds) == ("worse", (5, 5), (1, 1))
    assert comparison.ratio == pytest.approx(0.85, abs=0.02)
    assert [adjustment.covariate for adjustment in comparison.adjustments] == ["cpu_taken"]
    assert not comparison.adjustments[0].differ


@pytest.mark.parametrize(("better", "power"), [("higher", 1), ("lower", -1)])
def test_what_other_work_did_to_one_volume_alone_is_no_difference(better: Better, power: int) -> None:
    """Throughput falls and latency rises where other work is: equal volumes, and the plain test names one."""
    shares = [[0.0, 0.01, 0.0, 0.02, 0.01, 0.0], [0.1, 0.3, 0.2, 0.4, 0.15, 0.35]]
    noise = [[1.0, 1.02, 0.99, 1.01, 0.98, 1.0], [0.99, 1.0, 1.01, 1.0, 1.02, 0.98]]
    a, b = (
        [100 * own * (1 - share) ** power for own, share in zip(*side, strict=True)]
        for side in zip(noise, shares, strict=True)
    )
    comparison = inventory_of(a, b, shares, disturbed_from=0.9, better=better)
    assert mean_shift(a, b, [(n, n) for n in range(6)], alpha=0.05).p_value < 0.05
    assert comparison.not_adjusted == ""
    assert comparison.verdict not in {"better", "worse"}
    assert comparison.ratio == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize(("late", "verdict"), [(0.0, "worse"), (0.05, "worse"), (0.25, "inconclusive")])
def test_a_difference_that_late_operations_could_make_is_open(late: float, verdict: str) -> None:
    """A quarter of the time delayed makes 0.75; the cells say 0.8, with an interval of some percent."""
    rows = [
        Row(
            step="s",
            parameters={},
            metric="tps",
            unit="1/s",
            better="higher",
            volume=volume,
            cell=f"{volume}{n}",
            value=level * noise,
            valid=False,
            bounds=(level * noise, level * noise * 3),
            shares={"cpu_wanted": 0.8},
            adjustable=True,
            late=late,
            block=n,
        )
        for volume, level in (("a", 100.0), ("b", 80.0))
        for n, noise in enumerate((1.0, 1.01, 0.99, 1.02, 0.98))
    ]
    comparison = compare(rows, ["a", "b"])[0]
    assert comparison.verdict == verdict, comparison.reason
    if verdict == "inconclusive":
        assert "late operations of the emulated volume could explain it" in comparison.reason


def test_a_metric_that_is_open_hands_its_level_to_no_other_one() -> None:
    """Which metric late operations could explain depends on its values: none is chosen by its values."""
    rows = [
        Row(
            step="s",
            parameters={},
            metric=metric_name,
            unit="1",
            better="higher",
            volume=volume,
            cell=f"{volume}{n}",
            value=level * noise,
            valid=False,
            bounds=(level * noise, level * noise * 3),
            shares={"cpu_wanted": 0.8},
            adjustable=True,
            late=late,
            block=n,
            rank=rank,
        )
        for rank, (metric_name, late) in enumerate((("tps", 0.25), ("second", 0.0)))
        for volume, level in (("a", 100.0), ("b", 80.0))
        for n, noise in enumerate((1.0, 1.01, 0.99, 1.02, 0.98))
    ]
    first, second = compare(rows, ["a", "b"], sequential=True)
    assert (first.verdict, second.verdict) == ("inconclusive", "inconclusive")
    assert (first.p_adjusted, first.runs_needed) == (None, None)
    assert second.p_value is not None
    assert (second.p_value < 1e-4, second.p_adjusted) == (True, 1.0)
    assert second.runs_needed is None  # `about 6 cells would decide`: five would, were it not for the first metric
    on_time = [replace(row, late=0.0) for row in rows]
    assert [row.verdict for row in compare(on_time, ["a", "b"], sequential=True)] == ["worse", "worse"]


def test_with_too_few_cells_what_other_work_could_explain_is_open() -> None:
    """Three cells: 15 % may be the work beside one volume, a factor of eight is not."""
    shares = [[0.0, 0.01, 0.0], [0.06, 0.07, 0.09]]
    small = inventory_of([1000.0, 1001, 1002], [850.0, 851, 852], shares)
    assert (small.verdict, small.p_adjusted) == ("inconclusive", None)
    assert "too few to tell what other work did" in small.reason
    assert small.not_adjusted
    large = inventory_of([1000.0, 1001, 1002], [125.0, 126, 127], shares)
    assert large.verdict == "worse"
