"""Reports of iostat with their columns moved together: it is read by headings, not by places."""

from __future__ import annotations

import pytest

from volbench.analysis.recorded.iostat import looks_like_iostat, parse_iostat
from volbench.store.series import SeriesKey

NEW = """Linux 6.1.0-28-amd64 (db) \t01/31/26 \t_x86_64_\t(4 CPU)

01/31/26 10:00:01
avg-cpu:  %user   %nice %system %iowait  %steal   %idle
           1.00    0.00    1.00    0.00    0.00   98.00

Device r/s rkB/s rrqm/s %rrqm r_await rareq-sz w/s wkB/s wrqm/s %wrqm w_await wareq-sz f/s f_await aqu-sz %util
nvme1n1 9.00 144.00 0.00 0.00 0.90 16.00 9.00 144.00 0.00 0.00 0.90 16.00 1.00 0.10 0.10 1.00

01/31/26 10:00:02
avg-cpu:  %user   %nice %system %iowait  %steal   %idle
          20.00    0.00   10.00    5.00    1.00   64.00

Device r/s rkB/s rrqm/s %rrqm r_await rareq-sz w/s wkB/s wrqm/s %wrqm w_await wareq-sz f/s f_await aqu-sz %util
nvme1n1 100.00 2048.00 0.00 0.00 2.50 16.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.25 20.00
loop3 1.00 1.00 0.00 0.00 2.50 16.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.25 20.00

"""
OLD = """Device: rrqm/s wrqm/s r/s w/s rkB/s wkB/s avgrq-sz avgqu-sz await r_await w_await svctm %util
sda 0.00 0.00 1.00 1.00 16.00 16.00 32.00 0.01 1.00 1.00 1.00 0.50 0.10

Device: rrqm/s wrqm/s r/s w/s rkB/s wkB/s avgrq-sz avgqu-sz await r_await w_await svctm %util
sda 0.00 0.00 150.00 50.00 2400.00 800.00 32.00 8.00 40.00 40.00 40.00 5.00 100.00
"""


def value(text: str, metric: str, entity: str, source: str = "diskstats", **more: float) -> list[float] | None:
    found = parse_iostat(text, **more).series.get(SeriesKey(source=source, metric=metric, entity=entity))
    return None if found is None else found.value.tolist()


def test_the_report_since_boot_is_left_out() -> None:
    assert value(NEW, "reads_per_s", "nvme1n1") == [100.0]
    assert value(NEW, "read_mib_per_s", "nvme1n1") == [2.0]
    assert value(NEW, "util_ratio", "nvme1n1") == [0.2]


def test_a_waiting_time_without_an_operation_is_not_zero() -> None:
    assert value(NEW, "r_await_ms", "nvme1n1") == [2.5]
    assert value(NEW, "w_await_ms", "nvme1n1") is None
    assert value(NEW, "f_await_ms", "nvme1n1") is None


def test_processors_belong_to_the_report_that_follows_them() -> None:
    assert value(NEW, "user_ratio", "", "cpu") == [0.2]
    assert value(NEW, "steal_ratio", "", "cpu") == [0.01]


def test_times_and_devices() -> None:
    found = parse_iostat(NEW)
    assert found.clocked
    assert {float(one.t_s[0]) for one in found.series.values()} == {36_002.0}
    assert not any(key.entity == "loop3" for key in found.series)


def test_old_columns_without_time_stamps() -> None:
    found = parse_iostat(OLD, interval_s=5.0)
    assert not found.clocked
    assert "5 s apart" in found.notes[0]
    assert value(OLD, "aqu_sz", "sda") == [8.0]
    assert value(OLD, "await_ms", "sda") == [40.0]


@pytest.mark.parametrize("stamp", ["2026-01-31T10:00:02+0900", "31/01/26 10:00:02", "01/31/2026 10:00:02 AM"])
def test_time_stamps_of_locales(stamp: str) -> None:
    found = parse_iostat(NEW.replace("01/31/26 10:00:02", stamp))
    assert found.clocked
    assert next(iter(found.series.values())).t_s.tolist() == [36_002.0]


def test_other_text_is_no_iostat() -> None:
    assert looks_like_iostat(OLD)
    assert not looks_like_iostat("Device tps kB_read/s\n")
    assert parse_iostat("nothing").series == {}
