"""SQL over a thousand runs and over ten thousand: `volbench query` beside `volbench list`, and beside DuckDB alone.

    python tests/benchmarks/query.py [--runs 1000] [--rounds 3]

Each run has ten cells with results, series and histograms, and a report. Commands run in turn, each in a process of
its own; figures are CPU seconds with start and imports, the least of the rounds, and the largest peak of memory.
DuckDB reads the same Parquet files by itself. It checks none of them: volbench reads the sizes that a file states
before a library opens it, since a results directory may come from somebody else (results/store/footer.py), and lets
DuckDB read by a file system that cannot write (query_tables.py). Ends with 1 when a limit is missed.

On two busy cores (load 6): 1,000 runs are counted in 0.78 s, 0.28 times what `list` takes; 10,000 in 2.8 s with 160
MiB. Means of 10,000 files of series take 2.6 times what DuckDB takes, with 255 MiB (load 18; 6.6 times and 379 MiB
while Arrow read them, load 13): start and records 1.2 s, checks 0.9 s, DuckDB by that file system 2.1 s.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "runner")]

from process_usage import usage_of
from synthetic_run import build_run, two_volumes

from volbench.results.report.render import write_reports
from volbench.results.store.run_directory import RUN_FILE, RunDirectory

LIST_RATIO_MAX = 1.0
"""CPU time of counting the runs, over that of listing them, which reads each report too."""
SERIES_RATIO_MAX = 3.0
"""CPU time of means of all series, over DuckDB's for the same files, which it does not check."""
MIB_MAX = 300.0
TEN_THOUSAND_RATIO_MAX = 8.0
"""CPU time of counting ten times as many runs, over that of counting: growth is linear, the start is paid once."""
COUNT = "SELECT count(*) FROM runs"
MEANS = "SELECT metric, avg(value) FROM series GROUP BY metric"
_DUCKDB = "import duckdb, sys; print(len(duckdb.sql(sys.argv[1]).fetchall()))"


def main() -> int:
    """Make the runs, measure in turn, judge."""
    arguments = _arguments()
    with tempfile.TemporaryDirectory(prefix="volbench-query-", dir="/var/tmp") as temporary:
        results, many = Path(temporary) / "results", Path(temporary) / "many"
        seed = _seed(Path(temporary) / "seed")
        for number in range(arguments.runs):
            _copy(seed, results, number, total=True)
        for number in range(10 * arguments.runs):
            _copy(seed, many, number, total=False)
        of_duckdb = MEANS.replace("series", f"'{results}/*/cells/*/series.parquet'")
        commands = {
            "list": _volbench("list", "--out", str(results)),
            "count": _volbench("query", COUNT, "--out", str(results)),
            "count of ten times as many": _volbench("query", COUNT, "--out", str(many)),
            "means of series": _volbench("query", MEANS, "--out", str(results)),
            "DuckDB's means": (sys.executable, "-c", _DUCKDB, of_duckdb),
        }
        seconds, peaks = _measured(commands, arguments.rounds)
        message = _broken_run_is_told(many)
    load = os.getloadavg()[0]
    for name, least in seconds.items():
        print(f"{name}: {least:.2f} s CPU, peak {peaks[name]:.0f} MiB")
    print(f"load {load:.1f}")
    ten_times = "count of ten times as many"
    return max(
        _judged("count over list", seconds["count"] / seconds["list"], LIST_RATIO_MAX),
        _judged("ten times as many", seconds[ten_times] / seconds["count"], TEN_THOUSAND_RATIO_MAX),
        _judged("means over DuckDB's", seconds["means of series"] / seconds["DuckDB's means"], SERIES_RATIO_MAX),
        _judged("MiB of ten times as many", peaks[ten_times], MIB_MAX),
        int(not message),
    )


def _seed(result: Path) -> Path:
    directory = build_run(result, two_volumes())
    write_reports(directory)
    (directory.path / "report.html").unlink()
    return directory.path


def _copy(seed: Path, results: Path, number: int, *, total: bool) -> None:
    """Copy a run under another name; without its cells where it is not copied whole."""
    name = f"{20260101 + number}T030000Z-quick-{number:06x}"
    ignored = None if total else shutil.ignore_patterns("cells", "report.*")
    shutil.copytree(seed, results / name, ignore=ignored)
    for file in (results / name).glob("*.json"):
        file.write_text(json.dumps({**json.loads(file.read_text()), "run_id": name}))


def _broken_run_is_told(many: Path) -> bool:
    """Cut one run.json of all; return whether it is named, and the others are counted."""
    runs = sorted(many.iterdir())
    broken = RunDirectory(runs[len(runs) // 2]).path
    (broken / RUN_FILE).write_bytes((broken / RUN_FILE).read_bytes()[:100])
    done = subprocess.run(
        [*_volbench("query", COUNT, "--out", str(many), "--format", "csv")],
        capture_output=True,
        text=True,
        check=True,
        env=_environment(),
        timeout=600,
    )
    message = broken.name in done.stderr and str(len(runs) - 1) in done.stdout
    print(f"one broken run of {len(runs):,}: {'told, the others are counted' if message else 'NOT TOLD'}")
    return message


def _measured(commands: Mapping[str, Sequence[str]], rounds: int) -> tuple[dict[str, float], dict[str, float]]:
    """Return the least CPU seconds of each command, and the largest peak in MiB."""
    seconds = dict.fromkeys(commands, float("inf"))
    peaks = dict.fromkeys(commands, 0.0)
    for _ in range(rounds):
        for name, command in commands.items():
            used = usage_of(command, _environment(), stdout=subprocess.DEVNULL)
            seconds[name] = min(seconds[name], used.cpu_s)
            peaks[name] = max(peaks[name], used.mib)
    return seconds, peaks


def _volbench(*arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "volbench", *arguments)


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "runner"), "OMP_NUM_THREADS": "1"}


def _judged(name: str, ratio: float, limit: float) -> int:
    print(f"{name}: {ratio:.2f} (at most {limit:g}){': MISSED' if ratio > limit else ''}")
    return int(ratio > limit)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
