"""Rows of the fuzzer's table: run directories, their tables, and volbench's own small files."""

from __future__ import annotations

import atexit
import io
import json
import shutil
import tempfile
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import mutations
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import synthetic_run

from fuzzed.reader import FIXTURES, JsonReader, Reader, consume, files, texts
from volbench.core.base.ownership import is_owned
from volbench.core.records.report import REPORT_SCHEMA, Report
from volbench.core.records.steps.oltp import OltpStep
from volbench.machine.volume.emulated.status import emulated_behind, list_volumes
from volbench.measure.execute.cell.progress import read_progress
from volbench.measure.sample import rows as sampled
from volbench.measure.sample.interface import Reading
from volbench.measure.sample.parsers import diskstats, emulator
from volbench.measure.sample.raw import RawWriter
from volbench.results.explain.run import explain_run
from volbench.results.recorded.after import add_recorded
from volbench.results.report.build import build_report
from volbench.results.report.render import render
from volbench.results.store.files import read_record
from volbench.results.store.histograms import HISTOGRAM_COLUMNS, load_histograms
from volbench.results.store.loaded_run import load_run
from volbench.results.store.query import query
from volbench.results.store.run_directory import RunDirectory
from volbench.results.store.series import SERIES_COLUMNS, bucketed, read_series


def _nvme_log() -> Sequence[bytes]:
    names = (
        "total_read_ops",
        "total_write_ops",
        "total_read_bytes",
        "total_write_bytes",
        "total_read_time",
        "total_write_time",
        "ebs_volume_performance_exceeded_iops",
        "ebs_volume_performance_exceeded_tp",
        "ec2_instance_ebs_performance_exceeded_iops",
        "ec2_instance_ebs_performance_exceeded_tp",
    )
    begin = synthetic_run.STARTED.timestamp()
    rows = [
        {"timestamp": begin + 30 * n, **dict.fromkeys(names, 500 * n), "volume_queue_length": 4} for n in range(5)
    ]
    return ("\n".join(map(json.dumps, rows)).encode(),)


def _cloudwatch_of_the_run() -> Sequence[bytes]:
    times = [(synthetic_run.STARTED + timedelta(minutes=n)).isoformat() for n in range(6)]
    answer = {"MetricDataResults": [{"Label": "BurstBalance", "Timestamps": times, "Values": [9, 8, 7, 6, 5, 4]}]}
    return (json.dumps(answer).encode(),)


@cache
def _run_template() -> Path:
    """A run of two short cells, made once for each process; readers get links to its files."""
    path = Path(tempfile.mkdtemp(prefix="volbench-fuzz-run-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    spec = synthetic_run.Synthetic(
        volumes=(synthetic_run.SyntheticVolume(name="a"), synthetic_run.SyntheticVolume(name="b", speed=2)),
        repeats=1,
        steps=(OltpStep(name="load", warmup_s=1, duration_s=6),),
    )
    directory = synthetic_run.build_run(path, spec)
    report = build_report(directory)
    (directory.path / "report.json").write_text(render(report, directory, "json"))
    return directory.path


def _run_beside(path: Path, name: str) -> RunDirectory:
    """A run in which `path` takes the place of the file `name` (a glob)."""
    template = _run_template()
    parent = path.parent / "results" / template.name
    for file in template.rglob("*"):
        copy = parent / file.relative_to(template)
        if file.is_file():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, copy)
    target = next(iter(sorted(parent.glob(name))), None) or parent / name.replace("*", "x")
    path.replace(target)
    return RunDirectory.open(parent)


def _in_run(name: str) -> Callable[[], Sequence[bytes]]:
    return lambda: tuple(file.read_bytes() for file in sorted(_run_template().glob(name))[:1])


def _journal() -> Sequence[bytes]:
    """Return the recorded journal's events of the run as a whole, and of the cells that the small run has."""
    cells = {path.name for path in (_run_template() / "cells").iterdir()}
    lines = files("tests/golden/run/journal.jsonl")()[0].splitlines(keepends=True)
    return (b"".join(line for line in lines if json.loads(line).get("cell_id", "") in {"", *cells}),)


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
            query(directory.path.parent, f"SELECT count(*) FROM {view}")

    return read


def _add(path: Path) -> None:
    directory = _run_beside(path, "input.txt")
    add_recorded(directory, str(directory.path / "input.txt"), volume="a")


def _series(path: Path) -> None:
    for series in read_series(path).values():
        bucketed(series, window_s=(0, 10), width_s=2)


def _histograms(path: Path) -> None:
    histograms = load_histograms(path)
    histograms.merged(grid_s=np.arange(0.0, 12.0, 2.0))
    histograms.merged()


def _parquet_seeds(schema: pa.Schema, row: dict[str, Any]) -> Callable[[], Sequence[bytes]]:
    """Tables as volbench writes them, and with columns of other types, values that are no numbers, and nulls."""

    @cache
    def made() -> Sequence[bytes]:
        rows = [{**row, "t_s": float(n)} for n in range(6)]
        nullable = pa.schema([field.with_nullable(True) for field in schema])
        total = pa.Table.from_pylist(rows, schema=nullable)
        tables = [total, total.slice(0, 0)]
        for name in nullable.names:
            at = nullable.get_field_index(name)
            for alternative in (
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
                column = pa.array([alternative] * len(rows))
                tables.append(total.set_column(at, name, column))
                try:
                    typed = pa.array([alternative] * len(rows), type=nullable.field(name).type)
                except (pa.ArrowException, OverflowError, TypeError, ValueError):
                    continue
                tables.append(total.set_column(at, nullable.field(name), typed))
            tables.append(total.drop_columns([name]))
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
    consume(sampled.histogram_rows(path))


@cache
def _raw_seeds() -> Sequence[bytes]:
    """samples.jsonl of three ticks of every source, written by the writer itself from recorded texts."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "samples.jsonl"
        writer = RawWriter(path)
        writer.header(interval_s=1.0, zero_monotonic_ns=10**9)
        disk = diskstats.parse_diskstats((FIXTURES / "sample" / "diskstats-20-columns.txt").read_text())
        name, counters = next(iter(disk.items()))
        fields = {(field, name): getattr(counters, field) for field in type(counters).__slots__}
        emulated = emulator.parse_counters((FIXTURES / "sample" / "emulator-counters.json").read_bytes())
        rates = {
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
                for source, values in rates.items()
            }
            writer.tick(tick, late_s=0.0, took_s=0.001, read=read, failed={"psi": "absent"})
        writer.end(3.0)
        writer.close()
        return (path.read_bytes(),)


def _emulated_state(path: Path) -> None:
    parent = path.parent / "volumes" / "a"
    parent.mkdir(parents=True)
    path.rename(parent / "volume.json")
    (parent / ".volbench-owned.json").write_text(
        '{"schema": 1, "purpose": "emulated volume", "run_id": "", "token": "0"}'
    )
    list_volumes(parent.parent)
    emulated_behind(str(parent / "data"))


def _marker(path: Path) -> None:
    path.rename(path.with_name(".volbench-owned.json"))
    is_owned(path.parent)


READERS: tuple[Reader, ...] = (
    JsonReader(name="run.json", read=_report_of("run.json"), seeds=_in_run("run.json"), share=0.7),
    JsonReader(
        name="result.json", read=_report_of("cells/*/result.json"), seeds=_in_run("cells/*/result.json"), share=0.7
    ),
    JsonReader(
        name="cell.json", read=_report_of("cells/*/cell.json"), seeds=_in_run("cells/*/result.json"), share=0.3
    ),
    Reader(
        name="journal",
        read=_report_of("journal.jsonl"),
        seeds=_journal,
        share=0.5,
        mutate=mutations.mutated_lines,
    ),
    JsonReader(
        name="report.json",
        read=lambda path: read_record(path, Report, schema=REPORT_SCHEMA),
        seeds=_in_run("report.json"),
        share=3,
    ),
    JsonReader(name="query-report", read=_query_of("report.json"), seeds=_in_run("report.json"), share=0.1),
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
    JsonReader(name="add-cloudwatch", read=_add, seeds=_cloudwatch_of_the_run, share=0.7),
    Reader(name="add-nvme", read=_add, seeds=_nvme_log, share=0.7, mutate=mutations.mutated_lines),
    Reader(name="raw-samples", read=_raw, seeds=_raw_seeds, share=20, mutate=mutations.mutated_lines),
    JsonReader(
        name="progress",
        read=lambda path: (path.rename(path.with_name("progress.json")), read_progress(path.parent)),
        seeds=texts('{"text": "warming up", "fraction": 0.5}'),
        share=10,
    ),
    JsonReader(name="marker", read=_marker, seeds=texts('{"schema": 1, "purpose": "x", "run_id": "r"}'), share=10),
    JsonReader(
        name="emulated-state",
        read=_emulated_state,
        seeds=texts(
            '{"schema": 1, "profile": "ebs-gp2", "parameters": {"size": 53687091200}, '
            '"owner": {"pid": 4194304, "started": 5}}'
        ),
        share=4,
    ),
)
