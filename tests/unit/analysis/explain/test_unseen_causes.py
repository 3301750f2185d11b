"""Verdicts that were wrong, or missing, on runs of a draw that no rule had seen; what refutes or carries each."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from kernel_throttle import case_of, with_columns

from volbench.analysis.explain.case import Case
from volbench.analysis.explain.cause import Cause
from volbench.analysis.explain.findings import explain_case

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
    found = first(case_of("above-write-166-known"))
    assert found.cause == "host.io_limit"
    assert found.evidence[0].value == pytest.approx(166)


def test_syncs_that_the_device_did_not_take_are_no_slow_volume() -> None:
    """A sync takes 235 ms, the device at most 22 of them: either CPUs or a limit above it has the rest."""
    findings = explain_case(case_of("above-restore-5mib", "load")).findings
    slow = [finding for finding in findings if finding.cause == "storage.sync_latency"]
    assert all(finding.one_of_two for finding in slow)


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
