"""Verdicts that were wrong, or missing, on runs of a draw that no rule had seen; what refutes or carries each."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from kernel_throttle import case_of, with_columns

from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.evidence.plateau_checks import sliced_dispersion_max
from volbench.results.explain.findings import explain_case
from volbench.results.explain.thresholds import SLICE_S

DEGRADED = "storage.degraded"


def causes(case: Case) -> list[str]:
    return [finding.cause for finding in explain_case(case).findings]


def first(case: Case) -> Cause:
    return explain_case(case).findings[0]


def test_a_volume_beside_starving_cpus_did_not_get_slower() -> None:
    """Reads took 0.3 ms longer at the device, while the tasks of each waited 1 ms longer for a CPU."""
    case = case_of("starved-from-12")
    assert first(case).cause == "interference.cpu"
    assert DEGRADED not in causes(case)


def test_a_volume_that_gets_slower_by_more_than_a_wait_for_a_cpu_is_named() -> None:
    """The same run with operations that take 5 ms more at the device: no wait for a CPU is so long here."""
    case = case_of("starved-from-12")
    assert case.device is not None
    disk, later_s = case.device.entity, np.where(np.arange(len(case.grid)) >= 6, 0.005, 0.0)
    columns = (case.grid.column("diskstats", name, disk) for name in ("r_await_ms", "aqu_sz", "reads_per_s"))
    waits, queue, rate = (np.asarray(column) for column in columns)
    changed = {
        ("diskstats", "r_await_ms", disk): waits + 1000 * later_s,
        ("diskstats", "aqu_sz", disk): queue + rate * later_s,
    }
    assert DEGRADED in causes(with_columns(case, changed))


def test_a_limit_that_is_known_is_met_although_the_last_sample_is_missing() -> None:
    """The kernel gives 144 of 166 writes/s on starving CPUs; the last interval of the window has no samples."""
    result = first(case_of("above-write-166-known"))
    assert result.cause == "host.io_limit"
    assert result.evidence[0].value == pytest.approx(166)


def test_syncs_that_the_device_did_not_take_are_no_slow_volume() -> None:
    """A sync takes 235 ms, the device at most 22 of them: either CPUs or a limit above it has the rest."""
    findings = explain_case(case_of("above-restore-5mib", "load")).findings
    slow = [finding for finding in findings if finding.cause == "storage.sync_latency"]
    assert all(finding.one_of_two for finding in slow)


def test_a_limit_that_comes_in_slices_is_one_of_two_with_a_slow_volume() -> None:
    """996 reads/s, 12 of 13 clients in the queue all along: nothing tells a limit from a constant latency."""
    findings = explain_case(case_of("device-read-1003")).findings
    assert {"storage.read_latency", "storage.iops_limit"} <= {finding.cause for finding in findings}
    assert all(finding.one_of_two for finding in findings[:2])


def test_slices_of_a_meter_make_a_rate_as_uneven_as_is_derived() -> None:
    """A simulation: 100 operations at the begin of each tenth of a second, counted from moments within one."""
    random = np.random.default_rng(14)
    edges_s = np.arange(20_000) + SLICE_S * random.random(20_000)
    rate = np.diff(100 * np.floor(edges_s / SLICE_S)) / np.diff(edges_s)
    assert rate.var() / rate.mean() == pytest.approx(sliced_dispersion_max(1000, 1.0), rel=0.05)


def test_a_full_redo_log_that_holds_back_no_client_is_not_named() -> None:
    """One session fills it; the load gets its rate, and its transactions take 20 ms of 900 that it leaves them."""
    assert "redo.checkpoint_stall" not in causes(case_of("create-and-drop"))


@pytest.mark.parametrize("name", ["client-paused", "in-memory-files"])
def test_a_server_that_syncs_nothing_hides_no_commits(name: str) -> None:
    """Nothing is synced, and reads are counted: the volume cannot be what is waited for."""
    assert causes(case_of(name)) == ["none"]


def test_unknown_syncs_still_clear_nothing() -> None:
    case = case_of("client-paused")
    assert causes(with_columns(case, {("innodb", "data_fsyncs_per_s", ""): 300.0})) == []


def test_tasks_that_wait_for_cpus_are_counted_where_pressure_is_not_enough() -> None:
    """CPUs are 97 % busy, and tasks of the two clients wait for them in a third of their time."""
    assert first(case_of("purge-on-cpus")).cause == "cpu.server_saturated"


def test_a_rate_is_reached_within_what_chance_arrivals_leave() -> None:
    """118 arrivals of 135 that are expected are within two standard deviations (Poisson)."""
    case = case_of("create-and-drop")
    assert case.is_served
    assert not replace(case, rate=30.0).is_served


def apart(case: Case, server: tuple[float, float], client: tuple[float, float]) -> Case:
    """A run whose server and load were counted apart: CPUs used, and seconds a second of waiting for one."""
    sides = {"server": server, "client": client, "cell": (server[0] + client[0], server[1] + client[1])}
    names = ("cpus_used", "run_delay_s_per_s")
    columns = {("tasks", names[at], side): values[at] for side, values in sides.items() for at in (0, 1)}
    return with_columns(case, columns)


def test_tasks_that_wait_while_cpus_are_idle_are_held_back() -> None:
    """A recorded quota on sysbench: 6.8 tasks wait, 80 % of the CPUs are idle; nobody counted whose they are."""
    findings = explain_case(case_of("client-quota")).findings
    assert {finding.cause for finding in findings} == {"cpu.client_saturated", "cpu.server_saturated"}
    assert all(finding.one_of_two for finding in findings)


@pytest.mark.parametrize(
    ("server", "client", "cause"),
    [
        ((0.3, 0.4), (0.06, 6.4), "cpu.client_saturated"),
        ((0.3, 6.4), (0.06, 0.4), "cpu.server_saturated"),
    ],
)
def test_whose_tasks_they_are_says_who_is_held_back(
    server: tuple[float, float], client: tuple[float, float], cause: str
) -> None:
    named = first(apart(case_of("client-quota"), server, client))
    assert (named.cause, named.one_of_two) == (cause, False)
    assert "80 %" not in named.evidence[0].text
    assert "20 % busy" in named.evidence[0].text


@pytest.mark.parametrize(
    ("server", "client", "cause"),
    [
        ((0.062, 4.7), (0.026, 2.07), "cpu.server_saturated"),
        ((0.062, 2.07), (0.026, 4.7), "cpu.client_saturated"),
    ],
)
def test_of_two_that_are_held_the_loop_waits_for_the_longer(
    server: tuple[float, float], client: tuple[float, float], cause: str
) -> None:
    """Recorded under cpu.max of a group with both; then the same with sides changed."""
    busy = {
        ("cpu", "user_ratio", ""): 0.094,
        ("cpu", "system_ratio", ""): 0.051,
        ("cpu", "least_busy_ratio", ""): 0.114,
    }
    case = replace(with_columns(apart(case_of("client-quota"), server, client), busy), threads=4)
    findings = explain_case(case).findings
    assert [(finding.cause, finding.one_of_two) for finding in findings] == [(cause, False)]
    assert [row.metric for row in findings[0].evidence[:2]] == ["held_back_s_per_s"] * 2, "both are shown"


@pytest.mark.parametrize(("least", "is_held"), [(0.15, True), (0.6, False)])
def test_tasks_that_wait_for_one_cpu_while_another_is_idle_are_held_back(least: float, is_held: bool) -> None:
    """A cpuset: 60 % of all CPU time is used, and one CPU is nearly idle. The series are made up."""
    busy = {
        ("cpu", "user_ratio", ""): 0.5,
        ("cpu", "system_ratio", ""): 0.1,
        ("cpu", "least_busy_ratio", ""): least,
    }
    case = with_columns(apart(case_of("client-quota"), (0.5, 6.4), (0.1, 0.2)), busy)
    rows = [row for cause in explain_case(case).findings for row in cause.evidence]
    assert any(row.metric == "held_back_s_per_s" and "15 %" in row.text for row in rows) == is_held


def test_a_server_held_to_one_cpu_that_others_use_is_named() -> None:
    """Recorded: all CPUs together are 57 % busy, so that only the idle CPU shows what the server waits for."""
    named = first(case_of("cpuset-with-others"))
    assert (named.cause, named.one_of_two) == ("cpu.server_saturated", False)
    assert named.share is not None
    assert named.share > 0.7


def test_tasks_that_wait_on_busy_cpus_are_not_held_back() -> None:
    """The same waits, and others use the CPUs all the time: nothing says that more than these holds them."""
    busy = {("cpu", "user_ratio", ""): 0.9, ("cpu", "system_ratio", ""): 0.1}
    case = with_columns(apart(case_of("client-quota"), (0.3, 0.4), (0.06, 6.4)), busy)
    assert all(
        piece.metric != "held_back_s_per_s" for finding in explain_case(case).findings for piece in finding.evidence
    )


def test_a_load_that_gets_less_than_its_part_of_busy_cpus_is_one_of_two_with_others() -> None:
    """7 tasks among 10 would get 1.4 CPUs; the load's have 0.06: a quota of its own, or others by their weight."""
    busy = {("cpu", "user_ratio", ""): 0.9, ("cpu", "system_ratio", ""): 0.1, ("cpu", "runnable_threads", ""): 10.0}
    case = with_columns(apart(case_of("client-quota"), (0.3, 0.4), (0.06, 6.4)), busy)
    findings = explain_case(case).findings
    assert [finding.cause for finding in findings][:2] == ["cpu.client_saturated", "interference.cpu"]
    assert all(finding.one_of_two for finding in findings[:2])


def test_statements_take_no_more_cpu_than_the_server_does() -> None:
    """Of 1.1 s of statements a second, the server's tasks ran or waited for 0.2: the rest were the load's."""
    case = apart(case_of("create-and-drop"), (0.1, 0.1), (0.4, 0.02))
    assert case.cpu_share_max == pytest.approx(0.2 / 1.08, rel=0.05)


def test_a_rate_that_flushes_make_even_is_no_limit_of_the_volume() -> None:
    """A flush is under way for 94 % of the time, so commits and what they write come as evenly as flushes end."""
    case = case_of("slow-flush")
    assert first(case).cause == "storage.sync_latency"
    assert not [cause for cause in causes(case) if cause.endswith("_limit")]
    assert case.device is not None
    free = with_columns(case, {("diskstats", "flushes_per_s", case.device.entity): 10.0})
    assert free.limits
    assert not free.flushes_all_along


def test_reads_that_wait_in_the_file_system_for_a_volume_that_stands_still_wait_for_the_volume() -> None:
    """They wait 27 ms each in the server and 0.5 ms at the device, and nearly all of it while writes do not end."""
    case = case_of("stall-of-writes")
    assert first(case).cause == "storage.stall"
    assert "host.io_wait" not in causes(case)
