"""Run the modulated loads for each seed, once, and write the table of slopes and counts, failures included.

    PYTHONPATH=tests/lab .venv/bin/python -m response --out DIRECTORY --seeds 11 12 13 --target local

A seed whose run is complete in DIRECTORY is not run again, so an interrupted call continues where it was.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import volbench
from volbench.core.records.report import Report, ResponseRow
from volbench.errors import VolbenchError

ROOT = Path(__file__).resolve().parents[3]
SUITE = ROOT / "suites/response.yaml"
PROFILE = ROOT / "tests/lab/explain/lab-block.yaml"
RUN_S_MAX = 1200


def arguments() -> argparse.Namespace:
    """Return the command line's arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="directory of the runs")
    parser.add_argument("--seeds", type=int, nargs="+", default=[11, 12, 13])
    parser.add_argument("--target", default="local", help="local or docker")
    parser.add_argument("--table", type=Path, help="Markdown file to write; default: DIRECTORY/response.md")
    parser.add_argument("--score-only", action="store_true", help="run nothing, write the table of what is there")
    return parser.parse_args()


def main() -> int:
    """Run what is missing, then score everything."""
    expected = arguments()
    for seed in [] if expected.score_only else expected.seeds:
        if not any(report.complete for report in reports(expected.out / f"seed-{seed}")):
            run(expected.out / f"seed-{seed}", seed, expected.target)
    lines = list(table(expected.out))
    (expected.table or expected.out / "response.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    return 0


def run(out: Path, seed: int, target: str) -> None:
    """Run the suite with one seed. A run that fails stays in the table as a failure."""
    command = [sys.executable, "-m", "volbench", "run", str(SUITE), "--set", f"seed={seed}", "--target", target]
    command += ["--volume", f"v=emulated:{PROFILE}", "--out", str(out), "--yes"]
    subprocess.run(command, check=False, timeout=RUN_S_MAX)


def reports(directory: Path) -> Iterator[Report]:
    """Yield the reports of all runs in a directory, made by today's code."""
    for path in sorted(directory.glob("*/run.json")):
        try:
            yield volbench.open(path.parent).report
        except VolbenchError as error:
            print(f"{path.parent}: {error}", file=sys.stderr)


def table(out: Path) -> Iterator[str]:
    """Yield a row for each seed, load and wait; then how many slopes hold their count."""
    yield (
        "| seed | server | load | each ms of | costs, ms | counted | method | holds | width |"
        " without waits for CPUs | holds |"
    )
    yield "|--:|---|---|---|---|---|---|---|--:|---|---|"
    scored: list[tuple[str, bool, float]] = []
    without: list[tuple[str, bool, float]] = []
    for directory in sorted(out.glob("seed-*")):
        for report in reports(directory):
            server = f"{report.server.flavor} {report.server.version}" if report.server else "unknown"
            for row in report.responses:
                if row.statistic == "mean" and not row.query and row.counted is not None and row.ci is not None:
                    scored.append(score(row))
                    if row.less_cpu_wait is not None:
                        without.append(score(less_cpu_wait(row)))
                    yield line(directory.name.removeprefix("seed-"), server, row)
            for missing in report.undetermined_responses:
                seed = directory.name.removeprefix("seed-")
                yield f"| {seed} | {server} | {missing.step} | | | | | {missing.reason} | | | |"
    yield ""
    yield from summary(scored)
    if without:
        yield "Without waits for CPUs:"
        yield from summary(without)


def score(row: ResponseRow) -> tuple[str, bool, float]:
    """Return the wait, whether its interval meets the count, and the interval's width relative to the slope."""
    ci, counted = row.ci, row.counted
    if ci is None or counted is None:
        raise ValueError("a slope without an interval or a count has no score")
    return row.term, ci[0] <= counted[1] and counted[0] <= ci[1], (ci[1] - ci[0]) / max(abs(row.slope), 1e-9)


def less_cpu_wait(row: ResponseRow) -> ResponseRow:
    """Return the row with the slope of the latency less the wait for CPUs, which it must have."""
    return row.model_copy(update={"slope": row.less_cpu_wait, "ci": row.less_cpu_wait_ci})


def line(seed: str, server: str, row: ResponseRow) -> str:
    """Return one slope as a row of the table."""
    _, holds, width = score(row)
    low, high = row.counted or (0.0, 0.0)
    counted = f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
    is_below = row.ci is not None and row.ci[1] < low
    verdict = "yes" if holds else f"**no**: {'below' if is_below else 'above'}"
    cells = [seed, server, row.step, row.term, slope(row), counted, row.method, verdict, f"{width:.0%}"]
    if row.less_cpu_wait is None:
        cells += ["", ""]
    else:
        less = less_cpu_wait(row)
        cells += [slope(less), "yes" if score(less)[1] else "**no**"]
    return f"| {' | '.join(cells)} |"


def slope(row: ResponseRow) -> str:
    """Return a slope with its interval."""
    return f"{row.slope:.3g}" + ("" if row.ci is None else f" [{row.ci[0]:.3g}, {row.ci[1]:.3g}]")


def summary(scored: Sequence[tuple[str, bool, float]]) -> Iterator[str]:
    """Yield for each wait how many slopes hold their count, and the middle width."""
    for term in dict.fromkeys(name for name, _, _ in scored):
        of_term = [(holds, width) for name, holds, width in scored if name == term]
        middle = sorted(width for _, width in of_term)[len(of_term) // 2]
        narrow = sum(width <= 0.2 for _, width in of_term)
        yield (
            f"`{term}`: {sum(holds for holds, _ in of_term)} of {len(of_term)} slopes hold their count;"
            f" width {middle:.0%} at the median, at most 20 % in {narrow}."
        )


if __name__ == "__main__":
    sys.exit(main())
