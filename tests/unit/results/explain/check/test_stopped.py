"""p95 of transactions that a quota, a limit, a stand, a lost packet or a lock stops, by counts of a step.

The figures of each case are those of one recorded run of the lab (seeds 703 and 704), rounded, and so is the p95.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from volbench.results.explain.case import Case
from volbench.results.explain.check.claimed import claimed_quantile
from volbench.results.explain.quantile import Waits, WaitTime
from volbench.results.stats.grid import align
from volbench.results.store.series import Series, SeriesKey

SECONDS = 10
Columns = Mapping[tuple[str, str, str], float | Sequence[float]]
TPS = ("client", "tps", "")
STATEMENTS = ("performance_schema", "statement_s_per_s", "")
NUMBER = ("performance_schema", "statements_per_s", "")
DELAY = ("tasks", "run_delay_s_per_s", "cell")
ROW_WAITS = ("innodb", "row_lock_waits_per_s", "")
ROW_WAIT_S = ("innodb", "row_lock_wait_s_per_s", "")


def rebuilt_ms(
    columns: Columns,
    *,
    threads: int,
    waits: Waits,
    wait_time: WaitTime,
    share: float | None = None,
    rate: float | None = None,
) -> float:
    """p95 by the claim of a step of ten seconds."""
    t_s = np.arange(1.0, SECONDS + 1)
    series = {
        SeriesKey(source=source, metric=metric, entity=entity): Series(
            t_s=t_s, value=np.broadcast_to(np.asarray(value, dtype=float), t_s.shape).copy()
        )
        for (source, metric, entity), value in columns.items()
    }
    grid = align(series)
    step = Case(
        name="load",
        grid=grid,
        cell_grid=grid,
        threads=threads,
        rate=rate,
        cpus=2,
        latency_ms={"latency_ms_p95": 1.0},
    )
    everything = np.ones(SECONDS, dtype=np.bool_)
    quantile = claimed_quantile(step, everything, 0.95, waits=waits, wait_time=wait_time, share=share)
    assert quantile is not None
    return quantile.rebuilt_ms


def quota(ratio: float, withheld_s: float, *, tps: float = 730.0) -> float:
    columns: Columns = {
        TPS: tps,
        DELAY: 14.0,
        ("cgroup_cpu", "throttled_ratio", "server"): ratio,
        ("cgroup_cpu", "throttled_s_per_s", "server"): withheld_s,
    }
    return rebuilt_ms(columns, threads=15, waits="queue for CPUs", wait_time="CPUs")


def test_a_quota_of_cpus_stops_each_client_once_in_its_period() -> None:
    """15 clients, 73 transactions in 100 ms: a fifth of them wait 50 of it. The recorded p95 is 68 ms."""
    assert quota(1.0, 1.0) == pytest.approx(68.0, rel=0.1)
    assert quota(1.0, 1.4) == pytest.approx(82.0, rel=0.1), "70 of 100 ms"
    assert quota(0.0, 0.0) == pytest.approx(20.5 * 2.1, rel=0.05), "no quota: a queue"


def test_a_quota_that_stops_fewer_than_one_transaction_in_twenty_leaves_p95_as_it_is() -> None:
    """15 in 400: a step with fast transactions."""
    assert quota(1.0, 1.0, tps=4000.0) < 8


def limited(
    *, tps: float | Sequence[float] = 1110.0, threads: int = 6, device_ms: float = 0.1, reads: float = 1.0
) -> float:
    ended = np.broadcast_to(np.asarray(tps, dtype=float), SECONDS)
    columns: Columns = {
        TPS: ended.tolist(),
        STATEMENTS: float(threads),
        NUMBER: ended.tolist(),
        ("performance_schema", "file_reads_per_s", "data"): (reads * ended).tolist(),
        ("performance_schema", "file_read_s_per_s", "data"): 0.95 * threads,
        ("diskstats", "r_await_ms", "vda"): device_ms,
        ("diskstats", "r_await_ms", "dm-0"): 5.0,
    }
    return rebuilt_ms(columns, threads=threads, waits="slices", wait_time="storage")


def test_a_limit_of_a_control_group_lets_operations_through_in_slices() -> None:
    """Six clients, 111 reads in 100 ms: 5.4 % wait for the next slice. With 3 % p95 is that of a read."""
    assert limited() > 90
    assert limited(tps=2000.0) < 4
    assert limited(tps=1300.0) < 6, "4.6 %"


def test_transactions_of_a_slice_and_more_wait_for_a_whole_number_of_slices() -> None:
    """114 ms with 19 reads: 1.14 slices on average, so that one in seven waits for two. Recorded: 194 ms."""
    assert limited(tps=61.0, threads=7, reads=19.0, device_ms=0.7) == pytest.approx(194.0, rel=0.15)


def test_what_the_device_takes_is_no_slice() -> None:
    """Of 5.4 ms a read has 4.9 at the device: half a millisecond in slices is one read in 200."""
    assert limited(device_ms=4.9) < 9


def test_the_fastest_interval_of_several_met_no_limit() -> None:
    """Time in stops is lost throughput: at 1,200 a second, of which 6 in 120 would wait for a slice, none is lost.

    With less than twice as many in the fastest interval all of them are limited.
    """
    assert limited(tps=[1200.0] * 9 + [590.0]) < 8
    assert limited(tps=[1150.0] * 9 + [610.0]) > 80


def standing(stands_s: Sequence[float], *, tps: float = 400.0) -> float:
    lost = [1 - (stands_s[number] if number < len(stands_s) else 0.0) for number in range(SECONDS)]
    columns: Columns = {
        TPS: [tps * each for each in lost],
        STATEMENTS: 4.0,
        NUMBER: tps,
        ("progress", "standstill_ms_max", ""): [1000.0 * (1 - each) for each in lost],
    }
    return rebuilt_ms(columns, threads=4, waits="stands", wait_time="storage")


def test_a_stand_holds_each_client_once_and_p95_is_that_of_the_others() -> None:
    """8 of 3,400 transactions waited 0.75 s; the others take 10 ms, and three times that at random."""
    assert standing([0.75, 0.0, 0.75]) == pytest.approx(30.0, rel=0.05)
    assert standing([]) == pytest.approx(30.0, rel=0.05)


def test_stands_of_a_slow_load_are_its_p95() -> None:
    """With six transactions a second 8 of 51 waited."""
    assert standing([0.75, 0.0, 0.75], tps=6.0) > 750


def on_the_way(*, longest_ms: float, timeouts_per_s: float, tps: float, threads: int) -> float:
    columns: Columns = {
        TPS: tps,
        STATEMENTS: 0.3,
        NUMBER: tps,
        ("round_trip", "round_trip_ms_min", ""): 0.3,
        ("round_trip", "round_trip_ms", ""): 0.4,
        ("round_trip", "round_trip_ms_max", ""): longest_ms,
        ("round_trip", "round_trips_per_s", ""): 10.0,
        ("tcp", "timeouts_per_s", ""): timeouts_per_s,
        ("tcp", "probed_losses_per_s", ""): 0.0,
    }
    return rebuilt_ms(columns, threads=threads, waits="stalls of the way", wait_time="between statements")


def test_lost_packets_stop_a_connection_for_a_timeout() -> None:
    """57 timeouts in 2,690 transactions of 4.8 ms: 2.1 % wait 200 ms, the others take 0.6. Recorded: 0.71 ms."""
    assert on_the_way(longest_ms=208.0, timeouts_per_s=57.0, tps=2690.0, threads=13) == pytest.approx(
        0.71, rel=0.25
    )
    assert on_the_way(longest_ms=208.0, timeouts_per_s=57.0, tps=600.0, threads=13) > 200


def test_a_pause_of_the_way_stops_all_clients() -> None:
    """10 clients, 135 transactions a second: one in 13 waits 420 ms. Recorded: 489 ms."""
    assert on_the_way(longest_ms=420.0, timeouts_per_s=0.0, tps=135.0, threads=10) == pytest.approx(480.0, rel=0.1)
    assert on_the_way(longest_ms=190.0, timeouts_per_s=0.0, tps=135.0, threads=10) < 110, "no pause: alike"


def locked(*, waits_per_s: float, locked_s: float, tps: float, threads: int) -> float:
    columns: Columns = {
        TPS: tps,
        STATEMENTS: float(threads),
        NUMBER: tps,
        ROW_WAITS: waits_per_s,
        ROW_WAIT_S: locked_s,
    }
    return rebuilt_ms(columns, threads=threads, waits="in turn", wait_time="locks")


def test_a_row_is_given_in_turn_to_those_that_wait() -> None:
    """Recorded: 288 ms of one row with 35 ms of work, 136 ms of 70 rows of which 62 % wait for one."""
    assert locked(waits_per_s=42.8, locked_s=6.15, tps=49.2, threads=8) == pytest.approx(288.0, rel=0.1)
    assert locked(waits_per_s=283.0, locked_s=14.5, tps=456.0, threads=21) == pytest.approx(136.0, rel=0.15)


def test_few_waits_for_locks_are_no_turn() -> None:
    """4.5 % and 5.5 % of the time; the first varies as a whole, of the second 94.5 ms do: ln 18 of them."""
    below, above = (locked(waits_per_s=10.0, locked_s=seconds, tps=100.0, threads=10) for seconds in (0.45, 0.55))
    assert below == pytest.approx(300.0, rel=0.05)
    assert above == pytest.approx(273.0, rel=0.02)


def test_a_configured_wait_is_even_in_its_share_of_the_time() -> None:
    """Of 100 ms a half is even and a half as random as one wait: a deviation of 51 ms."""
    columns: Columns = {TPS: 100.0}
    halves, none = (
        rebuilt_ms(columns, threads=10, waits="even in its share", wait_time="", share=share)
        for share in (0.5, 0.0)
    )
    assert halves == pytest.approx(196.0, rel=0.03)
    assert none == pytest.approx(300.0, rel=0.02)


def test_a_load_at_a_rate_meets_no_stop_of_all_its_threads() -> None:
    """Not all of its threads are at a transaction: a quota stops those that are."""
    columns: Columns = {
        TPS: 100.0,
        STATEMENTS: 0.5,
        NUMBER: 100.0,
        ("cgroup_cpu", "throttled_ratio", "server"): 1.0,
        ("cgroup_cpu", "throttled_s_per_s", "server"): 1.0,
    }
    assert rebuilt_ms(columns, threads=15, waits="queue for CPUs", wait_time="CPUs", rate=100.0) < 12
