"""Slopes are the waits that were put in, and their intervals hold them, under everything that makes a slope lie."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from simulated_response import Load, cell, covers, square_wave

from volbench.results.response.estimate import (
    IDLE,
    TOGETHER,
    TOO_SHORT,
    UNDETERMINED,
    UNFOLLOWED,
    UNMOVED,
    advice_for_load,
    estimate,
    sharper,
)
from volbench.results.response.least_squares import fit
from volbench.results.response.model import Method, NoResponse, Response, Slope
from volbench.results.response.samples import CellSamples, WaitCount

SECONDS = 60


def modulated_cell(load: Load, seed: int, *, offset_s: float = 0.5, slot_s: int = 4):
    rng = np.random.default_rng(seed)
    reads = square_wave(SECONDS, low_ms=0.5, high_ms=2.0, slot_s=slot_s, rng=rng)
    syncs = square_wave(SECONDS, low_ms=1.0, high_ms=3.0, slot_s=slot_s, rng=rng)
    signals = {"read": (reads > 1).astype(float), "log_sync": (syncs > 2).astype(float)}
    return cell(load, {"read": reads, "log_sync": syncs}, rng=rng, offset_s=offset_s, signals=signals)


def response_of(cells) -> Response:
    response = estimate(cells)
    assert isinstance(response, Response), response
    return response


def test_the_slope_of_a_modulated_volume_is_the_number_of_waits_in_nineteen_of_twenty_runs():
    retained, width = [], []
    for seed in range(100):
        slope = response_of([modulated_cell(Load(waits={"read": 20.0, "log_sync": 2.0}), seed)]).slope("read")
        assert slope is not None
        retained.append(covers((slope.low, slope.high), 20.0))
        width.append((slope.high - slope.low) / 20.0)
    assert sum(retained) >= 90
    assert np.median(width) < 0.2


def test_a_load_that_does_not_wait_for_the_volume_has_slope_zero():
    retained, width = [], []
    for seed in range(100):
        load = Load(waits={"read": 0.0, "log_sync": 0.0}, cpu_ms=20.0)
        slope = response_of([modulated_cell(load, seed)]).slope("read")
        assert slope is not None
        retained.append(covers((slope.low, slope.high), 0.0))
        width.append(slope.high - slope.low)
    assert sum(retained) >= 90
    assert np.median(width) < 2.0  # a tenth of the slope of a load that waits for 20 reads


@pytest.mark.parametrize("offset_s", [0.0, 0.3, 0.5, 0.9])
def test_clocks_that_cut_time_at_different_moments_do_not_make_the_slope_too_small(offset_s):
    slopes = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        reads = square_wave(SECONDS, low_ms=0.5, high_ms=2.0, slot_s=3, rng=rng)
        samples = cell(Load(waits={"read": 20.0}), {"read": reads}, rng=rng, offset_s=offset_s)
        slopes.append(response_of([samples]).slopes[0].value)
    assert np.mean(slopes) == pytest.approx(20.0, rel=0.06)


def test_least_squares_on_all_seconds_is_wrong_with_such_clocks():
    """The fault that windows and levels are there for: the tests above can fail."""
    rng = np.random.default_rng(1)
    reads = square_wave(600, low_ms=0.5, high_ms=2.0, slot_s=3, rng=rng)
    samples = cell(Load(waits={"read": 20.0}), {"read": reads}, rng=rng, offset_s=0.5)
    naive = fit(
        samples.latency_ms,
        samples.awaits_ms["read"][:, None],
        weights=samples.finished,
        groups=np.zeros(600, np.int64),
        clusters=np.arange(600) // 6,
    )
    assert naive is not None
    assert naive.slopes[0] > 22.0


@pytest.mark.parametrize("offset_s", [0.0, 0.5, 0.9])
def test_a_volume_that_is_never_level_gives_a_slope_that_holds(offset_s):
    retained = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        reads = np.repeat(0.5 + rng.exponential(0.5, 2 * SECONDS), 5)
        samples = cell(Load(waits={"read": 20.0}), {"read": reads}, rng=rng, offset_s=offset_s)
        slope = response_of([samples]).slopes[0]
        retained.append(covers((slope.low, slope.high), 20.0))
    assert sum(retained) >= 34


def test_a_signal_averages_out_what_the_machine_does_to_both_sides():
    """Missing CPU makes awaits longer and all else five times as much: without a signal the slope is wrong."""
    with_signal: list[float] = []
    without: list[float] = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        reads = square_wave(SECONDS, low_ms=0.5, high_ms=2.0, slot_s=3, rng=rng)
        machine = np.repeat(rng.exponential(0.6, SECONDS), 10)
        for signals, slopes in (({"read": (reads > 1).astype(float)}, with_signal), ({}, without)):
            samples = cell(
                Load(waits={"read": 5.0}),
                {"read": reads},
                rng=rng,
                machine_ms=machine,
                signals=signals,
                offset_s=0.5,
            )
            slopes.append(response_of([samples]).slopes[0].value)
    assert np.mean(with_signal) == pytest.approx(5.0, rel=0.1)
    assert np.mean(without) > 5.5


@pytest.mark.parametrize("offset_s", [0.0, 0.5, 0.9])
def test_a_known_signal_gives_the_slope_whatever_the_clocks_are_apart(offset_s):
    load = Load(waits={"read": 20.0, "log_sync": 2.0})
    slopes = [response_of([modulated_cell(load, seed, offset_s=offset_s)]).slope("read") for seed in range(30)]
    assert np.mean([slope.value for slope in slopes if slope]) == pytest.approx(20.0, rel=0.02)


def test_a_wait_for_cpus_that_falls_while_reads_are_slow_is_told_apart_from_the_reads():
    """While reads are slow fewer sessions want a CPU: the slope was 6.2 where 7.5 reads are counted."""
    load = Load(waits={"read": 20.0, "log_sync": 2.0}, cpu_ms=10.0, cpu_wait_ms=16.0)
    slopes = [response_of([modulated_cell(load, seed)]).slope("read") for seed in range(40)]
    known = [(slope, slope.less_cpu_wait) for slope in slopes if slope and slope.less_cpu_wait]
    assert len(known) == 40
    assert sum(covers((less.low, less.high), 20.0) for _, less in known) >= 36
    assert np.mean([less.value for _, less in known]) == pytest.approx(20.0, rel=0.02)
    assert sum(covers((slope.low, slope.high), 20.0) for slope, _ in known) <= 10
    assert sum(slope.agreement == "agrees" for slope, _ in known) >= 36


@pytest.mark.parametrize("offset_s", [0.0, 0.3, 0.9])
def test_the_wait_for_cpus_is_told_apart_whatever_the_clocks_are_apart(offset_s):
    load = Load(waits={"read": 20.0, "log_sync": 2.0}, cpu_ms=10.0, cpu_wait_ms=16.0)
    slopes = [response_of([modulated_cell(load, seed, offset_s=offset_s)]).slope("read") for seed in range(10)]
    less = [slope.less_cpu_wait.value for slope in slopes if slope and slope.less_cpu_wait]
    assert np.mean(less) == pytest.approx(20.0, rel=0.02)


def test_a_count_that_the_wait_for_cpus_does_not_explain_is_still_contradicted():
    load = Load(waits={"read": 20.0, "log_sync": 2.0}, cpu_ms=10.0, cpu_wait_ms=16.0, counted={"read": 40.0})
    slope = response_of([modulated_cell(load, 1)]).slope("read")
    assert slope is not None
    assert slope.agreement == "below"


def test_without_a_signal_nothing_tells_what_the_wait_for_cpus_comes_from():
    rng = np.random.default_rng(3)
    reads = square_wave(SECONDS, low_ms=0.5, high_ms=2.0, slot_s=3, rng=rng)
    samples = cell(Load(waits={"read": 20.0}, cpu_wait_ms=16.0), {"read": reads}, rng=rng)
    assert response_of([samples]).slopes[0].less_cpu_wait is None


def test_a_volume_that_does_not_follow_its_signal_gives_no_slope():
    """A queue at a limit hides the latency that was changed: what moves the await then is no signal."""
    rng = np.random.default_rng(11)
    signal = square_wave(SECONDS, low_ms=0.0, high_ms=1.0, slot_s=4, rng=rng)
    reads = np.repeat(0.5 + rng.exponential(0.5, SECONDS), 10)
    samples = cell(Load(waits={"read": 20.0}), {"read": reads}, rng=rng, signals={"read": signal})
    assert estimate([samples]) is UNFOLLOWED


def test_a_signal_of_a_few_slots_gives_no_slope():
    rng = np.random.default_rng(11)
    reads = square_wave(12, low_ms=0.5, high_ms=2.0, slot_s=4, rng=rng)
    samples = cell(
        Load(waits={"read": 20.0}), {"read": reads}, rng=rng, signals={"read": (reads > 1).astype(float)}
    )
    assert isinstance(estimate([samples]), NoResponse)


def steady_cells(*, slow_ms: float, cpu_of_fast_ms: float, waits_of_slow: float = 20.0) -> list[CellSamples]:
    """Five cells of each of two volumes; transactions of the fast one also wait for a CPU, as the cells count."""
    cells = []
    for number, base_ms in enumerate([0.5, slow_ms] * 5):
        rng = np.random.default_rng(number)
        is_fast = base_ms < slow_ms
        load = Load(
            waits={"read": 20.0 if is_fast else waits_of_slow},
            cpu_ms=3.0 + (cpu_of_fast_ms if is_fast else 0.0),
            volume=f"v{base_ms}",
        )
        samples = cell(load, {"read": np.full(80, base_ms * rng.normal(1, 0.05))}, rng=rng, name=str(number))
        cells.append(replace(samples, cpu_ms=np.full(8, load.cpu_ms)))
    return cells


def test_a_volume_whose_cells_lack_cpu_widens_the_slope_between_volumes():
    """The fast volume's transactions take 15 ms longer for want of CPU: the plain slope is 14, the truth 20."""
    starved = steady_cells(slow_ms=3.0, cpu_of_fast_ms=15.0)
    assert response_of([replace(samples, cpu_ms=None) for samples in starved]).slopes[0].value < 15.0
    slope = response_of(starved).slopes[0]
    assert slope.value > 16.0
    assert covers((slope.low, slope.high), 20.0)
    assert slope.agreement != "below"
    even = response_of(steady_cells(slow_ms=3.0, cpu_of_fast_ms=0.0)).slopes[0]
    assert covers((even.low, even.high), 20.0)
    assert even.high - even.low < 0.2 * 20.0


def test_an_interval_without_cpu_time_does_not_hide_that_of_the_others():
    """The first of a cell has none where its sampler began with it."""
    starved = steady_cells(slow_ms=3.0, cpu_of_fast_ms=15.0)
    late = [
        replace(samples, cpu_ms=np.concatenate([[np.nan], samples.cpu_ms[1:]]))
        for samples in starved
        if samples.cpu_ms is not None
    ]
    assert response_of(late).slopes[0].value == pytest.approx(response_of(starved).slopes[0].value, rel=0.01)


def test_the_count_beside_a_slope_is_what_the_cells_counts_would_give():
    """Between 0.5 ms with 20 reads and 3 ms with 24 the line is (3 x 24 - 0.5 x 20) / 2.5 = 24.8."""
    slope = response_of(steady_cells(slow_ms=3.0, cpu_of_fast_ms=0.0, waits_of_slow=24.0)).slopes[0]
    assert slope.counted is not None
    assert slope.counted.low == pytest.approx(24.8, rel=0.02)
    assert slope.agreement == "agrees"


def test_a_count_of_at_most_so_many_contradicts_no_smaller_slope():
    rng = np.random.default_rng(7)
    reads = square_wave(SECONDS, low_ms=0.5, high_ms=2.0, slot_s=3, rng=rng)
    samples = cell(Load(waits={"read": 20.0}), {"read": reads}, rng=rng)
    for high, agreement in ((40.0, "open"), (10.0, "above")):
        counted = replace(samples, counted={"read": WaitCount(low=0.0, high=high)})
        assert response_of([counted]).slopes[0].agreement == agreement


def test_volumes_that_differ_in_nothing_that_is_measured_widen_what_is_between_them():
    """Within cells the slope is known too bluntly to be given, and well enough to doubt the one between them."""
    within = a_response("within", value=20.0, reach=8.0)
    between = a_response("between", value=8.0, reach=0.5)
    chosen = sharper(within, between)
    assert chosen is not None
    assert covers((chosen.slopes[0].low, chosen.slopes[0].high), 20.0 - 8.0)


def a_response(method: Method, *, value: float, reach: float) -> Response:
    slope = Slope(
        term="read",
        value=value,
        low=value - reach,
        high=value + reach,
        counted=None,
        await_ms=1.0,
        moved_ms=(0.5, 1.5),
    )
    return Response(
        slopes=(slope,),
        intercept_ms=1.0,
        latency_ms=20.0,
        method=method,
        intervals=60,
        cells=10,
        volumes=2,
        explained=0.9,
    )


def test_volumes_that_differ_in_more_than_await_do_not_bend_the_slope():
    """The slower volume's host is slower, too: between volumes the slope is far too large, and a note says so."""
    cells = []
    for number, (base_ms, cpu_ms) in enumerate([(0.5, 3.0)] * 4 + [(2.0, 60.0)] * 4):
        rng = np.random.default_rng(number)
        reads = square_wave(SECONDS, low_ms=base_ms, high_ms=2 * base_ms, slot_s=3, rng=rng)
        load = Load(waits={"read": 20.0}, cpu_ms=cpu_ms, volume=f"v{base_ms}")
        cells.append(cell(load, {"read": reads}, rng=rng, name=f"{number}"))
    response = response_of(cells)
    assert response.method == "within"
    assert covers((response.slopes[0].low, response.slopes[0].high), 20.0)
    assert any("differ in more" in note for note in response.notes)


def test_steady_cells_of_two_volumes_give_the_slope_between_them():
    cells = []
    for number, base_ms in enumerate([0.5, 3.0] * 5):
        rng = np.random.default_rng(number)
        steady = np.full(8 * 10, base_ms * rng.normal(1, 0.05))
        cells.append(
            cell(Load(waits={"read": 19.5}, volume=f"v{base_ms}"), {"read": steady}, rng=rng, name=str(number))
        )
    response = response_of(cells)
    assert response.method == "between"
    assert covers((response.slopes[0].low, response.slopes[0].high), 19.5)
    assert response.slopes[0].agreement == "agrees"


def test_of_awaits_that_move_together_the_smaller_is_held_at_its_count():
    rng = np.random.default_rng(3)
    reads = square_wave(SECONDS, low_ms=0.5, high_ms=2.0, slot_s=3, rng=rng)
    samples = cell(Load(waits={"read": 20.0, "log_sync": 2.0}), {"read": reads, "log_sync": 1.5 * reads}, rng=rng)
    response = response_of([samples])
    read, sync = response.slope("read"), response.slope("log_sync")
    assert read is not None
    assert sync is not None
    assert (read.is_held, sync.is_held) == (False, True)
    assert covers((read.low, read.high), 20.0)
    assert any("moved together" in note for note in response.notes)


def test_waits_that_move_together_and_that_nobody_counts_have_no_slopes():
    """A commit's syncs would be taken for reads: 4.3 of 14.7 ms were, on two volumes that differ in both."""
    rng = np.random.default_rng(3)
    reads = square_wave(SECONDS, low_ms=0.5, high_ms=2.0, slot_s=3, rng=rng)
    samples = cell(Load(waits={"log_sync": 2.0}), {"read": reads, "log_sync": 1.5 * reads}, rng=rng)
    assert estimate([replace(samples, counted={})]) is TOGETHER


@pytest.mark.parametrize(("waits", "never"), [({"log_sync": 2.0}, "read"), ({"read": 20.0}, "log_sync")])
def test_of_waits_that_move_together_one_that_is_never_waited_for_costs_nothing(waits, never):
    """A COMMIT reads no page, and a SELECT syncs no log: all that moves is of the other wait."""
    rng = np.random.default_rng(3)
    reads = square_wave(SECONDS, low_ms=0.5, high_ms=2.0, slot_s=3, rng=rng)
    samples = cell(Load(waits=waits), {"read": reads, "log_sync": 1.5 * reads}, rng=rng)
    response = response_of([replace(samples, counted={never: WaitCount(low=0.0, high=0.0)})])
    ((term, count),) = waits.items()
    free, fixed = response.slope(term), response.slope(never)
    assert free is not None
    assert fixed is not None
    assert (fixed.is_held, fixed.value) == (True, 0.0)
    assert free.value == pytest.approx(count, rel=0.15)


def test_a_pause_of_the_whole_machine_is_left_out():
    rng = np.random.default_rng(5)
    reads = square_wave(SECONDS, low_ms=0.5, high_ms=2.0, slot_s=3, rng=rng)
    machine = np.zeros(SECONDS * 10)
    machine[300:310] = 40.0
    samples = cell(Load(waits={"read": 20.0}), {"read": reads}, rng=rng, machine_ms=machine, offset_s=0.0)
    response = response_of([samples])
    assert covers((response.slopes[0].low, response.slopes[0].high), 20.0)
    assert response.slopes[0].is_sharp


@pytest.mark.parametrize(("counted", "agreement"), [(20.0, "agrees"), (40.0, "below"), (10.0, "above")])
def test_a_count_that_the_slope_contradicts_is_told(counted, agreement):
    """Reads in parallel or ahead make the slope smaller than the count, locks held during reads larger."""
    rng = np.random.default_rng(7)
    reads = square_wave(SECONDS, low_ms=0.5, high_ms=2.0, slot_s=3, rng=rng)
    samples = cell(Load(waits={"read": 20.0}, counted={"read": counted}), {"read": reads}, rng=rng)
    assert response_of([samples]).slopes[0].agreement == agreement


def test_a_steady_volume_gives_no_slope_and_says_what_would():
    rng = np.random.default_rng(9)
    samples = cell(Load(waits={"read": 20.0}), {"read": np.full(SECONDS * 10, 1.0)}, rng=rng)
    nothing = estimate([samples])
    assert isinstance(nothing, NoResponse)
    assert "modulate" in nothing.advice


def test_a_load_in_memory_says_that_its_latency_is_not_the_volumes():
    rng = np.random.default_rng(9)
    samples = cell(Load(waits={"read": 20.0}), {"read": np.full(SECONDS * 10, 1.0)}, rng=rng)
    for awaits in ({}, {"read": np.full(SECONDS, np.nan)}):
        nothing = estimate([replace(samples, awaits_ms=awaits)])
        assert nothing is IDLE


def test_too_few_seconds_give_no_slope():
    rng = np.random.default_rng(9)
    samples = cell(Load(waits={"read": 20.0}), {"read": np.full(30, 1.0)}, rng=rng)
    assert isinstance(estimate([samples]), NoResponse)
    assert isinstance(estimate([]), NoResponse)


@pytest.mark.parametrize(
    ("answer", "helps"),
    [
        (TOO_SHORT, "at least 30 s a cell"),
        (IDLE, "more data than the buffer pool holds"),
        (UNMOVED, "--modulate 4"),
        (UNFOLLOWED, "a larger factor"),
        (TOGETHER, "--modulate 4"),
        (UNDETERMINED, "longer cells"),
    ],
)
def test_each_answer_without_a_slope_says_what_would_help(answer, helps):
    assert answer.reason
    assert helps in answer.advice


@pytest.mark.parametrize(
    ("step", "command"),
    [
        ("mysql", ": `volbench run SUITE --set steps.mysql.duration=30s`"),
        ("night/during", ""),
    ],
)
def test_more_seconds_are_advised_with_the_option_that_measures_them(step, command):
    """A part of a step has no duration of its own."""
    assert TOO_SHORT.advice_for(step) == f"measure at least 30 s a cell{command}"
    assert UNMOVED.advice_for(step) == UNMOVED.advice


def test_a_load_with_a_rate_is_not_advised_to_be_modulated() -> None:
    """`run SUITE --modulate 4` was printed for suites whose every load has a rate, and such a suite is refused."""
    assert advice_for_load(UNMOVED.advice, has_rate=False) == UNMOVED.advice
    assert "`volbench run suites/response.yaml --modulate 4`" in advice_for_load(UNMOVED.advice, has_rate=True)
    assert advice_for_load(TOO_SHORT.advice, has_rate=True) == TOO_SHORT.advice


def test_a_modulation_that_was_interrupted_early_says_that_more_time_would_help():
    """Six slots of four seconds are too few for two slopes: nothing is guessed from them."""
    rng = np.random.default_rng(1)
    slow = np.repeat([0.0, 1.0, 0.0, 1.0, 0.0, 1.0], 40)
    samples = cell(Load(waits={"read": 20.0}), {"read": 0.5 + slow}, rng=rng, signals={"read": slow})
    assert samples.slots is not None
    few = replace(samples, slots=np.minimum(samples.slots, 2))
    assert estimate([few]) is UNDETERMINED
