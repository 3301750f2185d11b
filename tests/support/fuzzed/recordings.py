"""Rows of the fuzzer's table: what other tools recorded."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from iostat_texts import NEW, OLD

from fuzzed.reader import FIXTURES, JsonReader, Reader, files, texts
from volbench.core.profile.limits import limits_of
from volbench.core.profile.resolve import resolve
from volbench.results.credits.forecast import forecast
from volbench.results.credits.history import Defaults
from volbench.results.credits.sources import read_history
from volbench.results.explain.recordings.directory import explain_recorded

IOSTAT = f"""{NEW}01/31/26 10:00:03
avg-cpu:  %user   %nice %system %iowait  %steal   %idle
          21.00    0.00   11.00    5.00    1.00   62.00

Device r/s rkB/s rrqm/s %rrqm r_await rareq-sz w/s wkB/s wrqm/s %wrqm w_await wareq-sz f/s f_await aqu-sz %util
nvme1n1 101.00 2148.00 0.00 0.00 2.60 16.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.26 21.00
"""
IOSTAT_JSON = json.dumps(
    {
        "sysstat": {
            "hosts": [
                {
                    "nodename": "db",
                    "sysname": "Linux",
                    "release": "6.1.0",
                    "machine": "x86_64",
                    "number-of-cpus": 4,
                    "date": "01/31/26",
                    "statistics": [
                        {
                            "timestamp": f"01/31/26 10:00:0{second}",
                            "avg-cpu": {"user": 1.0, "system": 1.0, "iowait": 0, "steal": 0, "idle": 98.0},
                            "disk": [
                                {
                                    "disk_device": "nvme1n1",
                                    "r/s": 9.0,
                                    "rkB/s": 144.0,
                                    "r_await": 0.9,
                                    "w/s": 9.0,
                                    "wkB/s": 144.0,
                                    "w_await": 0.9,
                                    "aqu-sz": 0.1,
                                    "util": 1.0,
                                }
                            ],
                        }
                        for second in range(1, 4)
                    ],
                }
            ]
        }
    }
)
SAR_ALL = """Linux 6.1.0-28-amd64 (db) \t01/31/2026 \t_x86_64_\t(4 CPU)

10:00:01 AM     CPU     %user     %nice   %system   %iowait    %steal     %idle
10:10:01 AM     all      1.02      0.00      0.55      0.31      0.00     98.12
10:20:01 AM     all      2.02      0.00      0.55      0.31      0.00     97.12
10:30:01 AM     all      3.02      0.00      0.55      0.31      0.00     96.12
Average:        all      2.02      0.00      0.55      0.31      0.00     97.12

10:00:01 AM       DEV       tps     rkB/s     wkB/s     dkB/s   areq-sz    aqu-sz     await     %util
10:10:01 AM   nvme1n1    100.00   1600.00    800.00      0.00     24.00      0.50      5.00     40.00
10:20:01 AM   nvme1n1    200.00   1700.00    900.00      0.00     24.00      0.60      6.00     50.00
10:30:01 AM   nvme1n1    300.00   1800.00   1000.00      0.00     24.00      0.70      7.00     60.00

10:00:01 AM     IFACE   rxpck/s   txpck/s    rxkB/s    txkB/s   rxcmp/s   txcmp/s  rxmcst/s   %ifutil
10:10:01 AM      eth0    100.00    100.00     10.00     10.00      0.00      0.00      0.00      0.01

10:25:13 AM  LINUX RESTART\t(4 CPU)
"""
SYSBENCH = "\n".join(
    f"[ {second}s ] thds: 8 tps: {200 - second}.12 qps: 4000.00 (r/w/o: 2800.00/800.00/400.00) "
    f"lat (ms,95%): 8{second}.03 err/s: 0.00 reconn/s: 0.00"
    for second in range(1, 8)
)
TIMES = [f"2026-01-31T14:{minute:02d}:00+00:00" for minute in range(4)]
CLOUDWATCH = json.dumps(
    {
        "MetricDataResults": [
            {"Id": "m1", "Label": label, "Timestamps": TIMES, "Values": values, "StatusCode": "Complete"}
            for label, values in {
                "VolumeReadOps": [180_000, 9000, 0, 7],
                "VolumeReadBytes": [62_914_560, 0, 0, 9],
                "VolumeWriteOps": [180_000, 9000, 0, 7],
                "VolumeTotalReadTime": [180, 90, 0, 1],
                "BurstBalance": [40, 1, 0, 0],
                "VolumeIOPSExceededCheck": [0, 1, 1, 1],
            }.items()
        ]
    }
)
STATISTICS = json.dumps(
    {
        "Label": "VolumeReadOps",
        "Datapoints": [{"Timestamp": at, "Sum": 9000.0, "SampleCount": 60, "Unit": "Count"} for at in TIMES],
    }
)


def _pt_stalk_files(kind: str) -> Callable[[], Sequence[bytes]]:
    return files(f"tests/fixtures/pt-stalk/*-{kind}", bytes_max=9_000)


def _explain_pt_stalk(kind: str) -> Callable[[Path], object]:
    """One file of a collection damaged beside the sound others."""

    def read(path: Path) -> None:
        for second in sorted((FIXTURES / "pt-stalk").iterdir()):
            if second.name.endswith(f"-{kind}"):
                path.rename(path.with_name(second.name))
            else:
                (path.parent / second.name).write_bytes(second.read_bytes())
        explain_recorded(path.parent)

    return read


def _history(path: Path) -> None:
    read = read_history(path, Defaults(read_share=0.5))
    volume = resolve("ebs-gp2", {"size": "50GiB"})
    forecast(limits_of(volume), read.work)


READERS: tuple[Reader, ...] = (
    Reader(name="iostat", read=explain_recorded, seeds=texts(IOSTAT, OLD), share=15),
    JsonReader(name="iostat-json", read=explain_recorded, seeds=texts(IOSTAT_JSON), share=8),
    Reader(
        name="sar",
        read=explain_recorded,
        seeds=lambda: (SAR_ALL.encode(), *files("tests/fixtures/sar/*.txt")()),
        share=8,
    ),
    Reader(name="sysbench-log", read=explain_recorded, seeds=texts(SYSBENCH), share=15),
    Reader(
        name="pt-diskstats",
        read=explain_recorded,
        seeds=files("tests/fixtures/pt-diskstats/*.txt", bytes_max=2_500),
        share=8,
    ),
    JsonReader(name="cloudwatch", read=explain_recorded, seeds=texts(CLOUDWATCH, STATISTICS), share=15),
    *(
        Reader(name=f"pt-stalk-{kind}", read=_explain_pt_stalk(kind), seeds=_pt_stalk_files(kind), share=share)
        for kind, share in (("diskstats", 1), ("mysqladmin", 0.5), ("variables", 0.2), ("df", 0.2))
    ),
    Reader(
        name="history-csv",
        read=_history,
        seeds=texts(
            "t,iops,mib_per_s\n60,100,1\n120,,\n180,50,2\n600,5,1\n",
            "t,reads_per_s,writes_per_s\n2026-01-31T12:00:00Z,5,6\n2026-01-31T12:01:00Z,7,8\n",
        ),
        share=10,
        file="history.csv",
    ),
    JsonReader(
        name="history-json",
        read=_history,
        seeds=texts('[{"t": 60, "iops": 100}, {"t": 120, "iops": null}, {"t": 180, "iops": 7}]'),
        share=10,
        file="history.json",
    ),
    Reader(
        name="history-sar",
        read=_history,
        seeds=lambda: (SAR_ALL.encode(), *files("tests/fixtures/sar/*.txt")()),
        share=6,
    ),
    Reader(name="history-iostat", read=_history, seeds=texts(IOSTAT, OLD), share=4),
    JsonReader(name="history-cloudwatch", read=_history, seeds=texts(CLOUDWATCH, STATISTICS), share=6),
)
