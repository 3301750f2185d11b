"""Real runs over a network that other programs made slow: toxiproxy, netfilter, a proxy that was stopped.

The figures to compare with are the lab's own: SELECT 1 on the way of the clients and on the server's socket, what
the server counted of its statements, and the kernel's counters (tests/fixtures/kernel-throttle/README.md).
"""

from __future__ import annotations

import pytest
from kernel_throttle import case_of

from volbench.results.explain.cause import Cause
from volbench.results.explain.findings import explain_case


def findings(name: str) -> dict[str, Cause]:
    return {finding.cause: finding for finding in explain_case(case_of(name)).findings}


def storage(named: dict[str, Cause]) -> list[str]:
    return [cause for cause in named if cause.startswith(("storage.", "host."))]


def test_a_delay_is_named_with_what_the_lab_measured_of_it() -> None:
    """The lab: 9.1 ms for each round trip, 53 % of the clients' time, on CPUs that others kept busy."""
    named = findings("network-delay")
    assert next(iter(named)) == "network.latency"
    assert named["network.latency"].share == pytest.approx(0.53, abs=0.06)
    values = {row.metric: row.value for row in named["network.latency"].evidence}
    assert values["round_trip_ms"] == pytest.approx(9.1, abs=0.5)
    assert storage(named) == []


def test_a_delay_that_is_small_against_statements_accuses_neither_network_nor_storage() -> None:
    """The lab: 1.6 ms for each round trip, 5 % of the clients' time."""
    named = findings("network-delay-small")
    assert not [cause for cause in named if cause.startswith("network.")]
    assert storage(named) == []


def test_lost_packets_are_named_by_what_tcp_sent_again() -> None:
    """netfilter dropped 49 packets a second; 46 losses that TCP repaired late hold 72 % of the clients' time."""
    named = findings("network-loss")
    assert next(iter(named)) == "network.stalls"
    assert named["network.stalls"].share == pytest.approx(0.72, abs=0.04)
    assert not named["network.stalls"].one_of_two
    assert "Packets are lost" in named["network.stalls"].advice
    assert storage(named) == []


def test_a_proxy_that_stops_on_saturated_cpus_is_one_of_two() -> None:
    """It was stopped for 26 % of the time. The CPUs were saturated by others, and a wait for one looks alike."""
    named = findings("network-pause")
    assert named["network.stalls"].one_of_two
    assert named["network.stalls"].share == pytest.approx(0.26, abs=0.05)
    assert storage(named) == []


def test_a_proxy_that_stops_for_nearly_a_second_at_a_time_is_no_distance() -> None:
    """It was stopped for 67 % of the time; in some seconds the only empty statement took 0.9 s."""
    named = findings("network-pause-of-a-second")
    assert set(named) == {"network.stalls"}
    assert named["network.stalls"].share == pytest.approx(0.67, abs=0.1)


def test_an_episode_at_a_fixed_rate_has_its_time() -> None:
    """The lab delayed answers by 5 ms from second 16.1 to second 20.3."""
    named = findings("network-delay-rate")
    window_s = named["network.latency"].window_s
    assert window_s == (pytest.approx(16.1, abs=1.5), pytest.approx(20.3, abs=1.5))
    assert storage(named) == []
