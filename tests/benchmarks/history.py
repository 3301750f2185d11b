"""The site of 1,000 runs: the first build, one without a change, one after a new run. Ends with 1 above a limit.

    python tests/benchmarks/history.py [RUNS]

The reports are the committed demo's with figures drawn anew (80 KB each), in ten suites on two volumes. Limits are
of CPU seconds of the process: wall time on a busy machine says nothing about the program.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / "support"), str(Path(__file__).parents[2] / "runner")]

from synthetic_history import slower_from, write_history

from volbench.results.site.build import build_site

RUNS = 1000
SUITES = 10
LIMITS_S = {"first build": 10.0, "nothing new": 1.5, "one new run": 2.0}


def main() -> int:
    """Build three times; 1 where a limit is missed."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    with tempfile.TemporaryDirectory(prefix="volbench-history-", dir="/var/tmp") as directory:
        results, site = Path(directory) / "results", Path(directory) / "site"
        for suite in range(SUITES):
            levels = {"gp3": slower_from(runs // SUITES * 9 // 10, 1.3)} if suite % 2 else {}
            write_history(results, runs // SUITES, suite=f"suite{suite}", seed=suite, levels=levels)
        failed = False
        for name, limit_s in LIMITS_S.items():
            if name == "one new run":
                write_history(results, 1, suite="suite0", seed=0, first=runs // SUITES)
            wall_s, cpu_s = time.perf_counter(), time.process_time()
            built = build_site(results, site)
            wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
            missed = cpu_s > limit_s
            failed |= missed
            print(
                f"{name}: {built.runs} runs, {built.read} read, {built.written} files written: {cpu_s:.2f} s CPU, "
                f"{wall_s:.2f} s wall; limit {limit_s:g} s CPU{': MISSED' if missed else ''}"
            )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
