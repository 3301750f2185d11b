"""A volume that is nearly idle cannot be what sessions wait for: the largest share that it can explain."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from kernel_throttle import RUNS, case_of

from volbench.results.explain.case import Case
from volbench.results.explain.findings import explain_case
from volbench.results.explain.rules.shared_evidence import explains_little, volume_share_max
from volbench.results.store.series import SeriesKey

QUOTA = SeriesKey(source="cgroup_cpu", metric="throttled_ratio", entity="server")


def held_back_from_the_middle_on() -> Case:
    """A real run whose volume did two operations in two of nine seconds, 0.5 and 5 ms each.

    A CPU quota begins in the middle: its account and the fall of the load are set by hand, the volume is as it was.
    """
    case = case_of("idle")
    after = case.grid.t_s > case.grid.t_s[3]
    columns = dict(case.grid.columns)
    tps, p95 = (SeriesKey(source="client", metric=name, entity="") for name in ("tps", "latency_ms_p95"))
    columns |= {
        tps: np.where(after, 0.3, 1.0) * columns[tps],
        p95: np.where(after, 4.0, 1.0) * columns[p95],
        QUOTA: np.where(after, 0.95, 0.0),
    }
    return replace(case, grid=replace(case.grid, columns=columns))


def test_a_volume_of_two_operations_is_not_what_got_slower_under_a_quota() -> None:
    """The one operation after the begin took ten times as long as the one before: chance, and nobody waited."""
    causes = [finding.cause for finding in explain_case(held_back_from_the_middle_on()).findings]
    assert causes[0] == "cpu.server_saturated"
    assert not [cause for cause in causes if cause.startswith("storage.")]


def test_the_volume_explains_at_most_the_time_in_which_it_does_something() -> None:
    """Ten clients, of whom one is in a statement on average; an operation is in flight in 0.13 % of the time."""
    most = volume_share_max(case_of("idle"))
    assert most is not None
    assert most == pytest.approx(0.0013 * 10 / 1.0, rel=0.2)
    assert explains_little(case_of("idle"))


@pytest.mark.parametrize(
    "name", sorted(path.name for path in RUNS.iterdir() if path.name.startswith("device-") and path.is_dir())
)
def test_a_device_that_is_the_cause_may_explain_it(name: str) -> None:
    """Recorded limits below the device."""
    case = case_of(name)
    assert volume_share_max(case) == pytest.approx(1.0, abs=0.3)
    assert not explains_little(case)


def test_what_a_limit_above_the_device_holds_back_is_not_in_flight_there() -> None:
    """The bound is of the device alone: the group's limit of 800 reads a second is named all the same."""
    named = [finding.cause for finding in explain_case(case_of("above-read-800")).findings]
    assert named[0] == "host.io_limit"


def test_an_operation_for_which_all_clients_wait_explains_all_of_their_time() -> None:
    """One in flight all the time, as a group commit: the bound is the busy time, not the number in flight."""
    case = case_of("idle")
    columns = {
        key: np.full(len(case.grid), 1.0)
        if (key.source, key.metric) in {("diskstats", "util_ratio"), ("diskstats", "aqu_sz")}
        else value
        for key, value in case.grid.columns.items()
    }
    assert volume_share_max(replace(case, grid=replace(case.grid, columns=columns))) == 1.0
