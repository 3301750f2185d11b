"""Rows of the fuzzer's table: what users have in hand of hosts, servers and services."""

from __future__ import annotations

import json

from fuzzed.reader import JsonReader, Reader, files, of_text, texts
from volbench.cli.options import day_of
from volbench.results.explain.recordings.directory import explain_recorded

EVIDENCE = "tests/fixtures/evidence"
VMSTAT = """procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu----- -----timestamp-----
 r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st                 UTC
 1  0      0 100000  20000 300000    0    0    10    20   30   40  1  1 98  0  0 2025-03-11 14:00:00
 3  2      0 100000  20000 300000    0    0  4800    12  900 2000 20 10 30 40  0 2025-03-11 14:00:01
 5  9      0 100000  20000 300000    0    0  4800    12  900 2000 25 15 10 50  0 2025-03-11 14:00:02
"""
FIO = {
    "fio version": "fio-3.36",
    "jobs": [{"jobname": "decide", "read": {"iops": 3010.2, "lat_ns": {"mean": 1.3e7}}, "write": {"iops": 0}}],
}
MONITORING = [
    {
        "engine": "MYSQL",
        "instanceID": "db-1",
        "timestamp": f"2025-03-11T14:00:0{second}Z",
        "cpuUtilization": {"user": 20.0, "system": 5.0, "wait": 10.0, "idle": 64.0, "steal": 1.0},
        "diskIO": [{"device": "rdsdev", "readIOsPS": 300.0, "writeIOsPS": 3.0, "await": 80.0, "util": 99.0}],
    }
    for second in range(3)
]
EVENTS = {"events": [{"timestamp": 1, "message": json.dumps(sample)} for sample in MONITORING]}
INSIGHTS = {
    "MetricList": [
        {
            "Key": {"Metric": "os.diskIO.rdsdev.readIOsPS.avg"},
            "DataPoints": [{"Timestamp": f"2025-03-11T14:0{n}:00+00:00", "Value": 300.0 + n} for n in range(3)],
        }
    ]
}
HAMMERDB = "".join(f"{60_000 + n} MySQL tpm @ Thu Jun 30 21:18:{41 + n} UTC 2022\n" for n in range(4))
FILLERS = "".join(f"Innodb_filler_{number}\t1\n" for number in range(30))
STATUS = "".join(
    f"Variable_name\tValue\nInnodb_data_reads\t{5000 + 30 * n}\nThreads_running\t7\n{FILLERS}Uptime\t{1000 + n}\n"
    for n in range(3)
)

READERS: tuple[Reader, ...] = (
    Reader(name="vmstat", read=explain_recorded, seeds=texts(VMSTAT), share=4),
    Reader(name="server-status", read=explain_recorded, seeds=texts(STATUS), share=4),
    Reader(
        name="innodb-status",
        read=explain_recorded,
        seeds=files(f"{EVIDENCE}/18-*/*.txt", bytes_max=12_000),
        share=4,
    ),
    Reader(name="nfsiostat", read=explain_recorded, seeds=files(f"{EVIDENCE}/17-*/*.txt"), share=4),
    Reader(name="cloudwatch-console", read=explain_recorded, seeds=files(f"{EVIDENCE}/14-*/*.csv"), share=4),
    Reader(name="client-logs", read=explain_recorded, seeds=files(f"{EVIDENCE}/1[12]-*/*.txt"), share=4),
    Reader(name="hammerdb", read=explain_recorded, seeds=texts(HAMMERDB), share=2),
    Reader(name="passed-on", read=explain_recorded, seeds=files("tests/fixtures/passed-on/*.txt"), share=4),
    Reader(name="other-forms", read=explain_recorded, seeds=files("tests/fixtures/other-forms/*"), share=4),
    JsonReader(
        name="rds",
        read=explain_recorded,
        seeds=texts(json.dumps(MONITORING), json.dumps(EVENTS), json.dumps(FIO)),
        share=4,
    ),
    JsonReader(name="performance-insights", read=explain_recorded, seeds=texts(json.dumps(INSIGHTS)), share=4),
    JsonReader(
        name="cloudwatch-appended",
        read=explain_recorded,
        seeds=files(f"{EVIDENCE}/13-*/*.json", bytes_max=40_000),
        share=4,
    ),
    Reader(name="option-date", read=of_text(day_of), seeds=texts("2025-03-11", ""), share=1),
)
