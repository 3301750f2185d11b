"""Other forms of tools that are read, and tools that are only recognised (tests/fixtures/other-forms).

All of these are cut from outputs of the tools themselves, on one machine under load: sysstat 12.6.1, collectl
4.3.1, dstat 0.7.4, dool 1.3.8, fio 3.33, procps 4.0.2, atop 2.8.1, nmon 16n, MariaDB 10.11, sysbench 1.0.20.
"""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta
from pathlib import Path

import pytest
from evidence_texts import Second, iostat, metric_data, quiet, sar

from volbench.errors import UsageError
from volbench.results.explain.recordings.directory import explain_recorded
from volbench.results.recorded.contents import decoded
from volbench.results.recorded.formats import read_text
from volbench.results.recorded.parsed import Recorded
from volbench.results.store.series import SeriesKey

FIXTURES = Path(__file__).parents[3] / "fixtures" / "other-forms"


def read(text: str) -> Recorded:
    result = read_text(text)
    assert result is not None
    return result[1][0]


def fixture(name: str) -> Recorded:
    return read(decoded((FIXTURES / name).read_bytes()))


def first(recorded: Recorded, metric: str, entity: str = "vda", source: str = "diskstats") -> float:
    return float(recorded.series[SeriesKey(source=source, metric=metric, entity=entity)].value[0])


@pytest.mark.parametrize("name", ["iostat-dec0.txt", "sar-dec0.txt"])
def test_a_time_that_is_rounded_to_0_is_not_known(name: str) -> None:
    """--dec=0: operations of 0.23 ms are printed as 0."""
    recorded = fixture(name)
    of_vda = {key.metric for key in recorded.series if key.entity == "vda"}
    assert not any(metric.endswith("await_ms") for metric in of_vda)
    assert any("printed without decimals" in note for note in recorded.notes)
    assert {"reads_per_s", "operations_per_s"} & of_vda


def test_sadf_is_read_as_sar_is() -> None:
    in_utc, local = fixture("sadf-d.txt"), fixture("sadf-dt.txt")
    assert in_utc.host == local.host == "vm"
    assert first(in_utc, "user_ratio", "", "cpu") == pytest.approx(0.5776 + 0.3405)
    assert in_utc.midnight_epoch_s is not None
    assert (local.midnight_epoch_s, local.dates) == (None, (date(2026, 11, 26),))
    rows = [line.split(";") for line in (FIXTURES / "sadf-dt.txt").read_text().splitlines() if ";vda;" in line]
    assert first(local, "operations_per_s") == float(rows[0][4])
    assert first(local, "aqu_sz") == float(rows[0][9])


def test_collectl_s_detail_of_disks() -> None:
    recorded = fixture("collectl-sD.txt")
    assert first(recorded, "reads_per_s") == 14_000  # 14K
    assert first(recorded, "read_mib_per_s") == pytest.approx(187_064 / 1024)
    assert first(recorded, "util_ratio") == pytest.approx(0.62)
    assert not any(key.metric.endswith("await_ms") for key in recorded.series)  # whole ms, and some are 0
    assert recorded.clocked


@pytest.mark.parametrize(("name", "reads"), [("dstat-epoch.txt", 16_100), ("dool-epoch.txt", 6336)])
def test_dstat_and_dool_with_epochs_and_two_disks(name: str, reads: float) -> None:
    recorded = fixture(name)
    assert first(recorded, "reads_per_s") == pytest.approx(reads)  # 16.1k are 16,100 operations
    assert {key.entity for key in recorded.series if key.source == "diskstats"} == {"vda", "all devices"}
    assert recorded.midnight_epoch_s == datetime.fromisoformat("2026-11-26T00:00:00+00:00").timestamp()


def test_dool_s_csv() -> None:
    recorded = fixture("dool.csv")
    assert recorded.host == "vm"
    assert first(recorded, "writes_per_s", "all devices") == 404
    assert recorded.clocked


@pytest.mark.parametrize("path", sorted(FIXTURES.glob("unread-*")), ids=lambda path: path.stem)
def test_what_is_not_read_is_recognised_and_something_else_is_asked_for(path: Path) -> None:
    with pytest.raises(UsageError, match=r"this is .+, not read: give .+"):
        explain_recorded(path)


TEXTS = {
    "an answer printed by Python": "{'MetricDataResults': [{'Timestamps': [datetime.datetime(2025, 3, 11, 14)]}]}",
    "YAML": "Datapoints:\n- Sum: 1.0\n",
    "a query": json.dumps([{"Id": "m1", "MetricStat": {"Stat": "Sum"}}]),
    "a list of metrics": json.dumps({"Metrics": [{"Namespace": "AWS/EBS"}]}, indent=1),
    "a description": json.dumps({"Volumes": [{"VolumeId": "vol-1"}]}),
    "a part of the status": "Variable_name\tValue\nInnodb_data_reads\t500\nUptime\t1000\n",
    "variables": "+---+---+\n| Variable_name | Value |\n+---+---+\n| innodb_buffer_pool_size | 134217728 |\n",
    "RTF": r"{\rtf1\ansi text}",
    "Grafana": '"Time","db1 read"\n2025-03-11 14:00:00,300\n',
    "typeperf": '"(PDH-CSV 4.0)","\\\\db1\\PhysicalDisk(_Total)\\Disk Reads/sec"\n',
    "FreeBSD": "                        extended device statistics  \ndevice     r/s   w/s\n",
    "ioping": "4 KiB <<< /dev/sda (block device 1 GiB): request=1 time=300 us\n",
    "sysbench's CPUs": "sysbench 1.0.20\n[ 1s ] thds: 4 eps: 5000.00 lat (ms,95%): 1.00\n",
}


@pytest.mark.parametrize("form", TEXTS)
def test_texts_that_are_recognised(tmp_path: Path, form: str) -> None:
    (tmp_path / "x").write_text(TEXTS[form])
    with pytest.raises(UsageError, match=r"this is .+, not read: give .+"):
        explain_recorded(tmp_path)


def test_times_in_milliseconds() -> None:
    answer = json.loads(metric_data({"ReadIOPS": [600.0] * 9}))
    for result in answer["MetricDataResults"]:
        result["Timestamps"] = [(1_741_701_600 + 60 * number) * 1000 for number in range(9)]
    assert read(json.dumps(answer)).midnight_epoch_s == datetime.fromisoformat("2025-03-11T00:00:00Z").timestamp()


def exported(lines: str) -> float:
    recorded = read(lines)
    assert recorded.host == "db1"
    return first(recorded, "reads_per_s", "nvme1n1")


def test_dumps_of_series_by_promtool_and_victoriametrics() -> None:
    labels = 'device="nvme1n1",instance="db1:9100"'
    for times in ([1_741_701_600 + 15 * n for n in range(9)], [1_741_701_600_000 + 15_000 * n for n in range(9)]):
        lines = [f"node_disk_reads_completed_total{{{labels}}} {4500 * n} {t}" for n, t in enumerate(times)]
        assert exported("# TYPE node_disk_reads_completed_total counter\n" + "\n".join(lines) + "\n") == 300
    series = {
        "metric": {"__name__": "node_disk_reads_completed_total", "instance": "db1:9100", "device": "nvme1n1"},
        "values": [4500 * n for n in range(9)],
        "timestamps": [1_741_701_600_000 + 15_000 * n for n in range(9)],
    }
    assert exported(json.dumps(series) + "\n") == 300


def test_a_log_of_tpcc_mysql() -> None:
    line = "  {t}, trx: {n}, 95%: 9.483, 99%: 18.738, max_rt: 213.169, 12919|98.778, 1292|101.096\n"
    text = "MEASURING START.\n\n" + line.format(t=10, n=12_920) + line.format(t=20, n=0)
    recorded = read(text)
    tps, p95 = (
        recorded.series[SeriesKey(source="client", metric=name, entity="")].value.tolist()
        for name in ("tps", "latency_ms_p95")
    )
    assert (tps, p95) == ([1292.0, 0.0], [9.483])


def test_the_dates_of_iostat_s_times_count() -> None:
    """A text whose banners were cut away goes on three days later."""
    early, late = (iostat(quiet(20), start=datetime(2025, 3, day, 14)) for day in (8, 11))
    recorded = read(early + late.split("(8 CPU)\n\n")[1])
    span_s = max(float(item.t_s[-1]) - float(item.t_s[0]) for item in recorded.series.values())
    assert 3 * 86_400 < span_s < 3 * 86_400 + 60


@pytest.mark.parametrize(("clock", "day"), [("%d/%m/%Y %H:%M:%S", 11), ("%m/%d/%Y %I:%M:%S %p", 11)])
def test_a_clock_of_24_hours_has_the_day_before_the_month(clock: str, day: int) -> None:
    """Locales that write the month first, with four digits of the year, have a clock of 12 hours."""
    assert read(iostat(quiet(20), clock=clock)).dates[0] == date(2025, 3, day)


def test_the_end_of_summer_time_is_no_midnight() -> None:
    begin = datetime(2025, 10, 26)
    rows: list[Second] = quiet(18)
    text = sar(rows, start=begin)
    again = [sar(quiet(6), start=begin + timedelta(hours=2)), sar(quiet(60), start=begin + timedelta(hours=3))]
    recorded = read(text + "".join(part.split("%util\n")[1] for part in again))
    (series,) = (item for key, item in recorded.series.items() if key.metric == "operations_per_s")
    assert len(series.t_s) == 84
    assert float(series.t_s[-1]) == 14 * 3600  # 13:00 on the clock, and an hour twice
    assert float(max(b - a for a, b in zip(series.t_s, series.t_s[1:], strict=False))) == 600
