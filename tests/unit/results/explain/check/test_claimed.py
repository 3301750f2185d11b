"""p95 as a finding claims it, with literals from tables of the gamma distribution and of a queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from volbench.results.explain.case import Case
from volbench.results.explain.causes import CAUSES
from volbench.results.explain.check.claimed import claimed_quantile
from volbench.results.explain.quantile import Waits, WaitTime
from volbench.results.stats.grid import Mask, align
from volbench.results.store.series import Series, SeriesKey

SECONDS = 20
EVERYTHING = np.ones(SECONDS, dtype=np.bool_)
LAST_FIVE = np.arange(SECONDS) >= 15
Columns = Mapping[tuple[str, str, str], float | Sequence[float]]


def case(
    columns: Columns, *, p95_ms: float = 100.0, mean_ms: float | None = None, rate: float | None = None
) -> Case:
    """A step of 20 seconds with 10 client threads, of which p95 and perhaps the mean are known."""
    t_s = np.arange(1.0, SECONDS + 1)
    series = {
        SeriesKey(source=source, metric=metric, entity=entity): Series(
            t_s=t_s, value=np.broadcast_to(np.asarray(value, dtype=float), t_s.shape).copy()
        )
        for (source, metric, entity), value in columns.items()
    }
    grid = align(series)
    known = {"latency_ms_p95": p95_ms} | ({} if mean_ms is None else {"latency_ms_mean": mean_ms})
    return Case(name="load", grid=grid, cell_grid=grid, threads=10, rate=rate, cpus=2, latency_ms=known)


def rebuilt_ms(
    step: Case, inside: Mask = EVERYTHING, *, waits: Waits = "counted", wait_time: WaitTime = "storage"
) -> float:
    quantile = claimed_quantile(step, inside, 0.95, waits=waits, wait_time=wait_time)
    assert quantile is not None
    return quantile.rebuilt_ms


@pytest.mark.parametrize(("waits", "times"), [("counted", 3.00), ("even", 1.35), ("queue for CPUs", 2.10)], ids=str)
def test_a_claim_says_how_even_waits_are(waits: Waits, times: float) -> None:
    """Ten clients with 100 transactions a second take 100 ms; gamma of shape 1, 25 and 3."""
    step = case({("client", "tps", ""): 100.0})
    assert rebuilt_ms(step, waits=waits) == pytest.approx(100.0 * times, rel=0.015)


@pytest.mark.parametrize(("queued", "times"), [(0.0, 1.35), (5.0, 1.55), (10.0, 2.10)])
def test_a_queue_for_cpus_is_a_part_of_the_time_with_a_spread_of_its_own(queued: float, times: float) -> None:
    """Of ten sessions five queue: variances of 1/4 x 1/3 and 1/4 x 1/25, shape 10.7."""
    step = case({("client", "tps", ""): 100.0, ("tasks", "run_delay_s_per_s", "cell"): queued})
    assert rebuilt_ms(step, waits="even") == pytest.approx(100.0 * times, rel=0.02)


def test_what_queues_at_a_rate_has_waited_since_it_came() -> None:
    """At 10 a second nothing ends for 4 s: who is done in the next one, of 50 that came, came 2 to 5 s before."""
    tps = [10.0] * 15 + [0.0] * 4 + [50.0]
    queue = [0.0] * 15 + [0.0, 10.0, 20.0, 30.0, 0.0]
    columns: Columns = {
        ("client", "tps", ""): tps,
        ("client", "queue_length", ""): queue,
        ("performance_schema", "statement_s_per_s", ""): [0.1] * 19 + [1.0],
        ("performance_schema", "statements_per_s", ""): 10.0,
    }
    step = case(columns, rate=10.0)
    assert 3000 < rebuilt_ms(step, LAST_FIVE, waits="even") < 5000
    assert rebuilt_ms(step, EVERYTHING, waits="even") > 3000
    before = np.arange(SECONDS) < 5
    assert rebuilt_ms(step, before, waits="even") < 100, "the queue is not in the finding's time"


def test_one_client_that_waits_for_a_moment_is_no_queue() -> None:
    """Arrivals of 0.08 s are less than a tenth of the interval, those of 0.12 s are more."""
    columns: Columns = {
        ("client", "tps", ""): 100.0,
        ("performance_schema", "statement_s_per_s", ""): 0.1,
        ("performance_schema", "statements_per_s", ""): 100.0,
    }
    short, long = (case({**columns, ("client", "queue_length", ""): size}, rate=100.0) for size in (8.0, 12.0))
    assert rebuilt_ms(short) < 5
    assert rebuilt_ms(long) == pytest.approx(220.0 * 1.35, rel=0.02)


def test_transactions_vary_as_the_seconds_that_the_cause_makes_longer() -> None:
    """In six of twenty seconds a quarter ends, and all but the CPUs' queue waits for storage: they are as slow."""
    columns: Columns = {
        ("client", "tps", ""): [100.0] * 14 + [25.0] * 6,
        ("performance_schema", "statement_s_per_s", ""): 10.0,
        ("performance_schema", "statements_per_s", ""): 100.0,
        ("tasks", "run_delay_s_per_s", "cell"): 0.5,
    }
    step, inside = case(columns), EVERYTHING
    assert rebuilt_ms(step, inside, waits="even", wait_time="storage") > 350
    assert rebuilt_ms(step, inside, waits="even", wait_time="CPUs") < 190
    assert rebuilt_ms(step, inside, waits="even", wait_time="") < 190


def test_pieces_are_not_longer_than_what_clients_measured() -> None:
    """Statements of 40 ms, of which 20 are a queue for CPUs that is counted once more, in transactions of 40 ms."""
    columns: Columns = {
        ("client", "tps", ""): 100.0,
        ("performance_schema", "statement_s_per_s", ""): 4.0,
        ("performance_schema", "statements_per_s", ""): 100.0,
        ("tasks", "run_delay_s_per_s", "cell"): 2.0,
        ("tasks", "cpus_used", "cell"): 0.0,
    }
    longer, measured = case(columns, rate=100.0), case(columns, rate=100.0, mean_ms=40.0)
    assert rebuilt_ms(longer, waits="queue for CPUs") == pytest.approx(60.0 * 2.10, rel=0.02)
    assert rebuilt_ms(measured, waits="queue for CPUs") == pytest.approx(40.0 * 2.10, rel=0.02)


def test_nothing_is_rebuilt_where_nothing_ended_or_no_mean_is_known() -> None:
    tps = [100.0] * 15 + [0.0] * 5
    assert claimed_quantile(case({("client", "tps", ""): tps}), LAST_FIVE, 0.95, waits="even", wait_time="") is None
    at_a_rate = case({("client", "tps", ""): 100.0}, rate=100.0)
    assert claimed_quantile(at_a_rate, EVERYTHING, 0.95, waits="even", wait_time="") is None


@pytest.mark.parametrize(
    ("name", "waits", "wait_time"),
    [
        ("storage.iops_limit", "even", "storage"),
        ("host.io_limit", "slices", "storage"),
        ("network.latency", "even", "between statements"),
        ("cpu.server_saturated", "queue for CPUs", "CPUs"),
        ("interference.cpu", "queue for CPUs", "CPUs"),
        ("interference.io", "counted", "storage"),
        ("storage.read_latency", "counted", "storage"),
        ("lock.row_contention", "in turn", "locks"),
        ("none", "counted", "statements"),
        ("lock.metadata_contention", "in turn", "locks"),
        ("server.stall", "stands", "storage"),
        ("storage.stall", "stands", "storage"),
        ("network.stalls", "stalls of the way", "between statements"),
        ("server.configured_wait", "even in its share", ""),
    ],
)
def test_descriptors_say_what_waits_a_cause_makes(name: str, waits: Waits, wait_time: WaitTime) -> None:
    assert (CAUSES[name].waits, CAUSES[name].wait_time) == (waits, wait_time)
