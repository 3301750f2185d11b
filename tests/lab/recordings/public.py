"""Explain the iostat recordings of a public repository and hold each named limit against its thread sweep.

Usage: RECORDINGS=DIR make lab-recordings-public, with DIR a copy of hgxl64/mariadb-benchmarks, which is no part of
this project.

Truth comes from the other runs of a sweep, which the explanation never sees: the same directory and load with
other numbers of threads. A limit is confirmed where the device served no more with more threads, and as much in at
least one other run. It is false where it served more. Where a sweep has no other run that decides, it is left open.
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

SAME, MORE = 0.9, 1.1
"""Share of a rate from which on another run reached the same plateau, and above which it reached more."""
FALSE_MAX = 1 / 500
"""False accusations for each recording, at most."""
BLAMED = ("storage.", "instance.", "interference.")
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


def sweeps(outcomes: Sequence[Outcome]) -> Mapping[str, dict[int, Outcome]]:
    """Runs of one directory and load, by their number of threads."""
    runs: dict[str, dict[int, Outcome]] = defaultdict(dict)
    for outcome in outcomes:
        matched = _NAME.search(outcome.path)
        if matched is not None and outcome.rate is not None:
            runs[f"{Path(outcome.path).parent}:{matched['load']}"][int(matched["threads"])] = outcome
    return runs


def verdict(threads: int, sweep: Mapping[int, Outcome]) -> str:
    """`confirmed`, `false` or `open`: a limit that is named in the run with so many threads."""
    own = sweep[threads].rate or 0.0
    rates = {count: item.rate or 0.0 for count, item in sweep.items() if count != threads}
    if any(rate > MORE * own for count, rate in rates.items() if count > threads):
        return "false"
    return "confirmed" if any(SAME * own <= rate <= MORE * own for rate in rates.values()) else "open"


def verdicts(outcomes: Sequence[Outcome]) -> Iterator[tuple[Outcome, str]]:
    """Each recording that names storage, and what its sweep says."""
    runs = sweeps(outcomes)
    of_run = {item.path: (threads, sweep) for sweep in runs.values() for threads, item in sweep.items()}
    for outcome in outcomes:
        if blames(outcome):
            yield outcome, verdict(*of_run[outcome.path]) if outcome.path in of_run else "open"


def main() -> int:
    """Explain all of them; 1 where more than FALSE_MAX are false."""
    root = Path(os.environ.get("RECORDINGS", ""))
    if not root.is_dir() or root == Path():
        sys.stderr.write("RECORDINGS names no directory: a copy of hgxl64/mariadb-benchmarks\n")
        return 2
    paths = sorted(str(path) for path in root.rglob("*iostat*") if path.is_file())
    with ProcessPoolExecutor(max_workers=int(os.environ.get("WORKERS", "1"))) as pool:
        outcomes = list(pool.map(outcome, paths, chunksize=8))
    read = [outcome for outcome in outcomes if not outcome.error]
    judged = list(verdicts(outcomes))
    counts = Counter(output for _, output in judged)
    lines = [
        f"{output}: {Path(outcome.path).relative_to(root)} {', '.join(outcome.causes)}"
        for outcome, output in judged
    ]
    lines += [
        f"not read: {Path(outcome.path).relative_to(root)}: {outcome.error}"
        for outcome in outcomes
        if outcome.error
    ]
    lines.append(
        f"{len(read)} recordings read of {len(outcomes)}; {len(judged)} name storage: {counts['confirmed']}"
        f" confirmed by their sweep, {counts['open']} open, {counts['false']} false"
        f" (at most {FALSE_MAX * len(read):.0f})"
    )
    sys.stdout.write("\n".join(lines) + "\n")
    return int(counts["false"] > FALSE_MAX * len(read))


if __name__ == "__main__":
    sys.exit(main())
