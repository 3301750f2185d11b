"""How long the suite `compare` takes on two volumes, and how much of that is measured.

    python tests/benchmarks/compare_time.py [--target docker] [--a DIR] [--b DIR] [--out DIR]

Ends with 1 above 12 minutes or below 0.6 measured seconds a second, 3 when the run failed. The run stays in --out.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

WALL_S_MAX = 12 * 60
MEASURED_SHARE_MIN = 0.6


def main() -> int:
    """Run it, print the figures, judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="docker")
    parser.add_argument("--a", type=Path, default=Path("/var/tmp/volbench-compare-a"))
    parser.add_argument("--b", type=Path, default=Path("/dev/shm/volbench-compare-b"))
    parser.add_argument("--out", type=Path, default=Path("results"))
    wanted = parser.parse_args()
    for directory in (wanted.a, wanted.b):
        directory.mkdir(parents=True, exist_ok=True)
    command = [
        *(sys.executable, "-m", "volbench", "run", "suites/compare.yaml", "--target", wanted.target),
        *("--volume", f"a=path:{wanted.a}", "--volume", f"b=path:{wanted.b}"),
        *("--out", str(wanted.out), "--yes", "--json"),
    ]
    started_s = time.monotonic()
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=3 * WALL_S_MAX, check=False)
    wall_s = time.monotonic() - started_s
    if done.returncode not in (0, 6):  # 6: no verdict
        return 3
    report = json.loads(done.stdout)
    share = report["timing"]["measured_share"]
    print(report["summary"]["sentence"])
    print(f"{report['run_id']}: {wall_s:.0f} s in all (at most {WALL_S_MAX}), {share:.2f} measured (at least 0.6)")
    return 0 if wall_s <= WALL_S_MAX and share >= MEASURED_SHARE_MIN else 1


if __name__ == "__main__":
    sys.exit(main())
