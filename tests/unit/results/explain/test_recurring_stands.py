"""Stands in every interval, shorter than half a second: two kinds of transactions, and who stood with clients."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_throttle import with_columns
from synthetic_cell import Load, Storage, columns

from volbench.results.explain.case import Case
from volbench.results.explain.evidence.recurring_stands import stands_by_quantiles
from volbench.results.explain.findings import explain_case
from volbench.results.stats.grid import Floats, align

CLIENTS, TYPICAL_MS = 11, 75.0


def beating(*, busy: float, in_flight: float, statement_s: float = 10.3) -> Case:
    """A load of which all clients stand for 0.39 s about once a second; its reads are short in the mean."""
    load = Load(queue=3.0, threads=CLIENTS, seconds=30)
    grid = align(columns(load, Storage(latency_ms=0.8)))
    case = Case(name="load", grid=grid, cell_grid=grid, threads=load.threads, cpus=8)
    rate = 1000 * CLIENTS * (1 - 0.39) / TYPICAL_MS
    operations = sum(
        column
        for way in ("reads", "writes")
        if (column := grid.column("diskstats", f"{way}_per_s", "sda")) is not None
    )
    values: dict[tuple[str, str, str], Floats | float] = {
        ("client", "tps", ""): rate,
        ("client", "latency_ms_p50", ""): TYPICAL_MS,
        ("client", "latency_ms_p95", ""): 460.0,
        ("client", "latency_ms_p99", ""): 475.0,
        ("client", "latency_ms_max", ""): 485.0,
        ("performance_schema", "statement_s_per_s", ""): statement_s,
        ("diskstats", "util_ratio", "sda"): busy,
        ("diskstats", "aqu_sz", "sda"): in_flight,
        ("diskstats", "r_await_ms", "sda"): 1000 * in_flight / operations,
        ("diskstats", "w_await_ms", "sda"): 1000 * in_flight / operations,
    }
    return with_columns(case, values)


@pytest.mark.parametrize(
    ("busy", "in_flight", "named"),
    [(0.98, 9.0, "storage.stall"), (0.5, 3.0, "server.stall"), (0.7, 3.0, None), (0.98, 1.0, None)],
)
def test_who_stands_with_the_clients_is_decided_by_what_is_under_way(
    busy: float, in_flight: float, named: str | None
) -> None:
    """A volume that holds 11 clients for 0.39 of the time has 4.3 operations in flight, and is never idle then."""
    causes = [finding.cause for finding in explain_case(beating(busy=busy, in_flight=in_flight)).findings]
    assert [cause for cause in causes if cause.endswith(".stall")] == ([] if named is None else [named])


@pytest.mark.parametrize(("statement_s", "named"), [(4.2, False), (4.4, True)])
def test_clients_that_stand_outside_of_statements_stand_by_themselves(statement_s: float, named: bool) -> None:
    """Eleven of them for 0.39 of the time are 4.3 in statements, where the server is what stands."""
    case = beating(busy=0.5, in_flight=3.0, statement_s=statement_s)
    assert ("server.stall" in {finding.cause for finding in explain_case(case).findings}) is named


def test_clients_of_a_far_server_may_stand_on_their_way() -> None:
    """As those of a proxy that is stopped again and again."""
    case = with_columns(beating(busy=0.5, in_flight=3.0), {("round_trip", "round_trip_ms_min", ""): 0.2})
    assert "server.stall" not in {finding.cause for finding in explain_case(case).findings}


@pytest.mark.parametrize("busy", [0.98, 0.7])
def test_clients_that_stand_together_acquit_nothing_and_are_no_many_short_reads(busy: float) -> None:
    """Whoever stood: reads of 2.4 ms in the mean were called short beside transactions of 0.5 s in each second."""
    causes = {finding.cause for finding in explain_case(beating(busy=busy, in_flight=9.0)).findings}
    assert not causes & {"none", "memory.buffer_pool_small"}


def quantiles(p95: float, p99: float, *, share: float = 0.39, found_in: int = 20) -> bool:
    """Whether 20 intervals, of which some look like that, show stands."""
    usual, late, last = np.full(20, TYPICAL_MS), np.full(20, 100.0), np.full(20, 120.0)
    late[:found_in], last[:found_in] = p95, p99
    tps = np.full(20, 1000 * CLIENTS * (1 - share) / TYPICAL_MS)
    return stands_by_quantiles(tps, usual, late, last, clients=CLIENTS) is not None


def test_the_clients_time_in_stands_is_what_the_mean_has_beyond_the_median() -> None:
    tps = np.full(20, 89.5)
    stands = stands_by_quantiles(tps, *(np.full(20, ms) for ms in (75.0, 470.0, 490.0)), clients=CLIENTS)
    assert stands is not None
    assert stands.share == pytest.approx(0.39, abs=0.01)
    assert stands.length_ms == pytest.approx(395.0)


@pytest.mark.parametrize(("p95", "p99", "result"), [(470, 555, True), (470, 575, False)])
def test_a_tail_is_not_flat(p95: float, p99: float, result: bool) -> None:
    assert quantiles(p95, p99) is result


@pytest.mark.parametrize(("p95", "result"), [(230, True), (220, False)])
def test_who_stood_is_three_times_as_long_at_least(p95: float, result: bool) -> None:
    assert quantiles(p95, p95, share=0.2) is result


@pytest.mark.parametrize(("found_in", "result"), [(15, True), (14, False)])
def test_stands_are_in_three_quarters_of_the_intervals(found_in: int, result: bool) -> None:
    assert quantiles(470, 490, found_in=found_in) is result


@pytest.mark.parametrize(
    ("share", "result"), [(0.14, False), (0.17, False), (0.25, True), (0.7, True), (0.76, False)]
)
def test_as_many_stand_as_the_quantiles_say(share: float, result: bool) -> None:
    """With fewer than one of twenty p95 is not theirs, with more than half the median is."""
    assert quantiles(470, 490, share=share) is result
