"""How long the suite `compare` takes on two volumes that differ by 20 % and more, until it has a verdict.

    python tests/benchmarks/compare_time.py [--target docker] [--a DIR] [--b DIR] [--out DIR]

A fixed number of cells is not run: its time follows from that of this run's cells. Ends with 1 above 220 s, above
300 s for 5 against 5 cells, and without a verdict; with 3 when the run failed. The run stays in --out.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

WALL_S_MAX = 220.0
FIXED_S_MAX = 300.0
FIXED_CELLS = 10
TIMEOUT_S = 1200


def main() -> int:
    """Run it, print the figures, judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="docker")
    parser.add_argument("--a", type=Path, default=Path("/var/tmp/volbench-compare-a"))
    parser.add_argument("--b", type=Path, default=Path("/dev/shm/volbench-compare-b"))
    parser.add_argument("--out", type=Path, default=Path("results"))
    expected = parser.parse_args()
    for directory in (expected.a, expected.b):
        directory.mkdir(parents=True, exist_ok=True)
    command = [
        *(sys.executable, "-m", "volbench", "run", "suites/compare.yaml", "--target", expected.target),
        *("--volume", f"a=path:{expected.a}", "--volume", f"b=path:{expected.b}"),
        *("--out", str(expected.out), "--yes", "--json"),
    ]
    started_s = time.monotonic()
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT_S, check=False)
    wall_s = time.monotonic() - started_s
    if done.returncode not in (0, 6):  # 6: no verdict
        return 3
    report = json.loads(done.stdout)
    timing, cells = report["timing"], len({step["cell_id"] for step in report["cells"]})
    fixed_s = wall_s + (FIXED_CELLS - cells) * timing["wall_s"] / cells
    print(report["summary"]["sentence"])
    print(
        f"{report['run_id']}: {cells} cells in {wall_s:.0f} s (at most {WALL_S_MAX:.0f}), "
        f"{timing['measured_share']:.2f} of it measured; "
        f"{FIXED_CELLS} cells would take {fixed_s:.0f} s (at most {FIXED_S_MAX:.0f})"
    )
    return 0 if done.returncode == 0 and wall_s <= WALL_S_MAX and fixed_s <= FIXED_S_MAX else 1


if __name__ == "__main__":
    sys.exit(main())
