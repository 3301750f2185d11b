"""Stands of less than a second, in series of one value a second: who stood, for how long, and with which period."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from kernel_throttle import case_of, with_columns
from synthetic_cell import Load, Storage, columns

from volbench.results.explain.case import Case
from volbench.results.explain.evidence.stands import (
    Stand,
    client_stands,
    counted_stands,
    held_statements,
    period_s,
    waited_for_cpus,
    waited_for_io,
)
from volbench.results.explain.findings import explain_case
from volbench.results.explain.rules.shared_evidence import stands_of
from volbench.results.stats.grid import Floats, Grid, align
from volbench.results.store.series import SeriesKey


def load(lengths_s: dict[int, float], *, seconds: int = 20, rate: float = 400.0) -> tuple[Floats, Floats]:
    """Transactions a second and the slowest of each second, with stands that end in some seconds."""
    random = np.random.default_rng(5)
    tps, slowest = rate * random.normal(1, 0.08, seconds), 60 * np.exp(random.normal(0, 0.3, seconds))
    for second, length_s in lengths_s.items():
        inside = min(1.0, length_s)
        tps[second] *= 1 - inside
        tps[second - 1] *= 1 - (length_s - inside)
        slowest[second] = 1000 * length_s + 60
    return tps, slowest


@pytest.mark.parametrize("length_s", [0.7, 1.0, 1.5])
def test_a_stand_within_a_second_is_found_with_its_length(length_s: float) -> None:
    (stand,) = client_stands(*load({9: length_s}), 1.0)
    assert stand.last == 9
    assert stand.length_s == pytest.approx(length_s, abs=0.1)


@pytest.mark.parametrize(("length_s", "result"), [(0.4, 0), (0.55, 1)])
def test_a_stand_is_half_a_second_and_more(length_s: float, result: int) -> None:
    assert len(client_stands(*load({9: length_s}), 1.0)) == result


@pytest.mark.parametrize(
    ("usual", "scatter", "inside", "length_s", "result"),
    [
        (0.1, 0.02, (0.1, 1.0, 1.0, 0.4), 2.4, True),
        (0.1, 0.02, (0.1, 0.1, 0.1, 0.1), 2.4, False),
        (0.1, 0.35, (0.1, 1.0, 1.0, 0.4), 2.4, None),
        (0.7, 0.02, (0.7, 1.0, 1.0, 0.7), 2.4, None),
        (0.1, 0.02, (0.1, 1.0, 0.8, 0.1), 1.9, None),
    ],
)
def test_tasks_waited_for_io_in_a_stand_only_where_those_of_others_do_not_hide_it(
    usual: float, scatter: float, inside: tuple[float, ...], length_s: float, result: bool | None
) -> None:
    """PSI is of the whole host: beside another server that writes now and then a short stand says nothing."""
    waiting = np.resize([usual - scatter, usual + scatter], 20)
    waiting[8:12] = inside
    assert waited_for_io(waiting, [Stand(first=8, last=11, length_s=length_s)], 1.0) is result


def test_a_tail_is_no_stand() -> None:
    """One transaction of 900 ms, while the other clients go on."""
    tps, slowest = load({})
    slowest[9] = 900.0
    assert client_stands(tps, slowest, 1.0) == ()


def test_a_tail_of_every_second_is_no_stand() -> None:
    tps, slowest = load({9: 0.8})
    assert client_stands(tps, np.maximum(slowest, 700.0), 1.0) == ()


def test_stands_that_recur_have_a_period_and_others_have_none() -> None:
    assert period_s(client_stands(*load({3: 0.8, 7: 0.8, 11: 0.8, 15: 0.8}), 1.0), 1.0) == pytest.approx(4.0)
    assert period_s(client_stands(*load({2: 0.8, 5: 0.8, 15: 0.8}), 1.0), 1.0) is None
    assert period_s(client_stands(*load({3: 0.8, 7: 0.8}), 1.0), 1.0) is None


def standing(seconds: Sequence[int], length_s: float, *, device_busy: float, statements: bool) -> Case:
    """A calm load whose clients stand in some seconds while its device is busy for a share of that time."""
    load = Load(queue=3.0, threads=8, seconds=30)
    of_all = columns(load, Storage(latency_ms=0.8))
    grid = align(of_all)
    case = Case(name="load", grid=grid, cell_grid=grid, threads=load.threads, cpus=8)
    still = np.isin(np.arange(len(grid)), seconds)
    calm = np.where(still, 1 - length_s, 1.0)
    tps = grid.column("client", "tps")
    assert tps is not None
    retained = np.where(still, load.threads * length_s if statements else 0.0, 0.0)
    input_value: dict[tuple[str, str, str], Floats | float] = {
        ("client", "tps", ""): 300.0 * calm,
        ("client", "latency_ms_max", ""): np.where(still, 1000 * length_s + 40, 80.0),
        ("performance_schema", "statement_s_per_s", ""): 7.5 * calm + retained,
        ("diskstats", "util_ratio", "sda"): 0.6 * calm + np.where(still, device_busy * length_s, 0.0),
    }
    for metric in ("reads_per_s", "writes_per_s", "read_mib_per_s", "write_mib_per_s"):
        values = grid.column("diskstats", metric, "sda")
        assert values is not None
        input_value["diskstats", metric, "sda"] = values * calm
    return with_columns(case, input_value)


@pytest.mark.parametrize(
    ("device_busy", "statements", "named"),
    [(0.0, True, "server.stall"), (1.0, True, "storage.stall"), (0.0, False, None)],
)
def test_who_stood_is_decided_by_busy_time(device_busy: float, statements: bool, named: str | None) -> None:
    """An idle device clears the volume; a client that stood outside of statements clears the server as well."""
    case = standing((5, 12, 19), 0.85, device_busy=device_busy, statements=statements)
    causes = [finding.cause for finding in explain_case(case).findings]
    assert [cause for cause in causes if cause.endswith(".stall")] == ([] if named is None else [named])


@pytest.mark.parametrize("name", ["above-write-106-periodic", "above-read-290-episode", "device-both-311-episode"])
def test_a_limit_that_comes_and_goes_is_no_stand(name: str) -> None:
    """Transactions of two seconds and hardly any that end: they pass the limit one by one."""
    causes = [finding.cause for finding in explain_case(case_of(name)).findings]
    assert not [cause for cause in causes if cause.endswith(".stall")]


def test_a_real_run_without_stands_has_none() -> None:
    for name in ("clean", "device-read-800", "above-read-800", "neighbour"):
        causes = [finding.cause for finding in explain_case(case_of(name)).findings]
        assert "server.stall" not in causes, name


def test_a_server_that_tells_its_standstills_needs_no_even_rate() -> None:
    """Where other work makes the rate of a closed loop vary by a half, a stand of 0.8 s is lost in it."""
    message = np.zeros(60)
    message[30], message[40], message[41] = 800.0, 600.0, 1600.0
    first, second = counted_stands(message, 1.0)
    assert (first.first, first.last, first.length_s) == (29, 30, 0.8)
    assert (second.first, second.last, second.length_s) == (39, 41, 1.6)
    assert counted_stands(np.full(60, 300.0), 1.0) == ()
    assert counted_stands(None, 1.0) == ()
    tps = 300 * np.exp(np.random.default_rng(3).normal(0, 0.5, 60))
    columns = {
        ("client", "tps"): tps,
        ("client", "latency_ms_max"): message,
        ("progress", "standstill_ms_max"): message,
    }
    grid = Grid(
        t_s=np.arange(1.0, 61),
        width_s=1.0,
        columns={SeriesKey(source=source, metric=metric): values for (source, metric), values in columns.items()},
    )
    assert [stand.length_s for stand in stands_of(Case(name="s", grid=grid, cell_grid=grid)).stands] == [0.8, 1.6]


@pytest.mark.parametrize(("seconds", "inside"), [(1.9, False), (2.1, None), (3.9, None), (4.1, True)])
def test_clients_stood_within_statements_from_half_of_their_time_and_not_below_a_quarter(
    seconds: float, inside: bool | None
) -> None:
    """Eight clients that usually are in no statement, and a stand of one second: eight seconds at most."""
    statements = np.zeros(20)
    statements[9] = seconds
    result = held_statements(statements, (Stand(first=9, last=9, length_s=1.0),), 8, 1.0)
    assert result is inside


@pytest.mark.parametrize(
    ("usual", "inside", "waited"), [(0.0, 0.99, False), (0.0, 1.01, True), (4.0, 2.95, False), (4.0, 3.05, True)]
)
def test_tasks_of_a_server_that_is_stopped_wait_for_no_cpu(usual: float, inside: float, waited: bool) -> None:
    """A stand of one second across two intervals, in one of which fewer tasks may wait than else."""
    delay = np.full(20, usual)
    delay[8:10] = (inside, usual + 3)
    assert waited_for_cpus(delay, (Stand(first=8, last=9, length_s=1.0),)) is waited


def test_a_server_that_gets_no_cpu_is_not_stopped() -> None:
    """Its control group has 12 of 1024 shares beside three loops: for 0.85 s at a time no transaction ends."""
    case = standing((5, 12, 19), 0.85, device_busy=0.0, statements=True)
    still = np.isin(np.arange(len(case.grid)), (5, 12, 19))
    tasks = {("tasks", "cpus_used", "server"): np.where(still, 0.03, 0.05)}
    for waited, named in ((np.full(len(still), 6.0), False), (np.where(still, 0.1, 0.2), True)):
        delay = {("tasks", "run_delay_s_per_s", "server"): waited}
        causes = {finding.cause for finding in explain_case(with_columns(case, {**tasks, **delay})).findings}
        assert ("server.stall" in causes) is named
