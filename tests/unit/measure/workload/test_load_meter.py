"""Rows and metrics of intervals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from volbench.core.records.latency_bins import merge
from volbench.measure.workload.interface import Clock
from volbench.measure.workload.oltp.load_meter import (
    Observed,
    client_cpu,
    concurrency,
    histogram_row,
    load_metrics,
    offered_load,
    series_rows,
    unanswered,
    unfinished_sessions,
)
from volbench.measure.workload.oltp.sysbench import LineParser, ReportInterval

RECORDED = Path(__file__).parent / "recorded" / "sysbench-1.0.20-stall.txt"
CLOCK = Clock(zero_monotonic_ns=2_843_134_700_068)


@pytest.fixture
def intervals() -> list[ReportInterval]:
    parser = LineParser()
    records = (parser.feed(line) for line in RECORDED.read_text().splitlines())
    return [record for record in records if isinstance(record, ReportInterval)]


def test_a_stalled_second_has_rates_and_no_latencies(intervals: list[ReportInterval]) -> None:
    """tps is 0, which is known; a latency is not."""
    rows = {row.metric: row.value for row in series_rows(intervals[1], CLOCK)}
    assert rows["tps"] == 0
    assert rows["queue_length"] == 7
    assert not any(name.startswith("latency") for name in rows)


def test_rows_carry_the_end_of_their_interval(intervals: list[ReportInterval]) -> None:
    """On the cell's clock, per second of the interval's real length."""
    rows = list(series_rows(intervals[0], CLOCK))
    assert {row.t_s for row in rows} == {1.0}
    assert {row.source for row in rows} == {"client"}
    tps = next(row.value for row in rows if row.metric == "tps")
    assert tps == pytest.approx(9 / intervals[0].interval_s)


def test_a_histogram_row_keeps_every_event(intervals: list[ReportInterval]) -> None:
    """Bins ascend and add up; a stall is a row with no bins."""
    for interval in intervals:
        row = histogram_row(interval, CLOCK, step="o", measured=True)
        assert sum(row.count) + row.below + row.above == row.events == interval.events
        assert list(row.bin) == sorted(row.bin)
        assert row.interval_s == interval.interval_s
    assert histogram_row(intervals[1], CLOCK, step="o", measured=False).bin == ()


def test_metrics_are_of_the_merged_histogram(intervals: list[ReportInterval]) -> None:
    """Never an average of percentiles: half of all transactions were slower than every quiet second's median."""
    metrics = {name: metric.value for name, metric in load_metrics(intervals, rate=8).items()}
    assert metrics["stalled_s"] == pytest.approx(2, abs=0.01)
    assert metrics["tps"] == pytest.approx(46 / 5, rel=0.01)
    assert metrics["rate_achieved_ratio"] == pytest.approx(46 / 5 / 8, rel=0.01)
    assert metrics["latency_ms_p50"] > 500
    assert metrics["latency_ms_max"] == pytest.approx(2194.5, rel=0.019)


@pytest.mark.parametrize(("rate", "counted"), [(None, True), (8.0, True), (4.0, False), (2.0, False)])
def test_seconds_without_a_transaction_are_no_stall_where_few_are_offered(
    intervals: list[ReportInterval], rate: float | None, counted: bool
) -> None:
    """At 4 a second by chance, 1.8 % of all seconds have none."""
    assert ("stalled_s" in load_metrics(intervals, rate=rate)) is counted


def test_transactions_without_an_answer_are_the_slowest(intervals: list[ReportInterval]) -> None:
    """46 were answered: with 6 that wait, the median of all is the 26th, and p95 and p99 are not known."""
    answered, of_all = (
        {name: metric.value for name, metric in load_metrics(intervals, rate=8, waiting=waiting).items()}
        for waiting in (0, 6)
    )
    bins = merge(interval.bins for interval in intervals)
    assert bins is not None
    assert of_all["latency_ms_p50"] == pytest.approx(bins.quantile_ms(26 / 46))
    assert answered.keys() - of_all.keys() == {"latency_ms_p95", "latency_ms_p99", "latency_ms_p999"}
    same = ("tps", "latency_ms_mean", "latency_ms_max")
    assert [of_all[name] for name in same] == [answered[name] for name in same]


def test_a_queue_of_the_moment_is_no_overload(intervals: list[ReportInterval]) -> None:
    """From as many waiting as there are threads on; never below a thousandth of all."""
    assert unanswered([*intervals[:-1], replace(intervals[-1], queue_length=7)], threads=8) == 0
    assert unanswered([*intervals[:-1], replace(intervals[-1], queue_length=8)], threads=8) == 8
    many = [*intervals[:-1], replace(intervals[-1], queue_length=9, events=10_000)]
    assert unanswered(many, threads=8) == 0


def test_nothing_finished_gives_no_latency_metric(intervals: list[ReportInterval]) -> None:
    """A window that is all stall: rates and the stall, and no latency at all."""
    metrics = load_metrics(intervals[1:3], rate=None)
    assert metrics["tps"].value == 0
    assert metrics["stalled_s"].value == pytest.approx(2, abs=0.01)
    assert not any(name.startswith("latency") or name == "rate_achieved_ratio" for name in metrics)


def test_sessions_in_transactions_that_did_not_end_are_what_the_ended_ones_leave(
    intervals: list[ReportInterval],
) -> None:
    """By the latencies of 46 transactions in five seconds, two of them without any; in the two alone by nothing."""
    mean_s = load_metrics(intervals, rate=None)["latency_ms_mean"].value / 1000
    length_s = sum(interval.interval_s for interval in intervals)
    assert unfinished_sessions(intervals, threads=100) == pytest.approx(100 - 46 * mean_s / length_s)
    assert unfinished_sessions(intervals[1:3], threads=8) == 8
    assert unfinished_sessions(intervals, threads=1) == 0


def test_a_server_that_lags_is_not_the_generators_fault(intervals: list[ReportInterval]) -> None:
    """During the stall nothing finished, but the rate was offered: it waits in the queue."""
    during = offered_load(intervals[0], intervals[1:3], rate=8)
    assert during["queue_growth"] == 23
    assert during["offered_ratio"] > 1
    behind = offered_load(intervals[0], intervals[1:3], rate=100)
    assert behind["offered_ratio"] < 0.2


def test_client_cpu_is_against_what_its_threads_can_use(intervals: list[ReportInterval]) -> None:
    """One thread on many cores can use one of them."""
    observed = [Observed(interval=item, cpu_s=0.5 * number) for number, item in enumerate(intervals)]
    one_thread = client_cpu(observed, threads=1, cpus=16.0)
    assert one_thread["client_cpu_ratio"] == pytest.approx(0.5, rel=0.01)
    assert client_cpu(observed, threads=8, cpus=2.0)["client_cpu_ratio"] == pytest.approx(0.25, rel=0.01)


def test_unknown_client_cpu_is_absent(intervals: list[ReportInterval]) -> None:
    """Not 0: the validity rule must not take it for idle."""
    assert (
        client_cpu([Observed(interval=interval, cpu_s=None) for interval in intervals], threads=1, cpus=1.0) == {}
    )


SECONDS = [(float(second), second + 1.0) for second in range(5)]


@pytest.mark.parametrize(
    ("windows", "phases"),
    [
        ([], ["alone"] * 5),
        ([(1.2, 1.4)], ["alone", "during", "alone", "alone", "alone"]),
        ([(0.8, 3.4)], ["", "during", "during", "", "alone"]),
        ([(1.75, 2.375)], ["alone", "", "during", "alone", "alone"]),
        ([(4.875, 9.0)], ["alone", "alone", "alone", "alone", "during"]),
        ([(0.0, 1.0), (3.5, 4.0)], ["during", "alone", "alone", "during", "alone"]),
        ([(7.0, 8.0), (2.0, 2.0)], ["alone"] * 5),
    ],
)
def test_an_interval_is_concurrent_with_a_step_of_any_length(
    windows: list[tuple[float, float]], phases: list[str]
) -> None:
    """A backup of 0.6 s across two seconds is in neither for half a second, and still had an effect."""
    assert list(concurrency(SECONDS, windows)) == phases
