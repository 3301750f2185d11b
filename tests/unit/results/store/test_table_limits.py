"""Tables of a run that somebody else made: what volbench never writes is refused before it is read.

The files are real Parquet files, as somebody would make them who wants to fill a machine's memory.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from synthetic_run import Synthetic, SyntheticVolume, build_run

from volbench.cli.main import main
from volbench.core.records.steps.oltp import OltpStep
from volbench.errors import EXIT_USAGE, RunUnreadable
from volbench.results.report.build import build_report
from volbench.results.report.render import render
from volbench.results.report.views.timeline import timelines
from volbench.results.store import tables
from volbench.results.store.histograms import HISTOGRAM_COLUMNS, load_histograms
from volbench.results.store.loaded_run import load_run
from volbench.results.store.query import query
from volbench.results.store.run_directory import RunDirectory
from volbench.results.store.series import SERIES_COLUMNS, read_series
from volbench.results.store.tables import NAME_BYTES_MAX, SCHEMA_KEY

SERIES = {"t_s": 1.0, "source": "diskstats", "metric": "reads_per_s", "entity": "sda", "value": 5.0}
HISTOGRAM: dict[str, Any] = {
    "t_s": 1.0,
    "interval_s": 1.0,
    "step": "load",
    "source": "client",
    "events": 3,
    "errors": 0,
    "edge_mult": 55.5,
    "edge_deduct": -6.9,
    "bin": [1],
    "count": [3],
    "below": 0,
    "above": 0,
    "measured": True,
}
READ_ADDRESS_SPACE = 4 << 30


def write_groups(path: Path, schema: pa.Schema, groups: Sequence[dict[str, Any]]) -> None:
    """Write a table with one row group for each dictionary of columns."""
    schema = schema.with_metadata({SCHEMA_KEY: b"1"})
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for columns in groups:
            writer.write_table(pa.table(columns, schema=schema))


def columns_of(schema: pa.Schema, row: dict[str, Any], rows: int) -> dict[str, Any]:
    return {
        name: pa.array([row[name]], schema.field(name).type).take(pa.array(np.zeros(rows, np.int64)))
        for name in schema.names
    }


def too_large(path: Path) -> None:
    """A sparse file: it takes no space on the disk of whoever made it."""
    write_groups(path, SERIES_COLUMNS, [columns_of(SERIES_COLUMNS, SERIES, 1)])
    os.truncate(path, tables.TABLE_BYTES_MAX + 1)


def too_many_rows(path: Path) -> None:
    """The same row again and again takes next to no space in the file."""
    rows = min(1_000_000, tables.ROWS_MAX)
    group = columns_of(SERIES_COLUMNS, SERIES, rows)
    write_groups(path, SERIES_COLUMNS, [group] * (tables.ROWS_MAX // rows + 1))


def too_many_groups(path: Path) -> None:
    write_groups(path, SERIES_COLUMNS, [columns_of(SERIES_COLUMNS, SERIES, 1)] * (tables.ROW_GROUPS_MAX + 1))


def too_long_a_group(path: Path) -> None:
    """One name of many megabytes, which compresses to nothing."""
    write_groups(
        path,
        SERIES_COLUMNS,
        [columns_of(SERIES_COLUMNS, {**SERIES, "entity": "x" * (tables.GROUP_BYTES_MAX + 1)}, 1)],
    )


def too_long_a_list(path: Path) -> None:
    """One interval with more bins than all intervals of a row group may have together."""
    row = columns_of(HISTOGRAM_COLUMNS, HISTOGRAM, 1)
    for name, kind in (("bin", np.int32), ("count", np.int64)):
        values = np.zeros(tables.VALUES_IN_GROUP_MAX + 1, kind)
        row[name] = pa.ListArray.from_arrays([0, len(values)], values)
    write_groups(path, HISTOGRAM_COLUMNS, [row])


def too_long_a_name(path: Path) -> None:
    """Each row of an answer would have a copy of it."""
    row = {**SERIES, "metric": "x" * (NAME_BYTES_MAX + 1)}
    write_groups(path, SERIES_COLUMNS, [columns_of(SERIES_COLUMNS, row, 100_000)])


def too_many_series(path: Path) -> None:
    """Each row is a series of its own."""
    columns = columns_of(SERIES_COLUMNS, SERIES, 100_000)
    columns["entity"] = pa.array([f"sd{number}" for number in range(100_000)]).dictionary_encode()
    write_groups(path, SERIES_COLUMNS, [columns])


def too_long_a_step(path: Path) -> None:
    row = {**HISTOGRAM, "step": "x" * (NAME_BYTES_MAX + 1)}
    write_groups(path, HISTOGRAM_COLUMNS, [columns_of(HISTOGRAM_COLUMNS, row, 10)])


def nested(path: Path) -> None:
    """A column of lists of lists where a number belongs."""
    schema = SERIES_COLUMNS.set(4, pa.field("value", pa.list_(pa.list_(pa.float64()))))
    write_groups(path, schema, [columns_of(schema, {**SERIES, "value": [[1.0]]}, 3)])


def missing_column(path: Path) -> None:
    schema = SERIES_COLUMNS.remove(4)
    write_groups(path, schema, [columns_of(schema, SERIES, 3)])


def same_column_twice(path: Path) -> None:
    schema = SERIES_COLUMNS.append(pa.field("value", pa.float64())).with_metadata({SCHEMA_KEY: b"1"})
    arrays = [*columns_of(SERIES_COLUMNS, SERIES, 3).values(), pa.array([1.0] * 3)]
    pq.write_table(pa.Table.from_arrays(arrays, schema=schema), path)


def infinite(path: Path) -> None:
    write_groups(path, SERIES_COLUMNS, [columns_of(SERIES_COLUMNS, {**SERIES, "value": float("inf")}, 3)])


def not_a_number(path: Path) -> None:
    write_groups(path, SERIES_COLUMNS, [columns_of(SERIES_COLUMNS, {**SERIES, "t_s": float("nan")}, 3)])


def infinite_interval(path: Path) -> None:
    row = {**HISTOGRAM, "interval_s": float("inf")}
    write_groups(path, HISTOGRAM_COLUMNS, [columns_of(HISTOGRAM_COLUMNS, row, 3)])


HOSTILE_SERIES = (
    too_large,
    too_many_rows,
    too_many_groups,
    too_long_a_group,
    too_long_a_name,
    too_many_series,
    nested,
    missing_column,
    same_column_twice,
)
HOSTILE_HISTOGRAMS = (too_long_a_list, too_long_a_step, infinite_interval)
IN_THE_FOOTER = (too_large, too_many_rows, too_many_groups, too_long_a_group)


@pytest.fixture
def low_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same limits with small numbers: a file above them is made in milliseconds."""
    low = {"ROWS_MAX": 20_000, "ROW_GROUPS_MAX": 20, "GROUP_BYTES_MAX": 1 << 20, "VALUES_IN_GROUP_MAX": 1 << 17}
    for name, limit in low.items():
        monkeypatch.setattr(tables, name, limit)


@pytest.mark.usefixtures("low_limits")
@pytest.mark.parametrize("make", HOSTILE_SERIES)
def test_hostile_series_are_refused(make: Callable[[Path], None], tmp_path: Path) -> None:
    path = tmp_path / "series.parquet"
    make(path)
    with pytest.raises(RunUnreadable, match=r"series\.parquet"):
        read_series(path)


def test_numbers_that_are_not_finite_are_refused_where_they_are_read(tmp_path: Path) -> None:
    """A window has no row whose time is no number."""
    path = tmp_path / "series.parquet"
    not_a_number(path)
    with pytest.raises(RunUnreadable, match="not numeric"):
        read_series(path)
    assert read_series(path, window_s=(0, 10)) == {}
    infinite(path)
    with pytest.raises(RunUnreadable, match="not numeric"):
        read_series(path)
    with pytest.raises(RunUnreadable, match="not numeric"):
        read_series(path, window_s=(0, 10))


@pytest.mark.usefixtures("low_limits")
@pytest.mark.parametrize("make", HOSTILE_HISTOGRAMS)
def test_hostile_histograms_are_refused(make: Callable[[Path], None], tmp_path: Path) -> None:
    path = tmp_path / "histograms.parquet"
    make(path)
    with pytest.raises(RunUnreadable, match=r"histograms\.parquet"):
        load_histograms(path)


def test_limits_are_checked_before_anything_is_read(tmp_path: Path) -> None:
    """In a process whose memory would not hold the rows: 51 million names alone are more."""
    path = tmp_path / "series.parquet"
    too_many_rows(path)
    assert path.stat().st_size < 10 << 20
    code = (
        "import sys; from pathlib import Path; from volbench.errors import RunUnreadable\n"
        "from volbench.results.store.series import read_series\n"
        "try: read_series(Path(sys.argv[1]))\n"
        "except RunUnreadable as error: print(error)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (READ_ADDRESS_SPACE, READ_ADDRESS_SPACE)),
    )
    assert f"{tables.ROWS_MAX:,}" in ended.stdout


def two_cells(directory: Path) -> RunDirectory:
    step = OltpStep(name="load", warmup_s=1, duration_s=4)
    volumes = (SyntheticVolume(name="a"), SyntheticVolume(name="b"))
    return build_run(directory, Synthetic(volumes=volumes, repeats=1, steps=(step,)))


@pytest.mark.usefixtures("low_limits")
@pytest.mark.parametrize("make", IN_THE_FOOTER)
def test_a_report_and_a_query_name_a_hostile_table_and_go_on_without_it(
    make: Callable[[Path], None], tmp_path: Path
) -> None:
    """As they do with a truncated one."""
    run = two_cells(tmp_path)
    hostile = min(run.path.glob("cells/*/series.parquet"))
    make(hostile)
    fault = f"{hostile}: the table is larger than what volbench reads"
    assert timelines(load_run(run)).unreadable == (fault,)
    assert fault in render(build_report(run), run, "html")
    answer = query(tmp_path, "SELECT count(DISTINCT cell_id) FROM series")
    assert answer.rows == [(1,)]
    assert answer.warnings == (fault,)


@pytest.mark.usefixtures("low_limits")
def test_a_query_names_a_table_with_a_list_without_end(tmp_path: Path) -> None:
    """Arrow reads tables for the query, with all entries of a row at once."""
    run = two_cells(tmp_path)
    hostile = min(run.path.glob("cells/*/histograms.parquet"))
    too_long_a_list(hostile)
    answer = query(tmp_path, "SELECT count(DISTINCT cell_id) FROM histograms WHERE len(bin) >= 0")
    assert answer.rows == [(1,)]
    assert answer.warnings == (f"{hostile}: the table is larger than what volbench reads",)


def test_a_hostile_table_that_a_command_needs_is_its_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One message and the exit code of a run that cannot be read."""
    too_large(tmp_path / "series.parquet")
    monkeypatch.setattr("sys.argv", ["volbench", "credits", "--profile", "ebs-gp2", "--from", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        main()
    message = capsys.readouterr().err
    assert ended.value.code == EXIT_USAGE, message
    assert message.count("series.parquet") == 1
    assert "Traceback" not in message
