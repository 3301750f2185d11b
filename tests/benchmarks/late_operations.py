"""Whether figures are wrong where volbench says that late operations of an emulated volume changed them.

    python tests/benchmarks/late_operations.py [--dir /var/tmp] [--seconds 6] [--turns 3]

Needs root, FUSE, loop devices and the daemon. One client reads an emulated gp3 at random, while 0 to 8 busy loops
run; transactions are 1 or 20 of its reads in sequence. The truth is the distribution of the profile, from which
the model draws: no queue, since 3,000 IOPS are more than one client asks for. A row is one turn.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from emulated_volumes import read_at_random, volume, write_durably

from volbench.core.records.cell import ValidityLimits
from volbench.core.records.latency_bins import LatencyBins
from volbench.measure.sample.rows import LATENESS_EDGE_DEDUCT, LATENESS_EDGE_MULT
from volbench.results.compare.validity.lateness import LateOperations, changes_by_lateness

Floats = NDArray[np.float64]
LOOPS = ((0, 0), (1, 19), (2, 19), (4, 19), (1, 0), (2, 0), (4, 0), (8, 0))
"""How many busy loops, and their niceness."""
READS = (1, 20)
OLD_LIMIT = 0.01
CLIENT_EDGE_MULT = 1024 / math.log(1e8)
HIGHEST_PRIORITY = -20  # how long the reader waits for a processor is no lateness


def main() -> None:
    """Print a row of the table for each turn, number of loops and length of transactions."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", type=Path, default=Path("/var/tmp"))
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    os.setpriority(os.PRIO_PROCESS, 0, HIGHEST_PRIORITY)
    print("| loops (nice) | load | reads | wrong by: mean, p50, p95 | volbench: the same | late | old | new |")
    print("|---|--:|--:|---|---|--:|---|---|")
    with tempfile.TemporaryDirectory(dir=options.dir) as directory, volume(Path(directory), "ebs-gp3") as subject:
        path = subject.data / "file"
        write_durably(path, b"x" * (64 << 20))
        for _ in range(options.turns):
            for loops, niceness in LOOPS:
                with busy(loops, niceness):
                    before = subject.counters()
                    took_us = 1e6 * np.asarray(read_at_random(path, seconds=options.seconds))
                    after = subject.counters()
                for reads in READS:
                    model = subject.resolved.model["latency"]["read"]["parts"][0]
                    print(row(f"{loops} ({niceness})", took_us, before, after, model, reads), flush=True)


@contextmanager
def busy(loops: int, niceness: int) -> Iterator[None]:
    """Run busy loops during the block; they end with it."""
    workers = [multiprocessing.Process(target=_spin, args=(niceness,), daemon=True) for _ in range(loops)]
    for worker in workers:
        worker.start()
    try:
        yield
    finally:
        for worker in workers:
            worker.terminate()
            worker.join()


def _spin(niceness: int) -> None:
    os.setpriority(os.PRIO_PROCESS, 0, niceness)
    while True:
        pass


def row(
    loops: str,
    took_us: Floats,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    model: Mapping[str, float],
    reads: int,
) -> str:
    """Return a row of the table."""
    latencies = took_us[: len(took_us) // reads * reads].reshape(-1, reads).sum(axis=1)
    random = np.random.default_rng(1)
    draws = model["median_us"] * np.exp(model["sigma"] * random.standard_normal((50_000, reads)))
    wrong = [1 - a / b for a, b in zip(figures(draws.sum(axis=1)), figures(latencies), strict=True)]
    kind = late_reads(before, after)
    changes = changes_by_lateness({"read": kind}, client_bins(latencies), window_s=float(took_us.sum()) / 1e6)
    late, judged = (after["fidelity"][key] - before["fidelity"][key] for key in ("late", "operations"))
    valid = [late / judged <= OLD_LIMIT, max(changes.values()) <= ValidityLimits().emulator_late]
    cells = [
        loops,
        f"{os.getloadavg()[0]:.0f}",
        str(reads),
        ", ".join(f"{100 * value:.1f} %" for value in wrong),
        ", ".join(f"{100 * value:.1f} %" for value in changes.values()),
        f"{100 * late / judged:.1f} %",
        *("valid" if each else "invalid" for each in valid),
    ]
    return f"| {' | '.join(cells)} |"


def figures(latencies_us: Floats) -> list[float]:
    """Return mean, p50 and p95."""
    return [float(latencies_us.mean()), *np.quantile(latencies_us, [0.5, 0.95]).tolist()]


def late_reads(before: Mapping[str, Any], after: Mapping[str, Any]) -> LateOperations:
    """Return what the daemon counted of reads between two answers."""
    earlier, later = (answer["operations"]["read"] for answer in (before, after))
    counts = {each["lower_us"]: each["count"] for each in later["lateness"]}
    for each in earlier["lateness"]:
        counts[each["lower_us"]] -= each["count"]
    bins = {round(4 * math.log2(edge)): count for edge, count in counts.items() if edge > 0}
    return LateOperations(
        count=later["count"] - earlier["count"],
        time_s=(later["time_us"] - earlier["time_us"]) / 1e6,
        lateness=LatencyBins(
            edge_mult=LATENESS_EDGE_MULT,
            edge_deduct=LATENESS_EDGE_DEDUCT,
            counts={number: count for number, count in bins.items() if count},
            below=counts.get(0.0, 0),
        ),
    )


def client_bins(latencies_us: Floats) -> LatencyBins:
    """Return latencies in bins as wide as those of sysbench."""
    numbers, counts = np.unique(np.floor(np.log(latencies_us) * CLIENT_EDGE_MULT).astype(int), return_counts=True)
    return LatencyBins(
        edge_mult=CLIENT_EDGE_MULT,
        edge_deduct=math.log(1e-3),
        counts=dict(zip(numbers.tolist(), counts.tolist(), strict=True)),
    )


if __name__ == "__main__":
    main()
