"""Reading of results: a short and a long series file, a report and a comparison of ten cells, against before.

    python tests/benchmarks/reading.py [--against COMMIT] [--rounds 5] [--long-rows 1728000]

Each task runs in processes of this tree and, in turn, of the older one, on the same series; each tree makes its own
run of the same ten cells, since the older one refuses keys that came later. Figures are the median
CPU time of what the task does, without imports, and the peak memory of the process. Ends with 1 when a limit is
missed: of the ratio, which holds on a busy machine too, or, without an older commit, of the seconds.

On two busy cores (load 10 to 18), three rounds: a short series 2.2 ms (15.8 times as fast as before), 1.73 million
rows 193 ms (6.0) with a peak of 207 MiB, a report of ten cells 675 ms (5.3), a comparison 17.7 ms (30.2).
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

BEFORE = "a5f0051"
"""The last commit that read runs again and again, and series with DuckDB."""
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
lines = Path("/proc/self/status").read_text().splitlines()  # an older tree has no process_usage
print(json.dumps([cpu_s, next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024]))
"""
_SERIES = "from volbench.results.store.series import read_series"
_COMPARE = "from volbench.results.report.cross_run import compare_runs"
_DIRECTORY = "from volbench.results.store.run_directory import RunDirectory\n"


@dataclass(frozen=True, kw_only=True)
class Task:
    """What is measured, and what it may cost: CPU seconds, and how many times faster than the older commit."""

    name: str
    imports: str
    code: str
    seconds_max: float
    ratio_min: float
    times: int = 1
    mib_max: float = 1024.0


SHORT = Task(
    name="series file of a short cell",
    imports=_SERIES,
    code="read_series(path)",
    times=20,
    seconds_max=0.004,
    ratio_min=4.0,
)
LONG = Task(
    name="series of 1.73 million rows",
    imports=_SERIES,
    code="read_series(path)",
    seconds_max=0.6,
    ratio_min=4.0,
    mib_max=260.0,
)
REPORT = Task(
    name="report of ten cells",
    imports=f"{_DIRECTORY}from volbench.results.report.render import write_reports",
    code="write_reports(RunDirectory.open(path))",
    seconds_max=1.0,
    ratio_min=3.0,
    times=2,
)
COMPARE = Task(
    name="comparison of ten cells",
    imports=f"{_DIRECTORY}{_COMPARE}",
    code="compare_runs([RunDirectory.open(path)])",
    seconds_max=0.1,
    ratio_min=3.0,
    times=5,
)


def main() -> int:
    """Make the files, measure, judge."""
    arguments = _arguments()
    with tempfile.TemporaryDirectory(prefix="volbench-reading-") as temporary:
        path = Path(temporary)
        before = _older_tree(arguments.against, path / "before")
        run = _ten_cells(ROOT, path / "ten")
        older_run = None if before is None else _ten_cells(before, path / "ten-before")
        long_run = make_run(path / "long", hours=arguments.long_rows / 200 / 3600, metrics=200, cells=1).path
        short, long = min(run.glob("cells/*/series.parquet")), next(long_run.glob("cells/*/series.parquet"))
        paths = {SHORT: (short, short), LONG: (long, long), REPORT: (run, older_run), COMPARE: (run, older_run)}
        return max([_judged(task, *both, before, arguments.rounds) for task, both in paths.items()])


def _ten_cells(tree: Path, directory: Path) -> Path:
    """The path of a run of ten cells that a tree's own code made."""
    code = (
        "import sys; from pathlib import Path; from synthetic_run import build_run, two_volumes; "
        "print(build_run(Path(sys.argv[1]), two_volumes()).path)"
    )
    path = os.pathsep.join((str(tree / "runner"), str(tree / "tests" / "support")))
    done = subprocess.run(
        [sys.executable, "-c", code, str(directory)],
        capture_output=True,
        text=True,
        check=True,
        timeout=900,
        env={**os.environ, "PYTHONPATH": path},
        cwd=tree,
    )
    return Path(done.stdout.splitlines()[-1])


def _judged(task: Task, path: Path, older_path: Path | None, before: Path | None, rounds: int) -> int:
    """Measure one task in turn, print it, and return 1 for a limit that is missed."""
    now_s, older_s, mib = [], [], 0.0
    for _ in range(rounds):
        seconds, peak = _measured(task, path, ROOT)
        now_s.append(seconds)
        mib = max(mib, peak)
        if before is not None and older_path is not None:
            older_s.append(_measured(task, older_path, before)[0])
    seconds = median(now_s)
    ratio = median(older / now for older, now in zip(older_s, now_s, strict=True)) if older_s else None
    neighbour = (
        "no older commit" if ratio is None else f"{ratio:.1f} times as fast as before (at least {task.ratio_min:g})"
    )
    print(
        f"{task.name}: {seconds * 1000:.1f} ms CPU (at most {task.seconds_max * 1000:g}), {neighbour}; "
        f"peak {mib:.0f} MiB (at most {task.mib_max:g})"
    )
    is_slow = seconds > task.seconds_max if ratio is None else ratio < task.ratio_min
    return int(is_slow or mib > task.mib_max)


def _measured(task: Task, path: Path, tree: Path) -> tuple[float, float]:
    """CPU seconds and peak MiB of the task in a process of that tree."""
    code = _MEASURED.format(imports=task.imports, task=task.code, times=task.times)
    environment = {**os.environ, "PYTHONPATH": str(tree / "runner"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        capture_output=True,
        text=True,
        check=True,
        timeout=900,
        env=environment,
        cwd=tree,
    )
    figures: Any = json.loads(done.stdout.splitlines()[-1])
    return figures[0], figures[1]


def _older_tree(commit: str, directory: Path) -> Path | None:
    """The package as it was at a commit; None where this clone does not have it."""
    archive = subprocess.run(
        ["git", "archive", commit, "runner/volbench", "suites", "tests/support"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if archive.returncode != 0:
        print(f"commit {commit} is not in this clone: no ratios")
        return None
    subprocess.run(["tar", "-x", "-C", directory], input=archive.stdout, check=True)
    return directory


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", default=BEFORE, help="an older commit")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--long-rows", type=int, default=1_728_000)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
