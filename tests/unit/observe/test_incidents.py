"""Incidents: one for one event, and stands that no trigger was set for."""

from __future__ import annotations

import numpy as np

from volbench.core.records.series import SeriesRow
from volbench.observe.incidents import by_event, found_afterwards
from volbench.observe.model import Incident
from volbench.observe.recent import StandClock
from volbench.results.explain.case import Case
from volbench.results.stats.grid import Grid
from volbench.results.store.series import SeriesKey


def incident(name: str, trigger: str, onset_s: float, end_s: float | None) -> Incident:
    return Incident(
        name=name,
        trigger=trigger,
        metric=trigger.split(maxsplit=1)[0],
        unit="ms",
        limit=1.0,
        worst=2.0,
        onset_s=onset_s,
        end_s=end_s,
        window_s=(max(0.0, onset_s - 60), (end_s or onset_s) + 10),
    )


def test_triggers_that_see_one_event_make_one_incident() -> None:
    """An event's effects end one after the other: the last end is its end."""
    observed = [
        incident("002", "p95 > 200ms", 101.0, 109.0),
        incident("001", "stalled > 1s", 100.0, 104.0),
        incident("003", "p95 > 200ms", 130.0, 131.0),
    ]
    first, second = by_event(observed)
    assert (first.name, first.trigger, first.onset_s, first.end_s) == (
        "001",
        "stalled > 1s and p95 > 200ms",
        100.0,
        109.0,
    )
    assert first.window_s == (40.0, 119.0)
    assert second == observed[2], "twenty seconds later is another event"


def test_an_event_that_goes_on_has_no_end() -> None:
    (going_on,) = by_event([incident("001", "await > 50ms", 10.0, None), incident("002", "p95 > 9ms", 40.0, 41.0)])
    assert going_on.end_s is None


def stood(seconds: int = 60, *, at: int = 30) -> Case:
    """A load of 1,000 transactions a second; all stand for 0.8 s within one second."""
    keys = (SeriesKey(source="client", metric="tps"), SeriesKey(source="client", metric="latency_ms_max"))
    noise = np.random.default_rng(4)
    tps, slowest = 1000 + noise.normal(0, 15, seconds), 8 + noise.normal(0, 1, seconds)
    tps[at], slowest[at] = 200, 805
    grid = Grid(t_s=np.arange(1.0, seconds + 1), width_s=1.0, columns=dict(zip(keys, (tps, slowest), strict=True)))
    return Case(name="observed", grid=grid, cell_grid=grid)


def test_a_stand_within_a_second_is_found_without_a_trigger() -> None:
    (result,) = found_afterwards(stood())
    assert result.trigger == "found afterwards: no session got an answer for up to 798 ms"
    assert result.end_s is not None
    assert result.onset_s <= 30.2
    assert result.end_s >= 31.0
    assert not [*found_afterwards(stood(at=0))][1:]


def test_the_clock_of_stands_tells_them_from_a_slow_statement() -> None:
    """Where one statement takes long and the others go on, nobody stands."""

    def lengths(begun: float, slowest_ms: float) -> float | None:
        clock = StandClock(width_s=1.0)
        for second in range(30):
            last = second == 29
            rows = (
                SeriesRow(
                    t_s=second, source="performance_schema", metric="statements_per_s", value=begun if last else 900
                ),
                SeriesRow(t_s=second, source="client", metric="latency_ms_max", value=slowest_ms if last else 5),
            )
            value = clock.see(rows)
        return value

    assert lengths(180, 800) is not None
    assert 700 < (lengths(180, 800) or 0) < 900
    assert lengths(880, 800) == 0.0
    assert lengths(880, 30) == 0.0
    assert StandClock(width_s=1.0).see([SeriesRow(t_s=1, source="cpu", metric="user_ratio", value=1.0)]) is None
