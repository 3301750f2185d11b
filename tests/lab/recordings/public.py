"""Explain the iostat recordings of a public repository, each by itself and the sweeps that they are together.

Usage: RECORDINGS=DIR make lab-recordings-public, with DIR a copy of hgxl64/mariadb-benchmarks, which is no part of
this project.

Truth comes from what the explanation never uses: the transactions a second that sysbench's own log of each run sums
up. A run is at a plateau where no run with more threads does more than MORE times its transactions, none with fewer
threads so much more, and another one with twice or half the threads does about as many. A limit that is named below
or beyond the plateau is false. Logs do not tell what holds a plateau; so each sweep that is named is printed with
the use of its CPUs. Where a run has no log, the rates of its device decide instead.
"""

from __future__ import annotations

import os
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from volbench.errors import VolbenchError
from volbench.results.explain.recordings.directory import explain_recorded
from volbench.results.explain.recordings.sweep import explain_sweep
from volbench.results.recorded.files import read_files
from volbench.results.recorded.sweeps import sweeps_of
from volbench.results.recorded.timelines import Choice, sort_files

MORE = 1.1
"""How many times as much another run does, from which on it does more."""
PLATEAU_SERIES, PLATEAU_THREADS = "sysbench-runs/series36", 32
"""The runs on a Fusion-io card that the acceptance is about, and their threads."""
FALSE_MAX = 1 / 500
"""False accusations for each recording, at most."""
BLAMED = ("storage.", "instance.", "interference.")
_SUMMARY = re.compile(r"transactions: +\d+ +\(([\d.]+) per sec")
_NAME = re.compile(r"iostat\.(?P<load>.+?)\.(?P<threads>\d+)\.res$")


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What one recording came to: causes that blame storage, its device's operations a second, or an error."""

    path: str
    causes: tuple[str, ...] = ()
    rate: float | None = None
    error: str = ""


def outcome(path: str) -> Outcome:
    """Explain one recording."""
    try:
        result = explain_recorded(Path(path))
    except VolbenchError as error:
        return Outcome(path=path, error=str(error).splitlines()[0])
    first = result.timelines[0]
    rate = None if first.device is None else float(np.nanmedian(first.device.iops))
    return Outcome(path=path, causes=tuple(row.cause for row in result.findings), rate=rate)


def blames(item: Outcome) -> bool:
    """Whether it names storage."""
    return any(cause.startswith(BLAMED) for cause in item.causes)


def of_file(path: str) -> tuple[str, int] | None:
    """Return the sweep that a recording belongs to by its name, and its threads; None for any other name."""
    matched = _NAME.search(path)
    return None if matched is None else (f"{Path(path).parent}:{matched['load']}", int(matched["threads"]))


def transactions(path: str) -> float | None:
    """Return the transactions a second that sysbench's summary beside a recording states; None without one."""
    name = Path(path).name
    logs = (name.replace("iostat", "sysbench", 1), re.sub(r"iostat\.\w+\.", "sysbench.", name, count=1))
    for log in dict.fromkeys(logs):
        file = Path(path).with_name(log)
        found = _SUMMARY.findall(file.read_text(encoding="utf-8", errors="replace")) if file.is_file() else []
        if found:
            return float(found[-1])
    return None


def throughputs(outcomes: Sequence[Outcome]) -> Mapping[str, dict[int, float]]:
    """Return what the runs of each sweep did, by threads: transactions by logs, else the device's operations."""
    runs: dict[str, dict[int, tuple[float | None, float | None]]] = defaultdict(dict)
    for outcome in outcomes:
        key = of_file(outcome.path)
        if key is not None and not outcome.error:
            runs[key[0]][key[1]] = (transactions(outcome.path), outcome.rate)
    done: dict[str, dict[int, float]] = {}
    for name, of_sweep in runs.items():
        column = 0 if all(run[0] for run in of_sweep.values()) else 1
        done[name] = {threads: value for threads, run in of_sweep.items() if (value := run[column]) is not None}
    return done


def verdict(threads: int, runs: Mapping[int, float]) -> str:
    """Return `confirmed`, `false` or `open`: a limit that is named in the run with so many threads.

    Args:
        threads: of the run.
        runs: what each run of the sweep did, by threads.
    """
    own = runs.get(threads)
    if not own:
        return "open"
    if max(runs.values()) > MORE * own:
        return "false"
    apart = (value for count, value in runs.items() if count >= 2 * threads or 2 * count <= threads)
    return "confirmed" if any(value >= own / MORE for value in apart) else "open"


@dataclass(frozen=True, kw_only=True)
class SweepOutcome:
    """What the recordings of one directory came to together: paths at a limit that is named, and a line for it."""

    at_plateau: tuple[str, ...]
    line: str


def sweeps_in(directory: str) -> tuple[SweepOutcome, ...]:
    """Explain the sweeps of a directory."""
    files = sort_files(read_files([Path(directory)]), Choice())
    recordings = {name: one for timeline in files.timelines for name, one in timeline.recordings.items()}
    outcomes = []
    for sweep in sweeps_of(recordings):
        explained = explain_sweep(sweep)
        busy = max((level.cpu_busy or 0.0 for level in explained.levels), default=0.0)
        causes = ", ".join(f"{row.cause} {row.confidence:.2f}" for row in explained.findings) or "nothing"
        outcomes.append(
            SweepOutcome(
                at_plateau=tuple(f"{directory}/{name}" for name in sorted(explained.at_plateau)),
                line=f"{explained.title}, CPUs up to {100 * busy:.0f} % busy: {causes}",
            )
        )
    return tuple(outcomes)


def judged(paths: Sequence[str], runs: Mapping[str, Mapping[int, float]]) -> Iterator[tuple[str, str]]:
    """Yield each recording that is named as at a limit, and what the other runs of its sweep say."""
    for path in paths:
        key = of_file(path)
        yield path, "open" if key is None else verdict(key[1], runs.get(key[0], {}))


def plateau_lines(named: Sequence[str], runs: Mapping[str, Mapping[int, float]]) -> Iterator[str]:
    """Yield what is named of the runs that the issue asks about: PLATEAU_THREADS or more on the Fusion-io card."""
    for load in ("ro", "rw"):
        asked = {
            f"{name.partition(':')[0]}/iostat.{load}.{threads}.res": verdict(threads, of_sweep)
            for name, of_sweep in runs.items()
            if PLATEAU_SERIES in name and name.endswith(f":{load}")
            for threads in of_sweep
        }
        many = [path for path in asked if int(path.split(".")[-2]) >= PLATEAU_THREADS]
        at, past = ([path for path in many if (asked[path] == "confirmed") == is_at] for is_at in (True, False))
        fewer = [path for path in asked if path not in many]
        yield (
            f"{PLATEAU_SERIES} {load}, {PLATEAU_THREADS} threads or more: {len(many)} runs, {len(at)} at a plateau"
            f" by their logs, of which {sum(path in named for path in at)} are named; of the other {len(past)}"
            f" {sum(path in named for path in past)}, of {len(fewer)} with fewer threads"
            f" {sum(path in named for path in fewer)}"
        )


def main() -> int:
    """Explain all of them; 1 where more than FALSE_MAX are false."""
    root = Path(os.environ.get("RECORDINGS", ""))
    if not root.is_dir() or root == Path():
        sys.stderr.write("RECORDINGS names no directory: a copy of hgxl64/mariadb-benchmarks\n")
        return 2
    paths = sorted(str(path) for path in root.rglob("*iostat*") if path.is_file())
    directories = sorted({str(Path(path).parent) for path in paths if of_file(path) is not None})
    with ProcessPoolExecutor(max_workers=int(os.environ.get("WORKERS", "1"))) as pool:
        together = [one for found in pool.map(sweeps_in, directories) for one in found]
        outcomes = list(pool.map(outcome, paths, chunksize=8))
    read = [outcome for outcome in outcomes if not outcome.error]
    runs = throughputs(outcomes)
    alone = list(judged([outcome.path for outcome in outcomes if blames(outcome)], runs))
    in_sweeps = list(judged([path for one in together for path in one.at_plateau], runs))
    causes = {outcome.path: ", ".join(outcome.causes) for outcome in outcomes}
    lines = [
        f"{output}: {Path(path).relative_to(root)} {what}"
        for named, what_of in ((alone, causes), (in_sweeps, {}))
        for path, output in named
        for what in [what_of.get(path, "at the plateau of its sweep")]
    ]
    lines += [f"sweep: {one.line}" for one in together if one.at_plateau]
    lines += [
        f"not read: {Path(outcome.path).relative_to(root)}: {outcome.error}"
        for outcome in outcomes
        if outcome.error
    ]
    lines += [f"by themselves: {line}" for line in plateau_lines([path for path, _ in alone], runs)]
    lines += [f"in sweeps: {line}" for line in plateau_lines([path for path, _ in in_sweeps], runs)]
    false = len({path for path, output in (*alone, *in_sweeps) if output == "false"})
    for what, named in (("by themselves", alone), (f"in {len(together)} sweeps", in_sweeps)):
        counts = Counter(output for _, output in named)
        lines.append(
            f"{what}: {len(named)} of {len(read)} recordings are named: {counts['confirmed']} confirmed,"
            f" {counts['open']} open, {counts['false']} false"
        )
    lines.append(
        f"{len(read)} recordings read of {len(outcomes)}; false: {false} (at most {FALSE_MAX * len(read):.0f})"
    )
    sys.stdout.write("\n".join(lines) + "\n")
    return int(false > FALSE_MAX * len(read))


if __name__ == "__main__":
    sys.exit(main())
