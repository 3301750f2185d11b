"""A load on another volume, from slopes that counts confirm: against loads whose answer is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated_response import Load, cell

from volbench.results.response.estimate import UNMOVED, estimate
from volbench.results.response.levels import LatencySlope, VolumeLoad, confirmed_costs, latency_at, levels_of
from volbench.results.response.measured import MeasuredResponse
from volbench.results.response.model import Interval, Response
from volbench.results.response.prediction import Predicted, predicted_tails, prediction_text, tails_by_step
from volbench.results.response.samples import CellSamples
from volbench.results.response.tails import ERROR_MAX, TailCheck, tail_at, tail_check

LEVEL = VolumeLoad(volume="v", threads=4, latency_ms=24.0, awaits_ms={"read": 1.0}, quantiles_ms={0.95: 60.0})
COST = LatencySlope(term="read", value=20.0, low=18.0, high=22.0, is_measured=True, moved_ms=(0.5, 3.0))


def steady(volume: str, read_ms: float, seed: int, *, counted: float = 20.0) -> CellSamples:
    rng = np.random.default_rng(seed)
    load = Load(waits={"read": 20.0}, counted={"read": counted}, volume=volume)
    mean_ms = read_ms * rng.normal(1, 0.05)
    return cell(load, {"read": np.full(80, mean_ms)}, rng=rng, name=f"{seed}-{volume}")


def cells(volumes: dict[str, float], *, counted: float = 20.0) -> list[CellSamples]:
    return [
        steady(name, read_ms, 10 * number + index, counted=counted)
        for number in range(5)
        for index, (name, read_ms) in enumerate(volumes.items())
    ]


def test_a_volume_that_was_not_measured_is_predicted_within_the_interval_of_b() -> None:
    """3 ms of CPU and 20 reads: 10 ms of latency with reads of 0.35 ms, 63 ms with reads of 3 ms."""
    inside = 0
    for read_ms in (0.35, 1.0, 3.0):
        measured = cells({"slow": 2.0, "fast": 0.5})
        costs = confirmed_costs(estimate(measured))
        (slow, _) = levels_of(measured, ["read"])
        latency = latency_at(slow, costs, {"read": read_ms})
        truth_ms = 3.0 + 20.0 * read_ms
        assert latency.value_ms == pytest.approx(truth_ms, rel=0.15)
        inside += latency.low_ms <= truth_ms <= latency.high_ms
    assert inside >= 2


def test_a_slope_that_the_count_does_not_confirm_is_not_used() -> None:
    response = estimate(cells({"slow": 2.0, "fast": 0.5}, counted=40.0))
    assert isinstance(response, Response)
    assert response.slopes[0].agreement == "below"
    assert confirmed_costs(response) == ()


@pytest.mark.parametrize("nothing", [None, UNMOVED])
def test_without_a_response_nothing_is_confirmed(nothing: None) -> None:
    assert confirmed_costs(nothing) == ()


def test_a_wait_that_is_held_stands_at_its_count_with_its_range() -> None:
    response = estimate(cells({"slow": 2.0, "fast": 0.5}))
    assert isinstance(response, Response)
    (read,) = response.slopes
    assert read.counted is not None
    fixed = replace(read, term="log_sync", is_held=True, counted=replace(read.counted, low=2.0, high=4.0))
    _, sync = confirmed_costs(replace(response, slopes=(read, fixed)))
    assert (sync.value, sync.low, sync.high, sync.is_measured) == (3.0, 2.0, 4.0, False)
    assert confirmed_costs(replace(response, slopes=(read, replace(fixed, counted=None)))) == ()


def test_levels_are_means_over_transactions_by_volume() -> None:
    measured = cells({"slow": 2.0, "fast": 0.5})
    slow, fast = levels_of(measured, ["read"])
    assert (slow.volume, fast.volume) == ("slow", "fast")
    assert slow.awaits_ms["read"] == pytest.approx(2.0, rel=0.1)
    assert fast.latency_ms == pytest.approx(13.0, rel=0.1)
    assert levels_of(measured, ["write"]) == ()
    assert slow.error_ms is not None
    assert fast.error_ms is not None
    assert slow.error_ms > fast.error_ms > 0
    assert slow.error_text == ""
    single = levels_of(measured[:2], ["read"])[0]
    assert single.error_ms is None
    assert single.error_text == " of one cell, whose own error the interval lacks"


def test_the_error_of_the_measured_mean_is_in_the_interval() -> None:
    uncertain = replace(LEVEL, error_ms=3.0)
    latency = latency_at(uncertain, [COST], {"read": 3.0})
    assert (latency.value_ms, latency.low_ms, latency.high_ms) == (64.0, pytest.approx(59.0), pytest.approx(69.0))


@given(st.floats(0.0, 10.0), st.floats(0.0, 10.0))
def test_a_longer_wait_is_never_faster_and_the_interval_holds_the_value(first: float, second: float) -> None:
    less, more = (latency_at(LEVEL, [COST], {"read": ms}) for ms in sorted((first, second)))
    assert less.value_ms <= more.value_ms
    assert more.low_ms <= more.value_ms <= more.high_ms
    assert latency_at(LEVEL, [COST], {}) == latency_at(LEVEL, [COST], {"read": 1.0})


def test_beyond_the_longest_wait_a_millisecond_costs_the_slope_without_waits_for_cpus() -> None:
    """What-if and advice go on as `explain --await-ms` does: a wait for CPUs that is gone cannot fall further."""
    costs = [replace(COST, less_cpu_wait=Interval(value=23.0, low=22.0, high=24.0))]
    far = latency_at(LEVEL, costs, {"read": 5.0})  # the longest wait that was measured is 3 ms
    assert far.value_ms == pytest.approx(24.0 + 20.0 * 2.0 + 23.0 * 2.0)
    assert far.low_ms == pytest.approx(24.0 + 18.0 * 2.0 + 22.0 * 2.0)
    assert far.high_ms == pytest.approx(24.0 + 22.0 * 2.0 + 24.0 * 2.0)
    near = latency_at(LEVEL, costs, {"read": 2.5})
    assert near == latency_at(LEVEL, [COST], {"read": 2.5})
    slower = replace(LEVEL, latency_ms=84.0, awaits_ms={"read": 4.0})
    assert latency_at(slower, costs, {"read": 5.0}).value_ms == pytest.approx(84.0 + 23.0)


def test_a_slope_carries_what_it_is_without_waits_for_cpus() -> None:
    response = estimate(cells({"slow": 2.0, "fast": 0.5}))
    assert isinstance(response, Response)
    less = Interval(value=20.5, low=19.0, high=22.0)
    (cost,) = confirmed_costs(replace(response, slopes=(replace(response.slopes[0], less_cpu_wait=less),)))
    assert cost.less_cpu_wait == less


def test_waiting_times_far_from_those_measured_are_known() -> None:
    assert [COST.is_beyond(ms) for ms in (0.2, 0.25, 6.0, 6.1)] == [True, False, False, True]


def test_a_percentile_that_grows_with_the_mean_is_predicted_and_checked_on_each_volume() -> None:
    slow = replace(LEVEL, volume="slow", latency_ms=44.0, awaits_ms={"read": 2.0}, quantiles_ms={0.95: 105.0})
    check = tail_check([LEVEL, slow], [COST], 0.95)
    # 60 ms x 44 / 24 = 110 ms for 105 measured; 105 ms x 24 / 44 = 57.3 ms for 60.
    assert check.errors == (pytest.approx(57.27 / 60 - 1, abs=1e-3), pytest.approx(110 / 105 - 1))
    assert check.reason == ""
    latency = latency_at(LEVEL, [COST], {"read": 1.5})
    tail = tail_at(LEVEL, check, 0.95, latency)
    assert tail is not None
    assert tail.value_ms == pytest.approx(60 * 34 / 24)
    assert tail.low_ms == pytest.approx(60 * latency.low_ms / 24 * (1 - check.error_max))
    assert tail.high_ms == pytest.approx(60 * latency.high_ms / 24 * (1 + check.error_max))


def test_a_percentile_that_was_far_off_is_not_predicted_and_says_so() -> None:
    slow = replace(LEVEL, volume="slow", latency_ms=44.0, awaits_ms={"read": 2.0}, quantiles_ms={0.95: 200.0})
    check = tail_check([LEVEL, slow], [COST], 0.95)
    assert check.error_max > ERROR_MAX
    assert f"off by up to {100 * check.error_max:.0f} %" in check.reason
    assert tail_at(LEVEL, check, 0.95, latency_at(LEVEL, [COST], {"read": 1.5})) is None


def test_a_percentile_that_nothing_checks_is_not_predicted() -> None:
    threads = replace(LEVEL, threads=8)
    for levels in ([LEVEL], [LEVEL, threads], [LEVEL, replace(LEVEL, volume="slow", quantiles_ms={})]):
        assert "no second volume" in tail_check(levels, [COST], 0.95).reason


def test_percentiles_with_other_waiting_times_are_taken_from_the_nearest_volume() -> None:
    slow = replace(LEVEL, volume="slow", latency_ms=44.0, awaits_ms={"read": 2.0}, quantiles_ms={0.95: 105.0})
    tails = {
        0.95: TailCheck(statistic="p95", errors=(0.1,)),
        0.99: TailCheck(statistic="p99", errors=(), reason="no"),
    }
    measured = MeasuredResponse(costs=(COST,), levels=(LEVEL, slow), tails=tails)
    (p95,), reasons = predicted_tails(measured, "load", {"read": 1.9})
    assert (p95.step, p95.statistic, p95.measured_ms) == ("load", "p95", 105.0)
    assert p95.latency_ms == pytest.approx(105 * 42 / 44)
    assert reasons == ("no",)
    assert "off by up to 10 % where it was looked up" in prediction_text(p95)


def test_a_percentile_of_a_volume_that_would_take_no_time_is_none() -> None:
    measured = MeasuredResponse(
        costs=(COST,), levels=(LEVEL,), tails={0.95: TailCheck(statistic="p95", errors=(0.1,))}
    )
    below_zero = replace(LEVEL, latency_ms=10.0)
    assert predicted_tails(replace(measured, levels=(below_zero,)), "load", {"read": 0.1}) == ((), ())


def test_a_load_has_the_percentiles_that_no_slopes_predict_or_the_reason() -> None:
    tails = {0.5: TailCheck(statistic="p50", errors=(0.1,)), 0.95: TailCheck(statistic="p95", errors=(0.1,))}
    level = replace(LEVEL, quantiles_ms={0.5: 20.0, 0.95: 60.0})
    measured = {"load": MeasuredResponse(costs=(COST,), levels=(level,), tails=tails)}
    of_load, of_loop = (
        [
            Predicted(
                step=step,
                statistic=statistic,
                measured_ms=24.0,
                latency_ms=34.0,
                interval_ms=(33.0, 35.0),
                tps_factor=None,
                tps_interval=None,
                is_beyond=False,
            )
            for statistic in ("mean", "p50")
        ]
        for step in ("load", "loop")
    )
    by_step = tails_by_step(measured, [*of_load, *of_loop], {"read": 1.5})
    (p95,), reasons = by_step["load"]
    assert (p95.statistic, p95.latency_ms, reasons) == ("p95", pytest.approx(85.0), ())
    assert by_step["loop"][0] == ()
    assert "confirm no response" in by_step["loop"][1][0]
    assert "(p95, p99)" in by_step["loop"][1][0]
