from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from volbench.analysis.recorded.parsed import DayClock, merged, time_of_day
from volbench.analysis.recorded.sar import ALL_DEVICES, looks_like_sar, parse_sar, with_one_device
from volbench.store.series import SeriesKey

FIXTURES = Path(__file__).parents[3] / "fixtures" / "sar"
"""A production server's sar of 2017, in Japanese: its times are 00時00分01秒."""


def read(name: str) -> str:
    return (FIXTURES / name).read_text()


def key(metric: str, entity: str = "dev202-0", source: str = "diskstats") -> SeriesKey:
    return SeriesKey(source=source, metric=metric, entity=entity)


def test_devices_of_a_japanese_sar() -> None:
    found = parse_sar(read("sar-d-japanese.txt")).series
    tps = found[key("operations_per_s")]
    assert len(tps.t_s) == 19
    assert tps.t_s[0] == 13 * 3600 + 30 * 60 + 1
    at = int(np.flatnonzero(tps.t_s == 15 * 3600 + 40 * 60 + 1)[0])
    assert tps.value[at] == 10.24
    assert found[key("await_ms")].value[at] == 997.61
    assert found[key("aqu_sz")].value[at] == 10.22
    assert found[key("util_ratio")].value[at] == pytest.approx(0.9992)
    assert found[key("read_mib_per_s")].value[at] == pytest.approx(151.76 * 512 / 2**20)


def test_all_io_goes_to_the_device_that_does_all_of_it() -> None:
    files = [parse_sar(read(name)) for name in ("sar-d-japanese.txt", "sar-b-japanese.txt")]
    found = with_one_device(merged(files))
    assert found[key("reads_per_s")].value.max() == 3.60
    assert not any(one.entity == ALL_DEVICES for one in found)
    alone = with_one_device(files[1].series)
    assert key("reads_per_s", ALL_DEVICES) in alone


def test_all_io_of_several_devices_belongs_to_none() -> None:
    other = read("sar-d-japanese.txt").replace("      2.53 ", "      1.11 ")
    found = with_one_device(merged([parse_sar(other), parse_sar(read("sar-b-japanese.txt"))]))
    assert key("reads_per_s") not in found
    assert not any(one.entity == ALL_DEVICES for one in found)


NEW = """Linux 6.1.0 (db) \t01/31/26 \t_x86_64_\t(4 CPU)

11:50:01 PM       DEV       tps     rkB/s     wkB/s     dkB/s   areq-sz    aqu-sz     await     %util
11:55:01 PM   nvme1n1    100.00   1024.00   2048.00      0.00     30.72      0.50      5.00     20.00
11:55:01 PM   nvme0n1      1.00      0.00     16.00      0.00     16.00      0.00      0.50      0.10
12:00:01 AM   nvme1n1    200.00   2048.00   4096.00      0.00     30.72      1.00      5.00     40.00
12:00:01 AM   nvme0n1      1.00      0.00     16.00      0.00     16.00      0.00      0.50      0.10
Average:      nvme1n1    150.00   1536.00   3072.00      0.00     30.72      0.75      5.00     30.00

12:00:01 AM       LINUX RESTART\t(4 CPU)

11:50:01 PM     CPU     %user     %nice   %system   %iowait    %steal     %idle
11:55:01 PM     all     10.00      0.00      5.00     20.00      1.00     64.00
"""


def test_a_new_sar_with_twelve_hours_and_a_midnight() -> None:
    found = parse_sar(NEW).series
    tps = found[key("operations_per_s", "nvme1n1")]
    assert tps.value.tolist() == [100.0, 200.0]
    assert np.diff(tps.t_s).tolist() == [300.0]
    assert found[key("write_mib_per_s", "nvme1n1")].value.tolist() == [2.0, 4.0]
    assert found[key("steal_ratio", "", "cpu")].value.tolist() == [0.01]


def test_decimal_commas() -> None:
    text = NEW.replace(".00", ",00").replace(".50", ",50")
    assert parse_sar(text).series[key("await_ms", "nvme1n1")].value.tolist() == [5.0, 5.0]


@pytest.mark.parametrize(
    ("line", "seconds", "rest"),
    [
        ("15時40分01秒  dev202-0  1", 56_401, "dev202-0  1"),
        ("15:40:01 sda 1", 56_401, "sda 1"),
        ("03:40:01 PM sda 1", 56_401, "sda 1"),
        ("12:10:00 AM sda 1", 600, "sda 1"),
        ("午後03時40分01秒 sda 1", 56_401, "sda 1"),
        ("15시 40분 01초 sda 1", 56_401, "sda 1"),
        ("15.40.01 sda 1", 56_401, "sda 1"),
    ],
)
def test_times_of_locales(line: str, seconds: float, rest: str) -> None:
    assert time_of_day(line) == (seconds, rest)


@pytest.mark.parametrize(
    "line", ["", "Average: sda 1", "平均値: dev 1", "Linux 6.1.0 (db)", "99:99:99 sda", "10.24 3"]
)
def test_what_is_no_time(line: str) -> None:
    assert time_of_day(line) is None


def test_a_clock_never_falls() -> None:
    clock = DayClock()
    assert [clock.at(s) for s in (86_000, 86_300, 200, 500)] == [86_000, 86_300, 86_600, 86_900]


def test_other_text_is_no_sar() -> None:
    assert looks_like_sar(read("sar-b-japanese.txt"))
    assert not looks_like_sar("10:00:00 hello tps\n")
    assert parse_sar("nothing\n").series == {}
