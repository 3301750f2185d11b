"""A run of 24 h at 1 Hz with 200 metrics is read, compared and reported in at most 8 s of CPU time and 1 GiB.

`python tests/benchmarks/long_run.py [--hours 24] [--metrics 200] [--cells 10]` writes such a run in so many cells,
then one in a single cell of one volume (not timed), reports each in a process of its own, and
says seconds, peak memory and size of the page. Exit code 1 when a bound is missed. Seconds are of CPU time: wall
time says nothing on a busy machine.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SUPPORT = Path(__file__).resolve().parents[1] / "support"
sys.path.insert(0, str(SUPPORT))

from process_usage import usage_of
from synthetic_run import Synthetic, SyntheticVolume, build_run

from volbench.core.records.steps.oltp import OltpStep
from volbench.results.store.run_directory import SERIES_FILE, RunDirectory
from volbench.results.store.series import SERIES_COLUMNS, SeriesWriter
from volbench.results.store.tables import SCHEMA_KEY, TABLE_SCHEMA

SECONDS_MAX = 8.0
MIB_MAX = 1024.0
OWN_METRICS = 11  # that synthetic_run writes by itself


def main() -> int:
    """Make, report, judge."""
    arguments = _arguments()
    if arguments.report is not None:
        return _report(arguments.report)
    missed = False
    for cells in dict.fromkeys((arguments.cells, 1)):
        with tempfile.TemporaryDirectory() as temporary:
            started = time.monotonic()
            directory = make_run(Path(temporary), hours=arguments.hours, metrics=arguments.metrics, cells=cells)
            rows = sum(pq.read_metadata(path).num_rows for path in directory.path.glob(f"cells/*/{SERIES_FILE}"))
            print(f"made {rows:,} rows ({cells} cells) in {time.monotonic() - started:.0f} s")
            missed |= _judged(directory)
    return int(missed)


def _judged(directory: RunDirectory) -> bool:
    """Report the run in a process, print what it took, and return whether a bound is missed."""
    started = time.monotonic()
    used = usage_of((sys.executable, __file__, "--report", str(directory.path)), os.environ)
    page = directory.path / "report.html"
    mib = page.stat().st_size / 2**20 if page.exists() else 0.0
    print(
        f"reported in {used.cpu_s:.1f} s CPU (at most {SECONDS_MAX:g}; {time.monotonic() - started:.1f} s wall), "
        f"peak {used.mib:.0f} MiB (at most {MIB_MAX:g}), page {mib:.2f} MiB"
    )
    return used.cpu_s > SECONDS_MAX or used.mib > MIB_MAX


def make_run(result: Path, *, hours: float, metrics: int, cells: int) -> RunDirectory:
    """Cells over two volumes that last `hours` together, a single one on one; all series on one grid of 1 s."""
    length_s = hours * 3600 / cells
    volumes = (SyntheticVolume(name="a", stall_s=(100.0, 103.0)), SyntheticVolume(name="b", speed=1.2))
    expected = Synthetic(
        volumes=volumes if cells > 1 else volumes[:1],
        repeats=max(1, cells // 2),
        steps=(OltpStep(name="load", warmup_s=10, duration_s=length_s),),
        suite="long",
    )
    directory = build_run(result, expected)
    for path in directory.path.glob(f"cells/*/{SERIES_FILE}"):
        _widen(path, metrics - OWN_METRICS)
    return directory


def _widen(path: Path, metrics: int) -> None:
    """Add series of the server beside those that the charts show."""
    table = pq.read_table(path)
    ticks = np.unique(table.column("t_s").to_numpy())
    random = np.random.default_rng(1)
    names = pa.array([f"counter_{number}_per_s" for number in range(metrics)])
    partial = path.with_suffix(".wide")
    schema = SERIES_COLUMNS.with_metadata({SCHEMA_KEY: str(TABLE_SCHEMA).encode()})
    with pq.ParquetWriter(partial, schema, compression="zstd") as writer:
        writer.write_table(table.cast(schema))
        block = max(1, SeriesWriter.rows_in_group // metrics)
        for start in range(0, len(ticks), block):
            section = ticks[start : start + block]
            count = len(section) * metrics
            columns = {
                "t_s": np.repeat(section, metrics),
                "source": pa.DictionaryArray.from_arrays(np.zeros(count, np.int32), ["performance_schema"]),
                "metric": pa.DictionaryArray.from_arrays(
                    np.tile(np.arange(metrics, dtype=np.int32), len(section)), names
                ),
                "entity": pa.DictionaryArray.from_arrays(np.zeros(count, np.int32), [""]),
                "value": random.gamma(2.0, 100.0, count),
            }
            writer.write_table(pa.table(columns, schema=schema))
    partial.replace(path)


def _report(path: Path) -> int:
    from volbench.results.report.render import write_reports  # noqa: PLC0415 - its import is part of what is timed

    report, _ = write_reports(RunDirectory.open(path))
    print(report.summary.sentence)
    compared = bool(report.comparisons) or len(report.cells) == 1
    return 0 if compared and math.isfinite(report.timing.wall_s) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--metrics", type=int, default=200)
    parser.add_argument("--cells", type=int, default=10)
    parser.add_argument("--report", type=Path, default=None, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
