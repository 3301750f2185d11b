"""What sampling does to the measured transactions: cells with every source against cells with none, in turn.

    python tests/benchmarks/sampling_effect.py [--of sampling|statement-cpu] [--pairs 6] [--target docker]
        [--directory DIR]

`statement-cpu` leaves sampling on and switches only the server's CPU times of statements (MySQL).
Each pair is one cell with and one without sampling, in alternating order, on the same volume with the suite `aa`.
Ends with 1 when the interval of the ratio with/without does not hold 1, or with 3 when a cell failed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from volbench.analysis.statistics import shift_of

CELL_TIMEOUT_S = 300


OFF = {
    "sampling": "sampling.sources=[]",
    "statement-cpu": "engine.config.performance_schema_consumer_events_statements_cpu=false",
}


def measured_tps(directory: Path, results: Path, *, target: str, sampled: bool, of: str) -> float:
    """Transactions per second of one cell, with or without what the effect is looked for of."""
    settings = ["repeats=1", *([] if sampled else [OFF[of]])]
    command = [
        *(sys.executable, "-m", "volbench", "run", "suites/aa.yaml", "--target", target, "--yes", "--json"),
        *("--volume", f"v=path:{directory}", "--out", str(results)),
        *(word for setting in settings for word in ("--set", setting)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=CELL_TIMEOUT_S, check=True)
    (cell,) = json.loads(done.stdout)["cells"]
    return float(cell["metrics"]["tps"]["value"])


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--of", choices=OFF, default="sampling")
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--target", default="docker")
    parser.add_argument("--directory", type=Path, default=Path("/var/tmp"))
    wanted = parser.parse_args()
    values: dict[bool, list[float]] = {True: [], False: []}
    with tempfile.TemporaryDirectory() as results, tempfile.TemporaryDirectory(dir=wanted.directory) as volume:
        for pair in range(wanted.pairs):
            for sampled in (True, False) if pair % 2 else (False, True):
                try:
                    tps = measured_tps(
                        Path(volume), Path(results), target=wanted.target, sampled=sampled, of=wanted.of
                    )
                except subprocess.CalledProcessError as error:
                    print(error.stderr, file=sys.stderr)
                    return 3
                values[sampled].append(tps)
                print(f"pair {pair + 1}: {wanted.of} {'on' if sampled else 'off'} {tps:.1f} tps", flush=True)
    shift = shift_of(values[False], values[True])
    low, high = shift.low, shift.high
    shown = "no bound" if low is None or high is None else f"{low - 1:+.1%} .. {high - 1:+.1%}"
    print(
        f"tps with {wanted.of} against without: {shift.ratio - 1:+.1%}, 95 % interval {shown},"
        f" p {shift.p_value:.3g}"
    )
    return 0 if low is None or high is None or low <= 1 <= high else 1


if __name__ == "__main__":
    sys.exit(main())
