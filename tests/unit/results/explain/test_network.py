"""The network between client and server: Little's law for round trips, and what it must not be taken for."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.evidence.network import network_account, without_peaks
from volbench.results.explain.findings import explain_case
from volbench.results.stats.grid import align
from volbench.results.store.series import Series, SeriesKey

Floats = NDArray[np.float64]
SECONDS, CLIENTS, STATEMENTS = 20, 10, 20.0


def closed_loop(
    *,
    distance_ms: float | Floats = 0.1,
    inside_ms: float = 2.0,
    delayed_ms: float | Floats = 0.0,
    longest_ms: float | Floats | None = None,
    busy: float = 0.2,
    **more: float,
) -> Case:
    """Ten clients whose transactions have twenty statements, each on the way and then in the server.

    Args:
        distance_ms: of the shortest round trip, by second.
        inside_ms: of a statement in the server.
        delayed_ms: what a round trip takes longer than the shortest, on average.
        longest_ms: of the empty statement's round trips.
        busy: share of the host's CPU time.
        more: `rate` of the load.
    """
    each = np.ones(SECONDS)
    distance, delayed = distance_ms * each, delayed_ms * each
    statements = CLIENTS / (distance + delayed + inside_ms) * 1000
    longest = distance + delayed if longest_ms is None else longest_ms * each
    values = {
        ("client", "tps"): statements / STATEMENTS,
        ("client", "latency_ms_p50"): STATEMENTS * (distance + delayed + inside_ms),
        ("client", "latency_ms_p95"): 2 * STATEMENTS * (distance + delayed + inside_ms),
        ("performance_schema", "statements_per_s"): statements,
        ("performance_schema", "statement_s_per_s"): statements * inside_ms / 1000,
        ("round_trip", "round_trip_ms_min"): distance,
        ("round_trip", "round_trip_ms"): distance + delayed,
        ("round_trip", "round_trip_ms_max"): longest,
        ("round_trip", "round_trips_per_s"): 10.0 * each,
        ("cpu", "user_ratio"): busy * each,
        ("cpu", "system_ratio"): 0.0 * each,
    }
    t_s = np.arange(1.0, SECONDS + 1)
    grid = align(
        {
            SeriesKey(source=source, metric=metric, entity=""): Series(t_s=t_s, value=value)
            for (source, metric), value in values.items()
        }
    )
    return Case(name="load", grid=grid, cell_grid=grid, threads=CLIENTS, cpus=2, rate=more.get("rate"))


def named(case: Case, cause: str) -> Cause | None:
    return next((finding for finding in explain_case(case).findings if finding.cause == cause), None)


@pytest.mark.parametrize(
    ("round_trips", "distances"),
    [
        ([1, 9, 1, 1, 9, 9, 1], [1, 1, 1, 1, 1, 1, 1]),  # one interval, and two
        ([1, 9, 9, 9, 1], [1, 9, 9, 9, 1]),
        ([1, 1, 1, 9, 8, 9], [1, 1, 1, 8, 8, 8]),
        ([9, 1, 1, 1], [1, 1, 1, 1]),
        ([5], [5]),
    ],
)
def test_a_distance_lasts_three_intervals(round_trips: list[float], distances: list[float]) -> None:
    assert without_peaks(np.array(round_trips, dtype=float), 3).tolist() == distances


def test_a_far_server_is_named_with_its_share_and_what_a_near_one_would_give() -> None:
    """6 ms on the way and 2 ms in the server: three quarters of each transaction of 160 ms."""
    finding = named(closed_loop(distance_ms=6.0), "network.latency")
    assert finding is not None
    assert finding.share == pytest.approx(0.75)
    values = {row.metric: row.value for row in finding.evidence}
    assert values["round_trip_ms"] == 6.0
    assert values["round_trips"] == pytest.approx(20.0)
    # 20 statements that take 0.5 + 2 ms in place of 8: 50 ms of 160, 200 tps of 62.5.
    assert "take about 50 ms in place of 160: 62.5 to 200 tps" in finding.advice


def test_a_delay_that_is_small_against_statements_accuses_nobody() -> None:
    assert named(closed_loop(distance_ms=1.5, inside_ms=40.0), "network.latency") is None


def test_a_server_next_door_is_not_far_however_short_its_statements_are() -> None:
    """0.3 ms is what a round trip takes within a data centre: it is most of the time, and nothing is wrong."""
    assert named(closed_loop(distance_ms=0.3, inside_ms=0.1), "network.latency") is None


def test_a_delay_that_begins_has_its_time() -> None:
    distance = np.where(np.arange(SECONDS) < 8, 0.1, 10.0)
    finding = named(closed_loop(distance_ms=distance), "network.latency")
    assert finding is not None
    assert finding.window_s == (8.0, 20.0)
    assert finding.share == pytest.approx(12 / 20 * 10 / 12)
    assert any(row.metric == "loss" for row in finding.evidence)


def test_clients_on_the_way_are_no_more_than_those_outside_of_statements() -> None:
    """Conservation: the load's statements take another, faster way than the empty one."""
    case = closed_loop(distance_ms=1.0, inside_ms=4.0)
    columns = dict(case.grid.columns)
    columns[SeriesKey(source="round_trip", metric="round_trip_ms_min", entity="")] = np.full(SECONDS, 30.0)
    grid = align({key: Series(t_s=case.grid.t_s, value=value) for key, value in columns.items()})
    finding = named(Case(name="load", grid=grid, cell_grid=grid, threads=CLIENTS, cpus=2), "network.latency")
    assert finding is not None
    assert finding.share == pytest.approx(0.2)
    assert finding.kind == "some failed"


def test_lost_packets_are_named_where_the_empty_statement_met_them() -> None:
    """Of 100 round trips 2 take 200 ms longer: 4 ms on average, beside 2 ms in the server."""
    longest = np.where(np.arange(SECONDS) % 5 == 0, 201.0, 0.2)
    finding = named(closed_loop(delayed_ms=4.0, longest_ms=longest), "network.stalls")
    assert finding is not None
    assert finding.share == pytest.approx(4.0 / 6.1, rel=0.02)
    assert named(closed_loop(delayed_ms=4.0, longest_ms=longest), "network.latency") is None


@pytest.mark.parametrize(
    ("longest_ms", "busy"), [(30.0, 0.2), (250.0, 1.0)], ids=["none took 200 ms", "CPUs are saturated"]
)
def test_slow_round_trips_of_busy_cpus_are_no_lost_packets(longest_ms: float, busy: float) -> None:
    assert named(closed_loop(delayed_ms=4.0, longest_ms=longest_ms, busy=busy), "network.stalls") is None


def test_packets_that_tcp_sent_again_are_witnesses_on_saturated_cpus_too() -> None:
    """20 waits of 0.2 s and more in each second: four of ten clients stand still at a time."""
    case = closed_loop(delayed_ms=3.0, longest_ms=250.0, busy=1.0)
    columns = {
        **case.grid.columns,
        SeriesKey(source="tcp", metric="timeouts_per_s", entity=""): np.full(SECONDS, 5.0),
        SeriesKey(source="tcp", metric="probed_losses_per_s", entity=""): np.full(SECONDS, 15.0),
    }
    grid = align({key: Series(t_s=case.grid.t_s, value=value) for key, value in columns.items()})
    finding = named(Case(name="load", grid=grid, cell_grid=grid, threads=CLIENTS, cpus=2), "network.stalls")
    assert finding is not None
    assert finding.share == pytest.approx(0.4)
    assert "Packets are lost" in finding.advice


def test_a_pause_beside_saturated_cpus_is_one_of_two() -> None:
    """The empty statement was on its way for 40 % of the time; a CPU that it waited for would look alike."""
    case = closed_loop(delayed_ms=3.0, longest_ms=650.0, busy=1.0)
    columns = dict(case.grid.columns)
    columns[SeriesKey(source="round_trip", metric="round_trip_ms", entity="")] = np.full(SECONDS, 60.1)
    columns[SeriesKey(source="round_trip", metric="round_trips_per_s", entity="")] = np.full(SECONDS, 6.7)
    grid = align({key: Series(t_s=case.grid.t_s, value=value) for key, value in columns.items()})
    finding = named(Case(name="load", grid=grid, cell_grid=grid, threads=CLIENTS, cpus=2), "network.stalls")
    assert finding is not None
    assert finding.one_of_two
    assert finding.share == pytest.approx(0.4, abs=0.01)
    assert any(row.metric == "decide" for row in finding.evidence)
    cpus = named(Case(name="load", grid=grid, cell_grid=grid, threads=CLIENTS, cpus=2), "cpu.server_saturated")
    assert cpus is not None
    assert cpus.one_of_two


def test_clients_that_wait_elsewhere_are_not_on_the_way() -> None:
    """Outside of statements for most of their time, with fast round trips: the clients themselves are slow."""
    case = closed_loop(delayed_ms=10.0, longest_ms=250.0)
    columns = dict(case.grid.columns)
    columns[SeriesKey(source="round_trip", metric="round_trip_ms", entity="")] = np.full(SECONDS, 0.2)
    grid = align({key: Series(t_s=case.grid.t_s, value=value) for key, value in columns.items()})
    assert named(Case(name="load", grid=grid, cell_grid=grid, threads=CLIENTS, cpus=2), "network.stalls") is None


def test_a_load_of_its_own_rate_has_the_clients_that_are_busy() -> None:
    """Little: X transactions a second of L seconds each are X * L clients, ten here."""
    case = closed_loop(distance_ms=6.0, rate=62.5)
    account = network_account(case.grid, threads=40, rate=62.5)
    assert account is not None
    assert account.clients == pytest.approx(np.full(SECONDS, 10.0))
    finding = named(case, "network.latency")
    assert finding is not None
    assert finding.share == pytest.approx(0.75)


def test_without_round_trips_nothing_is_said_of_the_network() -> None:
    case = closed_loop(distance_ms=6.0)
    columns = {key: value for key, value in case.grid.columns.items() if key.source != "round_trip"}
    grid = align({key: Series(t_s=case.grid.t_s, value=value) for key, value in columns.items()})
    assert network_account(grid, threads=CLIENTS, rate=None) is None
