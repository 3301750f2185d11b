"""Rows of the fuzzer's table: what the kernel, devices, sysbench and fio write."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from fuzzed.reader import SAMPLED, JsonReader, Reader, files, of_bytes, of_text, texts
from volbench.core.base.mountinfo import parse_mountinfo
from volbench.errors import VolbenchError
from volbench.machine.host.blockstats import diskstats_read_bytes, mountstats_read_bytes
from volbench.machine.placement.kubernetes.database_pods import parse_look
from volbench.machine.volume.probe.fio import parse_iops_log, parse_point, parse_result
from volbench.measure.sample.parsers import (
    cgroup,
    diskstats,
    ebs_csi,
    ebs_nvme,
    emulator,
    innodb,
    mountstats,
    psi,
    stat,
)
from volbench.measure.sample.parsers import performance_schema as statements
from volbench.measure.workload.oltp.sysbench import LineParser

_VOLUME_ID = "vol-0123456789abcdef0"
FIO = json.dumps(
    {
        "fio version": "fio-3.33",
        "jobs": [
            {
                "error": 0,
                "read": {
                    "total_ios": 100,
                    "io_bytes": 409600,
                    "iops": 50.0,
                    "bw_bytes": 204800,
                    "clat_ns": {
                        "N": 100,
                        "mean": 1e6,
                        "max": 2_000_000,
                        "percentile": {"50.000000": 1e6, "99.000000": 2e6},
                        "bins": {"1000000": 60, "2000000": 40},
                    },
                },
                "write": {"total_ios": 0, "io_bytes": 0, "iops": 0.0, "bw_bytes": 0, "clat_ns": {"N": 0}},
                "sync": {"total_ios": 5, "lat_ns": {"percentile": {"50.000000": 1e6, "99.000000": 2e6}}},
            }
        ],
    }
)


def _fio(text: str) -> None:
    with suppress(VolbenchError):
        parse_result(text, "randread", log="500, 48, 0, 4096, 0\n")
    parse_point(text, where="fio")


def _nvme_page() -> Sequence[bytes]:
    head = struct.pack("<II11Q", ebs_nvme.MAGIC, 0, *range(100, 111))
    bins = struct.pack("<Q", 3) + b"".join(struct.pack("<QQII", n, n + 1, 7, 0) for n in range(3))
    page = head.ljust(512, b"\0") + bins.ljust(2056 - 512, b"\0") + bins
    return (page.ljust(4096, b"\0"),)


def _sysbench_seeds() -> Sequence[bytes]:
    return files("tests/unit/measure/workload/recorded/*.txt")()


def _sysbench(text: str) -> None:
    parser = LineParser()
    for line in text.splitlines():
        parser.feed(line)


def _mountstats(text: str) -> None:
    mountstats.parse_mountstats(text)
    mountstats_read_bytes(text, "/mnt/x")


def _status(text: str) -> None:
    innodb.parse_status((name, value) for name, _, value in (line.partition("|") for line in text.splitlines()))


def _proc_files() -> Iterable[Reader]:
    """The parsers that samplers call: a value that makes no sense is a gap, and never the end of sampling."""
    sample = "tests/fixtures/sample/"
    parsers: tuple[tuple[str, Callable[[str], object], Sequence[str]], ...] = (
        ("stat", stat.parse_stat, (f"{sample}stat.txt",)),
        ("CPUs of stat", stat.parse_cpus, (f"{sample}stat.txt",)),
        ("vmstat", lambda text: stat.parse_vmstat(text, {"pgpgin", "pswpin", "pswpout"}), (f"{sample}vmstat.txt",)),
        ("io.stat", cgroup.parse_io_stat, (f"{sample}io-stat-v2.txt",)),
        ("blkio", lambda text: cgroup.join_blkio(text, text), (f"{sample}blkio-*.txt",)),
        ("proc-cgroup", cgroup.parse_proc_cgroup, (f"{sample}proc-cgroup-*.txt",)),
        ("diskstats", diskstats.parse_diskstats, (f"{sample}diskstats-*.txt",)),
        ("diskstats-bytes", lambda text: diskstats_read_bytes(text, "vda"), (f"{sample}diskstats-*.txt",)),
        ("pressure", psi.parse_pressure, (f"{sample}pressure-io.txt",)),
        ("mountstats", _mountstats, (f"{sample}mountstats.txt",)),
        ("ebs-csi", lambda text: ebs_csi.parse_exposition(text, _VOLUME_ID), (f"{sample}ebs-csi-metrics.txt",)),
    )
    for name, parse, patterns in parsers:
        yield Reader(name=name, read=of_text(parse), seeds=files(*patterns), share=25, refusals=SAMPLED)
    texts_of = (
        ("list-of-cpus", stat.parse_cpu_list, "1-3,5,8191\n"),
        ("memory.events", cgroup.parse_counts, "low 0\nhigh 12\nmax 3\noom 0\n"),
        ("cpu.stat", cgroup.parse_cpu_stat, "usage_usec 5\nnr_periods 7\nnr_throttled 2\nthrottled_usec 9\n"),
        ("performance-schema-lines", statements.parse_lines, "wait/io/file/innodb/innodb_data_file 5 6 7\nx 1 2"),
        (
            "performance-schema-digests",
            statements.parse_digests,
            "1 2 3 - abcdef SELECT ?\n5 6 7 8 abcdef SELECT ?\n",
        ),
        ("innodb-status", _status, "Innodb_data_reads|5\nQuestions|9\n"),
    )
    for name, parse, seed in texts_of:
        yield Reader(name=name, read=of_text(parse), seeds=texts(seed), share=30, refusals=SAMPLED)


READERS: tuple[Reader, ...] = (
    *_proc_files(),
    JsonReader(
        name="emulator-counters",
        read=of_bytes(emulator.parse_counters),
        seeds=files("tests/fixtures/sample/emulator-counters.json"),
        share=20,
        refusals=SAMPLED,
    ),
    Reader(
        name="ebs-nvme-page", read=of_bytes(ebs_nvme.parse_log_page), seeds=_nvme_page, share=20, refusals=SAMPLED
    ),
    Reader(
        name="mountinfo",
        read=of_text(parse_mountinfo),
        seeds=texts(
            "36 35 98:0 /mnt1 /mnt/x rw,noatime master:1 - ext3 /dev/root rw\n"
            "37 35 0:45 / /mnt\\040b rw - nfs4 h:/e rw,vers=4.1\n"
        ),
        share=30,
    ),
    Reader(
        name="database-pod",
        read=of_text(parse_look),
        seeds=texts(
            "process 1 1001 1001 mysqld\ndirectory /var/lib/mysql\nargument mysqld\nargument --port=3307\n"
            "mount 36 35 259:3 /data /var/lib/mysql rw,noatime master:1 - ext4 /dev/nvme1n1 rw\n"
        ),
        share=10,
    ),
    Reader(name="sysbench-lines", read=of_text(_sysbench), seeds=_sysbench_seeds, share=20),
    JsonReader(name="fio", read=of_text(_fio), seeds=texts(FIO, "fio: warning\n" + FIO), share=30),
    Reader(
        name="fio-iops-log",
        read=of_text(parse_iops_log),
        seeds=texts("500, 48, 0, 4096, 0\n1000, 50, 0, 4096, 0\n"),
        share=20,
    ),
)
