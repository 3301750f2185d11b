"""pt-stalk and pt-diskstats of Percona Toolkit 3.2.1, recorded beside MariaDB 10.11 on a volume of 450 IOPS.

The volume was emulated (gp2 of 150 GiB without credits). Of each file of pt-stalk the lines that matter were kept,
and -procstat was left out. This pt-diskstats prints nothing on kernels whose /proc/diskstats has 20 columns: it was
given the first 14 of the collection's.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from volbench.results.explain.recordings.directory import explain_recorded
from volbench.results.recorded.pt_diskstats import parse_pt_diskstats
from volbench.results.recorded.pt_stalk import kind_of, parse_collection
from volbench.results.store.series import SeriesKey

FIXTURES = Path(__file__).parents[3] / "fixtures"
STALK, DISKSTATS = FIXTURES / "pt-stalk", FIXTURES / "pt-diskstats"
PREFIX = "2026_11_21_12_45_29"
CAP = 450.0


def files() -> dict[str, str]:
    return {named[1]: path.read_text() for path in STALK.iterdir() if (named := kind_of(path.name)) is not None}


def of(metric: str, source: str = "diskstats", entity: str = "loop3") -> SeriesKey:
    return SeriesKey(source=source, metric=metric, entity=entity)


def test_the_cap_is_named_and_what_is_missing_is_said() -> None:
    result = explain_recorded(STALK)
    assert [row.cause for row in result.findings] == ["storage.iops_limit"]
    level = next(row for row in result.findings[0].evidence if row.metric == "iops")
    assert level.value == pytest.approx(CAP, rel=0.05)
    assert result.findings[0].volume == "loop3"
    text = " ".join(result.notes)
    assert f"pt-stalk {PREFIX} has no -procstat" in text
    assert "what users waited for is not known" in text
    assert "shares of latency are not known" in text
    assert "no time stamps" in text


def test_the_data_directorys_device_is_found_by_its_mount() -> None:
    collection = parse_collection(PREFIX, files())
    assert collection.disk == "loop3"
    assert collection.variables["datadir"] == "/mnt/v/srv/data/"
    without = parse_collection(PREFIX, {kind: text for kind, text in files().items() if kind != "df"})
    assert without.disk == "loop3"
    assert any("the one with the longest queue is taken" in note for note in without.recorded.notes)


@pytest.mark.parametrize("kind", ["mysqladmin", "variables", "df"])
def test_a_collection_without_a_file_still_explains(kind: str, tmp_path: Path) -> None:
    shutil.copytree(STALK, tmp_path / "some")
    (tmp_path / "some" / f"{PREFIX}-{kind}").unlink()
    result = explain_recorded(tmp_path / "some")
    assert result.findings[0].cause == "storage.iops_limit"
    assert any(f"has no -{kind}" in note for note in result.notes)


def test_counters_become_rates_on_the_clock_of_the_time_stamps() -> None:
    series = parse_collection(PREFIX, files()).recorded.series
    reads, status = series[of("reads_per_s")], series[of("data_reads_per_s", "innodb", "")]
    assert reads.t_s[0] == pytest.approx(12 * 3600 + 45 * 60 + 33, abs=1)
    assert np.median(np.diff(reads.t_s)) == pytest.approx(1.0, abs=0.1)
    assert np.median(status.value) == pytest.approx(np.median(reads.value), rel=0.1)


def test_a_processors_line_and_a_counter_that_wrapped() -> None:
    stamps = "TS 1795265132.5 2026-11-21 12:45:32\n{}TS 1795265133.5 2026-11-21 12:45:33\n{}"
    procstat = stamps.format("cpu  100 0 100 700 100 0 0 0 0 0\n", "cpu  150 0 120 720 110 0 0 0 0 0\n")
    disk = "8 0 sda {} 0 80 10 50 0 40 10 {} 20 20\n"
    diskstats = stamps.format(disk.format(100, 1), disk.format(90, 2))
    series = parse_collection(PREFIX, {"procstat": procstat, "diskstats": diskstats}).recorded.series
    assert series[of("user_ratio", "cpu", "")].value.tolist() == [0.5]
    assert series[of("iowait_ratio", "cpu", "")].value.tolist() == [0.1]
    assert not [key for key in series if key.source == "diskstats"]


@pytest.mark.parametrize(("name", "clocked"), [("pt-diskstats.txt", False), ("with-timestamps.txt", True)])
def test_pt_diskstats_names_the_cap(name: str, clocked: bool) -> None:
    result = explain_recorded(DISKSTATS / name)
    assert result.files == {name: "pt-diskstats"}
    assert result.findings[0].cause == "storage.iops_limit"
    level = next(row for row in result.findings[0].evidence if row.metric == "iops")
    assert level.value == pytest.approx(CAP, rel=0.05)
    recorded = parse_pt_diskstats((DISKSTATS / name).read_text())
    assert recorded.clocked is clocked
    assert recorded.series[of("reads_per_s")].value[0] == pytest.approx(299.9)


def test_a_response_time_without_an_operation_is_not_known() -> None:
    series = parse_pt_diskstats((DISKSTATS / "pt-diskstats.txt").read_text()).series
    assert of("reads_per_s", entity="loop0") in series
    assert of("r_await_ms", entity="loop0") not in series


def test_a_time_of_requests_is_made_one_of_operations() -> None:
    """Half of the requests were merged: 10 ms each of two requests are 20 ms of one operation."""
    text = (DISKSTATS / "pt-diskstats.txt").read_text()
    row = next(line for line in text.splitlines() if " loop3 " in line)
    arguments = row.split()
    location = text.splitlines()[1].split().index("wr_mrg")
    merged = " ".join([*arguments[:location], "50%", *arguments[location + 1 :]])
    total, half = (parse_pt_diskstats(text.replace(row, item)) for item in (row, merged))
    times = [item.series[of("w_await_ms")].value[0] for item in (total, half)]
    assert times[1] == pytest.approx(2 * times[0])
    assert any("of requests before merging" in note for note in total.notes)


TOP = """top - 12:45:30 up 10 days,  1:00,  0 users,  load average: 9.00, 8.00, 7.00
Tasks: 100 total,   3 running,  97 sleeping,   0 stopped,   0 zombie

    PID USER      PR  NI    VIRT    RES    SHR S  %CPU  %MEM     TIME+ COMMAND
    812 mysql     20   0 1800000 400000  30000 S  55.0   2.0 100:00.00 mysqld

top - 12:45:31 up 10 days,  1:00,  0 users,  load average: 9.00, 8.00, 7.00
Tasks: 100 total,   3 running,  97 sleeping,   0 stopped,   0 zombie

    PID USER      PR  NI    VIRT    RES    SHR S  %CPU  %MEM     TIME+ COMMAND
   4711 app       20   0  900000 100000  20000 R 180.0   1.0   9:00.00 java
    812 mysql     20   0 1800000 400000  30000 S  11.0   2.0 100:00.11 mysqld
"""


def test_top_says_which_cpus_the_server_itself_uses() -> None:
    """The first report is the mean since the server began, and is left out."""
    series = parse_collection(PREFIX, {**files(), "top": TOP}).recorded.series
    used = series[SeriesKey(source="tasks", metric="cpus_used", entity="server")]
    assert used.t_s.tolist() == [12 * 3600 + 45 * 60 + 31]
    assert used.value.tolist() == pytest.approx([0.11])


def test_a_collection_without_top_is_as_it_was() -> None:
    collection = parse_collection(PREFIX, files())
    assert not any("-top" in note for note in collection.recorded.notes)
    assert not any(key.source == "tasks" for key in collection.recorded.series)
