"""From readings to latencies, series and the metrics of triggers."""

from __future__ import annotations

from pathlib import Path

import pytest
from synthetic_observation import build

from volbench.core.records.named_metrics import Client
from volbench.core.records.series import SeriesRow
from volbench.measure.sample.interface import Reading, Values
from volbench.measure.sample.raw import RawTick
from volbench.observe.recent import Readings, RecentSeries, trigger_values
from volbench.observe.report import report_of


def tick(number: int, **read: Values) -> RawTick:
    readings = {source: Reading(t_s=float(number), values=values) for source, values in read.items()}
    return RawTick(tick=number, late_s=0.0, took_s=0.0, read=readings)


def buckets(**counts: int) -> Values:
    values: Values = {("connection", ""): 1, ("statements", ""): sum(counts.values())}
    return values | {("statement_bucket", name[1:]): count for name, count in counts.items()}


def rows_of(*ticks: RawTick) -> dict[tuple[float, str, str], float]:
    readings = Readings()
    return {
        (row.t_s, row.source, row.metric): row.value
        for tick in ticks
        for _, _, rows in readings.rows_of(tick)
        for row in rows
    }


def test_quantiles_are_of_what_ended_in_the_interval() -> None:
    """What the server counted before the observation began has no part in them."""
    result = rows_of(
        tick(1, performance_schema=buckets(b50=1_000_000, b200=5)),
        tick(2, performance_schema=buckets(b50=1_000_090, b200=15)),
    )
    # Bucket n begins at 10 us x 10^((n - 1) / 50): 50 lies about 0.1 ms, 200 about 100 ms.
    assert result[2.0, "client", "latency_ms_p50"] == pytest.approx(0.0977, rel=0.03)
    assert result[2.0, "client", "latency_ms_p95"] == pytest.approx(97.7, rel=0.03)


def test_an_interval_without_statements_has_no_latency() -> None:
    same = buckets(b50=100)
    assert not [
        key
        for key in rows_of(tick(1, performance_schema=same), tick(2, performance_schema=same))
        if "latency" in key[2]
    ]


def test_a_server_that_began_anew_has_no_latency_over_the_restart() -> None:
    later = buckets(b50=5) | {("connection", ""): 2}
    result = rows_of(tick(1, performance_schema=buckets(b50=100)), tick(2, performance_schema=later))
    assert not [key for key in result if "latency" in key[2]]


def rows(**values: float) -> list[SeriesRow]:
    named = (name.partition("__") for name in values)
    return [
        SeriesRow(t_s=1.0, source=source, metric=metric, value=value)
        for (source, _, metric), value in zip(named, values.values(), strict=True)
    ]


def test_the_mean_time_of_an_operation_is_weighted_by_their_number() -> None:
    result = trigger_values(
        rows(
            diskstats__reads_per_s=90.0,
            diskstats__writes_per_s=10.0,
            diskstats__r_await_ms=1.0,
            diskstats__w_await_ms=11.0,
        ),
        None,
    )
    assert (result["iops"], result["await"]) == (100.0, 2.0)


def test_without_an_operation_there_is_no_waiting_time() -> None:
    assert "await" not in trigger_values(rows(diskstats__reads_per_s=0.0, diskstats__writes_per_s=0.0), None)


def test_other_disks_are_not_the_volume() -> None:
    second = [SeriesRow(t_s=1.0, source="diskstats", metric="reads_per_s", value=5.0, entity="sdb")]
    assert trigger_values(second, "sda") == {}
    assert trigger_values(second, "sdb") == {"reads": 5.0}


def test_the_emptiest_bucket_of_credits_counts_and_ratios_are_percent() -> None:
    balances = [
        SeriesRow(t_s=1.0, source="emulator", metric="balance_percent", value=value, entity=name)
        for name, value in (("iops", 40.0), ("throughput", 7.0))
    ]
    assert trigger_values(balances, None)["credits"] == 7.0
    result = trigger_values(rows(cpu__user_ratio=0.5, cpu__system_ratio=0.25), None)
    assert result["cpu"] == 75.0
    assert trigger_values(rows(innodb__threads_running=4.0), None)["threads_running"] == 3.0


def test_a_window_forgets_what_is_old() -> None:
    window = RecentSeries(length_s=10.0)
    for second in range(100):
        window.add([SeriesRow(t_s=float(second), source="vm", metric="page_faults_per_s", value=1.0)])
    window.add([SeriesRow(t_s=99.0, source="cpu", metric="user_ratio", value=1.0)])
    (faults,) = [item for key, item in window.series().items() if key.source == "vm"]
    assert faults.t_s.tolist() == [float(second) for second in range(89, 100)]


def test_a_dump_is_named_by_its_program_also_where_there_are_no_percentiles(tmp_path: Path) -> None:
    """The load goes on at its rate, and each statement takes four times as long while mysqldump is connected."""
    dump = range(61, 76)

    def load(tick: int) -> tuple[float, float, float]:
        return 300.0 + tick % 7, (4.0 if tick in dump else 1.0) + tick % 5 / 10, 1.0

    location = build(
        tmp_path / "o", 100, load, histogram=False, programs=lambda tick: {"mysqldump": int(tick in dump)}
    )
    result = report_of(location)
    assert result.case.at(Client.latency_ms_p95) is None
    (cause,) = [finding for finding in result.findings if finding.cause == "interference.backup"]
    assert cause.window_s == pytest.approx((60.0, 75.0), abs=1.0)
    assert "mysqldump ran from" in cause.evidence[0].text
    assert "avg" in cause.evidence[0].text
