"""Causes of steps that work on files themselves: no statements, no client series, a few streams."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from volbench.results.explain.case import Case
from volbench.results.explain.findings import explain_case
from volbench.results.stats.grid import Grid
from volbench.results.store.series import SeriesKey

SECONDS = 30
Values = dict[tuple[str, str], float]


def case_of(values: Values, *, kind: str = "small_files", streams: int = 1, busy: float = 0.2) -> Case:
    """A step of steady values: (source, metric) -> value."""
    values = {("cpu", "user_ratio"): busy, ("cpu", "system_ratio"): 0.0, **values}
    noise = 1 + np.random.default_rng(1).normal(0, 0.03, SECONDS)
    grid = Grid(
        t_s=np.arange(1.0, SECONDS + 1),
        width_s=1.0,
        columns={
            SeriesKey(source=source, metric=metric, entity="sda" if source == "diskstats" else ""): value * noise
            for (source, metric), value in values.items()
        },
    )
    return Case(name="step", grid=grid, cell_grid=grid, kind=kind, threads=streams, cpus=2)


def causes(case: Case) -> list[str]:
    return [finding.cause for finding in explain_case(case).findings]


def network_files(trips_per_s: float, trip_ms: float, reads_per_s: float, read_ms: float) -> Values:
    """What an emulated file system of the network counts."""
    return {
        ("emulator", "metadata_ops_per_s"): trips_per_s,
        ("emulator", "metadata_await_ms"): trip_ms,
        ("emulator", "reads_per_s"): reads_per_s,
        ("emulator", "writes_per_s"): 0.0,
        ("emulator", "read_mib_per_s"): reads_per_s / 8,
        ("emulator", "r_await_ms"): read_ms,
    }


def test_round_trips_that_take_most_of_the_time_are_the_cause_of_slow_small_files() -> None:
    case = case_of(network_files(160, 5.0, 20, 2.5))
    (result,) = explain_case(case).findings
    assert result.cause == "storage.metadata_latency"
    assert result.share == pytest.approx(0.8, abs=0.05)
    assert "table_open_cache" not in result.advice


def test_many_streams_that_wait_little_have_no_cause_in_round_trips() -> None:
    assert "storage.metadata_latency" not in causes(case_of(network_files(160, 0.5, 20, 0.3), streams=8))


def test_slow_reads_of_one_stream_are_read_latency() -> None:
    (result,) = explain_case(case_of(network_files(1, 1.0, 200, 4.5), kind="cold_read")).findings
    assert result.cause == "storage.read_latency"
    assert result.share == pytest.approx(0.9, abs=0.05)
    assert "the one stream waits for reads in 90 % of the time: 200 a second of 128 KiB, 4.5 ms each" in (
        result.evidence[0].text
    )


def test_fast_reads_clear_the_volume() -> None:
    assert causes(case_of(network_files(1, 0.1, 2000, 0.4), kind="sequential")) == ["none"]


def test_slow_writes_with_their_syncs_are_sync_latency() -> None:
    values = {
        ("diskstats", "reads_per_s"): 0.0,
        ("diskstats", "writes_per_s"): 100.0,
        ("diskstats", "w_await_ms"): 9.0,
        ("diskstats", "aqu_sz"): 0.9,
    }
    assert causes(case_of(values)) == ["storage.sync_latency"]


def test_busy_cpus_are_no_cause_where_the_streams_wait_for_the_volume() -> None:
    waiting = case_of(network_files(160, 5.0, 20, 2.5), busy=1.0)
    working = case_of(network_files(10, 0.5, 20, 0.3), busy=1.0)
    assert causes(waiting) == ["storage.metadata_latency"]
    assert "cpu.server_saturated" in causes(working)


def test_statements_of_an_idle_server_say_nothing_of_a_step_on_files() -> None:
    values = network_files(160, 5.0, 20, 2.5) | {("performance_schema", "statement_s_per_s"): 0.01}
    assert case_of(values).budget is None
    assert case_of(values, kind="ddl").budget is not None


@pytest.mark.parametrize(("seconds", "named"), [(1, False), (6, True)])
def test_a_short_pause_without_a_clients_word_is_no_stall(seconds: int, named: bool) -> None:
    """On a grid of 0.2 s: a pause of 0.2 s is the step's own, one of 1.2 s is not."""
    case = case_of(network_files(160, 5.0, 200, 2.5) | {("emulator", "queue_length"): 2.0})
    columns = dict(case.grid.columns)
    for metric in ("reads_per_s", "metadata_ops_per_s"):
        stopped = columns[SeriesKey(source="emulator", metric=metric, entity="")].copy()
        stopped[10 : 10 + seconds] = 0.0
        columns[SeriesKey(source="emulator", metric=metric, entity="")] = stopped
    grid = Grid(t_s=case.grid.t_s / 5, width_s=0.2, columns=columns)
    stalled = Case(name="step", grid=grid, cell_grid=grid, kind="small_files", threads=1, cpus=2)
    assert ("storage.stall" in causes(stalled)) == named


READ_AHEAD = "storage.readahead_small"


def reader(*, read_ms: float = 3.8, under_way: float = 2.0, kib: int | None = 128, streams: int = 1) -> Case:
    """One reader of requests of 128 KiB, of which some are under way at a time (Little's law gives the rate)."""
    values = network_files(1, 1.0, under_way * 1000 / read_ms, read_ms)
    return replace(case_of(values, kind="cold_read", streams=streams), read_ahead_kib=kib)


def test_two_read_aheads_under_way_are_the_cause_with_the_command_that_helps() -> None:
    finding = explain_case(reader()).findings[0]
    assert finding.cause == READ_AHEAD
    assert "storage.read_latency" not in causes(reader())
    assert "128 KiB" in finding.evidence[0].text
    assert finding.evidence[1].value == pytest.approx(2 * 0.125 / 0.0038, rel=0.05)
    assert "read_ahead_kb" in finding.advice


@pytest.mark.parametrize(
    "case",
    [
        reader(kib=15360),  # read far ahead already
        reader(kib=None),  # nobody knows
        reader(streams=4, under_way=8.0),  # several readers
        reader(under_way=0.5),  # the reader waits for something else
        reader(read_ms=0.4),  # a fast volume
        reader(kib=1024),  # requests smaller than the read-ahead: the file's or the server's size is the cause
    ],
)
def test_other_readers_are_not_named(case: Case) -> None:
    assert READ_AHEAD not in causes(case)
