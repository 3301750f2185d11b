"""A recorded load as evidence: limits, credits and peaks, and a check that keeps its own queue."""

from __future__ import annotations

import numpy as np
import pytest
from credit_loads import points, profile_limits

from volbench.core.profile.arrays import Floats
from volbench.errors import UsageError
from volbench.results.credits.dump import DumpLoad
from volbench.results.credits.history import History
from volbench.results.credits.prices import load_prices
from volbench.results.credits.work import Work, from_points
from volbench.results.recommend.catalogue import candidates
from volbench.results.recommend.choice import recommend
from volbench.results.recommend.goal import Goal
from volbench.results.recommend.lateness import late_shares, spread_of
from volbench.results.recommend.recorded_load import ObservedStatements, RecordedLoad
from volbench.results.recommend.second_by_second import keeps

OFFERED = candidates(load_prices(), size_bytes=100 << 30, profiles=("ebs-gp2", "ebs-gp3", "ebs-io2"))
GOAL = Goal(p95_s=0.02)


def load(work: Work, statements: ObservedStatements | None = None) -> RecordedLoad:
    return RecordedLoad(name="db1", history=History(work=work, text="a load"), source="file", statements=statements)


def steady(iops: float, hours: int = 24, *, deviation: float = 0.05) -> Work:
    random = np.random.default_rng(7)
    return points((iops * random.lognormal(0, deviation, 60 * hours)).tolist())


def test_a_steady_load_gets_the_baseline_of_gp3_and_credits_do_not_carry_it() -> None:
    answer = recommend(load(steady(2000)), OFFERED, GOAL)
    assert answer.chosen is not None
    assert answer.chosen.candidate.spec == "ebs-gp3?size=100GiB&iops=3000&throughput=125"
    assert all(check.keeps for check in answer.chosen.checks)
    assert answer.is_cheapest
    capacity = next(setting.value for setting in answer.settings if setting.name == "innodb_io_capacity")
    assert capacity is not None
    assert 300 <= int(capacity) <= 500  # half of what 2,200 of 3,000 operations leave


def test_a_load_above_the_limit_in_one_hour_of_a_day_is_not_hidden_by_the_others() -> None:
    rates = steady(500).iops.copy()
    rates[600:660] = 4500.0
    work = points(rates.tolist())
    answer = recommend(load(work), OFFERED, GOAL)
    assert answer.chosen is not None
    assert int(answer.chosen.candidate.options["iops"]) >= 5000


def test_minutes_that_vary_are_taken_to_hide_seconds_that_vary_more() -> None:
    calm, rough = (recommend(load(steady(2000, deviation=each)), OFFERED, GOAL) for each in (0.02, 0.25))
    assert calm.chosen is not None
    assert rough.chosen is None or rough.chosen.candidate.cost.month > calm.chosen.candidate.cost.month


def test_seconds_that_are_recorded_are_not_spread_further() -> None:
    random = np.random.default_rng(3)
    work = points((1000 * random.lognormal(0, 0.3, 7200)).tolist(), interval_s=1.0)
    assert spread_of(work).variance == 0.0
    assert spread_of(work).is_recorded


@pytest.mark.parametrize(("deviation", "width_s"), [(0.1, 60), (0.2, 60), (0.15, 300)])
def test_the_spread_of_a_cascade_is_found_again_from_its_means(deviation: float, width_s: int) -> None:
    """Each halving of 16,384 s has the same deviation, down to a second."""
    random = np.random.default_rng(5)
    rates: Floats = np.full(12, 1000.0)
    for _ in range(14):
        halves = random.lognormal(0, deviation, (len(rates), 2))
        rates = (rates[:, None] * 2 * halves / halves.sum(axis=1, keepdims=True)).ravel()
    means = rates[: len(rates) // width_s * width_s].reshape(-1, width_s).mean(axis=1)
    result = spread_of(points(means.tolist(), interval_s=float(width_s)))
    within = rates[: len(means) * width_s].reshape(-1, width_s) / means[:, None]
    truth = float(np.var(np.log(within)))
    assert result.variance == pytest.approx(truth, rel=0.5)


def test_an_empty_bucket_makes_an_hour_late_by_both_computations() -> None:
    limits = profile_limits("ebs-gp2", size="100GiB")  # 300 IOPS of baseline
    for iops, is_kept in ((250.0, True), (1500.0, False)):
        work = points([iops] * 60 * 24)
        spread = spread_of(work)
        assert (float(np.nanmax(late_shares(limits, work, spread))) <= 0.05) is is_kept
        assert keeps(limits.starting_at(1.0), work, spread, 0.019)[0] is is_kept


def test_a_burst_that_credits_carry_is_on_time_by_both_computations() -> None:
    limits = profile_limits("ebs-gp2", size="100GiB")
    work = points([100.0] * 1380 + [2500.0] * 30 + [100.0] * 30)
    assert float(np.nanmax(late_shares(limits, work, spread_of(work), factor=0.0))) <= 0.05
    assert keeps(limits.starting_at(1.0), work, spread_of(points([100.0] * 60)), 0.019)[0] is not False


def test_a_backup_that_does_not_fit_its_window_decides() -> None:
    goal = Goal(p95_s=0.02, backup=DumpLoad(bytes=3e11, io_bytes=16384.0, rate_max_per_s=1e5), window_s=2 * 3600.0)
    answer = recommend(load(steady(1000)), OFFERED, goal)
    plain = recommend(load(steady(1000)), OFFERED, GOAL)
    assert answer.chosen is not None
    assert plain.chosen is not None
    assert answer.chosen.candidate.cost.month > plain.chosen.candidate.cost.month
    assert {chance.objective for chance in answer.chosen.chances} == {"p95", "backup"}


def test_a_recovery_is_not_forecast_from_a_recording() -> None:
    with pytest.raises(UsageError, match="redo"):
        recommend(load(steady(1000)), OFFERED, Goal(recovery_s=60.0))


def test_statements_that_are_slow_already_get_no_recommendation() -> None:
    statements = ObservedStatements(p95_s=0.05, read_s=0.002, write_s=0.002)
    answer = recommend(load(steady(1000), statements), OFFERED, GOAL)
    assert answer.chosen is None


def test_statements_stay_in_time_on_a_volume_that_is_no_slower() -> None:
    statements = ObservedStatements(p95_s=0.015, read_s=0.002, write_s=0.002)
    answer = recommend(load(steady(1000), statements), OFFERED, GOAL)
    assert answer.chosen is not None
    assert answer.chosen.candidate.profile in {"ebs-gp2", "ebs-gp3"}


def test_statements_may_be_late_on_a_volume_that_is_slower() -> None:
    statements = ObservedStatements(p95_s=0.015, read_s=0.0003, write_s=0.0003)
    answer = recommend(load(steady(1000), statements), OFFERED, GOAL)
    assert answer.chosen is None or answer.chosen.candidate.profile == "ebs-io2"


def test_an_objective_below_one_operation_is_kept_by_no_volume() -> None:
    answer = recommend(load(steady(1000)), OFFERED, Goal(p95_s=0.0001))
    assert answer.chosen is None
    assert "none of" in answer.refusal


def test_gaps_are_no_load() -> None:
    times = np.concatenate([np.arange(1, 121), np.arange(400, 520)]).astype(np.float64) * 60
    work = from_points(t_s=times, reads_per_s=np.full(240, 1000.0), writes_per_s=np.full(240, 500.0))
    answer = recommend(load(work), OFFERED, GOAL)
    assert answer.chosen is not None
