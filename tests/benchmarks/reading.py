"""Reading of results: a short and a long series file, a report and a comparison of ten cells.

    python tests/benchmarks/reading.py [--rounds 5] [--long-rows 1728000]

Each task runs in processes of its own. Figures are the median CPU time of what the task does, without imports, and
the peak memory of the process. Ends with 1 when a limit is missed.

On two busy cores (load 10 to 18), three rounds: a short series 2.2 ms, 1.73 million rows 193 ms with a peak of
207 MiB, a report of ten cells 675 ms, a comparison 17.7 ms; the code before that read runs again and again, and
series with DuckDB, took 15.8, 6.0, 5.3 and 30.2 times as long in the same run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "support"), str(Path(__file__).parent)]

from long_run import make_run
from synthetic_run import build_run, two_volumes

_MEASURED = """
import json, sys, time
from pathlib import Path
{imports}
path = Path(sys.argv[1])
started_s = time.process_time()
for _ in range({times}):
    {task}
cpu_s = (time.process_time() - started_s) / {times}
print()  # DuckDB's progress bar ends without a line feed
lines = Path("/proc/self/status").read_text().splitlines()
print(json.dumps([cpu_s, next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024]))
"""
_SERIES = "from volbench.results.store.series import read_series"
_COMPARE = "from volbench.results.report.cross_run import compare_runs"
_DIRECTORY = "from volbench.results.store.run_directory import RunDirectory\n"


@dataclass(frozen=True, kw_only=True)
class Task:
    """What is measured, and what it may cost: CPU seconds and memory."""

    name: str
    imports: str
    code: str
    seconds_max: float
    times: int = 1
    mib_max: float = 1024.0


SHORT = Task(
    name="series file of a short cell",
    imports=_SERIES,
    code="read_series(path)",
    times=20,
    seconds_max=0.004,
)
LONG = Task(
    name="series of 1.73 million rows",
    imports=_SERIES,
    code="read_series(path)",
    seconds_max=0.6,
    mib_max=260.0,
)
REPORT = Task(
    name="report of ten cells",
    imports=f"{_DIRECTORY}from volbench.results.report.render import write_reports",
    code="write_reports(RunDirectory.open(path))",
    seconds_max=1.0,
    times=2,
)
COMPARE = Task(
    name="comparison of ten cells",
    imports=f"{_DIRECTORY}{_COMPARE}",
    code="compare_runs([RunDirectory.open(path)])",
    seconds_max=0.1,
    times=5,
)


def main() -> int:
    """Make the files, measure, judge."""
    arguments = _arguments()
    with tempfile.TemporaryDirectory(prefix="volbench-reading-") as temporary:
        path = Path(temporary)
        run = build_run(path / "ten", two_volumes()).path
        long_run = make_run(path / "long", hours=arguments.long_rows / 200 / 3600, metrics=200, cells=1).path
        short, long = min(run.glob("cells/*/series.parquet")), next(long_run.glob("cells/*/series.parquet"))
        paths = {SHORT: short, LONG: long, REPORT: run, COMPARE: run}
        return max([_judged(task, read, arguments.rounds) for task, read in paths.items()])


def _judged(task: Task, path: Path, rounds: int) -> int:
    """Measure one task several times, print it, and return 1 for a limit that is missed."""
    figures = [_measured(task, path) for _ in range(rounds)]
    seconds, mib = median(cpu_s for cpu_s, _ in figures), max(peak for _, peak in figures)
    print(
        f"{task.name}: {seconds * 1000:.1f} ms CPU (at most {task.seconds_max * 1000:g}); "
        f"peak {mib:.0f} MiB (at most {task.mib_max:g})"
    )
    return int(seconds > task.seconds_max or mib > task.mib_max)


def _measured(task: Task, path: Path) -> tuple[float, float]:
    """CPU seconds and peak MiB of the task in a process of its own."""
    code = _MEASURED.format(imports=task.imports, task=task.code, times=task.times)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "runner"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        capture_output=True,
        text=True,
        check=True,
        timeout=900,
        env=environment,
        cwd=ROOT,
    )
    figures: Any = json.loads(done.stdout.splitlines()[-1])
    return figures[0], figures[1]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--long-rows", type=int, default=1_728_000)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
