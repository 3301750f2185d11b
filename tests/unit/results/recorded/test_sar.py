from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from volbench.results.recorded.parsed import DayClock, merged, time_of_day
from volbench.results.recorded.sar import ALL_DEVICES, looks_like_sar, parse_sar, with_one_device
from volbench.results.store.series import SeriesKey

FIXTURES = Path(__file__).parents[3] / "fixtures" / "sar"
"""A production server's sar of 2017, in Japanese: its times are 00時00分01秒."""


def read(name: str) -> str:
    return (FIXTURES / name).read_text()


def key(metric: str, entity: str = "dev202-0", source: str = "diskstats") -> SeriesKey:
    return SeriesKey(source=source, metric=metric, entity=entity)


def test_devices_of_a_japanese_sar() -> None:
    series = parse_sar(read("sar-d-japanese.txt")).series
    tps = series[key("operations_per_s")]
    assert len(tps.t_s) == 19
    assert tps.t_s[0] == 13 * 3600 + 30 * 60 + 1
    at = int(np.flatnonzero(tps.t_s == 15 * 3600 + 40 * 60 + 1)[0])
    assert tps.value[at] == 10.24
    assert series[key("await_ms")].value[at] == 997.61
    assert series[key("aqu_sz")].value[at] == 10.22
    assert series[key("util_ratio")].value[at] == pytest.approx(0.9992)
    assert series[key("read_mib_per_s")].value[at] == pytest.approx(151.76 * 512 / 2**20)


def test_all_io_goes_to_the_device_that_does_all_of_it() -> None:
    files = [parse_sar(read(name)) for name in ("sar-d-japanese.txt", "sar-b-japanese.txt")]
    result = with_one_device(merged(files))
    assert result[key("reads_per_s")].value.max() == 3.60
    assert not any(item.entity == ALL_DEVICES for item in result)
    alone = with_one_device(files[1].series)
    assert key("reads_per_s", ALL_DEVICES) in alone


def test_all_io_of_several_devices_belongs_to_none() -> None:
    second = read("sar-d-japanese.txt").replace("      2.53 ", "      1.11 ")
    result = with_one_device(merged([parse_sar(second), parse_sar(read("sar-b-japanese.txt"))]))
    assert key("reads_per_s") not in result
    assert not any(item.entity == ALL_DEVICES for item in result)


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
    series = parse_sar(NEW).series
    tps = series[key("operations_per_s", "nvme1n1")]
    assert tps.value.tolist() == [100.0, 200.0]
    assert np.diff(tps.t_s).tolist() == [300.0]
    assert series[key("write_mib_per_s", "nvme1n1")].value.tolist() == [2.0, 4.0]
    assert series[key("steal_ratio", "", "cpu")].value.tolist() == [0.01]


def test_niced_programs_use_the_cpus_as_well() -> None:
    """10 % user, 49 % nice and 5 % system are 59 % in user mode, as /proc/stat's own reading here says."""
    text = NEW.replace(
        "10.00      0.00      5.00     20.00      1.00     64.00", "10.00 49.00 5.00 20.00 1.00 15.00"
    )
    assert parse_sar(text).series[key("user_ratio", "", "cpu")].value.tolist() == pytest.approx([0.59])


def test_decimal_commas() -> None:
    text = NEW.replace(".00", ",00").replace(".50", ",50")
    assert parse_sar(text).series[key("await_ms", "nvme1n1")].value.tolist() == [5.0, 5.0]


@pytest.mark.parametrize(
    ("line", "seconds", "remainder"),
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
def test_times_of_locales(line: str, seconds: float, remainder: str) -> None:
    assert time_of_day(line) == (seconds, remainder)


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


RECORDED = Path(__file__).parents[3] / "fixtures" / "sysstat-12.6.1"
"""What sysstat 12.6.1 printed, its clock set so that each file begins before midnight: record.sh there."""
READ_BY_HEADING = (("DEV", "tps"), ("tps", "rtps"), ("CPU", "%us"), ("%scpu-10",), ("%sio-10",))


def recorded(name: str) -> str:
    return (RECORDED / name).read_text()


def headings() -> list[list[str]]:
    lines = (FIXTURES / "headings.txt").read_text().splitlines()
    return [line.split()[2:] for line in lines if not line.startswith("#")]


def rows_by_hand(text: str, heading: str, width: int) -> list[list[str]]:
    """The rows below a heading, up to the blank line: another way to read a table than the parser's."""
    table = next(field for field in text.split("\n\n") if f" {heading} " in field.splitlines()[0] + " ")
    rows = [line.split() for line in table.splitlines()[1:] if not line.startswith(("Average", "Summary"))]
    return [row for row in rows if len(row) == width]


def is_read(heading: list[str]) -> bool:
    return any(all(a.startswith(b) for a, b in zip(heading, begin, strict=False)) for begin in READ_BY_HEADING)


@pytest.mark.parametrize("heading", headings(), ids=" ".join)
def test_every_heading_of_sysstat_is_read_or_passed_over(heading: list[str]) -> None:
    """Rows of as many words as a device's row follow a table of devices without a blank line between them."""
    columns = ["CPU0" if item == "CPU*" else item for item in heading]
    devices = "10:00:00 DEV tps rkB/s wkB/s dkB/s areq-sz aqu-sz await %util\n10:00:01 sda 1 2 3 4 5 6 7 8\n"
    row = ["all", *("1.00" for _ in columns[1:])] if len(columns) > 1 else ["1.00"]
    rows = (f"10:00:01 {' '.join(item)}\n" for item in (row, ["x", *"12345678"]))
    text = f"{devices}10:00:00 {' '.join(columns)}\n{''.join(rows)}"
    series = parse_sar(text).series
    if columns[0] != "DEV":
        assert {quality.entity for quality in series if quality.source == "diskstats"} <= {"sda", ALL_DEVICES}
    extra = {item for item in series if item.entity != "sda"}
    assert bool(extra) == is_read(columns)


def test_sar_a_gives_the_values_of_its_tables_and_no_other() -> None:
    text = recorded("sar-all-midnight.txt")
    series = parse_sar(text).series
    devices = rows_by_hand(text, "DEV", 10)
    for row in devices:
        assert float(row[2]) in series[key("operations_per_s", row[1])].value
    names = {row[1] for row in devices}
    assert {quality.entity for quality in series if quality.source == "diskstats"} == {*names, ALL_DEVICES}
    cpu = [row for row in rows_by_hand(text, "%usr", 12) if row[1] == "all"]
    iowait = series[key("iowait_ratio", "", "cpu")]
    assert (100 * iowait.value).tolist() == pytest.approx([float(row[5]) for row in cpu])
    system = series[key("system_ratio", "", "cpu")]
    assert (100 * system.value).tolist() == pytest.approx([sum(map(float, (r[4], r[7], r[8]))) for r in cpu])


def test_all_tables_of_sar_a_are_on_one_clock_over_midnight() -> None:
    series = parse_sar(recorded("sar-all-midnight.txt")).series
    clocks = {tuple(item.t_s.tolist()) for key, item in series.items() if key.metric != "await_ms"}
    assert clocks == {tuple(86_397.0 + 2 * i for i in range(6))}


@pytest.mark.parametrize("locale", ["de_DE", "ja_JP", "fr_FR", "en_US", "ko_KR", "el_GR"])
def test_every_locale_gives_the_same_series(locale: str) -> None:
    expected = parse_sar(recorded("sar-all-midnight.txt")).series
    result = parse_sar(recorded(f"sar-{locale}.txt")).series
    shared = {quality: series for quality, series in expected.items() if quality.source != "psi"}
    assert result.keys() == shared.keys()
    for item, series in shared.items():
        assert result[item].t_s.tolist() == series.t_s.tolist()
        assert result[item].value.tolist() == series.value.tolist()


@pytest.mark.parametrize("name", ["sar-iso.txt", "sar-d-p.txt", "sar-d-h.txt"])
def test_options_give_the_same_devices(name: str) -> None:
    expected = parse_sar(recorded("sar-all-midnight.txt")).series
    series = parse_sar(recorded(name)).series
    for item in expected:
        if item.source == "diskstats":
            assert series[item].value.tolist() == pytest.approx(expected[item].value.tolist(), rel=0.06, abs=0.06)


def test_sizes_with_units() -> None:
    text = recorded("sar-all-human.txt")
    row = next(row for row in rows_by_hand(text, "DEV", 10) if row[4].endswith("M"))
    written = parse_sar(text).series[key("write_mib_per_s", row[1])]
    assert written.value[0] == float(row[4].removesuffix("M"))


def test_a_live_sar_a() -> None:
    series = parse_sar(recorded("sar-all-live.txt")).series
    assert {tuple(item.t_s.tolist()) for item in series.values()} == {(43_199.0, 43_201.0, 43_203.0)}


def test_a_clock_of_an_unknown_language_is_refused() -> None:
    text = recorded("sar-el_GR.txt").replace("πμ", "πριν").replace("μμ", "μετά")
    assert looks_like_sar(text)
    with pytest.raises(ValueError, match=r"'μετά' before the columns .* LC_ALL=C"):
        parse_sar(text)


def test_two_days_in_one_text_are_two_days() -> None:
    first = recorded("sar-d-p.txt")
    text = first + first.replace("11/21/26", "11/23/26")
    result = parse_sar(text).series[key("iowait_ratio", "", "cpu")]
    assert len(result.t_s) == 12
    assert result.t_s[6] - result.t_s[0] == 2 * 86_400


def test_discards_are_no_operations_where_they_are_told_apart() -> None:
    text = recorded("sar-d-p.txt")
    row = rows_by_hand(text, "rtps", 8)[0]
    result = with_one_device(parse_sar("\n\n".join(text.split("\n\n")[:3])).series)
    operations = result[key("operations_per_s", ALL_DEVICES)].value[0]
    assert operations == pytest.approx(float(row[2]) + float(row[3]), abs=0.02)


def test_a_blank_line_ends_a_table_for_devices_that_it_did_not_have() -> None:
    head = "10:00:00 DEV tps rkB/s wkB/s dkB/s areq-sz aqu-sz await %util\n10:00:01 sda 1 2 3 4 5 6 7 8\n"
    series = parse_sar(f"{head}\n10:00:02 sda 1 2 3 4 5 6 7 8\n10:00:02 eth0 1 2 3 4 5 6 7 8\n").series
    assert {item.entity for item in series} == {"sda"}
    assert series[key("await_ms", "sda")].value.tolist() == [7.0, 7.0]
