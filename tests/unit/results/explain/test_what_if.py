"""Predictions against physics that is known: the closed loop, its demand, and the limits of another volume."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_cell import Load, Storage, columns

from volbench.results.explain.accounts.closed_network import Station, solve
from volbench.results.explain.accounts.demand import Demand, PredictionUnavailable, demand_of
from volbench.results.explain.accounts.what_if import OtherVolume, other_volume, outlooks_of, predict
from volbench.results.explain.case import Case
from volbench.results.explain.case_input import ConcurrentActivity
from volbench.results.explain.rules.advice import lift, raise_limit_advice
from volbench.results.explain.tables import outlook_text, prediction_rows
from volbench.results.explain.wording import number
from volbench.results.stats.grid import align

EXAMPLES = Path(__file__).parents[4] / "results/examples/what-if"
LOAD = Load()
DEMAND = Demand(
    clients=8,
    tps=60.0,
    response_s=8 / 60,
    reads=28.0,
    writes=15.0,
    read_bytes=16384.0,
    write_bytes=24576.0,
    reads_waited=26.0,
    writes_waited=2.0,
    read_s=0.0034,
    write_s=0.016,
    cpu_s_min=0.004,
    cpu_s=0.006,
    cpu_s_max=0.008,
    cpu_known=True,
    cpus=2,
    locks_s=0.0,
    p95_s=0.23,
)


def case(load: Load = LOAD, **more: object) -> Case:
    grid = align(columns(load, Storage(iops=2000.0)))
    known_values = {"threads": load.threads, "cpus": 8, **more}
    return Case(name="load", grid=grid, cell_grid=grid, **known_values)  # type: ignore[arg-type]


def test_one_client_never_queues() -> None:
    result = solve(clients=1, delay_s=0.03, stations=[Station(name="a", demand_s=0.01)])
    assert result.rate_min == result.rate_max == pytest.approx(25.0)
    assert result.bound == ""


def test_many_clients_reach_the_tightest_station() -> None:
    stations = [Station(name="disk", demand_s=0.01), Station(name="CPU", demand_s=0.016, servers=4)]
    result = solve(clients=400, delay_s=0.1, stations=stations)
    assert result.bound == "disk"
    assert result.rate == pytest.approx(100, rel=0.01)


def test_two_clients_and_one_station_by_hand() -> None:
    """X(1) = 1 / 2, Q(1) = 1 / 2; R(2) = 1 + 1.5, X(2) = 2 / 2.5; at most min(2 / 2, 1 / 1)."""
    result = solve(clients=2, delay_s=1.0, stations=[Station(name="s", demand_s=1.0)])
    assert result.rate_min == pytest.approx(0.8)
    assert result.rate_max == pytest.approx(1.0)


@given(
    clients=st.integers(1, 200),
    delay_s=st.floats(0.001, 1),
    demands=st.lists(st.floats(1e-5, 0.1), min_size=1, max_size=4),
)
def test_random_service_is_never_faster_than_the_bound(clients: int, delay_s: float, demands: list[float]) -> None:
    stations = [Station(name=str(number), demand_s=demand) for number, demand in enumerate(demands)]
    result = solve(clients=clients, delay_s=delay_s, stations=stations)
    assert 0 < result.rate_min <= result.rate_max * (1 + 1e-9)


def test_a_capped_volume_gives_its_iops_divided_by_a_transactions_operations() -> None:
    (steady,) = outlooks_of(dataclasses.replace(DEMAND, clients=200), other_volume("ebs-gp3"))
    assert steady.regime == "steady"
    assert (steady.bound, steady.bound_per_s) == ("volume.iops", 3000)
    assert steady.tps == pytest.approx(3000 / 43, rel=0.02)


@given(st.integers(3000, 15_000), st.integers(100, 5_000))
def test_more_provisioned_iops_are_never_slower(iops: int, more: int) -> None:
    less, much = (outlooks_of(DEMAND, other_volume(f"ebs-gp3?iops={n}"))[0] for n in (iops, iops + more))
    assert much.tps >= less.tps * (1 - 1e-9)
    assert less.tps_interval[0] <= less.tps <= less.tps_interval[1]


def test_a_burst_is_told_apart_from_what_follows() -> None:
    burst, baseline = outlooks_of(DEMAND, other_volume("ebs-gp2?size=100GiB"))
    assert (burst.regime, baseline.regime) == ("burst", "baseline")
    assert baseline.tps == pytest.approx(300 / (28 + 15 * (60 / baseline.tps) ** 0.2), rel=0.02)
    assert burst.lasts_s == pytest.approx(5.4e6 / (43 * burst.tps - 300), rel=0.05)
    (empty,) = outlooks_of(DEMAND, other_volume("ebs-gp2?size=100GiB&credits=0%"))
    assert empty.regime == "baseline"


def test_credits_that_last_for_ever_are_no_burst() -> None:
    light = dataclasses.replace(DEMAND, clients=1, reads=0.1, writes=0.1, reads_waited=100.0)
    (steady,) = outlooks_of(light, other_volume("ebs-gp2?size=300GiB"))
    assert steady.regime == "steady"


def test_cpu_limits_what_no_volume_can_lift() -> None:
    (steady,) = outlooks_of(
        dataclasses.replace(DEMAND, clients=200, cpu_s=0.02), other_volume("ebs-io2?iops=60000")
    )
    assert steady.bound == "CPU"
    assert steady.tps == pytest.approx(100, rel=0.02)


def test_cpus_that_others_may_have_used_are_not_predicted_from() -> None:
    busy = dataclasses.replace(DEMAND, cpu_s=0.2, cpu_known=False)
    assert "how much of that was this load is not known" in predict([busy], other_volume("ebs-io2")).cannot
    assert predict([busy], other_volume("ebs-gp2?size=34GiB&credits=0%")).outlooks


def test_demand_is_what_the_load_was_made_of() -> None:
    result = demand_of(case())
    assert isinstance(result, Demand)
    assert result.reads / (result.reads + result.writes) == pytest.approx(0.65, abs=0.03)
    assert result.read_bytes == pytest.approx(16384, rel=0.01)
    assert result.response_s == pytest.approx(16 / result.tps)


def test_shares_of_statement_time_are_of_statements() -> None:
    """Of 20 clients 16 are in a statement: a quarter more clients wait for no more reads, syncs and locks each.

    The server's shares were multiplied with the clients' time. What is outside of statements stays where the volume
    changes.
    """
    locks = Load(row_lock_s_per_s=1.6)
    inside, more = demand_of(case(locks)), demand_of(case(locks, threads=20))
    assert isinstance(inside, Demand)
    assert isinstance(more, Demand)
    assert more.response_s == pytest.approx(1.25 * inside.response_s)
    for name in ("reads_waited", "writes_waited", "locks_s"):
        assert getattr(more, name) == pytest.approx(getattr(inside, name))
    assert inside.locks_s == pytest.approx(0.1 * inside.response_s)
    assert inside.outside_s == pytest.approx(0.0, abs=1e-9)
    assert more.outside_s == pytest.approx(4 / more.tps)


def test_the_clients_own_cpu_time_counts_once() -> None:
    """A CPU of the client is a station of the loop already."""
    load = demand_of(case(threads=20, client_cpus=1.5))
    assert isinstance(load, Demand)
    assert load.outside_s == pytest.approx(2.5 / load.tps)


def test_no_volume_shortens_what_is_outside_of_statements() -> None:
    far = dataclasses.replace(DEMAND, writes=0.0, writes_waited=0.0, outside_s=0.1)
    (steady,) = outlooks_of(far, OtherVolume(name="", read_s=1e-6, write_s=1e-6, caps=()))
    assert steady.tps == pytest.approx(8 / 0.106, rel=0.05)


def test_statements_of_what_runs_beside_a_load_are_not_its_own() -> None:
    result = demand_of(case(concurrent=(ConcurrentActivity(name="mysqldump", t0_s=0.0, t1_s=60.0),)))
    assert isinstance(result, PredictionUnavailable)
    assert "counted with its own" in result.reason


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"rate": 100.0}, "rate of its own"),
        ({"threads": None}, "number of clients"),
        ({"kind": "dump"}, "loads of transactions"),
        ({"cpus": None}, "CPU time"),
    ],
)
def test_what_cannot_be_told_is_said(more: dict[str, Any], reason: str) -> None:
    result = demand_of(case(**more))
    assert isinstance(result, PredictionUnavailable)
    assert reason in result.reason


def test_locks_and_unsteady_hits_are_reasons() -> None:
    locked = demand_of(case(Load(row_lock_s_per_s=8.0)))
    assert isinstance(locked, PredictionUnavailable)
    assert "locks take" in locked.reason
    warming = case()
    key = next(key for key in warming.grid.columns if key.metric == "reads_per_s")
    fading = warming.grid.columns[key].copy()
    fading[len(fading) // 2 :] /= 3
    changed = dataclasses.replace(warming.grid, columns={**warming.grid.columns, key: fading})
    result = demand_of(dataclasses.replace(warming, grid=changed, cell_grid=changed))
    assert isinstance(result, PredictionUnavailable)
    assert "not steady" in result.reason


@pytest.mark.parametrize(
    ("limited", "reason"),
    [
        ({"threads": 40}, "outside of statements while CPUs are free"),
        ({"load": Load(queue=0.5)}, "neither a wait that the server shows nor CPU time"),
        ({"throttled": "server"}, "a CPU quota held the server back in 80 % of its periods"),
        ({"throttled": "client"}, "a CPU quota held the client back"),
    ],
)
def test_a_limit_that_the_model_does_not_know_is_a_reason(limited: dict[str, object], reason: str) -> None:
    """A faster volume would leave it as it is: no figure then."""
    load = limited.pop("load", LOAD)
    who = limited.pop("throttled", None)
    assert isinstance(load, Load)
    retained = {("cgroup_cpu", "throttled_ratio", str(who)): np.full(load.seconds, 0.8)} if who else {}
    followers = {("performance_schema", "wait_s_per_s", "binlog_group"): np.zeros(load.seconds)}
    grid = align(columns(load, Storage(iops=2000.0, extra={**retained, **followers})))
    result = demand_of(dataclasses.replace(case(load, **limited), grid=grid, cell_grid=grid))
    assert isinstance(result, PredictionUnavailable)
    assert reason in result.reason


@pytest.mark.parametrize(
    ("spec", "slower"), [("ebs-gp2?size=34GiB&credits=0%", True), ("ebs-gp3?iops=6000", False)]
)
def test_a_volume_of_another_speed_may_have_other_writes(spec: str, slower: bool) -> None:
    """Pages are also written by time: the interval goes from the same writes beyond the figure."""
    many = dataclasses.replace(DEMAND, clients=200)
    fixed = dataclasses.replace(many, writes=0.0, reads=43.0)  # the same operations, none of them written
    result, same = (outlooks_of(item, other_volume(spec))[0] for item in (many, fixed))
    near, far = (1, 0) if slower else (0, 1)
    assert result.tps_interval[near] == pytest.approx(same.tps_interval[near], rel=0.01)
    times = result.tps_interval[far] / same.tps_interval[far]
    assert times < 0.9 if slower else times > 1.02
    assert (times < result.tps / same.tps < 0.95) if slower else (1.01 < result.tps / same.tps < times)


def test_a_transaction_waits_for_no_more_reads_than_it_does() -> None:
    """Where reads seem to take longer in the server than on the volume, the rest was for something else."""
    slower = {("performance_schema", "wait_s_per_s", "file_data"): np.full(LOAD.seconds, 15.5)}
    grid = align(columns(LOAD, Storage(latency_ms=0.8, extra=slower)))
    result = demand_of(dataclasses.replace(case(), grid=grid, cell_grid=grid))
    assert isinstance(result, Demand)
    assert result.reads_waited <= result.reads


@pytest.mark.parametrize(("cpu_s_per_s", "times"), [(0.08, 1.1), (0.4, 1.5), (4.0, 2.0)])
def test_cpu_time_beside_statements_is_taken_for_less_on_idle_cpus(cpu_s_per_s: float, times: float) -> None:
    """Of eight CPUs: 1, 5 and 50 % used by statements."""
    cpu = {("performance_schema", "query_cpu_s_per_s", "q"): np.full(LOAD.seconds, cpu_s_per_s)}
    grid = align(columns(LOAD, Storage(iops=2000.0, extra=cpu)))
    result = demand_of(dataclasses.replace(case(cpus=8), grid=grid, cell_grid=grid))
    assert isinstance(result, Demand)
    assert result.cpu_s == pytest.approx(min(result.cpu_s_max, times * cpu_s_per_s / result.tps))


def test_a_pool_that_is_kept_free_is_told_beside_the_prediction() -> None:
    """Hits go with it, and it goes with the volume's speed."""
    second = other_volume("ebs-gp2?size=100GiB&credits=0%")
    assert (
        "kept 45 % of its buffer pool free" in predict([dataclasses.replace(DEMAND, pool_free=0.45)], second).caveat
    )
    free = {("innodb", "buffer_pool_free_ratio", ""): np.full(LOAD.seconds, 0.3)}
    grid = align(columns(LOAD, Storage(iops=2000.0, extra=free)))
    result = demand_of(dataclasses.replace(case(), grid=grid, cell_grid=grid))
    assert isinstance(result, Demand)
    assert result.pool_free == pytest.approx(0.3)


def test_repeats_give_the_median_and_the_widest_interval() -> None:
    volume = other_volume("ebs-gp3")
    each = [outlooks_of(dataclasses.replace(DEMAND, reads=reads), volume)[0] for reads in (20.0, 28.0, 40.0)]
    (result,) = predict([dataclasses.replace(DEMAND, reads=reads) for reads in (20.0, 28.0, 40.0)], volume).outlooks
    assert result.tps == each[1].tps
    assert result.tps_interval == (each[2].tps_interval[0], each[0].tps_interval[1])


def test_advice_predicts_as_what_if_does() -> None:
    """2,000 IOPS are less than 16 clients would do at 0.8 ms an operation: more of it helps, and by how much."""
    quiet = align(columns(Load(queue=1.2, seconds=20), Storage()))
    capped = dataclasses.replace(case(LOAD, client_cpus=0.1), cell_grid=quiet)
    result = lift(capped, "iops")
    assert result is not None
    assert result.tps > 1.5 * (capped.tps or 0)
    assert result.tps_interval[0] <= result.tps <= result.tps_interval[1]
    assert f"about {number(result.tps)} tps" in raise_limit_advice(capped, "iops", 2000.0)
    assert "next limit is CPU" in raise_limit_advice(capped, "iops", 2000.0)


def test_advice_without_a_prediction_names_no_figure() -> None:
    unknown = raise_limit_advice(case(rate=50.0), "iops", 2000.0)
    assert "would lift" not in unknown
    assert "twice the IOPS carry at most twice" in unknown


def test_undo_that_is_left_is_told_beside_the_prediction() -> None:
    """What purge puts off is in no count of the window."""
    second = other_volume("ebs-gp2?size=100GiB&credits=0%")
    kept_up, lagging = (dataclasses.replace(DEMAND, undo_left=left) for left in (0.05, 0.9))
    assert "history list" not in predict([kept_up], second).caveat
    assert "history list grew" in predict([lagging], second).caveat


@pytest.mark.parametrize(("purged", "left"), [(1.0, 0.0), (0.5, 0.5), (0.3, 0.7), (0.0, 1.0)])
def test_undo_left_is_the_growth_of_the_history_list(purged: float, left: float) -> None:
    """For each transaction, between times at which undo left the list; without end where none leaves a long one."""
    tps = case().tps
    assert tps is not None
    second = np.arange(LOAD.seconds)
    length = 100.0 + tps * (second - purged * 5 * (second // 5))
    storage = Storage(iops=2000.0, extra={("innodb", "history_list_length", ""): length})
    grid = align(columns(LOAD, storage))
    result = demand_of(dataclasses.replace(case(), grid=grid, cell_grid=grid))
    assert isinstance(result, Demand)
    assert result.undo_left == pytest.approx(left, abs=0.05)


UPDATES = dataclasses.replace(DEMAND, reads=0.79, writes=3.15, reads_waited=0.79, writes_waited=1.6)
"""As the index updates of tests/benchmarks/what_if_unseen.yaml, which were off by up to 58 %."""
READS = dataclasses.replace(DEMAND, writes=0.0, writes_waited=0.0)


def test_a_short_list_that_nothing_left_tells_nothing() -> None:
    """Purge takes undo from the list in every 128th of its rounds."""
    length = 100.0 + 20.0 * np.arange(LOAD.seconds, dtype=np.float64)
    grid = align(columns(LOAD, Storage(iops=2000.0, extra={("innodb", "history_list_length", ""): length})))
    result = demand_of(dataclasses.replace(case(), grid=grid, cell_grid=grid))
    assert isinstance(result, Demand)
    assert result.undo_left == 0.0


@pytest.mark.parametrize("clients", [8, 200])
def test_a_load_that_mostly_writes_has_no_figure(clients: int) -> None:
    updates = dataclasses.replace(UPDATES, clients=clients, tps=1000.0)
    result = predict([updates], other_volume("ebs-gp2?size=300GiB&credits=0%"))
    (outlook,) = result.outlooks
    low, high = outlook.tps_interval
    assert not outlook.states_tps
    assert outlook_text(outlook).startswith(f"{number(low)} to {number(high)} tps, p95 ")
    assert "only the interval is given" in result.caveat


@pytest.mark.parametrize(("writes", "stated"), [(0.55, True), (0.65, False)])
def test_a_load_that_reads_as_much_as_it_writes_has_a_figure(writes: float, stated: bool) -> None:
    """Single-row updates with 0.65 of their operations written were off by 69 %; loads of up to 0.53 by 14 %."""
    demand = dataclasses.replace(DEMAND, reads=10 * (1 - writes), writes=10 * writes)
    (outlook,) = predict([demand], other_volume("ebs-gp3")).outlooks
    assert outlook.states_tps is stated


def test_p95_has_a_figure_for_loads_that_only_read() -> None:
    """The tail of a load that writes was off by 32 % at the median, that of reads by 10 %."""
    volume = other_volume("ebs-gp3")
    ((reads,), (writes,)) = (predict([demand], volume).outlooks for demand in (READS, DEMAND))
    assert "p95 about" in outlook_text(reads)
    low, high = writes.p95_interval or (0.0, 0.0)
    assert f", p95 {number(low)} to {number(high)} ms;" in outlook_text(writes)
    assert predict([READS], volume).caveat == ""
    assert "how long its tail is" in predict([DEMAND], volume).caveat


def test_what_is_not_stated_is_null_in_the_report() -> None:
    volume = other_volume("ebs-gp2?size=300GiB&credits=0%")
    prediction = predict([dataclasses.replace(UPDATES, tps=1000.0)], volume)
    (row,) = prediction_rows(prediction, ("disk", "update-index", 16))
    assert (row.tps, row.latency_ms_p95) == (None, None)
    assert row.tps_interval == prediction.outlooks[0].tps_interval


def test_what_is_stated_of_the_recorded_pairs_is_near_what_was_run() -> None:
    """results/examples/what-if: the rule was made from these loads, so this proves nothing of new ones."""
    files = (EXAMPLES / name for name in ("pairs.json", "unseen.json"))
    pairs = [pair for file in files for pair in json.loads(file.read_text())["pairs"]]
    stated = [abs(pair["error"]) for pair in pairs if pair["step"] != "update-index"]
    assert len(stated) == 36
    assert max(stated) <= 0.15
    reads = [pair for pair in pairs if pair["step"] in ("point-select", "read-only")]
    p95 = [abs(pair["predicted_latency_ms_p95"] / pair["latency_ms_p95"] - 1) for pair in reads]
    assert (len(p95), round(float(np.median(p95)), 2)) == (18, 0.10)
