"""What further tools print, read back: each text is of the tool's own layout, each figure is the text's."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from volbench.results.recorded.formats import FORMATS, Format, read_text
from volbench.results.recorded.parsed import Recorded
from volbench.results.recorded.unread import unread
from volbench.results.store.series import SeriesKey


def read(text: str, kind: str) -> Recorded:
    result = read_text(text)
    assert result is not None
    assert result[0] == kind
    (recorded,) = result[1]
    return recorded


def values(recorded: Recorded, source: str, metric: str, entity: str = "") -> list[float]:
    return recorded.series[SeriesKey(source=source, metric=metric, entity=entity)].value.tolist()


VMSTAT = """procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu----- -----timestamp-----
 r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st                 UTC
 1  0      0 100000  20000 300000    0    0    10    20   30   40  1  1 98  0  0 2025-03-11 14:00:00
 3  2      0 100000  20000 300000    0    0  4800    12  900 2000 20 10 30 40  0 2025-03-11 14:00:01
 5  9      0 100000  20000 300000    0    0  4800    12  900 2000 25 15 10 50  0 2025-03-11 14:00:02
"""
DSTAT = """----total-usage---- -dsk/total- --io/total- ----system----
usr sys idl wai stl| read  writ| read  writ|     time
  1   1  98   0   0|  10k   20k|0.50  1.00 |11-03 14:00:00
 20  10  30  40   0|4800k   12k| 300   3.0 |11-03 14:00:01
 25  15  10  50   0|  10M     0| 600     0 |11-03 14:00:02
"""
DSTAT_CSV = """"Dstat 0.7.3 CSV output"
"Author:","Dag Wieers <dag@wieers.com>",,,,"URL:","http://dag.wieers.com/home-made/dstat/"
"Host:","db1",,,,"User:","root"
"Cmdline:","dstat -tcdr --output x.csv",,,,"Date:","11 Mar 2025 14:00:00 UTC"

"system","total cpu usage",,,,,,"dsk/total",,"io/total",
"time","usr","sys","idl","wai","hiq","siq","read","writ","read","writ"
11-03 14:00:00,1.0,1.0,98.0,0.0,0.0,0.0,10240.0,20480.0,0.5,1.0
11-03 14:00:01,20.0,10.0,30.0,40.0,0.0,0.0,4915200.0,12288.0,300.0,3.0
"""
COLLECTL = """waiting for 1 second sample...
#         <--------CPU--------><----------Disks----------->
#Time     cpu sys inter  ctxsw KBRead  Reads KBWrit Writes
14:00:01   30  10   900   2000   4800    300     12      3
14:00:02   40  15   900   2000   9600    600      0      0
"""


def test_vmstat() -> None:
    content = read(VMSTAT, "vmstat")
    assert content.clocked
    assert [day.isoformat() for day in content.dates] == ["2025-03-11"]
    assert values(content, "cpu", "iowait_ratio") == [0.4, 0.5]
    assert values(content, "cpu", "blocked_threads") == [2, 9]
    plain = re.sub(r" (?:-----timestamp-----| +UTC|[\d-]{10} [\d:]{8})$", "", VMSTAT, flags=re.MULTILINE)
    counted = read(plain, "vmstat")
    assert not counted.interval_known
    assert values(counted, "cpu", "user_ratio") == [0.2, 0.25]


def test_vmstat_as_this_machine_s_wrote_it() -> None:
    """procps-ng 4.0: each figure is printed again from what was read."""
    text = (Path(__file__).parents[3] / "fixtures/readers/vmstat-t.txt").read_text()
    content = read(text, "vmstat")
    rows = [line.split() for line in text.splitlines()[3:]]
    for column, metric in ((12, "user_ratio"), (13, "system_ratio"), (14, "idle_ratio"), (15, "iowait_ratio")):
        assert [f"{100 * value:.0f}" for value in values(content, "cpu", metric)] == [row[column] for row in rows]


def test_dstat_on_a_screen_and_as_csv() -> None:
    screen = read(DSTAT, "dstat")
    assert screen.clocked
    assert values(screen, "diskstats", "reads_per_s", "all devices") == [300, 600]
    assert values(screen, "diskstats", "read_mib_per_s", "all devices") == [pytest.approx(4.6875), 10]
    assert values(screen, "cpu", "iowait_ratio") == [0.4, 0.5]
    table = read(DSTAT_CSV, "dstat")
    assert table.host == "db1"
    assert values(table, "diskstats", "reads_per_s", "all devices") == [300]
    assert values(table, "diskstats", "read_mib_per_s", "all devices") == [4.6875]
    assert values(table, "cpu", "user_ratio") == [0.2]


def test_collectl() -> None:
    content = read(COLLECTL, "collectl")
    assert content.clocked
    assert values(content, "diskstats", "reads_per_s", "all devices") == [300, 600]
    assert values(content, "cpu", "user_ratio") == [pytest.approx(0.2), pytest.approx(0.25)]


def status(uptime: int, reads: int) -> str:
    names = [f"Innodb_filler_{number}" for number in range(30)]
    rows = [
        ("Innodb_data_reads", reads),
        ("Threads_running", 7),
        *((name, 1) for name in names),
        ("Uptime", uptime),
    ]
    lines = "\n".join(f"| {name:<30} | {value} |" for name, value in rows)
    rule = "+--------------------------------+-------+"
    return f"{rule}\n| Variable_name                  | Value |\n{rule}\n{lines}\n{rule}\n"


def test_extended_status_by_its_uptime() -> None:
    content = read(status(1000, 5000) + status(1010, 8000) + status(1030, 8000), "server status")
    assert values(content, "innodb", "data_reads_per_s") == [300, 0]
    assert values(content, "innodb", "threads_running") == [7, 7]
    relative = read(status(1000, 5000) + status(10, 3000) + status(20, 0), "server status")
    assert values(relative, "innodb", "data_reads_per_s") == [300, 0]


def test_tab_separated_status_and_a_single_one() -> None:
    text = "".join(
        line.replace("| ", "", 1).replace(" | ", "\t").replace(" |", "") + "\n"
        for line in status(1000, 5000).splitlines()
        if line.startswith("| ")
    )
    with pytest.raises(ValueError, match="one report"):
        read_text(text)


MOUNT = """device server:/vol mounted on /var/lib/mysql with fstype nfs4 statvers=1.1
\topts:\trw,vers=4.1
\tage:\t{age}
\tper-op statistics
\t        NULL: 0 0 0 0 0 0 0 0
\t        READ: {reads} {reads} 0 0 {read_bytes} 0 {read_ms} {read_ms} 0
\t       WRITE: 10 10 0 2000 0 0 20 20 0
\t     GETATTR: {attrs} {attrs} 0 0 0 0 {attr_ms} {attr_ms} 0
"""


def test_mountstats_between_states() -> None:
    states = [
        MOUNT.format(age=100, reads=1000, read_bytes=0, read_ms=1000, attrs=0, attr_ms=0),
        MOUNT.format(age=110, reads=4000, read_bytes=10 * 2**20, read_ms=31000, attrs=100, attr_ms=500),
    ]
    content = read("".join(states), "mountstats")
    assert values(content, "mountstats", "reads_per_s", "/var/lib/mysql") == [300]
    assert values(content, "mountstats", "r_await_ms", "/var/lib/mysql") == [10]
    assert values(content, "mountstats", "read_mib_per_s", "/var/lib/mysql") == [1]
    assert values(content, "mountstats", "metadata_ops_per_s", "/var/lib/mysql") == [10]
    assert values(content, "mountstats", "metadata_await_ms", "/var/lib/mysql") == [5]
    with pytest.raises(ValueError, match="no rates"):
        read_text(states[0])


def monitoring(second: int, instance: str = "db-1") -> dict[str, object]:
    return {
        "engine": "MYSQL",
        "instanceID": instance,
        "timestamp": f"2025-03-11T14:00:{second:02d}Z",
        "cpuUtilization": {"user": 20.0, "system": 5.0, "wait": 10.0, "idle": 64.0, "steal": 1.0},
        "diskIO": [
            {
                "device": "rdsdev",
                "readIOsPS": 300.0 + second,
                "writeIOsPS": 3.0,
                "readKbPS": 4800.0,
                "writeKbPS": 24.0,
                "await": 80.0,
                "avgQueueLen": 24.0,
                "util": 99.0,
            }
        ],
    }


@pytest.mark.parametrize("form", ["lines", "list", "events"])
def test_enhanced_monitoring_in_all_its_wrappings(form: str) -> None:
    samples = [monitoring(0), monitoring(1)]
    text = {
        "lines": "\n".join(map(json.dumps, samples)),
        "list": json.dumps(samples),
        "events": json.dumps({"events": [{"timestamp": 1, "message": json.dumps(sample)} for sample in samples]}),
    }[form]
    content = read(text, "Enhanced Monitoring")
    assert content.host == "db-1"
    assert values(content, "diskstats", "reads_per_s", "rdsdev") == [300, 301]
    assert values(content, "diskstats", "await_ms", "rdsdev") == [80, 80]
    assert values(content, "diskstats", "util_ratio", "rdsdev") == [0.99, 0.99]
    assert values(content, "cpu", "iowait_ratio") == [0.1, 0.1]


def test_two_instances_of_rds_are_two_hosts() -> None:
    text = read_text(json.dumps([monitoring(0), monitoring(0, "db-2")]))
    assert text is not None
    assert [item.host for item in text[1]] == ["db-1", "db-2"]


def test_performance_insights() -> None:
    points = [{"Timestamp": f"2025-03-11T14:0{n}:00+00:00", "Value": 300.0 + n} for n in range(3)]
    answer = {
        "MetricList": [
            {"Key": {"Metric": "os.diskIO.rdsdev.readIOsPS.avg"}, "DataPoints": points},
            {"Key": {"Metric": "db.SQL.Innodb_rows_read.avg"}, "DataPoints": points},
        ]
    }
    content = read(json.dumps(answer), "Performance Insights")
    assert values(content, "diskstats", "reads_per_s", "rdsdev") == [300, 301, 302]
    assert content.notes == ("Performance Insights' db.SQL.Innodb_rows_read.avg: not used",)


def test_cloudwatch_s_output_text() -> None:
    level = "ReadIOPS\n" + "".join(
        f"DATAPOINTS\t{300 + n}.0\t2025-03-11T14:0{n}:00+00:00\tCount/Second\n" for n in (1, 0)
    )
    assert values(read(level, "cloudwatch"), "cloudwatch", "reads_per_s", "volume") == [300, 301]
    with pytest.raises(ValueError, match="does not say which statistic of VolumeReadOps"):
        read_text(level.replace("ReadIOPS", "VolumeReadOps"))
    with pytest.raises(ValueError, match="--output json"):
        read_text("-----\n|  GetMetricStatistics  |\n+----+\n")
    data = (
        "METRICDATARESULTS\tm0\tvol-0a VolumeReadOps\tComplete\n"
        "TIMESTAMPS\t2025-03-11T14:01:00+00:00\t2025-03-11T14:00:00+00:00\nVALUES\t18060.0\t18000.0\n"
    )
    assert values(read(data, "cloudwatch"), "cloudwatch", "reads_per_s", "vol-0a") == [300, 301]


def test_sysbench_s_json_reporter_and_its_summary() -> None:
    item = '  {\n    "time":    %d,\n    "threads": 8,\n    "tps": 300.50,\n    "qps": {\n      "total": 6000.00,\n      "reads": 1.00,\n      "writes": 1.00,\n      "other": 1.00\n    },\n    "latency": 12.50,\n    "errors": 0.00,\n    "reconnects": 0.00\n  }'  # noqa: E501
    content = read("sysbench 1.0.20\n[\n" + item % 1 + ",\n" + item % 2, "sysbench")
    assert values(content, "client", "tps") == [300.5, 300.5]
    assert values(content, "client", "latency_ms_p95") == [12.5, 12.5]
    old = (
        "Number of threads: 16\n    transactions:                        12000  (200.00 per sec.)\n"
        "    total time:                          60.0000s\n         approx.  95 percentile:              24.81ms\n"
    )
    summary = read(old, "sysbench")
    assert values(summary, "client", "tps") == [200]
    assert values(summary, "client", "latency_ms_p95") == [24.81]
    assert summary.series[SeriesKey(source="client", metric="tps")].t_s.tolist() == [60]


def test_go_tpc_and_hammerdb() -> None:
    line = (
        "[Current] {kind} - Takes(s): 10.0, Count: {count}, TPM: {tpm}, Sum(ms): 1.0, Avg(ms): 9.0, 50th(ms): 8.0,"
        " 90th(ms): 12.0, 95th(ms): {p95}, 99th(ms): 20.0, 99.9th(ms): 30.0, Max(ms): 40.0\n"
    )
    text = "".join(
        line.format(kind=kind, count=count, tpm=6 * count, p95=15.0)
        for count in (1000, 500)
        for kind in ("NEW_ORDER", "PAYMENT")
    )
    content = read(text, "go-tpc")
    assert values(content, "client", "tps") == [200, 100]
    assert values(content, "client", "latency_ms_p95") == [15, 15]
    hammer = read("Vuser 1:x\n0 MySQL tpm\n60000 MySQL tpm\n30000 MySQL tpm\n", "HammerDB")
    assert values(hammer, "client", "tps") == [0, 1000, 500]
    assert not hammer.interval_known


def test_go_tpc_s_old_lines_have_no_95th_percentile() -> None:
    """As public reports of TiDB show them; `Takes` differs by kind, so a rate is what the line states."""
    line = (
        "[Current] {kind} - Takes(s): {s}, Count: {n}, TPM: {tpm}, Sum(ms): 1, Avg(ms): 370, 90th(ms): 1000,"
        " 99th(ms): {p99}, 99.9th(ms): 2000\n"
    )
    text = "".join(
        line.format(kind=kind, s=s, n=n, tpm=tpm, p99=p99)
        for kind, s, n, tpm, p99 in (
            ("DELIVERY", 7.9, 30, 228.4, 1000),
            ("NEW_ORDER", 8.4, 336, 2413.9, 2000),
            ("DELIVERY", 9.7, 41, 252.3, 1000),
        )
    )
    result = read(text, "go-tpc")
    assert values(result, "client", "tps") == pytest.approx([(228.4 + 2413.9) / 60, 252.3 / 60])
    assert values(result, "client", "latency_ms_p99") == [2000]
    assert not result.interval_known


@pytest.mark.parametrize(("zone", "in_utc"), [("UTC", True), ("BST", False)])
def test_the_log_of_hammerdb_s_counter_has_times(zone: str, in_utc: bool) -> None:
    """hdbtcount.log with timestamps; letters such as BST are of several zones."""
    lines = "".join(f"{60000 * n} MySQL tpm @ Thu Jun 30 21:18:{31 + 10 * n} {zone} 2022\n" for n in range(3))
    result = read(f"Hammerdb Transaction Counter Log @ Thu Jun 30 21:18:31 {zone} 2022\n{lines}", "HammerDB")
    (series,) = result.series.values()
    assert series.t_s.tolist() == [21 * 3600 + 18 * 60 + 31 + 10 * n for n in range(3)]
    assert series.value.tolist() == [0, 1000, 2000]
    assert result.clocked
    assert (result.midnight_epoch_s is not None) == in_utc
    assert [day.isoformat() for day in result.dates] == ([] if in_utc else ["2022-06-30"])


def test_nfsiostat_with_a_value_on_each_line() -> None:
    """Python 3 with the script of nfs-utils 1.3, as public posts show it."""
    report = (
        "nfs.example.com:/foo mounted on /foo:\n\n   op/s         rpc bklog\n 262.16\n           0.00\nread:\n"
        "  ops/s            kB/s           kB/op         retrans         avg RTT (ms)    avg exe (ms)\n"
        "                 11.557\n        356.081\n         30.812\n       0 (0.0%)\n      5.167\n    5.239\n"
        "write:\n"
        "  ops/s            kB/s           kB/op         retrans         avg RTT (ms)    avg exe (ms)\n"
        "                  3.620\n        105.680\n         29.190\n       0 (0.0%)\n     16.032\n   331.458\n"
    )
    result = read(report * 3, "nfsiostat")
    assert values(result, "mountstats", "reads_per_s", "/foo") == [11.557] * 2
    assert values(result, "mountstats", "w_await_ms", "/foo") == [331.458] * 2
    assert values(result, "mountstats", "metadata_ops_per_s", "/foo") == pytest.approx([262.16 - 11.557 - 3.62] * 2)


def test_what_is_no_recording_says_what_it_is() -> None:
    fio = {
        "fio version": "fio-3.36",
        "jobs": [{"jobname": "decide", "read": {"iops": 3010.2, "lat_ns": {"mean": 1.3e7}}, "write": {"iops": 0}}],
    }
    with pytest.raises(ValueError, match=r"decide: 3,010 reads/s, 13.0 ms"):
        read_text(json.dumps(fio))
    with pytest.raises(ValueError, match="query_range"):
        read_text('# TYPE x counter\nnode_disk_reads_completed_total{device="sda"} 12\n')
    known_names = unread("14:00:01      UID       PID   kB_rd/s   kB_wr/s kB_ccwr/s iodelay  Command\n")
    assert known_names is not None
    assert known_names.name == "pidstat"


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
@pytest.mark.parametrize(
    "text", ["", "\n", "{", "[]", "null", "hello", "1,2,3\n" * 3, '{"a": [1]}', "\x00" * 9, "é\r\n"]
)
def test_no_reader_takes_what_is_none_of_its_texts(form: Format, text: str) -> None:
    assert not form.matches(text)
