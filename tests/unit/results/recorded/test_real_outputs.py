"""Outputs that other projects keep as fixtures, and what mails, containers and spreadsheets make of a text.

Lines are cut from: tests/expected.* of sysstat 12.7 (iostat-g-JSON, iostat-ct, pidstat-At, cifsiostat, sadf-x,
sadf-r), tests/fixtures of kellyjonbrazil/jc (iostat-x of Ubuntu 20.10, vmstat and free of CentOS 7.7,
zpool-iostat), t/pt-diskstats/samples, t/pt-mext/samples and t/pt-mysql-summary/samples of percona-toolkit, and the
samples of vlsi/ksar (AIX, HP-UX, SunOS).
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from evidence_texts import START, iostat, limited, quiet

from volbench.errors import UsageError
from volbench.results.explain.recordings.directory import RecordedExplanation, explain_recorded
from volbench.results.recorded.formats import read_text
from volbench.results.recorded.parsed import Recorded
from volbench.results.store.series import SeriesKey

LIMIT = "storage.iops_limit"
ROWS = [*quiet(60), *limited(3000, 90)]
TEXT = iostat(ROWS)


def explained(directory: Path, text: str) -> RecordedExplanation:
    (directory / "recording").write_text(text)
    return explain_recorded(directory / "recording")


def read(text: str) -> Recorded:
    result = read_text(text)
    assert result is not None
    return result[1][0]


FIXTURES = Path(__file__).parents[3] / "fixtures" / "other-forms"


@pytest.mark.parametrize("zoned", [False, True])
def test_states_of_diskstats_by_any_name(zoned: bool) -> None:
    """They were refused, with the advice to give them; of old versions a `T` stands before the time of day."""
    text = (FIXTURES / "diskstats-states.txt").read_text()
    recorded = read(re.sub(r" 2012-\S+$", "", text, flags=re.MULTILINE) if zoned else text)
    writes = recorded.series[SeriesKey(source="diskstats", metric="writes_per_s", entity="sda")]
    assert writes.value[0] == pytest.approx(65 / 1.007)
    assert (recorded.midnight_epoch_s is not None) is zoned
    assert recorded.clocked


def test_the_sum_of_a_group_is_no_device_in_json_either() -> None:
    disks = [
        {"disk_device": name, "tps": tps, "MB_read/s": 1.0, "MB_wrtn/s": 1.0}
        for name, tps in (("sda", 40.0), ("sdb", 20.0), (" disks", 60.0))
    ]
    host = {"nodename": "db1", "date": "06/01/20", "statistics": [{"disk": disks}] * 3}
    recorded = read(json.dumps({"sysstat": {"hosts": [host]}}))
    assert {key.entity for key in recorded.series} == {"sda", "sdb"}


ONE_REPORT = (FIXTURES / "iostat-x-one-report.txt").read_text()
ONE_LINE = """\
procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----
 r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st
 2  0      0 2794468   2108 771208    0    0   353    24  159  255  1  2 97  0  0
"""


@pytest.mark.parametrize(("text", "advice"), [(ONE_REPORT, "give two reports or more"), (ONE_LINE, "vmstat -t 1")])
def test_a_report_since_boot_alone_says_what_it_is(tmp_path: Path, text: str, advice: str) -> None:
    """`nothing in it`, and the advice to give iostat -x, which it is."""
    with pytest.raises(UsageError, match="since the machine booted") as refused:
        explained(tmp_path, text)
    assert advice in str(refused.value)
    assert not refused.value.next_step


def test_iostat_of_cpus_alone_is_read() -> None:
    head, cpu = "Linux 1.2.3-TEST (db1) \t06/01/20 \t_x86_64_\t(9 CPU)\n\n", ONE_REPORT.split("\n\n")[1]
    recorded = read(head + "".join(f"06/01/20 12:53:2{second}\n{cpu}\n\n" for second in range(3)))
    assert {key.source for key in recorded.series} == {"cpu"}
    assert recorded.clocked


UNREAD = {
    "pidstat": "12:53:20      UID      TGID       TID    %usr %system  %guest   %wait    %CPU   CPU  Command\n",
    "cifsiostat": "Filesystem                     rB/s         wB/s    rops/s    wops/s         fo/s\n",
    "JSON of another tool of sysstat": '{"sysstat": {\n\t"hosts": [{"statistics": [{"cpu-load": []}]}]}}',
    "sadf": '<?xml version="1.0" encoding="UTF-8"?>\n<sysstat\nxmlns="https://sysstat.github.io">\n',
    "sar of another system": "HP-UX lasv B.11.31 U ia64    03/21/18\n\n00:00:01    %usr    %sys    %wio   %idle\n",
    "zpool iostat": "              capacity     operations    bandwidth\npool        alloc   free   read  write\n",
    "free": "              total        used        free      shared  buff/cache   available\nMem:   38611\n",
    "pt-mext": "Aborted_clients                             164    0    0    0\n",
    "SHOW PROCESSLIST without frames": "*************************** 1. row ****\n     Id: 1531\n   User: repl\n",
    "pt-mysql-summary": "# Instances ####\n  Port  Data Directory\n# Report On Port 3306 ########\n",
    "what mysqlbinlog prints": "# at 157\n#250311 14:00:00 server id 1  end_log_pos 234 CRC32 0x0\n",
    "a general log": "Time                 Id Command    Argument\n2025-03-11T14:00:00Z\t    8 Quit\t\n",
    "mysqladmin status": "Uptime: 1000  Threads: 5  Questions: 5000  Slow queries: 3  Opens: 120\n",
    "a load of sysbench that failed": "sysbench 1.0.20\n\nFATAL: unable to connect to MySQL server on host 'db1'\n",
    "a metric stream of CloudWatch": '{"metric_stream_name":"s","metric_name":"VolumeReadOps"}\n',
    "a part of CloudWatch's answer": '[{"Timestamp": "2025-03-11T14:00:00Z", "Sum": 9.0, "Unit": "Count"}]',
    "series of Datadog": '{"series": [{"metric": "system.io.await", "pointlist": [[1741701600000.0, 9.1]]}]}',
    "sar, without devices": "Linux 5.15.0 (db1) \t06/01/20 \t_x86_64_\t(9 CPU)\n\n00:00:03        CPU       MHz\n",
}


@pytest.mark.parametrize("name", UNREAD)
def test_what_is_not_read_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=f"this is {name}.*, not read: give "):
        explained(tmp_path, UNREAD[name])


def numbered(text: str, form: str) -> str:
    """Each line with something before it, of `form` with the second that the line is of."""
    return "".join(f"{form.format(at // 8 % 60)}{line}\n" for at, line in enumerate(text.splitlines()))


PASSED_ON = {
    "empty lines between": TEXT.replace("\n", "\n\n"),
    "Docker's json-file": "".join(
        json.dumps({"log": f"{line}\n", "stream": "stdout", "time": f"2025-03-11T14:{at // 480:02d}:00.123456789Z"})
        + "\n"
        for at, line in enumerate(TEXT.splitlines())
    ),
    "kubectl logs --prefix": "".join(f"[pod/db-0/mysql] {line}\n" for line in TEXT.splitlines()),
    "journalctl --no-hostname": numbered(TEXT, "Mar 11 14:00:{:02d} iostat[123]: "),
}


@pytest.mark.parametrize("form", PASSED_ON)
def test_what_was_put_before_the_lines_is_taken_off(tmp_path: Path, form: str) -> None:
    result = explained(tmp_path, PASSED_ON[form])
    assert [(row.host, row.points, row.begin) for row in result.table] == [
        ("db1", 150, f"{START:%Y-%m-%d %H}:00:01")
    ]
    assert result.findings[0].cause == LIMIT


def test_rows_that_a_mail_wrapped_are_told(tmp_path: Path) -> None:
    """The file was `used`, and there were no counters of the volume."""
    wrapped = "\n".join(f"{line[:80]}\n{line[80:]}" if len(line) > 80 else line for line in TEXT.splitlines())
    result = explained(tmp_path, wrapped)
    assert any("rows of other columns than the heading" in note for note in result.timelines[0].notes)


def test_a_whole_recording_is_told_of_no_such_rows(tmp_path: Path) -> None:
    assert not any("other columns" in note for note in explained(tmp_path, TEXT).timelines[0].notes)


def test_the_console_s_csv_that_a_spreadsheet_saved_says_so(tmp_path: Path) -> None:
    head = "Full label,ReadIOPS\nId,m1\nStat,Average\nPeriod,300\nLabel,ReadIOPS\n"
    rows = "".join(f"3/11/2025 9:{minute:02d},600\n" for minute in range(0, 60, 5))
    with pytest.raises(UsageError, match="a spreadsheet writes others when it saves"):
        explained(tmp_path, head + rows)


@pytest.mark.parametrize(
    ("results", "content"),
    [
        ([], "the answer is empty"),
        ([{"metric": {"__name__": "job:rate5m"}, "values": [[1, "1"]]}], "only job:rate5m"),
    ],
)
def test_an_answer_of_prometheus_without_counters_says_what_it_has(
    tmp_path: Path, results: list[object], content: str
) -> None:
    answer = {"status": "success", "data": {"resultType": "matrix", "result": results}}
    with pytest.raises(UsageError, match=f"{content}: give query_range of counters"):
        explained(tmp_path, json.dumps(answer))
