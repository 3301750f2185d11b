"""How far off the predicted time of a move is: dumps and restores of little data, against those of more.

    python tests/benchmarks/move_time.py --out DIR [--target docker] [--volume SPEC] [--times 8] [--set ...]

Two runs of suites/backup-restore.yaml on one emulated volume; the second has so many times the rows. From the first
the second is predicted, tool by tool. Ends with 1 when a measured time is outside of the interval by more than 25 %
of the prediction, with 3 when a run failed. `--again` takes the runs that DIR holds.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from volbench.records.validation import MoveEstimate, MovePlan
from volbench.store.run_directory import RunDirectory
from volbench.validation.forecast.move import RunCells, estimates, pairs_of

SUITE = Path("suites/backup-restore.yaml")
RUN_TIMEOUT_S = 900
ERROR_MAX = 0.25
VOLUME = "v"


def run(out: Path, given: argparse.Namespace, *, rows: int, repeats: int) -> None:
    """One run with so many rows in each table."""
    command = [
        *(
            sys.executable,
            "-m",
            "volbench",
            "run",
            str(SUITE),
            "--target",
            given.target,
            "--yes",
            "--out",
            str(out),
        ),
        *("--volume", f"{VOLUME}={given.volume}", "--set", f"dataset.rows={rows}", "--set", f"repeats={repeats}"),
        *(part for setting in given.set for part in ("--set", setting)),
    ]
    subprocess.run(command, check=True, timeout=RUN_TIMEOUT_S)


def measured(out: Path) -> RunCells:
    """What the run below `out` has."""
    [path] = [path for path in out.iterdir() if (path / "run.json").exists()]
    directory = RunDirectory.open(path)
    volumes = {cell.cell_id: cell.volume for cell in directory.run.cells}
    return RunCells(run_id=path.name, results=tuple(directory.results()), volume_of=volumes)


def compared(small: RunCells, big: RunCells) -> Iterator[tuple[MoveEstimate, list[float]]]:
    """Each pair of tools: the prediction for the big run's data, and the seconds that its cells took."""
    for (_, tools), pairs in pairs_of(big).items():
        data = round(median(one.data_bytes for one in pairs))
        found = estimates([small], {VOLUME}, data, None, MovePlan())
        for one in found:
            if one.tools == tools:
                yield one, [pair.dump_s + pair.restore_s for pair in pairs]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--target", default="docker")
    parser.add_argument("--volume", default="emulated:ebs-gp3?size=20GiB")
    parser.add_argument("--rows", type=int, default=12_500)
    parser.add_argument("--times", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--again", action="store_true")
    given = parser.parse_args()
    try:
        if not given.again:
            run(given.out / "small", given, rows=given.rows, repeats=given.repeats)
            run(given.out / "big", given, rows=given.rows * given.times, repeats=2)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        print(f"a run failed: {error}", file=sys.stderr)
        return 3
    worst = 0.0
    print(
        "| tools | measured on MiB | predicted for MiB | predicted s | interval | took s | off by |\n"
        + "|---" * 7
        + "|"
    )
    for one, took in compared(measured(given.out / "small"), measured(given.out / "big")):
        low, high = one.total_s_low or one.total_s, one.total_s_high or one.total_s
        off = median(took) / one.total_s - 1
        beyond = max(0.0, low - median(took), median(took) - high) / one.total_s
        worst = max(worst, beyond)
        print(
            f"| {one.tools} | {one.measured_bytes >> 20} | {one.source_bytes >> 20} | {one.total_s:.1f} "
            f"| {low:.1f} to {high:.1f} | {', '.join(f'{seconds:.1f}' for seconds in took)} | {off:+.0%} |"
        )
    return int(worst > ERROR_MAX)


if __name__ == "__main__":
    sys.exit(main())
