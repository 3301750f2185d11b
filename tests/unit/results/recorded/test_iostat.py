"""Reports of iostat with their columns moved together: it is read by headings, not by places."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from iostat_texts import NEW, OLD

from volbench.results.recorded.formats import read_text
from volbench.results.recorded.iostat import looks_like_iostat, parse_iostat
from volbench.results.store.series import SeriesKey


def value(text: str, metric: str, entity: str, source: str = "diskstats", **more: float) -> list[float] | None:
    result = parse_iostat(text, **more).series.get(SeriesKey(source=source, metric=metric, entity=entity))
    return None if result is None else result.value.tolist()


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


@pytest.mark.parametrize("form", ["text", "json"])
def test_niced_programs_use_the_cpus_as_well(form: str) -> None:
    """20 % user and 49 % nice are 69 % in user mode."""
    text = f"avg-cpu:  %user   %nice %system %iowait  %steal   %idle\n{20.0:11} 49.00 5.00 5.00 1.00 20.00\n"
    if form == "json":
        cpu = {"user": 20.0, "nice": 49.0, "system": 5.0, "iowait": 5.0, "steal": 1.0, "idle": 20.0}
        report = {"avg-cpu": cpu, "disk": [{"disk_device": "sda", "r/s": 1.0, "w/s": 1.0}]}
        text = json.dumps({"sysstat": {"hosts": [{"statistics": [report, report]}]}})
    else:
        text = 2 * f"{text}\nDevice r/s w/s\nsda 1.00 1.00\n\n"
    assert value(text, "user_ratio", "", "cpu") == pytest.approx([0.69])


def test_times_and_devices() -> None:
    iostat = parse_iostat(NEW)
    assert iostat.clocked
    assert {float(item.t_s[0]) for item in iostat.series.values()} == {36_002.0}
    assert not any(key.entity == "loop3" for key in iostat.series)


def test_old_columns_without_time_stamps() -> None:
    iostat = parse_iostat(OLD, interval_s=5.0)
    assert not iostat.clocked
    assert iostat.interval_known
    assert not parse_iostat(OLD).interval_known
    assert value(OLD, "aqu_sz", "sda") == [8.0]
    assert value(OLD, "await_ms", "sda") == [40.0]


@pytest.mark.parametrize("stamp", ["2026-01-31T10:00:02+0900", "31/01/26 10:00:02", "01/31/2026 10:00:02 AM"])
def test_time_stamps_of_locales(stamp: str) -> None:
    iostat = parse_iostat(NEW.replace("01/31/26 10:00:02", stamp))
    assert iostat.clocked
    assert next(iter(iostat.series.values())).t_s.tolist() == [36_002.0]


def test_other_text_is_no_iostat() -> None:
    assert looks_like_iostat(OLD)
    assert looks_like_iostat("Device tps kB_read/s kB_wrtn/s\n")
    assert not looks_like_iostat("Device tps\n")
    assert parse_iostat("nothing").series == {}


RECORDED = Path(__file__).parents[3] / "fixtures" / "sysstat-12.6.1"
"""What iostat of sysstat 12.6.1 printed in three reports, the first of them since boot: record.sh there."""
TEXTS = sorted(path.name for path in RECORDED.glob("iostat*.txt") if "JSON" not in path.name)


def rows_of_disk(text: str, column: str, disk: str = "vda") -> list[str]:
    """A column's cells of one disk in the second and third report, read another way than by the parser."""
    cells, location = [], None
    for line in text.splitlines():
        arguments = line.split()
        if "Device" in arguments:
            location = arguments.index(column) if column in arguments else None
        elif location is not None and disk in (arguments[:1] + arguments[-1:]):
            cells.append(arguments[location])
    return cells[1:]


def plain(cell: str) -> float:
    """A cell in KiB, in percent or as it is."""
    units = {"k": 1, "M": 1024, "G": 1024**2}
    cell = cell.replace(",", ".").removesuffix("%")
    return float(cell[:-1]) * units[cell[-1]] if cell[-1] in units else float(cell)


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize(
    ("columns", "metric", "scale"),
    [
        (("r/s",), "reads_per_s", 1),
        (("w/s",), "writes_per_s", 1),
        (("tps",), "operations_per_s", 1),
        (("rkB/s", "rMB/s"), "read_mib_per_s", 1 / 1024),
        (("kB/s",), "mib_per_s", 1 / 1024),
        (("aqu-sz",), "aqu_sz", 1),
        (("%util",), "util_ratio", 0.01),
    ],
)
def test_what_iostat_printed(name: str, columns: tuple[str, ...], metric: str, scale: float) -> None:
    text = (RECORDED / name).read_text()
    for column in columns:
        cells = rows_of_disk(text, column)
        if cells:
            factor = 1.0 if column == "rMB/s" else scale
            assert value(text, metric, "vda") == pytest.approx([plain(cell) * factor for cell in cells])
            return
    assert value(text, metric, "vda") is None


@pytest.mark.parametrize("name", TEXTS)
def test_three_reports_are_two_intervals(name: str) -> None:
    iostat = parse_iostat((RECORDED / name).read_text())
    t_s = iostat.series[SeriesKey(source="cpu", metric="idle_ratio", entity="")].t_s
    assert np.diff(t_s).tolist() == [1.0]
    assert iostat.clocked == ("-t" in name)


@pytest.mark.parametrize("name", ["iostat-x-oJSON.txt", "iostat-x-t-oJSON.txt"])
def test_json(name: str) -> None:
    text = (RECORDED / name).read_text()
    assert looks_like_iostat(text)
    reports = json.loads(text)["sysstat"]["hosts"][0]["statistics"][1:]
    disks = [next(item for item in report["disk"] if item["disk_device"] == "vda") for report in reports]
    assert value(text, "r_await_ms", "vda") == [disk["r_await"] for disk in disks]
    assert value(text, "util_ratio", "vda") == pytest.approx([disk["util"] / 100 for disk in disks])
    assert value(text, "iowait_ratio", "", "cpu") == pytest.approx([r["avg-cpu"]["iowait"] / 100 for r in reports])
    assert parse_iostat(text).clocked == ("-t" in name)


def test_json_that_is_cut_off_says_so() -> None:
    text = (RECORDED / "iostat-x-oJSON.txt").read_text()
    with pytest.raises(ValueError, match="cut off"):
        parse_iostat(text[:4000])


def test_a_clock_of_an_unknown_language_is_refused() -> None:
    text = (RECORDED / "iostat-x-tel_GR.txt").read_text()
    with pytest.raises(ValueError, match=r"'πριν'.*LC_ALL=C"):
        parse_iostat(text.replace("πμ", "πριν"))


def test_a_loop_device_counts_where_there_is_no_disk() -> None:
    text = "\n".join(
        line
        for line in (RECORDED / "iostat-x-t.txt").read_text().splitlines()
        if not line.startswith(("vda", "zram"))
    )
    result = value(text, "reads_per_s", "loop0")
    assert result is not None
    assert len(result) == 2


@pytest.mark.parametrize("name", ["iostat-x-gALL.txt", "iostat-x-gALL--pretty.txt"])
def test_the_sum_of_a_group_is_no_device(name: str) -> None:
    """`iostat -x -g ALL vda`: the group's row has what its devices have, and would count them twice."""
    recorded = parse_iostat((RECORDED / name).read_text())
    assert {key.entity for key in recorded.series if key.source == "diskstats"} == {"vda"}


def test_a_mapped_device_counts_no_flushes_and_its_disk_does() -> None:
    """The kernel counts flushes of request queues alone: 0 of a logical volume is no count."""
    row = "{} 0.00 0.00 0.00 0.00 0.00 0.00 90.00 360.00 0.00 0.00 1.00 4.00 {} 1.00 0.10 9.00\n"
    reads, writes = "r/s rkB/s rrqm/s %rrqm r_await rareq-sz", "w/s wkB/s wrqm/s %wrqm w_await wareq-sz"
    heading = f"Device {reads} {writes} f/s f_await aqu-sz %util\n"
    report = f"{heading}{row.format('dm-0', '0.00')}{row.format('nvme1n1', '50.00')}\n"
    read = read_text("Linux 6.12.1 (db) \t01/02/26 \t_x86_64_\t(2 CPU)\n\n" + report * 4)
    assert read is not None
    entities = {(key.metric, key.entity) for key in read[1][0].series}
    assert ("writes_per_s", "dm-0") in entities
    assert ("flushes_per_s", "dm-0") not in entities
    assert ("f_await_ms", "dm-0") not in entities
    assert ("flushes_per_s", "nvme1n1") in entities
