"""Histories from files: plain series, sar, iostat, CloudWatch, a run's cell."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from volbench.core.profile.limits import limits_of
from volbench.core.profile.resolve import resolve
from volbench.core.records.series import SeriesRow
from volbench.errors import UsageError
from volbench.results.credits.answer import difference_from_observed
from volbench.results.credits.forecast import forecast
from volbench.results.credits.history import Defaults
from volbench.results.credits.sources import read_history
from volbench.results.store.series import write_series

SAR = Path(__file__).parents[3] / "fixtures" / "sar"
IOSTAT = """\
Linux 6.1.0 (db1)  03/02/2026  _x86_64_  (2 CPU)

{reports}"""
HEADING = "Device  r/s  rkB/s  rrqm/s  %rrqm  r_await  rareq-sz  w/s  wkB/s  w_await  aqu-sz  %util"


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_a_plain_series_keeps_its_gaps(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "t,iops,mib_per_s\n60,100,1\n120,,\n180,50,2\n600,5,1\n")
    work = read_history(path, Defaults(read_share=0.5)).work
    assert work.is_known.tolist() == [True, False, True, False, True]
    assert work.interval_s.tolist() == [60, 60, 60, 360, 60]
    assert work.reads_per_s[0] == work.writes_per_s[0] == 50
    assert work.read_bytes[0] == pytest.approx(2**20 / 100)


def test_a_plain_series_may_have_dates_and_reads_apart_from_writes(tmp_path: Path) -> None:
    csv = "t,reads_per_s,writes_per_s\n2026-01-31T12:01:00Z,3,4\n2026-01-31T12:02:00Z,5,6\n"
    rows = [
        {"t": "2026-01-31T12:01:00Z", "reads_per_s": 3, "writes_per_s": 4},
        {"t": "2026-01-31T12:02:00Z", "reads_per_s": 5, "writes_per_s": 6},
    ]
    for path in (written(tmp_path / "a.csv", csv), written(tmp_path / "a.json", json.dumps(rows))):
        work = read_history(path, Defaults()).work
        assert (work.clock, work.start_s) == ("date", 1769860800.0)
        assert work.iops.tolist() == [7, 11]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "t,iops\n60,x\n", "no number"),
        ("a.csv", "", "evidence: empty"),
        ("a.csv", "t,iops\n", "no point"),
        ("a.csv", "t,iops\n60,4\n50,3\n", "do not ascend"),
        ("a.csv", "t,iops\n60,4\n60,3\n", "do not ascend"),
        ("a.csv", "t,iops\n60,-4\n", "below 0"),
        ("a.csv", "moment,iops\n60,4\n", "its columns are moment, iops"),
        ("a.json", "{}", "not a plain series"),
        ("a.json", "[", "cannot be read as a JSON list"),
        ("a.txt", "hello\n", "nothing here that can be read"),
        ("a.json", '{"MetricDataResults": []}', "no data points"),
    ],
)
def test_bad_input_is_told_with_what_is_wrong(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_history(written(tmp_path / name, text), Defaults())


@pytest.mark.parametrize("name", ["sar-d-japanese.txt", "sar-b-japanese.txt"])
def test_the_credit_exhaustion_that_sar_recorded_is_not_explained_by_its_load(name: str) -> None:
    """Requests waited up to a second, at 3 to 10 IOPS of the 150 that never run out: sar did not see the cause."""
    history = read_history(SAR / name, Defaults())
    assert history.work.interval_s.tolist() == [600.0] * 19
    assert history.work.iops.max() == pytest.approx(10.24)
    assert forecast(limits_of(resolve("ebs-gp2", {"size": "50GiB"})), history.work).exhausted_after_s is None
    if "-d-" in name:
        assert history.work.write_bytes[0] == pytest.approx(22.77 * 512, rel=0.01)
        assert history.slow == ((80 * 60.0, 190 * 60.0),)


def test_iostat_of_several_devices_asks_for_one(tmp_path: Path) -> None:
    report = f"{HEADING}\nsda 10 160 0 0 0.8 16 5 80 1.0 0.1 2\nsdb 1 16 0 0 0.8 16 0 0 0.0 0.1 2\n\n"
    path = written(tmp_path / "iostat.txt", IOSTAT.format(reports=report * 3))
    with pytest.raises(UsageError, match="devices: sda, sdb"):
        read_history(path, Defaults(), interval_s=1.0)
    with pytest.raises(UsageError, match="no device 'sdc'"):
        read_history(path, Defaults(), device="sdc", interval_s=1.0)
    with pytest.raises(UsageError, match="--interval"):
        read_history(path, Defaults(), device="sda")
    history = read_history(path, Defaults(), device="sda", interval_s=1.0)
    assert history.work.reads_per_s.tolist() == [10, 10]
    assert history.work.read_bytes.tolist() == [16 * 1024] * 2


def cloudwatch(minutes: list[int], iops: float, balance: list[float]) -> str:
    stamps = [f"2026-01-31T{12 + minute // 60:02d}:{minute % 60:02d}:00Z" for minute in minutes]
    values = {
        "VolumeReadOps": [iops * 60] * len(minutes),
        "VolumeWriteOps": [0.0] * len(minutes),
        "BurstBalance": balance,
    }
    return json.dumps(
        {
            "MetricDataResults": [
                {"Id": f"m{n}", "Label": name, "Timestamps": stamps[::-1], "Values": column[::-1]}
                for n, (name, column) in enumerate(values.items())
            ]
        }
    )


def test_cloudwatch_with_gaps_is_read_and_its_burst_balance_compared(tmp_path: Path) -> None:
    """3,000 IOPS on 50 GiB spend 171,000 credits a minute: 3.17 % of the bucket. Minutes 5 to 9 are missing."""
    minutes = [0, 1, 2, 3, 4, 10, 11]
    spent = [100.0 - 100 * 171_000 / 5.4e6 * (n + 1) for n in range(len(minutes))]
    path = written(tmp_path / "cloudwatch.json", cloudwatch(minutes, 3000.0, spent))
    history = read_history(path, Defaults())
    assert history.work.gaps == [(300.0, 600.0)]
    result = forecast(limits_of(resolve("ebs-gp2", {"size": "50GiB"})), history.work)
    apart = difference_from_observed(result, history.observed)
    assert apart is not None
    assert apart < 0.001


def test_a_cell_of_a_run_is_a_history_and_a_run_of_several_asks_for_one(tmp_path: Path) -> None:
    for cell in ("a", "b"):
        directory = tmp_path / "cells" / cell
        directory.mkdir(parents=True)
        rows = [
            SeriesRow(t_s=float(t), source="diskstats", metric=metric, entity="nvme1n1", value=value)
            for metric, value in (("reads_per_s", 200.0), ("writes_per_s", 100.0))
            for t in range(1, 11)
        ]
        write_series(directory / "series.parquet", rows)
    (tmp_path / "run.json").write_text("{}")
    work = read_history(tmp_path / "cells" / "a", Defaults()).work
    assert work.iops.tolist() == [300.0] * 10
    with pytest.raises(UsageError, match="2 cells"):
        read_history(tmp_path, Defaults())


def test_what_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        read_history(tmp_path / "none", Defaults())
    with pytest.raises(UsageError, match="nothing here"):
        read_history(tmp_path, Defaults())


@pytest.mark.parametrize(
    ("heading", "stamps"),
    [
        ("iops,time", ["2025-03-11T09:00:00Z", "2025-03-11T10:00:00Z"]),
        ("iops,Timestamp", ["2025-03-11 09:00:00", "2025-03-11 10:00:00"]),
        ("iops,t", ["1741683600", "1741687200"]),
        ("iops,timestamp", ["1741683600000", "1741687200000"]),
    ],
)
def test_a_series_has_its_time_under_any_name_in_any_form(tmp_path: Path, heading: str, stamps: list[str]) -> None:
    text = "".join([heading + "\n", *(f"{300 + at},{stamp}\n" for at, stamp in enumerate(stamps))])
    work = read_history(written(tmp_path / "a.csv", text), Defaults()).work
    assert work.clock == "date"
    assert work.interval_s.tolist() == [3600, 3600]
    assert work.reads_per_s.tolist() == [300, 301]


def test_what_a_throttled_volume_serves_is_of_its_throttled_seconds(tmp_path: Path) -> None:
    """Hourly points of a gp2 of 100 GiB: 300 operations a second, whatever share of an hour had credits left."""
    text = "t,iops\n" + "".join(f"{3600 * hour},2500\n" for hour in range(1, 13))
    work = read_history(written(tmp_path / "a.csv", text), Defaults()).work
    limits = limits_of(resolve("ebs-gp2", {"size": "100GiB"}))
    after = forecast(limits, work).after
    assert after is not None
    assert after.iops == pytest.approx(300, rel=0.02)
