"""CPU quotas of containers, what runs beside a load, many short waits, and a stall before a burst ends."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from synthetic_cell import Load, Storage, columns

from volbench.results.explain.case import Case
from volbench.results.explain.case_input import ConcurrentActivity
from volbench.results.explain.evidence.cliffs import rank_sum_z
from volbench.results.explain.findings import explain_case
from volbench.results.stats.grid import align

QUIET = Load(queue=1.2, threads=8, cpu_s_per_s=5.5, cpu_busy=0.2)
DUMP = ConcurrentActivity(name="mysqldump", t0_s=20.0, t1_s=40.0)


def case(load: Load, storage: Storage, **more: object) -> Case:
    grid = align(columns(load, storage, counters=bool(more.pop("counters", False))))
    return Case(name="load", grid=grid, cell_grid=grid, threads=load.threads, cpus=8, **more)  # type: ignore[arg-type]


def causes(of: Case) -> list[str]:
    return [finding.cause for finding in explain_case(of).findings]


def held_back(who: str, share: float) -> dict[tuple[str, str, str], np.ndarray]:
    return {
        ("cgroup_cpu", "throttled_ratio", who): np.full(60, share),
        ("cgroup_cpu", "cpus_used", who): np.full(60, 0.4),
    }


def test_a_quota_on_the_server_is_its_cpu_although_the_host_is_idle() -> None:
    """A container's limit does not show in the host's CPU time."""
    findings = explain_case(case(QUIET, Storage(latency_ms=0.4, extra=held_back("server", 0.97))))
    first = findings.findings[0]
    assert first.cause == "cpu.server_saturated"
    assert "0.4 CPUs" in first.evidence[0].text
    assert "cpu.server_saturated" not in causes(case(QUIET, Storage(extra=held_back("server", 0.1))))


def shared_quota(withheld_s: float) -> dict[tuple[str, str, str], np.ndarray]:
    """Counted by a real kernel under cpu.max of a group with server and load; their waits, with sides changed."""
    values = {
        ("cgroup_cpu", "throttled_ratio", "cell"): 1.0,
        ("cgroup_cpu", "throttled_s_per_s", "cell"): withheld_s,
        ("cgroup_cpu", "cpus_used", "cell"): 0.15,
        ("tasks", "cpus_used", "server"): 0.062,
        ("tasks", "cpus_used", "client"): 0.026,
        ("tasks", "run_delay_s_per_s", "server"): 2.07,
        ("tasks", "run_delay_s_per_s", "client"): 4.7,
    }
    return {key: np.full(60, value) for key, value in values.items()}


def test_a_quota_of_one_group_with_server_and_load_is_no_matter_of_the_load() -> None:
    """The load waits longer than the server: with a quota of its own it would be the load's."""
    findings = explain_case(case(QUIET, Storage(latency_ms=0.4, extra=shared_quota(1.83)))).findings
    assert [finding.cause for finding in findings] == ["cpu.server_saturated"]
    assert "server and load, which are in one group," in findings[0].evidence[0].text
    assert "1.83 s" in findings[0].evidence[1].text


@pytest.mark.parametrize(("intervals", "named"), [(29, False), (31, True)])
def test_a_quota_acts_in_the_intervals_that_had_a_period(intervals: int, named: bool) -> None:
    """After it is taken away the group is read, and nothing is said of periods."""
    quota = held_back("server", 0.97)
    key = ("cgroup_cpu", "throttled_ratio", "server")
    quota[key] = np.where(np.arange(60) < intervals, quota[key], np.nan)
    assert ("cpu.server_saturated" in causes(case(QUIET, Storage(latency_ms=0.4, extra=quota)))) == named


@pytest.mark.parametrize(("withheld_s", "named"), [(0.14, False), (0.17, True)])
def test_a_quota_explains_no_more_time_than_it_withheld(withheld_s: float, named: bool) -> None:
    """Throttled in nearly all periods, for a moment in each: a larger quota brings at most that."""
    quota = {
        **held_back("server", 0.97),
        ("cgroup_cpu", "throttled_s_per_s", "server"): np.full(60, withheld_s),
    }
    findings = explain_case(case(QUIET, Storage(latency_ms=0.4, extra=quota))).findings
    saturated = [finding for finding in findings if finding.cause == "cpu.server_saturated"]
    assert bool(saturated) == named
    assert all((finding.share or 0) <= withheld_s + 0.001 for finding in saturated)


def test_a_client_that_is_held_back_says_nothing_of_the_server() -> None:
    """Both are short of CPU: what the server would do with a client that keeps up is not known."""
    both = {**held_back("client", 0.9), **held_back("server", 0.9)}
    assert causes(case(QUIET, Storage(latency_ms=0.4, extra=both))) == ["cpu.client_saturated"]


@pytest.mark.parametrize(("latency_ms", "named"), [(0.5, ["none"]), (6.0, ["storage.read_latency"])])
def test_many_waits_blame_the_volume_only_when_each_is_long(latency_ms: float, named: list[str]) -> None:
    """Commits at a low rate spend most of their little time in fsyncs, on any volume."""
    load = dataclasses.replace(QUIET, queue=1.2, cpu_s_per_s=0.1, threads=1, read_part=0.4)
    (first, *_) = explain_case(case(load, Storage(latency_ms=latency_ms))).findings
    assert [first.cause] == named
    assert first.cause != "none" or "each piece is short" in first.advice


def test_a_dump_beside_a_load_of_fixed_rate_shows_in_its_latency() -> None:
    """As many transactions come, each takes three times as long."""
    random = np.random.default_rng(3)
    during = np.zeros(60, dtype=bool)
    during[20:40] = True
    latency = np.where(during, 30.0, 10.0) * np.exp(random.normal(0, 0.2, 60))
    extra = {
        ("client", "tps", ""): np.full(60, 40.0) + random.normal(0, 3, 60),
        ("client", "latency_ms_p50", ""): latency,
        ("client", "latency_ms_p95", ""): latency * 2,
    }
    findings = explain_case(case(QUIET, Storage(latency_ms=0.4, extra=extra), concurrent=(DUMP,)))
    backup = next(finding for finding in findings.findings if finding.cause == "interference.backup")
    loss = next(row.value for row in backup.evidence if row.metric == "loss")
    assert loss == pytest.approx(2 / 3, abs=0.07)
    assert "interference.backup" not in causes(
        case(QUIET, Storage(latency_ms=0.4), concurrent=(DUMP,))
    )  # nothing changed while it ran


def test_a_limit_met_only_while_a_dump_runs_comes_after_it() -> None:
    """The dump takes what the volume gives; its limit is how, not why."""
    storage = Storage(iops=lambda t_s: np.where((t_s > 20) & (t_s <= 40), 700.0, 1e9), latency_ms=0.6)
    named = causes(case(Load(queue=8, threads=8), storage, counters=True, concurrent=(DUMP,)))
    assert named[0] == "interference.backup"


def test_a_stall_within_a_burst_does_not_hide_its_end() -> None:
    """Seconds without an operation are no level of the volume."""
    storage = Storage(iops=lambda t_s: np.where(t_s <= 14, 3000.0, 300.0), stall_s=(4, 7))
    named = causes(case(Load(queue=24, threads=24), storage))
    assert set(named[:2]) == {"storage.burst_exhausted", "storage.stall"}


def test_ranks_tell_two_samples_apart() -> None:
    """Gaps are left out, and nothing is told of an empty side."""
    low, high = np.array([1.0, 2.0, 3.0, np.nan]), np.array([11.0, 12.0, 13.0, 14.0])
    assert rank_sum_z(high, low) == pytest.approx(-rank_sum_z(low, high))
    assert rank_sum_z(high, low) > 2
    assert rank_sum_z(low[:0], high) == 0
