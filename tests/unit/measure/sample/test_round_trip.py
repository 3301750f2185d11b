"""Round trips: what two readings make of them, and a server without a network before it."""

from __future__ import annotations

from pathlib import Path

import pytest

from volbench.measure.sample.config import SamplingConfig
from volbench.measure.sample.interface import Reading, Unavailable
from volbench.measure.sample.server import round_trip
from volbench.measure.sample.server.round_trip import RoundTripSampler
from volbench.measure.sample.shared import Shared


class Trips:
    """Stands for the thread that sends empty statements."""

    def __init__(self, *_: object) -> None:
        self.round_trips_s: list[float] = []
        self.is_running = True

    def start(self) -> None:
        """Nothing is sent."""

    def stop(self) -> None:
        """Nothing was begun."""


@pytest.fixture
def sampler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RoundTripSampler:
    monkeypatch.setattr(round_trip, "RoundTrips", Trips)
    option_file = tmp_path / "client.cnf"
    option_file.write_text("[client]\nuser=bench\nhost=db1\nport=3306\n")
    return RoundTripSampler(option_file)


def trips(sampler: RoundTripSampler) -> Trips:
    made = sampler._trips
    assert isinstance(made, Trips)
    return made


def test_shortest_mean_and_longest_of_an_interval(sampler: RoundTripSampler) -> None:
    assert sampler.probe().present
    trips(sampler).round_trips_s += [0.002, 0.002]
    before = Reading(t_s=1.0, values=sampler.read())
    trips(sampler).round_trips_s += [0.002, 0.003, 0.400]
    after = Reading(t_s=2.0, values=sampler.read())
    rows = {row.metric: row.value for row in RoundTripSampler.rates(before, after)}
    assert rows == {
        "round_trips_per_s": 3.0,
        "round_trip_ms": pytest.approx(135.0),
        "round_trip_ms_min": 2.0,
        "round_trip_ms_max": 400.0,
    }


def test_an_interval_in_which_none_ended_has_no_round_trip_and_no_zero(sampler: RoundTripSampler) -> None:
    sampler.probe()
    before, after = (Reading(t_s=t_s, values=sampler.read()) for t_s in (1.0, 2.0))
    assert [(row.metric, row.value) for row in RoundTripSampler.rates(before, after)] == [
        ("round_trips_per_s", 0.0)
    ]


def test_a_lost_connection_is_a_gap_and_is_made_anew(sampler: RoundTripSampler) -> None:
    sampler.probe()
    first = trips(sampler)
    first.is_running = False
    with pytest.raises(Unavailable, match="lost"):
        sampler.read()
    assert trips(sampler) is not first
    assert sampler.read()["count", ""] == 0


def test_a_server_on_a_socket_has_no_network(tmp_path: Path) -> None:
    config = SamplingConfig(raw_file="unused", zero_monotonic_ns=0, option_file=str(tmp_path / "client.cnf"))
    presence = RoundTripSampler.from_config(config, Shared(config)).probe()
    assert (presence.present, presence.reason) == (False, "the server is not reached over TCP")
    assert not RoundTripSampler.is_remote(config)
