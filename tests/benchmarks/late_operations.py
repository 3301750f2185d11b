"""Whether figures are wrong where volbench says that late operations of an emulated volume changed them.

    python tests/benchmarks/late_operations.py [--dir /var/tmp] [--seconds 6] [--turns 3] [--clients 1] [--slower 1]

Needs root, FUSE, loop devices and the daemon. Clients read an emulated gp3 at random, while busy loops run, or
while the daemon alone is stopped now and then for some milliseconds; transactions are 1 or 20 of a client's reads.
On a machine that is busy anyway, many clients of slower reads show smaller changes. The truth is the
distribution from which the model draws: no queue, as long as the clients ask for less than 3,000 IOPS.
A row is one turn.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
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
LOOPS = ((1, 19), (2, 19), (4, 19), (1, 0), (2, 0), (4, 0), (8, 0))
"""How many busy loops, and their niceness."""
STOPS_MS = ((500, 5), (100, 2), (1000, 30), (1000, 100), (100, 20))
"""After how long the daemon is stopped, and for how long."""
READS = (1, 20)
OLD_LIMIT = 0.01
CLIENT_EDGE_MULT = 1024 / math.log(1e8)
HIGHEST_PRIORITY = -20  # how long the reader waits for a processor is no lateness


def main() -> None:
    """Print a row of the table for each turn, disturbance and length of transactions."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", type=Path, default=Path("/var/tmp"))
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--slower", type=float, default=1.0)
    options = parser.parse_args()
    os.setpriority(os.PRIO_PROCESS, 0, HIGHEST_PRIORITY)
    print("| disturbance | load | reads | wrong by: mean, p50, p95 | volbench: the same | late | old | new |")
    print("|---|--:|--:|---|---|--:|---|---|")
    with tempfile.TemporaryDirectory(dir=options.dir) as directory, volume(Path(directory), "ebs-gp3") as subject:
        path = subject.data / "file"
        write_durably(path, b"x" * (64 << 20))
        if options.slower != 1:
            subject.fault("slow_down", factor=options.slower)
        model = subject.resolved.model["latency"]["read"]["parts"][0]
        truth = {"median_us": options.slower * model["median_us"], "sigma": model["sigma"]}
        for _ in range(options.turns):
            for name, workers in disturbances(int((subject.directory / "daemon.pid").read_text().split()[0])):
                with running(workers):
                    before = subject.counters()
                    took_us = read_in_parallel(path, seconds=options.seconds, clients=options.clients)
                    after = subject.counters()
                for reads in READS:
                    print(row(name, took_us, before, after, truth, reads), flush=True)


def read_in_parallel(path: Path, *, seconds: float, clients: int) -> list[Floats]:
    """Return what each client's reads took, us."""
    with ThreadPoolExecutor(clients) as readers:
        took_s = [readers.submit(read_at_random, path, seconds=seconds) for _ in range(clients)]
        return [1e6 * np.asarray(future.result()) for future in took_s]


def disturbances(daemon: int) -> Iterator[tuple[str, list[multiprocessing.Process]]]:
    """Yield each disturbance: what it is, and the processes that make it."""
    yield "nothing", []
    for every_ms, for_ms in STOPS_MS:
        stop = multiprocessing.Process(target=_stop, args=(daemon, every_ms, for_ms))
        yield f"daemon stopped for {for_ms} ms each {every_ms} ms", [stop]
    for loops, niceness in LOOPS:
        name = f"{loops} busy loop{'s' * (loops > 1)}, nice {niceness}"
        yield name, [multiprocessing.Process(target=_spin, args=(niceness,)) for _ in range(loops)]


@contextmanager
def running(workers: list[multiprocessing.Process]) -> Iterator[None]:
    """Run the processes during the block; they end with it."""
    for worker in workers:
        worker.start()
    try:
        yield
    finally:
        for worker in workers:
            worker.terminate()
            worker.join()


def _stop(daemon: int, every_ms: int, for_ms: int) -> None:
    """Stop a process now and then; it runs when this one has ended."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    try:
        while True:
            time.sleep(every_ms / 1e3)
            os.kill(daemon, signal.SIGSTOP)
            time.sleep(for_ms / 1e3)
            os.kill(daemon, signal.SIGCONT)
    finally:
        os.kill(daemon, signal.SIGCONT)


def _spin(niceness: int) -> None:
    os.setpriority(os.PRIO_PROCESS, 0, niceness)
    while True:
        pass


def row(
    name: str,
    took_us: list[Floats],
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    model: Mapping[str, float],
    reads: int,
) -> str:
    """Return a row of the table."""
    latencies = np.concatenate([own[: len(own) // reads * reads].reshape(-1, reads).sum(axis=1) for own in took_us])
    random = np.random.default_rng(1)
    draws = model["median_us"] * np.exp(model["sigma"] * random.standard_normal((50_000, reads)))
    wrong = [1 - a / b for a, b in zip(figures(draws.sum(axis=1)), figures(latencies), strict=True)]
    kind = late_reads(before, after)
    changes = changes_by_lateness(
        {"read": kind}, client_bins(latencies), window_s=max(own.sum() for own in took_us) / 1e6
    )
    late, judged = (after["fidelity"][key] - before["fidelity"][key] for key in ("late", "operations"))
    valid = [late / judged <= OLD_LIMIT, max(changes.values()) <= ValidityLimits().emulator_late]
    cells = [
        name,
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
