"""What the check has against findings whose figures contradict them; each figure of a threshold is a literal here.

All cases are constructed: the figures are those of injections in which the finding was wrong, on series of stated
physics. Recorded ones are scored by `test_raw_sample.py`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from synthetic_cell import Load, Storage, columns

from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.check.distribution import distribution_of
from volbench.results.explain.check.objections import most_served, objections
from volbench.results.explain.objection import Claim, Objection
from volbench.results.explain.wording import row
from volbench.results.stats.grid import align
from volbench.results.store.series import Series, SeriesKey

Columns = Mapping[tuple[str, str, str], float]
SECONDS = 60


def case(
    load: Load | None = None, storage: Storage | None = None, constant: Columns | None = None, **more: object
) -> Case:
    """A step of a minute; `constant` replaces columns by one value, NaN takes one away."""
    load = load or Load(seconds=SECONDS)
    result = columns(load, storage or Storage(latency_ms=0.4))
    t_s = np.arange(1.0, load.seconds + 1)
    for (source, metric, entity), value in (constant or {}).items():
        result[SeriesKey(source=source, metric=metric, entity=entity)] = Series(
            t_s=t_s, value=np.full(len(t_s), value)
        )
    grid = align({key: item for key, item in result.items() if np.isfinite(item.value).any()})
    return Case(name="load", grid=grid, cell_grid=grid, threads=load.threads, cpus=8, **more)  # type: ignore[arg-type]


def finding(
    cause: str, *values: tuple[str, float], share: float | None = 0.6, t0_s: float = 0.0, t1_s: float = 60.0
) -> Cause:
    return Cause(
        cause=cause,
        window_s=(t0_s, t1_s),
        share=share,
        checks=(True,),
        evidence=tuple(row(metric, value, "1", "") for metric, value in values),
        advice="",
    )


def against(of: Case, cause: Cause, claim: Claim) -> tuple[Objection, ...]:
    return objections(of, cause, frozenset({claim}))


@pytest.mark.parametrize(
    ("writes", "most"),
    [
        ([633.0, 198.0, 151.0, *[60.0] * 27], 140.2),  # recorded on a volume of 192 IOPS
        ([60.0] * 10 + [330.0] * 10 + [60.0] * 10, 330.0),
        ([60.0] * 30, 60.0),
    ],
)
def test_a_moment_of_small_writes_is_not_what_a_volume_serves(writes: list[float], most: float) -> None:
    """Intervals of 0.2 s: what the volume gave is its mean over two seconds."""
    t_s = np.linspace(0.2, 0.2 * len(writes), len(writes))
    series = {
        SeriesKey(source="emulator", metric=metric, entity="volume"): Series(t_s=t_s, value=np.array(values))
        for metric, values in (("writes_per_s", writes), ("reads_per_s", [0.0] * len(writes)))
    }
    grid = align(series)
    served = most_served(Case(name="load", grid=grid, cell_grid=grid, threads=1, cpus=8))
    assert served["iops"] == pytest.approx(most, rel=0.01)


def laws(of: Case, cause: Cause, claim: Claim) -> list[str]:
    return [item.law for item in against(of, cause, claim)]


# A limit does not lie below what was served.
@pytest.mark.parametrize(("level", "refuted"), [(340.0, True), (380.0, False), (440.0, False)])
def test_a_limit_below_what_was_served_for_three_intervals_is_none(level: float, refuted: bool) -> None:
    served = {("diskstats", "reads_per_s", "sda"): 300.0, ("diskstats", "writes_per_s", "sda"): 150.0}
    result = against(case(constant=served), finding("storage.iops_limit", ("iops", level)), "limit")
    assert [item.law for item in result] == (["consistency"] if refuted else [])
    assert [item.recorded for item in result] == ([pytest.approx(450.0)] if refuted else [])


@pytest.mark.parametrize(("intervals", "refuted"), [(2, False), (3, True)])
def test_one_or_two_intervals_above_a_limit_are_its_bucket(intervals: int, refuted: bool) -> None:
    rate = np.full(SECONDS, 300.0)
    rate[20 : 20 + intervals] = 400.0
    above = Storage(
        extra={("diskstats", "reads_per_s", "sda"): rate, ("diskstats", "writes_per_s", "sda"): 0 * rate}
    )
    result = laws(case(storage=above), finding("storage.iops_limit", ("iops", 300.0)), "limit")
    assert result == (["consistency"] if refuted else [])


def test_what_was_served_before_a_limit_acts_says_nothing_against_it() -> None:
    falls = Storage(iops=lambda t_s: np.where(t_s <= 30, 3000.0, 150.0))
    named = finding("storage.iops_limit", ("iops", 150.0), t0_s=31.0)
    assert laws(case(Load(queue=24, threads=24), falls), named, "limit") == []


# What the server's own control group lets through is no limit of the volume below it.
@pytest.mark.parametrize(
    ("may", "sent", "carried", "decided_by", "refuted"),
    [
        (1000.0, 910.0, 910.0, "metered", True),
        (1000.0, 890.0, 890.0, "metered", False),
        (1000.0, 1090.0, 1090.0, "metered", True),
        (1000.0, 1110.0, 1110.0, "metered", False),
        (1000.0, 1000.0, 1100.0, "metered", True),
        (1000.0, 1000.0, 1120.0, "metered", False),
        (1000.0, 1000.0, 1000.0, "counted", False),
        (float("nan"), 1000.0, 1000.0, "metered", False),
    ],
)
def test_a_rate_that_the_servers_group_may_have_is_no_limit_of_the_volume(
    may: float, sent: float, carried: float, decided_by: Any, refuted: bool
) -> None:
    """Two limits of one size were named: the group's 916 IOPS, and 909 of a volume without a limit (recorded)."""
    served = {
        ("diskstats", "reads_per_s", "sda"): carried,
        ("diskstats", "writes_per_s", "sda"): 0.0,
        ("cgroup_io", "read_ops_per_s", "server"): sent,
        ("cgroup_io", "read_iops_max", "server"): may,
    }
    named = dataclasses.replace(finding("storage.iops_limit", ("iops", carried)), decided_by=decided_by)
    result = against(case(constant=served), named, "limit")
    assert [item.law for item in result] == (["consistency"] if refuted else [])
    assert all("the group lets through" in item.text for item in result)


@pytest.mark.parametrize(("seconds", "refuted"), [(47, False), (49, True)])
def test_a_groups_limit_is_set_for_most_of_the_findings_time(seconds: int, refuted: bool) -> None:
    rate, nothing = np.full(SECONDS, 1000.0), np.zeros(SECONDS)
    may = np.where(np.arange(SECONDS) < seconds, 1000.0, np.nan)
    storage = Storage(
        extra={
            ("diskstats", "reads_per_s", "sda"): rate,
            ("diskstats", "writes_per_s", "sda"): nothing,
            ("cgroup_io", "read_ops_per_s", "server"): rate,
            ("cgroup_io", "read_iops_max", "server"): may,
        }
    )
    named = finding("storage.iops_limit", ("iops", 1000.0))
    assert laws(case(storage=storage), named, "limit") == (["consistency"] if refuted else [])


# Others' I/O is enough for what it is said to take: 0 % of what the device does, and 95 % of the speed.
def foreign(mib_per_s: float, operations: float) -> Case:
    """A server that reads 62 MiB/s in 1,000 operations, beside others that read on the same device."""
    return case(
        constant={
            ("performance_schema", "file_reads_per_s", "data"): 1000.0,
            ("performance_schema", "file_read_mib_per_s", "data"): 62.0,
            ("performance_schema", "file_writes_per_s", "data"): 0.0,
            ("performance_schema", "file_write_mib_per_s", "data"): 0.0,
            ("diskstats", "reads_per_s", "sda"): 1150.0 + operations,
            ("diskstats", "read_mib_per_s", "sda"): 1.15 * 62.0 + mib_per_s,
            ("diskstats", "writes_per_s", "sda"): 0.0,
            ("diskstats", "write_mib_per_s", "sda"): 0.0,
        },
        variables={"innodb_flush_method": "O_DIRECT"},
    )


@pytest.mark.parametrize(
    ("mib_per_s", "operations", "loss", "law"),
    [
        (0.8, 12.0, 0.95, ["conservation"]),
        (6.0, 100.0, 0.95, ["sufficiency"]),
        (29.0, 100.0, 0.95, ["sufficiency"]),
        (40.0, 100.0, 0.95, []),
        (40.0, 100.0, 0.60, []),
        (6.0, 700.0, 0.95, []),
    ],
)
def test_others_io_must_be_enough(mib_per_s: float, operations: float, loss: float, law: list[str]) -> None:
    assert laws(foreign(mib_per_s, operations), finding("interference.io", ("loss", loss)), "foreign") == law


@pytest.mark.parametrize(("mib_per_s", "law"), [(3.0, ["conservation"]), (4.2, [])])
def test_operations_without_bytes_are_splits(mib_per_s: float, law: list[str]) -> None:
    """Three times the operations at the same bytes: max_sectors_kb, not a neighbour."""
    assert laws(foreign(mib_per_s, 3000.0), finding("interference.io"), "foreign") == law


# Who is acquitted has no tail and no stand.
def quick(p99_ms: float, still_s: int = 0, rate: float = 400.0) -> Case:
    """Transactions of 20 ms, of which one waits 40 times."""
    tps = np.full(SECONDS, rate)
    tps[:still_s] = 0.0
    extra = {
        ("client", "tps", ""): tps,
        ("performance_schema", "file_reads_per_s", "data"): 40.0 * tps,
        ("client", "latency_ms_p50", ""): np.full(SECONDS, 19.0),
    }
    metrics = {"latency_ms_mean": 20.0, "latency_ms_p99": p99_ms, "latency_ms_p95": 30.0}
    return case(Load(threads=8, seconds=SECONDS), Storage(latency_ms=0.4, extra=extra), latency_ms=metrics)


@pytest.mark.parametrize(
    ("p99_ms", "law"), [(50.0, []), (58.0, []), (66.0, ["acquittal"]), (1158.0, ["acquittal"])]
)
def test_a_tail_that_no_piece_has_refutes_an_acquittal(p99_ms: float, law: list[str]) -> None:
    """Twenty milliseconds in forty waits: p99 is near 31 ms."""
    assert laws(quick(p99_ms), finding("none", share=None), "innocent") == law


@pytest.mark.parametrize(
    ("still_s", "rate", "law"), [(2, 400.0, ["acquittal"]), (0, 400.0, []), (2, 9.0, []), (2, 11.0, ["acquittal"])]
)
def test_seconds_without_an_end_refute_an_acquittal(still_s: int, rate: float, law: list[str]) -> None:
    """Stalled for 2.0 s; where ten a second are usual, one without any is no chance."""
    result = against(quick(30.0, still_s, rate), finding("none", share=None), "innocent")
    assert [item.law for item in result if item.recorded == still_s] == law


# A read is short in the sum over all reads.
@pytest.mark.parametrize(("slow_ms", "law"), [(19.0, []), (21.0, ["conservation"])])
def test_a_slow_region_is_not_short_in_the_sum(slow_ms: float, law: list[str]) -> None:
    """Six seconds of a hundred have slow reads: 1.26 ms in the median, and most of the time beyond."""
    waits = np.full(SECONDS, 1.26)
    waits[::15] = slow_ms
    region = Storage(
        extra={
            ("diskstats", "r_await_ms", "sda"): waits,
            ("diskstats", "reads_per_s", "sda"): np.full(SECONDS, 500.0),
        }
    )
    result = laws(case(storage=region), finding("memory.buffer_pool_small"), "short operations")
    assert [item for item in result if item == "conservation"] == law


@pytest.mark.parametrize(("server_ms", "law"), [(2.4, []), (2.6, ["conservation"]), (9.43, ["conservation"])])
def test_a_read_that_is_short_at_the_device_and_long_for_the_server_waits_between(
    server_ms: float, law: list[str]
) -> None:
    between = {
        ("diskstats", "r_await_ms", "sda"): 1.2,
        ("performance_schema", "file_reads_per_s", "data"): 500.0,
        ("performance_schema", "file_read_s_per_s", "data"): 500.0 * server_ms / 1000,
        ("tasks", "run_delay_s_per_s", "cell"): 0.01,
    }
    assert laws(case(constant=between), finding("memory.buffer_pool_small"), "short operations") == law


# Who lacks CPUs uses them or waits for them: more CPU for a server that used 0.11.
@pytest.mark.parametrize(
    ("used", "waited", "law"),
    [(0.11, 0.2, ["sufficiency"]), (0.11, 5.0, []), (4.7, 0.0, ["sufficiency"]), (4.9, 0.0, [])],
)
def test_a_server_that_lacks_cpus_uses_them_or_waits(used: float, waited: float, law: list[str]) -> None:
    """Half of 60 % of sixteen sessions is 4.8."""
    tasks = {("tasks", "cpus_used", "server"): used, ("tasks", "run_delay_s_per_s", "server"): waited}
    assert laws(case(constant=tasks), finding("cpu.server_saturated", share=0.6), "own CPU") == law


def test_a_server_whose_cpu_time_nobody_counted_is_only_less_sure() -> None:
    (result,) = against(case(), finding("cpu.server_saturated"), "own CPU")
    assert not result.refutes


def test_a_quota_leaves_little_to_use() -> None:
    retained = {
        ("tasks", "cpus_used", "server"): 0.11,
        ("tasks", "run_delay_s_per_s", "server"): 0.0,
        ("cgroup_cpu", "throttled_ratio", "server"): 0.9,
    }
    assert laws(case(constant=retained), finding("cpu.server_saturated", share=0.6), "own CPU") == []


# Statements wait for a device only while it works.
@pytest.mark.parametrize(("busy", "law"), [(0.38, ["sufficiency"]), (0.42, []), (1.0, [])])
def test_a_device_that_hardly_works_holds_nobody_for_long(busy: float, law: list[str]) -> None:
    idle = {("diskstats", "util_ratio", "sda"): busy, ("diskstats", "aqu_sz", "sda"): 4.0}
    assert laws(case(constant=idle), finding("storage.read_latency", share=0.6), "at the device") == law


# What was there before and after as well is no effect.
@pytest.mark.parametrize(
    ("tps", "p95_ms", "law"),
    [(400.0, 40.0, ["time"]), (384.0, 43.0, ["time"]), (370.0, 40.0, []), (400.0, 46.0, [])],
)
def test_an_episode_in_which_clients_were_served_as_before_is_no_cause(
    tps: float, p95_ms: float, law: list[str]
) -> None:
    t_s = np.arange(1.0, SECONDS + 1)
    during = (t_s > 20) & (t_s <= 40)
    series = {
        ("client", "tps", ""): np.where(during, tps, 400.0),
        ("client", "latency_ms_p95", ""): np.where(during, p95_ms, 40.0),
    }
    named = finding("interference.io", t0_s=20.0, t1_s=40.0)
    assert laws(case(storage=Storage(latency_ms=0.4, extra=series)), named, "episode") == law
    assert (
        laws(
            case(storage=Storage(latency_ms=0.4, extra=series)),
            dataclasses.replace(named, decided_by="counted"),
            "episode",
        )
        == []
    )


# A rate that stays while the queue varies is a limit's.
@pytest.mark.parametrize(
    ("rate_spread", "law"), [(0.02, ["consistency"]), (0.075, ["consistency"]), (0.085, []), (0.3, [])]
)
def test_a_rate_that_stays_while_the_queue_varies_is_no_latency(rate_spread: float, law: list[str]) -> None:
    steps = np.resize([-1.349 / 2, -1.349 / 2, 1.349 / 2, 1.349 / 2], SECONDS)
    rate = 95 * np.exp(rate_spread * steps)
    series = {
        ("diskstats", "reads_per_s", "sda"): rate,
        ("diskstats", "writes_per_s", "sda"): 0 * rate,
        ("diskstats", "aqu_sz", "sda"): 2 * np.exp(0.2 * steps),
        ("diskstats", "r_await_ms", "sda"): 20 * np.exp(0.2 * steps),
        ("diskstats", "w_await_ms", "sda"): np.full(SECONDS, np.nan),
    }
    result = against(case(storage=Storage(extra=series)), finding("storage.sync_latency"), "latency")
    assert [item.law for item in result] == law
    assert not any(item.refutes for item in result)


def varied(rate: float, waits: float, queue: float) -> Case:
    """A device whose rate, waiting time and queue vary by these spreads of their logarithms."""
    steps = np.resize([-1.349 / 2, -1.349 / 2, 1.349 / 2, 1.349 / 2], SECONDS)
    series = {
        ("diskstats", "reads_per_s", "sda"): 95 * np.exp(rate * steps),
        ("diskstats", "writes_per_s", "sda"): np.zeros(SECONDS),
        ("diskstats", "aqu_sz", "sda"): 2 * np.exp(queue * steps),
        ("diskstats", "r_await_ms", "sda"): 20 * np.exp(waits * steps),
        ("diskstats", "w_await_ms", "sda"): np.full(SECONDS, np.nan),
    }
    return case(storage=Storage(extra=series))


@pytest.mark.parametrize(("waits", "law"), [(0.09, []), (0.11, ["consistency"])])
def test_waiting_times_must_vary_before_a_rate_is_called_fixed(waits: float, law: list[str]) -> None:
    assert laws(varied(0.01, waits, waits), finding("storage.sync_latency"), "latency") == law


@pytest.mark.parametrize(("queue", "law"), [(0.09, ["consistency"]), (0.11, [])])
def test_with_the_same_queue_all_along_a_slower_volume_may_be_a_limit(queue: float, law: list[str]) -> None:
    named = dataclasses.replace(finding("storage.degraded", t0_s=30.0), decided_by="before and after")
    assert laws(varied(0.06, 0.06, queue), named, "latency") == law


@pytest.mark.parametrize(("waited", "times"), [(2.9, 1.35), (3.5, 3.0)])
def test_a_fifth_of_the_time_in_a_cpus_queue_is_in_common(waited: float, times: float) -> None:
    """Sixteen clients, of which 2.9 or 3.5 wait for a CPU: 18 and 22 %."""
    queued = {
        ("client", "tps", ""): 100.0,
        ("tasks", "run_delay_s_per_s", "cell"): waited,
        ("performance_schema", "file_reads_per_s", "data"): 20_000.0,
    }
    result = distribution_of(case(constant=queued, latency_ms={"latency_ms_p95": 200.0}), None, 0.95)
    assert result is not None
    assert result.rebuilt_ms == pytest.approx(160.0 * times, rel=0.02)
