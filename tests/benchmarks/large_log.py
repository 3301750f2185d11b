"""A slow log of 5 GB to classes of queries: memory stays as it is for a quarter of it, and time grows as the log.

    python tests/benchmarks/large_log.py [--megabytes 5000]

The log has the six kinds of statements of tests/support/log_kinds.py in equal parts, 120 MB that are repeated to
the size; it needs that space below /var/tmp, and is removed at the end. Each size is read by one process. Ends with
1 above a limit: of the exponent of CPU time over size, and of memory.

On two busy cores: 5.04 GB took 160 s CPU and 122 MiB (load 11), 1.32 GB 39.8 s and 120 MiB (load 25).
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from log_kinds import KINDS, write_log
from process_usage import usage_of

MB = 1e6
PART_MB = 20.0
TIMES = 4
EXPONENT_MAX = 1.15
MIB_MAX = 256.0
GROWTH_MIB_MAX = 1.2
"""Peak memory of the whole log over that of a quarter."""
_READ = """
import sys
from pathlib import Path
from volbench.validation.queries.classes import classes_of_log
if __name__ == "__main__":
    assert classes_of_log(Path(sys.argv[1]), ["shop", "sbtest"], processes=1)
"""


def main() -> int:
    """Write, measure, judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=5_000.0)
    megabytes = parser.parse_args().megabytes
    with tempfile.TemporaryDirectory(prefix="volbench-large-log-", dir="/var/tmp") as temporary:
        directory = Path(temporary)
        log, script = directory / "slow.log", directory / "read.py"
        script.write_text(_READ)
        parts = [directory / f"part-{number}" for number in range(len(KINDS))]
        for kind, part in zip(KINDS, parts, strict=True):
            write_log(kind, part, PART_MB)
        figures = []
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "runner")}
        for size in (megabytes / TIMES, megabytes):
            written = _repeat(parts, log, size)
            used = usage_of((sys.executable, str(script), str(log)), environment)
            seconds, mib = used.cpu_s, used.mib
            figures.append((seconds, mib))
            print(
                f"{written / MB:,.0f} MB: {seconds:.1f} s CPU, {written / MB / seconds:.1f} MB for a second, "
                f"peak {mib:.0f} MiB; load {os.getloadavg()[0]:.0f}",
                flush=True,
            )
    (small_s, small_mib), (large_s, large_mib) = figures
    exponent = math.log(large_s / small_s) / math.log(TIMES)
    print(
        f"growth {exponent:.2f} (at most {EXPONENT_MAX:g}), memory {large_mib / small_mib:.2f} times "
        f"(at most {GROWTH_MIB_MAX:g}), {large_mib:.0f} MiB (at most {MIB_MAX:g})"
    )
    return int(exponent > EXPONENT_MAX or large_mib > MIB_MAX or large_mib / small_mib > GROWTH_MIB_MAX)


def _repeat(parts: list[Path], log: Path, megabytes: float) -> int:
    """Write the parts in turn until the log has the size; return its bytes."""
    with log.open("wb") as file:
        while file.tell() < megabytes * MB:
            for part in parts:
                with part.open("rb") as source:
                    shutil.copyfileobj(source, file, 1 << 20)
        return file.tell()


if __name__ == "__main__":
    sys.exit(main())
