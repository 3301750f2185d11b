"""Sampling of a server with thousands of threads: CPU time of one reading of all tasks.

    python tests/benchmarks/sampling_threads.py [--threads 4000] [--rounds 20]

A process of this script has so many threads, all asleep. Each is read with its file opened, as before, and with
files that stay open, in turn; the best round of each counts. Ends with 1 above a share of the time before, which
holds on a busy machine too, or far above 1 % of a core at one reading a second.

Two cores, 4,000 threads: see docs/limits.md.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time

from volbench.machine.host.task_account import TaskAccount
from volbench.machine.host.task_files import descriptors_to_hold, raise_descriptor_limit

SHARE_MAX = 0.5
CPU_MS_MAX = 15.0
"""A half above 1 % of a core: other work on a machine adds to CPU times."""
_SLEEPERS = """
import sys, threading
threading.stack_size(65536)
wait = threading.Event().wait
for _ in range(int(sys.argv[1])):
    threading.Thread(target=wait, daemon=True).start()
print("ready", flush=True)
sys.stdin.read()
"""


def main() -> int:
    """Start the threads, read, judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=20)
    expected = parser.parse_args()
    raise_descriptor_limit()
    with subprocess.Popen(
        [sys.executable, "-c", _SLEEPERS, str(expected.threads)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as sleepers:
        assert sleepers.stdout is not None
        sleepers.stdout.readline()
        accounts = [TaskAccount([sleepers.pid], held_max=held_max) for held_max in (0, descriptors_to_hold())]
        best_ms = [min(_read_ms(account) for _ in range(expected.rounds)) for account in accounts]
        sleepers.kill()
    share = best_ms[1] / best_ms[0]
    print(
        f"{expected.threads:,} threads: {best_ms[1]:.1f} ms CPU a reading (at most {CPU_MS_MAX:g}), {share:.2f} of "
        f"{best_ms[0]:.1f} ms with each file opened (at most {SHARE_MAX:g}); load {os.getloadavg()[0]:.0f}"
    )
    return int(share > SHARE_MAX or best_ms[1] > CPU_MS_MAX)


def _read_ms(account: TaskAccount) -> float:
    begun_s = time.process_time()
    account.read(children={})
    return (time.process_time() - begun_s) * 1000


if __name__ == "__main__":
    sys.exit(main())
