"""Every reader of what others wrote, with real inputs of it: the table that the fuzzer and its regressions go by.

A reader takes the path of a file and reads all of it, as its command does. What it may raise is a VolbenchError and
nothing else; the parsers that samplers call at each tick may raise ValueError, which a tick records as a gap.
A new reader gets a row in `READERS`.
"""

from __future__ import annotations

import atexit
import io
import json
import shutil
import struct
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import fuzzed_sources
import mutations
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import synthetic_run
from fuzzed_reader import FIXTURES, ROOT, Reader, consume, files, of_bytes, of_text, texts

from volbench.analysis.credits.forecast import forecast
from volbench.analysis.credits.history import Assumed
from volbench.analysis.credits.limits import limits_of
from volbench.analysis.credits.prices import load_prices, monthly_cost
from volbench.analysis.credits.sources import read_history
from volbench.analysis.explain.run import explain_run
from volbench.analysis.gate.language import parse_condition
from volbench.analysis.recorded.after import add_recorded
from volbench.analysis.recorded.directory import explain_recorded
from volbench.engine.connection import read_option_file
from volbench.errors import VolbenchError
from volbench.execute.cell.progress import read_progress
from volbench.placement.attach import parse_dsn
from volbench.placement.docker.image_names import parse_server_image
from volbench.placement.kubernetes.node_blocks import check_blocks, node_of_block
from volbench.placement.kubernetes.options import (
    labels_of,
    parse_changes,
    parse_options,
    read_options,
    tolerations_of,
    volumes_of,
)
from volbench.profile.files import whole_profile
from volbench.profile.resolve import resolve, resolve_spec
from volbench.profile.spec import parse_volume
from volbench.records.parse import parse_json
from volbench.records.report import REPORT_SCHEMA, Report
from volbench.report.build import build_report
from volbench.report.render import render
from volbench.sample import rows as sampled
from volbench.sample.interface import Reading
from volbench.sample.parsers import cgroup, diskstats, ebs_csi, ebs_nvme, emulator, innodb, mountstats, psi, stat
from volbench.sample.parsers import performance_schema as statements
from volbench.sample.raw import RawWriter
from volbench.store.files import read_record
from volbench.store.histograms import HISTOGRAM_COLUMNS, load_histograms, read_histograms
from volbench.store.loaded_run import load_run
from volbench.store.query import query
from volbench.store.run_directory import RunDirectory
from volbench.store.series import SERIES_COLUMNS, bucketed, read_series
from volbench.suite.load import check_suite, load_suite
from volbench.suite.policy import load_policy
from volbench.suite.validation import load_validation_plan
from volbench.validation.capture.digests import read_capture, repeatable_classes
from volbench.validation.capture.mask import masked, masked_sql
from volbench.validation.catalog.sql_text import normal_expression, normal_query
from volbench.validation.queries.classes import only_reads, query_classes
from volbench.validation.queries.comparison import plan_text
from volbench.validation.queries.pt_upgrade_report import parse_classes, parse_stats
from volbench.volume.emulated.status import emulated_behind, list_volumes
from volbench.volume.facts.blockstats import diskstats_read_bytes, mountstats_read_bytes
from volbench.volume.facts.mountinfo import parse_mountinfo
from volbench.volume.ownership import is_owned
from volbench.volume.probe.fio import parse_iops_log, parse_point, parse_result
from volbench.workload.oltp.sysbench import LineParser
from volbench.workload.replay.fingerprint import fingerprint
from volbench.workload.replay.slowlog import slow_log

# What other tools recorded

IOSTAT = """Linux 6.1.0-28-amd64 (db) \t01/31/26 \t_x86_64_\t(4 CPU)

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

01/31/26 10:00:03
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
                    "nodename": "db", "sysname": "Linux", "release": "6.1.0", "machine": "x86_64",
                    "number-of-cpus": 4, "date": "01/31/26",
                    "statistics": [
                        {
                            "timestamp": f"01/31/26 10:00:0{second}",
                            "avg-cpu": {"user": 1.0, "system": 1.0, "iowait": 0, "steal": 0, "idle": 98.0},
                            "disk": [
                                {
                                    "disk_device": "nvme1n1", "r/s": 9.0, "rkB/s": 144.0, "r_await": 0.9,
                                    "w/s": 9.0, "wkB/s": 144.0, "w_await": 0.9, "aqu-sz": 0.1, "util": 1.0,
                                }
                            ],
                        }
                        for second in range(1, 4)
                    ],
                }
            ]
        }
    }
)  # fmt: skip
IOSTAT_OLD = """Device: rrqm/s wrqm/s r/s w/s rkB/s wkB/s avgrq-sz avgqu-sz await r_await w_await svctm %util
sda 0.00 0.00 1.00 1.00 16.00 16.00 32.00 0.01 1.00 1.00 1.00 0.50 0.10

Device: rrqm/s wrqm/s r/s w/s rkB/s wkB/s avgrq-sz avgqu-sz await r_await w_await svctm %util
sda 0.00 0.00 150.00 50.00 2400.00 800.00 32.00 8.00 40.00 40.00 40.00 5.00 100.00
"""
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
                "VolumeReadOps": [180_000, 9000, 0, 7], "VolumeReadBytes": [62_914_560, 0, 0, 9],
                "VolumeWriteOps": [180_000, 9000, 0, 7], "VolumeTotalReadTime": [180, 90, 0, 1],
                "BurstBalance": [40, 1, 0, 0], "VolumeIOPSExceededCheck": [0, 1, 1, 1],
            }.items()
        ]
    }
)  # fmt: skip
STATISTICS = json.dumps(
    {
        "Label": "VolumeReadOps",
        "Datapoints": [{"Timestamp": at, "Sum": 9000.0, "SampleCount": 60, "Unit": "Count"} for at in TIMES],
    }
)


def _nvme_log() -> Sequence[bytes]:
    names = (
        "total_read_ops", "total_write_ops", "total_read_bytes", "total_write_bytes", "total_read_time",
        "total_write_time", "ebs_volume_performance_exceeded_iops", "ebs_volume_performance_exceeded_tp",
        "ec2_instance_ebs_performance_exceeded_iops", "ec2_instance_ebs_performance_exceeded_tp",
    )  # fmt: skip
    begin = synthetic_run.STARTED.timestamp()
    rows = [
        {"timestamp": begin + 30 * n, **dict.fromkeys(names, 500 * n), "volume_queue_length": 4} for n in range(5)
    ]
    return ("\n".join(map(json.dumps, rows)).encode(),)


def _cloudwatch_of_the_run() -> Sequence[bytes]:
    times = [(synthetic_run.STARTED + timedelta(minutes=n)).isoformat() for n in range(6)]
    answer = {"MetricDataResults": [{"Label": "BurstBalance", "Timestamps": times, "Values": [9, 8, 7, 6, 5, 4]}]}
    return (json.dumps(answer).encode(),)


def _pt_stalk_files(kind: str) -> Callable[[], Sequence[bytes]]:
    return files(f"tests/fixtures/pt-stalk/*-{kind}", bytes_max=9_000)


def _explain_pt_stalk(kind: str) -> Callable[[Path], object]:
    """One file of a collection damaged beside the sound others."""

    def read(path: Path) -> None:
        for other in sorted((FIXTURES / "pt-stalk").iterdir()):
            if other.name.endswith(f"-{kind}"):
                path.rename(path.with_name(other.name))
            else:
                (path.parent / other.name).write_bytes(other.read_bytes())
        explain_recorded(path.parent)

    return read


def _history(path: Path) -> None:
    read = read_history(path, Assumed(read_share=0.5))
    volume = resolve("ebs-gp2", {"size": "50GiB"})
    forecast(limits_of(volume), read.work)


# Runs


@cache
def _run_template() -> Path:
    """A run of two short cells, made once for each process; readers get links to its files."""
    place = Path(tempfile.mkdtemp(prefix="volbench-fuzz-run-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    spec = synthetic_run.Synthetic(
        volumes=(synthetic_run.SyntheticVolume(name="a"), synthetic_run.SyntheticVolume(name="b", speed=2)),
        repeats=1,
        steps=(synthetic_run.OltpStep(name="load", warmup_s=1, duration_s=6),),
    )
    directory = synthetic_run.build_run(place, spec)
    report = build_report(directory)
    (directory.path / "report.json").write_text(render(report, directory, "json"))
    return directory.path


def _run_beside(path: Path, name: str) -> RunDirectory:
    """A run in which `path` takes the place of the file `name` (a glob)."""
    template = _run_template()
    place = path.parent / "results" / template.name
    for file in template.rglob("*"):
        copy = place / file.relative_to(template)
        if file.is_file():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, copy)
    target = next(iter(sorted(place.glob(name))), None) or place / name.replace("*", "x")
    path.replace(target)
    return RunDirectory.open(place)


def _in_run(name: str) -> Callable[[], Sequence[bytes]]:
    return lambda: tuple(file.read_bytes() for file in sorted(_run_template().glob(name))[:1])


def _report_of(name: str) -> Callable[[Path], object]:
    def read(path: Path) -> None:
        directory = _run_beside(path, name)
        directory.events()
        report = build_report(directory)
        render(report, directory, "md")

    return read


def _explain_of(name: str) -> Callable[[Path], object]:
    return lambda path: explain_run(load_run(_run_beside(path, name)))


def _query_of(name: str) -> Callable[[Path], object]:
    def read(path: Path) -> None:
        directory = _run_beside(path, name)
        views = ("runs", "cells", "metrics", "comparisons", "series", "histograms")
        for view in views:
            query(directory.path.parent, f"SELECT count(*) FROM {view}")  # noqa: S608 - names of ours

    return read


def _add(path: Path) -> None:
    directory = _run_beside(path, "input.txt")
    add_recorded(directory, str(directory.path / "input.txt"), volume="a")


def _series(path: Path) -> None:
    for series in read_series(path).values():
        bucketed(series, window_s=(0, 10), width_s=2)


def _histograms(path: Path) -> None:
    for _ in read_histograms(path):
        pass
    histograms = load_histograms(path)
    histograms.merged(grid_s=np.arange(0.0, 12.0, 2.0))
    histograms.merged()


def _parquet_seeds(schema: pa.Schema, row: dict[str, Any]) -> Callable[[], Sequence[bytes]]:
    """Tables as volbench writes them, and with columns of other types, values that are no numbers, and nulls."""

    @cache
    def made() -> Sequence[bytes]:
        rows = [{**row, "t_s": float(n)} for n in range(6)]
        nullable = pa.schema([field.with_nullable(True) for field in schema])
        whole = pa.Table.from_pylist(rows, schema=nullable)
        tables = [whole, whole.slice(0, 0)]
        for name in nullable.names:
            at = nullable.get_field_index(name)
            for other in (
                float("nan"),
                float("inf"),
                -float("inf"),
                1e308,
                -1,
                2**62,
                "x",
                "",
                None,
                [1, 2**40],
                [-1],
                [],
            ):
                column = pa.array([other] * len(rows))
                tables.append(whole.set_column(at, name, column))
                try:
                    typed = pa.array([other] * len(rows), type=nullable.field(name).type)
                except (pa.ArrowException, OverflowError, TypeError, ValueError):
                    continue
                tables.append(whole.set_column(at, nullable.field(name), typed))
            tables.append(whole.drop_columns([name]))
        seeds = []
        for table in tables:
            file = io.BytesIO()
            metadata = {b"volbench_schema": b"1"}
            pq.write_table(table.replace_schema_metadata(metadata), file, compression="none")
            seeds.append(file.getvalue())
        return tuple(seeds)

    return made


def mutated_table(rng: Any, seeds: Sequence[bytes]) -> bytes:
    """A table of the seeds as it is in three of ten, else with damaged bytes."""
    return rng.choice(seeds) if rng.random() < 0.3 else mutations.mutated(rng, seeds)


def _raw(path: Path) -> None:
    consume(sampled.series_rows(path))
    consume(sampled.server_histogram_rows(path))


@cache
def _raw_seeds() -> Sequence[bytes]:
    """samples.jsonl of three ticks of every source, written by the writer itself from recorded texts."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "samples.jsonl"
        writer = RawWriter(path)
        writer.header(interval_s=1.0, zero_monotonic_ns=10**9)
        disk = diskstats.parse_diskstats((FIXTURES / "sample" / "diskstats-20-columns.txt").read_text())
        name, counters = next(iter(disk.items()))
        fields = {(field, name): getattr(counters, field) for field in type(counters).__slots__}
        emulated = emulator.parse_counters((FIXTURES / "sample" / "emulator-counters.json").read_bytes())
        known = {
            "diskstats": fields,
            "emulator": emulated,
            "vm": {(key, ""): 5 for key in ("pgpgin", "pswpin", "pswpout")},
            "performance_schema": {("statements", ""): 5, ("statement_ps", ""): 7, ("bucket", "3"): 2},
            "innodb": {("innodb_data_reads", ""): 5.0, ("questions", ""): 9.0},
        }
        for tick in range(1, 4):
            read = {
                source: Reading(
                    t_s=float(tick),
                    values={key: value * tick for key, value in values.items() if isinstance(value, int | float)},
                )
                for source, values in known.items()
            }
            writer.tick(tick, late_s=0.0, took_s=0.001, read=read, failed={"psi": "absent"})
        writer.end(3.0)
        writer.close()
        return (path.read_bytes(),)


# Suites and other YAML

PLAN = """schema: 1
name: move to new servers
source: {host: db1, user: reader, option_file: /etc/source.cnf}
candidate: {host: db2, user: reader, option_file: /etc/candidate.cnf}
schemas: [shop]
policy:
  - objects equal
  - latency_ms_p95 <= 50 ms
"""
PROFILE = (ROOT / "suites" / "volumes" / "ebs-gp2.yaml").read_text().replace("name: ebs-gp2", "name: mine")
_count = iter(range(10**9))
PRICED_MAX = 4


def _profile(path: Path) -> None:
    place = path.parent / f"p{next(_count)}"  # loaded profiles are kept by path
    place.mkdir()
    for other in ("common.yaml", "ec2-instances.yaml"):
        shutil.copy(ROOT / "suites" / "volumes" / other, place)
    path.rename(place / "mine.yaml")
    whole_profile("mine", place)
    resolve("mine", {"size": "50GiB"}, place)


def _prices(path: Path) -> None:
    prices = load_prices(path)
    for profile in list(prices.volumes)[:PRICED_MAX]:
        with suppress(VolbenchError):
            parameters = resolve(profile, {}).parameters
            monthly_cost(prices, profile, parameters, read_bytes_per_s=1e6, write_bytes_per_s=1e6)


def _line(parse: Callable[[str], object]) -> Callable[[Path], object]:
    """A parser of one argument of a command line: no line break, no zero byte."""
    return of_text(lambda text: parse(text.replace("\x00", "").strip("\n")))


def _target_options(text: str) -> None:
    words = [word for word in text.replace("\x00", "").split("\n") if word]
    options = parse_options(words)
    for volume in ("", *volumes_of(options)):
        of_volume = read_options(options, volume)
        labels_of(of_volume.selector)
        tolerations_of(of_volume.tolerations)
        check_blocks(blocks=6, nodes=of_volume.nodes)
        node_of_block(3, blocks=6, nodes=of_volume.nodes)
    parse_changes(words)


def _spec(text: str) -> None:
    parse_volume(text, name=None)
    resolve_spec(text.partition("=")[2], name="volume")


def _assignments() -> Sequence[bytes]:
    return tuple(
        text.encode()
        for text in (
            "repeats=3", "steps.read-write.threads=32", "scale=ci", "engine.flavor=mariadb", "steps.0.duration=10s",
            "limits.emulator_late=5%", "steps.read-write.threads=[1,2]", "engine.variables={a: 1}",
        )
    )  # fmt: skip


_QUICK = (ROOT / "suites" / "quick.yaml").read_text()


def _set(text: str) -> None:
    check_suite(_QUICK, name="quick.yaml", settings=[text])


# Validation


def _slow_log(path: Path) -> None:
    with slow_log(path) as found:
        for one in found:
            only_reads(one.sql)


def _slow_log_masked(path: Path) -> None:
    with slow_log(path) as found:
        consume(masked(found, key=b"k" * 32))


def _slow_log_classes(path: Path) -> None:
    with slow_log(path) as found:
        kept = list(found)
    query_classes(kept, {one.schema for one in kept if one.schema is not None})


def _capture(path: Path) -> None:
    found = read_capture(path)
    repeatable_classes(found)


def _capture_seeds() -> Sequence[bytes]:
    return (
        json.dumps(
            {
                "schema": 1, "flavor": "mysql", "version": "9.7.4", "started_at": "2026-01-31T14:00:00Z",
                "seconds": 60.0, "statements_per_s": 50.0, "threads_running_max": 4, "unclassified": 0,
                "masked": False,
                "classes": [
                    {
                        "schema_name": "shop", "digest_text": "SELECT * FROM `orders` WHERE `id` = ?",
                        "sample": "SELECT * FROM orders WHERE id = 5", "statements": 3000, "total_s": 1.5,
                        "errors": 0, "rows_sent": 3000, "rows_examined": 3000,
                    }
                ],
            }
        ).encode(),
    )  # fmt: skip


SQL = (
    "SELECT a.id, 'it''s', \"x\\\"y\", x'4D', 0x41, b'01', _utf8mb4'abc', N'x', -5, .5e3 FROM `t``a` AS a "
    "WHERE b IN (1,2,3) AND c LIKE 'a\\\\' ORDER BY 1 LIMIT 10 -- end",
    "INSERT INTO t (a, b) VALUES (1, 'x'), (2, 'y') ON DUPLICATE KEY UPDATE a = VALUES(a)",
    "SELECT /*+ MAX_EXECUTION_TIME(1000) */ /*!50000 STRAIGHT_JOIN */ * FROM t # x\nWHERE d = DATE'2020-01-01'",
    "WITH c AS (SELECT 1 AS x UNION ALL SELECT 2) SELECT SUM(x) OVER w FROM c WINDOW w AS (PARTITION BY x)",
    "(`a` + 1) * 2 <> 0 and (`b` like _utf8mb4'x%') or isnull(`c`)",
)


def _sql(text: str) -> None:
    fingerprint(text)
    masked_sql(text, b"k" * 32)
    only_reads(text)


def _normal_sql(text: str) -> None:
    normal_expression(text)
    normal_query(text)


PT_UPGRADE = """#-----------------------------------------------------------------------
# Logs
#-----------------------------------------------------------------------

########################################################################
# Query class 5A4A6C3CF5B7C0F1
########################################################################

Reporting class because it has diffs, but hasn't been reported yet.

Total queries      2
Unique queries     2
Discarded queries  0

select a from t where id=?

##
## Row diffs: 2
##

-- 1.

@ row 1
< 1,2.50
> 1,2.5

SELECT a FROM t WHERE id=1

#-----------------------------------------------------------------------
# Stats
#-----------------------------------------------------------------------

failed_queries        0
not_select            3
queries_filtered      0
queries_read          9
"""


def _pt_upgrade(text: str) -> None:
    parse_stats(text)
    consume(parse_classes(text))


# Kernel, devices, servers

_SAMPLED = (VolbenchError, ValueError)
_VOLUME_ID = "vol-0123456789abcdef0"
FIO = json.dumps(
    {
        "fio version": "fio-3.33",
        "jobs": [
            {
                "error": 0,
                "read": {
                    "total_ios": 100, "io_bytes": 409600, "iops": 50.0, "bw_bytes": 204800,
                    "clat_ns": {
                        "N": 100, "mean": 1e6, "max": 2_000_000, "percentile": {"50.000000": 1e6, "99.000000": 2e6},
                        "bins": {"1000000": 60, "2000000": 40},
                    },
                },
                "write": {"total_ios": 0, "io_bytes": 0, "iops": 0.0, "bw_bytes": 0, "clat_ns": {"N": 0}},
                "sync": {"total_ios": 5, "lat_ns": {"percentile": {"50.000000": 1e6, "99.000000": 2e6}}},
            }
        ],
    }
)  # fmt: skip


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
    return files("tests/unit/workload/recorded/*.txt")()


def _sysbench(text: str) -> None:
    parser = LineParser()
    for line in text.splitlines():
        parser.feed(line)


def _emulated_state(path: Path) -> None:
    place = path.parent / "volumes" / "a"
    place.mkdir(parents=True)
    path.rename(place / "volume.json")
    (place / ".volbench-owned.json").write_text(
        '{"schema": 1, "purpose": "emulated volume", "run_id": "", "token": "0"}'
    )
    list_volumes(place.parent)
    emulated_behind(str(place / "data"))


def _marker(path: Path) -> None:
    path.rename(path.with_name(".volbench-owned.json"))
    is_owned(path.parent)


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
        ("vmstat", lambda text: stat.parse_vmstat(text, {"pgpgin", "pswpin", "pswpout"}), (f"{sample}vmstat.txt",)),
        ("io.stat", cgroup.parse_io_stat, (f"{sample}io-stat-v2.txt",)),
        ("blkio", lambda text: cgroup.join_blkio(text, text), (f"{sample}blkio-*.txt",)),
        ("proc-cgroup", cgroup.parse_proc_cgroup, (f"{sample}proc-cgroup-*.txt",)),
        ("diskstats", diskstats.parse_diskstats, (f"{sample}diskstats-*.txt",)),
        ("diskstats-bytes", lambda text: diskstats_read_bytes(text, "vda"), (f"{sample}diskstats-*.txt",)),
        ("pressure", psi.parse_pressure, (f"{sample}pressure-io.txt",)),
        ("mountstats", _mountstats, (f"{sample}mountstats.txt",)),
        ("ebs-csi", lambda text: ebs_csi.parse_exposition(text, _VOLUME_ID), (f"{sample}ebs-csi-metrics.txt",)),
    )  # fmt: skip
    for name, parse, patterns in parsers:
        yield Reader(name=name, read=of_text(parse), seeds=files(*patterns), share=25, refusals=_SAMPLED)
    texts_of = (
        ("cpu.stat", cgroup.parse_cpu_stat, "usage_usec 55\nuser_usec 1\nnr_periods 7\nnr_throttled 2\n"),
        ("performance-schema-lines", statements.parse_lines, "wait/io/file/innodb/innodb_data_file 5 6 7\nx 1 2"),
        (
            "performance-schema-digests",
            statements.parse_digests,
            "1 2 3 - abcdef SELECT ?\n5 6 7 8 abcdef SELECT ?\n",
        ),
        ("innodb-status", _status, "Innodb_data_reads|5\nQuestions|9\n"),
    )
    for name, parse, seed in texts_of:
        yield Reader(name=name, read=of_text(parse), seeds=texts(seed), share=30, refusals=_SAMPLED)


READERS: tuple[Reader, ...] = (
    *_proc_files(),
    Reader(
        name="emulator-counters",
        read=of_bytes(emulator.parse_counters),
        seeds=files("tests/fixtures/sample/emulator-counters.json"),
        share=20,
        mutate=mutations.mutated_json,
        refusals=_SAMPLED,
    ),
    Reader(
        name="ebs-nvme-page", read=of_bytes(ebs_nvme.parse_log_page), seeds=_nvme_page, share=20, refusals=_SAMPLED
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
    Reader(name="sysbench-lines", read=of_text(_sysbench), seeds=_sysbench_seeds, share=20),
    Reader(
        name="fio",
        read=of_text(_fio),
        seeds=texts(FIO, "fio: warning\n" + FIO),
        share=30,
        mutate=mutations.mutated_json,
    ),
    Reader(
        name="fio-iops-log",
        read=of_text(parse_iops_log),
        seeds=texts("500, 48, 0, 4096, 0\n1000, 50, 0, 4096, 0\n"),
        share=20,
    ),
    Reader(
        name="slow-log", read=_slow_log, seeds=files("tests/fixtures/slowlog/*/slow.log", bytes_max=2_600), share=40
    ),
    Reader(
        name="slow-log-masked",
        read=_slow_log_masked,
        seeds=files("tests/fixtures/slowlog/*/slow.log", bytes_max=2_600),
        share=20,
    ),
    Reader(
        name="slow-log-classes",
        read=_slow_log_classes,
        seeds=files("tests/fixtures/slowlog/*/slow.log", bytes_max=2_600),
        share=20,
    ),
    Reader(name="capture", read=_capture, seeds=_capture_seeds, share=20, mutate=mutations.mutated_json),
    Reader(name="sql", read=of_text(_sql), seeds=texts(*SQL), share=25),
    Reader(name="normal-sql", read=of_text(_normal_sql), seeds=texts(*SQL), share=4),
    Reader(
        name="query-plan",
        read=of_bytes(lambda data: plan_text(parse_json(data))),
        seeds=texts('{"query_block": {"table": {"table_name": "t", "access_type": "ref", "key": "k"}}}'),
        share=10,
        mutate=mutations.mutated_json,
        refusals=_SAMPLED,
    ),
    Reader(name="pt-upgrade", read=of_text(_pt_upgrade), seeds=texts(PT_UPGRADE), share=20),
    Reader(name="iostat", read=explain_recorded, seeds=texts(IOSTAT, IOSTAT_OLD), share=15),
    Reader(
        name="iostat-json", read=explain_recorded, seeds=texts(IOSTAT_JSON), share=8, mutate=mutations.mutated_json
    ),
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
    Reader(
        name="cloudwatch",
        read=explain_recorded,
        seeds=texts(CLOUDWATCH, STATISTICS),
        share=15,
        mutate=mutations.mutated_json,
    ),
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
    Reader(
        name="history-json",
        read=_history,
        seeds=texts('[{"t": 60, "iops": 100}, {"t": 120, "iops": null}, {"t": 180, "iops": 7}]'),
        share=10,
        file="history.json",
        mutate=mutations.mutated_json,
    ),
    Reader(
        name="history-sar",
        read=_history,
        seeds=lambda: (SAR_ALL.encode(), *files("tests/fixtures/sar/*.txt")()),
        share=6,
    ),
    Reader(name="history-iostat", read=_history, seeds=texts(IOSTAT, IOSTAT_OLD), share=4),
    Reader(
        name="history-cloudwatch",
        read=_history,
        seeds=texts(CLOUDWATCH, STATISTICS),
        share=6,
        mutate=mutations.mutated_json,
    ),
    Reader(
        name="run.json",
        read=_report_of("run.json"),
        seeds=_in_run("run.json"),
        share=0.7,
        mutate=mutations.mutated_json,
    ),
    Reader(
        name="result.json",
        read=_report_of("cells/*/result.json"),
        seeds=_in_run("cells/*/result.json"),
        share=0.7,
        mutate=mutations.mutated_json,
    ),
    Reader(
        name="cell.json",
        read=_report_of("cells/*/cell.json"),
        seeds=_in_run("cells/*/result.json"),
        share=0.3,
        mutate=mutations.mutated_json,
    ),
    Reader(
        name="journal",
        read=_report_of("journal.jsonl"),
        seeds=files("tests/golden/run-schema-1/journal.jsonl"),
        share=0.5,
        mutate=mutations.mutated_lines,
    ),
    Reader(
        name="report.json",
        read=lambda path: read_record(path, Report, schema=REPORT_SCHEMA),
        seeds=_in_run("report.json"),
        share=3,
        mutate=mutations.mutated_json,
    ),
    Reader(
        name="query-report",
        read=_query_of("report.json"),
        seeds=_in_run("report.json"),
        share=0.1,
        mutate=mutations.mutated_json,
    ),
    Reader(
        name="query-series",
        read=_query_of("cells/*/series.parquet"),
        seeds=_in_run("cells/*/series.parquet"),
        share=0.1,
    ),
    Reader(
        name="explain-series",
        read=_explain_of("cells/*/series.parquet"),
        seeds=_parquet_seeds(
            SERIES_COLUMNS, {"source": "diskstats", "metric": "reads_per_s", "entity": "sda", "value": 5.0}
        ),
        share=0.2,
        mutate=mutated_table,
    ),
    Reader(
        name="report-histograms",
        read=_report_of("cells/*/histograms.parquet"),
        seeds=_in_run("cells/*/histograms.parquet"),
        share=0.3,
    ),
    Reader(
        name="series",
        read=_series,
        seeds=_parquet_seeds(
            SERIES_COLUMNS, {"source": "diskstats", "metric": "reads_per_s", "entity": "sda", "value": 5.0}
        ),
        share=2,
        file="series.parquet",
        mutate=mutated_table,
    ),
    Reader(
        name="histograms",
        read=_histograms,
        seeds=_parquet_seeds(
            HISTOGRAM_COLUMNS,
            {
                "interval_s": 1.0,
                "step": "load",
                "source": "client",
                "events": 3,
                "errors": 0,
                "edge_mult": 55.5,
                "edge_deduct": -6.9,
                "bin": [1, 2],
                "count": [1, 2],
                "below": 0,
                "above": 0,
                "measured": True,
            },
        ),
        share=10,
        file="histograms.parquet",
        mutate=mutated_table,
    ),
    Reader(
        name="add-cloudwatch", read=_add, seeds=_cloudwatch_of_the_run, share=0.7, mutate=mutations.mutated_json
    ),
    Reader(name="add-nvme", read=_add, seeds=_nvme_log, share=0.7, mutate=mutations.mutated_lines),
    Reader(name="raw-samples", read=_raw, seeds=_raw_seeds, share=20, mutate=mutations.mutated_lines),
    Reader(
        name="progress",
        read=lambda path: (path.rename(path.with_name("progress.json")), read_progress(path.parent)),
        seeds=texts('{"text": "warming up", "fraction": 0.5}'),
        share=10,
        mutate=mutations.mutated_json,
    ),
    Reader(
        name="marker",
        read=_marker,
        seeds=texts('{"schema": 1, "purpose": "x", "run_id": "r"}'),
        share=10,
        mutate=mutations.mutated_json,
    ),
    Reader(
        name="emulated-state",
        read=_emulated_state,
        seeds=texts(
            '{"schema": 1, "profile": "ebs-gp2", "parameters": {"size": 53687091200}, '
            '"owner": {"pid": 4194304, "started": 5}}'
        ),
        share=4,
        mutate=mutations.mutated_json,
    ),
    Reader(
        name="option-file",
        read=read_option_file,
        seeds=texts('[client]\nuser=reader\npassword="a\\"b"\n[mysqld]\nskip-name-resolve\n!include x\n'),
        share=20,
    ),
    Reader(
        name="dsn",
        read=_line(parse_dsn),
        seeds=texts(
            "mysql://user@host:3306/schema",
            "mysql://user@localhost/s?socket=/run/mysqld/mysqld.sock",
            "mysql://u@[::1]:3307/x",
        ),
        share=60,
    ),
    Reader(
        name="spec",
        read=_line(_spec),
        seeds=texts(
            "a=path:/mnt/x",
            "b=emulated:ebs-gp2?size=50GiB&credits=10%",
            "c=nfs:s:/e?vers=4.1",
            "d=storage-class:gp3?size=100Gi",
            "e=docker-volume:x?create=yes",
        ),
        share=20,
    ),
    Reader(
        name="server-image",
        read=_line(parse_server_image),
        seeds=texts("mysql:8.0", "mariadb:11.8", "registry.local:5000/a/mysql@sha256:" + "0" * 64),
        share=30,
    ),
    Reader(
        name="target-options",
        read=of_text(_target_options),
        seeds=texts(
            "namespace=volbench\nnodes=3\nselector=topology.kubernetes.io/zone=a,b=c",
            "server_memory=2Gi\nnode_price=0.1\na.profile=ebs-gp3?iops=6000\na.tolerations=spot:NoSchedule,k=v:NoExecute",
            "parallel=2\na.selector=a=b\na.node=n1",
            "start_timeout=5m\npin_node=false\nttl=1d\nnodes=1",
            "start_timeout=5m\npriority_class=high",
        ),
        share=20,
    ),
    Reader(
        name="condition",
        read=_line(lambda text: parse_condition(text, where="p.yaml:1")),
        seeds=texts(
            "valid cells >= 5",
            "latency_ms_p95 <= 50 ms",
            "candidate not worse than current by > 10 %",
            "finding storage.stall absent",
        ),
        share=40,
    ),
    Reader(name="set", read=_line(_set), seeds=_assignments, share=0.5),
    Reader(
        name="suite",
        read=load_suite,
        seeds=files("suites/*.yaml", bytes_max=900),
        share=1,
        file="suite.yaml",
    ),
    Reader(
        name="policy",
        read=load_policy,
        seeds=files("suites/policies/*.yaml"),
        share=3,
        file="policy.yaml",
    ),
    Reader(
        name="plan",
        read=load_validation_plan,
        seeds=texts(PLAN),
        share=1,
        file="plan.yaml",
    ),
    Reader(
        name="profile",
        read=_profile,
        seeds=texts(PROFILE),
        share=0.7,
        file="mine.yaml",
    ),
    Reader(
        name="prices",
        read=_prices,
        seeds=files("suites/prices/aws.yaml"),
        share=2,
        file="prices.yaml",
    ),
    *fuzzed_sources.READERS,
)
BY_NAME = {reader.name: reader for reader in READERS}
