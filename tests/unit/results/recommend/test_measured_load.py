"""A run's loads as evidence: predictions, the simulation that checks them, and what a run itself refutes."""

from __future__ import annotations

import dataclasses

import pytest

from volbench.errors import Undecided
from volbench.results.credits.prices import load_prices
from volbench.results.explain.accounts.demand import Demand, PredictionUnavailable
from volbench.results.explain.accounts.what_if import other_volume, predict
from volbench.results.recommend.catalogue import candidates
from volbench.results.recommend.choice import recommend
from volbench.results.recommend.goal import Goal
from volbench.results.recommend.loop_simulation import Service, simulated_p95_s
from volbench.results.recommend.measured_load import Measured, MeasuredLoad
from volbench.results.recommend.server import ServerFigures
from volbench.results.response.measured import MeasuredResponse
from volbench.results.response.tails import TailCheck

OFFERED = candidates(load_prices(), size_bytes=100 << 30, profiles=("ebs-gp3", "ebs-io2"))
READS = Demand(
    clients=16,
    tps=105.0,
    response_s=16 / 105,
    reads=28.0,
    writes=0.2,
    read_bytes=16384.0,
    write_bytes=16384.0,
    reads_waited=28.0,
    writes_waited=0.2,
    read_s=0.0052,
    write_s=0.001,
    cpu_s_min=0.003,
    cpu_s=0.004,
    cpu_s_max=0.005,
    cpu_known=True,
    cpus=8,
    locks_s=0.0,
    p95_s=0.19,
)
SERVER = ServerFigures(pool_bytes=8 << 30, redo_bytes=1 << 27, redo_bytes_per_s=1.5 * 2**20)


def measured(demand: Demand | PredictionUnavailable = READS, volume: str = "a", spec: str = "ebs-gp3") -> Measured:
    return Measured(volume=volume, step="load", demands=(demand,), spec=spec)


def evidence(*elsewhere: Measured, demand: Demand | PredictionUnavailable = READS) -> MeasuredLoad:
    return MeasuredLoad(name="run", loads=(measured(demand),), elsewhere=elsewhere, server=SERVER)


def test_a_looser_objective_is_never_dearer() -> None:
    costs = []
    for p95_s in (0.06, 0.12, 0.5):
        answer = recommend(evidence(), OFFERED, Goal(p95_s=p95_s))
        if answer.chosen is not None:
            costs.append(answer.chosen.candidate.cost.month)
            assert all(check.keeps is not False for check in answer.chosen.checks)
    assert len(costs) == 3
    assert costs == sorted(costs, reverse=True)


def test_a_simulated_loop_reaches_the_limit_as_the_forecast_says() -> None:
    """16 clients with 28.2 operations each on 3,000 IOPS: 106 transactions/s, so 150 ms each."""
    volume = other_volume("ebs-gp3")
    service = Service(read_s=volume.read_s, write_s=volume.write_s, sigma=0.3)
    p95_s = simulated_p95_s(READS, service, volume.caps, dry=False)
    assert p95_s is not None
    outlook = predict([READS], volume).outlooks[0]
    assert p95_s == pytest.approx(16 / 106.0 * 1.2, rel=0.25)
    assert outlook.p95_interval is not None
    assert outlook.p95_interval[0] < 1000 * p95_s < outlook.p95_interval[1]


def test_a_simulated_loop_without_limits_takes_its_waits_one_after_the_other() -> None:
    service = Service(read_s=0.001, write_s=0.001, sigma=0.0)
    lonely = dataclasses.replace(READS, clients=1)
    p95_s = simulated_p95_s(lonely, service, (), dry=False)
    assert p95_s is not None
    assert 0.028 < p95_s < 0.05  # 28 reads of 1 ms, some transactions more, and 4 ms of CPU


def test_spent_credits_slow_the_simulated_loop_down() -> None:
    volume = other_volume("ebs-gp2?size=100GiB")
    service = Service(read_s=volume.read_s, write_s=volume.write_s, sigma=0.3)
    limits = (*volume.caps, *volume.buckets)
    full, dry = (simulated_p95_s(READS, service, limits, dry=each) for each in (False, True))
    assert full is not None
    assert dry is not None
    assert dry > 5 * full  # 3,000 against 300 IOPS


def test_a_run_whose_other_volume_refutes_the_forecast_recommends_nothing() -> None:
    slow = dataclasses.replace(READS, p95_s=2.0)
    with pytest.raises(Undecided, match="refuted by this run"):
        evidence(measured(slow, volume="b", spec="ebs-gp3?iops=6000")).require_known()
    right = dataclasses.replace(READS, p95_s=0.1)
    evidence(measured(right, volume="b", spec="ebs-gp3?iops=6000")).require_known()


@pytest.mark.parametrize(
    ("check", "why"),
    [
        (TailCheck(statistic="p95", errors=(0.4,), reason="p95 was off by 40 %"), "p95 was off by 40 %"),
        (TailCheck(statistic="p95", errors=(0.1, -0.2)), "p95 by it was off by at most 20 % on this run"),
    ],
)
def test_notes_say_why_p95_is_not_by_the_measured_response(check: TailCheck, why: str) -> None:
    response = MeasuredResponse(costs=(), levels=(), tails={0.95: check})
    load = MeasuredLoad(name="run", loads=(dataclasses.replace(measured(), response=response),), server=SERVER)
    (note,) = (note for note in load.notes if "measured response" in note)
    assert note.startswith("load: p95 is forecast from the load's demand")
    assert why in note
    assert not any("measured response" in note for note in evidence().notes)


def test_a_load_without_costs_is_refused_with_its_reason() -> None:
    with pytest.raises(Undecided, match="no counters of the volume"):
        evidence(demand=PredictionUnavailable(reason="no counters of the volume")).require_known()


def test_a_recovery_needs_one_that_was_measured() -> None:
    with pytest.raises(Undecided, match="crash step"):
        recommend(evidence(), OFFERED, Goal(recovery_s=60.0))
    known_values = dataclasses.replace(SERVER, recovery_s=30.0, recovered_read_s=0.001)
    chance = known_values.recovery_chance(OFFERED[0], 60.0)
    assert chance.keeps > 0.95
    assert known_values.recovery_chance(OFFERED[0], 10.0).keeps < 0.2


def test_settings_say_what_they_follow_from() -> None:
    answer = recommend(evidence(), OFFERED, Goal(p95_s=0.5))
    settings = {setting.name: setting for setting in answer.settings}
    assert settings["innodb_redo_log_capacity"].value == str(8 << 30)  # 1.5 MiB/s for an hour: 5.3 GiB
    assert settings["innodb_buffer_pool_size"].value == str(8 << 30)
    assert settings["innodb_flush_neighbors"].value == "0"
    assert all(setting.reason for setting in answer.settings)


def test_several_loads_are_kept_all_or_the_volume_is_not_sure() -> None:
    heavy = dataclasses.replace(READS, reads=120.0, reads_waited=120.0, tps=25.0, response_s=16 / 25, p95_s=0.8)
    goal = Goal(p95_s=0.3)
    item = recommend(evidence(), OFFERED, goal)
    both = MeasuredLoad(name="run", loads=(measured(), measured(heavy)), server=SERVER)
    answer = recommend(both, OFFERED, goal)
    assert item.chosen is not None
    assert answer.chosen is None or answer.chosen.candidate.cost.month > item.chosen.candidate.cost.month
