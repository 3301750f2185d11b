"""What sampling does to the measured transactions, within one cell; or what CPU times of statements do to them.

    python tests/benchmarks/sampling_effect.py [--of sampling|statement-cpu] [--pairs 24] [--target docker]
        [--directory DIR]

`sampling`: one long cell of the suite `aa`, in which the sampling process is stopped (SIGSTOP) in one of each two
blocks of 4 s, in drawn order; the server's thread for it then idles too. Transactions of the blocks of a pair are
compared. `statement-cpu` needs a server started anew: each pair is a cell with and a cell without, in alternating
order, a quarter as many pairs. Ends with 1 when the loss is above 1 % beyond chance or, of sampling, may be above
5 %; with 3 when a cell failed.

Cells of one volume differ by 3 to 6 %: seven pairs of cells bound the effect of sampling only by -5 to +3 %, 24
pairs of blocks by 2 % to both sides.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from volbench.results.stats.statistics import shift_of
from volbench.results.store.run_directory import SERIES_FILE
from volbench.results.store.series import Series, read_series

CELL_TIMEOUT_S = 300
BLOCK_S = 4.0
SETTLED_S = 1.5
"""Of a block, until whole seconds of sysbench's reports are of it alone."""
WARMED_S = 6.0
"""The suite's warm-up, and sysbench's start."""
LOSS_MAX, LOSS_POSSIBLE_MAX = 0.01, 0.05
SAMPLER = "volbench.measure.sample.process"
WITHOUT_STATEMENT_CPU = "engine.config.performance_schema_consumer_events_statements_cpu=false"


def command(directory: Path, results: Path, target: str, *settings: str) -> list[str]:
    return [
        *(sys.executable, "-m", "volbench", "run", "suites/aa.yaml", "--target", target, "--yes", "--json"),
        *("--volume", f"v=path:{directory}", "--out", str(results)),
        *(argument for setting in ("repeats=1", *settings) for argument in ("--set", setting)),
    ]


def measured_tps(directory: Path, results: Path, target: str, *settings: str) -> float:
    """Transactions per second of one cell."""
    argv = command(directory, results, target, *settings)
    done = subprocess.run(argv, capture_output=True, text=True, timeout=CELL_TIMEOUT_S, check=True)
    (cell,) = json.loads(done.stdout)["cells"]
    return float(cell["metrics"]["tps"]["value"])


def pairs_of_cells(directory: Path, results: Path, target: str, pairs: int) -> tuple[list[float], list[float]]:
    """Transactions a second without and with the CPU times of statements."""
    values: dict[bool, list[float]] = {True: [], False: []}
    for pair in range(pairs):
        for remaining in (True, False) if pair % 2 else (False, True):
            tps = measured_tps(directory, results, target, *([] if remaining else [WITHOUT_STATEMENT_CPU]))
            values[remaining].append(tps)
            print(f"pair {pair + 1}: statement-cpu {'on' if remaining else 'off'} {tps:.1f} tps", flush=True)
    return values[False], values[True]


def pairs_of_blocks(directory: Path, results: Path, target: str, pairs: int) -> tuple[list[float], list[float]]:
    """Transactions a second in blocks without and with sampling."""
    seconds = 2 * pairs * BLOCK_S + 20
    before = {*samplers(), *loads()}
    argv = command(directory, results, target, f"steps.read-write.duration={seconds:.0f}s")
    run = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        pids = started(samplers, before, run)
        started(loads, before, run)
        time.sleep(WARMED_S)
        blocks = alternated(pids, pairs)
        _, errors = run.communicate(timeout=CELL_TIMEOUT_S)
    finally:
        if run.poll() is None:
            run.terminate()
            run.wait()
    if run.returncode not in (0, 6):
        raise subprocess.CalledProcessError(run.returncode, argv, stderr=errors)
    (file,) = results.glob(f"*/cells/01-v/{SERIES_FILE}")
    config = json.loads((file.parent / "raw/samples.config.json").read_text())
    (tps,) = read_series(file, sources={"client"}, metrics={"tps"}).values()
    zero_s = config["zero_monotonic_ns"] / 1e9
    means = {sampled: [mean_of(tps, zero_s, *block) for block in of] for sampled, of in blocks.items()}
    return means[False], means[True]


def mean_of(tps: Series, zero_s: float, begin_s: float, end_s: float) -> float:
    """Mean of the reports between two moments of CLOCK_MONOTONIC."""
    inside = (tps.t_s + zero_s > begin_s + SETTLED_S) & (tps.t_s + zero_s <= end_s)
    return float(np.mean(tps.value[inside]))


def alternated(pids: Sequence[int], pairs: int) -> dict[bool, list[tuple[float, float]]]:
    """Begins and ends of the blocks with sampling (True) and without, pair by pair."""
    order = random.Random(1)
    blocks: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    try:
        for _ in range(pairs):
            for sampled in order.sample([True, False], 2):
                send(pids, signal.SIGCONT if sampled else signal.SIGSTOP)
                begin_s = time.monotonic()
                time.sleep(BLOCK_S)
                blocks[sampled].append((begin_s, time.monotonic()))
    finally:
        send(pids, signal.SIGCONT)
    return blocks


def send(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        os.kill(pid, number)


def samplers() -> Iterator[int]:
    """Processes that sample, also those in containers."""
    return (pid for pid, arguments in processes() if SAMPLER in arguments)


def loads() -> Iterator[int]:
    """Processes of sysbench that run a load."""
    return (
        pid for pid, arguments in processes() if Path(arguments[0]).name == "sysbench" and arguments[-1] == "run"
    )


def processes() -> Iterator[tuple[int, list[str]]]:
    """Processes of the machine and their command lines."""
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            arguments = file.read_bytes().decode(errors="replace").rstrip("\0").split("\0")
        except OSError:
            continue
        yield int(file.parent.name), arguments


def started(kind: Callable[[], Iterator[int]], before: set[int], run: subprocess.Popen[str]) -> list[int]:
    """Processes of a kind that were not there before, as soon as there is one."""
    until_s = time.monotonic() + CELL_TIMEOUT_S
    while time.monotonic() < until_s and run.poll() is None:
        if pids := sorted(set(kind()) - before):
            return pids
        time.sleep(0.1)
    if run.poll() is not None and run.stderr is not None:
        raise subprocess.CalledProcessError(run.returncode, run.args, stderr=run.stderr.read())
    raise TimeoutError(f"none of the {kind.__name__} began")


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--of", choices=("sampling", "statement-cpu"), default="sampling")
    parser.add_argument("--pairs", type=int, default=24)
    parser.add_argument("--target", default="docker")
    parser.add_argument("--directory", type=Path, default=Path("/var/tmp"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as results, tempfile.TemporaryDirectory(dir=options.directory) as volume:
        locations = Path(volume), Path(results), options.target
        try:
            if options.of == "sampling":
                ratio, low, high = interval(*pairs_of_blocks(*locations, options.pairs))
            else:
                shift = shift_of(*pairs_of_cells(*locations, max(4, options.pairs // 4)))
                ratio, low, high = shift.ratio, shift.low or 0.0, shift.high or math.inf
        except subprocess.CalledProcessError as error:
            print(error.stderr, file=sys.stderr)
            return 3
    print(
        f"tps with {options.of} against without: {ratio - 1:+.1%}, 95 % interval {low - 1:+.1%} .. {high - 1:+.1%} "
        f"(a loss of at most {LOSS_MAX:.0%} beyond chance, {LOSS_POSSIBLE_MAX:.0%} at its bound)"
    )
    bounded = low >= 1 - LOSS_POSSIBLE_MAX or options.of != "sampling"
    return 0 if high >= 1 - LOSS_MAX and bounded else 1


def interval(off: Sequence[float], on: Sequence[float]) -> tuple[float, float, float]:
    """The geometric mean of the pairs' ratios, and the ends of its bootstrap interval."""
    logs = np.log(np.array(on) / np.array(off))
    drawn = np.random.default_rng(1).choice(logs, (4000, len(logs))).mean(axis=1)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return math.exp(logs.mean()), math.exp(low), math.exp(high)


if __name__ == "__main__":
    sys.exit(main())
