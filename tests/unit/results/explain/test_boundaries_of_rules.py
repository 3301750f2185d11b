"""Figures of single rules, each from just below and just above: literals, within 1.3 times of the figure.

Series are our own construction; what a case does not mention is absent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.evidence.volume_counts import Count
from volbench.results.explain.rules.host.memory import memory_findings
from volbench.results.explain.rules.host.steal import steal_findings
from volbench.results.explain.rules.network import network_findings
from volbench.results.explain.rules.stretch import collapsed, fallen, longest_collapse
from volbench.results.explain.rules.volume.lazy_load import lazy_load_findings
from volbench.results.stats.grid import Floats, Grid
from volbench.results.store.series import SeriesKey

Values = Mapping[tuple[str, str, str], Floats | float]


def case_of(values: Values, seconds: int, **facts: Any) -> Case:
    columns = {
        SeriesKey(source=source, metric=metric, entity=entity): np.ones(seconds) * value
        for (source, metric, entity), value in values.items()
    }
    grid = Grid(t_s=np.arange(1.0, seconds + 1), width_s=1.0, columns=columns)
    return Case(name="step", grid=grid, cell_grid=grid, **{"threads": 10, "cpus": 2, **facts})


# A page cache that is taken back, from second 14 of 40 on.
LATE = np.arange(40) >= 14
NOISE = 1 + 0.01 * np.array([0.0, 1.0, -1.0, 2.0, -2.0])[np.arange(40) % 5]


def reclaimed(
    *,
    before: float = 0.1,
    since: float = 0.95,
    at_device: float = 0.1,
    reads: float = 0.5,
    waits: tuple[float, float] = (0.0, 0.2),
) -> list[Cause]:
    """Whether the rule names it.

    Args:
        before, since: the device's part of the bytes that the server's files read.
        at_device: of the time of the server's reads, what the device takes since then.
        reads: times as many reads of the server since then.
        waits: shares of time in which tasks waited for memory, before and since then.
    """
    tps = np.where(LATE, 120.0, 400.0) * NOISE
    rate = np.where(LATE, 2000.0 * reads, 2000.0) * NOISE
    device = rate * np.where(LATE, since, before)
    device_ms = np.where(LATE, 2.0, 0.5)
    values: Values = {
        ("client", "tps", ""): tps,
        ("client", "latency_ms_p95", ""): 16000 / tps,
        ("performance_schema", "statement_s_per_s", ""): 10.0,
        ("performance_schema", "wait_s_per_s", "file_data"): 5.0,
        ("performance_schema", "file_reads_per_s", "data"): rate,
        ("performance_schema", "file_read_mib_per_s", "data"): rate / 64,
        ("performance_schema", "file_read_s_per_s", "data"): device * device_ms / 1000 / at_device,
        ("diskstats", "reads_per_s", "sda"): device,
        ("diskstats", "read_mib_per_s", "sda"): device / 64,
        ("diskstats", "r_await_ms", "sda"): device_ms,
        ("diskstats", "writes_per_s", "sda"): 1.0,
        ("psi", "memory_some_ratio", ""): np.where(LATE, waits[1], waits[0]),
    }
    return [*memory_findings(case_of(values, 40))]


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"before": 0.28}, True),
        ({"before": 0.32}, False),
        ({"since": 0.54}, True),
        ({"since": 0.46}, False),
        ({"since": 0.46, "at_device": 0.46}, False),
        ({"since": 0.46, "at_device": 0.54}, True),
        ({"since": 0.28, "at_device": 0.9}, False),
        ({"since": 0.32, "at_device": 0.9}, True),
        ({"reads": 1.06}, True),
        ({"reads": 1.14}, False),
    ],
)
def test_a_page_cache_is_taken_back(changed: dict[str, Any], named: bool) -> None:
    """The device had at most 30 % of the bytes before and has half of them since, or 30 % and half of the time."""
    assert bool(reclaimed(**changed)) is named


@pytest.mark.parametrize(
    ("waits", "waited"),
    [((0.0, 0.0047), False), ((0.0, 0.0053), True), ((0.01, 0.028), False), ((0.01, 0.032), True)],
)
def test_a_page_cache_is_surely_taken_back_where_tasks_wait_for_memory(
    waits: tuple[float, float], waited: bool
) -> None:
    """In 0.5 % of the time and three times as much as before; else it was dropped, or read over."""
    (finding,) = reclaimed(waits=waits)
    assert (False not in finding.checks) is waited


# A restored volume: thirds of a step of 36 intervals, and reads that become faster in each sixth.
def fetched(
    levels: Sequence[float],
    *,
    reads: tuple[float, float] = (50.0, 50.0),
    writes: float = 50.0,
    write_ms: float = 1.0,
    intervals: int = 36,
    balance: float | None = None,
) -> list[Cause]:
    """What the rule finds where a read takes so many milliseconds in each sixth of a step.

    Args:
        levels: of each sixth.
        reads: a second, in the first third and later.
        writes, write_ms: a second, and how long one takes.
        intervals: of a second.
        balance: percent of burst credits.
    """
    sixths = np.array_split(np.arange(intervals), 6)
    each_ms = np.concatenate([np.full(len(part), level) for part, level in zip(sixths, levels, strict=True)])
    values: dict[tuple[str, str, str], Floats | float] = {
        ("diskstats", "reads_per_s", "sda"): np.where(np.arange(intervals) < intervals / 3, *reads),
        ("diskstats", "r_await_ms", "sda"): each_ms,
        ("diskstats", "writes_per_s", "sda"): writes,
        ("diskstats", "w_await_ms", "sda"): write_ms,
    }
    if balance is not None:
        values["cloudwatch", "balance_percent", "volume"] = balance
    return [*lazy_load_findings(case_of(values, intervals))]


def falling(first_ms: float, left: float) -> list[float]:
    """Sixths that fall alike: the last third has `left` of the first one, which has `first_ms`."""
    ratio = left**0.25
    levels = ratio ** np.arange(6)
    return [float(level) for level in levels * first_ms / levels[:2].mean()]


def stepping(biggest: float) -> list[float]:
    """Sixths of which one step has `biggest` of the whole fall, of the logarithm, to a quarter."""
    falls = np.array([0.0, *[(1 - biggest) / 4] * 2, biggest, *[(1 - biggest) / 4] * 2])
    return [float(level) for level in 20 * np.exp(-np.log(4) * np.cumsum(falls))]


FAST = falling(18.0, 0.3)


@pytest.mark.parametrize(
    ("levels", "changed", "named"),
    [
        (falling(4.7, 0.3), {}, False),
        (falling(5.3, 0.3), {}, True),
        (FAST, {"write_ms": 5.7}, True),
        (FAST, {"write_ms": 6.3}, False),
        (falling(18.0, 0.56), {}, True),
        (falling(18.0, 0.64), {}, False),
        (stepping(0.56), {}, True),
        (stepping(0.64), {}, False),
        (FAST, {"reads": (105.0, 105.0)}, True),
        (FAST, {"reads": (117.0, 117.0)}, False),
        (FAST, {"reads": (200.0, 234.0)}, False),
        (FAST, {"reads": (200.0, 246.0)}, True),
        (FAST, {"balance": 19.0}, False),
        (FAST, {"balance": 21.0}, True),
        (FAST, {"intervals": 11}, False),
        (FAST, {"intervals": 12}, True),
        (FAST, {"reads": (0.9, 0.9)}, False),
        (FAST, {"reads": (1.1, 1.1)}, True),
        (FAST, {"writes": 0.9}, False),
        (FAST, {"writes": 1.1}, True),
    ],
)
def test_blocks_are_being_fetched(levels: list[float], changed: dict[str, Any], named: bool) -> None:
    """A read of 5 ms and 3 writes at first, 60 % of it at last, no step of 60 % of the fall, no queue of 2."""
    assert bool(fetched(levels, **changed)) is named


@pytest.mark.parametrize(("rise", "holds"), [(1.17, None), (1.23, True)])
def test_more_reads_a_second_speak_for_blocks_that_are_fetched(rise: float, holds: bool | None) -> None:
    (result,) = fetched(FAST, reads=(50.0, 50.0 * rise))
    assert result.checks[1] is holds


# The hypervisor.
@pytest.mark.parametrize(
    ("stolen", "busy", "named", "clearly"),
    [(0.047, 0.1, False, False), (0.053, 0.1, True, False), (0.094, 0.1, True, False), (0.106, 0.1, True, True)],
)
def test_cpu_time_is_stolen_from_one_in_twenty_on(stolen: float, busy: float, named: bool, clearly: bool) -> None:
    cpus: Values = {
        ("cpu", "steal_ratio", ""): stolen,
        ("cpu", "user_ratio", ""): busy,
        ("cpu", "system_ratio", ""): 0.0,
    }
    result = [*steal_findings(case_of(cpus, 20))]
    assert bool(result) is named
    assert all(item.checks[1] is clearly for item in result)


@pytest.mark.parametrize(("busy", "named"), [(0.60, True), (0.54, True), (0.63, False)])
def test_stolen_cpu_time_matters_from_fifteen_per_cent_of_what_was_wanted_on(busy: float, named: bool) -> None:
    """0.108 of 0.708, 0.648 and 0.738."""
    cpus: Values = {
        ("cpu", "steal_ratio", ""): 0.108,
        ("cpu", "user_ratio", ""): busy,
        ("cpu", "system_ratio", ""): 0.0,
    }
    assert bool([*steal_findings(case_of(cpus, 20))]) is named


# Host and volume count the same operations.
def count(host: float, volume: float, host_mib: float | None, volume_mib: float | None) -> Count:
    arrays = [None if value is None else np.full(3, value) for value in (host, volume, host_mib, volume_mib)]
    return Count(
        noun="reads",
        host=np.full(3, host),
        volume=np.full(3, volume),
        host_mib=arrays[2],
        volume_mib=arrays[3],
    )


@pytest.mark.parametrize(
    ("volume", "volume_mib", "is_split"),
    [
        (1480.0, 40.0, False),
        (1520.0, 40.0, True),
        (2000.0, 45.6, True),
        (2000.0, 46.4, False),
        (2000.0, 34.4, True),
        (2000.0, 33.6, False),
    ],
)
def test_operations_are_split(volume: float, volume_mib: float, is_split: bool) -> None:
    """One and a half times as many with the same bytes, within 15 %."""
    assert count(1000.0, volume, 40.0, volume_mib).is_split is is_split


def test_what_pieces_explain_of_a_volumes_operations() -> None:
    """115 % of the host's own, and without bytes of the volume a piece of 16 KiB each."""
    assert count(100.0, 2000.0, 10.0, None).beyond.tolist() == pytest.approx([2000 - 115 - 640] * 3)
    assert count(100.0, 2000.0, 10.0, 11.5).beyond.tolist() == pytest.approx([0.0] * 3)
    assert count(100.0, 2000.0, 10.0, 23.0).beyond.tolist() == pytest.approx([1000.0] * 3)
    assert count(100.0, 2000.0, None, None).beyond.tolist() == [0.0] * 3


# The stretch in which a load collapsed.
def tps(*values: float, **facts: Any) -> Case:
    return case_of({("client", "tps", ""): np.array(values)}, len(values), **facts)


@pytest.mark.parametrize(("during", "intervals", "result"), [(23.0, 2, 2), (27.0, 2, 0), (23.0, 1, 0), (0.0, 5, 5)])
def test_a_load_has_collapsed(during: float, intervals: int, result: int) -> None:
    """Less than a quarter of its usual for two intervals."""
    case = tps(*[100.0] * 10, *[during] * intervals, *[100.0] * 10)
    assert longest_collapse(case) == result


@pytest.mark.parametrize(("between", "result"), [(4, 4), (6, 0)])
def test_a_load_that_varies_has_not_collapsed(between: int, result: int) -> None:
    """Of 20 intervals up to a quarter may lie between a quarter and a half of the usual."""
    case = tps(*[100.0] * (16 - between), *[40.0] * between, *[10.0] * 4)
    assert int(collapsed(case).sum()) == result


@pytest.mark.parametrize(
    ("intervals", "usual", "result"), [(2, 10, False), (3, 10, True), (6, 5, True), (6, 4, False)]
)
def test_a_collapse_is_explained_by_itself(intervals: int, usual: int, result: bool) -> None:
    """With three intervals, where five are left."""
    assert (fallen(tps(*[100.0] * usual, *[5.0] * intervals)) is not None) is result


# The way to the server.
def on_the_way(**changed: float | Floats) -> list[Cause]:
    """Ten clients, of which statements have two."""
    shortest = changed.get("shortest", 0.1)
    values: Values = {
        ("client", "tps", ""): 50.0,
        ("performance_schema", "statements_per_s", ""): changed.get("statements", 1000.0),
        ("performance_schema", "statement_s_per_s", ""): changed.get("inside", 2.0),
        ("round_trip", "round_trip_ms_min", ""): shortest,
        ("round_trip", "round_trip_ms", ""): changed.get("usual", shortest),
        ("round_trip", "round_trip_ms_max", ""): changed.get("longest", shortest),
        ("round_trip", "round_trips_per_s", ""): 10.0,
        ("tcp", "timeouts_per_s", ""): changed.get("timeouts", 0.0),
        ("tcp", "probed_losses_per_s", ""): 0.0,
    }
    return [*network_findings(case_of(values, 20))]


@pytest.mark.parametrize(
    ("timeouts", "inside", "named"),
    [(18.0, 2.0, False), (21.0, 2.0, True), (7.0, 8.0, False), (8.0, 8.0, True)],
)
def test_packets_that_are_sent_again_explain_half_of_the_waits(timeouts: float, inside: float, named: bool) -> None:
    """0.2 s each: of ten clients 3.6 and 4.2 stand still, of 7.9 outside; and 1.4 and 1.6 of 1.9: 15 % of all."""
    assert ([item.cause for item in on_the_way(timeouts=timeouts, inside=inside)] == ["network.stalls"]) is named


@pytest.mark.parametrize(("longest", "named"), [(190.0, False), (210.0, True)])
def test_a_round_trip_is_delayed_from_a_retransmission_on(longest: float, named: bool) -> None:
    """1,000 statements a second that each take 6 ms longer: six of ten clients."""
    assert bool(on_the_way(usual=6.1, longest=longest)) is named


@pytest.mark.parametrize(("statements", "holds"), [(980.0, True), (1020.0, False)])
def test_no_more_clients_are_on_the_way_than_outside(statements: float, holds: bool) -> None:
    """5 ms each: 4.9 and 5.1 clients, of four outside, within a quarter."""
    (far,) = on_the_way(shortest=5.0, inside=6.0, statements=statements)
    assert far.checks[1] is holds


@pytest.mark.parametrize(("then", "begin_s"), [(3.7, 0.0), (4.3, 10.0)])
def test_a_distance_changes_from_four_times_on(then: float, begin_s: float) -> None:
    shortest = np.where(np.arange(20) >= 10, then, 1.0)
    (far,) = (item for item in on_the_way(shortest=shortest, statements=1500.0) if item.cause == "network.latency")
    assert far.window_s == (begin_s, 20.0)


# Every fifth second without a transaction, of two minutes: the others have the rate that the load wants.
STANDING = np.where(np.arange(120) % 5 == 4, 0.0, 1.0)


@pytest.mark.parametrize(("rate", "served"), [(4.8, False), (5.2, True), (5.8, True)])
def test_a_second_without_a_transaction_is_a_stand_from_five_arrivals_on(rate: float, served: bool) -> None:
    """Fewer may be missing by chance, and count as what the load did not get: a fifth of its rate."""
    values: Values = {
        ("client", "tps", ""): rate * STANDING,
        ("performance_schema", "statement_s_per_s", ""): 0.5,
    }
    assert case_of(values, 120, rate=rate).is_served is served
