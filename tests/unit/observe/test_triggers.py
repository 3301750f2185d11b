"""What a trigger may say, and when an incident begins and ends."""

from __future__ import annotations

from typing import Any

import pytest

from volbench.core.records.facts import ServerFacts
from volbench.errors import EXIT_USAGE, MissingPrerequisite, UsageError
from volbench.observe.observer import refuse_unknowable
from volbench.observe.recent import StallClock
from volbench.observe.triggers import METRICS, Fired, TriggerState, parse_trigger


@pytest.mark.parametrize(
    ("text", "metric", "limit", "for_s"),
    [
        ("p95 > 200ms for 5s", "p95", 200.0, 5.0),
        ("p95>0.2s for 5s", "p95", 200.0, 5.0),
        ("P99 >= 1.5 ms", "p99", 1.5, 0.0),
        ("credits < 10 %", "credits", 10.0, 0.0),
        ("credits<10 for 2m", "credits", 10.0, 120.0),
        ("statements < 5 /s for 500ms", "statements", 5.0, 0.5),
        ("throughput > 1 GiB/s for 10 s", "throughput", 1024.0, 10.0),
        ("threads_running > 25 for 5s", "threads_running", 25.0, 5.0),
    ],
)
def test_what_a_trigger_says(text: str, metric: str, limit: float, for_s: float) -> None:
    trigger = parse_trigger(text)
    assert (trigger.metric, trigger.limit, trigger.for_s) == (metric, pytest.approx(limit), for_s)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("p59 > 1ms", "perhaps you meant p9"),
        ("latency > 1ms", "metrics: p50"),
        ("awiat > 1ms", "perhaps you meant await"),
        ("p95 = 200ms", "this is no trigger"),
        ("p95 > -1ms", "this is no trigger"),
        ("p95 > 200", "write 200ms or 200s"),
        ("iops > 200ms", "units of iops: /s"),
        ("p95 > 200ms for ages", "a duration such as"),
        ("p95 > 200ms while 5s", "this is no trigger"),
        ("", "this is no trigger"),
    ],
)
def test_a_mistake_is_told_with_what_would_be_right(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_trigger(text)
    assert message in str(caught.value)
    assert caught.value.exit_code == EXIT_USAGE == 2


def test_every_metric_can_be_used() -> None:
    for name, metric in METRICS.items():
        for unit in metric.units:
            if unit or not name.startswith(("p", "await", "r_", "w_", "statement_")):
                assert parse_trigger(f"{name} > 1{unit}").metric == name


def fired(text: str, values: list[float | None], *, cooldown_s: float = 3.0, **limits: Any) -> list[Fired]:
    """What comes of values of one second each; the last entry is what stands at the end."""
    state = TriggerState(trigger=parse_trigger(text), cooldown_s=cooldown_s, **limits)
    sees = [state.see(value, float(second), second + 1.0) for second, value in enumerate(values)]
    return [item for item in (*sees, state.stop()) if item is not None]


def test_it_must_hold_for_so_long_without_a_break() -> None:
    assert fired("p95 > 10ms for 3s", [1, 20, 20, 1, 20, 20, 1]) == []
    (first, *_, last) = fired("p95 > 10ms for 3s", [1, 20, 20, 30, 1, 1, 1, 1, 1])
    assert (first.onset_s, first.end_s) == (1.0, None)
    assert (last.onset_s, last.end_s, last.worst) == (1.0, 4.0, 30.0)


def test_one_that_comes_back_soon_is_the_same_incident() -> None:
    result = fired("p95 > 10ms", [20, 1, 1, 20, 1, 1, 1, 1])
    assert {item.onset_s for item in result} == {0.0}
    assert result[-1].end_s == 4.0
    later = fired("p95 > 10ms", [20, 1, 1, 1, 1, 20, 1, 1, 1, 1])
    assert {item.onset_s for item in later} == {0.0, 5.0}


def test_seconds_without_a_value_neither_begin_nor_end_anything() -> None:
    """In a stall no statement ends, so no latency is known: the incident goes on."""
    result = fired("p95 > 10ms for 4s", [20, None, None, None, 20, 1, 1, 1, 1])
    assert (result[-1].onset_s, result[-1].end_s) == (0.0, 5.0)
    assert fired("p95 > 10ms", [None, None, 1]) == []


def test_what_ends_after_a_stall_began_before_it() -> None:
    """Nothing completed for three seconds, then operations that took 1.5 s on average."""
    (first, *_) = fired("await > 50ms", [1, 1, None, None, None, 1500, 1, 1])
    assert first.onset_s == 2.0
    (idle, *_) = fired("await > 50ms", [1, *[None] * 60, 100, 1])
    assert idle.onset_s == 60.8, "an idle hour is no stall"
    (rate, *_) = fired("iops < 5", [9, None, None, 1, 9])
    assert rate.onset_s == 3.0


def test_a_stall_is_seen_while_it_lasts() -> None:
    clock = StallClock()
    seconds = [(30, 1), (2, 1), (0, 3), (0, 3), (0, 3), (90, 0), (0, 0), (0, 0)]
    values = [clock.see({"iops": iops, "in_flight": waiting}, 1.0) for iops, waiting in seconds]
    assert values == [0, 0, 1000, 2000, 3000, 0, 0, 0]
    assert clock.see({"reads": 3}, 1.0) is None
    (first, *_, last) = fired("stalled > 1s", values)
    assert (first.onset_s, last.end_s) == (2.0, 5.0)


def test_one_long_interval_counts_with_its_length() -> None:
    """The server hung: the reading after it is about all of that time."""
    state = TriggerState(trigger=parse_trigger("p95 > 10ms for 5s"))
    assert state.see(1.0, 0.0, 1.0) is None
    result = state.see(5000.0, 1.0, 7.0)
    assert result is not None
    assert result.onset_s == 1.0


def test_a_limit_that_is_always_exceeded_is_one_incident_that_ends() -> None:
    result = fired("p95 > 10ms", [20.0] * 30, length_s_max=10.0)
    assert [item.end_s for item in result if item.end_s is not None] == [10.0]
    again = fired("p95 > 10ms", [*[20.0] * 12, 1.0, *[20.0] * 3], length_s_max=10.0)
    assert {item.onset_s for item in again} == {0.0, 13.0}


def test_an_incident_that_goes_on_ends_with_the_observation() -> None:
    assert fired("credits < 10%", [50, 5, 4])[-1] == Fired(
        trigger=parse_trigger("credits < 10%"), onset_s=1.0, end_s=3.0, worst=4.0
    )


@pytest.mark.parametrize(
    ("text", "absent", "host_seen", "message"),
    [
        ("p95 > 1ms", {"statement_histograms": "this server has no histograms"}, True, "use statement_time"),
        ("statement_time > 1ms", {"performance_schema": "performance_schema is off"}, True, "is off"),
        ("await > 1ms", {}, False, "host is not seen"),
        ("credits < 5", {}, False, "host is not seen"),
        ("cpu > 90%", {}, False, "host is not seen"),
    ],
)
def test_a_trigger_that_could_never_fire_is_refused(
    text: str, absent: dict[str, str], host_seen: bool, message: str
) -> None:
    server = ServerFacts(flavor="mariadb", version="10.11", absent=absent)
    with pytest.raises(MissingPrerequisite) as caught:
        refuse_unknowable([parse_trigger(text)], server, host_seen=host_seen)
    assert message in str(caught.value)


def test_a_trigger_on_what_is_known_is_not_refused() -> None:
    server = ServerFacts(flavor="mysql", version="8.4")
    every = [parse_trigger(f"{name} > 1{value.unit}") for name, value in METRICS.items()]
    refuse_unknowable(every, server, host_seen=True)
    no_schema = ServerFacts(flavor="mysql", version="8.4", absent={"performance_schema": "off"})
    refuse_unknowable([parse_trigger("threads_running > 25")], no_schema, host_seen=False)
