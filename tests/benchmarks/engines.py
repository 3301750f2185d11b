"""Arrow beside DuckDB: tables of samples read and written as volbench does, and by DuckDB alone.

    python tests/benchmarks/engines.py [--rounds 3]

CPU seconds of one thread in a process of its own for each, in turn, the least of the rounds, and the largest peak
of memory. volbench's reader checks sizes and values; DuckDB checks neither. Ends with 1 where DuckDB alone is the
faster: then decision 10 (docs/decisions) no longer stands. On two busy cores (load 32) DuckDB took 3.4 times as
long to read a million samples, 1.2 times for 300 short files of 200 series, and 1.5 times to write.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "runner")]

from process_usage import peak_mib

TIMES_MIN = 1.0
"""DuckDB's CPU time over Arrow's."""
SAMPLES, SERIES, SHORT_SAMPLES, SHORT_FILES = 1_000_000, 200, 1_500, 300
NAMES = [f"counter_{number}_per_s" for number in range(SERIES)]
_OF_SERIES = (
    "SELECT source, metric, entity, list(t_s ORDER BY t_s), list(value ORDER BY t_s) FROM '{}' GROUP BY ALL"
)


def main() -> int:
    """Write the files, measure in turn, judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--task", nargs=2, help="measure one task at a place, for the rounds")
    wanted = parser.parse_args()
    if wanted.task:
        return _measure(*wanted.task)
    seconds: dict[str, float] = {}
    peaks: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="volbench-engines-", dir="/var/tmp") as place:
        for _ in range(wanted.rounds):
            for task in TASKS:
                command = [sys.executable, __file__, "--task", task, place]
                done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
                used_s, mib = json.loads(done.stdout)
                seconds[task] = min(used_s, seconds.get(task, used_s))
                peaks[task] = max(mib, peaks.get(task, mib))
    missed = False
    for what in ("write", "read", "read short files"):
        arrow, duckdb = (f"{what}, {engine}" for engine in ("Arrow", "DuckDB"))
        times = seconds[duckdb] / seconds[arrow]
        missed |= times < TIMES_MIN
        print(
            f"{what}: Arrow {seconds[arrow]:.2f} s CPU, {peaks[arrow]:.0f} MiB; DuckDB {seconds[duckdb]:.2f} s, "
            f"{peaks[duckdb]:.0f} MiB: {times:.1f} times (at least {TIMES_MIN:g})"
        )
    print(f"load {os.getloadavg()[0]:.0f}")
    return int(missed)


def _measure(task: str, place: str) -> int:
    begun_s = TASKS[task](Path(place))
    used_s = time.process_time() - begun_s
    print(json.dumps([used_s, peak_mib()]))
    return 0


def _write_arrow(place: Path) -> float:
    import numpy as np  # noqa: PLC0415 - each task loads what it measures
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    from volbench.results.store.series import SERIES_COLUMNS, SeriesWriter  # noqa: PLC0415
    from volbench.results.store.tables import SCHEMA_KEY, TABLE_SCHEMA  # noqa: PLC0415

    schema = SERIES_COLUMNS.with_metadata({SCHEMA_KEY: str(TABLE_SCHEMA).encode()})
    for path, samples in _files(place):
        t_s, metric, value = _samples(samples)
        begun_s = time.process_time()
        with pq.ParquetWriter(path, schema, compression="zstd") as writer:
            for start in range(0, samples, SeriesWriter.rows_in_group):
                rows = slice(start, start + SeriesWriter.rows_in_group)
                count = len(t_s[rows])

                def named(numbers: object, names: list[str]) -> object:
                    return pa.DictionaryArray.from_arrays(pa.array(numbers, pa.int32()), names)

                zeros = np.zeros(count, np.int32)
                columns = [
                    *(pa.array(t_s[rows]), named(zeros, ["performance_schema"]), named(metric[rows], NAMES)),
                    *(named(zeros, [""]), pa.array(value[rows])),
                ]
                writer.write_table(pa.table(columns, schema=schema))
    return begun_s  # of the last, long file


def _write_duckdb(place: Path) -> float:
    import duckdb  # noqa: PLC0415

    t_s, metric, value = _samples(SAMPLES)
    samples = {"t_s": t_s, "number": metric, "value": value}
    assert samples
    begun_s = time.process_time()
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("CREATE TABLE names (number INT, metric VARCHAR)")
    connection.executemany("INSERT INTO names VALUES (?, ?)", list(enumerate(NAMES)))
    connection.execute(
        "COPY (SELECT t_s, 'performance_schema' AS source, metric, '' AS entity, value FROM samples JOIN names "
        f"USING (number) ORDER BY t_s) TO '{place}/duckdb.parquet' (FORMAT parquet, COMPRESSION zstd)"
    )
    return begun_s


def _read_arrow(place: Path) -> float:
    from volbench.results.store.series import read_series  # noqa: PLC0415

    begun_s = time.process_time()
    assert len(read_series(place / "long.parquet")) == SERIES
    return begun_s


def _read_duckdb(place: Path) -> float:
    import duckdb  # noqa: PLC0415

    begun_s = time.process_time()
    connection = duckdb.connect(config={"threads": 1})
    answer = connection.execute(_OF_SERIES.format(place / "long.parquet")).fetchnumpy()
    assert len(answer["metric"]) == SERIES
    return begun_s


def _read_short_arrow(place: Path) -> float:
    from volbench.results.store.series import read_series  # noqa: PLC0415

    read_series(place / "short.parquet")
    begun_s = time.process_time()
    for _ in range(SHORT_FILES):
        read_series(place / "short.parquet")
    return begun_s


def _read_short_duckdb(place: Path) -> float:
    import duckdb  # noqa: PLC0415

    connection = duckdb.connect(config={"threads": 1})
    begun_s = time.process_time()
    for _ in range(SHORT_FILES):
        connection.execute(_OF_SERIES.format(place / "short.parquet")).fetchnumpy()
    return begun_s


def _files(place: Path) -> tuple[tuple[Path, int], ...]:
    return (place / "short.parquet", SHORT_SAMPLES - SHORT_SAMPLES % SERIES), (place / "long.parquet", SAMPLES)


def _samples(count: int):
    import numpy as np  # noqa: PLC0415

    ticks = count // SERIES
    numbers = np.tile(np.arange(SERIES, dtype=np.int32), ticks)
    return (
        np.repeat(np.arange(ticks, dtype=float), SERIES),
        numbers,
        np.random.default_rng(1).gamma(2.0, 100.0, count),
    )


TASKS: dict[str, Callable[[Path], float]] = {
    "write, Arrow": _write_arrow,
    "write, DuckDB": _write_duckdb,
    "read, Arrow": _read_arrow,
    "read, DuckDB": _read_duckdb,
    "read short files, Arrow": _read_short_arrow,
    "read short files, DuckDB": _read_short_duckdb,
}

if __name__ == "__main__":
    sys.exit(main())
